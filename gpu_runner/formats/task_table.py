"""Reader of `task.toml`: each key is checked as it is read, and a mistake is reported with file, line and key."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from forewarp.core.errors import TaskError, did_you_mean
from forewarp.core.values import DeviceKind, Tolerance, Workload

NAME = "task.toml"
KINDS: tuple[DeviceKind, ...] = ("cpu", "cuda")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool)


_SIMPLE: Mapping[str, tuple[Callable[[Any], bool], str, Any]] = {
    "title": (_is_text, "a line of text", ""),
    "family": (_is_text, 'a name such as "reduction"', ""),
    "mode": (lambda v: v in ("train", "eval"), '"train" or "eval", which calls eval() on modules', "train"),
    "perturb": (_is_truth, "true or false", True),
    "allow_tf32": (_is_truth, "true or false", False),
    "gradients": (
        lambda v: v in ("only", "too", None),
        '"only", for gradients in place of outputs, or "too", for both',
        None,
    ),
}
"""By key: a check of its value, what is expected, and the default."""
_KEYS = (*_SIMPLE, "tolerance", "workloads")
_TOLERANCE = "a table with rtol and atol, such as {rtol = 1e-4, atol = 1e-4}"
_CONSTANTS = "a number, a string, true or false, or a list of numbers or of strings"
_DOT = r"\s*\.\s*"


def read(path: Path) -> dict[str, Any]:
    """Return arguments of `Task` by name; raises `TaskError` with file, line, key and what is expected there."""
    try:
        content = path.read_bytes()
    except OSError as e:
        raise TaskError(
            f"{path.parent} has no readable {NAME}: {e.strerror}",
            hint="a task's folder holds task.toml and reference.py, or KernelBot's task.yml",
        ) from None
    try:
        text = content.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as e:
        line = content.count(b"\n", 0, e.start) + 1
        raise TaskError(
            f"{path}, line {line}: the byte 0x{content[e.start]:02x} is no UTF-8", hint="save the file as UTF-8"
        ) from None
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as e:  # int() refuses very long numbers with a bare ValueError
        raise TaskError(
            f"{path} is not valid TOML: {e}", hint="strings need quotes; https://toml.io shows how values are written"
        ) from None
    return _Reader(path, text).fields(table)


class _Reader:
    def __init__(self, path: Path, text: str) -> None:
        self._path, self._text = path, text

    def fields(self, table: Mapping[str, Any]) -> dict[str, Any]:
        hint = f"the keys of a {NAME} are {', '.join(_KEYS)}; docs/tasks.md has examples"
        self._known(table, "", _KEYS, hint)
        found: dict[str, Any] = {}
        for key, (fits, expected, default) in _SIMPLE.items():
            found[key] = table.get(key, default)
            if not fits(found[key]):
                raise self._wrong(key, expected, found[key])
        workloads = self._mapping(table.get("workloads", {}), "workloads", "tables workloads.cpu and workloads.cuda")
        self._known(workloads, "workloads", KINDS, "workloads are given for cpu and for cuda, as in [workloads.cuda]")
        found["tolerance"] = self._tolerance(table["tolerance"]) if "tolerance" in table else None
        found["workloads"] = {kind: self._workloads(workloads.get(kind, {}), f"workloads.{kind}") for kind in KINDS}
        return found

    def _wrong(self, key: str, expected: str, value: Any) -> TaskError:
        shown = repr(value)
        shown = shown if len(shown) <= 80 else f"{shown[:80]}…"
        return TaskError(f"{self._place(key)}: {key} must be {expected}, got {shown}")

    def _place(self, key: str) -> str:
        """Return the file and, as far as it can be found, the line of a dotted key."""
        lines = self._text.split("\n")
        first = 0
        parts = key.split(".")
        for depth in range(len(parts) - 1, 0, -1):  # the deepest table that has a header of its own
            header = re.compile(rf"\s*\[\s*{_DOT.join(map(_quoted, parts[:depth]))}\s*\]")
            found = next((i for i, line in enumerate(lines) if header.match(line)), None)
            if found is not None:
                first = found + 1
                parts = parts[depth:]
                break
        line = None
        for name in map(_quoted, parts):
            key_here = re.compile(rf"(?:^|[\s{{,.\[]){name}\s*(?:=|\]|\.)")
            begun = first if line is None else line
            line = next((i for i in range(begun, len(lines)) if key_here.search(lines[i])), line)
        if line is not None:
            return f"{self._path}, line {line + 1}"
        return f"{self._path}, line {first}" if first else str(self._path)

    def _known(self, table: Mapping[str, Any], where: str, keys: tuple[str, ...], hint: str) -> None:
        for key in table:
            if key not in keys:
                full = f"{where}.{key}" if where else key
                raise TaskError(f"{self._place(full)}: there is no key {full}", hint=f"{did_you_mean(key, keys)}{hint}")

    def _mapping(self, value: Any, key: str, expected: str) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self._wrong(key, expected, value)
        return cast("Mapping[str, Any]", value)

    def _tolerance(self, value: Any) -> Tolerance:
        table = self._mapping(value, "tolerance", _TOLERANCE)
        self._known(table, "tolerance", ("rtol", "atol"), f"tolerance must be {_TOLERANCE}")
        if len(table) < 2:
            raise self._wrong("tolerance", _TOLERANCE, value)
        for key, number in table.items():
            fits = isinstance(number, int | float) and not isinstance(number, bool)
            if not fits or not math.isfinite(number) or number < 0:
                raise self._wrong(f"tolerance.{key}", "a number that is not negative, such as 1e-4", number)
        return Tolerance(float(table["rtol"]), float(table["atol"]))

    def _workloads(self, value: Any, key: str) -> tuple[Workload, ...]:
        made: list[Workload] = []
        for name, constants in self._mapping(value, key, "a table of name = {CONSTANT = value}").items():
            where = f"{key}.{name}"
            table = self._mapping(constants, where, "a table such as {ROWS = 1024, COLS = 4096}")
            for constant, number in table.items():
                if not constant.isidentifier():
                    raise TaskError(f"{self._place(f'{where}.{constant}')}: {constant!r} is no name of a constant")
                if not _is_constant(number):
                    raise self._wrong(f"{where}.{constant}", _CONSTANTS, number)
            made.append(Workload(name, dict(table)))
        return tuple(made) or (Workload("default"),)


def _quoted(key: str) -> str:
    return rf"[\"']?{re.escape(key)}[\"']?"


def _is_constant(value: Any) -> bool:
    if isinstance(value, list):
        items = cast("list[Any]", value)
        numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in items)
        return numbers or all(isinstance(v, str) for v in items)
    return isinstance(value, int | float | str)
