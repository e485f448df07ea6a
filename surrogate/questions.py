"""Prompts that ask a language model to forecast several candidates together.

What all prompts of a task share stands first, so that providers can cache it; then the measured trials that are most
like the candidates, each program's text once, then the candidates with the facts of their compiled code.
"""

from __future__ import annotations

import difflib
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from forewarp.core import bins
from forewarp.core.protocols import Subject, Trial
from forewarp.core.untrusted_text import clip
from forewarp.core.values import Candidate, Measurement, Target, Task
from forewarp.inspection.features.features import Columns, features, program_of
from forewarp.prompts.render import render
from forewarp.surrogate import evidence_text
from forewarp.surrogate import reference as reference_table
from forewarp.surrogate.alike import Example
from forewarp.surrogate.listing import FENCES, listing
from forewarp.surrogate.reference import ReferenceTime

NEIGHBOURS = 8
"""Measured trials that a prompt shows."""

_OTHER_PROGRAMS = 3
_LOG_LIMIT = 300
_FACTS_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Shown:
    """Parts of a prompt beside code, shapes and target, and most characters of a program, and of a trial's (0: none).

    `references` are times by the task's sha256, for prompts without trials.
    """

    evidence: bool = True
    trials: bool = True
    source: int = 24_000
    other_source: int = 6_000
    references: Mapping[str, ReferenceTime] = field(default_factory=dict[str, ReferenceTime])


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt about candidates: `shared` is the same for all prompts of a task, `own` for these candidates alone."""

    shared: str
    own: str

    @property
    def text(self) -> str:
        return f"{self.shared}\n{self.own}"


@lru_cache(maxsize=1)
def system_prompt() -> str:
    table = [{"label": label, "range": span, "place": str(i)} for i, (label, span) in enumerate(bins.ranges(), 1)]
    return render("forecast_system.j2", bins=table)


def name_of(place: int) -> str:
    """Return the name, in prompt and reply, of the candidate at a position of the batch, from 0."""
    return f"c{place + 1}"


def question(
    task: Task,
    target: Target,
    subjects: Sequence[Subject],
    history: Sequence[Trial],
    shown: Shown | None = None,
    examples: Sequence[Example] = (),
) -> Question:
    """Return the prompt about `subjects` with the trials most like them, and examples of other tasks."""
    shown = shown or Shown()
    trials = nearest(task, target, subjects, history) if shown.trials else []
    letters = _letters(subjects, trials)
    reference = _reference(shown.references.get(task.sha256), history if shown.trials else ())
    own = render(
        "forecast_user.j2",
        programs=_programs(subjects, letters, shown.source),
        trials=_trials(trials, subjects, letters, shown),
        candidates=[
            {
                "name": name_of(place),
                "program": letters[program_of(s.candidate)],
                "tunables": dict(s.candidate.tunables),
                "facts": evidence_text.lines(s.build.evidence.facts, reference) if shown.evidence else [],
                "problems": s.build.evidence.problems if shown.evidence else (),
            }
            for place, s in enumerate(subjects)
        ],
        evidence=shown.evidence,
        history=shown.trials,
    )
    return Question(_shared(task, target, reference, examples), own)


def task_part(task: Task, target: Target, history: Sequence[Trial], shown: Shown) -> str:
    """Return the part of a prompt that is the same for all candidates of a task."""
    return _shared(task, target, _reference(shown.references.get(task.sha256), history), ())


def _shared(task: Task, target: Target, reference: ReferenceTime | None, examples: Sequence[Example]) -> str:
    return render(
        "forecast_task.j2",
        task=task,
        target=target,
        reference=reference,
        versions=reference.versions if reference else {},
        rates=reference_table.shipped() if reference_table.is_known(target) else None,
        examples=examples,
    )


def nearest(task: Task, target: Target, subjects: Sequence[Subject], history: Sequence[Trial]) -> list[Trial]:
    """Return the trials most like any of the subjects: those of their programs first, then by distance in features."""
    if not history:
        return []
    rows = [features(task, target, s) for s in (*(t.subject for t in history), *subjects)]
    table = Columns.over(rows).matrix(rows)
    known, asked = table[: len(history)], table[len(history) :]
    distances = np.sqrt(((known[:, None] - asked[None]) ** 2).sum(axis=2)).min(axis=1)
    programs = {program_of(s.candidate) for s in subjects}
    order = sorted(
        range(len(history)),
        key=lambda i: (program_of(history[i].subject.candidate) not in programs, float(distances[i]), -i),
    )
    return [history[i] for i in order[:NEIGHBOURS]]


def _letters(subjects: Sequence[Subject], trials: Sequence[Trial]) -> dict[str, str]:
    """Name the programs in order of appearance: A to Z, then A1, B1 and so on."""
    found: dict[str, str] = {}
    for subject in (*subjects, *(t.subject for t in trials)):
        place = len(found)
        found.setdefault(
            program_of(subject.candidate), chr(ord("A") + place % 26) + (str(place // 26) if place >= 26 else "")
        )
    return found


def _reference(known: ReferenceTime | None, history: Sequence[Trial]) -> ReferenceTime | None:
    """Return the reference's time as the trials have it, else as it is known."""
    times = reference_times(t.measurement for t in history)
    if not times:
        return known
    versions = reference_table.versions_of(history[-1].measurement.environment)
    return ReferenceTime(times, operations=known.operations if known else 0, versions=versions)


def reference_times(measurements: Iterable[Measurement]) -> dict[str, float]:
    """Return the reference's measured seconds by workload: the median over measurements."""
    times: dict[str, list[float]] = {}
    for measurement in measurements:
        for timing in measurement.workloads:
            times.setdefault(timing.workload, []).append(timing.anchor_median_s)
    return {name: statistics.median(found) for name, found in times.items()}


def _programs(subjects: Sequence[Subject], letters: Mapping[str, str], limit: int) -> list[dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for subject in subjects:
        text = listing(subject.candidate)
        found.setdefault(
            letters[program_of(subject.candidate)],
            {
                "language": subject.candidate.language,
                "code": clip(text.code, limit),
                "plan": text.plan,
                "fence": FENCES[subject.candidate.language],
            },
        )
    return [{"letter": letter} | told for letter, told in found.items()]


def _trials(
    trials: Sequence[Trial], subjects: Sequence[Subject], letters: Mapping[str, str], shown: Shown
) -> list[dict[str, Any]]:
    """Return what the template shows of each trial; the text of another program is shown once, and of a few at most."""
    ours = {program_of(s.candidate): s for s in subjects}
    told: set[str] = set()
    found: list[dict[str, Any]] = []
    for trial in trials:
        other, measured = trial.subject.candidate, trial.measurement
        key = program_of(other)
        text, label = "", ""
        if shown.other_source and key not in ours and key not in told and len(told) < _OTHER_PROGRAMS:
            told.add(key)
            text, label = _other_text([s.candidate for s in subjects], other, letters, shown.other_source)
        found.append(
            {
                "program": letters[key],
                "tunables": dict(other.tunables),
                "speedup": measured.believed,
                "low": measured.low,
                "high": measured.high,
                "workloads": measured.workloads,
                "status": measured.status if measured.status != "ok" else measured.verdict,
                "log": clip(" ".join(measured.log.split()), _LOG_LIMIT),
                "facts": _differing(trial.subject, ours[key]) if shown.evidence and key in ours else {},
                "text": text,
                "text_label": label,
                "fence": "diff" if label.startswith("Difference") else FENCES[other.language],
            }
        )
    return found


def _differing(trial: Subject, subject: Subject) -> dict[str, float]:
    own = subject.build.evidence.facts
    found = {k: v for k, v in sorted(trial.build.evidence.facts.items()) if own.get(k) != v}
    return dict(list(found.items())[:_FACTS_SHOWN])


def _other_text(ours: Sequence[Candidate], other: Candidate, letters: Mapping[str, str], limit: int) -> tuple[str, str]:
    """Return another program as a difference to the most similar candidate's, or in full where that is shorter."""
    theirs = listing(other).code
    lines = theirs.splitlines()
    same = [(c, listing(c).code.splitlines()) for c in ours if c.language == other.language]
    if same:
        nearest_one, text = max(same, key=lambda pair: len(set(lines) & set(pair[1])))
        difference = "\n".join(difflib.unified_diff(lines, text, "trial", "candidate", n=1, lineterm=""))
        if len(difference) < min(len(theirs), limit):
            return difference, f"Difference from it to program {letters[program_of(nearest_one)]}"
    return clip(theirs, limit), "Its code"
