"""Parsing of slash-command arguments: words, tunables, options, and paths below the working folder."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from forewarp.core.errors import UsageError

GENERATED = frozenset(["__pycache__", "build", "dist", "node_modules", "site-packages", "target", "venv", "wandb"])
"""Names of folders with generated or installed files, which listings leave out."""

_TUNABLE = re.compile(r"([A-Za-z_]\w*)=(.*)")


@dataclass(frozen=True, slots=True)
class Arguments:
    """Parsed arguments: words in order, `NAME=VALUE` pairs, and options with their values."""

    words: list[str] = field(default_factory=list[str])
    tunables: dict[str, int] = field(default_factory=dict[str, int])
    options: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def option(self, name: str) -> str:
        """Return the last value of an option; "" where it was not given."""
        return self.options.get(name, [""])[-1]


def words(text: str) -> list[str]:
    """Split as a shell does; an apostrophe without its partner is one of the text."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def read(given: Sequence[str], *, options: Sequence[str] = (), rest: str = "", tunables: bool = False) -> Arguments:
    """Sort words into plain words, options and tunables.

    Each of `options` takes one word, `rest` all that follow it. Raises `UsageError` for an option that is not known or
    has no value, and for a tunable that is no integer.
    """
    found = Arguments()
    left = list(given)
    while left:
        word = left.pop(0)
        name, sign, value = word.partition("=")
        if word.startswith("--"):
            if name not in (*options, rest):
                known = ", ".join(o for o in (*options, rest) if o)
                raise UsageError(f"there is no option {name}", hint=f"there is {known}" if known else "leave it out")
            if not sign:
                value = " ".join(left) if name == rest else left.pop(0) if left else ""
            elif name == rest:
                value = " ".join([value, *left])
            if name == rest:
                left.clear()
            if not value.strip():
                raise UsageError(f"{name} needs a value after it", hint="see /help")
            found.options.setdefault(name, []).append(value.strip())
        elif tunables and (pair := _TUNABLE.fullmatch(word)):
            found.tunables[pair[1]] = whole(pair[2], f"the value of {pair[1]}")
        else:
            found.words.append(word)
    return found


def whole(text: str, what: str) -> int:
    """Return an integer; raises `UsageError`."""
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{what} is an integer, not {text!r}", hint="write it as NAME=INTEGER or INTEGER") from None


def amount(text: str, what: str) -> float:
    """Return a number that is not negative; raises `UsageError`."""
    try:
        value = float(text.removeprefix("$"))
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise UsageError(f"{what} is a number, not {text!r}", hint="such as 20, or none for no cap")
    return value


def at_most(given: Sequence[str], count: int, usage: str) -> None:
    """Raise `UsageError` where there are more words than `count`."""
    if len(given) > count:
        raise UsageError(f"{given[count]!r} is one word too many", hint=f"it is {usage}")


def one_of(word: str, choices: Sequence[str], what: str) -> str:
    """Return the word if it is one of the choices; raises `UsageError`."""
    if word not in choices:
        raise UsageError(
            f"{what} is {', '.join(choices[:-1])} or {choices[-1]}, not {word!r}", hint="choose one of them"
        )
    return word


def inside(folder: Path, path: str | Path) -> Path:
    """Return a path below the working folder as an absolute one; raises `UsageError` for one outside of it."""
    root = folder.resolve()
    found = (root / Path(path).expanduser()).resolve()
    if not found.is_relative_to(root):
        raise UsageError(
            f"{path} is outside of the working folder {root}", hint="copy it there, or start forewarp in its folder"
        )
    return found


def new_file(folder: Path, path: str | Path) -> Path:
    """Return a file below the working folder that is not there yet, with its folder made; raises `UsageError`."""
    found = inside(folder, path)
    if found.exists():
        raise UsageError(f"{path} is there already", hint="name another file, or move that one away")
    try:
        found.parent.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise UsageError(f"{found.parent} cannot be made: {e.strerror}", hint="name a file elsewhere") from None
    return found


def shown(folder: Path, path: Path) -> str:
    """Return a path as seen from the working folder."""
    root = folder.resolve()
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)
