"""Cards that a writer of kernels is given for a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forewarp.core.roofline import flops_per_byte
from forewarp.core.values import Signature, Target, Task
from forewarp.prompts import cards
from forewarp.prompts.cards import Card


def cards_for(
    task: Task, target: Target, languages: Sequence[str], signatures: Sequence[Signature], facts: Mapping[str, float]
) -> list[Card]:
    """Return the cards that apply on a target, by the task's own work, if known, and the `facts` of a program."""
    if signatures:
        facts = {"flops_per_byte": flops_per_byte(signatures)} | dict(facts)
    told = f"{task.name} {task.family} {task.reference}"
    return cards.choose(told, target.arch, languages, facts)
