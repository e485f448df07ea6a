"""Bounds on sources: regular files of limited size, and text that is parsed and preprocessed in seconds."""

from __future__ import annotations

import ast
import math
import re
import stat
import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from forewarp.core.errors import CandidateError, ForewarpError, TaskError
from forewarp.core.languages import KERNEL_SUFFIXES
from forewarp.gpu_runner.formats.candidate import MAX_SOURCE_BYTES

MAX_INPUTS_BYTES = 1 << 30
"""Most bytes of a file of captured inputs."""
MAX_DEPTH = 300
"""Most levels of Python's syntax tree: what walks it recurses, and Python's own compiler gives up at a thousand."""
MAX_TOKENS = 2_000_000
"""Most tokens that macros may expand to; the largest seed kernels have a few thousand."""

_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"?|\'(?:\\.|[^\'\\\n])*\'?|[A-Za-z_]\w*|\d[\w.]*|\S')
_DEFINE = re.compile(r"[ \t]*#[ \t]*define[ \t]+([A-Za-z_]\w*)(\([^()\n]*\))?(.*)")
_NESTING = 400
"""Macro uses inside macro uses that are followed; what is deeper counts as too large."""


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
    if (inputs := captured_file(path)) is not None:
        check_inputs(inputs)


def check_inputs(path: Path) -> None:
    """Raise `TaskError` for captured inputs that are no regular file, or too large."""
    if (problem := _problem_of(path, MAX_INPUTS_BYTES)) is not None:
        raise TaskError(f"the file of captured inputs {path} {problem}", hint="pass a file that torch.save wrote")


def captured_file(folder: Path) -> Path | None:
    """Return the file of captured inputs that a task's folder names in `task.toml`; None where it names none."""
    try:
        name = tomllib.loads((folder / "task.toml").read_text()).get("inputs")
    except (OSError, ValueError, RecursionError):  # whoever loads the task says what is wrong with it
        return None
    return folder / name if isinstance(name, str) else None


def check_text(source: str) -> None:
    """Raise `CandidateError` for a source that nests too deeply, or whose macros expand to too much."""
    if "#" in source and "define" in source:
        _check_macros(source)
    check_depth(source)


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


def _check_macros(source: str) -> None:
    macros, rest = _macros(source)
    if not macros:
        return
    sizes = _Sizes(macros)
    try:
        total = sum(sizes.of(tokens, {}, 0) for tokens in (rest, *([name] for name in macros)))
    except (_TooMuch, RecursionError):
        total = math.inf
    if total > MAX_TOKENS:
        worst = max(macros, key=lambda name: sizes.known.get((name, ()), 0))
        raise CandidateError(
            f"the candidate's macros expand to more than {MAX_TOKENS:,} tokens, or nest more than {_NESTING} levels "
            f"deep; see {worst}",
            hint="use loops, templates or functions in place of macros that double themselves",
        )


def _macros(source: str) -> tuple[dict[str, tuple[tuple[str, ...] | None, list[str]]], list[str]]:
    """Return macros with their parameters (None without parentheses) and tokens, and the tokens of all other lines."""
    macros: dict[str, tuple[tuple[str, ...] | None, list[str]]] = {}
    rest: list[str] = []
    for line in source.replace("\\\r\n", " ").replace("\\\n", " ").splitlines():
        found = _DEFINE.match(line)
        if found is None:
            if not line.lstrip().startswith(("#", "//")):
                rest += _TOKEN.findall(line)
            continue
        name, given, body = found.groups()
        parameters = None if given is None else tuple(p.strip() for p in given[1:-1].split(",") if p.strip())
        # Of several definitions the largest counts: which of them holds depends on what is compiled.
        tokens = _TOKEN.findall(body)
        if name not in macros or len(tokens) > len(macros[name][1]):
            macros[name] = parameters, tokens
    return macros, rest


class _TooMuch(Exception):
    """Macros are nested deeper, or take longer to follow, than is allowed."""


class _Sizes:
    """Numbers of tokens that texts expand to, by a preprocessor's rules but for what is put off on purpose."""

    def __init__(self, macros: dict[str, tuple[tuple[str, ...] | None, list[str]]]) -> None:
        self._macros = macros
        self._open: set[str] = set()
        self._steps = 0
        self.known: dict[tuple[str, tuple[int, ...]], int] = {}

    def of(self, tokens: list[str], parameters: dict[str, int], depth: int) -> int:
        """Return the size of a text in which `parameters` stand for so many tokens each; raises `_TooMuch`."""
        self._steps += len(tokens) + 10
        if depth > _NESTING or self._steps > MAX_TOKENS:
            raise _TooMuch
        total, at = 0, 0
        while at < len(tokens):
            token = tokens[at]
            at += 1
            if token in parameters:
                total += parameters[token]
                continue
            names, _ = self._macros.get(token, (None, None))
            if token not in self._macros or token in self._open:
                total += 1
            elif names is None:
                total += self._expanded(token, (), depth)
            elif at < len(tokens) and tokens[at] == "(":
                given, at = _arguments(tokens, at)
                sizes = tuple(self.of(g, parameters, depth + 1) for g in given)
                total += self._expanded(token, sizes, depth)
            else:
                total += 1
        return total

    def _expanded(self, name: str, given: tuple[int, ...], depth: int) -> int:
        key = name, given
        if key not in self.known:
            names, body = self._macros[name]
            values = dict(zip(names or (), given, strict=False))
            if names and names[-1] == "...":
                values["__VA_ARGS__"] = sum(given[len(names) - 1 :])
            self._open.add(name)
            try:
                self.known[key] = self.of(body, values, depth + 1)
            finally:
                self._open.discard(name)
        return self.known[key]


def _arguments(tokens: list[str], at: int) -> tuple[list[list[str]], int]:
    """Return a macro's arguments, whose opening bracket is at `at`, and the place behind the closing one."""
    given: list[list[str]] = [[]]
    level = 0
    for place in range(at, len(tokens)):
        token = tokens[place]
        level += (token == "(") - (token == ")")
        if level == 0:
            return given, place + 1
        if token == "," and level == 1:
            given.append([])
        elif place > at:
            given[-1].append(token)
    return given, len(tokens)
