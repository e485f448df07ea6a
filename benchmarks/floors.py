"""Compare the roofline floor of each measured kernel with its time: the floor must never be the larger one.

python benchmarks/floors.py POOL --out benchmarks/results/floors.json
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from provenance import write

from forewarp.archive.pools.parquet import read_pool
from forewarp.core.roofline import floor_s


def main() -> None:
    """Print how far times lie above their floors, and every one that lies below."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool", type=Path)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    shares: list[float] = []
    below: list[dict[str, Any]] = []
    for row in read_pool(args.pool):
        signatures = {s.workload: s for s in row.signatures}
        for timing in row.measurement.workloads:
            floor = floor_s(signatures[timing.workload], row.target)
            shares.append(floor / timing.candidate_median_s)
            if shares[-1] > 1:
                where = {"task": row.task.name, "workload": timing.workload, "kernel": row.candidate.short}
                below.append(where | {"floor_us": floor * 1e6, "time_us": timing.candidate_median_s * 1e6})
    quantiles = {f"{q:.0%}": float(np.quantile(shares, q)) for q in (0.05, 0.5, 0.95, 1.0)}
    print(f"{len(shares)} times, {len(below)} below their floor")
    print("floor / time: " + ", ".join(f"{q} {v:.3f}" for q, v in quantiles.items()))
    for one in below:
        print(one)
    if args.out:
        write(args.out, {"times": len(shares), "below": below, "floor_over_time": quantiles})


if __name__ == "__main__":
    main()
