"""What several GPUs are worth: kernels a minute, run-to-run spread beside busy neighbours, and whether cards agree.

    python benchmarks/many_gpus.py --device cuda --gpus 1 2 4 --out many_gpus.json
    python benchmarks/many_gpus.py --device cpu --gpus 1 --tasks softmax --kernels 3 --out /tmp/m.json

`scaling`: the same kernels, compiled before, on 1, 2, … GPUs, in the same order; kernels per minute, and the ratio to
one GPU. `compiling` is the time for all of them, from an empty cache in the first row, with the threads of `forewarp
measure`. `open_s` are the seconds to open the devices, `not_measuring_s` those of a measurement that are not the
measuring's own, `waiting_bytes` the memory (PSS) of the processes that wait.
`spread`: a few kernels several times on each card, with all others idle (`alone`) and with all busy with the same
(`together`): the coefficient of variation of the speed-up over the runs of a kernel on a card, and how far the cards'
mean speed-ups of a kernel are apart.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from provenance import write

from forewarp.core import processes
from forewarp.core.protocols import Executor
from forewarp.core.values import Build, Candidate, Measurement, Task
from forewarp.gpu_runner import devices
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.gpu_runner.executors.several import SeveralExecutor
from forewarp.gpu_runner.formats import plan
from forewarp.gpu_runner.formats import task as tasks
from forewarp.gpu_runner.pipeline import compile_threads

Item = tuple[Task, Candidate]
Built = tuple[Task, Candidate, Build]
LANGUAGES = {"cpu": ("cpp",), "cuda": ("triton", "cuda")}


class Clock:
    """How much of the time that this script may take is left."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds."""
        return self.end - time.monotonic()


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def chosen(names: Sequence[str], kind: str, count: int) -> list[Item]:
    """Return `count` kernels of the tasks' seeds at choices of their tunables, the same ones each time, tasks mixed."""
    found: list[Item] = []
    for name in names:
        task = tasks.load(name)
        for seed in (s for s in task.seeds if s.language in LANGUAGES[kind]):
            every = list(plan.parse(seed).combinations())
            picked = random.Random(zlib.crc32(name.encode())).sample(every, min(count, len(every)))
            found += [(task, Candidate(seed.source, seed.language, t)) for t in picked]
    random.Random(0).shuffle(found)
    return found[:count]


def threads_of(executor: Executor) -> int:
    return compile_threads(executor, max(1, min(8, (os.cpu_count() or 1) - 1)))


def compiled(executor: Executor, items: Sequence[Item]) -> tuple[list[Built], float]:
    """Compile all, and return those that compile with the seconds that it took."""
    for task in {t.sha256: t for t, _ in items}.values():
        executor.describe(task)
    threads = threads_of(executor)
    start = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        builds = list(pool.map(lambda item: executor.compile(*item), items))
    seconds = time.perf_counter() - start
    return [(t, c, b) for (t, c), b in zip(items, builds, strict=True) if b.status == "ok"], seconds


def measured(executor: Executor, built: Sequence[Built], clock: Clock) -> tuple[list[tuple[Measurement, float]], float]:
    """Measure on all devices, and return results with the seconds that each took, and those that all took."""

    def one(item: Built) -> tuple[Measurement, float] | None:
        if clock.left < 0:
            return None
        start = time.perf_counter()
        m = executor.measure(*item)
        return m, time.perf_counter() - start

    start = time.perf_counter()
    with ThreadPoolExecutor(executor.devices) as pool:
        found = [f for f in pool.map(one, built) if f is not None]
    return found, time.perf_counter() - start


@contextmanager
def opened(device: str, count: int) -> Iterator[tuple[Executor, float]]:
    """Open `count` devices, and tell how long the first answer took."""
    start = time.perf_counter()
    parts = [LocalExecutor(devices.choose(device), index=i) for i in range(count)]
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(LocalExecutor.probe, parts))
    executor = parts[0] if count == 1 else SeveralExecutor(parts)
    try:
        yield executor, time.perf_counter() - start
    finally:
        executor.close()


def scaling(items: Sequence[Item], args: argparse.Namespace, clock: Clock) -> Iterator[dict[str, Any]]:
    """Measure the same kernels on more and more devices."""
    one = 0.0
    for count in args.gpus:
        with opened(args.device, count) as (executor, open_s):
            built, compile_s = compiled(executor, items)
            idle = waiting_bytes()
            # What a device does once, such as starting its launcher, is no part of the rate.
            measured(executor, built[:count], clock)
            found, seconds = measured(executor, built, clock)
            ok = [(m, s) for m, s in found if m.status == "ok"]
            own = [s - (m.phases["total"] - b.seconds) for (m, s), (_, _, b) in zip(found, built, strict=False)]
            rate = 60 * len(found) / seconds
            one = rate if count == min(args.gpus) else one
            row = {
                "devices": executor.devices,
                "kernels": len(found),
                "ok": len(ok),
                "seconds": seconds,
                "kernels_per_minute": rate,
                "times_one": rate / one if one else None,
                "open_s": open_s,
                "compiling": {"kernels": len(items), "seconds": compile_s, "threads": threads_of(executor)},
                "not_measuring_s": statistics.median(own) if own else None,
                "waiting_bytes": idle,
                "speedups": {f"{t.name} {c.short}": m.speedup for (m, _), (t, c, _) in zip(found, built, strict=False)},
            }
            say(f"{count}: {rate:.1f} kernels/min, {row['times_one'] or 0:.2f} × one, opened in {open_s:.1f} s")
            yield row
        if clock.left < 0:
            return


def spread(items: Sequence[Item], args: argparse.Namespace, clock: Clock) -> list[dict[str, Any]]:
    """Measure a few kernels again and again on every card, alone and beside busy neighbours."""
    count = max(args.gpus)
    parts = [LocalExecutor(devices.choose(args.device), index=i) for i in range(count)]
    rows: list[dict[str, Any]] = []
    try:
        built, _ = compiled(parts[0], items[: args.spread_kernels])
        for executor in parts:
            measured(executor, built[:1], clock)

        def run(card: int, how: str) -> None:
            for turn in range(args.repeats):
                for task, candidate, build in built:
                    if clock.left < 0:
                        return
                    m = parts[card].measure(task, candidate, build)
                    if m.status == "ok":
                        name = f"{task.name} {candidate.short}"
                        rows.append(
                            {"card": card, "how": how, "kernel": name, "turn": turn, "speedup": m.speedup}
                            | {"candidate_s": [w.candidate_median_s for w in m.workloads]}
                        )

        with ThreadPoolExecutor(count) as pool:
            list(pool.map(lambda card: run(card, "together"), range(count)))
        say(f"spread, together: {len(rows)} runs, {clock.left:.0f} s left")
        for card in range(count):
            run(card, "alone")
        say(f"spread: {len(rows)} runs, {clock.left:.0f} s left")
    finally:
        for executor in parts:
            executor.close()
    return rows


def spread_table(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the coefficient of variation per card, alone and together, and how far cards are apart."""
    groups: dict[tuple[str, int, str], list[float]] = {}
    for r in rows:
        groups.setdefault((r["how"], r["card"], r["kernel"]), []).append(r["speedup"])
    cv = {g: statistics.stdev(v) / statistics.fmean(v) for g, v in groups.items() if len(v) > 1}
    table: dict[str, Any] = {"runs": len(rows)}
    for how in ("alone", "together"):
        by_card: dict[int, list[float]] = {}
        for (h, card, _), value in cv.items():
            if h == how:
                by_card.setdefault(card, []).append(value)
        table[how] = {str(card): statistics.median(v) for card, v in sorted(by_card.items())}
        means: dict[str, list[float]] = {}
        for (h, _, kernel), v in groups.items():
            if h == how:
                means.setdefault(kernel, []).append(statistics.fmean(v))
        apart = [max(v) / min(v) - 1 for v in means.values() if len(v) > 1]
        table[f"cards_apart_{how}"] = {"median": statistics.median(apart), "worst": max(apart)} if apart else None
    return table


def waiting_bytes() -> int:
    """Return the memory of all processes that this one started: PSS, in bytes."""
    total = 0
    for pid in processes.below(os.getpid()):
        with suppress(OSError, ValueError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += next(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    parser.add_argument("--gpus", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--tasks", nargs="+", default=["softmax", "rmsnorm", "cross_entropy", "layernorm_gelu"])
    parser.add_argument("--kernels", type=int, default=48)
    parser.add_argument("--spread-kernels", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=330.0)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    clock = Clock(args.seconds)
    document: dict[str, Any] = {"device": devices.choose(args.device).name, "scaling": [], "problems": []}
    items = chosen(args.tasks, args.device, args.kernels)
    say(f"{len(items)} kernels of {', '.join(args.tasks)}")
    work = tempfile.mkdtemp()
    os.environ["FOREWARP_CACHE"] = work
    try:
        for row in scaling(items, args, clock):
            document["scaling"].append(row)
            write(args.out, document)
    except Exception as e:
        # What was measured by then is worth keeping; the reason is in the file.
        document["problems"].append(f"{type(e).__name__}: {e}")
        say(document["problems"][-1])
    if args.repeats > 1:
        rows = spread(items, args, clock)
        document |= {"spread": spread_table(rows), "spread_rows": rows}
    write(args.out, document)
    say(str(document.get("spread")))


if __name__ == "__main__":
    main()
