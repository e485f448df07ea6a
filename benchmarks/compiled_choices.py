"""Judge forecasts of compiled kernels among the choices of one kernel's tunables, nothing measured.

    python benchmarks/compiled_choices.py --out benchmarks/results/compiled_choices.json

The choices are those recorded of each bundled task's CUDA and Triton seed (`results/pool_h200.parquet`, some 48 each).
Figures are the best's time over that of the one forecast fastest (`share_0`), over that of the best of the eight
forecast fastest (`share_8`), both beside those of a random order, and how many come up to one within 5 % (`needed`).
Nothing runs on a device.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from provenance import write
from tunables_replay import POOL, needed

from forewarp.archive.pools.parquet import read_pool
from forewarp.archive.pools.replay import ReplayExecutor
from forewarp.archive.rows import RecordedRow
from forewarp.core.protocols import Subject
from forewarp.surrogate import compare
from forewarp.surrogate.learned import LearnedForecaster

DRAWS = 1000


def judged(rows: Sequence[RecordedRow]) -> dict[str, float]:
    """Return the figures of one kernel."""
    target, task = rows[0].target, rows[0].task
    executor = ReplayExecutor(rows, target)
    subjects = [Subject(r.candidate, executor.compile(task, r.candidate)) for r in rows]
    values = [compare.value(f) for f in LearnedForecaster().forecast(task, target, subjects, [])]
    speedups = [(r.measurement.speedup or 0.0) if r.measurement.trusted else 0.0 for r in rows]
    found = [speedups[i] for i in sorted(range(len(rows)), key=lambda i: -values[i])]
    best, chance = max(speedups), random.Random(0)
    drawn = [chance.sample(speedups, 8) for _ in range(DRAWS)]
    return {
        "choices": len(rows),
        "share_0": found[0] / best,
        "share_8": max(found[:8]) / best,
        "needed": needed(found, best),
        "random_0": mean([d[0] / best for d in drawn]),
        "random_8": mean([max(d) / best for d in drawn]),
    }


def mean(shares: Sequence[float]) -> float:
    """Return the geometric mean; what does not run counts as a thousandth."""
    return math.exp(statistics.fmean(math.log(max(s, 1e-3)) for s in shares))


def main() -> None:
    """Judge all kernels, print the figures, write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    pools: dict[tuple[str, str], list[RecordedRow]] = {}
    for row in read_pool(POOL):
        if row.candidate.language in ("cuda", "triton"):
            pools.setdefault((row.candidate.language, row.task.name), []).append(row)
    found = {key: judged(rows) for key, rows in sorted(pools.items())}
    kernels = [{"language": language, "task": task, **row} for (language, task), row in found.items()]
    figures: dict[str, Any] = {}
    for language in ("cuda", "triton"):
        own = [row for key, row in found.items() if key[0] == language]
        shares = {
            name: round(mean([k[name] for k in own]), 3) for name in ("share_0", "share_8", "random_0", "random_8")
        }
        figures[language] = shares | {"needed": statistics.median(k["needed"] for k in own)}
        print(language, figures[language])
    if args.out:
        write(args.out, {"source": "replay", "figures": figures, "kernels": kernels})


if __name__ == "__main__":
    main()
