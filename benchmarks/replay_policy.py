"""Compare settings of the policy by replaying a recorded pool, with no device.

    python benchmarks/replay_policy.py --pool benchmarks/results/pool_h200.parquet

Each run may pick from all recorded candidates of a task. The table gives the best speed-up after 11 and after 20
measurements, as a share of the pool's best: geometric mean over tasks and seeds. Settings that were chosen on a pool
must be judged on other data.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

from provenance import write

from forewarp.archive.pools.parquet import read_pool
from forewarp.archive.pools.replay import ReplayExecutor
from forewarp.archive.rows import RecordedRow
from forewarp.archive.store import Archive
from forewarp.core.budget import Budget
from forewarp.search.loop import Search
from forewarp.search.proposers.recorded import PoolProposer
from forewarp.search.settings import SearchSettings
from forewarp.surrogate.learned import LearnedForecaster

CHECKPOINTS = (11, 20)
ARMS: dict[str, dict[str, Any]] = {
    "random order": {},
    "3 picks a round": {"measure_per_round": 3},
    "1 pick a round": {"measure_per_round": 1},
}


def shares(rows: list[RecordedRow], arm: str, seed: int) -> list[float]:
    """Return the best speed-up at each checkpoint as a share of the pool's best."""
    task, target = rows[0].task, rows[0].target
    executor = ReplayExecutor(rows, target)
    top = max(r.measurement.speedup or 0.0 for r in rows)
    settings = SearchSettings(
        seed=seed,
        budget=Budget(measurements=max(CHECKPOINTS)),
        proposals_per_round=len(rows),
        reconsider=len(rows),
        audit=0.0,
        confirm=False,
        **ARMS[arm],
    )
    forecaster = None if arm == "random order" else LearnedForecaster()
    with tempfile.TemporaryDirectory() as folder, Archive(Path(folder) / "archive.db") as archive:
        proposer = PoolProposer(executor.candidates(task))
        search = Search.start(archive, task, executor, proposer, forecaster, settings)
        search.run()
        found = [m.measurement.speedup or 0.0 for m in archive.measurements(run=search.run_id) if m.measurement]
    return [max(found[:n]) / top for n in CHECKPOINTS]


def main() -> None:
    """Replay all arms, print the table, write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    results = Path(__file__).parent / "results"
    parser.add_argument("--pool", type=Path, default=results / "pool_h200.parquet")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=results / "replay_policy.json")
    args = parser.parse_args()
    tasks: dict[str, list[RecordedRow]] = defaultdict(list)
    for row in read_pool(args.pool):
        tasks[row.task.name].append(row)
    table: dict[str, Any] = {}
    for arm in ARMS:
        per_task = {name: [shares(rows, arm, seed) for seed in range(args.seeds)] for name, rows in tasks.items()}
        every = [run for runs in per_task.values() for run in runs]
        means = [math.exp(statistics.fmean(math.log(run[i]) for run in every)) for i in range(len(CHECKPOINTS))]
        table[arm] = {"shares_of_best": means, "runs": per_task}
        print(f"| {arm} | " + " | ".join(f"{m:.3f}" for m in means) + " |", flush=True)
    write(args.out, {"checkpoints": CHECKPOINTS, "source": "replay", "arms": table})


if __name__ == "__main__":
    main()
