"""Candidate texts without comments and docstrings, and their normal form for hashes.

The hashes are published, so they must not depend on the version of a tokenizer: `gpu_runner.formats.candidate` has a
normal form of its own, for finding duplicates within a run.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from forewarp.core.values import Candidate, Language, digest

_PLAN = re.compile(r'\A\s*(/\*|"""|\'\'\')\s*forewarp\s*\n(.*?)(\*/|"""|\'\'\')', re.DOTALL)
_PYTHON = re.compile(
    r"(?P<string>[rRbBfFuU]{0,2}(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''"
    r'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'))'
    r"|(?P<comment>#[^\n]*)|(?P<newline>\\?\n)|(?P<open>[(\[{])|(?P<close>[)\]}])"
    r"|(?P<other>(?:(?![rRbBfFuU]{0,2}[\"'])[^\"'#\n()\[\]{}\\])+|.)",
    re.DOTALL,
)
_C = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)', re.DOTALL)
_TOML = re.compile(r'"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|(?P<comment>#[^\n]*)')
# A module holds CUDA as a string; what is written into that is read as well.
_EMBEDDED = re.compile(r"__global__|#include\s*<")
_TIGHT = re.compile(r"\s+(?=\W)|(?<=\W)\s+")


@dataclass(frozen=True, slots=True)
class Keys:
    """Hashes that tell candidates apart: of the text, the launch plan ("" without one), both, and with tunables."""

    text: str
    launches: str
    program: str
    stripped: str


@dataclass(slots=True)
class _Line:
    """A logical line of Python: its indentation, its code without comments, and whether it is a string by itself."""

    indent: str
    code: str
    bare: bool


def keys(candidate: Candidate) -> Keys:
    """Return the three hashes of a candidate, each a hexadecimal SHA-256."""
    text, launches, program = _program(candidate.source, candidate.language)
    chosen = json.dumps(dict(sorted(candidate.tunables.items())))
    return Keys(text, launches, program, digest(program, chosen))


def without_comments(source: str, language: Language) -> str:
    """Return the text without comments and docstrings; the launch plan stays, without comments of its own."""
    head, body = _split_plan(source)
    code = _stripped(body, language)
    return f"{head}\n{code}" if head else code


def remarks(source: str, language: Language) -> list[str]:
    """Return every comment and docstring of a text, those of the launch plan and of embedded CUDA code too."""
    match = _PLAN.match(source)
    body = source[match.end() :] if match else source
    comments = [m["comment"] for m in _TOML.finditer(match[2]) if m["comment"]] if match else []
    if language in ("cuda", "cpp"):
        return comments + [m["comment"] for m in _C.finditer(body) if m["comment"]]
    comments += [m["comment"] for m in _PYTHON.finditer(body) if m["comment"]]
    comments += [line.code for line in _logical(body) if line.bare]
    embedded = [m["string"] for m in _PYTHON.finditer(body) if m["string"] and _EMBEDDED.search(m["string"])]
    return comments + [m["comment"] for text in embedded for m in _C.finditer(_inside(text)[1]) if m["comment"]]


@lru_cache(maxsize=4096)
def _program(source: str, language: Language) -> tuple[str, str, str]:
    match = _PLAN.match(source)
    body = _stripped(source[match.end() :] if match else source, language)
    normal = _normal_c(body) if language in ("cuda", "cpp") else _normal_python(body)
    launches = digest(_launches(match[2])) if match else ""
    return digest(language, normal), launches, digest(language, normal, launches)


def _launches(plan: str) -> str:
    """Return the plan in a normal form, without the tunables' choices, which do not make another program."""
    try:
        table: dict[str, Any] = tomllib.loads(plan)
    except tomllib.TOMLDecodeError:
        return " ".join(plan.split())
    kept = {k: v for k, v in table.items() if k not in ("tunables", "constraints", "format")}
    return json.dumps(kept, sort_keys=True, default=str)


def _split_plan(source: str) -> tuple[str, str]:
    """Return the launch plan with its marks and without comments, and the rest."""
    match = _PLAN.match(source)
    if match is None:
        return "", source
    table = _without(_TOML, match[2])
    lines = [line.rstrip() for line in table.splitlines() if line.strip()]
    return "\n".join((f"{match[1]}forewarp", *lines, match[3])), source[match.end() :]


def _stripped(source: str, language: Language) -> str:
    if language in ("cuda", "cpp"):
        return _tidy(_without(_C, source, " "))
    return "".join(f"{line.indent}{line.code}\n" for line in _documented(_logical(source)))


def _without(pattern: re.Pattern[str], source: str, instead: str = "") -> str:
    return pattern.sub(lambda m: instead if m["comment"] else m[0], source)


def _tidy(source: str) -> str:
    lines = [line.rstrip() for line in source.splitlines()]
    return "\n".join(line for line in lines if line) + "\n"


def _documented(lines: Sequence[_Line]) -> list[_Line]:
    """Drop bare strings, such as docstrings; a block that has nothing else gets `pass` in their place."""
    kept: list[_Line] = []
    for i, line in enumerate(lines):
        following = lines[i + 1].indent if i + 1 < len(lines) else None
        if not line.bare or (line.indent and following != line.indent and not _continues(kept, line)):
            kept.append(_Line(line.indent, "pass" if line.bare else line.code, bare=False))
    return kept


def _continues(kept: Sequence[_Line], line: _Line) -> bool:
    """Return whether the block of this line holds something else already."""
    for earlier in reversed(kept):
        if len(earlier.indent) <= len(line.indent):
            return earlier.indent == line.indent
    return False


def _logical(source: str) -> list[_Line]:
    """Split Python into logical lines; blank ones and comments are gone, strings are as they were."""
    lines: list[_Line] = []
    pieces: list[str] = []
    strings = others = depth = 0

    def end() -> None:
        nonlocal strings, others
        code = "".join(pieces).rstrip()
        if code.strip():
            bare = strings == 1 and others == 0
            lines.append(_Line(code[: len(code) - len(code.lstrip())].replace("\t", "    "), code.strip(), bare))
        pieces.clear()
        strings = others = 0

    for match in _PYTHON.finditer(source):
        kind, token = match.lastgroup, match[0]
        depth = max(0, depth + (kind == "open") - (kind == "close"))
        if kind == "newline" and depth == 0 and token == "\n":
            end()
            continue
        if kind == "comment" or (kind == "newline" and _ends_line(pieces)):
            continue
        strings += kind == "string"
        others += kind in ("open", "close") or (kind == "other" and not token.isspace())
        pieces.append(_clean(token) if kind == "string" else token)
    end()
    return lines


def _ends_line(pieces: list[str]) -> bool:
    """Drop space at the end of a line within brackets; return whether the line was empty."""
    while pieces and pieces[-1] != "\n" and (bare := pieces[-1].rstrip()) != pieces[-1]:
        pieces[-1:] = [bare] if bare else []
    return not pieces or pieces[-1] == "\n"


def _clean(string: str) -> str:
    """Return a string literal; CUDA code in it loses its comments."""
    if not _EMBEDDED.search(string):
        return string
    mark, text, end = _inside(string)
    return mark + _without(_C, text, " ") + end


def _inside(string: str) -> tuple[str, str, str]:
    """Take a string literal apart: its opening, its text and its closing."""
    prefix = len(string) - len(string.lstrip("rRbBfFuU"))
    quotes = 3 if string[prefix : prefix + 3] in ('"""', "'''") else 1
    return string[: prefix + quotes], string[prefix + quotes : -quotes], string[-quotes:]


def _normal_c(source: str) -> str:
    """Return C with one line per directive, and no space that a compiler does not need."""
    parts: list[str] = []
    for line in source.replace("\\\n", " ").splitlines():
        directive = line.lstrip().startswith("#")
        parts.append("\n" + " ".join(line.split()) + "\n" if directive else line + " ")
    return "\n".join(_squeezed(_C, part) for part in "".join(parts).split("\n") if part.strip())


def _normal_python(source: str) -> str:
    """Return Python with its blocks in braces, and no space that it does not need."""
    parts: list[str] = []
    indents = [""]
    for line in _logical(source):
        while len(indents) > 1 and len(line.indent) < len(indents[-1]):
            indents.pop()
            parts.append("}")
        if len(line.indent) > len(indents[-1]):
            indents.append(line.indent)
            parts.append("{")
        parts.append(_squeezed(_PYTHON_STRINGS, line.code))
    return "\n".join(parts)


_PYTHON_STRINGS = re.compile(_PYTHON.pattern.partition("|(?P<comment>")[0], re.DOTALL)


def _squeezed(strings: re.Pattern[str], code: str) -> str:
    """Remove needless space outside of string literals."""
    parts: list[str] = []
    place = 0
    for match in strings.finditer(code):
        parts += [_TIGHT.sub("", " ".join(code[place : match.start()].replace("\\\n", " ").split())), match[0]]
        place = match.end()
    parts.append(_TIGHT.sub("", " ".join(code[place:].replace("\\\n", " ").split())))
    return "".join(parts)
