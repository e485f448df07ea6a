"""Fit the learned forecaster's prior to the training split of a pool, and judge it on families that it has not seen.

    python benchmarks/train_learned.py pool --out surrogate/learned.npz --results benchmarks/results/train_learned.json

The same pool gives the same file byte for byte. Every family of the training split is forecast by a model that was
fitted to the others; with `--validation` the shipped model also forecasts the validation split. Each task is forecast
with 0, 4, 8 and 16 of its own kernels measured before, drawn at random and left out of the figures. Beside the
forecaster: the Gaussian process without the trees, and a plain gradient-boosted model on the columns of the vector's
first version with the anchor's time, as in `features_alone.py`. The test split is never read.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import learned_prior
import numpy as np
from features_alone import forecasts as plain
from learned_prior import Data
from provenance import write

import forewarp
from forewarp.archive.pools.parquet import read_pool
from forewarp.archive.rows import RecordedRow
from forewarp.core import bins
from forewarp.core.protocols import Subject, Trial
from forewarp.core.values import Forecast
from forewarp.inspection.features.vector import VECTOR_VERSION
from forewarp.surrogate import pretrained
from forewarp.surrogate.evaluation import metrics
from forewarp.surrogate.learned import LearnedForecaster
from forewarp.surrogate.reference import ReferenceTime

HISTORIES = (0, 4, 8, 16)
LATER = ("work.", "count.", "access.", "tunables.")
SHOWN = ("spearman", "recovery", "recovery_median", "pairs", "bin", "near", "ece", "crps", "covered", "auroc")

Ask = Callable[[Data, Sequence[int], Sequence[int]], list[Forecast]]


def asked(forecaster: LearnedForecaster) -> Ask:
    def ask(d: Data, learned_from: Sequence[int], about: Sequence[int]) -> list[Forecast]:
        row = d.rows[about[0]]
        history = [Trial(Subject(d.rows[i].candidate, d.rows[i].build), d.rows[i].measurement) for i in learned_from]
        subjects = [Subject(d.rows[i].candidate, d.rows[i].build) for i in about]
        return forecaster.forecast(row.task, row.target, subjects, history)

    return ask


def draws(d: Data, history: int, repeats: int) -> Iterator[tuple[str, list[int], list[int]]]:
    """Yield task, kernels measured before, and valid kernels to forecast."""
    for task in map(str, np.unique(d.task)):
        places = np.flatnonzero(d.task == task)
        for repeat in range(repeats if history else 1):
            rng = np.random.default_rng([repeat, history, len(places)])
            before = rng.choice(places, history, replace=False) if history else places[:0]
            rest = [int(i) for i in places if d.valid[i] and i not in before]
            if len(rest) >= 8:
                yield task, [int(i) for i in before], rest


def judged(d: Data, ask: Callable[[str], Ask], history: int, repeats: int) -> dict[str, float]:
    """Return the figures of one forecaster: means over tasks, and what needs many forecasts over all of them."""
    table: list[tuple[float, ...]] = []
    said: list[Forecast] = []
    truth: list[float] = []
    for _, before, about in draws(d, history, repeats):
        found = ask(str(d.family[about[0]]))(d, before, about)
        real = [2.0 ** float(d.speedup[i]) for i in about]
        score = [f.mean_log2 or 0.0 for f in found]
        table.append(
            (
                metrics.spearman(score, real),
                metrics.recovery(score, real, 0.1),
                float(metrics.pair_outcomes(score, real).mean()),
            )
        )
        said += found
        truth += real
    p, y = [f.probabilities for f in said], metrics.bins_of(truth)
    values = np.nan_to_num(np.array(table))
    right = [max(range(bins.COUNT), key=f.probabilities.__getitem__) == b for f, b in zip(said, y, strict=True)]
    return {
        "spearman": float(values[:, 0].mean()),
        "recovery": float(values[:, 1].mean()),
        "recovery_median": float(np.median(values[:, 1])),
        "pairs": float(values[:, 2].mean()),
        "bin": metrics.accuracy(p, y),
        "near": metrics.accuracy(p, y, 1),
        "ece": metrics.ece(p, y),
        "crps": metrics.crps(p, y),
        "covered": metrics.coverage([f.interval[0] for f in said], [f.interval[1] for f in said], truth),
        "auroc": metrics.auroc([f.confidence for f in said], right),
        "draws": float(len(table)),
    }


def plainly(train: Data, d: Data) -> dict[str, float]:
    """Return the figures of the plain model, which is told the anchor's time and says one number."""
    kept = [i for i, n in enumerate(train.columns) if not n.startswith(LATER)]

    def table(of: Data) -> Any:
        floors = [r.build.evidence.facts["floor_s"] for r in of.rows]
        times = [learned_prior.seconds(r, anchor=True) for r in of.rows]
        anchors = [math.log2(t / f) if t > 0 else math.nan for t, f in zip(times, floors, strict=True)]
        return np.column_stack([of.x[:, kept], anchors])

    fitted, about = train.where(train.valid), d.where(d.valid)
    said = plain(table(fitted), fitted.speedup, table(about))
    rows: list[tuple[float, ...]] = []
    for task in np.unique(about.task):
        mask = about.task == task
        real = 2.0 ** about.speedup[mask]
        right = metrics.bins_of([2.0**s for s in said[mask]]) == metrics.bins_of(list(real))
        rows.append(
            (
                metrics.spearman(said[mask], real),
                metrics.recovery(said[mask], real, 0.1),
                float(metrics.pair_outcomes(said[mask], real).mean()),
                float(right.mean()),
            )
        )
    values = np.array(rows)
    names = ("spearman", "recovery", "pairs", "bin")
    found = dict(zip(names, map(float, values.mean(axis=0)), strict=True))
    return found | {"recovery_median": float(np.median(values[:, 1])), "draws": float(len(rows))}


def shown(name: str, figures: dict[str, float]) -> dict[str, float]:
    print(f"{name:34s}" + "".join(f"{figures[n]:>9.3f}" if n in figures else f"{'':9s}" for n in SHOWN), flush=True)
    return {n: round(v, 4) for n, v in figures.items()}


def references(rows: Sequence[RecordedRow]) -> dict[str, ReferenceTime]:
    """Return each task's anchor time, median over its measurements."""
    times: dict[str, list[float]] = {}
    for row in rows:
        if (t := learned_prior.seconds(row, anchor=True)) > 0:
            times.setdefault(row.task.sha256, []).append(t)
    return {name: ReferenceTime({"": float(np.median(found))}) for name, found in times.items()}


def compared(d: Data, model: Callable[[str], pretrained.Model], repeats: int) -> dict[str, dict[str, float]]:
    """Return the figures of the learned forecaster and of the Gaussian process alone, by the length of the history."""
    known = references(d.rows)
    ready: dict[tuple[str, bool], Ask] = {}

    def trees(told: bool) -> Callable[[str], Ask]:
        def of(family: str) -> Ask:
            if (family, told) not in ready:
                forecaster = LearnedForecaster(model(family), references=known if told else None)
                ready[family, told] = asked(forecaster)
            return ready[family, told]

        return of

    alone = asked(LearnedForecaster(alone=True))
    found: dict[str, dict[str, float]] = {}
    for history in HISTORIES:
        name = f"learned, {history} trials"
        found[name] = shown(name, judged(d, trees(False), history, repeats))
        if history == 0:
            found["learned, anchor told"] = shown("learned, anchor told", judged(d, trees(True), 0, repeats))
        else:
            name = f"Gaussian process, {history} trials"
            found[name] = shown(name, judged(d, lambda _: alone, history, repeats))
    return found


def main() -> None:
    """Fit, judge, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--validation", action="store_true", help="also judge the model on the validation split")
    parser.add_argument("--repeats", type=int, default=2, help="draws of a history for each task")
    args = parser.parse_args()
    train = learned_prior.data(read_pool(args.pool / "train.parquet"))
    out = learned_prior.left_out(train, print)
    info = {
        "kernels": int(train.valid.sum()),
        "tasks": len(np.unique(train.task)),
        "families": sorted(map(str, np.unique(train.family))),
        "data_sha256": train.digest,
        "dated": train.latest,
        "version": forewarp.__version__,
    }
    models = {str(f): learned_prior.without(train, out, str(f), info) for f in np.unique(train.family)}
    results: dict[str, Any] = {}
    print(f"\n{'train, each family left out':34s}" + "".join(f"{n[:9]:>9s}" for n in SHOWN))
    folds = [(train.where(train.family != f), train.where(train.family == f)) for f in models]
    parts = [plainly(kept, left) for kept, left in folds]
    tasks = [p["draws"] for p in parts]
    whole = {n: float(np.average([p[n] for p in parts], weights=tasks)) for n in parts[0] if n != "recovery_median"}
    results["train"] = {"plain": shown("plain", whole)} | compared(train, models.__getitem__, args.repeats)
    # The Gaussian process is left out of what the file says of itself: its last digits may differ between machines.
    model = learned_prior.fit(train, out, info | {"left_out": results["train"]["learned, anchor told"]})
    learned_prior.save(model, args.out)
    print(f"\n{args.out}: {args.out.stat().st_size} bytes")
    if args.validation:
        validation = learned_prior.data(read_pool(args.pool / "validation.parquet"))
        print(f"\n{'validation':34s}" + "".join(f"{n[:9]:>9s}" for n in SHOWN))
        results["validation"] = {"plain": shown("plain", plainly(train, validation))}
        results["validation"] |= compared(validation, lambda _: model, 5 * args.repeats)
    if args.results:
        spread = {n: getattr(model.spread, n) for n in pretrained.Spread.__slots__}
        write(args.results, {"vector_version": VECTOR_VERSION, "model": info | {"spread": spread}, "results": results})


if __name__ == "__main__":
    main()
