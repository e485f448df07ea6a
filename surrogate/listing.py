"""Candidates as a forecaster may read them: without comments and docstrings, with the launch plan apart.

Comments are where a model that writes kernels says how fast it hopes they are; a forecaster that reads them learns to
trust the hope. Layout is kept, because the text is for reading.
"""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass
from functools import lru_cache

from forewarp.core.values import Candidate, Language

FENCES = {"cpp": "cpp", "cuda": "cuda", "triton": "python", "python": "python"}

_PLAN = re.compile(r'\A\s*(?:/\*|"""|\'\'\')\s*forewarp\s*\n(.*?)(?:\*/|"""|\'\'\')', re.DOTALL)
_C_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TOML_COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*"|\'[^\'\n]*\')|[ \t]*#[^\n]*')
_STATEMENT_BEGINS = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
_QUOTED = re.compile(r"\A(\w*)(\"\"\"|'''|\"|')(.*)\2\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Listing:
    """A candidate's code and launch plan (TOML, "" where there is none), both without comments."""

    code: str
    plan: str


def listing(candidate: Candidate) -> Listing:
    """Split and strip a candidate's text; a text that does not parse loses what can be found in it."""
    return _listing(candidate.source, candidate.language)


@lru_cache(maxsize=512)
def _listing(source: str, language: Language) -> Listing:
    match = _PLAN.match(source)
    plan = _TOML_COMMENT.sub(lambda m: m.group(1) or "", match.group(1)) if match else ""
    body = source[match.end() :] if match else source
    code = _python(body) if language in ("triton", "python") else _c(body)
    return Listing(_tidy(code), _tidy(plan))


def clip(text: str, limit: int) -> str:
    """Return at most `limit` characters of `text`: its head and its tail, where compilers put what matters."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"


def _tidy(text: str) -> str:
    lines = [line.rstrip() for line in text.splitlines()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


def _c(source: str) -> str:
    return _C_TOKEN.sub(lambda m: m.group(0) if m.group(0)[0] in "\"'" else " ", source)


def _python(source: str) -> str:
    """Blank out comments and bare strings by position, and comments of C source inside strings."""
    edits: list[tuple[tuple[int, int], tuple[int, int], str]] = []
    previous = tokenize.NEWLINE
    try:
        tokens = [t for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type != tokenize.NL]
    except (tokenize.TokenError, SyntaxError):
        return re.sub(r"(?m)(^|\s)#.*$", "", source)
    for token in tokens:
        if token.type == tokenize.COMMENT:
            edits.append((token.start, token.end, ""))
            continue
        if token.type == tokenize.STRING and previous in _STATEMENT_BEGINS:
            edits.append((token.start, token.end, "..."))
        elif token.type == tokenize.STRING and ("__global__" in token.string or "#include" in token.string):
            edits.append((token.start, token.end, _c_in_string(token.string)))
        previous = tokenize.NEWLINE if token.string == ";" else token.type
    return _apply(source, edits)


def _c_in_string(literal: str) -> str:
    match = _QUOTED.match(literal)
    if match is None:
        return literal
    prefix, quote, body = match.groups()
    return f"{prefix}{quote}{_c(body)}{quote}"


def _apply(source: str, edits: list[tuple[tuple[int, int], tuple[int, int], str]]) -> str:
    offsets = [0]
    for line in source.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    for (row, column), (end_row, end_column), text in reversed(edits):
        start, end = offsets[row - 1] + column, offsets[end_row - 1] + end_column
        source = source[:start] + text + source[end:]
    return source
