"""Candidates from files and text: their language, their tunables, and a normal form for finding duplicates."""

from __future__ import annotations

import ast
import io
import os
import re
import tokenize
from collections.abc import Mapping
from pathlib import Path
from typing import TypeGuard, get_args

from forewarp.core.errors import CandidateError, did_you_mean
from forewarp.core.languages import C_SUFFIXES
from forewarp.core.values import Candidate, Language
from forewarp.gpu_runner.formats import plan
from forewarp.gpu_runner.formats.python_text import replaced

MAX_SOURCE_BYTES = 1_000_000


def load(path: Path, tunables: Mapping[str, int] | None = None) -> Candidate:
    """Read a candidate from a file, behind the launch plan in a `.toml` file of its name, if there is one."""
    source = read(path)
    beside = path.with_suffix(".toml")
    if path.suffix in (*C_SUFFIXES, ".cuh") and not plan.has_block(source) and beside.is_file():
        table = read(beside)
        if "*/" in table:
            raise CandidateError(f"{beside} holds */, which would end the comment that it becomes")
        source = f"/*forewarp\n{table.strip()}\n*/\n{source}"
    return from_source(source, language_of(source, path.suffix), tunables)


def read(path: Path) -> str:
    """Return the text of a source file; raises `CandidateError` where it cannot be read, or is empty or too large."""
    try:
        raw = path.read_bytes()
    except OSError as e:
        near = did_you_mean(path.name, _names_beside(path))
        hint = f"{near}pass the path of a kernel file"
        raise CandidateError(f"{path} cannot be read: {e.strerror}", hint=hint) from None
    if not raw.strip():
        raise CandidateError(f"{path} is empty", hint="pass the path of a kernel file")
    if len(raw) > MAX_SOURCE_BYTES:
        raise CandidateError(f"{path} has {len(raw)} bytes; a candidate has at most {MAX_SOURCE_BYTES}")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise CandidateError(f"{path} is not UTF-8 text", hint="save the source code as UTF-8") from None


def _names_beside(path: Path) -> list[str]:
    try:
        return [name for name in os.listdir(path.parent) if name != path.name]
    except OSError:
        return []


def from_source(source: str, language: str, tunables: Mapping[str, int] | None = None) -> Candidate:
    """Make a candidate from text; raises `CandidateError` if its launch plan is malformed or a tunable is unknown."""
    if not is_language(language):
        raise CandidateError(f"language {language!r} is unknown", hint=f"use one of {', '.join(get_args(Language))}")
    parsed = plan.parse(Candidate(source, language))
    parsed.check(tunables or {})
    made = Candidate(source, language, parsed.defaults() | dict(tunables or {}))
    with_chosen(made)
    return made


def with_chosen(candidate: Candidate) -> Candidate:
    """Return a Python module as it is run: its tunables' constants have the chosen values. Others stay as they are.

    Raises `CandidateError` where a tunable is no constant of the module.
    """
    if candidate.language != "python" or not candidate.tunables:
        return candidate
    found = _constants(candidate.source, set(candidate.tunables))
    chosen = [(node, str(candidate.tunables[name])) for name, node in found.items()]
    return Candidate(replaced(candidate.source, chosen), "python")


def _constants(source: str, names: set[str]) -> dict[str, ast.expr]:
    """Return the values, as nodes, that a module assigns to these names at its top level, each a whole number."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        raise CandidateError(f"the module is no Python: {e}") from None
    found: dict[str, ast.expr] = {}
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in names and name not in found:
                number = value.operand if isinstance(value, ast.UnaryOp) else value
                if isinstance(number, ast.Constant) and type(number.value) is int:
                    found[name] = value
            case _:
                pass
    if missing := sorted(names - found.keys()):
        raise CandidateError(
            f"the module has no constant {missing[0]} for the tunable of that name",
            hint=f"write a line such as {missing[0]} = 128, outside of functions and classes",
        )
    return found


def is_language(name: str) -> TypeGuard[Language]:
    return name in get_args(Language)


def language_of(source: str, suffix: str = "") -> Language:
    if suffix in C_SUFFIXES:
        return C_SUFFIXES[suffix]
    if re.search(r"^(class\s+ModelNew\b|def\s+custom_kernel\b|(ModelNew|custom_kernel)\s*=)", source, re.MULTILINE):
        return "python"
    if "triton" in source and "@triton.jit" in source:
        return "triton"
    if "__global__" in source:
        return "cuda"
    if re.search(r'extern\s+"C"', source):
        return "cpp"
    if suffix == ".py":
        try:
            ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
            raise CandidateError(f"the file is no Python: {e}", hint="mend it, or name it .cpp or .cu") from None
    raise CandidateError(
        "the candidate's language cannot be told from its text",
        hint="use a .cpp or .cu file, a Triton file with @triton.jit, or a module with ModelNew or custom_kernel(data)",
    )


def normalise(candidate: Candidate) -> str:
    """Return the code without comments, launch plan and layout: equal texts mean equal code, whatever launches it."""
    strip = _strip_python if candidate.language in ("triton", "python") else _strip_c
    return " ".join(strip(with_chosen(candidate).source).split())


def _strip_c(source: str) -> str:
    # A quote that is never closed ends with the text, or the search would start again at each one.
    quoted = (rf"{quote}(?:\\.|[^{quote}\\])*+(?:{quote}|\\?\Z)" for quote in "\"'")
    pattern = re.compile("|".join((*quoted, r"//[^\n]*", r"/\*.*?(?:\*/|\Z)")), re.DOTALL)
    return pattern.sub(lambda m: m.group(0) if m.group(0)[0] in "\"'" else " ", source)


def _strip_python(source: str) -> str:
    kept: list[str] = []
    begins, blocks = (tokenize.INDENT, tokenize.NEWLINE, tokenize.DEDENT), {tokenize.INDENT: "{", tokenize.DEDENT: "}"}
    previous = tokenize.INDENT
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type in (tokenize.COMMENT, tokenize.NL):
                continue
            if token.type != tokenize.STRING or previous not in begins:  # else it is a docstring
                kept.append(blocks.get(token.type, token.string))
            previous = token.type
    except (tokenize.TokenError, IndentationError):
        return source
    return " ".join(kept)
