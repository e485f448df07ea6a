"""Bounds on sources: regular files of limited size, and Python that can be parsed."""

from __future__ import annotations

import ast
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from forewarp.core.errors import CandidateError, ForewarpError, TaskError
from forewarp.core.languages import KERNEL_SUFFIXES
from forewarp.gpu_runner.formats import kernelbot
from forewarp.gpu_runner.formats.candidate import MAX_SOURCE_BYTES

MAX_DEPTH = 300
"""Most levels of Python's syntax tree: what walks it recurses, and Python's own compiler gives up at a thousand."""


def check_file(path: Path, what: str = "the candidate", limit: int = MAX_SOURCE_BYTES) -> None:
    """Raise `CandidateError` for a device, pipe or folder, and for a file of more than `limit` bytes.

    A file that is not there, or may not be looked at, is left to whoever opens it.
    """
    if (problem := _problem_of(path, limit)) is not None:
        raise CandidateError(f"{what} {path} {problem}", hint="pass the path of one kernel file")


def check_task(path: Path) -> None:
    """Raise `TaskError` where a file of a task is a device or pipe, or too large; `path` is its file or folder."""
    files = [path]
    if path.is_dir():
        files = [path / name for name in ("task.toml", "task.yml", "reference.py", "reference.cpp")]
        files += [p for p in (path / "seeds").glob("*") if p.suffix in KERNEL_SUFFIXES]
    for file in files:
        if (problem := _problem_of(file, MAX_SOURCE_BYTES)) is not None:
            raise TaskError(f"the task's file {file} {problem}", hint="a task's files are short texts of their own")


@contextmanager
def bounded_nesting(what: str = "the candidate", error: type[ForewarpError] = CandidateError) -> Generator[None]:
    """Raise `error` where a parser gives up on text that is nested too deeply."""
    try:
        yield
    except (RecursionError, MemoryError):
        raise error(f"{what} is nested too deeply to be read", hint="split it into several statements") from None


def check_depth(source: str, what: str = "the candidate", error: type[ForewarpError] = CandidateError) -> None:
    """Raise `error` for Python that is nested more than `MAX_DEPTH` levels deep; other text passes."""
    try:
        level: list[ast.AST] = [ast.parse(source)]
    except (SyntaxError, ValueError):
        return
    except (RecursionError, MemoryError):
        level = []
    for _ in range(MAX_DEPTH):
        if not level:
            break
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return
    raise error(
        f"{what} nests Python code more than {MAX_DEPTH} levels deep",
        hint="split long expressions and chains into several statements",
    )


def _problem_of(path: Path, limit: int) -> str | None:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    if stat.S_ISDIR(found.st_mode):
        return None
    if not stat.S_ISREG(found.st_mode):
        return "is no regular file"
    return f"has {found.st_size} bytes; at most {limit} are allowed" if found.st_size > limit else None


def named_sources(path: Path) -> list[str]:
    """Return the files that KernelBot's `task.yml` names; [] for a malformed one: whoever loads it says so."""
    try:
        table: Any = kernelbot.read_yaml(path) if path.is_file() else None
    except TaskError:
        return []
    entries = cast("dict[str, Any]", table).get("files") if isinstance(table, dict) else None
    listed = cast("list[Any]", entries) if isinstance(entries, list) else []
    return [str(cast("dict[str, Any]", e).get("source", "")) for e in listed if isinstance(e, dict)]
