"""Replay searches over Triton kernels' tunables, with and without forecasts of choices before they are compiled.

    python benchmarks/tunables_replay.py --out benchmarks/results/tunables_replay.json

The settings are those recorded of each bundled task's Triton seed (`results/pool_h200.parquet`: some 48 of 368 to 927
each), launch-plan kernels that the forecasts of configurations were not fitted to. Nothing runs on a device.
`needed` is how many are measured until one is within 5 % of the best recorded; all of them where none comes. Arms:

- `random`: settings in random order;
- `tuner`: the proposer of tunables alone, which varies and crosses what works, and everything is measured;
- `learned`: its proposals, eight a round, of which the learned forecaster chooses after compiling, as before;
- `forecast`: choices forecast from the kernel's text are proposed, and everything is measured;
- `both`: these proposals, of which the learned forecaster chooses: a search as it comes.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from provenance import write

from forewarp.archive.pools.parquet import read_pool
from forewarp.archive.pools.replay import ReplayExecutor
from forewarp.archive.rows import RecordedRow
from forewarp.archive.store import Archive
from forewarp.core.budget import Budget
from forewarp.core.protocols import Known, Proposal
from forewarp.core.values import Candidate, Target, Task
from forewarp.gpu_runner.formats import plan as plans
from forewarp.search.loop import Search
from forewarp.search.proposers.recorded import PoolProposer
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.search.settings import SearchSettings
from forewarp.surrogate.calibration import Recalibrated
from forewarp.surrogate.learned import LearnedForecaster
from forewarp.tuning.planned import forecast

RESULTS = Path(__file__).parent / "results"
POOL = RESULTS / "pool_h200.parquet"
ARMS = ("random", "tuner", "learned", "forecast", "both")
WITHIN = 0.95
BEFORE_LEARNED = 4
"""Proposals a round where everything is measured: what they teach counts from the next round on."""


class Choices:
    """Forecasts of the recorded choices alone: of choices forecast alike a search takes one, here one that is known."""

    def __init__(self, rows: Sequence[RecordedRow]) -> None:
        first = rows[0]
        settings = [dict(r.candidate.tunables) for r in rows]
        self._found = forecast(
            first.candidate.source, plans.parse(first.candidate), settings, first.signatures, first.target
        )

    def fastest_first(
        self, task: Task, candidate: Candidate, measured: Sequence[tuple[Mapping[str, int], float]]
    ) -> Sequence[Mapping[str, int]]:
        """Return the recorded choices that were not measured, the fastest by forecast first."""
        return self._found.following(measured)


class Recorded:
    """Gives a proposer's candidates of those that were recorded: nobody knows what others would have done."""

    name = "recorded"

    def __init__(self, proposer: TunablesProposer, rows: Sequence[RecordedRow]) -> None:
        self._proposer = proposer
        held = {r.candidate.sha256 for r in rows}
        first = rows[0].candidate
        settings = (Candidate(first.source, first.language, c) for c in plans.parse(first).combinations())
        self._unknown = frozenset(c.sha256 for c in settings) - held

    def propose(self, task: Task, target: Target, known: Known, count: int, rng: random.Random) -> list[Proposal]:
        """Return proposals as the proposer makes them when it has seen all that was not recorded."""
        seen = Known(known.attempts, known.trials, known.seen | self._unknown)
        return self._proposer.propose(task, target, seen, count, rng)


def searched(rows: Sequence[RecordedRow], arm: str, seed: int) -> list[float]:
    """Return the speed-ups in the order measured, 0 for what is not to be believed."""
    executor = ReplayExecutor(rows, rows[0].target)
    first = plans.parse(rows[0].candidate).defaults()
    default = Candidate(rows[0].candidate.source, rows[0].candidate.language, first)
    held = default.sha256 in {r.candidate.sha256 for r in rows}
    task = replace(rows[0].task, seeds=(default if held else rows[0].candidate,))
    settings = SearchSettings(seed=seed, budget=Budget(measurements=len(rows)), confirm=False, patience=0, reach=1.0)
    forecaster = Recalibrated(LearnedForecaster()) if arm in ("learned", "both") else None
    choices = Choices(rows) if arm in ("forecast", "both") else None
    proposer = (
        Recorded(TunablesProposer(choices), rows) if arm != "random" else PoolProposer([r.candidate for r in rows])
    )
    if forecaster is None:
        settings = replace(settings, proposals_per_round=BEFORE_LEARNED)
    with tempfile.TemporaryDirectory() as folder, Archive(Path(folder) / "archive.db") as archive:
        search = Search.start(archive, task, executor, proposer, forecaster, settings)
        search.run()
        measured = [m.measurement for m in archive.measurements(run=search.run_id) if m.measurement]
    return [(m.speedup or 0.0) if m.trusted else 0.0 for m in measured]


def needed(found: Sequence[float], best: float) -> int:
    """Return how many measurements it took to come within 5 % of the best."""
    return next((n for n, speedup in enumerate(found, 1) if speedup >= WITHIN * best), len(found))


def main() -> None:
    """Replay all searches, print the table, write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=ARMS)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    pools: dict[str, list[RecordedRow]] = {}
    for row in read_pool(POOL):
        if row.candidate.language == "triton":
            pools.setdefault(row.task.name, []).append(row)
    runs: list[dict[str, Any]] = []
    for task, rows in sorted(pools.items()):
        best = max((r.measurement.speedup or 0.0) for r in rows if r.measurement.trusted)
        for arm in args.arms:
            for seed in range(args.seeds):
                found = searched(rows, arm, seed)
                at8 = max(found[:8]) / best
                runs.append({"task": task, "arm": arm, "seed": seed, "needed": needed(found, best), "at_8": at8})
            print(task, arm, table([r for r in runs if r["task"] == task and r["arm"] == arm]), flush=True)
    figures = {arm: table([r for r in runs if r["arm"] == arm]) for arm in args.arms}
    for arm, row in figures.items():
        print(arm, json.dumps(row))
    if args.out:
        write(args.out, {"source": "replay", "figures": figures, "runs": runs})


def table(runs: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return median and mean of `needed`, and the geometric mean of the best's share after eight measurements."""
    counts = [r["needed"] for r in runs]
    share = math.exp(statistics.fmean(math.log(max(r["at_8"], 1e-3)) for r in runs))
    return {"needed": statistics.median(counts), "needed_mean": statistics.fmean(counts), "share_8": round(share, 4)}


if __name__ == "__main__":
    main()
