"""Completions for the word that is being typed: a slash command, a theme, a file of the working folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from forewarp.agent.files import GENERATED

if TYPE_CHECKING:
    from forewarp.agent.commands import Command

MOST_FILES = 20_000
"""Files that are looked at; a folder with more is known in part."""

MOST_SHOWN = 50
_MENTION = re.compile(r"(?:^|(?<=\s))@([^\s@]*)$")
_COMMAND = re.compile(r"/([\w-]*)$")
_ARGUMENT = re.compile(r"/([\w-]+)\s(?:.*\s)?([^\s@]*)$")


@dataclass(frozen=True, slots=True)
class Word:
    """Word before the cursor: its kind, where it begins, and the letters so far."""

    kind: Literal["command", "file", "mention", "theme"]
    start: int
    query: str


@dataclass(frozen=True, slots=True)
class Completion:
    """Text that may replace the word, and a description of it."""

    text: str
    about: str = ""


def word_before(before: str, commands: Mapping[str, Command]) -> Word | None:
    """Return the word that ends at the cursor if it can be completed; `before` is the prompt up to there."""
    if found := _MENTION.search(before):
        return Word("mention", found.start(1) - 1, found[1])
    if found := _COMMAND.fullmatch(before):
        return Word("command", 0, found[1])
    if (found := _ARGUMENT.fullmatch(before)) and (command := commands.get(found[1])):
        if command.name == "theme":
            return Word("theme", found.start(2), found[2])
        if "FILE" in command.arguments and found[2]:
            return Word("file", found.start(2), found[2])
    return None


def completions(
    word: Word, commands: Mapping[str, Command], files: Iterable[str], themes: Iterable[str]
) -> list[Completion]:
    """Return what may replace a word, the best first."""
    match word.kind:
        case "command":
            names = ranked(word.query, commands) if word.query else list(commands)
            return [Completion(f"/{n} ", f"{commands[n].arguments}  {commands[n].help}".strip()) for n in names]
        case "theme":
            return [Completion(n) for n in ranked(word.query, themes)]
        case "file" | "mention":
            at = "@" if word.kind == "mention" else ""
            names = ranked(word.query, files)[:MOST_SHOWN]
            return [Completion(f'{at}"{n}" ' if " " in n else f"{at}{n} ") for n in names]


def ranked(query: str, names: Iterable[str]) -> list[str]:
    """Return the names that hold the letters of the query in order: together in the last part, together, apart."""
    letters = query.lower()
    apart = re.compile(".*?".join(map(re.escape, letters)))
    scored: list[tuple[int, int, str]] = []
    for name in names:
        low = name.lower()
        at, last = low.rfind(letters), low.rfind("/") + 1
        if at >= 0:
            scored.append((0 if at == last else 1 if at > last else 2, len(name), name))
        elif apart.search(low):
            scored.append((3, len(name), name))
    return [name for _, _, name in sorted(scored)]


def files_below(folder: Path, most: int = MOST_FILES) -> list[str]:
    """Return the files below a folder, as paths seen from it; hidden and generated folders are left out.

    Shallow folders come first, so that a bound leaves out what lies deep.
    """
    found: list[str] = []
    level = [""]
    while level and len(found) < most:
        below: list[str] = []
        for part in level:
            try:
                entries = sorted(os.scandir(folder / part), key=lambda e: e.name)
            except OSError:
                continue
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if not entry.is_dir(follow_symlinks=False):
                    found.append(f"{part}{entry.name}")
                elif entry.name not in GENERATED:
                    below.append(f"{part}{entry.name}/")
        level = below
    return found[:most]
