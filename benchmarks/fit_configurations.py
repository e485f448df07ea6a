"""Fit the trees that correct `tuning/physics.py` to recorded configuration spaces, and judge them on kernels left out.

    python benchmarks/fit_configurations.py --out benchmarks/results/tune.json

Reads `pool/configurations.parquet` (`record_configurations.py`). Kernels are left out in `FOLDS` groups, each with all
of its calls, on all cards; how much of the trees' correction counts for them is chosen by the kernels of other groups.
`--write` writes trees that are fitted to all of them, but `UNSEEN`, into `tuning/learned.npz`.

Figures, each a geometric mean or a median over spaces: `share.0`, the best time over that of the configuration forecast
fastest; `share.8`, over the best of the first eight; `needed`, how many of them until one is within 5 % of the best.
Configurations that do not compile or do not fit are passed over, as tuning passes over them. `two_stages` forecasts
without compiling, and again the best `COMPILED` of them with the compiler's facts. `…_fed_back` measures `FIRST`, and
goes on by forecasts that these have corrected (`tuning/feedback.py`); `gain` says what that adds to `share.8`. Most
rates of physics were chosen on every second kernel by name, and `not_chosen_on` is of the others alone; two were chosen
on all of the older ones. `unseen` judges these trees on the kernels that were recorded last. Beside them stand physics
alone (a roofline with waves), random order (its expectation) and the author's order; and searches and rules of others
(`configuration_baselines.py`), whose figures are left as they are.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from learned_prior import grow
from provenance import write
from record_configurations import HOME

from forewarp.core.trees import Array, Trees
from forewarp.core.values import Target
from forewarp.gpu_runner.devices import known_targets
from forewarp.tuning import feedback, forecasts, physics
from forewarp.tuning.physics import CompilerFacts, LaunchTotals, Times
from forewarp.tuning.space import Configuration, Space, TensorArgument

POOL = HOME.with_suffix(".parquet")
SEEDS, ROUNDS = 3, 150
SETTINGS: Mapping[str, Any] = {
    "objective": "regression",
    "min_data_in_leaf": 60,
    "feature_fraction": 0.5,
    "extra_trees": False,
    "use_missing": True,
    "force_row_wise": False,
}
"""Settings other than those of `learned_prior.SETTINGS`."""
NEAR, FLOOR = 0.5, 0.1
"""A configuration that comes in `NEAR` octaves behind the best weighs 1/e, and none less than `FLOOR`."""
SHARES = (0.25, 0.5, 0.75, 1.0)
"""Shares of the trees' correction that are tried on kernels left out."""
COMPILED, FOLDS = 24, 9
UNSEEN = ("attention_varlen", "attention_decode_fp8", "gemm_grad_weight", "chunk_hidden", "rmsnorm_gated")
"""Kernels that were recorded after all rules and rates had been chosen."""
FIRST = 4
OTHERS = ("searches", "published", "unseen", "unseen_before")
"""Keys that others write: `configuration_baselines.py`, `--unseen`, and of versions before."""
RESAMPLED = 10_000
WORST = 4.0
"""Octaves behind the best beyond which nothing is told apart."""


@dataclass(frozen=True)
class Measured:
    """A measured space: microseconds, infinite where a configuration does not run."""

    card: str
    kernel: str
    call: str
    space: Space
    target: Target
    us: np.ndarray[Any, Any]
    counted: LaunchTotals
    facts: CompilerFacts

    @property
    def behind(self) -> np.ndarray[Any, Any]:
        """Octaves behind the best."""
        right = np.isfinite(self.us)
        return np.minimum(np.log2(np.where(right, self.us, 1e9) / self.us[right].min()), WORST)

    def times(self, compiled: bool) -> Times:
        """Return what physics makes of it."""
        return physics.times(self.counted, self.target, self.facts if compiled else None)


def main() -> None:
    """Fit and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--write", action="store_true", help="write the fitted trees into the package")
    parser.add_argument("--unseen", action="store_true", help="judge the kernels that were recorded last alone")
    chosen = parser.parse_args()
    spaces = read(POOL)
    known, new = ([s for s in spaces if (s.kernel in UNSEEN) == last] for last in (False, True))
    shares = json.loads(chosen.out.read_text())["share_of_trees"] if chosen.unseen else judge(known, chosen.out)
    trees = {name: scaled(fitted(known, compiled), shares[name]) for compiled, name in forecasts.SETS.items()}
    found = json.loads(chosen.out.read_text()) | ({"unseen": unseen(new, *trees.values())} if new else {})
    write(chosen.out, found | headline(found))
    if chosen.write:
        write_learned(trees, len(known))


def headline(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of what `forewarp tune` does: two stages, the last four of eight by corrected forecasts."""
    two, fed, gemm = found["two_stages"], found["two_stages_fed_back"], found["gemm"]["two_stages_fed_back"]
    return {
        "share": {"0": two["share"]["0"], "8": fed["share"]["8"]},
        "needed": fed["needed"],
        "needed_gemm": gemm["needed"],
        "share_h100": found["h100_trained_without"]["two_stages"]["share"],
    }


def read(path: Path) -> list[Measured]:
    """Return the measured spaces of a file."""
    import pyarrow.parquet as pq

    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in pq.read_table(path).to_pylist():
        groups.setdefault((row["device"], row["kernel"], row["call"]), []).append(row)
    targets, found = known_targets(), list[Measured]()
    for (device, kernel, call), rows in groups.items():
        space = space_from_row(rows)
        us = np.array([row["us"] if row["us"] is not None else np.inf for row in rows])
        if not np.isfinite(us).any():
            continue
        refused = [row["problem"].startswith("OutOfResources") for row in rows]
        facts = CompilerFacts(
            [float(row["registers"] or 255) for row in rows],
            [float(row["spills"]) for row in rows],
            [math.inf if no else float(row["shared"]) for row, no in zip(rows, refused, strict=True)],
        )
        card = next(name for name in targets if name.upper() in device.upper())
        found.append(Measured(card, kernel, call, space, targets[card], us, physics.amounts(space), facts))
    return found


def space_from_row(rows: Sequence[dict[str, Any]]) -> Space:
    """Return the space of the rows of one call, the kernel's text from its file."""
    text = (HOME / f"{rows[0]['kernel']}.py").read_text()
    functions = {
        node: [ast.unparse(decorator) for decorator in node.decorator_list]
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
    }
    texts = {
        node.name: "\n".join(text.splitlines()[node.lineno - 1 : node.end_lineno])
        for node, decorators in functions.items()
        if any("jit" in d for d in decorators)
    }
    name = next(node.name for node, decorators in functions.items() if any("autotune" in d for d in decorators))
    arguments = {
        name: TensorArgument(value["dtype"], tuple(value["shape"])) if isinstance(value, dict) else value
        for name, value in json.loads(rows[0]["arguments"]).items()
    }
    configurations = [
        Configuration(json.loads(r["values"]), r["warps"], r["stages"], registers=r["registers_cap"]) for r in rows
    ]
    grids = [tuple(json.loads(r["grid"])) for r in rows]
    return Space(name, texts.pop(name), arguments, configurations, grids, texts)


def fitted(spaces: Sequence[Measured], compiled: bool) -> Trees:
    """Return trees fitted to how much later configurations came in than physics says, the fast ones above all."""
    rows, errors, weights = list[Array](), list[Array](), list[Array]()
    for s in spaces:
        ran, times = np.isfinite(s.us), s.times(compiled)
        weight = FLOOR + np.exp(-s.behind[ran] / NEAR)
        rows.append(forecasts.columns(s.counted, times, s.target)[ran])
        errors.append((s.behind - forecasts.behind(times))[ran])
        weights.append(weight / weight.sum())
    x, y, shares = map(np.concatenate, (rows, errors, weights))
    return grow(x, y, SETTINGS, ROUNDS, weight=shares * len(y), seeds=SEEDS)


def write_learned(trees: Mapping[str, Trees], spaces: int) -> None:
    """Write trees that were fitted to so many spaces into the package; the same spaces give the same bytes."""
    digest = hashlib.sha256(POOL.read_bytes()).hexdigest()
    said = {"version": time.strftime("%Y.%m.%d"), "spaces": spaces, "data_sha256": digest}
    arrays: dict[str, Any] = {"said": np.frombuffer(json.dumps(said).encode(), np.uint8)}
    for name, own in trees.items():
        arrays |= own.arrays(name)
    with forecasts.LEARNED.open("wb") as file:
        np.savez_compressed(file, **arrays)


def judge(spaces: Sequence[Measured], out: Path) -> dict[str, float]:
    """Write how well each kernel's configurations are ordered by trees that were fitted without it.

    Returns the share of the trees' correction that is best for all kernels, without and with the compiler's facts.
    """
    orders: dict[str, list[list[int]]] = {}
    trained, shares = tempered(spaces, left_out(spaces))
    h200 = [s for s in spaces if s.card == "h200"]
    without, _ = tempered(h200, left_out(h200, [s.kernel for s in spaces]))
    elsewhere: dict[str, list[list[int]]] = {"uncompiled": [], "compiled": [], "two_stages": []}
    rows: list[dict[str, Any]] = []
    for s in spaces:
        for name, order in every_order(s, trained[s.kernel, False], trained[s.kernel, True]).items():
            orders.setdefault(name, []).append(order)
        if s.card == "h100":
            for name, order in zip(
                elsewhere, ordered(s, without[s.kernel, False], without[s.kernel, True]), strict=True
            ):
                elsewhere[name].append(order)
        rows.append(
            {"card": s.card, "kernel": s.kernel, "call": json.loads(s.call), "configurations": len(s.us)}
            | {name: figures([s], [found[-1]]) for name, found in orders.items()}
            | {"random": at_random(s)}
        )
    named = {forecasts.SETS[compiled]: share for compiled, share in shares.items()}
    h100 = [s for s in spaces if s.card == "h100"]
    not_chosen_on = sorted({s.kernel for s in spaces})[1::2]
    result: dict[str, Any] = {
        "spaces": len(spaces),
        "kernels": len({s.kernel for s in spaces}),
        "configurations": sum(len(s.us) for s in spaces),
        **{name: figures(spaces, found) for name, found in orders.items()},
        "random": averaged([at_random(s) for s in spaces]),
        "gain": {n: gain(spaces, orders[n], orders[f"{n}_fed_back"]) for n in ("uncompiled", "two_stages")},
        "h100_trained_without": {name: figures(h100, found) for name, found in elsewhere.items()},
        "not_chosen_on": {
            name: figures(*chosen(spaces, found, lambda s: s.kernel in not_chosen_on)) for name, found in orders.items()
        },
        "gemm": {
            name: figures(*chosen(spaces, found, lambda s: s.kernel.startswith("gemm_bf16")))
            for name, found in orders.items()
        },
        "share_of_trees": named,
        "rank_1000_s": rank_seconds(spaces),
        "rows": rows,
    }
    before = json.loads(out.read_text()) if out.exists() else {}
    write(out, result | {name: before[name] for name in OTHERS if name in before})
    return named


def every_order(s: Measured, cold: Trees, warm: Trees) -> dict[str, list[int]]:
    """Return the orders of a space's configurations by name, the searches and rules of others left out."""
    names = ("uncompiled", "compiled", "two_stages")
    fed = zip(("uncompiled_fed_back", "two_stages_fed_back"), fed_back(s, cold, warm), strict=True)
    plain = {"physics": physics.fastest_first(s.times(False).seconds), "listed": list(range(len(s.us)))}
    return dict(zip(names, ordered(s, cold, warm), strict=True)) | plain | dict(fed)


def unseen(new: Sequence[Measured], cold: Trees, warm: Trees) -> dict[str, Any]:
    """Return the figures of kernels that were fitted to nothing."""
    orders: dict[str, list[list[int]]] = {}
    for s in new:
        for name, order in every_order(s, cold, warm).items():
            orders.setdefault(name, []).append(order)
    attention = {n: figures(*chosen(new, o, lambda s: s.kernel.startswith("attention"))) for n, o in orders.items()}
    return {
        "kernels": len({s.kernel for s in new}),
        "spaces": len(new),
        "configurations": sum(len(s.us) for s in new),
        **{name: figures(new, found) for name, found in orders.items()},
        "random": averaged([at_random(s) for s in new]),
        "attention": attention,
        "rows": [
            {"kernel": s.kernel, "call": json.loads(s.call), "configurations": len(s.us), "random": at_random(s)}
            | {name: figures([s], [found[place]]) for name, found in orders.items()}
            for place, s in enumerate(new)
        ],
    }


def tempered(
    spaces: Sequence[Measured], trained: Mapping[tuple[str, bool], Trees]
) -> tuple[dict[tuple[str, bool], Trees], dict[bool, float]]:
    """Return trees of which so large a share counts as orders the kernels of other folds best, and the share for all.

    How well is the mean of the logarithms of `share.0` and `share.8`, of kernels that trees were fitted without.
    """
    names = sorted({kernel for kernel, _ in trained})
    fold = {name: place % FOLDS for place, name in enumerate(names)}
    found: dict[tuple[str, bool], Trees] = {}
    best: dict[bool, float] = {}
    for compiled in (False, True):
        scores: dict[str, list[Array]] = {}
        for s in spaces:
            times, trees = s.times(compiled), trained[s.kernel, compiled]
            orders = [physics.fastest_first(corrected(s, times, trees, share)) for share in SHARES]
            each = [figures([s], [order])["share"] for order in orders]
            scores.setdefault(s.kernel, []).append(np.log([f["0"] * f["8"] for f in each]))
        best[compiled] = best_share(scores, names)
        for name in names:
            own = best_share(scores, [other for other in names if fold[other] != fold[name]])
            found[name, compiled] = scaled(trained[name, compiled], own)
    return found, best


def best_share(scores: Mapping[str, Sequence[Array]], among: Sequence[str]) -> float:
    """Return the share that orders some kernels best; of each kernel, `scores` hold one for each share and space."""
    return SHARES[int(np.argmax(sum(sum(scores[name]) for name in among if name in scores)))]


def scaled(trees: Trees, share: float) -> Trees:
    """Return trees of which a share counts."""
    return replace(trees, scale=trees.scale * share)


def corrected(s: Measured, times: Times, trees: Trees, share: float) -> Array:
    """Return the seconds of a space's configurations with a share of the trees' correction."""
    return forecasts.corrected(s.counted, times, s.target, scaled(trees, share)).seconds


def left_out(spaces: Sequence[Measured], kernels: Sequence[str] = ()) -> dict[tuple[str, bool], Trees]:
    """Return, for each kernel, trees without and with the compiler's facts that are fitted to spaces of other folds."""
    names = sorted({s.kernel for s in spaces} | set(kernels))
    found: dict[tuple[str, bool], Trees] = {}
    for fold in range(FOLDS):
        out = names[fold::FOLDS]
        for compiled in (False, True):
            trees = fitted([s for s in spaces if s.kernel not in out], compiled)
            found |= dict.fromkeys(((name, compiled) for name in out), trees)
        print(f"fold {fold + 1} of {FOLDS}: without {', '.join(out)}", flush=True)
    return found


def ordered(s: Measured, cold: Trees, warm: Trees) -> tuple[list[int], list[int], list[int]]:
    """Return the orders without compiling, with all compiled, and with the best of the first compiled."""
    first = physics.fastest_first(forecasts.corrected(s.counted, s.times(False), s.target, cold).seconds)
    second = physics.fastest_first(forecasts.corrected(s.counted, s.times(True), s.target, warm).seconds)
    head = set(first[:COMPILED])
    return first, second, [i for i in second if i in head] + [i for i in first if i not in head]


def fed_back(s: Measured, cold: Trees, warm: Trees) -> tuple[list[int], list[int]]:
    """Return the orders without compiling and in two stages, from the fifth on by corrected forecasts."""
    first, _, both = ordered(s, cold, warm)
    uncompiled = np.log2(forecasts.corrected(s.counted, s.times(False), s.target, cold).seconds)
    compiled = np.log2(forecasts.corrected(s.counted, s.times(True), s.target, warm).seconds)
    known = feedback.with_compiled(uncompiled, {i: compiled[i] for i in both[:COMPILED] if np.isfinite(s.us[i])})

    def again(order: list[int], octaves: Array) -> list[int]:
        head = [i for i in order if np.isfinite(s.us[i])][:FIRST]
        measured = {i: math.log2(s.us[i] / 1e6) for i in head}
        return head + feedback.following(order, octaves, s.space.configurations, measured)

    return again(first, uncompiled), again(both, known)


def gain(spaces: Sequence[Measured], before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return the ratio of `share.8` of two orders, with a 95 % interval from kernels drawn with all their calls."""
    by_kernel: dict[str, list[float]] = {}
    for s, *orders in zip(spaces, before, after, strict=True):
        old, new = (figures([s], [order])["share"]["8"] for order in orders)
        by_kernel.setdefault(s.kernel, []).append(math.log(new / old))
    sums, counts = np.array([(sum(v), len(v)) for v in by_kernel.values()]).T
    drawn = np.random.default_rng(0).integers(len(sums), size=(RESAMPLED, len(sums)))
    low, high = np.exp(np.quantile(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1), (0.025, 0.975)))
    return {"ratio": math.exp(sums.sum() / counts.sum()), "low": float(low), "high": float(high)}


def figures(spaces: Sequence[Measured], orders: Sequence[Sequence[int]]) -> dict[str, Any]:
    """Return `share.0`, `share.8` and `needed` of orders."""
    first, eighth, needed = list[float](), list[float](), list[int]()
    for s, order in zip(spaces, orders, strict=True):
        running = [float(s.us[i]) for i in order if np.isfinite(s.us[i])]
        best = min(running)
        first.append(best / running[0])
        eighth.append(best / min(running[:8]))
        needed.append(next(n for n, us in enumerate(running, 1) if us <= 1.05 * best))
    return {
        "share": {"0": geometric(first), "8": geometric(eighth)},
        "needed": statistics.median(needed),
        "needed_mean": statistics.fmean(needed),
    }


def at_random(s: Measured) -> dict[str, Any]:
    """Return the same figures for random order, as expectations."""
    us = np.sort(s.us[np.isfinite(s.us)])
    n, near = len(us), int((us <= 1.05 * us[0]).sum())
    logs = np.log(us[0] / us)
    chances = np.array([math.comb(n - 1 - i, 7) / math.comb(n, 8) if n - 1 - i >= 7 else 0.0 for i in range(n)])
    return {
        "share": {"0": math.exp(float(logs.mean())), "8": math.exp(float((logs * chances).sum()))},
        "needed": (n + 1) / (near + 1),
    }


def averaged(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures over spaces of those of each."""
    return {
        "share": {k: geometric([f["share"][k] for f in found]) for k in ("0", "8")},
        "needed": statistics.median(f["needed"] for f in found),
    }


def chosen(
    spaces: Sequence[Measured], orders: Sequence[Sequence[int]], keep: Callable[[Measured], bool]
) -> tuple[list[Measured], list[Sequence[int]]]:
    """Return the spaces that are kept, with their orders."""
    kept = [(s, o) for s, o in zip(spaces, orders, strict=True) if keep(s)]
    return [s for s, _ in kept], [o for _, o in kept]


def rank_seconds(spaces: Sequence[Measured]) -> float:
    """Return the median processor seconds that forecasting takes for 1,000 configurations, nothing counted before."""
    taken: list[float] = []
    for s in spaces[::4]:
        repeat = -(-1000 // len(s.space.configurations))
        many = Space(
            s.space.kernel,
            s.space.source,
            s.space.arguments,
            (list(s.space.configurations) * repeat)[:1000],
            (list(s.space.grids) * repeat)[:1000],
            s.space.helpers,
            s.space.constants,
        )
        start = time.process_time()
        forecasts.forecast(many, s.target)
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def geometric(values: Sequence[float]) -> float:
    """Return the geometric mean."""
    return math.exp(statistics.fmean(math.log(v) for v in values))


if __name__ == "__main__":
    main()
