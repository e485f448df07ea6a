"""Measure how often equal kernels are told apart and 5 % more work is found, quiet and beside busy processes.

    python benchmarks/busy_machine.py --rounds 200 --seconds 600 --resume
    python benchmarks/busy_machine.py --device cuda --busy 1 2 16 --rounds 200 --out busy_machine_h200.json
    python benchmarks/busy_machine.py --merge a.json b.json
    python benchmarks/busy_machine.py --tiles 4 --busy --out benchmarks/results/busy_machine_small.json
    python benchmarks/busy_machine.py --table benchmarks/results/busy_machine.json

Where a machine has many processors, several of these, each bound to two of them (`taskset`) and with a cache of its own
(`XDG_CACHE_HOME`), run beside each other; `--merge` makes one file of theirs.

The kernel is that of `planted.py`. In each round it is measured once in every situation, in random order. Intervals of
shares are Wilson's, 95 %. On a GPU most of what is done once more lies in its L2 cache, so that how much longer it
takes is not known beforehand. `by_means` is what the same samples say where the two of an arm in a block are averaged,
`all_count` whether one arm's calls seemed uneven, so that every one counted. `error` is the standard error of the
samples alone (log-ratio), `session_sd` what was allowed for beside it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median, pstdev
from typing import Any

import planted
from provenance import write
from scipy import stats

from forewarp.core.protocols import Subject
from forewarp.gpu_runner import devices, statistics
from forewarp.gpu_runner.executors.local import LocalExecutor

RESULT = Path(__file__).parent / "results" / "busy_machine.json"
BUSY = "while True: pass"
EXTRA, TILES, WORK = 50, {"cpu": 40, "cuda": 4096}, 50
"""Per mille of work that is planted, tiles of the shape by device, repeats per element."""

WRITE_EVERY_S = 10.0


def situations(busy: Sequence[int], tiles: int) -> list[tuple[int, int]]:
    """Return pairs of per mille of extra work (none where that is less than a tile) and of busy processes."""
    planted_extra = (0, EXTRA) if tiles * EXTRA >= 1000 else (0,)
    return [(extra, n) for extra in planted_extra for n in (0, *busy) if not (extra and n > 1)]


def share(count: int, of: int) -> dict[str, float]:
    """Return a share with its interval."""
    interval = stats.binomtest(count, of).proportion_ci(method="wilson")
    return {"count": count, "low": interval.low, "high": interval.high}


def summed_up(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return for each situation what its measurements came to."""
    table: list[dict[str, Any]] = []
    for extra, busy in sorted({(r["extra"], r["busy"]) for r in runs}):
        counted = [r for r in runs if (r["extra"], r["busy"]) == (extra, busy)]
        logs, means = ([math.log(r[k]) for r in counted] for k in ("speedup", "by_means"))
        true = 1000 / (1000 + extra)  # on a CPU
        others = [r["other_processors"] for r in counted if r["other_processors"] is not None]
        row = {
            "extra": extra,
            "busy": busy,
            "measurements": len(counted),
            "mean": math.exp(fmean(logs)),
            "sd": pstdev(logs),
            "sd_by_means": pstdev(means),
            "covered": share(sum(r["low"] <= true <= r["high"] for r in counted), len(counted)),
            "all_count": sum(r.get("all_count", False) for r in counted),
            "half_width": median(math.log(r["high"] / r["low"]) / 2 for r in counted),
            "other_processors": median(others) if others else None,
        }
        for verdict in ("faster", "slower", "tie"):
            row[verdict] = share(sum(r["verdict"] == verdict for r in counted), len(counted))
        table.append(row)
    return table


def measured(device: str, tiles: int, busy: Sequence[int], rounds: range, seconds: float) -> Iterator[dict[str, Any]]:
    """Measure in every situation, once in each round; the last round ends where time is up."""
    until = time.monotonic() + seconds
    executor = LocalExecutor(devices.choose(device))
    burners = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(max(busy, default=0))]
    try:
        with tempfile.TemporaryDirectory() as folder:
            task = planted.task(Path(folder), tiles)
            kernels = {extra: planted.kernel(device, work=WORK, extra=extra) for extra in (0, EXTRA)}
            builds = {extra: executor.compile(task, kernel) for extra, kernel in kernels.items()}
            for number in rounds:
                order = situations(busy, tiles)
                random.Random(number).shuffle(order)
                for extra, beside in order:
                    if time.monotonic() > until:
                        return
                    for i, burner in enumerate(burners):
                        os.kill(burner.pid, signal.SIGCONT if i < beside else signal.SIGSTOP)
                    m = executor.measure(task, kernels[extra], builds[extra], Subject(kernels[0], builds[0]))
                    timed = m.workloads[0]
                    by_means = statistics.compare(statistics.PairedSamples(timed.candidate_s, timed.anchor_s)).speedup
                    alone = statistics.pairs_of(timed)
                    yield (
                        {"extra": extra, "busy": beside, "status": m.status, "verdict": m.verdict}
                        | {"speedup": m.speedup, "low": m.low, "high": m.high, "by_means": by_means}
                        | {"anchor_s": timed.anchor_median_s}
                        | {"other_processors": m.conditions.get("other_processors")}
                        | {"all_count": alone.all_count(), "blocks": len(timed.log_ratios)}
                        | {"error": alone.estimate().error, "session_sd": timed.session_sd}
                    )
                print(f"{number + 1} of {rounds.stop}", file=sys.stderr, flush=True)
    finally:
        for burner in burners:
            burner.kill()
        executor.close()


def main() -> None:
    """Measure and write the file, or read one, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--tiles", type=int, help="size of the shape, 1,024 elements each; by device")
    parser.add_argument("--busy", type=int, nargs="*", default=[1, 2], help="processes that keep a processor busy each")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no measurement after this")
    parser.add_argument("--resume", action="store_true", help="add rounds to those in the file")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--merge", type=Path, nargs="+", help="make one file of those of several calls")
    parser.add_argument("--table", type=Path, help="print what a result file says, and measure nothing")
    args = parser.parse_args()
    if args.table:
        runs = json.loads(args.table.read_text())["runs"]
    elif args.merge:
        parts = [json.loads(path.read_text()) for path in args.merge]
        runs = [run for part in parts for run in part["runs"]]
        about = {k: parts[0][k] for k in ("device", "extra_per_mille", "work", "tiles")}
        measured_by = [each for part in parts for each in part.get("parts", [part["provenance"]])]
        write(args.out, about | {"parts": measured_by, "summary": summed_up(runs), "runs": runs})
    else:
        kept = json.loads(args.out.read_text()) if args.resume and args.out.exists() else {}
        runs = list(kept.get("runs", []))
        tiles = args.tiles or TILES[args.device]
        each = len(situations(args.busy, tiles))
        runs = runs[: len(runs) // each * each]
        about = {"device": args.device, "extra_per_mille": EXTRA, "work": WORK, "tiles": tiles}
        written = 0.0
        for run in measured(args.device, tiles, args.busy, range(len(runs) // each, args.rounds), args.seconds):
            runs.append(run)
            if time.monotonic() > written + WRITE_EVERY_S:
                write(args.out, about | {"summary": summed_up(runs), "runs": runs})
                written = time.monotonic()
        write(args.out, about | {"summary": summed_up(runs), "runs": runs})
    for row in summed_up(runs):
        n = row["measurements"]
        print(
            f"{row['extra'] / 10:g} % more work beside {row['busy']}: faster {row['faster']['count']}, "
            f"slower {row['slower']['count']}, tie {row['tie']['count']} of {n}; "
            f"covered {row['covered']['count'] / n:.1%}, mean {row['mean']:.4f}, "
            f"standard deviation {row['sd']:.2%} (by means {row['sd_by_means']:.2%}), "
            f"half-width {row['half_width']:.2%}, every call counted in {row['all_count']}"
        )


if __name__ == "__main__":
    main()
