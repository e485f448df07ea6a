"""How often the CPU device tells a kernel from itself: on a quiet machine, and beside one busy process.

    python benchmarks/busy_machine.py --pairs 40

Quiet and busy measurements take turns in pairs, in an order that alternates. Intervals are Wilson's, 95 %.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from provenance import write
from scipy import stats

from forewarp.core.protocols import Subject
from forewarp.core.values import Measurement
from forewarp.gpu_runner.devices import detect_cpu
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.gpu_runner.formats import task as tasks

RESULT = Path(__file__).parent / "results" / "busy_machine.json"
BUSY = "while True: pass"
QUIET = 0.15
"""Processors that others may keep busy in a measurement that is counted as quiet."""


def told_apart(results: list[Measurement]) -> dict[str, Any]:
    """Return how many of the measurements say "faster" or "slower" of equal kernels."""
    wrong = sum(m.verdict in ("faster", "slower") for m in results)
    interval = stats.binomtest(wrong, len(results)).proportion_ci(method="wilson")
    return {
        "measurements": len(results),
        "told_apart": wrong,
        "share": wrong / len(results),
        "low": interval.low,
        "high": interval.high,
        "other_processors": statistics.median(m.conditions["other_processors"] for m in results),
    }


def main() -> None:
    """Measure, write the file, and print the two shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--task", default="softmax")
    parser.add_argument("--out", type=Path, default=RESULT)
    args = parser.parse_args()
    task = tasks.load(args.task)
    kernel = next(seed for seed in task.seeds if seed.language == "cpp")
    found: dict[str, list[Measurement]] = {"quiet": [], "busy": []}
    executor = LocalExecutor(detect_cpu())
    burner = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        build = executor.compile(task, kernel)
        for pair in range(args.pairs):
            for kind in ("quiet", "busy") if pair % 2 else ("busy", "quiet"):
                os.kill(burner.pid, signal.SIGCONT if kind == "busy" else signal.SIGSTOP)
                found[kind].append(executor.measure(task, kernel, build, Subject(kernel, build)))
            print(f"{pair + 1} of {args.pairs}", {k: told_apart(v)["told_apart"] for k, v in found.items()}, flush=True)
    finally:
        burner.kill()
        executor.close()
    # What else ran on the machine is no fault of the quiet ones.
    counted = {
        "quiet": [m for m in found["quiet"] if m.conditions["other_processors"] < QUIET],
        "busy": found["busy"],
    }
    table = {kind: told_apart(results) for kind, results in counted.items()}
    runs = [
        {"kind": kind, "verdict": m.verdict, "speedup": m.speedup, "low": m.low, "high": m.high}
        | {"other_processors": m.conditions["other_processors"]}
        for kind, results in found.items()
        for m in results
    ]
    write(args.out, {"task": args.task, "table": table, "runs": runs})
    for kind, row in table.items():
        print(f"{kind}: {row['told_apart']} of {row['measurements']} ({row['low']:.0%} to {row['high']:.0%})")


if __name__ == "__main__":
    main()
