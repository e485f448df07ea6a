"""Measure a part of what a model wrote: by forecasts, against what comes first, at equal numbers and at equal cost.

    python benchmarks/written_policy.py benchmarks/results/written_h100 --pairs pairs.json      # for written_winners.py
    python benchmarks/written_policy.py benchmarks/results/written_h100 \\
        --winners benchmarks/results/written_winners.json --out benchmarks/results/written_policy.json

The folder holds the measured candidates of `written.py`, a program each, and the answers about them. The candidates are
live; the order of writing is replayed: `first` measures the first K of a random order (what a plain tuner of more than
K programs does, too, for it begins with each one's default tunables), `tuner_of_first` all tunables of the first
program, then of the next; `all` measures every candidate, more than which no policy can find. `sort_…` forecasts all of
them once, `learned`, `model` and `cascade` are the product's search, which learns from what it measures. Ratios are
geometric means over tasks; intervals draw tasks. Where nothing measured is faster, the reference is kept.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import random
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import search_replay
from provenance import write
from written import CHARS_A_TOKEN

from forewarp.archive.forecasts import read_forecasts
from forewarp.archive.pools.parquet import read_pool
from forewarp.archive.rows import RecordedRow
from forewarp.core import serde
from forewarp.inspection.features.features import program_of
from forewarp.surrogate import prices
from forewarp.surrogate.evaluation.resampling import cluster_draws, resample
from forewarp.surrogate.reference import ReferenceTime

KEPT = (1, 2, 3, 4, 6)
HEADLINE = 4
"""Measurements of twelve candidates: about the share that the default policy measures."""
ORDERS = 2000
SEEDS = 10
SEARCHES = {"learned": "learned", "model": "llm", "cascade": "cascade"}
SORTS = {"sort_learned": "sort_learned", "sort_model": "sort_llm", "sort_both": "sort_both"}
SECONDS = (1.0, 10.0, 30.0)
REFERENCE = 1.0
"""Speed-up that counts where nothing measured is faster: the reference is kept."""

Curve = Sequence[float]
"""The best speed-up after each measurement."""


def best_so_far(rows: Sequence[RecordedRow]) -> list[float]:
    """Return the best speed-up after each measurement."""
    return [max([REFERENCE, *map(search_replay.speed, rows[: n + 1])]) for n in range(len(rows))]


def first_written(rows: Sequence[RecordedRow], seed: int) -> list[RecordedRow]:
    """Return the rows in a random order of writing."""
    return random.Random(f"{rows[0].task.name} {seed}").sample(list(rows), len(rows))


def tuned_first(rows: Sequence[RecordedRow], defaults: Sequence[RecordedRow], seed: int) -> list[RecordedRow]:
    """Return all tunables of the program that was written first, then of the next."""
    programs = [program_of(r.candidate) for r in first_written(defaults, seed)]
    return sorted(rows, key=lambda r: programs.index(program_of(r.candidate)))


def searched(name: str, arm: str, top: float) -> list[Curve]:
    """Return what the product's search finds, one curve a seed."""
    runs = (search_replay.one_run(search_replay.Job(name, arm, seed, stopping=False)) for seed in range(SEEDS))
    return [[max(REFERENCE, share * top) for share in run["shares"]] for run in runs]


def curves_of(name: str, rows: Sequence[RecordedRow], *, answered: bool) -> dict[str, list[Curve]]:
    """Return each arm's curves for a task, whose rows are in the order in which they were recorded."""
    by_program: dict[str, RecordedRow] = {}
    for row in rows:
        by_program.setdefault(program_of(row.candidate), row)
    defaults = list(by_program.values())
    search_replay._pools[name] = defaults
    top = max(map(search_replay.speed, defaults))
    found: dict[str, list[Curve]] = {
        "all": [[max(REFERENCE, top)]],
        "first": [best_so_far(first_written(defaults, s)) for s in range(ORDERS)],
        "tuner_of_first": [best_so_far(tuned_first(rows, defaults, s)) for s in range(ORDERS // 10)],
    }
    for arm, job in {**SORTS, **SEARCHES}.items():
        if answered or job in ("learned", "sort_learned"):
            found[arm] = searched(name, job, top)
    return found


def level(curves: Sequence[Curve], count: int) -> float:
    """Return log2 of the best after so many measurements, the mean over curves."""
    return statistics.fmean(math.log2(c[min(count, len(c)) - 1]) for c in curves)


def ratio(tasks: Sequence[str], values: Mapping[str, float]) -> dict[str, float]:
    """Return two to the mean of the tasks' values, with its 95 % interval."""
    each = np.array([values[t] for t in tasks])
    found = resample(lambda picks: float(each[picks].mean()), tasks, cluster_draws(tasks, 4000)).estimate()
    return {"ratio": 2.0**found.value, "low": 2.0**found.low, "high": 2.0**found.high}


def asked_dollars(folder: Path, task: str) -> float:
    """Return what the answers about a task's candidates cost, at the price of the model that replays are priced as."""
    said = [f for f in read_forecasts(folder / "answers.parquet") if f.task == task]
    tokens = (sum(f.input_tokens or 0 for f in said), sum(f.output_tokens or 0 for f in said))
    return prices.load().dollars(search_replay.PRICED_AS, *tokens) or 0.0


def writing_dollars(folder: Path) -> float:
    """Return what it costs to have one candidate written: its prompt and its answer, tokens by characters."""
    asked: list[tuple[int, int]] = []
    with gzip.open(folder / "prompts.jsonl.gz", "rt") as file:
        for said in map(json.loads, file):
            asked += [(len(said["prompt"]), len(answer)) for answer in said.get("answers", {}).values()]
    read, written = (round(statistics.fmean(n) / CHARS_A_TOKEN) for n in zip(*asked, strict=True))
    return prices.load().dollars(search_replay.PRICED_AS, read, written) or 0.0


def timed_together(path: Path) -> dict[str, Any]:
    """Return the ratios of the policies' winners by task, and over all of them."""
    by_task: dict[str, list[float]] = defaultdict(list)
    for row in json.loads(path.read_text())["rows"]:
        by_task[row["task"]].append(row["ratio"])
    logs = {t: statistics.fmean(map(math.log2, found)) for t, found in by_task.items()}
    return {"by_task": dict(by_task), "all": ratio(sorted(logs), logs)}


def figures(found: Mapping[str, Mapping[str, list[Curve]]], asked: Mapping[str, float], hour: float) -> dict[str, Any]:
    """Return the tables: at equal numbers, at equal cost, and the share of the best."""
    tasks = sorted(found)
    arms = [a for a in found[tasks[0]] if a != "first"]
    tops = {t: level(found[t]["all"], 1) for t in tasks}
    equal = {
        arm: {
            str(k): ratio(tasks, {t: level(found[t][arm], k) - level(found[t]["first"], k) for t in tasks})
            for k in KEPT
        }
        for arm in arms
    }
    share = {
        arm: {str(k): 2.0 ** statistics.fmean(level(found[t][arm], k) - tops[t] for t in tasks) for k in KEPT}
        for arm in ("first", *arms)
    }
    cost: dict[str, Any] = {}
    for seconds in SECONDS:
        each = seconds * hour / 3600
        more = {t: round(asked[t] / each) for t in tasks}
        cost[f"{seconds:g}_s"] = {
            "cents_a_measurement": 100 * each,
            "answers_in_measurements": statistics.fmean(asked[t] / each for t in tasks),
            **{
                arm: ratio(
                    tasks,
                    {
                        t: level(found[t][arm], HEADLINE)
                        - level(found[t]["first"], HEADLINE + (0 if "learned" in arm else more[t]))
                        for t in tasks
                    },
                )
                for arm in (*SORTS, *SEARCHES)
                if arm in arms
            },
        }
    by_task = {t: {arm: 2.0 ** level(curves, HEADLINE) for arm, curves in found[t].items()} for t in tasks}
    return {"equal_number": equal, "share_of_best": share, "equal_cost": cost, "by_task": by_task}


def pairs(rows: Mapping[str, Sequence[RecordedRow]], arm: str) -> list[dict[str, Any]]:
    """Return, for three orders of writing, the first K's winner and the policy's, as requests to time them together."""
    asked: list[dict[str, Any]] = []
    for name, own in rows.items():
        top = max(map(search_replay.speed, search_replay._pools[name]))
        by_speed = {round(search_replay.speed(r), 5): r for r in own}
        run = search_replay.one_run(search_replay.Job(name, SEARCHES[arm], 0, stopping=False))
        ours = min(by_speed, key=lambda s: abs(s - run["shares"][HEADLINE - 1] * top))
        for order in range(3):
            theirs = max(first_written(search_replay._pools[name], order)[:HEADLINE], key=search_replay.speed)
            asked.append(
                {
                    "task": serde.to_data(own[0].task),
                    "order": order,
                    "policy": serde.to_data(by_speed[ours].candidate),
                    "first": serde.to_data(theirs.candidate),
                }
            )
    return asked


def main() -> None:
    """Play both policies, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--pairs", type=Path)
    parser.add_argument("--winners", type=Path)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    by_task: dict[str, list[RecordedRow]] = defaultdict(list)
    for row in read_pool(args.folder):
        by_task[row.task.name].append(row)
    answered = (args.folder / "answers.parquet").exists()
    if answered:
        search_replay.load(args.folder, "none", [args.folder / "answers.parquet"], "blind")
    known = json.loads((args.folder / "references.json").read_text())["tasks"]
    for name, rows in by_task.items():
        search_replay._references[rows[0].task.sha256] = ReferenceTime(known[name]["seconds"])
    found = {name: curves_of(name, rows, answered=answered) for name, rows in sorted(by_task.items())}
    if args.pairs:
        args.pairs.write_text(json.dumps(pairs(by_task, "cascade" if answered else "learned")))
    hour = prices.load().hour(next(iter(by_task.values()))[0].target) or 0.0
    asked = {name: asked_dollars(args.folder, name) if answered else 0.0 for name in by_task}
    table = figures(found, asked, hour)
    if args.winners:
        table |= {"winners": timed_together(args.winners), "writing_dollars": writing_dollars(args.folder)}
    for arm, row in table["equal_number"].items():
        print(f"{arm:15s}", *("{}: {ratio:.2f} [{low:.2f}, {high:.2f}]".format(k, **v) for k, v in row.items()))
    print(json.dumps({k: table[k] for k in table if k != "equal_number"}, indent=1))
    if args.out:
        counts = {name: len(search_replay._pools[name]) for name in by_task}
        write(args.out, {"candidates": counts, "measured": HEADLINE, "asked_dollars": asked, **table})


if __name__ == "__main__":
    main()
