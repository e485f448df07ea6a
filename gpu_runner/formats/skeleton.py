"""Kernels to fill in: launch plans that fit a task, and functions with the right parameters that compute nothing."""

from __future__ import annotations

import ast
import json
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from forewarp.core.values import Backward, Language, Signature, Task, TensorSpec
from forewarp.gpu_runner.formats import c_types

_TAKEN = {"n", "run", "CHUNK", "THREADS", "BLOCK"} | {
    *("int", "long", "float", "double", "char", "bool", "void", "const", "auto", "register", "signed")
}
"""Names that the text uses for something else, or that C reserves."""
_BODIES = {
    "cpp": """\
#include <cstdint>

extern "C" void run({parameters}) {{
#pragma omp parallel for schedule(static, CHUNK)
    for (int64_t i = 0; i < n; i++) {output}[i] = 0;  // replace this
}}
""",
    "cuda": """\
{include}extern "C" __global__ void run({parameters}) {{
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) {output}[i] = 0;  // replace this
}}
""",
    "triton": """\
import triton
import triton.language as tl


@triton.jit
def run({parameters}, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store({output} + i, tl.zeros([BLOCK], tl.int32), mask=i < n)  # replace this
""",
}
_TUNABLES = {
    "cpp": ("CHUNK", [4096, 1024, 16384]),
    "cuda": ("THREADS", [256, 128, 512]),
    "triton": ("BLOCK", [1024, 512, 2048]),
}


@dataclass(frozen=True, slots=True)
class PlanNames:
    """Names that a plan may give to what a task passes; `params` are by `state_dict` key."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    params: Mapping[str, str]
    numbers: tuple[str, ...]

    @staticmethod
    def of(task: Task, signature: Signature) -> PlanNames:
        """Return the parameters of the reference's `forward` as names, where there are as many of them as inputs."""
        backward = signature.backward or Backward((), (), ())
        count = len(signature.inputs) + len(signature.scalars) - len(backward.upstream)
        own = _forward(task.reference)
        own = own if len(own) == count else [f"in{i}" for i in range(count)]
        results = len(signature.outputs) - len(backward.inputs) - len(backward.params)
        several = len(signature.outputs if signature.backward is None else backward.upstream) > 1
        inputs = _distinct([*own, *(f"grad_out{s.name if several else ''}" for s in backward.upstream)], _TAKEN)
        tensors = [name for i, name in enumerate(inputs) if str(i) not in signature.scalars]
        gradients = [f"grad_{name}" for name in (*(tensors[i] for i in backward.inputs), *backward.params)]
        outputs = [f"out{i}" if several else "out" for i in range(results)]
        made = _distinct([*outputs, *gradients], {*_TAKEN, *inputs})
        outputs = [tensors[signature.aliases[str(i)]] if str(i) in signature.aliases else n for i, n in enumerate(made)]
        keys = [p.name for p in signature.params]
        params = _distinct([re.sub(r"\W", "_", key) for key in keys], {*_TAKEN, *inputs, *outputs})
        numbers = [name for i, name in enumerate(inputs) if str(i) in signature.scalars]
        return PlanNames(
            tuple(inputs),
            tuple(outputs),
            dict(zip(keys, params, strict=True)),
            (*numbers, *(f"init{i}" for i in signature.init)),
        )

    def tensors(self, signature: Signature) -> list[str]:
        return [name for i, name in enumerate(self.inputs) if str(i) not in signature.scalars]

    def buffers(self, signature: Signature) -> dict[str, TensorSpec]:
        """Return all tensors by name: inputs, parameters, outputs; one that is input and output once."""
        held = [*self.tensors(signature), *self.params.values(), *self.outputs]
        return dict(zip(held, (*signature.inputs, *signature.params, *signature.outputs), strict=True))


def _forward(reference: str) -> list[str]:
    """Return the parameters of `Model.forward`, which may be inherited, without `self`; none where there is none."""
    classes = {node.name: node for node in ast.parse(reference).body if isinstance(node, ast.ClassDef)}
    node = classes.pop("Model", None)
    while node is not None:
        for inner in node.body:
            if isinstance(inner, ast.FunctionDef) and inner.name == "forward":
                return [a.arg for a in inner.args.args[1:]]
        bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
        node = classes.pop(bases[0], None) if bases else None
    return []


def _distinct(names: Sequence[str], taken: set[str]) -> list[str]:
    """Return the names with an underscore behind those that are taken or no names at all."""
    found: list[str] = []
    for name in names:
        name = name if name.isidentifier() and name.isascii() else f"p_{re.sub(r'[^A-Za-z0-9_]', '_', name)}"
        while name in taken or name in found or keyword.iskeyword(name) or re.fullmatch(r"init\d+", name):
            name += "_"
        found.append(name)
    return found


def skeleton(task: Task, signature: Signature, language: Language) -> str:
    """Return a kernel that compiles for the task and writes zeros to its first output; for all languages but Python."""
    names = PlanNames.of(task, signature)
    first = names.outputs[0]
    args = [*names.buffers(signature), *names.numbers, f"numel({first}):i64"]
    lines = ["format = 1", f"inputs = {_listed(names.inputs)}", f"outputs = {_listed(names.outputs)}"]
    if names.params:
        lines += ["", "[params]", *(f"{local} = {json.dumps(key)}" for key, local in names.params.items())]
    tunable, values = _TUNABLES[language]
    lines += ["", "[tunables]", f"{tunable} = {values}"]
    lines += ["", "[[launch]]", 'kernel = "run"', f"args = {_listed(args)}"]
    if language != "cpp":
        lines += [f'grid = ["cdiv(numel({first}), {tunable})"]']
    if language == "cuda":
        lines += [f'block = ["{tunable}"]']
    opening, closing = ('"""forewarp', '"""\n') if language == "triton" else ("/*forewarp", "*/")
    body = _BODIES[language].format(
        parameters=_parameters(names, signature, language), output=first, include=_includes(signature, language)
    )
    return "\n".join([opening, *lines, closing, body])


def _listed(names: Iterable[str]) -> str:
    return json.dumps(list(names))


def _parameters(names: PlanNames, signature: Signature, language: Language) -> str:
    if language == "triton":
        return ", ".join([*names.buffers(signature), *names.numbers, "n"])
    written = {*names.outputs, *(names.tensors(signature)[i] for i in signature.written)}
    found = [
        f"{'' if name in written else 'const '}{c_types.element(spec.dtype, language) or 'void'}* {name}"
        for name, spec in names.buffers(signature).items()
    ]
    values = [*signature.scalars.values(), *signature.init.values()]
    for name, value in zip(names.numbers, values, strict=True):
        found.append(f"{c_types.number('f32' if isinstance(value, float) else 'i32', language)} {name}")
    return ", ".join([*found, f"{c_types.number('i64', language)} n"])


def _includes(signature: Signature, language: Language) -> str:
    held = {t.dtype for t in (*signature.inputs, *signature.params, *signature.outputs)}
    headers = [h for dtype, h in (("float16", "cuda_fp16.h"), ("bfloat16", "cuda_bf16.h")) if dtype in held]
    return "".join(f"#include <{h}>\n" for h in headers) + "\n" * bool(headers) if language == "cuda" else ""
