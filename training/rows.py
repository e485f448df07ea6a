"""Measured candidates as prompts with outcomes, for a forecaster to learn from in an order without clumps."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from forewarp.archive.pools import columns, parquet, splits
from forewarp.archive.pools.splits import keyed
from forewarp.archive.rows import RecordedRow
from forewarp.core import bins
from forewarp.core.errors import UsageError
from forewarp.core.protocols import Subject, Trial
from forewarp.core.values import REFERENCE
from forewarp.surrogate.questions import Shown, question, system_prompt


@dataclass(frozen=True, slots=True)
class CandidateOutcome:
    """Outcome of a candidate: its speed-up, None where it turned out invalid."""

    kernel: str
    speedup: float | None


@dataclass(frozen=True, slots=True)
class PromptRow:
    """One prompt, about candidates of one task, with their outcomes in the order of their names."""

    task: str
    family: str
    system: str
    user: str
    outcomes: tuple[CandidateOutcome, ...]

    @property
    def stratum(self) -> tuple[str, int]:
        """Family, and the bin of the first candidate (-1 where it is invalid)."""
        first = self.outcomes[0].speedup
        return self.family, -1 if first is None else bins.bin_of(first)


def read(paths: Iterable[str], names: Sequence[str]) -> dict[str, list[RecordedRow]]:
    """Return the compiled rows of each split, against the reference; raises `UsageError` for leaks and empty ones."""
    leaks, by_split = splits.Leaks(), {name: list[RecordedRow]() for name in names}
    for path in paths:
        for file in parquet.files_of(Path(path).expanduser()):
            for flat in parquet.columns_of(file):
                leaks.add(keyed(flat))
                if flat["split"] in by_split:
                    row = columns.unflat(flat)
                    if row.measurement.anchor == REFERENCE and row.build.status == "ok":
                        by_split[flat["split"]].append(row)
    splits.refuse(leaks.found())
    empty = next((name for name, rows in by_split.items() if not rows), None)
    if empty is not None:
        raise UsageError(
            f"no row of the split {empty!r} is in {', '.join(paths)}",
            hint="forewarp data export --splits FILE gives families their splits",
        )
    return by_split


def ask(
    recorded: Sequence[RecordedRow], *, history: int, candidates: int, shown: Shown, invalid: bool, seed: int
) -> list[PromptRow]:
    """Return prompts about each candidate once, with up to `history` other kernels of its task, by `seed`."""
    rows: list[PromptRow] = []
    for members in _by_task(recorded).values():
        rng = random.Random(f"{seed} {members[0].task.sha256} {members[0].target.name}")
        asked = [r for r in members if invalid or r.measurement.believed]
        rng.shuffle(asked)
        for start in range(0, len(asked), candidates):
            about = asked[start : start + candidates]
            kernels = {r.candidate.sha256 for r in about}
            others = [r for r in members if r.candidate.sha256 not in kernels]
            trials = rng.sample(others, min(rng.randint(0, history), len(others)))
            rows.append(_row(about, trials, shown))
    return rows


def ordered(rows: Sequence[PromptRow], count: int, seed: int) -> list[PromptRow]:
    """Return `count` rows, repeated in new orders, with each family and bin in proportion in any stretch."""
    chosen: list[PromptRow] = []
    epoch = 0
    while len(chosen) < count and rows:
        rng = random.Random(f"{seed} {epoch}")
        strata: dict[tuple[str, int], list[PromptRow]] = {}
        for row in rows:
            strata.setdefault(row.stratum, []).append(row)
        places: list[tuple[float, PromptRow]] = []
        for members in strata.values():
            rng.shuffle(members)
            offset = rng.random()
            places += [((i + offset) / len(members), row) for i, row in enumerate(members)]
        chosen += [row for _, row in sorted(places, key=lambda pair: pair[0])]
        epoch += 1
    return chosen[:count]


def climatology(recorded: Iterable[RecordedRow]) -> tuple[float, ...]:
    """Return how often each bin was measured, with half a count more for each."""
    counts = Counter(bins.bin_of(r.measurement.believed) for r in recorded if r.measurement.believed)
    return bins.normalise([counts[k] + 0.5 for k in range(bins.COUNT)])


def _by_task(recorded: Sequence[RecordedRow]) -> dict[tuple[str, str], list[RecordedRow]]:
    grouped: dict[tuple[str, str], dict[str, RecordedRow]] = {}
    for row in recorded:
        grouped.setdefault((row.task.sha256, row.target.name), {}).setdefault(row.candidate.sha256, row)
    return {key: [members[k] for k in sorted(members)] for key, members in sorted(grouped.items())}


def _row(about: Sequence[RecordedRow], trials: Sequence[RecordedRow], shown: Shown) -> PromptRow:
    first = about[0]
    subjects = [Subject(r.candidate, r.build) for r in about]
    known = [Trial(Subject(r.candidate, r.build), r.measurement) for r in trials]
    return PromptRow(
        first.task.name,
        first.origin.family or first.task.family,
        system_prompt(),
        question(first.task, first.target, subjects, known, shown).text,
        tuple(CandidateOutcome(r.candidate.sha256, r.measurement.believed) for r in about),
    )
