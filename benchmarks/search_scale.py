r"""What a long run costs: 10,000 candidates through the real engine, on a simulated device.

    nice -n 10 python benchmarks/search_scale.py --effort 0.02 --out benchmarks/results/search_scale_learned.json
    nice -n 10 python benchmarks/search_scale.py --forecaster knowing --effort 0 --measurements 2000 \
        --out benchmarks/results/search_scale.json
    nice -n 10 python benchmarks/search_scale.py --effort 0 --candidates 2400 \
        --out benchmarks/results/search_scale_trials.json

Everything is as in a search with the learned forecaster (proposer, gate, forecasts, policy, archive), but for compiler
and device: an arithmetic landscape over 76,800 choices of seven tunables answers in their place, so that what is left
is the engine's own time. Times are of the processor (all threads of the process) and of the clock; only the first
judges a machine that has other work. A thousand candidates make a row. `phases` are seconds per candidate, archive
writes included; `archive` is what of them all was spent inside SQLite. `decision` is what one round's decisions take,
archive writes included. In the end the state is loaded anew from the archive, as a resume would.

`--effort` decides how many of the candidates are measured: a search stops measuring where nothing promises that much.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import gc
import hashlib
import math
import random
import resource
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from provenance import write

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.synthetic_executor import REFERENCE, KnowingForecaster, SyntheticExecutor

from forewarp.archive.store import Archive
from forewarp.core import bins
from forewarp.core.budget import Budget
from forewarp.core.protocols import Forecaster, Subject
from forewarp.core.values import (
    Build,
    Candidate,
    DeviceKind,
    Forecast,
    Measurement,
    Task,
    Tolerance,
    Workload,
    WorkloadTiming,
)
from forewarp.search import rounds
from forewarp.search.events import Accepted, Event, Measured, Proposed, Rejected
from forewarp.search.loop import Search
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.search.settings import SearchSettings
from forewarp.search.state import RunState
from forewarp.search.summary import summarise
from forewarp.surrogate.calibration import Recalibrated
from forewarp.surrogate.learned import LearnedForecaster

SOURCE = """/*forewarp
inputs = ["x"]
outputs = ["y"]
[tunables]
TILE = [64, 16, 32, 128, 256, 512, 1024, 2048]
UNROLL = [1, 2, 4, 8, 16, 32]
WIDTH = [4, 1, 2, 8]
STAGES = [2, 1, 3, 4, 5]
WARPS = [4, 1, 2, 8, 16]
LANES = [32, 4, 8, 16]
ORDER = [0, 1, 2, 3]
[[launch]]
kernel = "go"
args = ["x", "y"]
*/
extern "C" void go(const float* x, float* y) { y[0] = TILE * x[0] + UNROLL + WIDTH + STAGES + WARPS + LANES + ORDER; }
"""
ROUGH = 0.12
"""Octaves."""

PHASES = {"_propose": "propose", "check": "gate", "forecast": "forecast", "_decide": "decide", "measure": "measure"}
"""Steps of a round, by the names of the functions that do them."""


def landscape(candidate: Candidate) -> float:
    """Return log2 of the speed-up: a hill with ridges, two octaves high at its top, and what no tunable explains."""
    t = candidate.tunables
    tile, unroll, warps = (math.log2(t[name]) for name in ("TILE", "UNROLL", "WARPS"))
    hill = 0.2 * (tile - 7) ** 2 + 0.15 * (unroll - 2) ** 2 + 0.2 * (tile - unroll - warps - 3) ** 2
    rest = (
        0.1 * (math.log2(t["WIDTH"]) - 1) ** 2 + 0.08 * (t["STAGES"] - 3) ** 2 + 0.05 * (math.log2(t["LANES"]) - 4) ** 2
    )
    rough = random.Random(f"rough {sorted(t.items())}").gauss(0.0, ROUGH)
    return 2.0 - hill - rest - (0.0, 0.3, 0.15, 0.5)[t["ORDER"]] + rough


class Device(SyntheticExecutor):
    """Compiles all but one corner, and times by the landscape; what is far off is wrong."""

    def compile(self, task: Task, candidate: Candidate) -> Build:
        """Refuse the largest tiles with the deepest pipelines."""
        t = candidate.tunables
        if t["TILE"] * t["STAGES"] > 8000:
            return Build("compile_error", 0.01, log="ptxas error: too much shared memory")
        return Build("ok", 0.01, artefact="memory", binary_sha256=hashlib.sha256(candidate.sha256.encode()).hexdigest())

    def measure(
        self, task: Task, candidate: Candidate, build: Build, against: Subject | None = None, beat: float | None = None
    ) -> Measurement:
        """Look the speed-up up, with noise of 0.02 octaves that only depends on the kernel."""
        if candidate.tunables["UNROLL"] == 32 and candidate.tunables["WIDTH"] == 8:
            return Measurement("incorrect", "incorrect", self.target.name, "T0", device_s=0.25)
        s = 2.0 ** (landscape(candidate) + random.Random(candidate.sha256).gauss(0.0, 0.02))
        low, high = s * 0.97, s * 1.03
        logs = tuple(math.log(s) + 0.01 * math.sin(i) for i in range(16))
        timing = WorkloadTiming("small", s, low, high, 1.0 / s, 1.0, 0.1, logs, (1.0 / s,) * 16, (1.0,) * 16)
        verdict = "faster" if low > 1 else "slower" if high < 1 else "tie"
        early = beat is not None and high < beat
        return Measurement(
            *("ok", verdict, self.target.name, "T0", "reference", s, low, high, (timing,)),
            device_s=0.2 if early else 0.5,
            stopped_early=early,
        )


class Knowing(KnowingForecaster):
    """Knows this landscape up to 0.3 octaves: for what is left without a forecaster's own time."""

    def _one(self, candidate: Candidate) -> Forecast:
        off = random.Random(f"forecast {candidate.sha256}").gauss(0.0, 0.3)
        return Forecast(bins.from_normal(landscape(candidate) + off, 0.3), 0.95, self.name)


class Clock:
    """Adds up processor and wall seconds by name, and keeps each single one of some."""

    def __init__(self) -> None:
        self.cpu: defaultdict[str, float] = defaultdict(float)
        self.wall: defaultdict[str, float] = defaultdict(float)
        self.each: defaultdict[str, list[float]] = defaultdict(list)

    def add(self, name: str, cpu: float, wall: float) -> None:
        """Count one stretch of work."""
        self.cpu[name] += cpu
        self.wall[name] += wall

    def take(self) -> tuple[dict[str, float], dict[str, float], dict[str, list[float]]]:
        """Return all that was counted since the last call."""
        taken = dict(self.cpu), dict(self.wall), dict(self.each)
        self.cpu, self.wall, self.each = defaultdict(float), defaultdict(float), defaultdict(list)
        return taken


def stretch(clock: Clock, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a wrapper that times a step which is a generator of events, whatever its caller does in between."""

    def around(step: Callable[..., Generator[Event]]) -> Callable[..., Generator[Event]]:
        def timed(*args: Any) -> Generator[Event]:
            work, cpu, wall = step(*args), 0.0, 0.0
            while True:
                began = time.process_time(), time.perf_counter()
                event = next(work, None)
                cpu += time.process_time() - began[0]
                wall += time.perf_counter() - began[1]
                if event is None:
                    break
                yield event
            clock.add(name, cpu, wall)
            clock.each[name].append(cpu)

        return timed

    return around


class TimedArchive(Archive):
    """Counts the time that SQLite takes, of single statements and of commits."""

    clock = Clock()
    inside = False

    def _rows(self, sql: str, parameters: tuple[Any, ...] = ()) -> Any:
        return self._timed(super()._rows, sql, parameters)

    def _one(self, sql: str, parameters: tuple[Any, ...] = ()) -> Any:
        return self._timed(super()._one, sql, parameters)

    def _write(self, sql: str, parameters: tuple[Any, ...] = ()) -> int:
        return self._timed(super()._write, sql, parameters)

    def _commit(self) -> None:
        self._timed(super()._commit)

    def _timed(self, call: Callable[..., Any], *args: Any) -> Any:
        if self.inside:
            return call(*args)
        self.inside, began = True, (time.process_time(), time.perf_counter())
        try:
            return call(*args)
        finally:
            self.inside = False
            self.clock.add("archive", time.process_time() - began[0], time.perf_counter() - began[1])


def scale_task() -> Task:
    """Return the task with its one seed."""
    small = (Workload("small", {"N": 16}),)
    workloads: dict[DeviceKind, tuple[Workload, ...]] = {"cpu": small, "cuda": small}
    return Task("scale", "Scale", REFERENCE, workloads, Tolerance(1e-3, 1e-3), (Candidate(SOURCE, "cpp"),))


def main() -> None:
    """Run and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=10_000)
    parser.add_argument("--measurements", type=int, default=300)
    parser.add_argument("--proposals", type=int, default=8)
    parser.add_argument("--effort", type=float, default=SearchSettings().min_improvement)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--forecaster", choices=("learned", "knowing"), default="learned")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    forecaster: Forecaster = Recalibrated(LearnedForecaster()) if args.forecaster == "learned" else Knowing()
    with tempfile.TemporaryDirectory() as folder:
        result = run(args, forecaster, Path(folder) / "scale.db")
    write(args.out, {"simulated": True, "forecaster": args.forecaster, "proposals_per_round": args.proposals} | result)


def run(args: argparse.Namespace, forecaster: Forecaster, path: Path) -> dict[str, Any]:
    """Search until so many candidates were proposed; return a row per thousand, and what it came to."""
    clock = Clock()
    for step, name in PHASES.items():
        setattr(rounds, step, stretch(clock, name)(getattr(rounds, step)))
    settings = SearchSettings(
        seed=args.seed,
        budget=Budget(measurements=args.measurements),
        proposals_per_round=args.proposals,
        min_improvement=args.effort,
        patience=0,
        confirm=False,
        compile_threads=1,
    )
    with TimedArchive(path) as archive:
        archive.clock = clock
        search = Search.start(archive, scale_task(), Device(), TunablesProposer(), forecaster, settings)
        rows, counted = [], Counter[str]()
        before = time.process_time(), time.perf_counter()
        clock.take()
        every = args.candidates // 10
        for event in search.events():
            counted[type(event).__name__] += 1
            done = counted[Accepted.__name__] + counted[Rejected.__name__]
            if isinstance(event, Accepted | Rejected) and done % every == 0:
                now = time.process_time(), time.perf_counter()
                rows.append(
                    _row(clock, every, counted, path) | {"cpu_s": now[0] - before[0], "wall_s": now[1] - before[1]}
                )
                print(f"{done}: {rows[-1]}", file=sys.stderr, flush=True)
                before = time.process_time(), time.perf_counter()
                if done >= args.candidates:
                    search.stop()
        began = time.process_time()
        state = RunState.load(archive, search.run_id, forecasting=True)
        loaded = time.process_time() - began
        began = time.process_time()
        summary = summarise(archive, search.run_id)
        summed = time.process_time() - began
    return {
        "rows": rows,
        "linear": _trend(rows),
        "events": dict(counted),
        "status": summary.status,
        "reason": summary.reason,
        "best": summary.best.speedup if summary.best else None,
        "settings": {"effort": args.effort, "seed": args.seed, "rough": ROUGH},
        "load_state_s": loaded,
        "loaded": len(state.rows),
        "summary_s": summed,
        "peak_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _row(clock: Clock, count: int, counted: Counter[str], path: Path) -> dict[str, Any]:
    gc.collect()
    cpu, wall, each = clock.take()
    decisions = sorted(each.get("decide", [0.0]))
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "candidates": counted[Proposed.__name__],
        "measurements": counted[Measured.__name__],
        "phases": {name: s / count for name, s in cpu.items()},
        "phases_wall": {name: s / count for name, s in wall.items()},
        "decision": {
            "median_s": statistics.median(decisions),
            "p99_s": decisions[int(0.99 * (len(decisions) - 1))],
            "max_s": decisions[-1],
        },
        "forecast_round_s": statistics.median(each.get("forecast", [0.0])),
        "rss": pages * resource.getpagesize(),
        "archive_bytes": path.stat().st_size,
    }


def _trend(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Return the last third's cost per candidate over the first third's (without the first row), by phase."""
    names = {name for row in rows for name in row["phases"]}
    third = max(1, len(rows) // 3)

    def mean(part: list[dict[str, Any]], name: str) -> float:
        return statistics.fmean(r["phases"].get(name, 0.0) for r in part)

    early = rows[1 : 1 + third] or rows
    return {name: mean(rows[-third:], name) / max(mean(early, name), 1e-9) for name in names}


if __name__ == "__main__":
    main()
