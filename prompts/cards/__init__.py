"""Cards: what is known about a technique, retrieved where it applies to task, target, language and parent.

A card is a Markdown file with a head in TOML. `tasks` is a pattern that the task's name, family or reference has to
hold, `when` compares facts of the program to start from, of which those that are known must hold, and `example` names a
kernel of ours beside it that was measured (`benchmarks/winners.py`).
"""

from __future__ import annotations

import operator
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

MOST = 3
"""Cards that one prompt gets; the rest would bury the program."""
_COMPARISONS = {">=": operator.ge, "<=": operator.le}


@dataclass(frozen=True, slots=True)
class Card:
    """A technique; without `architectures` it applies to all."""

    name: str
    title: str
    text: str
    tasks: str
    languages: tuple[str, ...]
    architectures: tuple[str, ...] = ()
    when: tuple[str, ...] = ()
    example: str = ""

    def applies(self, task: str, arch: str, languages: Sequence[str], facts: Mapping[str, float]) -> bool:
        """Return whether the card fits; `task` is all text that tells what the task is."""
        return (
            (not self.architectures or arch in self.architectures)
            and bool(set(self.languages) & set(languages))
            and re.search(self.tasks, task, re.IGNORECASE) is not None
            and all(_holds(condition, facts) for condition in self.when)
        )

    def particular(self, facts: Mapping[str, float]) -> int:
        """Return how much the card asks for, and how many of its conditions are known to hold."""
        known = sum(condition.split()[0] in facts for condition in self.when)
        return known + bool(self.tasks) + bool(self.architectures) + bool(self.example)

    @property
    def source(self) -> str:
        """The example's text; "" without one."""
        return (Path(__file__).parent / self.example).read_text(encoding="utf-8") if self.example else ""


def choose(task: str, arch: str, languages: Sequence[str], facts: Mapping[str, float]) -> list[Card]:
    """Return the cards that apply, the most particular first."""
    found = [card for card in every() if card.applies(task, arch, languages, facts)]
    return sorted(found, key=lambda card: -card.particular(facts))[:MOST]


def _holds(condition: str, facts: Mapping[str, float]) -> bool:
    name, sign, number = condition.split()
    return name not in facts or _COMPARISONS[sign](facts[name], float(number))


@lru_cache(maxsize=1)
def every() -> tuple[Card, ...]:
    """Return all cards, by name."""
    return tuple(_read(path) for path in sorted(Path(__file__).parent.glob("*.md")))


def _read(path: Path) -> Card:
    _, head, text = path.read_text(encoding="utf-8").split("+++\n", 2)
    table: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in tomllib.loads(head).items()}
    return Card(name=path.stem, text=text.strip(), **table)
