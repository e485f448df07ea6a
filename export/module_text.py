"""The text of an exported module: reference, kernel, judged shapes, and the parts that hold them together."""

from __future__ import annotations

import ast
import pprint
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forewarp.core.errors import CandidateError
from forewarp.core.files import literal, template
from forewarp.core.values import DEVICE_ONLY, Candidate, Constant, Signature, Target, Task
from forewarp.export import drop_in
from forewarp.export.bake import bake
from forewarp.gpu_runner.compilers import cpp, nvcc
from forewarp.gpu_runner.compilers.nvrtc import device_text, exact_architecture
from forewarp.gpu_runner.formats import plan as plans
from forewarp.gpu_runner.formats.plan import ResolvedLaunch, ResolvedPlan
from forewarp.gpu_runner.formats.python_text import bindings, replaced

_PARTS = Path(drop_in.__file__).parent
_IMPORTS = ast.Import, ast.ImportFrom
# What is not a type of its own to Triton's run time: whole numbers that fit 32 bits, and all floats, are narrow there.
_WIDE = {"i64": '"i64"', "f64": '"fp64"'}
_MODES = re.compile(r"\btraining\b|dropout|batch_?norm|instance_?norm", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ExportedShape:
    """A shape on which the kernel was found right, with the constants of its workload."""

    name: str
    constants: Mapping[str, Constant]
    signature: Signature


@dataclass(frozen=True, slots=True)
class Winning:
    """A kernel with its task, the device it was measured on, and the shapes it was right on."""

    task: Task
    target: Target
    candidate: Candidate
    judged: tuple[ExportedShape, ...]


def of(winning: Winning, evidence: Sequence[str]) -> str:
    """Return the module that stands in for the reference, without forewarp; raises `CandidateError`."""
    candidate = winning.candidate
    if candidate.language not in DEVICE_ONLY:
        return "".join(f"# {line}".rstrip() + "\n" for line in evidence) + "\n" + bake(candidate)
    if winning.task.gradients:
        raise CandidateError(
            "the kernel gives gradients, so that it stands in for no module",
            hint="export the kernel of the task without gradients as a package, and pass this one as --backward",
        )
    dispatch = dispatch_of(winning)
    reference, face = _faces(winning)
    kernel = dispatch.kernel if candidate.language == "triton" else ""
    check_names({"the reference": reference, "the kernel": kernel, "the module itself": dispatch.names})
    return joined(evidence, [*with_constants(winning, reference), kernel, *dispatch.parts, face])


@dataclass(frozen=True, slots=True)
class Dispatch:
    """The kernel's text, and the parts that run it: the guard, what compiles and launches it, and the judged shapes."""

    kernel: str
    parts: tuple[str, ...]
    cases: tuple[Mapping[str, Any], ...]

    @property
    def names(self) -> str:
        return "".join(self.parts[:-1]) + TABLE_NAMES


def dispatch_of(winning: Winning, source: Expression | None = None) -> Dispatch:
    """Return what runs the kernel, whose text is `source` if given; raises `CandidateError`."""
    candidate = winning.candidate
    if candidate.language in DEVICE_ONLY and any(j.signature.state for j in winning.judged):
        raise CandidateError("a call of the reference changes its buffers, and the kernel would leave them as they are")
    parsed = plans.parse(candidate)
    resolved = [(j, None) for j in winning.judged]
    if candidate.language in DEVICE_ONLY:
        resolved = [(j, plans.resolve(parsed, j.signature, candidate.tunables)) for j in winning.judged]
    kernel = _kernel(candidate, resolved)
    if candidate.language == "cuda" and not parsed.host_code:
        kernel = device_text(kernel)
    seen = _seen_by_model(winning.task)
    cases = tuple(_case(winning, j, r, seen, kernel) for j, r in resolved)
    launcher = _launcher(winning, source, host_code=parsed.host_code)
    return Dispatch(kernel, (part("guard.py"), launcher, _tables(winning, cases)), cases)


def with_constants(winning: Winning, reference: str) -> list[str]:
    """Return the reference's text, and the constants of the first workload, those that a module starts out with."""
    chosen = winning.judged[0].constants.items() if winning.task.format == "kernelbench" else ()
    return [reference, *(f"{k} = {v!r}" for k, v in chosen)]


def joined(evidence: Sequence[str], texts: Sequence[str], imports: Sequence[str] = ()) -> str:
    """Return one module of several texts; imports come first, each once."""
    lines = dict.fromkeys([*(line for text in texts for line in _imports(text)), *imports])
    body = "\n\n\n".join(part for part in map(_body, texts) if part)
    return f"{docstring(evidence)}\n\nfrom __future__ import annotations\n\n{chr(10).join(lines)}\n\n\n{body}\n"


class Expression(str):
    """An expression, where another text would be written as a string."""

    __slots__ = ()


TABLE_NAMES = "\n_CASES = _GUARD = _WRITTEN = None\n"


def _faces(winning: Winning) -> tuple[str, str]:
    """Return the reference's text, "" where it is a file of the task's own, and what callers see."""
    if winning.task.format == "kernelbench":
        return winning.task.reference, template(__file__, "templates/model_new.py.txt").template
    return "", template(__file__, "templates/submission.py.txt").template


def _kernel(candidate: Candidate, resolved: Sequence[tuple[ExportedShape, ResolvedPlan | None]]) -> str:
    """Return the kernel's text, with the types of a Triton kernel's wide numbers, and a module's chosen tunables."""
    if candidate.language == "python":
        return bake(candidate)
    source = plans.without_block(candidate.source).lstrip("\n")
    if candidate.language != "triton":
        return source
    wide: dict[tuple[str, str], str] = {}
    for _, plan in resolved:
        for launch in plan.launches if plan else ():
            names = _parameters(source, launch.kernel)[0]
            wide |= {
                (launch.kernel, name): _WIDE[a.kind]
                for name, a in zip(names, launch.args, strict=True)
                if a.kind in _WIDE
            }
    plain = [(a, (f.name, a.arg)) for f, a in _arguments(source) if a.annotation is None]
    return replaced(source, [(a, f"{a.arg}: {wide[name]}") for a, name in plain if name in wide])


def _arguments(source: str) -> list[tuple[ast.FunctionDef, ast.arg]]:
    functions = [n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)]
    return [(f, a) for f in functions for a in (*f.args.posonlyargs, *f.args.args)]


def _parameters(source: str, kernel: str) -> tuple[list[str], list[str]]:
    """Return the names of a Triton kernel's plain and of its constexpr parameters."""
    found = [a for f, a in _arguments(source) if f.name == kernel]
    fixed = [a.arg for a in found if a.annotation is not None and "constexpr" in ast.unparse(a.annotation)]
    return [a.arg for a in found if a.arg not in fixed], fixed


def _launcher(winning: Winning, source: Expression | None, *, host_code: bool) -> str:
    """Return the part that compiles and launches, with what it needs to know filled in."""
    candidate, arch = winning.candidate, winning.target.arch
    if candidate.language == "triton":
        return part("jit.py")
    if candidate.language == "python":
        return filled(part("module.py"), {"_TRAINING": winning.task.mode == "train"})
    text = source or plans.without_block(candidate.source).lstrip("\n")
    if candidate.language == "cuda" and not host_code:
        return filled(part("nvrtc.py"), {"_SOURCE": source or device_text(text), "_ARCH": exact_architecture(arch)})
    values: dict[str, Any] = {"_SOURCE": text, "_FLAGS": cpp.FLAGS, "_AFTER": ("-lm",)}
    if host_code:
        places = ("nvcc", "/usr/local/cuda/bin/nvcc")
        values |= {"_SUFFIX": ".cu", "_COMPILERS": places, "_FLAGS": (*nvcc.FLAGS, nvcc.architecture(arch))}
        values["_AFTER"] = ()
    return filled(part("native.py"), values)


def part(name: str) -> str:
    return (_PARTS / name).read_text(encoding="utf-8")


def filled(text: str, values: Mapping[str, Any]) -> str:
    """Return a part with other values for its constants, as far as it has them."""
    lines = text.splitlines()
    for node in ast.parse("\n".join(lines)).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id in values:
            value = values[target.id]
            lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or 0) - node.lineno + 1)
            lines[node.lineno - 1] = f"{target.id} = {_written(value)}"
    return "\n".join(lines) + "\n"


def _written(value: Any) -> str:
    """Return a value as a module's text has it; an expression as it is."""
    if isinstance(value, str) and not isinstance(value, Expression):
        return literal(value)
    return str(value) if isinstance(value, Expression) else repr(value)


def _case(
    winning: Winning, judged: ExportedShape, plan: ResolvedPlan | None, seen: set[str], kernel: str
) -> dict[str, Any]:
    """Return what the guard has to know of one shape, and what a launch has."""
    s, task = judged.signature, winning.task
    tensors = iter(s.inputs)
    values = [
        (type(s.scalars[str(i)]).__name__, s.scalars[str(i)]) if str(i) in s.scalars else _spec(next(tensors))
        for i in range(len(s.inputs) + len(s.scalars))
    ]
    guarded = {
        "name": judged.name,
        "values": tuple(values),
        "constants": {k: v for k, v in judged.constants.items() if k in seen},
        "init": {int(i): v for i, v in s.init.items()},
        "state": {p.name: _spec(p) for p in s.params},
        "training": task.mode == "train" if has_modes(task) else None,
        "writes": bool(s.written),
    }
    if plan is None:
        return guarded
    return guarded | {
        "inputs": plan.inputs,
        "params": dict(plan.params),
        "outputs": {name: _spec(o) for name, o in zip(plan.outputs, s.outputs, strict=True)},
        "aliases": dict(plan.aliases),
        "scratch": {b.name: _spec(b) for b in plan.scratch},
        "defines": dict(plan.constants),
        "launches": [_launch(launch, plan, kernel) for launch in plan.launches],
    }


def has_modes(task: Task) -> bool:
    """Return whether the reference may compute something else in training than in evaluation."""
    return task.format == "kernelbench" and bool(_MODES.search(task.reference))


def _spec(tensor: Any) -> tuple[str, tuple[int, ...]]:
    return tensor.dtype, tuple(tensor.shape)


def _launch(launch: ResolvedLaunch, plan: ResolvedPlan, kernel: str) -> dict[str, Any]:
    values = {name: (m.of, m.dtype, m.shape, m.box, m.swizzle) for name, m in plan.maps.items()}
    args = [(a.kind, values.get(a.name, a.name) if a.kind in ("ptr", "map") else a.value) for a in launch.args]
    found: dict[str, Any] = {"kernel": launch.kernel, "args": args}
    if plan.language == "cuda":
        found |= {
            "grid": launch.grid,
            "block": launch.block,
            "shared": launch.shared,
            "cooperative": launch.cooperative,
        }
    if plan.language == "triton":
        names, fixed = _parameters(kernel, launch.kernel)
        options = {n: plan.constants[n] for n in fixed if n in plan.constants}
        options |= {"num_warps": launch.num_warps, "num_stages": launch.num_stages}
        found |= {"grid": launch.grid, "names": names, "options": options}
    return found


def _seen_by_model(task: Task) -> set[str]:
    """Return the names that a reference uses elsewhere than in making inputs: they mean more than a size."""
    if task.format != "kernelbench":
        return set()
    makers = ("get_inputs", "get_init_inputs")
    nodes = [n for n in ast.parse(task.reference).body if getattr(n, "name", "") not in makers]
    return {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def _tables(winning: Winning, cases: Sequence[Mapping[str, Any]]) -> str:
    listed = pprint.pformat(cases, width=118, sort_dicts=False, compact=True)
    device = {"kind": winning.target.kind, "name": winning.target.name}
    numbers = "from math import inf, nan\n\n" if re.search(r"[^'\w](?:inf|nan)\b", listed) else ""
    prepare = "_prepare"
    if winning.candidate.language in DEVICE_ONLY:
        prepare = "lambda case, device: _on_buffers(case, _prepare(case, device))"
    return f"{numbers}_CASES = {listed}\n_GUARD = _Guard(_CASES, {device!r}, {prepare})\n"


def docstring(evidence: Sequence[str]) -> str:
    text = "\n".join(evidence).replace("\\", "\\\\").replace('"""', "'''")
    return f'"""{text}\n"""'


def _imports(text: str) -> list[str]:
    """Return the import lines at a text's top level, but for those of the future."""
    nodes = [n for n in ast.parse(text).body if isinstance(n, _IMPORTS)]
    return [ast.unparse(n) for n in nodes if not (isinstance(n, ast.ImportFrom) and n.module == "__future__")]


def _body(text: str) -> str:
    """Return a text without its docstring and its imports, as far as these stand on lines of their own."""
    lines, nodes = text.splitlines(), ast.parse(text).body
    others = {n.lineno for n in nodes if not isinstance(n, _IMPORTS)}
    for index, node in reversed(list(enumerate(nodes))):
        docstring = index == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if docstring or (isinstance(node, _IMPORTS) and node.lineno not in others):
            del lines[node.lineno - 1 : node.end_lineno]
    return "\n".join(line for line in lines if not line.startswith("# pyright:")).strip("\n")


def check_names(texts: Mapping[str, str]) -> None:
    """Raise `CandidateError` where two parts mean different things by one name."""
    known: dict[str, tuple[str, str]] = {}
    for place, text in texts.items():
        for name, meaning in bindings(text).items():
            other, before = known.setdefault(name, (place, meaning))
            if other != place and meaning != before:
                raise CandidateError(
                    f"{other} and {place} both define {name!r}", hint="rename it in the kernel, or pass another --name"
                )
