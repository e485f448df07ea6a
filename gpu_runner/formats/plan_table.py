"""The TOML table of a launch plan, read key by key, so that each message names the key to change."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from forewarp.core.errors import CandidateError
from forewarp.core.values import Language
from forewarp.gpu_runner.formats.expressions import Number, evaluate

FORMAT = 1
_LISTS = frozenset(("inputs", "outputs", "constraints", "launch", "args"))
_TABLES = frozenset(("params", "tunables", "let", "constants", "scratch"))
_KEYS = _LISTS | _TABLES | {"format", "function"}
_LAUNCH_KEYS = frozenset(("kernel", "args", "grid", "block", "shared", "num_warps", "num_stages"))
_DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
MAX_LAUNCHES = 64


@dataclass(frozen=True, slots=True)
class PlannedLaunch:
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
    scratch: tuple[Scratch, ...]
    launches: tuple[PlannedLaunch, ...]
    host_code: bool = False

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


def read(table: dict[str, Any], language: Language) -> LaunchPlan:
    """Check the table and return the plan; raises `CandidateError`."""
    return _Reader(table, language).plan()


class _Reader:
    def __init__(self, table: dict[str, Any], language: Language) -> None:
        self.table = table
        self.language: Language = language

    def plan(self) -> LaunchPlan:
        self._only(self.table, _KEYS, "the launch plan")
        if self.table.get("format", FORMAT) != FORMAT:
            raise CandidateError(f"format {self.table['format']!r} is unknown; this version reads format = {FORMAT}")
        launches = (self._call(),) if "function" in self.table else self._launches()
        self._check_names()
        return LaunchPlan(
            language=self.language,
            inputs=self._strings(self.table, "inputs", "the launch plan"),
            outputs=self._strings(self.table, "outputs", "the launch plan"),
            params={k: str(v) for k, v in self._table("params").items()},
            tunables={k: self._choices(k, v) for k, v in self._table("tunables").items()},
            constraints=self._strings(self.table, "constraints", "the launch plan", required=False),
            let=self._expressions("let"),
            constants=self._expressions("constants"),
            scratch=tuple(self._scratch(k, v) for k, v in self._table("scratch").items()),
            launches=launches,
            host_code="function" in self.table and self.language == "cuda",
        )

    def _launches(self) -> tuple[PlannedLaunch, ...]:
        if "args" in self.table:
            raise CandidateError('args stands in [[launch]], or beside function = "name"')
        launches = self.table.get("launch")
        if not isinstance(launches, list) or not 1 <= len(cast("list[Any]", launches)) <= MAX_LAUNCHES:
            raise CandidateError(
                f"the launch plan needs 1 to {MAX_LAUNCHES} [[launch]] tables",
                hint='or function = "name" and args = […], for a host function that launches kernels by itself',
            )
        return tuple(self._launch(i, e) for i, e in enumerate(cast("list[Any]", launches)))

    def _call(self) -> PlannedLaunch:
        """Read the signature of a host function; it takes the place of all launches."""
        function = self.table["function"]
        if not isinstance(function, str) or not function.isidentifier():
            raise CandidateError(f'function must be the name of an extern "C" function, got {function!r}')
        if self.language == "triton":
            raise CandidateError("a Triton plan has no function", hint="write [[launch]], or a module with ModelNew")
        if "launch" in self.table:
            raise CandidateError("the launch plan has function and [[launch]]", hint="keep one of the two")
        return PlannedLaunch(function, self._strings(self.table, "args", "the launch plan"))

    def _check_names(self) -> None:
        """Check that each name is an identifier with one meaning: names become C macros and Python variables."""
        inputs, outputs = (self._strings(self.table, key, "the launch plan") for key in ("inputs", "outputs"))
        # A name that is input and output is checked when the task is known: the two may be one buffer.
        lists = [*inputs, *(name for name in outputs if name not in inputs)]
        if len(set(outputs)) != len(outputs):
            raise CandidateError("the launch plan gives one name to two outputs")
        tables = [name for key in ("params", "tunables", "let", "constants", "scratch") for name in self._table(key)]
        taken: set[str] = set()
        for name in (*lists, *tables):
            if not name.isidentifier() or not name.isascii():
                raise CandidateError(f"{name!r} is not a name", hint="use letters, digits and underscores")
            if name in taken:
                raise CandidateError(f"the launch plan gives the name {name!r} to two things")
            taken.add(name)

    def _only(self, table: Mapping[str, Any], allowed: frozenset[str], where: str) -> None:
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

    def _launch(self, index: int, entry: Any) -> PlannedLaunch:
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
        return PlannedLaunch(
            kernel=table["kernel"],
            args=self._strings(table, "args", where),
            grid=self._list(table.get("grid", []), f"{where}.grid"),
            block=self._list(table.get("block", []), f"{where}.block"),
            shared=self._expression(table.get("shared", 0), f"{where}.shared"),
            num_warps=self._expression(table.get("num_warps", 4), f"{where}.num_warps"),
            num_stages=self._expression(table.get("num_stages", 3), f"{where}.num_stages"),
        )
