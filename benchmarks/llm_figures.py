"""What a language model, the learned forecaster and both together are worth, on the answers of `llm_forecasts.py`.

    python benchmarks/llm_figures.py pool --validation validation.parquet --fit
    python benchmarks/llm_figures.py pool --validation validation.parquet --test test.parquet --out llm_figures.json

All are asked about the same kernels and see the same measured trials. The weights of the pool are learned on the
validation families, and `--fit` writes them to where they ship; so is the correction of the language model, by
`fit_calibration.py`. The test families are only scored. Intervals are of a bootstrap over tasks; differences are
paired.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from llm_forecasts import drawn
from pool_weights import FittedWeights, PooledOutcome, fit_weights
from provenance import write

from forewarp.archive.forecasts import read_forecasts
from forewarp.archive.pools.parquet import read_pool
from forewarp.archive.rows import RecordedRow
from forewarp.core.values import Forecast
from forewarp.surrogate import calibration, pooling
from forewarp.surrogate.evaluation import backtest, scorecard
from forewarp.surrogate.evaluation.backtest import Answers, Group
from forewarp.surrogate.evaluation.resampling import Resampled, cluster_draws
from forewarp.surrogate.pooling import SHIPPED, Weights
from forewarp.tools.session import make_forecaster

DEFAULT = Weights({"learned": 0.5, "llm": 0.5}, valid={"learned": 0.5, "llm": 0.5})
SHOWN = (
    *("exact", "within_one", "pairwise", "spearman", "ece", "auroc_confidence", "crps", "nll", "coverage"),
    *("valid_auroc", "recovery_10", "recovery_mean_10", "recovery_20", "false_discard_15", "lost_wins_15"),
    *("share_for_all", "share_for_one"),
)
PAIRS = (
    ("llm evidence", "llm bare"),
    ("llm trials", "llm bare"),
    ("llm full", "llm bare"),
    ("llm full", "llm trials"),
    ("cascade", "llm full"),
    ("cascade", "learned, trials"),
    ("learned, trials", "learned"),
)
DIFFERENCES = ("exact", "pairwise", "spearman_mean", "crps", "nll", "ece", "recovery_mean_10")


def groups_of(rows: Iterable[RecordedRow], split: str, count: int, known: int) -> list[Group]:
    """Return what was asked of a split, as `llm_forecasts.py` draws it."""
    by_task: dict[str, list[RecordedRow]] = defaultdict(list)
    for row in rows:
        if row.origin.split == split:
            by_task[row.task.name].append(row)
    found = [drawn(by_task[name], count, known) for name in sorted(by_task)]
    return [backtest.group(shown, asked) for asked, shown in found]


def answers_of(groups: Sequence[Group], path: Path) -> dict[str, Answers]:
    """Return the recorded answers by condition, and those of the learned forecaster with and without trials."""
    cases = [c for g in groups for c in g.cases]
    recorded = backtest.recorded(read_forecasts(path), cases)
    found = {f"llm {a.name.rpartition(' ')[2]}": a for a in recorded}
    learned = make_forecaster("learned", None)
    if learned is None:
        raise ValueError("there is no learned forecaster")
    found["learned, trials"] = backtest.run(learned, groups)
    # The same cases, so that both are asked about the same incumbent.
    found["learned"] = backtest.run(learned, [replace(g, trials=()) for g in groups])
    order = [r.case.key for r in found["learned"].rows]
    return {name: replace(a, name=name, rows=_ordered(a, order)) for name, a in found.items()}


def _ordered(answers: Answers, order: Sequence[backtest.ForecastKey]) -> tuple[backtest.AnsweredCase, ...]:
    rows = {r.case.key: r for r in answers.rows}
    missing = [key for key in order if key not in rows]
    if missing:
        raise ValueError(f"{answers.name} has no answer about {len(missing)} kernels, such as {missing[0]}")
    return tuple(rows[key] for key in order)


def changed(answers: Answers, name: str, change: Callable[[Forecast], Forecast]) -> Answers:
    """Return answers under another name, each changed."""
    rows = tuple(replace(r, forecast=replace(change(r.forecast), forecaster=name)) for r in answers.rows)
    return replace(answers, name=name, rows=rows)


def together(learned: Answers, llm: Answers, weights: Weights) -> Answers:
    """Return both in one pool, as the cascade does for a candidate on which it asks both."""
    rows = tuple(
        replace(a, forecast=pooling.pool([("learned", a.forecast), ("llm", b.forecast)], weights, "cascade"))
        for a, b in zip(learned.rows, llm.rows, strict=True)
    )
    return Answers("cascade", rows, llm.milliseconds, llm.cost)


def fitted(found: dict[str, Answers], path: Path) -> FittedWeights:
    """Learn the weights of the pool from answers about validation families, with and without trials and facts."""
    corrected = calibration.shipped("llm").apply
    told = [
        PooledOutcome(
            a.case.task,
            {"learned": a.forecast, "llm": corrected(b.forecast)},
            a.case.speedup,
            a.case.speedup is not None,
        )
        for learned, llm in (("learned, trials", "llm full"), ("learned", "llm bare"))
        for a, b in zip(found[learned].rows, found[llm].rows, strict=True)
    ]
    origin = f"fitted by nll on {path.name}, answers about validation families with and without trials"
    return fit_weights(told, DEFAULT, origin=origin)


def table(found: dict[str, Answers]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Print and return every figure of each forecaster, and the paired differences."""
    first = next(iter(found.values()))
    draws = cluster_draws([b.task for b in scorecard.blocks(first)])
    scores = {name: scorecard.score(a, draws) for name, a in found.items()}
    figures: dict[str, Any] = {}
    for name, score in scores.items():
        figures[name] = {k: _estimate(r) for k, (_, r) in score.items()}
        print(f"{name:18s}" + " ".join(f"{k} {score[k][1].value:.3f}" for k in SHOWN))
    differences: dict[str, Any] = {}
    for one, other in PAIRS:
        if one in scores and other in scores:
            both = {k: _estimate(scores[one][k][1].minus(scores[other][k][1])) for k in DIFFERENCES}
            differences[f"{one} - {other}"] = both
            text = " ".join(f"{k} {v[0]:+.3f} [{v[1]:+.3f}, {v[2]:+.3f}]" for k, v in both.items())
            print(f"{one} - {other}: {text}")
    return figures, differences


def _estimate(found: Resampled) -> list[float]:
    e = found.estimate()
    return [e.value, e.low, e.high]


def main() -> None:
    """Fit on validation, score on test."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool", type=Path)
    parser.add_argument("--validation", type=Path, required=True)
    parser.add_argument("--validation-count", type=int, default=12)
    parser.add_argument("--test", type=Path)
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--known", type=int, default=6)
    parser.add_argument("--fit", action="store_true", help="write the weights that come with the package")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows = read_pool(args.pool)
    learnt = answers_of(groups_of(rows, "validation", args.validation_count, args.known), args.validation)
    corrected, pool = calibration.shipped("llm"), fitted(learnt, args.validation)
    print(json.dumps(asdict(pool), indent=1))
    if args.fit:
        pool.save(SHIPPED)
    result: dict[str, Any] = {
        "correction": asdict(corrected),
        "weights": asdict(pool.weights) | {"numbers": dict(pool.numbers)},
    }
    for split, path, count in (("validation", args.validation, args.validation_count), ("test", args.test, args.count)):
        if path is None:
            continue
        found = learnt if split == "validation" else answers_of(groups_of(rows, split, count, args.known), path)
        found["llm full, corrected"] = changed(found["llm full"], "llm full, corrected", corrected.apply)
        found["cascade"] = together(found["learned, trials"], found["llm full, corrected"], pool.weights)
        print(f"\n{split}: {len(found['cascade'].rows)} kernels")
        figures, differences = table(found)
        cost = {n: asdict(a.cost) for n, a in found.items() if n.startswith("llm")}
        result[split] = {"figures": figures, "differences": differences, "tokens": cost}
    if args.out:
        write(args.out, result)


if __name__ == "__main__":
    main()
