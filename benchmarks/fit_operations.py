"""Fit and judge the table by which a reference's time is forecast from its operations.

    python benchmarks/fit_operations.py pool --kernelbench PATH --out surrogate/operations.json \
        --results benchmarks/results/operations.json

References are traced to torch's operations without a GPU, in the confined worker. Their times on an H200 are those of
the pool (median over the task's measurements, by workload), and those of the KernelBench problems in
`results/modules_h200.json`, each measured against itself; PATH is a checkout's folder with `level1` to `level3`.

The table is fitted to the families of the training and validation splits and to KernelBench's problems, in octaves,
with priors that hold where nothing is measured. Judged are each of those families by a fit to all others (and
KernelBench's problems in six parts, for the spread that ships); KernelBench by a fit to the pool alone; and the test
families by the table as it ships. Beside it: the roofline floor, and the mean
time, each times what fits best on average. Intervals are over families, for KernelBench over problems.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from provenance import write
from scipy.optimize import least_squares

from forewarp.archive.pools.parquet import read_pool
from forewarp.core.errors import TaskError
from forewarp.core.roofline import floor_s
from forewarp.core.values import Z80, Signature, Target, Task
from forewarp.gpu_runner.devices import known_targets
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.gpu_runner.formats import task as tasks
from forewarp.surrogate import reference
from forewarp.surrogate.reference import OperationRates

Array = NDArray[np.float64]
FOREIGN = "KernelBench"
LAUNCH_S = (2e-6, 1.0)
CACHED = (0.4, 1.0)
MOVING = {
    "pointwise": (0.85, 0.5),
    "reduction": (0.6, 1.0),
    "product": (0.7, 1.0),
    "convolution": (0.5, 1.0),
    "indexed": (0.3, 1.0),
    "window": (0.3, 1.0),
    "scan": (0.3, 1.0),
    "crosswise": (0.4, 1.0),
    "attention": (0.5, 1.0),
    "sort": (0.03, 1.5),
    "other": (0.4, 1.0),
}
COMPUTING = {
    "product.16": (0.6, 1.0),
    "product.32": (0.7, 1.0),
    "product.8": (0.5, 1.0),
    "attention.16": (0.3, 1.0),
    "attention.32": (0.3, 1.0),
    "convolution.16": (0.3, 1.0),
    "convolution.32": (0.3, 1.0),
}
"""Before any measurement: shares of the peaks, and how many octaves off they may be."""
ALIKE = 4.0
"""References whose spread counts as much as the kind's own, which few have."""
ELSEWHERE_SD_LOG2 = 0.4
"""Assumed, not measured: no reference of the pool was timed on another card."""


@dataclass(frozen=True)
class Timed:
    """A reference with its measured seconds by workload."""

    task: str
    family: str
    split: str
    signatures: tuple[Signature, ...]
    seconds: Mapping[str, float]

    @property
    def mean_s(self) -> float:
        """The geometric mean over the workloads."""
        return statistics.geometric_mean(self.seconds[s.workload] for s in self.signatures)


def of_pool(path: Path, executor: LocalExecutor) -> list[Timed]:
    """Return the pool's references."""
    times: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    rows: dict[str, Any] = {}
    for row in read_pool(path):
        rows[row.task.sha256] = row
        for timing in row.measurement.workloads:
            times[row.task.sha256][timing.workload].append(timing.anchor_median_s)
    return [
        Timed(
            row.task.name,
            row.origin.family,
            row.origin.split,
            executor.describe(row.task),
            {name: statistics.median(found) for name, found in times[sha256].items()},
        )
        for sha256, row in rows.items()
    ]


def of_modules(kernelbench: Path, results: Path, executor: LocalExecutor) -> list[Timed]:
    """Return KernelBench's problems that were measured against themselves; what cannot be described is left out."""
    found: list[Timed] = []
    for row in json.loads(results.read_text())["rows"]["identical"]:
        task: Task = tasks.load(kernelbench / row["name"])
        try:
            (signature,) = executor.describe(task)
        except TaskError as e:
            print(f"left out: {row['name']}: {e.message[:80]}")
            continue
        found.append(Timed(row["name"], FOREIGN, FOREIGN, (signature,), {signature.workload: row["anchor_us"] * 1e-6}))
    return found


def rates_of(x: Array, card: str) -> OperationRates:
    """Return the table of some parameters."""
    values = [2.0**v for v in x]
    moving = dict(zip(MOVING, values[2 : 2 + len(MOVING)], strict=True))
    computing = dict(zip(COMPUTING, values[2 + len(MOVING) :], strict=True))
    return OperationRates(card, values[0], moving, computing, values[1])


def fit(found: Sequence[Timed], target: Target) -> OperationRates:
    """Fit the shares by least squares of octaves, far errors counting less, with the priors as further residuals."""
    priors = [LAUNCH_S, CACHED, *MOVING.values(), *COMPUTING.values()]
    start = np.log2([value for value, _ in priors])
    wide = np.array([sd for _, sd in priors])

    def residuals(x: Array) -> Array:
        rates = rates_of(x, target.name)
        off = [e / math.sqrt(len(t.signatures)) / 0.5 for t in found for e in errors(t, target, rates)]
        return np.array([*off, *((x - start) / wide)])

    return rates_of(least_squares(residuals, start, loss="soft_l1").x, target.name)


def errors(timed: Timed, target: Target, rates: OperationRates) -> list[float]:
    """Return octaves by which the forecast of each workload is too long."""
    return [
        math.log2(sum(reference.kinds(s, target, rates).values()) / timed.seconds[s.workload]) for s in timed.signatures
    ]


def error(timed: Timed, target: Target, rates: OperationRates) -> float:
    """Return octaves by which the forecast of a reference is too long."""
    return statistics.fmean(errors(timed, target, rates))


def main_kind(timed: Timed, target: Target, rates: OperationRates) -> str:
    """Return the kind of operation that is forecast to take longest."""
    found = reference.kinds(timed.signatures[0], target, rates)
    return max(found, key=found.__getitem__)


def left_out(found: Sequence[Timed], target: Target, key: Callable[[Timed], str]) -> dict[str, tuple[float, str]]:
    """Return each reference's error by a fit to the groups that it is not in, with its main kind."""
    out: dict[str, tuple[float, str]] = {}
    for group in sorted({key(t) for t in found}):
        rates = fit([t for t in found if key(t) != group], target)
        for t in (t for t in found if key(t) == group):
            out[t.task] = error(t, target, rates), main_kind(t, target, rates)
    return out


def spreads(off: Sequence[tuple[float, str]]) -> dict[str, float]:
    """Return the spread by kind, drawn towards that of all where few references are mainly of it."""

    def variance(errors: Sequence[float]) -> float:
        # That of a normal with as wide an 80 % interval: a few are far off.
        return (float(np.quantile(np.abs(errors), 0.8)) / Z80) ** 2 if errors else 0.0

    overall, found = variance([e for e, _ in off]), dict[str, float]()
    for kind in MOVING:
        own = [e for e, k in off if k == kind]
        found[kind] = math.sqrt((len(own) * variance(own) + ALIKE * overall) / (len(own) + ALIKE))
    # Of what no reference that is learned from consists, the prior is all that is known.
    return found | {kind: sd for kind, (_, sd) in MOVING.items() if not any(k == kind for _, k in off)}


def figures(off: Sequence[float], groups: Sequence[str]) -> dict[str, Any]:
    """Return mean and median absolute error, bias and spread in octaves, the first with an interval over groups."""
    by: dict[str, list[float]] = defaultdict(list)
    for e, group in zip(off, groups, strict=True):
        by[group].append(abs(e))
    rng, names = np.random.default_rng(0), sorted(by)
    draws = [
        statistics.fmean(e for i in rng.integers(len(names), size=len(names)) for e in by[names[i]])
        for _ in range(4000)
    ]
    low, high = np.quantile(draws, (0.025, 0.975))
    return {
        "references": len(off),
        "groups": len(names),
        "error": [statistics.fmean(map(abs, off)), float(low), float(high)],
        "median": statistics.median(map(abs, off)),
        "bias": statistics.fmean(off),
        "sd": math.sqrt(statistics.fmean(e * e for e in off)),
    }


def plain(learnt: Sequence[Timed], asked: Sequence[Timed], target: Target) -> dict[str, list[float]]:
    """Return the errors of two guesses that know no operations: a constant, and one times the roofline floor."""

    def floor(t: Timed) -> float:
        return statistics.geometric_mean(floor_s(s, target) for s in t.signatures)

    mean = statistics.fmean(math.log2(t.mean_s) for t in learnt)
    over = statistics.fmean(math.log2(t.mean_s / floor(t)) for t in learnt)
    return {
        "mean time": [mean - math.log2(t.mean_s) for t in asked],
        "floor": [over + math.log2(floor(t) / t.mean_s) for t in asked],
    }


def main() -> None:
    """Trace, fit, judge, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool", type=Path)
    parser.add_argument("--kernelbench", type=Path, required=True)
    parser.add_argument("--modules", type=Path, default=Path("benchmarks/results/modules_h200.json"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--results", type=Path)
    args = parser.parse_args()
    target = replace(known_targets()["h200"], name="NVIDIA H200")
    executor = LocalExecutor(target)
    try:
        pool = of_pool(args.pool, executor)
        foreign = of_modules(args.kernelbench, args.modules, executor)
    finally:
        executor.close()
    learnt, test = [t for t in pool if t.split != "test"], [t for t in pool if t.split == "test"]
    whole = [*learnt, *foreign]
    sixths = {t.task: f"{FOREIGN} {place % 6}" for place, t in enumerate(foreign)}
    inside = left_out(whole, target, lambda t: sixths.get(t.task, t.family))
    rates = fit(whole, target)
    alone = fit(learnt, target)
    rates = replace(
        rates,
        sd_log2={k: round(v, 3) for k, v in spreads(list(inside.values())).items()},
        elsewhere_sd_log2=ELSEWHERE_SD_LOG2,
        launch_s=float(f"{rates.launch_s:.4g}"),
        cached=round(rates.cached, 4),
        moving={k: round(v, 4) for k, v in rates.moving.items()},
        computing={k: round(v, 4) for k, v in rates.computing.items()},
        origin=f"{len(learnt)} references of the pool's training and validation families and {len(foreign)} of "
        "KernelBench, measured on an H200",
    )
    args.out.write_text(json.dumps(asdict(rates), indent=2) + "\n")
    sets = {
        "pool, each family left out": (learnt, [inside[t.task][0] for t in learnt], learnt),
        "KernelBench, fitted to the pool alone": (foreign, [error(t, target, alone) for t in foreign], learnt),
        "test families, as shipped": (test, [error(t, target, rates) for t in test], whole),
    }
    results: dict[str, Any] = {}
    for name, (asked, off, known) in sets.items():
        groups = [t.family if t.split != FOREIGN else t.task for t in asked]
        found = {"operations": off} | plain(known, asked, target)
        results[name] = {how: figures(each, groups) for how, each in found.items()}
        for how, each in results[name].items():
            print(f"{name:40s} {how:12s}", {k: np.round(v, 3).tolist() for k, v in each.items()})
        covered = [
            abs(e) <= Z80 * f.sd_log2
            for t, e in zip(asked, off, strict=True)
            if (f := reference.forecast(t.signatures, target, rates)) is not None
        ]
        results[name]["operations"]["covered"] = statistics.fmean(covered)
        print("within 80 %:", statistics.fmean(covered))
    rows = [
        {
            "task": t.task,
            "family": t.family,
            "split": t.split,
            "measured_us": round(t.mean_s * 1e6, 3),
            "octaves": round(e, 3),
            "mainly": main_kind(t, target, rates),
        }
        for asked, off, _ in sets.values()
        for t, e in zip(asked, off, strict=True)
    ]
    print(json.dumps(asdict(rates), indent=1))
    for row in sorted(rows, key=lambda r: -abs(float(str(r["octaves"]))))[:25]:
        print(row)
    if args.results:
        write(args.results, {"source": "H200", "figures": results, "references": rows})


if __name__ == "__main__":
    main()
