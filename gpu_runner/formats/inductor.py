"""Modules that torch's Inductor makes of a reference, as text: candidates for a task that has no seed kernel.

`compiled` has Inductor generate code when it is first called, with options as tunables. `generated` holds the code that
Inductor generated, with what that code leaves open as tunables. Neither runs anything here.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from forewarp.core.errors import CandidateError
from forewarp.core.files import template
from forewarp.core.values import Candidate, Constant, DeviceKind
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats.python_text import bindings, replaced


@dataclass(frozen=True, slots=True)
class InductorOption:
    """A setting of Inductor as a tunable: the choices, and the expression of its value; `{}` stands for the name."""

    name: str
    choices: tuple[int, ...]
    setting: str
    value: str = "bool({})"


_OPTIONS: dict[DeviceKind, tuple[InductorOption, ...]] = {
    "cpu": (
        InductorOption("FREEZING", (0, 1), "freezing"),
        InductorOption("VECTOR_BITS", (0, 256, 512, 1), "cpp.simdlen", "{} or None"),
        InductorOption("MIN_CHUNK", (512, 128, 4096, 32768), "cpp.min_chunk_size", "{}"),
        InductorOption("CONTRACT", (0, 1), "cpp.enable_floating_point_contract_flag", '"fast" if {} else "off"'),
        InductorOption("OWN_LAYOUT", (0, 1), "layout_optimization", "not {}"),
        InductorOption("TILING_HEURISTICS", (1, 0), "cpp.enable_tiling_heuristics"),
    ),
    "cuda": (
        InductorOption("COORDINATE_DESCENT", (0, 1), "coordinate_descent_tuning"),
        InductorOption("FREEZING", (0, 1), "freezing"),
        InductorOption("PERSISTENT", (1, 0), "triton.persistent_reductions"),
        InductorOption("ND_TILING", (0, 1), "triton.prefer_nd_tiling"),
        InductorOption("OWN_LAYOUT", (0, 1), "layout_optimization", "not {}"),
    ),
}
"""Options to try by kind of device, Inductor's own choice first. 0 bits leave the vector's width to it.

`max_autotune` is not among them: in a cell, which has no helpers, its templates compile one after another, for minutes.
"""


def compiled(reference: str, kind: DeviceKind, note: str = "", *, gradients: bool = False) -> Candidate:
    """Return the reference as a module that Inductor compiles at its first call, with its options as tunables.

    `note` says why there is no module of generated code beside it. It is compiled for inference, or for `gradients`.
    """
    fixed = ("FREEZING",) if gradients else ()  # weights are constants in inference
    options = [replace(o, choices=o.choices[:1]) if o.name in fixed else o for o in _OPTIONS[kind]]
    about = f"# No module of Inductor's generated code: {' '.join(note.split())}\n" if note else ""
    lines = [f'    "{o.setting}": {o.value.format(o.name)},' for o in options]
    text = template(__file__, "templates/compiled.py.txt")
    when = "with gradients" if gradients else "under torch.no_grad()"
    body = about + text.substitute(options="\n".join(lines), when=when, own=not gradients)
    return _module(reference, {o.name: o.choices for o in options}, body, "compiled by torch's Inductor")


def _module(
    reference: str, tunables: Mapping[str, Sequence[int]], body: str, how: str, constraints: Sequence[str] = ()
) -> Candidate:
    """Return a module of tunables, reference, and the `body` that makes `ModelNew`; raises `Unfit` for taken names."""
    if taken := sorted(tunables.keys() & bindings(reference).keys()):
        raise Unfit(f"the reference defines {', '.join(taken)}, which is to be a tunable")
    table = "".join(f"{name} = {list(choices)}\n" for name, choices in tunables.items())
    constants = "".join(f"{name} = {choices[0]}\n" for name, choices in tunables.items())
    within = f"constraints = {json.dumps(constraints)}\n" if constraints else ""
    future, text = _without_future(reference)
    source = (
        f'"""forewarp\n# The reference, {how}; the choices of the constants further down.\n'
        f'{within}[tunables]\n{table}"""\n\n{future}{text.strip()}\n\n\n{constants}{body}'
    )
    return candidates.from_source(source, "python")


def _without_future(reference: str) -> tuple[str, str]:
    """Return the reference's imports from `__future__`, which have to come first, and the rest of it."""
    lines = reference.splitlines(keepends=True)
    futures: list[str] = []
    for node in ast.parse(reference).body:
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            futures.append(ast.unparse(node) + "\n")
            first, last = node.lineno - 1, node.end_lineno or node.lineno
            lines[first:last] = ["\n"] * (last - first)
    return "".join(futures), "".join(lines)


@dataclass(frozen=True, slots=True)
class Generated:
    """Code that Inductor generated for a reference on given inputs, and what belongs to it.

    `arguments` are the expressions of what the code's `call` takes, over `self` and forward's `parameters`; `described`
    are the inputs, as the module's `_described` returns them; `result` is the expression of forward's result over
    `outputs`, which `call` returns. `threads` are those that the code counts on, `configurations` those of its Triton
    kernels, by name. `note` says how the reference was rewritten, which leaves `tunables` open within the
    `constraints`.
    """

    code: str
    version: str
    capability: str
    constants: Mapping[str, Constant]
    parameters: tuple[str, ...]
    arguments: tuple[str, ...]
    described: tuple[str, ...]
    result: str
    training: bool
    threads: int
    configurations: Mapping[str, Mapping[str, int]]
    note: str = ""
    tunables: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])
    constraints: tuple[str, ...] = ()


class Unfit(CandidateError):
    """Inductor's code cannot be made a module; the message says why."""


_ENDS = re.compile(r"^(?:def get_args\(|def benchmark_compiled_module\(|if __name__ == )", re.MULTILINE)
_PARALLEL = re.compile(r"#pragma omp parallel(?: num_threads\(\d+\))?$", re.MULTILINE)
_HEURISTIC = re.compile(
    r"@triton_heuristics\.(?:pointwise|(?:persistent_|cooperative_)?reduction)\(\n(.*?)^\)\n@triton\.jit",
    re.MULTILINE | re.DOTALL,
)
_KEPT = ("filename", "triton_meta", "inductor_meta")
"""Arguments of Inductor's heuristics that `fixed_config` takes, too."""
_MOST_KERNELS = 4
"""Triton kernels of which blocks and warps are tunables; the others keep what Inductor found."""

_CAPABILITY: dict[DeviceKind, str] = {
    "cpu": "torch.backends.cpu.get_cpu_capability()",
    "cuda": "torch.cuda.get_device_capability()",
}


def generated(reference: str, kind: DeviceKind, found: Generated) -> Candidate:
    """Return the reference as a module of generated code, with what that leaves open as tunables; raises `Unfit`.

    On a CPU these are the threads and contraction; on a GPU, blocks, warps and stages of the Triton kernels.
    """
    end = _ENDS.search(found.code)
    code = found.code[: end.start()] if end else found.code
    _check_names(reference, code)
    tunables: dict[str, Sequence[int]] = dict(found.tunables)
    if kind == "cpu":
        code = _open_threads(code, found.threads, tunables)
    else:
        code = _open_triton(code, found.configurations, tunables)
    values = {
        "constants": "".join(f"{name} = {value!r}\n" for name, value in found.constants.items()),
        "version": found.version,
        "here": _CAPABILITY[kind],
        "capability": found.capability,
        "names": repr(tuple(n for n in tunables if n != "CONTRACT")),
        "contract": "CONTRACT" if "CONTRACT" in tunables else "0",
        "code": code.strip(),
        "described": "".join(f"{d}, " for d in found.described).strip(),
        "training": found.training,
        "mode": "training" if found.training else "evaluation",
        "kind": kind,
        "parameters": "".join(f"{p}, " for p in found.parameters).strip(),
        "arguments": ", ".join(found.arguments),
        "result": found.result,
    }
    body = template(__file__, "templates/generated.py.txt").substitute(values)
    note = f", {found.note}" if found.note else ""
    return _module(reference, tunables, body, f"by the code of torch's Inductor{note}", found.constraints)


def _open_threads(code: str, threads: int, tunables: dict[str, Sequence[int]]) -> str:
    """Make the threads of C++ kernels a tunable; more than the code counts on would write beyond its arrays."""

    def opened(text: str, name: str) -> str:
        return _PARALLEL.sub("#pragma omp parallel num_threads(@THREADS@)", text)

    changed = _open_kernels(code, "cpp_pybinding", opened)
    if changed != code:
        fewer = (1 << n for n in range(threads.bit_length()) if 1 << n < threads)
        tunables |= {"THREADS": (threads, *sorted(fewer, reverse=True)), "CONTRACT": (0, 1)}
    return changed


def _open_triton(code: str, configurations: Mapping[str, Mapping[str, int]], tunables: dict[str, Sequence[int]]) -> str:
    """Fix Triton kernels to the configurations they ran with, by `fixed_config`; those of the first are tunables."""
    opened_before = 0

    def opened(text: str, name: str) -> str:
        nonlocal opened_before
        heuristic, configuration = _HEURISTIC.search(text), configurations.get(name)
        if heuristic is None or not configuration:
            return text
        # Blocks that wait for each other are those of a row, which are neighbours, not all of a launch.
        kept = _keywords(re.sub(r"'launch_cooperative_grid': True,? ?", "", f"f({heuristic[1]})"))
        entries: list[str] = []
        for key, value in configuration.items():
            shown = str(value)
            pipelined = key != "num_stages" or re.search(r"^ *for .* in ", text, re.MULTILINE)
            if opened_before < _MOST_KERNELS and pipelined:
                tunable = f"K{opened_before}_{key.removeprefix('num_').upper()}"
                tunables[tunable] = _around(key, value)
                shown = f"@{tunable}@"
            entries.append(f'"{key}": {shown}')
        opened_before += 1
        fixed = ",\n    ".join([f"{{{', '.join(entries)}}}", *(f"{k}={v}" for k, v in kept.items())])
        decorator = f"@triton_heuristics.fixed_config(\n    {fixed},\n)\n@triton.jit"
        return text[: heuristic.start()] + decorator + text[heuristic.end() :]

    return _open_kernels(code, "triton", opened)


def _keywords(call: str) -> dict[str, str]:
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    return {k.arg: ast.unparse(k.value) for k in node.keywords if k.arg in _KEPT}


def _around(key: str, value: int) -> tuple[int, ...]:
    """Return a kernel's own value and its neighbours by powers of two, within what Triton takes."""
    least, most = {"num_warps": (1, 32), "num_stages": (1, 5), "RSPLIT": (1, 64)}.get(key, (1, 8192))
    if key == "num_stages":
        return tuple(dict.fromkeys((value, *(s for s in (1, 2, 3, 4) if s != value))))
    near = (value // 2, value * 2, value // 4, value * 4)
    return tuple(dict.fromkeys((value, *(n for n in near if least <= n <= most))))


def _open_kernels(code: str, function: str, opened: Callable[[str, str], str]) -> str:
    """Return code with its kernels' texts, which `async_compile.<function>` takes, changed by `opened(text, name)`."""
    changes: list[tuple[ast.expr, str]] = []
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(func=ast.Attribute(value=ast.Name(id="async_compile"), attr=attr), args=arguments),
            ) if attr == function:
                texts = [a for a in arguments if isinstance(a, ast.Constant) and isinstance(a.value, str)]
                text = max(texts, key=lambda a: len(str(a.value)), default=None)
                written = ast.get_source_segment(code, text) if text is not None else None
                if text is not None and written is not None and (changed := opened(written, name)) != written:
                    changes.append((text, f"_chosen({changed})"))
            case _:
                pass
    return replaced(code, changes)


def _check_names(reference: str, code: str) -> None:
    own, theirs = bindings(reference), bindings(code)
    clashes = sorted(n for n in own.keys() & theirs.keys() if own[n] != theirs[n])
    if clashes:
        raise Unfit(f"the reference and Inductor's code both define {', '.join(clashes)}")
