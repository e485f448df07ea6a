"""Measure random choices of the bundled seeds' tunables, and record them as a pool that `--device replay` can search.

    python benchmarks/record_pool.py --device cuda --per-seed 60 --out benchmarks/results/pool_h200.parquet

Choices are drawn uniformly from what each plan's constraints allow; the seeds' defaults come first. Tasks take turns,
so that a run which is cut short by --seconds has measured all of them about equally often.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sys
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from provenance import write

from forewarp.archive.pools import write_pool
from forewarp.archive.store import Archive
from forewarp.core.values import Build, Candidate, Task
from forewarp.gpu_runner.devices import choose
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor
from forewarp.gpu_runner.formats import plan
from forewarp.gpu_runner.formats import task as tasks


def choices(seed: Candidate, count: int, rng: random.Random) -> list[Candidate]:
    """Return the seed's default and other random choices of its tunables."""
    others = [t for t in plan.parse(seed).combinations() if t != seed.tunables]
    picked = rng.sample(others, min(count - 1, len(others)))
    return [seed, *(Candidate(seed.source, seed.language, t) for t in picked)]


def candidates(names: list[str], kind: str, per_seed: int, rng: random.Random) -> list[tuple[Task, Candidate]]:
    """Return all candidates, tasks and seeds taking turns."""
    lists = [
        [(task, c) for c in choices(seed, per_seed, rng)]
        for task in map(tasks.load, names)
        for seed in task.seeds
        if (seed.language == "cpp") == (kind == "cpu")
    ]
    return [pair for turn in itertools.zip_longest(*lists) for pair in turn if pair is not None]


def main() -> None:
    """Compile ahead on all cores, measure one at a time, write the pool."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=tasks.bundled())
    parser.add_argument("--device", default="auto")
    parser.add_argument("--per-seed", type=int, default=40)
    parser.add_argument("--seconds", type=float, default=500.0)
    parser.add_argument("--time-s", type=float, default=0.1, help="seconds of timing per workload")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    deadline = time.monotonic() + args.seconds
    executor = LocalExecutor(choose(args.device), limits=Limits(time_s=args.time_s, measure_s=30.0))
    todo = candidates(args.tasks, executor.target.kind, args.per_seed, random.Random(0))
    done = 0
    with tempfile.TemporaryDirectory() as folder, Archive(Path(folder) / "archive.db") as archive:
        for task in {t.name: t for t, _ in todo}.values():
            archive.add_signatures(task, executor.target, executor.describe(task))
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            builds: list[Future[Build]] = [threads.submit(executor.compile, t, c) for t, c in todo]
            for (task, candidate), build in zip(todo, builds, strict=True):
                if time.monotonic() > deadline:
                    break
                measurement = executor.measure(task, candidate, build.result())
                archive.record(task, executor.target, candidate, build.result(), measurement)
                done += 1
                print(f"{done}/{len(todo)} {task.name} {candidate.language} {measurement.status}", file=sys.stderr)
            threads.shutdown(cancel_futures=True)
        args.out.parent.mkdir(parents=True, exist_ok=True)
        write_pool(archive, args.out)
    executor.close()
    write(args.out.with_suffix(".json"), {"device": executor.target.name, "measured": done, "planned": len(todo)})


if __name__ == "__main__":
    main()
