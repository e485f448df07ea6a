"""The device-only candidate format: kernel source that opens with its launch plan.

The plan is a TOML table in the file's first comment (`/*forewarp … */`) or, for Triton, in its docstring
(`\"\"\"forewarp … \"\"\"`). `docs/tasks.md` is the reference, with one complete example per language.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from forewarp.core.errors import CandidateError
from forewarp.core.values import Candidate, Language, Signature, TensorSpec
from forewarp.gpu_runner.formats.expressions import Number, evaluate, whole
from forewarp.gpu_runner.formats.plan_table import LaunchPlan, PlannedLaunch, read

_BLOCK = re.compile(r'\A\s*(?:/\*|"""|\'\'\')\s*forewarp\s*\n(.*?)(?:\*/|"""|\'\'\')', re.DOTALL)
_INTEGER_BITS = {"i32": 31, "i64": 63}
_ARG_TYPES = (*_INTEGER_BITS, "f32", "f64")


@dataclass(frozen=True, slots=True)
class Argument:
    """One kernel argument: a buffer by name (kind "ptr") or a number with its C type."""

    kind: str
    name: str
    value: Number = 0
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class ResolvedLaunch:
    """One launch with every number worked out for one workload."""

    kernel: str
    args: tuple[Argument, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    num_warps: int
    num_stages: int


@dataclass(frozen=True, slots=True)
class ResolvedPlan:
    """A plan for one workload and one choice of tunables: what a worker needs, and no expression left in it.

    `aliases` names the outputs that are a written input's buffer, with that input.
    """

    workload: str
    language: Language
    constants: Mapping[str, Number]
    inputs: tuple[str, ...]
    params: Mapping[str, str]
    outputs: tuple[str, ...]
    scratch: tuple[TensorSpec, ...]
    launches: tuple[ResolvedLaunch, ...] = field(default=())
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def programs(self) -> int:
        """Program instances of all launches, which are blocks in CUDA."""
        return sum(math.prod(launch.grid) for launch in self.launches)


def has_block(source: str) -> bool:
    """Return whether the source opens with a launch plan, right or wrong."""
    return _BLOCK.match(source) is not None


def without_block(source: str) -> str:
    """Return the source without the launch plan that it opens with."""
    match = _BLOCK.match(source)
    return source[match.end() :] if match else source


def parse(candidate: Candidate) -> LaunchPlan:
    """Read the launch plan of a device-only candidate; raises `CandidateError` that says what to change."""
    match = _BLOCK.match(candidate.source)
    if match is None:
        opening = '"""forewarp' if candidate.language == "triton" else "/*forewarp"
        raise CandidateError(
            "the source has no launch plan",
            hint=f"open the file with {opening}, a TOML launch plan and the closing mark, or put the plan of a .cu or "
            ".cpp file beside it, as a .toml of the same name (docs/tasks.md)",
        )
    try:
        table = tomllib.loads(match.group(1))
    except tomllib.TOMLDecodeError as e:
        raise CandidateError(
            f"the launch plan is not valid TOML: {e}", hint='strings need quotes, e.g. rows = "x.shape[0]"'
        ) from None
    return read(table, candidate.language)


def resolve(plan: LaunchPlan, signature: Signature, tunables: Mapping[str, int]) -> ResolvedPlan:
    """Work out every expression of the plan for one workload; raises `CandidateError`."""
    plan.check(tunables)
    chosen = plan.defaults() | dict(tunables)
    buffers = _bind(plan, signature)
    aliases = _aliases(plan, signature)
    names: dict[str, Number | tuple[int, ...]] = {n: t.shape for n, t in buffers.items()}
    names |= {plan.inputs[int(i)]: v for i, v in signature.scalars.items()}
    names |= {f"init{i}": v for i, v in signature.init.items()} | chosen
    for name, expression in plan.let.items():
        names[name] = evaluate(expression, names, f"let.{name}")
    constants: dict[str, Number] = dict(chosen)
    for name, expression in plan.constants.items():
        constants[name] = names[name] = evaluate(expression, names, f"constants.{name}")
    scratch = tuple(
        TensorSpec(s.name, tuple(_extent(d, names, f"scratch.{s.name}.shape") for d in s.shape), s.dtype)
        for s in plan.scratch
    )
    buffers |= {s.name: s for s in scratch}
    launches = tuple(_resolve_launch(e, i, names, buffers, plan.language) for i, e in enumerate(plan.launches))
    return ResolvedPlan(
        workload=signature.workload,
        language=plan.language,
        constants=constants,
        inputs=plan.inputs,
        params=plan.params,
        outputs=plan.outputs,
        scratch=scratch,
        launches=launches,
        aliases=aliases,
    )


def _bind(plan: LaunchPlan, signature: Signature) -> dict[str, TensorSpec]:
    """Map the plan's buffer names to the task's tensors."""
    count = len(signature.inputs) + len(signature.scalars)
    if len(plan.inputs) != count:
        raise CandidateError(f"inputs names {len(plan.inputs)} values, but get_inputs() of the task returns {count}")
    if len(plan.outputs) != len(signature.outputs):
        raise CandidateError(
            f"outputs names {len(plan.outputs)} tensors, but the task's forward returns {len(signature.outputs)}"
        )
    tensors = iter(signature.inputs)
    bound = {name: next(tensors) for i, name in enumerate(plan.inputs) if str(i) not in signature.scalars}
    keyed = {p.name: p for p in signature.params}
    for local, key in plan.params.items():
        if key not in keyed:
            raise CandidateError(
                f"params.{local}: the model has no parameter or buffer {key!r}",
                hint=f"it has {sorted(keyed) or 'none'}",
            )
        bound[local] = keyed[key]
    return bound | dict(zip(plan.outputs, signature.outputs, strict=True))


def _aliases(plan: LaunchPlan, signature: Signature) -> dict[str, str]:
    """Name the outputs that share an input's buffer; only those may share its name."""
    tensors = [name for i, name in enumerate(plan.inputs) if str(i) not in signature.scalars]
    aliases = {plan.outputs[int(o)]: tensors[i] for o, i in signature.aliases.items()}
    for name in set(plan.inputs) & set(plan.outputs):
        if aliases.get(name) != name:
            raise CandidateError(
                f"the launch plan gives the name {name!r} to two things",
                hint="an output has an input's name only where the reference returns that input, having written to it",
            )
    return aliases


def _resolve_launch(
    launch: PlannedLaunch,
    index: int,
    names: Mapping[str, Number | tuple[int, ...]],
    buffers: Mapping[str, TensorSpec],
    language: Language,
) -> ResolvedLaunch:
    where = f"launch[{index}]"

    def number(expression: str | Number, key: str) -> int:
        value = whole(expression, names, f"{where}.{key}")
        if value < 0:
            raise CandidateError(f"{where}.{key} is {value}; it must not be negative")
        return value

    def triple(expressions: Sequence[str | Number], key: str) -> tuple[int, int, int]:
        if len(expressions) > 3:
            raise CandidateError(f"{where}.{key} has {len(expressions)} extents; three is the most")
        x, y, z = (*(_extent(e, names, f"{where}.{key}") for e in expressions), 1, 1, 1)[:3]
        return x, y, z

    resolved = ResolvedLaunch(
        launch.kernel,
        tuple(_argument(a, f"{where}.args", names, buffers) for a in launch.args),
        triple(launch.grid, "grid"),
        triple(launch.block, "block"),
        number(launch.shared, "shared"),
        number(launch.num_warps, "num_warps"),
        number(launch.num_stages, "num_stages"),
    )
    threads = resolved.block[0] * resolved.block[1] * resolved.block[2]
    if language == "cuda" and threads > 1024:
        raise CandidateError(f"{where}.block has {threads} threads; a block holds at most 1024")
    if language == "triton" and resolved.num_warps not in (1, 2, 4, 8, 16, 32):
        raise CandidateError(f"{where}.num_warps is {resolved.num_warps}; it must be a power of two from 1 to 32")
    return resolved


def _extent(expression: str | Number, names: Mapping[str, Number | tuple[int, ...]], where: str) -> int:
    value = whole(expression, names, where)
    if value < 1:
        raise CandidateError(f"{where}: {expression!r} is {value}; every extent must be at least 1")
    return value


def _argument(
    text: str, where: str, names: Mapping[str, Number | tuple[int, ...]], buffers: Mapping[str, TensorSpec]
) -> Argument:
    expression, _, declared = (part.strip() for part in text.partition(":"))
    if expression in buffers:
        return Argument("ptr", expression, dtype=buffers[expression].dtype)
    value = evaluate(expression, names, where)
    kind = declared or ("f32" if isinstance(value, float) else "i32")
    if kind not in _ARG_TYPES:
        raise CandidateError(f"{where}: type {kind!r} of {expression!r} is not one of {', '.join(_ARG_TYPES)}")
    if kind not in _INTEGER_BITS:
        return Argument(kind, expression, float(value))
    value = whole(expression, names, where)
    most = 1 << _INTEGER_BITS[kind]
    if not -most <= value < most:
        hint = f'write "{expression} : i64"' if kind == "i32" else ""
        raise CandidateError(f"{where}: {expression!r} = {value} does not fit {kind}", hint=hint)
    return Argument(kind, expression, value)
