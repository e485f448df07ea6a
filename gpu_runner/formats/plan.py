"""The device-only candidate format: kernel source that opens with its launch plan.

The plan is a TOML table in the file's first comment (`/*forewarp … */`) or, for Triton, in its docstring
(`\"\"\"forewarp … \"\"\"`). `docs/candidates.md` is the reference, with one complete example per language.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from forewarp.core.errors import CandidateError
from forewarp.core.values import Candidate, Language, Signature, TensorSpec
from forewarp.gpu_runner.formats.expressions import Number, evaluate, whole

FORMAT = 1
_BLOCK = re.compile(r'\A\s*(?:/\*|"""|\'\'\')\s*forewarp\s*\n(.*?)(?:\*/|"""|\'\'\')', re.DOTALL)
_KEYS = {"format", "inputs", "params", "outputs", "tunables", "constraints", "let", "constants", "scratch", "launch"}
_LAUNCH_KEYS = {"kernel", "args", "grid", "block", "shared", "num_warps", "num_stages"}
_INTEGER_BITS = {"i32": 31, "i64": 63}
_ARG_TYPES = (*_INTEGER_BITS, "f32", "f64")
_DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
MAX_LAUNCHES = 64


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch as written: expressions over tunables, `let` names and shapes."""

    kernel: str
    args: tuple[str, ...]
    grid: tuple[str | Number, ...] = ()
    block: tuple[str | Number, ...] = ()
    shared: str | Number = 0
    num_warps: str | Number = 4
    num_stages: str | Number = 3


@dataclass(frozen=True, slots=True)
class Scratch:
    """A buffer that the runner owns and zeroes before each call."""

    name: str
    dtype: str
    shape: tuple[str | Number, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A parsed launch plan."""

    language: Language
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    params: Mapping[str, str]
    tunables: Mapping[str, tuple[int, ...]]
    constraints: tuple[str, ...]
    let: Mapping[str, str | Number]
    constants: Mapping[str, str | Number]
    scratch: tuple[Scratch, ...]
    launches: tuple[Launch, ...]

    def defaults(self) -> dict[str, int]:
        """Return the first choice of each tunable, or the first allowed combination if that one is ruled out."""
        first = {name: choices[0] for name, choices in self.tunables.items()}
        return first if self.allows(first) else next(self.combinations(), first)

    def combinations(self) -> Iterator[dict[str, int]]:
        """Yield every combination of tunables that the constraints allow."""
        for values in itertools.product(*self.tunables.values()):
            chosen = dict(zip(self.tunables, values, strict=True))
            if self.allows(chosen):
                yield chosen

    def check(self, tunables: Mapping[str, int]) -> None:
        """Raise `CandidateError` unless these are values that the plan declares and its constraints admit."""
        for name, value in tunables.items():
            if name not in self.tunables:
                raise CandidateError(f"tunable {name!r} is not declared", hint=f"declared: {sorted(self.tunables)}")
            if value not in self.tunables[name]:
                raise CandidateError(f"{name} = {value} is not one of {list(self.tunables[name])}")
        if not self.allows(self.defaults() | dict(tunables)):
            raise CandidateError(
                f"the constraints rule out {dict(tunables)}", hint=f"constraints: {'; '.join(self.constraints)}"
            )

    def allows(self, tunables: Mapping[str, int]) -> bool:
        """Return whether the constraints admit these values."""
        return all(evaluate(c, tunables, f"constraints[{i}]") for i, c in enumerate(self.constraints))


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
    """A plan for one workload and one choice of tunables: what a worker needs, and no expression left in it."""

    workload: str
    language: Language
    constants: Mapping[str, Number]
    inputs: tuple[str, ...]
    params: Mapping[str, str]
    outputs: tuple[str, ...]
    scratch: tuple[TensorSpec, ...]
    launches: tuple[ResolvedLaunch, ...] = field(default=())


def parse(candidate: Candidate) -> Plan:
    """Read the launch plan of a device-only candidate; raises `CandidateError` that says what to change."""
    match = _BLOCK.match(candidate.source)
    if match is None:
        opening = '"""forewarp' if candidate.language == "triton" else "/*forewarp"
        raise CandidateError(
            "the source has no launch plan",
            hint=f"open the file with {opening}, a TOML launch plan and the closing mark (docs/candidates.md)",
        )
    try:
        table = tomllib.loads(match.group(1))
    except tomllib.TOMLDecodeError as e:
        raise CandidateError(
            f"the launch plan is not valid TOML: {e}", hint='strings need quotes, e.g. rows = "x.shape[0]"'
        ) from None
    return _Reader(table, candidate.language).plan()


def resolve(plan: Plan, signature: Signature, tunables: Mapping[str, int]) -> ResolvedPlan:
    """Work out every expression of the plan for one workload; raises `CandidateError`."""
    plan.check(tunables)
    chosen = plan.defaults() | dict(tunables)
    buffers = _bind(plan, signature)
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
        signature.workload, plan.language, constants, plan.inputs, plan.params, plan.outputs, scratch, launches
    )


def _bind(plan: Plan, signature: Signature) -> dict[str, TensorSpec]:
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


def _resolve_launch(
    launch: Launch,
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


class _Reader:
    """Checks the TOML table key by key, so that each message names the key to change."""

    def __init__(self, table: dict[str, Any], language: Language) -> None:
        self.table = table
        self.language: Language = language

    def plan(self) -> Plan:
        self._only(self.table, _KEYS, "the launch plan")
        if self.table.get("format", FORMAT) != FORMAT:
            raise CandidateError(f"format {self.table['format']!r} is unknown; this version reads format = {FORMAT}")
        launches = self.table.get("launch")
        if not isinstance(launches, list) or not 1 <= len(cast("list[Any]", launches)) <= MAX_LAUNCHES:
            raise CandidateError(f"the launch plan needs 1 to {MAX_LAUNCHES} [[launch]] tables")
        self._check_names()
        return Plan(
            language=self.language,
            inputs=self._strings(self.table, "inputs", "the launch plan"),
            outputs=self._strings(self.table, "outputs", "the launch plan"),
            params={k: str(v) for k, v in self._table("params").items()},
            tunables={k: self._choices(k, v) for k, v in self._table("tunables").items()},
            constraints=self._strings(self.table, "constraints", "the launch plan", required=False),
            let=self._expressions("let"),
            constants=self._expressions("constants"),
            scratch=tuple(self._scratch(k, v) for k, v in self._table("scratch").items()),
            launches=tuple(self._launch(i, e) for i, e in enumerate(cast("list[Any]", launches))),
        )

    def _check_names(self) -> None:
        """Each name is an identifier and means one thing: names become C macros and Python variables."""
        lists = [name for key in ("inputs", "outputs") for name in self._strings(self.table, key, "the launch plan")]
        tables = [name for key in ("params", "tunables", "let", "constants", "scratch") for name in self._table(key)]
        taken: set[str] = set()
        for name in (*lists, *tables):
            if not name.isidentifier() or not name.isascii():
                raise CandidateError(f"{name!r} is not a name", hint="use letters, digits and underscores")
            if name in taken:
                raise CandidateError(f"the launch plan gives the name {name!r} to two things")
            taken.add(name)

    def _only(self, table: Mapping[str, Any], allowed: set[str], where: str) -> None:
        unknown = sorted(set(table) - allowed)
        if unknown:
            raise CandidateError(f"{where} has unknown keys {unknown}", hint=f"allowed: {', '.join(sorted(allowed))}")

    def _strings(self, table: Mapping[str, Any], key: str, where: str, *, required: bool = True) -> tuple[str, ...]:
        value = table.get(key, None if required else [])
        if not isinstance(value, list) or not all(isinstance(v, str) for v in cast("list[Any]", value)):
            raise CandidateError(f'{where} needs {key} = ["…"], a list of strings, got {value!r}')
        return tuple(cast("list[str]", value))

    def _table(self, key: str) -> dict[str, Any]:
        value = self.table.get(key, {})
        if not isinstance(value, dict):
            raise CandidateError(f"{key} must be a table, got {value!r}", hint=f"write [{key}] and one line per name")
        return cast("dict[str, Any]", value)

    def _choices(self, name: str, value: Any) -> tuple[int, ...]:
        good = isinstance(value, list) and bool(value) and all(type(v) is int for v in cast("list[Any]", value))
        if not good:
            raise CandidateError(f"tunables.{name} must be a list of integers, the default first, got {value!r}")
        return tuple(cast("list[int]", value))

    def _expression(self, value: Any, where: str) -> str | Number:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise CandidateError(f"{where} must be a number or a string that holds an expression, got {value!r}")
        return value

    def _expressions(self, key: str) -> dict[str, str | Number]:
        return {k: self._expression(v, f"{key}.{k}") for k, v in self._table(key).items()}

    def _list(self, value: Any, where: str) -> tuple[str | Number, ...]:
        if not isinstance(value, list):
            raise CandidateError(f"{where} must be a list, got {value!r}")
        return tuple(self._expression(v, where) for v in cast("list[Any]", value))

    def _scratch(self, name: str, value: Any) -> Scratch:
        if not isinstance(value, dict) or set(cast("dict[str, Any]", value)) != {"dtype", "shape"}:
            raise CandidateError(f'scratch.{name} must be {{dtype = "float32", shape = ["rows"]}}, got {value!r}')
        if value["dtype"] not in _DTYPES:
            raise CandidateError(f"scratch.{name}.dtype is {value['dtype']!r}; use one of {', '.join(_DTYPES)}")
        return Scratch(name, str(value["dtype"]), self._list(value["shape"], f"scratch.{name}.shape"))

    def _launch(self, index: int, entry: Any) -> Launch:
        where = f"launch[{index}]"
        if not isinstance(entry, dict):
            raise CandidateError(f"{where} must be a table, written [[launch]]")
        table = cast("dict[str, Any]", entry)
        self._only(table, _LAUNCH_KEYS, where)
        if not isinstance(table.get("kernel"), str):
            raise CandidateError(f'{where} needs kernel = "name of the function to launch"')
        needed = {"cpp": set[str](), "triton": {"grid"}, "cuda": {"grid", "block"}, "python": set[str]()}[self.language]
        missing = sorted(needed - set(table))
        if missing:
            raise CandidateError(f"{where} needs {missing} for a {self.language} kernel")
        return Launch(
            kernel=table["kernel"],
            args=self._strings(table, "args", where),
            grid=self._list(table.get("grid", []), f"{where}.grid"),
            block=self._list(table.get("block", []), f"{where}.block"),
            shared=self._expression(table.get("shared", 0), f"{where}.shared"),
            num_warps=self._expression(table.get("num_warps", 4), f"{where}.num_warps"),
            num_stages=self._expression(table.get("num_stages", 3), f"{where}.num_stages"),
        )
