"""Advice for a task on a target: cards for writers of kernels, and seeds to begin with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forewarp.core.roofline import flops_per_byte
from forewarp.core.values import Candidate, Signature, Target, Task
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import plan as plans
from forewarp.prompts import cards
from forewarp.prompts.cards import Card


def cards_for(
    task: Task, target: Target, languages: Sequence[str], signatures: Sequence[Signature], facts: Mapping[str, float]
) -> list[Card]:
    """Return the cards that apply on a target, by the task's own work, if known, and the `facts` of a program."""
    if signatures:
        facts = {"flops_per_byte": flops_per_byte(signatures)} | dict(facts)
    return cards.choose(_told(task), target.arch, languages, facts)


def seeds_on(task: Task, target: Target) -> tuple[Candidate, ...]:
    """Return the seeds; a card's kernel for this architecture replaces one of its language, inputs and outputs."""
    mine = [
        candidates.from_source(card.source, "cuda")
        for card in cards.every()
        if card.architectures and card.example.endswith(".cu") and card.applies(_told(task), target.arch, ["cuda"], {})
    ]
    return tuple(next((c for c in mine if _interface(c) == _interface(seed)), seed) for seed in task.seeds)


def _told(task: Task) -> str:
    return f"{task.name} {task.family} {task.reference}"


def _interface(kernel: Candidate) -> tuple[object, ...]:
    plan = plans.parse(kernel)
    return kernel.language, plan.inputs, plan.outputs
