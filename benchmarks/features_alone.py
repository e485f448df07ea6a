"""Judge how much the features alone tell of a speed-up, on families of operations that were never seen.

    python benchmarks/features_alone.py pool --out benchmarks/results/features_alone.json

A gradient-boosted model with fixed settings is fitted to log2 of the speed-up of the valid kernels of the training
split, and judged on the other splits, task by task: Spearman's rank correlation, the share of the best speed-up that
the top 10 % by forecast reach, pairs put in order, and how often the bin is right. Beside it, the same model on less:
what the roofline says of the task and the anchor, the tunables alone, the text's length, and the text's words; and a
guess in random order. Intervals are over tasks, by the bootstrap.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from provenance import write

from forewarp.archive.pools.parquet import read_pool
from forewarp.archive.rows import RecordedRow
from forewarp.archive.text import without_comments
from forewarp.core import bins
from forewarp.inspection.features.vector import columns, matrix, vector
from forewarp.surrogate.evaluation import metrics

Array = NDArray[np.float64]
Columns = Callable[[Sequence[RecordedRow]], Array]

ROOFLINE = ("balance", "floor", "moved", "anchor")
LEAST = 8
"""Valid kernels that a task must have to be judged on."""
WORDS = 24
RESAMPLES = 2000


def all_features(rows: Sequence[RecordedRow]) -> Array:
    return matrix(
        [
            vector(
                r.build.evidence.facts,
                len(r.build.evidence.problems),
                r.candidate,
                r.target,
                r.measurement.anchor_s,
            )
            for r in rows
        ]
    )


def without_anchor(rows: Sequence[RecordedRow]) -> Array:
    return np.delete(all_features(rows), list(columns()).index("anchor"), axis=1)


def roofline(rows: Sequence[RecordedRow]) -> Array:
    return all_features(rows)[:, [list(columns()).index(name) for name in ROOFLINE]]


def text_length(rows: Sequence[RecordedRow]) -> Array:
    stripped = [without_comments(r.candidate.source, r.candidate.language) for r in rows]
    return np.array([[math.log2(1 + len(t)), math.log2(1 + t.count("\n"))] for t in stripped])


class Tunables:
    """Named tunables as columns, in log2; names that only one program has tell nothing of another."""

    def __init__(self, rows: Sequence[RecordedRow]) -> None:
        self.names = sorted({name for r in rows for name in r.candidate.tunables})

    def __call__(self, rows: Sequence[RecordedRow]) -> Array:
        """Return the columns of some rows."""
        return np.array([[_log2(r.candidate.tunables.get(name)) for name in self.names] or [math.nan] for r in rows])


class Words:
    """Word counts of the text, weighted by rarity and projected on a few directions (latent semantic analysis)."""

    def __init__(self, rows: Sequence[RecordedRow]) -> None:
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.pipeline import make_pipeline

        words = TfidfVectorizer(token_pattern=r"[A-Za-z_]\w+|[^\w\s]{1,3}", ngram_range=(1, 2), min_df=3)
        self._model = make_pipeline(words, TruncatedSVD(WORDS, random_state=0))
        self._model.fit([_text(r) for r in rows])

    def __call__(self, rows: Sequence[RecordedRow]) -> Array:
        """Return the columns of some rows."""
        return self._model.transform([_text(r) for r in rows])


def _text(row: RecordedRow) -> str:
    return without_comments(row.candidate.source, row.candidate.language)


def _log2(value: int | None) -> float:
    return math.nan if value is None else math.copysign(math.log2(1 + abs(value)), value)


def forecasts(x: Array, y: Array, asked: Array) -> Array:
    """Fit trees to log2 of the speed-up and predict; settings are fixed, so no split has a part in choosing them."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(
        max_iter=300, learning_rate=0.05, max_leaf_nodes=15, min_samples_leaf=20, l2_regularization=1.0, random_state=0
    )
    # The trees refuse a column in which nothing is known.
    known = [j for j in range(x.shape[1]) if len(np.unique(x[np.isfinite(x[:, j]), j])) > 1]
    if not known:
        return np.full(len(asked), y.mean())
    return model.fit(x[:, known], y).predict(asked[:, known])


def judged(scores: Array, rows: Sequence[RecordedRow]) -> dict[str, dict[str, float]]:
    """Return the figures of each task that has enough valid kernels."""
    by_task: dict[str, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        by_task[row.task.name].append(index)
    found: dict[str, dict[str, float]] = {}
    for name, places in sorted(by_task.items()):
        if len(places) < LEAST:
            continue
        speedups = [rows[i].measurement.speedup or 1.0 for i in places]
        said = scores[places]
        right = [bins.bin_of(2.0**s) == bins.bin_of(v) for s, v in zip(said, speedups, strict=True)]
        found[name] = {
            "kernels": len(places),
            "spearman": metrics.spearman(said, speedups),
            "recovery_at_10": metrics.recovery(said, speedups, 0.1),
            "pairs": float(metrics.pair_outcomes(said, speedups).mean()),
            "bin": float(np.mean(right)),
        }
    return found


def summary(tasks: dict[str, dict[str, float]]) -> dict[str, list[float]]:
    """Return mean and 95 % interval over tasks of each figure."""
    rng = np.random.default_rng(0)
    found: dict[str, list[float]] = {}
    for name in ("spearman", "recovery_at_10", "pairs", "bin"):
        values = np.array([t[name] for t in tasks.values()])
        # A forecast that is the same for all kernels of a task puts none before another.
        values = np.where(np.isnan(values), 0.0, values)
        if not len(values):
            continue
        means = rng.choice(values, (RESAMPLES, len(values))).mean(axis=1)
        found[name] = [float(values.mean()), *(float(v) for v in np.quantile(means, [0.025, 0.975]))]
    return found


def main() -> None:
    """Fit on the training split, judge on the others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool", type=Path)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows = [r for r in read_pool(args.pool) if r.measurement.trusted and r.measurement.speedup]
    train = [r for r in rows if r.origin.split == "train"]
    if len(train) < 50:
        sys.exit(f"{len(train)} valid kernels of the training split are too few to learn from")
    y = np.array([math.log2(r.measurement.speedup or 1.0) for r in train])
    models: dict[str, Columns] = {
        "all features": all_features,
        "without the anchor's time": without_anchor,
        "roofline only": roofline,
        "tunables only": Tunables(train),
        "length of the text": text_length,
        "words of the text": Words(train),
    }
    results: dict[str, Any] = {}
    for split in ("validation", "test"):
        asked = [r for r in rows if r.origin.split == split]
        tasks = {r.task.name for r in asked}
        print(f"\n{split}: {len(asked)} valid kernels of {len(tasks)} tasks, learned from {len(train)}")
        print(f"{'':28s}{'Spearman':>22s}{'recovery, top 10 %':>22s}{'pairs':>22s}{'bin':>22s}")
        for name, make in models.items():
            scores = forecasts(make(train), y, make(asked)) if asked else np.zeros(0)
            results[f"{split}: {name}"] = _shown(name, judged(scores, asked))
        guess = np.random.default_rng(1).normal(size=len(asked))
        results[f"{split}: random order"] = _shown("random order", judged(guess, asked))
    if args.out:
        write(args.out, {"learned_from": len(train), "results": results})


def _shown(name: str, tasks: dict[str, dict[str, float]]) -> dict[str, Any]:
    figures = summary(tasks)
    print(f"{name:28s}" + "".join(f"{m:8.3f} [{lo:.3f}, {hi:.3f}]" for m, lo, hi in figures.values()))
    return {"tasks": tasks, "mean": figures}


if __name__ == "__main__":
    main()
