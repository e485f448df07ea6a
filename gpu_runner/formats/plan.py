"""The device-only candidate format: kernel source that opens with its launch plan.

The plan is a TOML table in the file's first comment (`/*forewarp … */`) or, for Triton, in its docstring
(`\"\"\"forewarp … \"\"\"`). `docs/tasks.md` is the reference, with one complete example per language. A Python module
launches by itself: its plan, which it may leave out, has tunables alone.
"""

from __future__ import annotations

import itertools
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from forewarp.core.errors import CandidateError, PlanMissingError
from forewarp.core.values import Candidate, Language, Signature, TensorSpec
from forewarp.gpu_runner.formats import c_types
from forewarp.gpu_runner.formats.expressions import Names, Number, evaluate, whole

_OPENING = re.compile(r'\A\s*(?:/\*|"""|\'\'\')\s*forewarp\s*\n')
_BLOCK = re.compile(rf'{_OPENING.pattern}(.*?)(?:\*/|"""|\'\'\')', re.DOTALL)
_INTEGER_BITS = {"i32": 31, "i64": 63}
_INSTANCE = re.compile(r"\s*([\w:]+)\s*<(.+)>\s*")
_ARG_TYPES = (*_INTEGER_BITS, "f32", "f64")


FORMAT = 1
MOST_BLOCKS = 65535
"""Of a grid, along its second and third dimension."""
MAX_LAUNCHES = 64
_PLAN = "the launch plan"
_TABLES = ("params", "tunables", "let", "constants", "scratch", "tensor_maps")
_KEYS = {*_TABLES, "inputs", "outputs", "constraints", "launch", "args", "format", "function"}
_MODULE_KEYS = {"tunables", "constraints", "format"}
_LAUNCH_KEYS = {"kernel", "args", "grid", "block", "shared", "num_warps", "num_stages", "when"}
_CUDA_LAUNCH_KEYS = {"cooperative", "dependent"}
_MAP_KEYS = {"of", "shape", "box", "swizzle"}
_MAP_DIMENSIONS, _MAP_BOX, _MAP_ALIGNMENT = 5, 256, 16
"""Limits of cuTensorMapEncodeTiled: dimensions, extents of a box, bytes that its rows are multiples of."""
_LAUNCH_NEEDS: dict[Language, tuple[str, ...]] = {"triton": ("grid",), "cuda": ("block", "grid")}
DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")


@dataclass(frozen=True, slots=True)
class PlannedLaunch:
    """One launch as written, in expressions; `templates` are a C++ template's arguments: `gemm<BM, BN, float>`."""

    kernel: str
    args: tuple[str, ...]
    grid: tuple[str | Number, ...] = ()
    block: tuple[str | Number, ...] = ()
    shared: str | Number = 0
    num_warps: str | Number = 4
    num_stages: str | Number = 3
    when: str | Number = 1
    cooperative: bool = False
    dependent: bool = False
    templates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlannedMap:
    """A tensor map as written: the buffer `of` that it describes, how that is shaped, and the box that a copy moves."""

    of: str
    shape: tuple[str | Number, ...]
    box: tuple[str | Number, ...]
    swizzle: str | Number


@dataclass(frozen=True, slots=True)
class ScratchBuffer:
    """A buffer that the runner owns and zeroes before each call."""

    name: str
    dtype: str
    shape: tuple[str | Number, ...]


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """A parsed launch plan. With `host_code` its one launch is a call of a host function that launches by itself."""

    language: Language
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    params: Mapping[str, str]
    tunables: Mapping[str, tuple[int, ...]]
    constraints: tuple[str, ...]
    let: Mapping[str, str | Number]
    constants: Mapping[str, str | Number]
    scratch: tuple[ScratchBuffer, ...]
    launches: tuple[PlannedLaunch, ...]
    host_code: bool = False
    maps: Mapping[str, PlannedMap] = field(default_factory=dict[str, PlannedMap])

    def defaults(self) -> dict[str, int]:
        """Return the first choice of each tunable, or the first allowed combination if that one is ruled out."""
        first = {name: choices[0] for name, choices in self.tunables.items()}
        return first if self.allows(first) else next(self.combinations(), first)

    def combinations(self) -> Iterator[dict[str, int]]:
        for values in itertools.product(*self.tunables.values()):
            chosen = dict(zip(self.tunables, values, strict=True))
            if self.allows(chosen):
                yield chosen

    def check(self, tunables: Mapping[str, int]) -> None:
        for name, value in tunables.items():
            if name not in self.tunables:
                declared = ", ".join(sorted(self.tunables)) or "none"
                raise CandidateError(f"tunable {name!r} is not declared", hint=f"declared: {declared}")
            if value not in self.tunables[name]:
                raise CandidateError(f"{name} = {value} is not one of {list(self.tunables[name])}")
        if not self.allows(self.defaults() | dict(tunables)):
            raise CandidateError(
                f"the constraints rule out {dict(tunables)}", hint=f"constraints: {'; '.join(self.constraints)}"
            )

    def allows(self, tunables: Mapping[str, int]) -> bool:
        return all(evaluate(c, tunables, f"constraints[{i}]") for i, c in enumerate(self.constraints))


@dataclass(frozen=True, slots=True)
class Argument:
    """One kernel argument: a buffer by name (kind "ptr"), a tensor map by name ("map"), or a number with its C type."""

    kind: str
    name: str
    value: Number = 0
    dtype: str = ""


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor map (CUtensorMap) for one workload: a row-major view of a buffer, in boxes; `swizzle` is in bytes."""

    of: str
    dtype: str
    shape: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int


@dataclass(frozen=True, slots=True)
class ResolvedLaunch:
    """One launch with every number worked out for one workload; `kernel` has a template's arguments: "gemm<128,64>".

    A `cooperative` one may synchronise its whole grid; a `dependent` one may begin before the launch before it ends.
    """

    kernel: str
    args: tuple[Argument, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    num_warps: int
    num_stages: int
    cooperative: bool = False
    dependent: bool = False


@dataclass(frozen=True, slots=True)
class ResolvedPlan:
    """A plan for one workload and one choice of tunables; `aliases` are outputs in a written input's buffer."""

    workload: str
    language: Language
    constants: Mapping[str, Number]
    inputs: tuple[str, ...]
    params: Mapping[str, str]
    outputs: tuple[str, ...]
    scratch: tuple[TensorSpec, ...]
    launches: tuple[ResolvedLaunch, ...] = field(default=())
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    maps: Mapping[str, TensorMap] = field(default_factory=dict[str, TensorMap])

    @property
    def programs(self) -> int:
        return sum(math.prod(launch.grid) for launch in self.launches)


def has_block(source: str) -> bool:
    """Return whether the source opens with a launch plan, right or wrong."""
    return _BLOCK.match(source) is not None


def without_block(source: str) -> str:
    match = _BLOCK.match(source)
    return source[match.end() :] if match else source


def parse(candidate: Candidate) -> LaunchPlan:
    """Read the launch plan of a candidate, which a Python module need not have; raises `CandidateError`."""
    match = _BLOCK.match(candidate.source)
    if match is None and candidate.language == "python":
        return _read({}, "python")
    if match is None and _OPENING.match(candidate.source):
        raise CandidateError("the launch plan has no end", hint='close it with */, in a Triton file with """')
    if match is None:
        opening = '"""forewarp' if candidate.language == "triton" else "/*forewarp"
        raise PlanMissingError(
            "the source has no launch plan, which says what its kernels are called with",
            candidate,
            hint=f"open the file with {opening}, a TOML launch plan and the closing mark, or put the plan of a .cu or "
            ".cpp file beside it, as a .toml of the same name (docs/tasks.md)",
        )
    try:
        table = tomllib.loads(match.group(1))
    except tomllib.TOMLDecodeError as e:
        raise CandidateError(
            f"the launch plan is not valid TOML: {e}", hint='strings need quotes, e.g. rows = "x.shape[0]"'
        ) from None
    return _read(table, candidate.language)


def _read(table: Mapping[str, Any], language: Language) -> LaunchPlan:
    """Check a plan's table key by key, so that each message names the key to change."""
    module = language == "python"
    _only(table, _MODULE_KEYS if module else _KEYS, "the plan of a Python module" if module else _PLAN)
    if table.get("format", FORMAT) != FORMAT:
        raise CandidateError(f"format {table['format']!r} is unknown; this version reads format = {FORMAT}")
    launches = inputs = outputs = ()
    if not module:
        launches = (_call(table, language),) if "function" in table else _launches(table, language)
        inputs, outputs = _strings(table, "inputs", _PLAN), _strings(table, "outputs", _PLAN)
    tables = {key: _table(table, key) for key in _TABLES}
    _check_names(inputs, outputs, [name for entries in tables.values() for name in entries])
    return LaunchPlan(
        language=language,
        inputs=inputs,
        outputs=outputs,
        params={k: str(v) for k, v in tables["params"].items()},
        tunables={k: _choices(k, v) for k, v in tables["tunables"].items()},
        constraints=_strings({"constraints": []} | dict(table), "constraints", _PLAN),
        let={k: _expression(v, f"let.{k}") for k, v in tables["let"].items()},
        constants={k: _expression(v, f"constants.{k}") for k, v in tables["constants"].items()},
        scratch=tuple(_scratch(k, v) for k, v in tables["scratch"].items()),
        launches=launches,
        host_code="function" in table and language == "cuda",
        maps={k: _map(k, v, language) for k, v in tables["tensor_maps"].items()},
    )


def _launches(table: Mapping[str, Any], language: Language) -> tuple[PlannedLaunch, ...]:
    if "args" in table:
        raise CandidateError('args stands in [[launch]], or beside function = "name"')
    launches = table.get("launch")
    if not isinstance(launches, list) or not 1 <= len(cast("list[Any]", launches)) <= MAX_LAUNCHES:
        raise CandidateError(
            f"the launch plan needs 1 to {MAX_LAUNCHES} [[launch]] tables",
            hint='or function = "name" and args = […], for a host function that launches kernels by itself',
        )
    return tuple(_launch(e, f"launch[{i}]", language) for i, e in enumerate(cast("list[Any]", launches)))


def _launch(value: Any, where: str, language: Language) -> PlannedLaunch:
    if not isinstance(value, dict):
        raise CandidateError(f"{where} must be a table, written [[launch]]")
    table = cast("dict[str, Any]", value)
    _only(table, _LAUNCH_KEYS | (_CUDA_LAUNCH_KEYS if language == "cuda" else set()), where)
    if not isinstance(table.get("kernel"), str):
        raise CandidateError(f'{where} needs kernel = "name of the function to launch"')
    if missing := [key for key in _LAUNCH_NEEDS.get(language, ()) if key not in table]:
        raise CandidateError(f"{where} needs {missing} for a {language} kernel")
    instance = _INSTANCE.fullmatch(table["kernel"]) if language == "cuda" else None
    return PlannedLaunch(
        kernel=instance[1] if instance else table["kernel"],
        templates=tuple(a.strip() for a in instance[2].split(",")) if instance else (),
        args=_strings(table, "args", where),
        grid=_expressions(table.get("grid", []), f"{where}.grid"),
        block=_expressions(table.get("block", []), f"{where}.block"),
        shared=_expression(table.get("shared", 0), f"{where}.shared"),
        num_warps=_expression(table.get("num_warps", 4), f"{where}.num_warps"),
        num_stages=_expression(table.get("num_stages", 3), f"{where}.num_stages"),
        when=_expression(table.get("when", 1), f"{where}.when"),
        **{key: _switch(table.get(key, False), f"{where}.{key}") for key in _CUDA_LAUNCH_KEYS},
    )


def _call(table: Mapping[str, Any], language: Language) -> PlannedLaunch:
    """Read the signature of a host function; it takes the place of all launches."""
    function = table["function"]
    if not isinstance(function, str) or not function.isidentifier():
        raise CandidateError(f'function must be the name of an extern "C" function, got {function!r}')
    if language == "triton":
        raise CandidateError("a Triton plan has no function", hint="write [[launch]], or a module with ModelNew")
    if "launch" in table:
        raise CandidateError("the launch plan has function and [[launch]]", hint="keep one of the two")
    return PlannedLaunch(function, _strings(table, "args", _PLAN))


def _check_names(inputs: Sequence[str], outputs: Sequence[str], others: Sequence[str]) -> None:
    """Check that each name is an identifier with one meaning: names become C macros and Python variables."""
    if len(set(outputs)) != len(outputs):
        raise CandidateError("the launch plan gives one name to two outputs")
    taken: set[str] = set()
    # A name that is input and output is checked when the task is known: the two may be one buffer.
    for name in (*inputs, *(n for n in outputs if n not in inputs), *others):
        if not name.isidentifier() or not name.isascii():
            raise CandidateError(f"{name!r} is not a name", hint="use letters, digits and underscores")
        if name in taken:
            raise CandidateError(f"the launch plan gives the name {name!r} to two things")
        taken.add(name)


def _only(table: Mapping[str, Any], allowed: set[str], where: str) -> None:
    unknown = sorted(set(table) - allowed)
    if unknown:
        raise CandidateError(f"{where} has unknown keys {unknown}", hint=f"allowed: {', '.join(sorted(allowed))}")


def _strings(table: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = table.get(key)
    if not isinstance(value, list) or not all(isinstance(v, str) for v in cast("list[Any]", value)):
        raise CandidateError(f'{where} needs {key} = ["…"], a list of strings, got {value!r}')
    return tuple(cast("list[str]", value))


def _table(table: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise CandidateError(f"{key} must be a table, got {value!r}", hint=f"write [{key}] and one line per name")
    return cast("dict[str, Any]", value)


def _choices(name: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not value or not all(type(v) is int for v in cast("list[Any]", value)):
        raise CandidateError(f"tunables.{name} must be a list of integers, the default first, got {value!r}")
    return tuple(cast("list[int]", value))


def _expression(value: Any, where: str) -> str | Number:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise CandidateError(f"{where} must be a number or a string that holds an expression, got {value!r}")
    return value


def _switch(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise CandidateError(f"{where} must be true or false, got {value!r}")
    return value


def _expressions(value: Any, where: str) -> tuple[str | Number, ...]:
    if not isinstance(value, list):
        raise CandidateError(f"{where} must be a list, got {value!r}")
    return tuple(_expression(v, where) for v in cast("list[Any]", value))


def _scratch(name: str, value: Any) -> ScratchBuffer:
    if not isinstance(value, dict) or set(cast("dict[str, Any]", value)) != {"dtype", "shape"}:
        raise CandidateError(f'scratch.{name} must be {{dtype = "float32", shape = ["rows"]}}, got {value!r}')
    if value["dtype"] not in DTYPES:
        raise CandidateError(f"scratch.{name}.dtype is {value['dtype']!r}; use one of {', '.join(DTYPES)}")
    return ScratchBuffer(name, str(value["dtype"]), _expressions(value["shape"], f"scratch.{name}.shape"))


def _map(name: str, value: Any, language: Language) -> PlannedMap:
    where = f"tensor_maps.{name}"
    if language != "cuda":
        raise CandidateError(
            f"{where}: only cuda kernels take tensor maps", hint="Triton has tl.make_tensor_descriptor"
        )
    if not isinstance(value, dict) or not {"of", "box"} <= set(cast("dict[str, Any]", value)):
        raise CandidateError(f'{where} must be {{of = "a", box = ["BM", 64], swizzle = 128}}, got {value!r}')
    table = cast("dict[str, Any]", value)
    _only(table, _MAP_KEYS, where)
    return PlannedMap(
        of=str(table["of"]),
        shape=_expressions(table.get("shape", []), f"{where}.shape"),
        box=_expressions(table["box"], f"{where}.box"),
        swizzle=_expression(table.get("swizzle", 0), f"{where}.swizzle"),
    )


def resolve(plan: LaunchPlan, signature: Signature, tunables: Mapping[str, int]) -> ResolvedPlan:
    """Work out every expression of the plan for one workload; raises `CandidateError`."""
    plan.check(tunables)
    chosen = plan.defaults() | dict(tunables)
    buffers = bind(plan, signature)
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
    launches = tuple(
        _resolve_launch(e, f"launch[{i}]", names, buffers, plan)
        for i, e in enumerate(plan.launches)
        if evaluate(e.when, names, f"launch[{i}].when")
    )
    if not launches:
        raise CandidateError(f"no [[launch]] is left for {signature.workload}: every `when` is false")
    used = dict.fromkeys(a.name for e in launches for a in e.args if a.kind == "map")
    # As a macro, a name would take the place of the template's parameter, too.
    parameters = {name for launch in plan.launches for name in launch.templates}
    constants = {name: value for name, value in constants.items() if name not in parameters}
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
        maps={name: _resolve_map(plan.maps[name], f"tensor_maps.{name}", names, buffers) for name in used},
    )


def bind(plan: LaunchPlan, signature: Signature) -> dict[str, TensorSpec]:
    """Map the plan's buffer names to the task's tensors; raises `CandidateError` where they are not as many."""
    count, hint = len(signature.inputs) + len(signature.scalars), ""
    if signature.backward is not None:
        hint = (
            "the task asks for gradients: upstream ones are its last inputs, and it returns those of inputs and weights"
        )
    if len(plan.inputs) != count:
        raise CandidateError(
            f"inputs names {len(plan.inputs)} values, but get_inputs() of the task returns {count}", hint=hint
        )
    if len(plan.outputs) != len(signature.outputs):
        raise CandidateError(
            f"outputs names {len(plan.outputs)} tensors, but the task's forward returns {len(signature.outputs)}",
            hint=hint,
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
    launch: PlannedLaunch, where: str, names: Names, buffers: Mapping[str, TensorSpec], plan: LaunchPlan
) -> ResolvedLaunch:
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
        launch.kernel + _template_arguments(launch, names),
        tuple(_argument(a, f"{where}.args", names, buffers, plan.maps) for a in launch.args),
        triple(launch.grid, "grid"),
        triple(launch.block, "block"),
        number(launch.shared, "shared"),
        number(launch.num_warps, "num_warps"),
        number(launch.num_stages, "num_stages"),
        launch.cooperative,
        launch.dependent,
    )
    threads = resolved.block[0] * resolved.block[1] * resolved.block[2]
    if plan.language == "cuda" and threads > 1024:
        raise CandidateError(f"{where}.block has {threads} threads; a block holds at most 1024")
    if plan.language != "cpp" and max(resolved.grid[1:]) > MOST_BLOCKS:
        grid = " × ".join(map(str, resolved.grid))
        raise CandidateError(f"{where}.grid is {grid}; the second and the third extent may be {MOST_BLOCKS} at most")
    if plan.language == "triton" and resolved.num_warps not in (1, 2, 4, 8, 16, 32):
        raise CandidateError(f"{where}.num_warps is {resolved.num_warps}; it must be a power of two from 1 to 32")
    return resolved


def _template_arguments(launch: PlannedLaunch, names: Names) -> str:
    """Return "<128,64>"; what is no expression over the plan's names is C++, such as a type or `true`."""
    words = (re.findall(r"[A-Za-z_]\w*", a) for a in launch.templates)
    values = (
        str(whole(a, names, f"templates of {launch.kernel}")) if names.keys() >= set(found) else a
        for a, found in zip(launch.templates, words, strict=True)
    )
    return f"<{','.join(values)}>" if launch.templates else ""


def _extent(expression: str | Number, names: Names, where: str) -> int:
    value = whole(expression, names, where)
    if value < 1:
        raise CandidateError(f"{where}: {expression!r} is {value}; every extent must be at least 1")
    return value


def _resolve_map(planned: PlannedMap, where: str, names: Names, buffers: Mapping[str, TensorSpec]) -> TensorMap:
    if planned.of not in buffers:
        raise CandidateError(f"{where}.of: {planned.of!r} is no buffer", hint=f"there are {', '.join(buffers)}")
    tensor = buffers[planned.of]
    shape = tuple(_extent(e, names, f"{where}.shape") for e in planned.shape) or tensor.shape
    box = tuple(_extent(e, names, f"{where}.box") for e in planned.box)
    swizzle = whole(planned.swizzle, names, f"{where}.swizzle")
    row, inner = (n * c_types.size(tensor.dtype) for n in (shape[-1], box[-1]))
    wrong = (
        f"shape {list(shape)} has more elements than {planned.of}"
        if math.prod(shape) > math.prod(tensor.shape)
        else f"shape and box need the same number of extents, 1 to {_MAP_DIMENSIONS}"
        if len(box) != len(shape) or len(box) > _MAP_DIMENSIONS
        else f"box {list(box)} has an extent above {_MAP_BOX}"
        if max(box) > _MAP_BOX
        else f"swizzle is {swizzle}; it is 0, 32, 64 or 128 bytes"
        if swizzle not in (0, 32, 64, 128)
        else f"a row of the box has {inner} bytes; {swizzle} is the most with this swizzle"
        if swizzle and inner > swizzle
        else f"rows of {row} bytes and rows of a box of {inner} must be multiples of {_MAP_ALIGNMENT} bytes"
        if (len(shape) > 1 and row % _MAP_ALIGNMENT) or inner % _MAP_ALIGNMENT
        else ""
    )
    if wrong:
        raise CandidateError(f"{where}: {wrong}", hint="give other shapes another [[launch]], told apart by `when`")
    return TensorMap(planned.of, tensor.dtype, shape, box, swizzle)


def _argument(
    text: str, where: str, names: Names, buffers: Mapping[str, TensorSpec], maps: Mapping[str, PlannedMap]
) -> Argument:
    expression, _, declared = (part.strip() for part in text.partition(":"))
    if expression in buffers:
        return Argument("ptr", expression, dtype=buffers[expression].dtype)
    if expression in maps:
        return Argument("map", expression)
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
