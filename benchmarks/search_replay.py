"""How few measurements a search needs, by replaying pools that were measured in full.

    python benchmarks/search_replay.py pool --split test --answers benchmarks/results/llm_evidence.parquet

Each run may pick from all recorded kernels of one task; nothing runs on a device, and what is "measured" is looked up.
Arms: `everything` measures in the order in which the pool was recorded (programs shuffled, default tunables first),
`random` in random order, `learned` asks the embedded forecaster, `llm` a language model's recorded answers, `cascade`
both. The model's answers were given before anything of the task was measured, with compiled facts and no neighbours.
Each forecasting arm may pick from the whole pool at once, and nothing ends it early, so that whole curves can be drawn;
`stopping` is the search as it comes, which is given eight candidates a round and ends by its own rules. Intervals
resample tasks, then seeds within them.

Baselines without a search: `tuner` measures each program's default tunables, programs in random order, then the other
settings of the best program, of the second best, and so on; `sort_learned`, `sort_llm` and `sort_both` forecast once,
with nothing measured, and measure in that order. `--add FILE` keeps the runs of an earlier file and makes only those of
arms that it lacks.

`priced`, `priced_10_s` and `priced_30_s` are the cascade of a search, which asks no model where measuring tells more
for its price, a measurement taking its recorded time, 10 and 30 s.

Dollars to within 5 % are what was measured and asked until then: measurements at the task's mean device seconds, or at
10 and 30 s each, on an H200 at its price in the table, and tokens at the price of `PRICED_AS`. `…_asked_on` counts all
tokens of a run, also those after the kernel was found.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from provenance import write

from forewarp.archive.forecasts import RecordedForecast, read_forecasts
from forewarp.archive.pools.parquet import read_pool
from forewarp.archive.pools.replay import ReplayExecutor
from forewarp.archive.rows import RecordedRow
from forewarp.archive.store import Archive
from forewarp.core.budget import Budget
from forewarp.core.protocols import Forecaster, Subject, Trial
from forewarp.core.values import Cost, Forecast, Target, Task
from forewarp.inspection.features.features import program_of
from forewarp.search.loop import Search
from forewarp.search.proposers.recorded import PoolProposer
from forewarp.search.settings import SearchSettings
from forewarp.surrogate import prices
from forewarp.surrogate.calibration import Recalibrated
from forewarp.surrogate.cascade import CascadeForecaster
from forewarp.surrogate.learned import LearnedForecaster
from forewarp.surrogate.pooling import moments
from forewarp.surrogate.reference import ReferenceTime
from forewarp.tools.session import ESCALATIONS

SORTS = {"sort_learned": "learned", "sort_llm": "llm", "sort_both": "cascade"}
"""Baselines that forecast once, and whose forecasts they sort by."""
BASELINES = ("everything", "random", "tuner", *SORTS)
PRICED = {"priced": None, "priced_10_s": 10.0, "priced_30_s": 30.0}
"""Cascades that compare asking with measuring, as in a search, by the seconds of a measurement; None is as recorded."""
ARMS = (*BASELINES, "learned", "llm", "cascade", *PRICED)
PRICED_AS = "anthropic:claude-sonnet-5-5"
DEAR_S = (10.0, 30.0)
"""Seconds of a measurement for which dollars are told as well: a build, a queue or long shapes may make it dear."""
MOST = 24
"""Measurements of a run of which the whole curve is drawn."""

WITHIN = 0.95
"""A kernel this share as fast as the pool's best counts as found."""


class Recorded:
    """A language model's answers, looked up; the cost is that of their tokens, and typical seconds."""

    name = "llm"

    def __init__(self, answers: Mapping[str, RecordedForecast]) -> None:
        self._answers = answers

    def forecast(
        self, task: Task, target: Target, subjects: Sequence[Subject], history: Sequence[Trial]
    ) -> list[Forecast]:
        """Return the recorded answer for each subject."""
        return [self._one(self._answers[s.candidate.sha256]) for s in subjects]

    def _one(self, a: RecordedForecast) -> Forecast:
        dollars = prices.load().dollars(PRICED_AS, a.input_tokens or 0, a.output_tokens or 0)
        cost = Cost(prices.ANSWER.seconds, a.input_tokens or 0, a.output_tokens or 0, dollars)
        if a.probabilities is None:
            return Forecast((0.125,) * 8, 0.5, self.name, raw_sum=0.0, cost=cost)
        return Forecast(
            a.probabilities, a.p_valid or 0.0, self.name, "", 1.0, cost, mean_log2=a.mean_log2, sd_log2=a.sd_log2
        )


@dataclass(frozen=True)
class Job:
    """One run to replay."""

    task: str
    arm: str
    seed: int
    stopping: bool
    changes: tuple[tuple[str, Any], ...] = ()


_pools: dict[str, list[RecordedRow]] = {}
_answers: dict[str, dict[str, RecordedForecast]] = {}
_references: dict[str, ReferenceTime] = {}
"""Times of references that were measured before a search, by their tasks' sha256; none for the pool."""


def load(pool: Path, split: str, answers: Sequence[Path], condition: str) -> None:
    """Read pool and answers, once in each process."""
    pools: dict[str, list[RecordedRow]] = defaultdict(list)
    for row in read_pool(pool):
        if row.origin.split in split.split("+"):
            pools[row.task.name].append(row)
    _pools.update(pools)
    for path in answers:
        for f in read_forecasts(path):
            if f.comparison == condition:
                _answers.setdefault(f.task, {})[f.kernel] = f


def make_forecaster(arm: str, task: str) -> Forecaster | None:
    """Return the arm's forecaster as the product makes it, with recorded answers in place of a model."""
    if arm in ("everything", "random"):
        return None
    learned = Recalibrated(LearnedForecaster(references=_references))
    if arm == "learned":
        return learned
    llm = Recalibrated(Recorded(_answers[task]))
    if arm == "llm":
        return llm
    if arm not in PRICED:
        return CascadeForecaster(learned, llm)
    table, answer = prices.load(), prices.ANSWER
    expected = replace(answer, dollars=table.dollars(PRICED_AS, answer.input_tokens, answer.output_tokens))
    return CascadeForecaster(learned, llm, expected=expected, prices=table, limit=ESCALATIONS)


class InOrder:
    """Proposes the pool's kernels in the order in which they were recorded."""

    name = "pool"

    def __init__(self, rows: Sequence[RecordedRow]) -> None:
        self._rows = rows

    def propose(self, task: Task, target: Target, known: Any, count: int, rng: Any) -> list[Any]:
        """Return the next `count` kernels."""
        from forewarp.core.protocols import Proposal

        left = [r.candidate for r in self._rows if r.candidate.sha256 not in known.seen]
        return [Proposal(c, self.name) for c in left[:count]]


def tuned(rows: Sequence[RecordedRow], rng: random.Random) -> list[RecordedRow]:
    """Return the order in which a plain tuner measures: defaults first, then the settings of the best programs."""
    programs: dict[str, list[RecordedRow]] = defaultdict(list)
    for row in rows:
        programs[program_of(row.candidate)].append(row)
    first = [settings[0] for settings in programs.values()]
    rng.shuffle(first)
    order = list(first)
    left = {program_of(r.candidate): programs[program_of(r.candidate)][1:] for r in first}
    for settings in left.values():
        rng.shuffle(settings)
    while any(left.values()):
        ranked = sorted(order, key=speed, reverse=True)
        best = next(p for r in ranked if left[p := program_of(r.candidate)])
        order.append(left[best].pop())
    return order


def speed(row: RecordedRow) -> float:
    """Return a row's speed-up, 0 where there is none to be believed."""
    return (row.measurement.speedup or 0.0) if row.measurement.trusted else 0.0


def sorted_once(
    rows: Sequence[RecordedRow], forecaster: Forecaster, rng: random.Random
) -> tuple[list[RecordedRow], int]:
    """Return the rows by p_valid times the forecast speed-up, equal ones in random order, and the tokens it took."""
    asked = list(rows)
    rng.shuffle(asked)
    made = forecaster.forecast(asked[0].task, asked[0].target, [Subject(r.candidate, r.build) for r in asked], [])
    worth = [f.p_valid * 2.0 ** moments(f)[0] for f in made]
    order = sorted(range(len(asked)), key=lambda i: -worth[i])
    return [asked[i] for i in order], sum(f.cost.input_tokens + f.cost.output_tokens for f in made)


def baseline(job: Job) -> dict[str, Any]:
    """Return a run of a baseline that needs no search, as `one_run` does."""
    rows, rng, tokens = _pools[job.task], random.Random(job.seed), 0
    # What does not compile is turned down before anything is measured, as in a search.
    compiled = [r for r in rows if r.build.status == "ok"]
    if job.arm == "tuner":
        order = tuned(compiled, rng)
    else:
        forecaster = make_forecaster(SORTS[job.arm], job.task)
        assert forecaster is not None
        order, tokens = sorted_once(compiled, forecaster, rng)
    top = max(map(speed, rows))
    shares = [max(map(speed, order[: n + 1])) / top for n in range(len(order))]
    counts = {"considered": len(order), "measured": len(order), "tokens": tokens, "alarms": 0, "audited": 0, "false": 0}
    return {
        **{"task": job.task, "arm": job.arm, "seed": job.seed, "stopping": False, "pool": len(rows), "top": top},
        **{
            "shares": [round(s, 5) for s in shares],
            "reason": "there are no more candidates",
            "tiers": {},
            "seconds": 0.0,
        },
        **counts,
    }


def one_run(job: Job) -> dict[str, Any]:
    """Replay one run; returns the best speed-up after each measurement as a share of the pool's best."""
    if job.arm == "tuner" or job.arm in SORTS:
        return baseline(job)
    rows = _pools[job.task]
    if seconds := PRICED.get(job.arm):
        rows = [replace(r, measurement=replace(r.measurement, device_s=seconds)) for r in rows]
    executor = ReplayExecutor(rows, rows[0].target)
    task = rows[0].task
    forecaster = make_forecaster(job.arm, job.task)
    settings = SearchSettings(
        seed=job.seed,
        budget=Budget(measurements=len(rows)),
        confirm=False,
    )
    if not job.stopping:
        settings = replace(settings, proposals_per_round=len(rows), reconsider=len(rows))
    if forecaster is not None and not job.stopping:
        settings = replace(settings, patience=0, min_improvement=0.0, reach=1.0, budget=Budget(measurements=MOST))
    settings = replace(settings, **dict(job.changes))
    top = max(r.measurement.speedup or 0.0 for r in rows if r.measurement.trusted)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, Archive(Path(folder) / "archive.db") as archive:
        proposer = InOrder(rows) if job.arm == "everything" else PoolProposer(executor.candidates(task) or ())
        search = Search.start(archive, task, executor, proposer, forecaster, settings)
        summary = search.run()
        found = [
            m.measurement.speedup if m.measurement.trusted and m.measurement.speedup else 0.0
            for m in archive.measurements(run=search.run_id)
            if m.measurement
        ]
        asked = tokens_before(archive, search.run_id)
    shares = [max(found[: n + 1]) / top for n in range(len(found))]
    audits = summary.false_discards
    return {
        "task": job.task,
        "arm": job.arm,
        "seed": job.seed,
        "stopping": job.stopping,
        "pool": len(rows),
        "top": top,
        "shares": [round(s, 5) for s in shares],
        "considered": summary.considered,
        "measured": summary.measured,
        "reason": summary.reason,
        "tiers": {t.tier: t.candidates for t in summary.tiers},
        "tokens": summary.spend.tokens,
        "tokens_before": asked,
        "alarms": summary.alarms,
        "audited": audits.audited if audits else 0,
        "false": audits.false if audits else 0,
        "seconds": round(time.perf_counter() - start, 2),
    }


def tokens_before(archive: Archive, run: str) -> list[int]:
    """Return how many tokens of a cascade's model were spent before each measurement of a run."""
    spent, found = 0, list[int]()
    for event in archive.events(run):
        if event.type == "Escalated":
            spent += event.data["cost"]["input_tokens"] + event.data["cost"]["output_tokens"]
        elif event.type == "Measuring":
            found.append(spent)
    return found


def needed(run: Mapping[str, Any]) -> float:
    """Return how many measurements it took to come within 5 % of the pool's best; twice all where it did not."""
    for n, share in enumerate(run["shares"], 1):
        if share >= WITHIN:
            return n
    return 2.0 * len(run["shares"])


def at_share(run: Mapping[str, Any], share: float) -> float:
    """Return the share of the pool's best after measuring `share` of the pool."""
    return reached(run, max(1, round(share * run["pool"])))


def reached(run: Mapping[str, Any], count: int) -> float:
    """Return the share of the pool's best after `count` measurements; one in a thousand where nothing worked."""
    return max(run["shares"][min(count, len(run["shares"])) - 1], 1e-3)


def dollars(run: Mapping[str, Any], seconds: float | None, *, asked_on: bool = False) -> float:
    """Return the dollars of a run until it came within 5 %; `seconds` a measurement, None is the task's mean.

    With `asked_on`, tokens count to the run's end.
    """
    table, rows = prices.load(), _pools[run["task"]]
    each = statistics.fmean(r.measurement.device_s for r in rows) if seconds is None else seconds
    # Of an answer some 93 % of the tokens are read (`prices.ANSWER`).
    read = prices.ANSWER.input_tokens / (prices.ANSWER.input_tokens + prices.ANSWER.output_tokens)
    # A run without a cascade asks before it measures.
    before = run.get("tokens_before") or []
    last = int(needed(run)) - 1
    tokens = before[last] if sum(before) and last < len(before) and not asked_on else run["tokens"]
    asked = table.dollars(PRICED_AS, round(read * tokens), round((1 - read) * tokens)) or 0.0
    return asked + (table.held(rows[0].target, needed(run) * each) or 0.0)


def interval(by_task: Mapping[str, Sequence[Sequence[float]]], rounds: int = 4000) -> tuple[float, float, float]:
    """Return the geometric mean over tasks of mean over seeds of log values, with a 95 % interval."""
    names = sorted(by_task)
    rng = np.random.default_rng(0)
    values = [np.asarray(by_task[n], float).ravel() for n in names]
    point = math.exp(statistics.fmean(float(v.mean()) for v in values))
    draws: list[float] = []
    for _ in range(rounds):
        chosen = rng.integers(len(values), size=len(values))
        draws.append(statistics.fmean(float(rng.choice(values[i], len(values[i])).mean()) for i in chosen))
    low, high = np.quantile(draws, (0.025, 0.975))
    return point, math.exp(low), math.exp(high)


def against(runs: Sequence[Mapping[str, Any]], arm: str, base: str, value: Any) -> tuple[float, float, float]:
    """Return value(arm) / value(base) with its interval; runs are paired by task, all seeds with all seeds' mean."""
    per_task: dict[str, list[float]] = {}
    for task in sorted({r["task"] for r in runs}):
        ours = [math.log(value(r)) for r in runs if r["task"] == task and r["arm"] == arm]
        theirs = statistics.fmean(math.log(value(r)) for r in runs if r["task"] == task and r["arm"] == base)
        per_task[task] = [x - theirs for x in ours]
    return interval(per_task)


def figures(runs: Sequence[Mapping[str, Any]], arms: Sequence[str]) -> dict[str, Any]:
    """Return what the runs show, arm by arm."""
    table: dict[str, Any] = {}
    full = [r for r in runs if not r["stopping"]]
    for arm in arms:
        own = [r for r in full if r["arm"] == arm]
        longest = max(len(r["shares"]) for r in own)
        row: dict[str, Any] = {
            "curve": [
                round(math.exp(statistics.fmean(math.log(reached(r, n)) for r in own)), 4)
                for n in range(1, min(MOST, longest) + 1)
            ],
            "needed_median": statistics.median(needed(r) for r in own),
            "needed_mean": statistics.fmean(needed(r) for r in own),
            "share_at_10": math.exp(statistics.fmean(math.log(at_share(r, 0.1)) for r in own)),
            "exact": statistics.fmean(max(r["shares"]) > 0.9999 for r in own),
            "alarms": statistics.fmean(r["alarms"] for r in own),
        }
        for name, seconds in (("dollars", None), *((f"dollars_{s:g}_s", s) for s in DEAR_S)):
            value = partial(dollars, seconds=seconds)
            row[name] = statistics.median(map(value, own))
            if arm != "tuner" and "tuner" in arms:
                row[f"{name}_over_tuner"] = against(full, arm, "tuner", value)
                row[f"{name}_asked_on_over_tuner"] = against(full, arm, "tuner", partial(value, asked_on=True))
        for base in BASELINES:
            if base in arms and base != arm and arm not in ("random", "everything"):
                more = against(full, base, arm, needed)
                row[f"fewer_than_{base}"] = more
                row[f"faster_than_{base}_at_10"] = against(full, arm, base, lambda r: at_share(r, 0.1))
        table[arm] = row
        ended = [r for r in runs if r["arm"] == arm and r["stopping"]]
        if ended:
            row["stopping"] = {
                "measured": statistics.fmean(r["measured"] for r in ended),
                "considered_per_measured": sum(r["considered"] for r in ended) / sum(r["measured"] for r in ended),
                "share": math.exp(statistics.fmean(math.log(reached(r, len(r["shares"]))) for r in ended)),
                "reasons": Counter(r["reason"] for r in ended),
                "audited": sum(r["audited"] for r in ended),
                "false": sum(r["false"] for r in ended),
                "alarms": statistics.fmean(r["alarms"] for r in ended),
                "tokens": statistics.fmean(r["tokens"] for r in ended),
            }
    return table


def show(table: Mapping[str, Any]) -> None:
    """Print the table."""
    heads = {
        "fewer than random": "fewer_than_random",
        "than tuner": "fewer_than_tuner",
        "than one sort (llm)": "fewer_than_sort_llm",
        "$ over tuner": "dollars_over_tuner",
        "at 10 s": "dollars_10_s_over_tuner",
        "at 30 s": "dollars_30_s_over_tuner",
    }
    print(f"{'arm':12s} {'needed':>13s} {'at 10 %':>8s} " + " ".join(f"{h:>21s}" for h in heads))
    for arm, row in table.items():
        cells = ["{:.2f} [{:.2f}, {:.2f}]".format(*row[key]) if key in row else "–" for key in heads.values()]
        needs = f"{row['needed_median']:.1f} / {row['needed_mean']:.1f}"
        print(f"{arm:12s} {needs:>13s} {row['share_at_10']:8.3f} " + " ".join(f"{c:>21s}" for c in cells))
        if "stopping" in row:
            print(f"{'':12s} as it stops: {row['stopping']}")


def main() -> None:
    """Replay all runs, print the table, write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool", type=Path)
    parser.add_argument("--split", default="test")
    parser.add_argument("--answers", type=Path, nargs="*", default=[])
    parser.add_argument("--condition", default="evidence")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--tasks", nargs="+")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--change", nargs="*", default=[], metavar="SETTING=VALUE", help="other settings than usual")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--add", type=Path, metavar="FILE", help="keep the runs of this file, and add arms to them")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    changes = tuple((k, float(v) if "." in v else int(v)) for k, v in (c.split("=") for c in args.change))
    setup = partial(load, args.pool, args.split, args.answers, args.condition)
    setup()
    names = args.tasks or sorted(_pools)
    earlier = json.loads(args.add.read_text()) if args.add else {"runs": []}
    kept = {r["arm"] for r in earlier["runs"]}
    jobs = [
        Job(task, arm, seed, stopping, () if arm in ("everything", "random") else changes)
        for task in names
        for seed in range(args.seeds)
        for arm in args.arms
        if arm not in kept
        for stopping in ((False, True) if arm not in (*BASELINES, *PRICED) else (False,))
        if arm != "everything" or seed == 0
    ]
    runs: list[dict[str, Any]] = list(earlier["runs"])
    table: dict[str, Any] = {}
    made_with = {"earlier": earlier["provenance"]} if args.add else {}
    with ProcessPoolExecutor(args.processes, initializer=setup) as workers:
        for number, run in enumerate(workers.map(one_run, jobs), 1):
            runs.append(run)
            if number % max(1, len(jobs) // len(names)) == 0 and (not args.add or number == len(jobs)):
                # Task by task, so that what is there can be looked at.
                print(f"{number} of {len(jobs)} runs", file=sys.stderr, flush=True)
                table = figures(runs, args.arms)
                done = sorted({r["task"] for r in runs})
                settings = {"split": args.split, "condition": args.condition, "changes": dict(changes), "tasks": done}
                if args.out:
                    write(args.out, {"source": "replay", **made_with, **settings, "figures": table, "runs": runs})
    show(table)


if __name__ == "__main__":
    main()
