"""Forecaster on against off at the same budget of measurements.

    python benchmarks/equal_budget.py --tasks softmax rmsnorm matmul --seeds 5 --budget 12

Both arms propose the same way, from the same seed; "off" measures every candidate that compiles, in the order
proposed, "on" considers more and measures those that its forecasts speak for. Arms of one seed run one after the other,
in an order that alternates. A run's score is the confirmed speed-up of its winner: measured again, at the end, from
within the budget. The table gives the ratio of the arms' scores per task as a geometric mean over seeds, with a t
interval on the logarithm.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from provenance import write
from scipy import stats

from forewarp.archive.store import Archive
from forewarp.core.budget import Budget
from forewarp.core.protocols import Executor
from forewarp.core.values import Task
from forewarp.gpu_runner.devices import choose
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor
from forewarp.gpu_runner.formats import task as tasks
from forewarp.search.loop import Search
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.search.settings import SearchSettings
from forewarp.surrogate.learned import LearnedForecaster


def one_run(archive: Archive, task: Task, executor: Executor, arm: str, seed: int, budget: int) -> dict[str, Any]:
    """Run one arm and return its score and counts."""
    start = time.perf_counter()
    settings = SearchSettings(seed=seed, budget=Budget(measurements=budget))
    forecaster = LearnedForecaster() if arm == "on" else None
    summary = Search.start(archive, task, executor, TunablesProposer(), forecaster, settings).run()
    best = summary.best
    return {
        "task": task.name,
        "arm": arm,
        "seed": seed,
        "speedup": best.speedup if best else None,
        "low": best.low if best else None,
        "high": best.high if best else None,
        "confirmed": bool(best and best.confirmed),
        "proposed": summary.proposed,
        "considered": summary.considered,
        "measured": summary.measured,
        "measurements": summary.spend.measurements,
        "device_s": summary.spend.device_s,
        "wall_s": time.perf_counter() - start,
    }


def ratios(rows: list[dict[str, Any]], task: str) -> list[float]:
    """Return log(on / off) per seed."""
    by = {(r["seed"], r["arm"]): r["speedup"] for r in rows if r["task"] == task}
    return [
        math.log(by[seed, "on"] / by[seed, "off"])
        for seed in sorted({s for s, _ in by})
        if by.get((seed, "on")) and by.get((seed, "off"))
    ]


def interval(logs: list[float]) -> tuple[float, float, float]:
    """Return the geometric mean ratio with its 95 % t interval."""
    mean = statistics.fmean(logs)
    if len(logs) < 2:
        return math.exp(mean), 0.0, math.inf
    half = float(stats.t.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def table(rows: list[dict[str, Any]], names: list[str]) -> list[dict[str, Any]]:
    """Return one row per task, and one over all."""
    out: list[dict[str, Any]] = []
    for name in [*names, "all"]:
        chosen = [r for r in rows if name in (r["task"], "all")]
        logs = [x for n in names if name in (n, "all") for x in ratios(rows, n)]
        if not logs:
            continue
        ratio, low, high = interval(logs)
        on, off = ([r for r in chosen if r["arm"] == a] for a in ("on", "off"))
        out.append(
            {
                "task": name,
                "on": math.exp(statistics.fmean(math.log(r["speedup"]) for r in on if r["speedup"])),
                "off": math.exp(statistics.fmean(math.log(r["speedup"]) for r in off if r["speedup"])),
                "ratio": ratio,
                "low": low,
                "high": high,
                "pairs": len(logs),
                "considered_per_measured": sum(r["considered"] for r in on) / max(1, sum(r["measured"] for r in on)),
            }
        )
    return out


def main() -> None:
    """Run all arms, print the table, write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=["softmax", "rmsnorm", "matmul"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budget", type=int, default=12)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--time-s", type=float, default=0.4, help="seconds of timing per workload")
    parser.add_argument("--add", type=Path, help="count the runs of this earlier result file, too")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "equal_budget_cpu.json")
    args = parser.parse_args()
    executor = LocalExecutor(choose(args.device), limits=Limits(time_s=args.time_s))
    rows: list[dict[str, Any]] = json.loads(args.add.read_text())["runs"] if args.add else []
    names = list(dict.fromkeys([r["task"] for r in rows] + args.tasks))
    with tempfile.TemporaryDirectory() as folder, Archive(Path(folder) / "archive.db") as archive:
        for seed in range(args.seeds):
            for name in args.tasks:
                for arm in ("on", "off") if seed % 2 == 0 else ("off", "on"):
                    rows.append(one_run(archive, tasks.load(name), executor, arm, seed, args.budget))
                    print({k: rows[-1][k] for k in ("task", "arm", "seed", "speedup", "measured", "considered")},
                          round(rows[-1]["wall_s"], 1), file=sys.stderr, flush=True)  # fmt: skip
            data = {
                "device": executor.target.name,
                "budget": args.budget,
                "table": table(rows, args.tasks),
                "runs": rows,
            }
            write(args.out, data)
    executor.close()
    print("| task | off | on | on / off (95 % interval) | pairs | considered per measured |\n|---|---|---|---|---|---|")
    for r in table(rows, names):
        print(
            f"| {r['task']} | {r['off']:.2f}× | {r['on']:.2f}× | {r['ratio']:.3f} ({r['low']:.3f} to {r['high']:.3f}) "
            f"| {r['pairs']} | {r['considered_per_measured']:.1f} |"
        )


if __name__ == "__main__":
    main()
