"""Fit how fast the best kernel of a task gets, from how far its reference is from the roofline.

    python benchmarks/fit_headroom.py pool --out surrogate/headroom.json

For each task of the pool: the best trusted speed-up over the reference, the geometric mean over the task's shapes, and
the reference's time over the roofline's (bytes of inputs, weights and outputs once, arithmetic at peak). The line is
fitted to all tasks; its spread is that of tasks whose family was left out, so that it holds for others.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path

import numpy as np

from forewarp.archive.pools.parquet import read_pool
from forewarp.core.values import REFERENCE
from forewarp.gpu_runner.devices import known_targets
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.surrogate.headroom import HeadroomFit, roofline_s


def points(path: Path) -> list[tuple[str, float, float]]:
    """Return family, log2 of the gap and log2 of the best speed-up for each task."""
    rows = defaultdict(list)
    for row in read_pool(path):
        if row.measurement.anchor == REFERENCE and row.measurement.trusted and row.measurement.speedup:
            rows[row.task.sha256].append(row)
    target = known_targets()["h200"]
    executor = LocalExecutor(target)
    found = []
    for each in rows.values():
        task = each[0].task
        anchors = defaultdict(list)
        for timing in (t for row in each for t in row.measurement.workloads):
            anchors[timing.workload].append(timing.anchor_median_s)
        gap = statistics.fmean(
            math.log2(statistics.median(anchors[s.workload]) / roofline_s(s.bytes_moved, s.operations, target))
            for s in executor.describe(task)
        )
        best = math.log2(max(row.measurement.speedup for row in each))
        found.append((each[0].origin.family, gap, best))
        print(f"{task.name:36} gap {2**gap:7.2f}  best {2**best:7.2f}", flush=True)
    executor.close()
    return found


def line(found: list[tuple[str, float, float]]) -> tuple[float, float]:
    """Return offset and slope by least squares."""
    slope, offset = np.polyfit([gap for _, gap, _ in found], [best for *_, best in found], 1)
    return float(offset), float(slope)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    found = points(args.pool)
    errors = []
    for family in {f for f, *_ in found}:
        offset, slope = line([p for p in found if p[0] != family])
        errors += [best - offset - slope * gap for f, gap, best in found if f == family]
    sd = math.sqrt(statistics.fmean(e * e for e in errors))
    origin = f"best of {len(found)} tasks of the pool, measured on an H200; spread from families left out"
    fit = HeadroomFit(*line(found), sd, len(found), known_targets()["h200"].name, origin)
    args.out.write_text(json.dumps(asdict(fit), indent=1) + "\n")
    print(args.out.read_text())


if __name__ == "__main__":
    main()
