"""Compare forecasts that know the reference's time, or a forecast of it, with those that do not.

    python benchmarks/reference_time.py pool --out benchmarks/results/reference_time.json

The learned forecaster is asked about the test split, with nothing measured: knowing nothing of the reference's time;
given its forecast from the reference's operations (`surrogate/operations.json`, fitted to no test family); and given
the measured time. Intervals are of a bootstrap over tasks, and over families; differences are paired. Beside it the
sizes of the prompts that a language model would get, with and without each part; no model is asked.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from provenance import write

from forewarp.archive.pools.parquet import read_pool
from forewarp.archive.rows import RecordedRow
from forewarp.gpu_runner.devices import known_targets
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.surrogate import reference
from forewarp.surrogate.alike import ExamplePool
from forewarp.surrogate.evaluation import backtest, scorecard
from forewarp.surrogate.evaluation.backtest import Answers, Group
from forewarp.surrogate.evaluation.resampling import Resampled, cluster_draws
from forewarp.surrogate.questions import Shown, question, system_prompt
from forewarp.surrogate.reference import ReferenceTime
from forewarp.tools.session import make_forecaster

SHOWN = ("exact", "within_one", "pairwise", "spearman", "crps", "ece", "error", "coverage", "auroc_confidence")
BATCH = 8
CHARACTERS_A_TOKEN = 4


def forecast_references(groups: Sequence[Group]) -> dict[str, ReferenceTime]:
    """Return the forecast times of the groups' references; they are traced without a GPU."""
    executor = LocalExecutor(replace(known_targets()["h200"], name="NVIDIA H200"))
    try:
        described = {g.task.sha256: (g.target, executor.describe(g.task)) for g in groups}
    finally:
        executor.close()
    found = {
        task: replace(known, operations=reference.count(signatures), versions={"torch": "2.11.0", "Triton": "3.6.0"})
        for task, (target, signatures) in described.items()
        if (known := reference.forecast(signatures, target)) is not None
    }
    assert found.keys() == described.keys()
    return found


def asked(groups: Sequence[Group], references: Mapping[str, ReferenceTime], name: str) -> Answers:
    """Return what the learned forecaster says with these times of references."""
    forecaster = make_forecaster("learned", None, references=references)
    assert forecaster is not None
    return replace(backtest.run(forecaster, groups), name=name)


def prompt_sizes(
    groups: Sequence[Group], rows: Sequence[RecordedRow], references: Mapping[str, ReferenceTime]
) -> dict[str, float]:
    """Return the mean tokens a kernel of prompts of `BATCH` kernels, by what is shown."""
    pool = ExamplePool(r for r in rows if r.origin.split == "train")
    told, plain = Shown(trials=False, references=references), Shown(trials=False)
    sizes: dict[str, list[float]] = {"facts": [], "and reference": [], "and kernels of other tasks": []}
    for group in groups:
        subjects = group.subjects[:BATCH]
        examples = pool.nearest(group.task, group.target, subjects)
        assert all(e.task != group.task.title for e in examples)
        for name, shown, alike in (
            ("facts", plain, []),
            ("and reference", told, []),
            ("and kernels of other tasks", told, examples),
        ):
            text = question(group.task, group.target, subjects, [], shown, alike).text
            sizes[name].append((len(text) + len(system_prompt())) / CHARACTERS_A_TOKEN / len(subjects))
    return {name: round(statistics.fmean(each), 1) for name, each in sizes.items()}


def main() -> None:
    """Ask, score, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool", type=Path)
    parser.add_argument("--split", default="test")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows = list(read_pool(args.pool))
    plan = backtest.plan([r for r in rows if r.origin.split == args.split])
    known, forecast = backtest.references(plan.groups, rows), forecast_references(plan.groups)
    arms = {"unknown": dict[str, ReferenceTime](), "forecast": forecast, "known": known}
    found = {name: asked(plan.groups, given, name) for name, given in arms.items()}
    blocks = scorecard.blocks(found["unknown"])
    figures: dict[str, Any] = {}
    for by, clusters in (("tasks", [b.task for b in blocks]), ("families", [b.family for b in blocks])):
        scores = {name: scorecard.score(a, cluster_draws(clusters)) for name, a in found.items()}
        for name in arms:
            figures.setdefault(name, {})[by] = {k: estimate(scores[name][k][1]) for k in SHOWN}
        for one, other in (("forecast", "unknown"), ("known", "forecast"), ("known", "unknown")):
            pairs = {k: estimate(scores[one][k][1].minus(scores[other][k][1])) for k in SHOWN}
            figures.setdefault(f"{one} - {other}", {})[by] = pairs
    for name, each in figures.items():
        print(f"{name:20s}", " ".join(f"{k} {v[0]:+.3f} [{v[1]:.3f}, {v[2]:.3f}]" for k, v in each["families"].items()))
    sizes = prompt_sizes(plan.groups, rows, forecast)
    print(sizes)
    if args.out:
        write(args.out, {"split": args.split, "figures": figures, "tokens_a_kernel": sizes})


def estimate(found: Resampled) -> list[float]:
    """Return a figure with its 95 % interval."""
    e = found.estimate()
    return [e.value, e.low, e.high]


if __name__ == "__main__":
    main()
