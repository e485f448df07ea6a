"""Candidates from files and text: their language, their tunables, and a normal form for finding duplicates."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Mapping
from pathlib import Path
from typing import TypeGuard, get_args

from forewarp.core.errors import CandidateError
from forewarp.core.languages import C_SUFFIXES
from forewarp.core.values import Candidate, Language
from forewarp.gpu_runner.formats import plan

MAX_SOURCE_BYTES = 1_000_000


def load(path: Path, tunables: Mapping[str, int] | None = None) -> Candidate:
    """Read a candidate from a file; the language follows from the suffix and, for `.py`, from the text.

    The launch plan of a `.cu` or `.cpp` file may lie beside it, in a `.toml` file of the same name; it is put in front.
    """
    source = _read(path)
    beside = path.with_suffix(".toml")
    if path.suffix in C_SUFFIXES and not plan.has_block(source) and beside.is_file():
        table = _read(beside)
        if "*/" in table:
            raise CandidateError(f"{beside} holds */, which would end the comment that it becomes")
        source = f"/*forewarp\n{table.strip()}\n*/\n{source}"
    return from_source(source, language_of(source, path.suffix), tunables)


def _read(path: Path) -> str:
    try:
        raw = path.read_bytes()
    except OSError as e:
        raise CandidateError(f"{path} cannot be read: {e.strerror}", hint="pass the path of a kernel file") from None
    if len(raw) > MAX_SOURCE_BYTES:
        raise CandidateError(f"{path} has {len(raw)} bytes; a candidate has at most {MAX_SOURCE_BYTES}")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise CandidateError(f"{path} is not UTF-8 text", hint="pass source code, not a compiled file") from None


def from_source(source: str, language: str, tunables: Mapping[str, int] | None = None) -> Candidate:
    """Make a candidate from text, with its plan's default tunables where none are given.

    Raises `CandidateError` if the launch plan is malformed or a tunable is unknown.
    """
    if not is_language(language):
        raise CandidateError(f"language {language!r} is unknown", hint=f"use one of {', '.join(get_args(Language))}")
    bare = Candidate(source, language)
    if language == "python":
        return bare
    parsed = plan.parse(bare)
    parsed.check(tunables or {})
    return Candidate(source, language, parsed.defaults() | dict(tunables or {}))


def is_language(name: str) -> TypeGuard[Language]:
    """Tell whether `name` is one of the languages."""
    return name in get_args(Language)


def language_of(source: str, suffix: str = "") -> Language:
    """Tell the language by suffix, then by text."""
    if suffix in C_SUFFIXES:
        return C_SUFFIXES[suffix]
    if re.search(r"^(class\s+ModelNew\b|def\s+custom_kernel\b|custom_kernel\s*=)", source, re.MULTILINE):
        return "python"
    if "triton" in source and "@triton.jit" in source:
        return "triton"
    if "__global__" in source:
        return "cuda"
    if re.search(r'extern\s+"C"', source):
        return "cpp"
    raise CandidateError(
        "the candidate's language cannot be told from its text",
        hint="use a .cpp or .cu file, a Triton file with @triton.jit, or a module with ModelNew or custom_kernel(data)",
    )


def normalise(candidate: Candidate) -> str:
    """Return the code without comments, launch plan and layout: equal texts mean equal code, whatever launches it."""
    strip = _strip_python if candidate.language in ("triton", "python") else _strip_c
    return " ".join(strip(candidate.source).split())


def _strip_c(source: str) -> str:
    # A quote that is never closed ends with the text, or the search would start again at each one.
    quoted = (rf"{quote}(?:\\.|[^{quote}\\])*+(?:{quote}|\\?\Z)" for quote in "\"'")
    pattern = re.compile("|".join((*quoted, r"//[^\n]*", r"/\*.*?(?:\*/|\Z)")), re.DOTALL)
    return pattern.sub(lambda m: m.group(0) if m.group(0)[0] in "\"'" else " ", source)


def _strip_python(source: str) -> str:
    kept: list[str] = []
    previous = tokenize.INDENT
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            docstring = token.type == tokenize.STRING and previous in (
                tokenize.INDENT,
                tokenize.NEWLINE,
                tokenize.DEDENT,
            )
            if token.type not in (tokenize.COMMENT, tokenize.NL) and not docstring:
                kept.append(
                    "{" if token.type == tokenize.INDENT else "}" if token.type == tokenize.DEDENT else token.string
                )
            if token.type not in (tokenize.COMMENT, tokenize.NL):
                previous = token.type
    except (tokenize.TokenError, IndentationError):
        return source
    return " ".join(kept)
