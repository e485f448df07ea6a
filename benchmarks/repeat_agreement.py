"""Compare kernels that were measured twice, on another GPU or another day, by the distance of their speed-ups.

    python benchmarks/repeat_agreement.py --first rows_*.jsonl.gz --again again_*.jsonl.gz --out repeat_agreement.json

Both sides come from `record_pool.py`, the second with `--repeat`.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
from provenance import write
from record_pool import key_of, read

from forewarp.surrogate.evaluation.metrics import spearman


def times_of(row: dict[str, Any]) -> dict[str, tuple[float, float, float]]:
    """Return speed-up and interval of a row's whole and of each shape; empty where it has none."""
    m = row["measurement"]
    if m["speedup"] is None:
        return {}
    shapes = {w["workload"]: (w["speedup"], w["low"], w["high"]) for w in m["workloads"]}
    return {"": (m["speedup"], m["low"], m["high"])} | shapes


def main() -> None:
    """Print rank correlation, the median distance, and how often the intervals meet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=Path, nargs="+", required=True)
    parser.add_argument("--again", type=Path, nargs="+", required=True)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    first = {key_of(r): r for r in read(args.first)}
    pairs = [(first[key_of(r)], r) for r in read(args.again) if key_of(r) in first]
    if not pairs:
        sys.exit("no kernel was measured twice")
    statuses = sum(a["measurement"]["status"] == b["measurement"]["status"] for a, b in pairs)
    print(f"{len(pairs)} kernels measured twice, the same status for {statuses}")
    found: dict[str, Any] = {"kernels": len(pairs), "same_status": statuses}
    for name, whole in (("task", True), ("shape", False)):
        both = [
            (one, other)
            for a, b in pairs
            for key, one in times_of(a).items()
            if (key == "") == whole and (other := times_of(b).get(key)) is not None
        ]
        if len(both) < 2:
            continue
        distances = [abs(math.log(a[0] / b[0])) for a, b in both]
        meeting = sum(a[1] <= b[2] and b[1] <= a[2] for a, b in both) / len(both)
        rank = spearman([a[0] for a, _ in both], [b[0] for _, b in both])
        found[name] = {
            "count": len(both),
            "spearman": rank,
            "median_abs_log_ratio": float(np.median(distances)),
            "p95_abs_log_ratio": float(np.quantile(distances, 0.95)),
            "intervals_meet": meeting,
        }
        print(
            f"{name}s: {len(both)}, rank correlation {rank:.4f}, median |log ratio| {np.median(distances):.2%}, "
            f"95 % within {np.quantile(distances, 0.95):.2%}, intervals meet {meeting:.0%}"
        )
    if args.out:
        write(args.out, found)


if __name__ == "__main__":
    main()
