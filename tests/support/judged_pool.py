"""A small pool of several tasks whose speed-ups are known in advance, for judging forecasters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from contracts.forecaster_contract import TARGET, TASK, failed, measured, subject

from forewarp.archive.pools.parquet import write_rows
from forewarp.archive.rows import Origin, RecordedRow
from forewarp.core import bins
from forewarp.core.protocols import Subject, Trial
from forewarp.core.values import Forecast, Target, Task

SPEEDUPS: dict[str, tuple[float | None, ...]] = {
    "first": (0.2, 0.4, 0.8, 1.2, 1.6, 3.0, None),
    "second": (0.6, 0.9, 1.1, 2.5, 5.0, None, None),
    "third": (0.3, 0.3, 0.65, 0.95, 1.02, 1.3),
}
"""Speed-up of each candidate by task; None for one that is incorrect."""


def rows(split: str = "test") -> list[RecordedRow]:
    """Candidates differ by the tunable BLOCK, which is 2 to the power of their place."""
    made: list[RecordedRow] = []
    for name, speedups in SPEEDUPS.items():
        task = replace(TASK, name=name, title=name, family=f"family of {name}", reference=f"{TASK.reference}# {name}\n")
        for place, speedup in enumerate(speedups):
            asked = subject(2**place)
            outcome = failed() if speedup is None else measured(speedup)
            made.append(
                RecordedRow(
                    *(task, TARGET, (), asked.candidate, asked.build, outcome, None, "2026-11-20T00:00:00", "0"),
                    origin=Origin(family=task.family, split=split),
                )
            )
    return made


def write(path: Path) -> str:
    """Write the pool with a train split of the same outcomes under other names."""
    train = [
        replace(r, task=replace(r.task, name=f"{r.task.name} of train", reference=f"# train\n{r.task.reference}"))
        for r in rows("train")
    ]
    write_rows([*rows(), *train], path)
    return str(path)


class Oracle:
    """Knows every outcome: sure of the right bin, and of what is valid."""

    name = "oracle"

    def __init__(self, sign: float = 1.0) -> None:
        self._sign = sign

    def forecast(
        self, task: Task, target: Target, subjects: Sequence[Subject], history: Sequence[Trial]
    ) -> list[Forecast]:
        return [self._one(task.name, s.candidate.tunables["BLOCK"].bit_length() - 1) for s in subjects]

    def _one(self, task: str, place: int) -> Forecast:
        import math

        speedup = SPEEDUPS[task][place]
        k = 0 if speedup is None else bins.bin_of(speedup)
        sure = tuple(float(i == k) for i in range(bins.COUNT))
        mean = 0.0 if speedup is None else self._sign * math.log2(speedup)
        return Forecast(sure, float(speedup is not None), self.name, mean_log2=mean, sd_log2=0.1)
