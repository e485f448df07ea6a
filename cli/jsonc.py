"""JSON with comments and trailing commas, as editors write it: read, and changed in place with the rest left alone."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_STRING = r'("(?:[^"\\\n]|\\.)*")'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])")


@dataclass(frozen=True, slots=True)
class Member:
    """Places of one member of an object in the text: where its key begins, and from where to where its value goes."""

    start: int
    value: int
    end: int


def loads(text: str) -> Any:
    """Return what a text holds; raises `ValueError`."""
    return json.loads(_plain(text), object_pairs_hook=_object)


def with_member(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with the value at a path of keys set; objects on the way are made. Raises `ValueError`."""
    loads(text)
    plain = _plain(text)
    at, value_end = len(plain) - len(plain.lstrip()), len(plain)
    for depth, key in enumerate(path):
        if plain[at] != "{":
            raise ValueError(f"{'.'.join(path[:depth]) or 'the file'} is no object")
        members, end = _members(plain, at)
        if key not in members:
            for name in reversed(path[depth + 1 :]):
                value = {name: value}
            last = max((m.end for m in members.values()), default=at + 1)
            return _inserted(text, last, end, key, value, depth + 1, first=not members)
        at, value_end = members[key].value, members[key].end
    return text[:at] + _shown(value, len(path)) + text[value_end:]


def without_member(text: str, path: Sequence[str]) -> str:
    """Return the text without the member at a path, which must be there, and without its comma."""
    plain = _plain(text)
    at = len(plain) - len(plain.lstrip())
    for key in path[:-1]:
        at = _members(plain, at)[0][key].value
    member = _members(plain, at)[0][path[-1]]
    start, end = member.start, member.end
    meant = _blanked(_COMMENT, text)
    behind, before = meant[end:].lstrip(), meant[:start].rstrip()
    if behind.startswith(","):
        end = len(meant) - len(behind) + 1
    elif before.endswith(","):
        comma = len(before) - 1
        return text[:comma] + text[comma + 1 : start].rstrip() + text[end:]
    return text[:start].rstrip(" \t") + text[end:].lstrip(" \t").removeprefix("\n")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError(f"one of {', '.join(made)} stands there twice")
    return made


def _plain(text: str) -> str:
    """Return JSON with everything in the same place."""
    return _blanked(_TRAILING_COMMA, _blanked(_COMMENT, text))


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    """Return the text with blanks for all that the pattern matches but strings."""
    return pattern.sub(lambda found: found[1] or re.sub(r"[^\n]", " ", found[0]), text)


def _members(plain: str, at: int) -> tuple[dict[str, Member], int]:
    """Return the members of the object that begins at a place, by key, and the place of its closing brace."""
    read = json.JSONDecoder().raw_decode
    members: dict[str, Member] = {}
    at += 1
    while (start := _next(plain, at)) and plain[start] != "}":
        key, behind = read(plain, start)
        value = _next(plain, _next(plain, behind) + 1)  # behind the colon
        members[key] = Member(start, value, read(plain, value)[1])
        at = _next(plain, members[key].end)
        at += plain[at] == ","
    return members, start


def _next(plain: str, at: int) -> int:
    """Return the place of the next character that is no space."""
    return len(plain) - len(plain[at:].lstrip())


def _shown(value: Any, depth: int) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n" + "  " * depth)


def _inserted(text: str, last: int, end: int, key: str, value: Any, depth: int, *, first: bool) -> str:
    """Return the text with a member behind the `last` one of an object that ends at `end`, and behind the comments."""
    tail = text[last:end]
    comma = "" if first or "," in _blanked(_COMMENT, tail) else ","
    member = f"\n{'  ' * depth}{json.dumps(key)}: {_shown(value, depth)}\n{'  ' * (depth - 1)}"
    return f"{text[:last]}{comma}{tail.rstrip()}{member}{text[end:]}"
