"""How often a device tells a kernel from itself: on a quiet machine, and beside busy processes.

    python benchmarks/busy_machine.py --pairs 40
    python benchmarks/busy_machine.py --device cuda --busy 16 --pairs 10 --out busy_machine_h200.json
    python benchmarks/busy_machine.py --table benchmarks/results/busy_machine.json

On the CPU the kernel is the task's own C++ one. On a GPU it is the reference as a module, whose launches the host is
timed with; device-only kernels are timed on the device.

Quiet and busy measurements take turns in pairs, in an order that alternates. Intervals are Wilson's, 95 %.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from provenance import write
from scipy import stats

from forewarp.core.protocols import Subject
from forewarp.core.values import Candidate, Task
from forewarp.gpu_runner import devices
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.gpu_runner.formats import task as tasks
from forewarp.tools.wording import NOTICED

RESULT = Path(__file__).parent / "results" / "busy_machine.json"
BUSY = "while True: pass"


def summed_up(runs: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return for each kind how many measurements told equal kernels apart, and mean and spread of their speed-ups."""
    table: dict[str, dict[str, Any]] = {}
    for kind in ("quiet", "busy"):
        # What else ran on the machine is no fault of the quiet ones.
        counted = [
            r for r in runs if r["kind"] == kind and (kind == "busy" or (r["other_processors"] or 0.0) < NOTICED)
        ]
        others = [r["other_processors"] for r in counted if r["other_processors"] is not None]
        wrong = sum(r["verdict"] in ("faster", "slower") for r in counted)
        interval = stats.binomtest(wrong, len(counted)).proportion_ci(method="wilson")
        logs = [math.log(r["speedup"]) for r in counted]
        table[kind] = {
            "measurements": len(counted),
            "told_apart": wrong,
            "low": interval.low,
            "high": interval.high,
            "mean": math.exp(statistics.fmean(logs)),
            "sd": statistics.stdev(logs),
            "other_processors": statistics.median(others) if others else None,
        }
    return table


def chosen(task: Task, device: str) -> Candidate:
    """Return the kernel that is measured against itself."""
    if device == "cpu":
        return next(seed for seed in task.seeds if seed.language == "cpp")
    return Candidate(task.reference.replace("class Model(", "class ModelNew("), "python")


def measured(task: Task, device: str, busy: int, pairs: int) -> Iterator[dict[str, Any]]:
    """Measure a kernel against itself, in pairs."""
    kernel = chosen(task, device)
    executor = LocalExecutor(devices.choose(device))
    burners = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(busy)]
    try:
        build = executor.compile(task, kernel)
        for pair in range(pairs):
            for kind in ("quiet", "busy") if pair % 2 else ("busy", "quiet"):
                for burner in burners:
                    os.kill(burner.pid, signal.SIGCONT if kind == "busy" else signal.SIGSTOP)
                m = executor.measure(task, kernel, build, Subject(kernel, build))
                yield (
                    {"kind": kind, "verdict": m.verdict, "speedup": m.speedup, "low": m.low, "high": m.high}
                    | {"other_processors": m.conditions.get("other_processors")}
                )
            print(f"{pair + 1} of {pairs}", file=sys.stderr, flush=True)
    finally:
        for burner in burners:
            burner.kill()
        executor.close()


def main() -> None:
    """Measure and write the file, or read one, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--busy", type=int, default=1, help="processes that keep a processor busy each")
    parser.add_argument("--task", default="softmax")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--table", type=Path, help="print what a result file says, and measure nothing")
    args = parser.parse_args()
    if args.table:
        runs = json.loads(args.table.read_text())["runs"]
    else:
        runs: list[dict[str, Any]] = []
        for run in measured(tasks.load(args.task), args.device, args.busy, args.pairs):
            runs.append(run)
            write(args.out, {"device": args.device, "task": args.task, "busy": args.busy, "runs": runs})
    for kind, row in summed_up(runs).items():
        others = row["other_processors"]
        print(
            f"{kind}: told apart {row['told_apart']} of {row['measurements']} ({row['low']:.0%} to {row['high']:.0%}),"
            f" mean {row['mean']:.3f}, standard deviation {row['sd']:.1%}"
            + ("" if others is None else f", {others:.2f} processors busy with something else")
        )


if __name__ == "__main__":
    main()
