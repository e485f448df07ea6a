"""Fit the learned forecaster's prior to a pool of measured kernels. Needs LightGBM, which the forecaster does not.

What is fitted is log2 of a candidate's time over its roofline floor, so that no task's units enter. Three sums of trees
look at it differently: the time itself, its deviation from the task's mean, and the order within the task (LambdaRank).
How they are weighed, and how far off they are, is told from forecasts of families that were left out of the fit.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarp.archive.rows import RecordedRow
from forewarp.core import serde
from forewarp.core.protocols import Subject
from forewarp.core.trees import MISSING, Trees
from forewarp.inspection.features.vector import VECTOR_VERSION
from forewarp.inspection.features.vector import columns as vector_columns
from forewarp.surrogate import pretrained
from forewarp.surrogate.pretrained import FORMAT, PARTS, Model, Spread

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

SEEDS = 2
ROUNDS, RANK_ROUNDS, SPREAD_ROUNDS, VALID_ROUNDS = 300, 200, 60, 80
SETTINGS: Mapping[str, Any] = {
    "learning_rate": 0.05,
    "num_leaves": 15,
    "min_data_in_leaf": 20,
    "lambda_l2": 5.0,
    "feature_fraction": 0.3,
    "bagging_fraction": 0.7,
    "bagging_freq": 1,
    "extra_trees": True,
    "use_missing": False,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "verbose": -1,
}
_GRADES = 30
_GRADES_AN_OCTAVE = 4
_NEAR = 0.05
_MIXTURE = (0.6, 0.3, -0.2)
"""Shares of the three looks: the order's scores are high for fast kernels, and in units of their own."""
_FREEDOM = (3.0, 30.0)


@dataclass(frozen=True, slots=True)
class Data:
    """Kernels as columns: `x` by `columns`, log2 of time over the floor, log2 S, whether valid, and who they are.

    `time` and `speedup` are NaN where a kernel is not valid; `anchor` is log2 of the anchor's time over the floor.
    """

    columns: tuple[str, ...]
    x: Array
    time: Array
    speedup: Array
    valid: Mask
    task: NDArray[np.str_]
    family: NDArray[np.str_]
    program: NDArray[np.str_]
    rows: tuple[RecordedRow, ...]
    digest: str
    latest: str

    def where(self, mask: Mask) -> Data:
        """Return some of the kernels."""
        picked = {n: getattr(self, n)[mask] for n in ("x", "time", "speedup", "valid", "task", "family", "program")}
        rows = tuple(r for r, kept in zip(self.rows, mask, strict=True) if kept)
        return replace(self, rows=rows, **picked)


def seconds(row: RecordedRow, *, anchor: bool = False) -> float:
    """Return the geometric mean over the shapes of a measured time, NaN where there is none."""
    times = [w.anchor_median_s if anchor else w.candidate_median_s for w in row.measurement.workloads]
    return math.exp(sum(map(math.log, times)) / len(times)) if times and min(times) > 0 else math.nan


def data(rows: Sequence[RecordedRow]) -> Data:
    """Return the kernels of a pool that the trees cover."""
    kept = [r for r in rows if pretrained.covered(r.target, Subject(r.candidate, r.build))]
    names = tuple(name for name in vector_columns() if name != "anchor")
    x = np.concatenate(
        [pretrained.table(names, r.target, [Subject(r.candidate, r.build)]) for r in kept]
        or [np.zeros((0, len(names)))]
    )
    valid = np.array([r.measurement.believed is not None for r in kept], dtype=bool)
    time = [
        math.log2(seconds(r) / r.build.evidence.facts["floor_s"]) if r.measurement.believed else math.nan for r in kept
    ]
    said = [math.log2(r.measurement.speedup or 1.0) if r.measurement.believed else math.nan for r in kept]
    digest = hashlib.sha256()
    for row, t in zip(kept, time, strict=True):
        digest.update(f"{row.task.sha256} {row.candidate.sha256} {t:.9g}\n".encode())
    return Data(
        names,
        x,
        np.array(time),
        np.array(said),
        valid,
        np.array([r.task.name for r in kept]),
        np.array([r.origin.family for r in kept]),
        np.array([f"{r.task.name}/{r.origin.source_id}" for r in kept]),
        tuple(kept),
        digest.hexdigest(),
        max((r.finished for r in kept), default=""),
    )


def centred(values: Array, groups: NDArray[np.str_]) -> Array:
    """Return values less the mean of their group."""
    found = np.asarray(values, float).copy()
    for group in np.unique(groups):
        found[groups == group] -= found[groups == group].mean()
    return found


def grow(
    x: Array,
    y: Array,
    settings: Mapping[str, Any],
    rounds: int,
    groups: list[int] | None = None,
    *,
    weight: Array | None = None,
    seeds: int = SEEDS,
) -> Trees:
    """Fit trees with several seeds and return their mean as one sum; `settings` go over `SETTINGS`."""
    import lightgbm

    nested: list[Mapping[str, Any]] = []
    filled = np.where(np.isfinite(x), x, MISSING)
    for seed in range(seeds):
        table = lightgbm.Dataset(filled, y, group=groups, weight=weight)
        booster = lightgbm.train({**SETTINGS, "seed": seed, **settings}, table, rounds)
        dumped: Mapping[str, Any] = booster.dump_model()
        nested += [t["tree_structure"] for t in dumped["tree_info"]]
    return trees_of(nested, 1.0 / seeds)


def times(found: Data) -> tuple[Trees, ...]:
    """Fit the three looks at the time of valid kernels."""
    d = found.where(found.valid)
    order = np.argsort(d.task, kind="stable")
    counts = [int((d.task == t).sum()) for t in np.unique(d.task)]
    deviation = centred(d.time, d.task)
    grades = np.clip(np.round((deviation.max() - deviation) * _GRADES_AN_OCTAVE), 0, _GRADES)  # the fastest highest
    ranking = {
        "objective": "lambdarank",
        "label_gain": list(range(_GRADES + 1)),
        "lambdarank_truncation_level": 60,
    }
    return (
        grow(d.x, d.time, {"objective": "regression"}, ROUNDS),
        grow(d.x, deviation, {"objective": "regression"}, ROUNDS),
        grow(d.x[order], grades[order], ranking, RANK_ROUNDS, counts),
    )


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Forecasts of each kernel by trees that had not seen its family: three looks at its time, and the log odds.

    `trees` holds those trees by the family that they have not seen.
    """

    looks: Array
    odds: Array
    trees: Mapping[str, tuple[tuple[Trees, ...], Trees]]


def left_out(found: Data, note: Callable[[str], None] = lambda _: None) -> LeftOut:
    """Forecast every family from the others."""
    looks, odds = np.full((len(found.x), 3), np.nan), np.full(len(found.x), np.nan)
    trees: dict[str, tuple[tuple[Trees, ...], Trees]] = {}
    for family in map(str, np.unique(found.family)):
        out = found.family == family
        others = found.where(~out)
        note(f"fitting without {family}")
        trees[family] = times(others), validity(others)
        looks[out] = np.column_stack([t.predict(found.x[out]) for t in trees[family][0]])
        odds[out] = trees[family][1].predict(found.x[out])
    return LeftOut(looks, odds, trees)


def without(found: Data, out: LeftOut, family: str, info: Mapping[str, Any]) -> Model:
    """Return the model that has not seen a family: its trees, and scale and spreads from the other families' errors."""
    kept = found.family != family
    looks, odds = out.trees[family]
    return finish(found.where(kept), LeftOut(out.looks[kept], out.odds[kept], {}), looks, odds, info)


def validity(found: Data) -> Trees:
    """Fit the log odds of a kernel's validity."""
    return grow(found.x, found.valid.astype(float), {"objective": "binary", "num_leaves": 7}, VALID_ROUNDS)


def finish(found: Data, out: LeftOut, looks: tuple[Trees, ...], odds: Trees, info: Mapping[str, Any]) -> Model:
    """Scale the looks and learn the spreads from forecasts of families left out, and put the model together."""
    v = found.valid
    d = found.where(v)
    inside = centred(out.looks[v] @ np.array(_MIXTURE), d.task)
    weights = np.array(_MIXTURE) * float(inside @ centred(d.time, d.task) / (inside @ inside))
    said = out.looks[v] @ weights
    bias = float(np.mean([(d.time - said)[d.task == t].mean() for t in np.unique(d.task)]))
    residual = centred(d.time - said, d.task)
    spreads = _spreads(d, residual)
    anchors = np.array([(d.time + d.speedup)[d.task == t].mean() for t in np.unique(d.task)])
    return Model(
        columns=found.columns,
        times=looks,
        weights=tuple(_rounded(w) for w in weights),
        bias=_rounded(bias),
        anchor=_rounded(anchors.mean()),
        spreads=spreads,
        validity=odds,
        logistic=_logistic(out.odds, found.valid),
        spread=_variances(d, d.time - said - bias, float(anchors.mean())),
        info=info,
    )


def _spreads(d: Data, residual: Array) -> Trees:
    """Fit log of the size of the errors, in units of their root mean square."""
    size = np.log(np.abs(residual) + _NEAR)
    trees = grow(
        d.x, size - size.mean(), {"objective": "regression", "num_leaves": 7, "lambda_l2": 50.0}, SPREAD_ROUNDS
    )
    told = np.exp(trees.predict(d.x))
    # The constant that makes mean (error / spread)² equal to mean error² goes into the first tree's leaves.
    factor = math.log(float(np.sqrt(np.mean((residual / told) ** 2) / np.mean(residual**2))))
    return _shifted(trees, factor)


def _shifted(trees: Trees, by: float) -> Trees:
    last = trees.root[1] if len(trees.root) > 1 else len(trees.value)
    value = trees.value.copy()
    leaves = trees.left[:last] == np.arange(last)
    value[:last][leaves] += np.float32(by / trees.scale)
    return replace(trees, value=value)


def _variances(d: Data, residual: Array, anchor: float) -> Spread:
    """Split the residual's variance into that of tasks, of programs in a task, and of choices in a program."""
    tasks = np.array([residual[d.task == t].mean() for t in np.unique(d.task)])
    blind = [((d.time + d.speedup - anchor) - residual)[d.task == t].mean() for t in np.unique(d.task)]
    inside = centred(residual, d.task)
    choice = centred(inside, d.program)
    programs = len(np.unique(d.program))
    within = float((choice**2).sum() / max(1, len(choice) - programs))
    between = max(0.05, float(np.mean((inside - choice) ** 2)) - within * programs / len(choice))
    z = inside / inside.std()
    excess = float(np.mean(z**4)) - 3.0
    freedom = min(max(4.0 + 6.0 / excess, _FREEDOM[0]), _FREEDOM[1]) if excess > 0 else _FREEDOM[1]
    return Spread(*map(_rounded, (np.mean(tasks**2), np.mean(np.square(blind)), between, within, freedom)))


def _logistic(odds: Array, valid: Mask) -> tuple[float, float]:
    """Return slope and shift that calibrate log odds (Platt 1999), by Newton's method with a little shrinkage."""
    w, target = np.array([1.0, 0.0]), valid.astype(float)
    x = np.column_stack([odds, np.ones(len(odds))])
    pull = np.diag([2.0, 0.0])
    for _ in range(50):
        p = 1.0 / (1.0 + np.exp(-(x @ w)))
        gradient = x.T @ (p - target) + pull @ (w - np.array([1.0, 0.0]))
        w = w - np.linalg.solve((x * (p * (1 - p))[:, None]).T @ x + pull + 1e-9 * np.eye(2), gradient)
    return _rounded(w[0]), _rounded(w[1])


def _rounded(value: Any) -> float:
    """Return a number as it is written: digits that differ from one machine to the next would make another file."""
    return float(f"{value:.9g}")


def fit(found: Data, out: LeftOut, info: Mapping[str, Any]) -> Model:
    """Fit to all families; weights and spreads come from leaving each family out in turn."""
    return finish(found, out, times(found), validity(found), info)


def trees_of(trees: Sequence[Mapping[str, Any]], scale: float = 1.0) -> Trees:
    """Flatten trees as LightGBM dumps them (`tree_structure`), whose splits are all `<=`."""
    nodes: list[tuple[int, float, int, int, float]] = []

    def add(node: Mapping[str, Any]) -> int:
        place = len(nodes)
        if "split_feature" not in node:
            nodes.append((0, 0.0, place, place, float(node["leaf_value"])))
            return place
        if node["decision_type"] != "<=":
            raise ValueError(f"a split by {node['decision_type']!r} is not known here")
        nodes.append((0, 0.0, 0, 0, 0.0))
        left, right = add(node["left_child"]), add(node["right_child"])
        nodes[place] = (int(node["split_feature"]), float(node["threshold"]), left, right, 0.0)
        return place

    roots = [add(t) for t in trees]
    feature, threshold, left, right, value = zip(*nodes, strict=True)
    return Trees(
        np.array(feature, np.int16),
        np.array(threshold, np.float64),
        np.array(left, np.int32),
        np.array(right, np.int32),
        np.array(value, np.float32),
        np.array(roots, np.int32),
        scale,
    )


def save(model: Model, path: Path) -> None:
    """Write a model; the same model gives the same bytes."""
    facts = {
        "format": FORMAT,
        "vector_version": VECTOR_VERSION,
        "columns": list(model.columns),
        "weights": list(model.weights),
        "bias": model.bias,
        "anchor": model.anchor,
        "logistic": list(model.logistic),
        "spread": serde.to_data(model.spread),
        "info": dict(model.info),
    }
    arrays: dict[str, Any] = {"said": np.frombuffer(json.dumps(facts, sort_keys=True).encode(), np.uint8)}
    for name, trees in zip(PARTS, (*model.times, model.spreads, model.validity), strict=True):
        arrays |= trees.arrays(name)
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)
