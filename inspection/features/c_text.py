"""C++ text cut where its brackets allow it: blocks, statements, arguments, and choices in Python's form."""

from __future__ import annotations

from collections.abc import Iterator


def enclosed(text: str, start: int) -> str:
    """Return the text from `start` up to the brace that closes the one before it."""
    depth = 1
    for place in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[start:place]
    return text[start:]


def statements(body: str) -> Iterator[str]:
    """Yield simple statements in order; of a loop its first clause, its condition, then its body."""
    depth, start = 0, 0
    for place, letter in enumerate(body):
        if letter in "([":
            depth += 1
        elif letter in ")]":
            depth -= 1
        elif letter in ";{}" and depth <= 1:
            yield body[start:place]
            start = place + 1
            if letter in "{}":
                depth = 0
    yield body[start:]


def split(text: str, mark: str = ",") -> list[str]:
    """Return the parts between marks that stand in no bracket."""
    parts, depth, start = [""], 0, 0
    for place, letter in enumerate(text):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(letter, 0)
        if letter == mark and depth == 0:
            parts[-1] = text[start:place]
            parts.append("")
            start = place + 1
    parts[-1] = text[start:]
    return parts


def _choice(text: str) -> str:
    """Turn `c ? a : b` at the top level into Python's form."""
    test, mark, rest = _cut(text, "?")
    if not mark:
        return text
    yes, mark, no = _cut(rest, ":")
    return f"(({_choice(yes)}) if ({test}) else ({_choice(no)}))" if mark else text


def _cut(text: str, mark: str) -> tuple[str, str, str]:
    parts = split(text, mark)
    return (parts[0], mark, mark.join(parts[1:])) if len(parts) > 1 else (text, "", "")


def balanced(text: str, start: int) -> int:
    """Return the place after the bracket that closes the one before `start`."""
    depth = 1
    for place in range(start, len(text)):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    return len(text)


def choices(text: str) -> str:
    """Turn every `c ? a : b`, in brackets or not, into Python's form."""
    if "?" not in text:
        return text
    out, place = "", 0
    while place < len(text):
        if text[place] in "([":
            end = balanced(text, place + 1)
            inner = ",".join(choices(p) for p in split(text[place + 1 : end - 1]))
            out += text[place] + inner + text[end - 1]
            place = end
        else:
            out += text[place]
            place += 1
    return _choice(out)
