"""What it saves to end the timing of a candidate that cannot win, and how often that hits one that could have.

    python benchmarks/early_stop.py [--only PART]

Parts, each named in the result by where its numbers come from. *simulated*: the engine's own schedule and looks
on simulated noise, for candidates whose true speed-up is a given share of what they have to beat. *replayed*: the same
on block samples that were recorded on an H200, from random starts. *measured*: kernels of bundled tasks on this
machine's CPU, with and without something to beat.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow.parquet as pq
from provenance import provenance, write
from statistics_simulation import NOISES, Noise, line, sessions

from forewarp.core.values import Candidate, Target, TimingMode, Workload
from forewarp.gpu_runner import statistics
from forewarp.gpu_runner.devices import detect_cpu
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.gpu_runner.executors.verdicts import SESSION_SPREAD, STOPPING_ERROR, Looks, timings_of
from forewarp.gpu_runner.formats import task as tasks
from forewarp.gpu_runner.statistics import LOOKS, Samples
from forewarp.gpu_runner.worker.channel import LookAnswer
from forewarp.gpu_runner.worker.requests import Judgement
from forewarp.gpu_runner.worker.stage import Stage
from forewarp.gpu_runner.worker.timing import Arm, Bench, Condition, Sample, Schedule, each_workload

RESULTS = Path(__file__).parent / "results"
RATIOS = (0.5, 0.8, 0.9, 0.95, 0.98, 1.0, 1.02, 1.1)
"""True speed-up over what there is to beat."""
SPREAD = (-0.3, 0.1, 0.2)
"""By how much the log speed-ups of three workloads differ from their mean."""
SAMPLE_S, STAGE_S = 0.6e-3, 0.02
"""What a sample, and putting a workload on stage, cost on an H200: medians of "throughput" in h200/measuring.json."""
WHOLE = 100
GPU = Target("a GPU", "cuda", "sm_90", 132)
TABLE = (
    "s 0.5 %, drift 0.5 %, tau 2000",
    "s 1 %, drift 2 %, tau 500",
    "s 3 %, drift 3 %, tau 200",
    "10 % outliers",
    "outliers 5 % candidate, 1 % anchor",
    "bursts of 20 slow samples",
    "one arm wanders 0.5 %, tau 500",
)
Blocks = tuple[Sequence[float], Sequence[float]]
"""Candidate's and anchor's seconds in the order taken, two of each per block."""


class Queue:
    """A bench that hands out samples made beforehand, as calls of that `mode`."""

    conditions: tuple[Condition, ...] = ("warm",)

    def __init__(self, blocks: Blocks, mode: TimingMode, count: int) -> None:
        self._mode, self.workloads = mode, [Workload(str(index)) for index in range(count)]
        self._left = {"candidate": iter(blocks[0]), "anchor": iter(blocks[1])}

    def sample(self, stage: Stage, arm: Arm, slot: int, condition: Condition = "cold") -> Callable[[], Sample]:
        """Return the arm's next sample."""
        seconds = float(next(self._left[arm]))
        return lambda: (seconds, 0.0)

    def choose_mode(self, stage: Stage, longest_s: float) -> TimingMode:
        """Return the mode."""
        return self._mode


class Still:
    """A stage on which nothing happens."""

    slot_count = 8

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


class Dry(Schedule):
    """The schedule without warm-up; controls and second numbers are counted only. `samples` is what it would take."""

    extra = 0

    def _pilot(self) -> tuple[float, float]:
        self.extra += 6
        return 1e-9, 1e-9

    def _control(self) -> None:
        self.extra += 4

    def _second(self, condition: Condition, deadline: float) -> None:
        self.extra += 32

    @property
    def samples(self) -> int:
        """How many samples a device would have taken."""
        return self.extra + sum(len(v) for v in self.seconds.values())


class Rehearsal:
    """One measurement as the judge would make it; `make(index)` gives the samples of a workload put on stage."""

    def __init__(
        self, make: Callable[[int], Blocks], count: int, looks: Sequence[int], beat: float | None, mode: TimingMode
    ):
        self._make, self._count, self._looks, self._beat, self._mode = make, count, looks, beat, mode
        self._ask = Looks(GPU, beat)
        self._timings: dict[int, Samples] = {}
        self.seconds = 0.0
        self.stopped = each_workload(count, self._visit)

    def _visit(self, index: int, again: bool) -> LookAnswer:
        schedule = Dry(
            cast("Bench", Queue(self._make(index), self._mode, self._count)),
            cast("Stage", Still()),
            index=index,
            looks=self._looks,
            time_s=1e9,
            verify=lambda _: 0.0,
            ask=self._ask,
            sighting=self._beat is not None and not again,
        )
        self._timings[index] = schedule.run()
        self.seconds += SAMPLE_S * schedule.samples + STAGE_S
        return schedule.ended

    def interval(self) -> tuple[float, float, float]:
        """Return the speed-up with the interval that a measurement would show."""
        judged = Judgement(
            status="ok", stopped_early=self.stopped, timings=tuple(self._timings[i] for i in range(self._count))
        )
        return statistics.geometric_mean(timings_of(judged, GPU))


def simulated(
    noise: Noise,
    ratio: float,
    count: int,
    mode: TimingMode,
    sd: float,
    rng: np.random.Generator,
    spread: Sequence[float] = SPREAD,
) -> dict[str, Any]:
    """Measure `count` candidates over as many workloads as `spread` has, with and without something to beat."""
    wrong: list[Rehearsal] = []
    seconds, covered, covered_stopped = [0.0, 0.0], 0, 0
    for turn in range(count):
        offsets = [float(o) + float(rng.normal(0.0, sd)) for o in spread]

        def make(index: int, offsets: list[float] = offsets) -> Blocks:
            one, two = sessions(noise, 1 / (ratio * math.exp(offsets[index])) - 1, 1, LOOKS[-1], rng)
            return one[0].tolist(), two[0].tolist()

        # What it costs with nothing to beat needs fewer turns than how often a rare thing happens.
        for place, beat in enumerate((1.0, None) if turn < WHOLE else (1.0,)):
            run = Rehearsal(make, len(spread), LOOKS, beat, mode)
            seconds[place] += run.seconds if turn < WHOLE else 0.0
            if beat is not None:
                _, low, high = run.interval()
                holds = low <= ratio <= high
                covered += holds
                if run.stopped:
                    wrong.append(run)
                    covered_stopped += holds
    return {
        "stopped": len(wrong) / count,
        "seconds_share": seconds[0] / seconds[1],
        "seconds": seconds[0] / min(count, WHOLE),
        "coverage": covered / count,
        "coverage_stopped": covered_stopped / len(wrong) if wrong else None,
    }


def recorded() -> list[list[Blocks]]:
    """Return the samples of measurements on an H200 by workload."""
    rows = pq.read_table(RESULTS / "h200" / "pool.parquet", columns=["status", "measurement_json"]).to_pylist()
    found = [json.loads(r["measurement_json"]) for r in rows if r["status"] == "ok"]
    return [[(w["candidate_s"], w["anchor_s"]) for w in m["workloads"]] for m in found]


def replayed(pool: Sequence[list[Blocks]], ratio: float, rng: np.random.Generator, turns: int = 2) -> dict[str, Any]:
    """Time recorded blocks from random starts; the whole recording's mean is `ratio` times what is to be beaten."""
    stopped, count = 0, 0
    for workloads in pool:
        truth = math.exp(
            float(np.mean([math.log(statistics.compare(statistics.PairedSamples(c, a)).speedup) for c, a in workloads]))
        )
        for _ in range(turns):
            starts = [2 * int(rng.integers(0, len(c) // 2)) for c, _ in workloads]

            def make(index: int, workloads: list[Blocks] = workloads, starts: list[int] = starts) -> Blocks:
                one, two = (np.roll(arm, -starts[index]).tolist() for arm in workloads[index])
                return one, two

            stopped += Rehearsal(make, len(workloads), LOOKS[:3], truth / ratio, "stream").stopped
            count += 1
    return {"measurements": len(pool), "runs": count, "stopped": stopped / count}


def measured(names: Sequence[str]) -> list[dict[str, Any]]:
    """Measure C++ seeds on this machine's CPU: alone, then with ten times, twice and half their speed-up to beat."""
    rows: list[dict[str, Any]] = []
    executor = LocalExecutor(detect_cpu())
    try:
        for name in names:
            task = tasks.load(name)
            seed: Candidate = next(s for s in task.seeds if s.language == "cpp")
            build = executor.compile(task, seed)
            executor.measure(task, seed, build)  # the first one loads more than its own share
            alone = executor.measure(task, seed, build)
            if alone.speedup is None:
                raise SystemExit(f"{name}: {alone.status}\n{alone.log}")
            row: dict[str, Any] = {"task": name, "speedup": alone.speedup, "device_s": alone.device_s, "beat": {}}
            for times in (10.0, 2.0, 0.5):
                m = executor.measure(task, seed, build, beat=times * alone.speedup)
                row["beat"][f"{times}"] = {
                    "stopped": m.stopped_early,
                    "device_s": m.device_s,
                    "share": m.device_s / alone.device_s,
                    "time_share": m.phases.get("time", 0.0) / alone.phases["time"],
                }
            rows.append(row)
    finally:
        executor.close()
    return rows


def print_cells(name: str, rows: dict[str, dict[str, Any]]) -> None:
    line(name, [f"{100 * r['stopped']:.1f} %; {100 * r['seconds_share']:.0f} %" for r in rows.values()])
    covered = [(r["coverage"], r["coverage_stopped"]) for r in rows.values()]
    line("coverage, all; stopped", [f"{a:.3f}; {'–' if b is None else f'{b:.3f}'}" for a, b in covered])


def uneven_part(count: int, rng: np.random.Generator) -> dict[str, Any]:
    """Simulate three shapes whose speed-ups differ, under each noise."""
    line("stopped; share of the time", [f"{r:g}" for r in RATIOS])
    cells: list[tuple[str, Noise, TimingMode]] = [(name, NOISES[name], "stream") for name in TABLE]
    cells.append(("as row 2, sandboxed: 5 % from session to session", NOISES[TABLE[1]], "call"))
    out: dict[str, Any] = {}
    for name, noise, mode in cells:
        sd = SESSION_SPREAD["call", "cuda"][0] * (mode == "call")
        turns = {ratio: count * (10 if ratio == 1.0 else 1) for ratio in RATIOS}
        out[name] = {f"{r:g}": simulated(noise, r, n, mode, sd, rng) for r, n in turns.items()}
        print_cells(name, out[name])
    return out


def alike_part(count: int, rng: np.random.Generator) -> dict[str, Any]:
    """Simulate three shapes with one speed-up, and one shape alone."""
    line("stopped; share of the time", [f"{r:g}" for r in RATIOS])
    out: dict[str, Any] = {}
    for name, spread in (("three shapes alike", (0.0, 0.0, 0.0)), ("one shape", (0.0,))):
        out[name] = {f"{r:g}": simulated(NOISES[TABLE[1]], r, count, "stream", 0.0, rng, spread) for r in RATIOS}
        print_cells(name, out[name])
    return out


def replayed_part(count: int, rng: np.random.Generator) -> dict[str, Any]:
    """Replay what was recorded on an H200."""
    pool = recorded()
    out = {f"{ratio:g}": replayed(pool, ratio, rng) for ratio in RATIOS}
    line("recorded on an H200: stopped", [f"{100 * r['stopped']:.1f} %" for r in out.values()])
    return out


def measured_part(count: int, rng: np.random.Generator) -> dict[str, Any]:
    """Measure on this machine's CPU."""
    found = measured(("rmsnorm", "cross_entropy"))
    for row in found:
        said = [(k, "stopped" if v["stopped"] else "whole", v["share"]) for k, v in row["beat"].items()]
        line(row["task"], [f"{row['device_s']:.2f} s", *(f"×{k}: {how}, {share:.2f}" for k, how, share in said)])
    return {"device": "cpu", "rows": found}


PARTS: dict[str, Callable[[int, np.random.Generator], dict[str, Any]]] = {
    "simulated": uneven_part,
    "simulated_alike": alike_part,
    "replayed": replayed_part,
    "measured": measured_part,
}


def main() -> None:
    """Run the parts asked for, print their tables, and write them to the file; other parts in it stay."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=100, help="per cell; ten times as many where both are equal")
    parser.add_argument("--only", choices=list(PARTS), action="append")
    parser.add_argument("--out", type=Path, default=RESULTS / "early_stop.json")
    args = parser.parse_args()
    out: dict[str, Any] = json.loads(args.out.read_text()) if args.only and args.out.exists() else {}
    out.pop("provenance", None)
    out |= {"error_allowed": STOPPING_ERROR, "sample_s": SAMPLE_S, "stage_s": STAGE_S, "spread": SPREAD}
    for name in args.only or PARTS:
        began, rng = time.perf_counter(), np.random.default_rng(20260101)
        found = PARTS[name](args.sessions, rng)
        ran = {"date": provenance()["date"], "sessions": args.sessions, "seconds": time.perf_counter() - began}
        out[name] = {"ran": ran, "rows": found}
    write(args.out, out)


if __name__ == "__main__":
    main()
