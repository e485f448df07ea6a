"""Candidates as a forecaster may read them: without comments, docstrings and claims, with the launch plan apart.

Comments and names are where a model that writes kernels says how fast it hopes they are; a forecaster that reads them
learns to trust the hope. So `softmax_fast_v2` is shown as `softmax`. Layout is kept, because the text is for reading.
"""

from __future__ import annotations

import io
import itertools
import re
import tokenize
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache

from forewarp.core.values import Candidate, Language

FENCES = {"cpp": "cpp", "cuda": "cuda", "triton": "python", "python": "python"}

_PLAN = re.compile(r'\A\s*(?:/\*|"""|\'\'\')\s*forewarp\s*\n(.*?)(?:\*/|"""|\'\'\')', re.DOTALL)
_C_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TOML_COMMENT = re.compile(r'("(?:\\.|[^"\\\n])*"|\'[^\'\n]*\')|[ \t]*#[^\n]*')
_SPEED = re.compile(
    r"fast(er|est)?|slow(er|est)?|quick(er|est)?|optimi[sz]ed|optimi[sz]ation|optimal|improved|(in)?efficient|speedups?|speed"
    r"|turbo|ultra|naive|baseline|(un)?tuned",
    re.IGNORECASE,
)
"""Part of a name that says how fast something is."""

_RANK = re.compile(
    r"best|worst|better|worse|winner|loser|final|good|bad|(in)?correct|wrong|buggy|broken|v\d+"
    r"|(candidate|attempt|variant|version|iteration|trial|try)\d*",
    re.IGNORECASE,
)
"""Part of a name that says how good something is, or which one of many: of a function or class, where it stands beside
other parts. A variable `best` is of the algorithm."""

_DEFINED = re.compile(r"\b(?:def|class|struct|void)\s+(\w+)")
_LIBRARY = re.compile(r"use_fast_math|fast_math|fast_\w+f")
"""Names of compilers and libraries, which say something of the precision."""

_NAME = re.compile(r"(?<![\w.])(?<!::)(?<!->)[A-Za-z_]\w*|(?<=self\.)[A-Za-z_]\w*")
_PART = re.compile(r"_+|\d+|[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*")
_TEXT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'')
_STATEMENT_BEGINS = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
_QUOTED = re.compile(r"\A(\w*)(\"\"\"|'''|\"|')(.*)\2\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Listing:
    """A candidate's code and launch plan (TOML, "" where there is none), both without comments."""

    code: str
    plan: str


def listing(candidate: Candidate) -> Listing:
    """Split and strip a candidate's text, as far as it parses; tunables keep their names."""
    return _listing(candidate.source, candidate.language, frozenset(candidate.tunables))


@lru_cache(maxsize=512)
def _listing(source: str, language: Language, tunables: frozenset[str]) -> Listing:
    match = _PLAN.match(source)
    plan = _TOML_COMMENT.sub(lambda m: m.group(1) or "", match.group(1)) if match else ""
    body = source[match.end() :] if match else source
    code = _python(body) if language in ("triton", "python") else _c(body)
    names = _renamed(code, tunables)
    return Listing(*(_tidy(_without_claims(text, names)) for text in (code, plan)))


def _renamed(code: str, kept: AbstractSet[str]) -> dict[str, str]:
    """Return names of the code that claim something, with names without the claim that nothing else has."""
    found, defined = dict.fromkeys(m.group() for m in _NAME.finditer(code)), set(_DEFINED.findall(code))
    taken, names = set(found) | kept, dict[str, str]()
    for name in found:
        plain = name if name in kept or _LIBRARY.fullmatch(name) else _plain(name, ranks=name in defined)
        if plain != name:
            free = (f"{plain}{number}" for number in itertools.count(2))
            names[name] = plain if plain not in taken else next(n for n in free if n not in taken)
            taken.add(names[name])
    return names


def _plain(name: str, *, ranks: bool) -> str:
    """Return a name without its parts that claim something; a number that follows one goes with it."""
    parts, kept, claimed = _PART.findall(name), list[str](), False
    for part in parts:
        goes_on = claimed and (part.isdigit() or not part.strip("_"))
        claimed = goes_on or bool(_SPEED.fullmatch(part)) or (ranks and bool(_RANK.fullmatch(part)))
        if not claimed:
            kept.append(part)
    if len(kept) == len(parts):
        return name
    plain = "".join(kept).rstrip("_") if name.startswith("_") else "".join(kept).strip("_")
    if plain.strip("_") and not plain[0].isdigit():
        return plain
    return "name" if any(map(_SPEED.fullmatch, parts)) else name


def _without_claims(text: str, names: Mapping[str, str]) -> str:
    """Return a text with its names exchanged, and without sentences that claim something."""
    text = _TEXT.sub(lambda m: '"..."' if _is_claim(m.group()) else m.group(), text)
    return _NAME.sub(lambda m: names.get(m.group(), m.group()), text)


def _is_claim(literal: str) -> bool:
    words = literal[1:-1].split()
    return len(words) > 1 and any(_SPEED.fullmatch(word.strip(".,:;!?()")) for word in words)


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
