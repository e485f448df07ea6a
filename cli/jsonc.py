"""JSON with comments and trailing commas, as editors write it: read, and changed in place with the rest left alone."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_TOKEN = re.compile(r'\s+|//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"/]+', re.DOTALL)


@dataclass(slots=True)
class JsonNode:
    """A value with its place in the text; of an object, its members by key."""

    start: int
    end: int
    value: Any
    members: dict[str, Member] = field(default_factory=dict[str, "Member"])


@dataclass(frozen=True, slots=True)
class Member:
    """One member of an object: where its key begins, and its value."""

    start: int
    node: JsonNode


class _Reader:
    """Reads tokens that mean something, one after the other; raises `ValueError`."""

    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[int, int, str]] = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise ValueError(f"{text[at : at + 20]!r} is no JSON")
            at = match.end()
            if not match[0].isspace() and not match[0].startswith(("//", "/*")):
                self.tokens.append((match.start(), at, match[0]))
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at][2] if self.at < len(self.tokens) else ""

    def take(self, expected: str = "") -> tuple[int, int, str]:
        if self.at == len(self.tokens) or (expected and self.peek() != expected):
            raise ValueError(f"{self.peek() or 'the end'!r} stands where {expected or 'a value'!r} was expected")
        self.at += 1
        return self.tokens[self.at - 1]

    def node(self) -> JsonNode:
        start, end, text = self.take()
        if text == "{":
            return self._object(start)
        if text == "[":
            items: list[Any] = []
            while self.peek() != "]":
                items.append(self.node().value)
                if self.peek() != "]":
                    self.take(",")
            return JsonNode(start, self.take("]")[1], items)
        return JsonNode(start, end, json.loads(text))

    def _object(self, start: int) -> JsonNode:
        members: dict[str, Member] = {}
        while self.peek() != "}":
            at, _, key = self.take()
            if not key.startswith('"'):
                raise ValueError(f"{key!r} is no key")
            self.take(":")
            if (name := json.loads(key)) in members:
                raise ValueError(f"{key} stands there twice")
            members[name] = Member(at, self.node())
            if self.peek() != "}":
                self.take(",")
        end = self.take("}")[1]
        return JsonNode(start, end, {name: m.node.value for name, m in members.items()}, members)


def _read(text: str) -> JsonNode:
    reader = _Reader(text)
    found = reader.node()
    if reader.peek():
        raise ValueError(f"{reader.peek()!r} stands behind the end")
    return found


def loads(text: str) -> Any:
    """Return what a text holds; raises `ValueError`."""
    return _read(text).value


def with_member(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with the value at a path of keys set; objects on the way are made. Raises `ValueError`."""
    at = _read(text)
    for depth, key in enumerate(path):
        if not isinstance(at.value, dict):
            raise ValueError(f"{'.'.join(path[:depth]) or 'the file'} is no object")
        if key not in at.members:
            for name in reversed(path[depth + 1 :]):
                value = {name: value}
            return _inserted(text, at, key, value, depth + 1)
        at = at.members[key].node
    return text[: at.start] + _shown(value, len(path)) + text[at.end :]


def _shown(value: Any, depth: int) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n" + "  " * depth)


def _inserted(text: str, parent: JsonNode, key: str, value: Any, depth: int) -> str:
    """Return the text with a member behind the last one of an object, and behind the comments there."""
    last = max((m.node.end for m in parent.members.values()), default=parent.start + 1)
    tail = text[last : parent.end - 1]
    comma = "," if parent.members and "," not in _meant(tail) else ""
    member = f"\n{'  ' * depth}{json.dumps(key)}: {_shown(value, depth)}\n{'  ' * (depth - 1)}"
    return f"{text[:last]}{comma}{tail.rstrip()}{member}{text[parent.end - 1 :]}"


def _meant(text: str) -> list[str]:
    """Return the tokens of a text that are neither space nor comment."""
    return [token for _, _, token in _Reader(text).tokens]


def without_member(text: str, path: Sequence[str]) -> str:
    """Return the text without the member at a path, which must be there, and without its comma."""
    at = _read(text)
    for key in path[:-1]:
        at = at.members[key].node
    member = at.members[path[-1]]
    start, end = member.start, member.node.end
    tokens = _Reader(text).tokens
    before = next((place for place in reversed(tokens) if place[1] <= start), None)
    after = next((place for place in tokens if place[0] >= end), None)
    if after is not None and after[2] == ",":
        end = after[1]
    elif before is not None and before[2] == ",":
        start = before[0]
        return text[:start] + text[start + 1 : member.start].rstrip() + text[end:]
    return text[:start].rstrip(" \t") + text[end:].lstrip(" \t").removeprefix("\n")
