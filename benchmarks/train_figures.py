"""What training with each reward made of a small model, on the recorded answers of `train_surrogate.py`.

    python benchmarks/train_figures.py pool results/train --out train_figures.json --document docs/forecasting.md

A run is one arm with one seed from one base model, and is compared with what that base answered to the same questions.
Figures are means over an arm's runs, on the valid candidates of the test families; an answer that cannot be read counts
as uniform. Intervals are of 1,000 draws in which families and runs are both drawn with replacement, the same ones for
an arm and its base.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from marked import filled
from numpy.typing import NDArray
from provenance import write

from forewarp.archive.forecasts import read_forecasts
from forewarp.archive.pools.parquet import read_pool
from forewarp.core.values import Forecast
from forewarp.surrogate.evaluation import backtest, metrics, scorecard
from forewarp.surrogate.evaluation.backtest import Case
from forewarp.surrogate.evaluation.resampling import RESAMPLES, percentile_interval
from forewarp.surrogate.evaluation.scorecard import TaskBlock
from forewarp.training import rows

BASE = "base"
FIRST = "first_rate.json"
"""Of an earlier call, which ended before its arms were asked: its base counts for the mean of eight answers alone."""

NAMES = {
    BASE: "before",
    "base-mean-of-8": "before, mean of 8 answers",
    "correctness": "correctness",
    "brier": "brier",
    "crps": "crps",
    "decision": "decision",
    "brier-slow": "brier, a third of the rate",
    "brier-group": "brier, scaled by the group's spread",
}
FIGURES = {
    "exact": ("exact bin", "{:.1%}"),
    "ece": ("ECE", "{:.3f}"),
    "brier": ("Brier", "{:.3f}"),
    "crps": ("CRPS", "{:.3f}"),
    "auroc_confidence": ("AUROC of confidence", "{:.3f}"),
    "brier_skill": ("Brier skill", "{:+.3f}"),
    "crps_skill": ("CRPS skill", "{:+.3f}"),
    "confidence": ("mean confidence", "{:.3f}"),
}
COMPARED = ("exact", "ece", "brier", "crps", "confidence")
PAIRS = (("brier", "correctness"), ("brier", "brier-group"))
BUCKETS = 10
Picks = NDArray[np.int64]


@dataclass(frozen=True)
class Run:
    """One arm with one seed: its rows by task, and the share of its replies that could be read."""

    arm: str
    origin: str
    seed: int
    blocks: tuple[TaskBlock, ...]
    read: float


def runs_of(folder: Path, cases: Sequence[Case]) -> tuple[list[Run], list[dict[str, Any]]]:
    """Return every recorded run, and the files' own descriptions."""
    found: list[Run] = []
    about: list[dict[str, Any]] = []
    for path in [*sorted(folder.glob("train_surrogate_*.json")), folder / FIRST]:
        told = json.loads(path.read_text())
        about.append({"file": path.name, **told})
        records = read_forecasts(path.with_suffix(".parquet"))
        for arm, seed in sorted({(r.forecaster, r.repeat) for r in records}):
            mine = [r for r in records if (r.forecaster, r.repeat) == (arm, seed)]
            answers = backtest.recorded(mine, cases)[0]
            found.append(Run(arm, path.stem, seed, tuple(scorecard.blocks(answers)), _read(told, arm, seed)))
    return found, about


def _read(told: Mapping[str, Any], arm: str, seed: int) -> float:
    if arm.startswith(BASE):
        of = next(r for r in told["runs"] if r["arm"] == BASE)
        counted = of["pooled"] if arm != BASE else of[f"seed_{seed}"]
    else:
        counted = next(r for r in told["runs"] if (r["arm"], r.get("seed")) == (arm, seed))
    return 1 - counted["unread"] / counted["replies"]


def values(blocks: Sequence[TaskBlock], plain: Forecast, draws: Sequence[Picks]) -> dict[str, NDArray[np.float64]]:
    """Return each figure over all blocks, then over each draw."""
    everything = [np.arange(len(blocks)), *draws]
    by_name = {m.name: m.statistic for m in scorecard.measures(blocks)}
    found = {n: np.array([by_name[n](d) for d in everything]) for n in FIGURES if n in by_name}
    for name, score in (("brier", metrics.brier), ("crps", metrics.crps)):
        each = [np.array([score([plain.probabilities], [y]) for y in b.y]) for b in blocks]
        sums, counts = np.array([e.sum() for e in each]), np.array([len(e) for e in each])
        flat = np.array([sums[d].sum() / counts[d].sum() for d in everything])
        found[f"{name}_skill"] = 1 - found[name] / flat
    top, counts = np.array([b.p.max(axis=1).sum() for b in blocks]), np.array([len(b.y) for b in blocks])
    found["confidence"] = np.array([top[d].sum() / counts[d].sum() for d in everything])
    return found


def draws_of(blocks: Sequence[TaskBlock], seed: int) -> list[Picks]:
    """Return the blocks of each draw of whole families."""
    families = sorted({b.family for b in blocks})
    members = {f: np.array([i for i, b in enumerate(blocks) if b.family == f]) for f in families}
    rng = np.random.default_rng(seed)
    return [np.concatenate([members[f] for f in rng.choice(families, len(families))]) for _ in range(RESAMPLES)]


def estimated(each: NDArray[np.float64], families: int, seed: int) -> dict[str, float | None]:
    """Return the mean over runs with its interval; each row of `each` is a run, its first column the value."""
    rng = np.random.default_rng(seed)
    chosen = rng.integers(0, len(each), size=(each.shape[1] - 1, len(each)))
    drawn = np.array([each[runs, i + 1].mean() for i, runs in enumerate(chosen)])
    low, high = percentile_interval(drawn, families)
    return {"value": _number(each[:, 0].mean()), "low": _number(low), "high": _number(high)}


def _number(value: float) -> float | None:
    return round(float(value), 5) if math.isfinite(value) else None


def histogram(runs: Sequence[Run]) -> list[float]:
    """Return the share of forecasts by the probability of their likeliest bin, in ten buckets."""
    top = np.concatenate([b.p.max(axis=1) for r in runs for b in r.blocks])
    counts = np.histogram(np.clip(top, 0, 1 - 1e-9), BUCKETS, (0, 1))[0]
    return [round(float(c), 4) for c in counts / counts.sum()]


def figures(found: Sequence[Run], plain: Forecast, seed: int = 0) -> dict[str, Any]:
    """Return every arm's figures, and its differences to its base."""
    draws = draws_of(found[0].blocks, seed)
    families = len({b.family for b in found[0].blocks})
    scored = {(r.arm, r.origin, r.seed): values(r.blocks, plain, draws) for r in found}
    table: dict[str, Any] = {}
    for arm in [a for a in NAMES if any(r.arm == a for r in found)]:
        mine = [r for r in found if r.arm == arm and (arm != BASE or f"{r.origin}.json" != FIRST)]
        own = [scored[r.arm, r.origin, r.seed] for r in mine]
        line: dict[str, Any] = {
            "runs": [{"from": r.origin, "seed": r.seed} for r in mine],
            "read": round(sum(r.read for r in mine) / len(mine), 4),
            "figures": {n: estimated(np.array([v[n] for v in own]), families, seed) for n in FIGURES},
            "confidence_histogram": histogram(mine),
        }
        if arm != BASE:
            base = [scored[BASE, r.origin, r.seed] for r in mine]
            apart = {n: np.array([v[n] - b[n] for v, b in zip(own, base, strict=True)]) for n in FIGURES}
            line["minus_before"] = {n: estimated(d, families, seed) for n, d in apart.items()}
        table[arm] = line
    return table


def between(found: Sequence[Run], one: str, other: str, plain: Forecast, seed: int = 0) -> dict[str, Any]:
    """Return the differences of two arms over the seeds and bases that both have."""
    runs = {(r.arm, r.origin, r.seed): r for r in found}
    shared = [(o, s) for a, o, s in runs if a == one and (other, o, s) in runs]
    draws, families = draws_of(found[0].blocks, seed), len({b.family for b in found[0].blocks})
    pairs = [[values(runs[arm, o, s].blocks, plain, draws) for arm in (one, other)] for o, s in shared]
    apart = {n: np.array([a[n] - b[n] for a, b in pairs]) for n in FIGURES}
    return {"one": one, "other": other, "runs": len(pairs)} | {
        n: estimated(d, families, seed) for n, d in apart.items()
    }


def ended_early(folder: Path) -> dict[str, int]:
    """Return how many steps each run had made that ended early."""
    last: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("train_surrogate_*.progress.jsonl.gz")):
        with gzip.open(path, "rt") as file:
            for line in map(json.loads, file):
                last[f"{path.name.partition('.')[0]} {line['run']}"] = line
    return {name: line["step"] for name, line in last.items() if line["phase"] != "done"}


def table(data: Mapping[str, Any]) -> str:
    """Return the figures as Markdown."""
    named = [title for title, _ in FIGURES.values()]
    lines = ["| reward | runs | read | " + " | ".join(named) + " |", "|---|---" + "|---" * (len(named) + 1) + "|"]
    for arm, line in data["arms"].items():
        cells = [_shown(line["figures"][n], form) for n, (_, form) in FIGURES.items()]
        lines.append(f"| {NAMES[arm]} | {len(line['runs'])} | {line['read']:.1%} | " + " | ".join(cells) + " |")
    lines += ["", "Paired differences to before, and of two rewards, with 95 % intervals:", ""]
    compared = {name: shown for name, shown in FIGURES.items() if name in COMPARED}
    lines += ["| reward | " + " | ".join(title for title, _ in compared.values()) + " |"]
    lines += ["|---" * (len(compared) + 1) + "|"]
    for arm, line in data["arms"].items():
        if "minus_before" in line:
            cells = [_shown(line["minus_before"][n], _signed(form), spread=True) for n, (_, form) in compared.items()]
            lines.append(f"| {NAMES[arm]} | " + " | ".join(cells) + " |")
    for pair in data["between"]:
        cells = [_shown(pair[n], _signed(form), spread=True) for n, (_, form) in compared.items()]
        lines.append(f"| {NAMES[pair['one']]} − {NAMES[pair['other']]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _signed(form: str) -> str:
    return form.replace(":+", ":").replace(":", ":+")


def _shown(estimate: Mapping[str, float | None], form: str, *, spread: bool = False) -> str:
    if estimate["value"] is None:
        return "–"
    said = form.format(estimate["value"]).replace("-", "−")
    if not spread or estimate["low"] is None or estimate["high"] is None:
        return said
    low, high = (form.format(estimate[k]).replace("-", "−") for k in ("low", "high"))
    return f"{said} ({low} to {high})"


def main() -> None:
    """Score, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool", type=Path)
    parser.add_argument("results", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--document", type=Path)
    args = parser.parse_args()
    test = read_pool(args.pool / "test.parquet")
    cases = [c for g in backtest.plan(test, 6, 0).groups for c in g.cases]
    found, about = runs_of(args.results, cases)
    flat = Forecast(rows.climatology(read_pool(args.pool / "train.parquet")), 1.0, "climatology")
    data = {
        "valid": int(sum(len(b.y) for b in found[0].blocks)),
        "tasks": len(found[0].blocks),
        "families": sorted({b.family for b in found[0].blocks}),
        "weights": about[0]["weights"],
        "ended_early": ended_early(args.results),
        "files": [{k: a[k] for k in ("file", "settings", "seconds", "provenance")} for a in about],
        "arms": figures(found, flat),
        "between": [between(found, one, other, flat) for one, other in PAIRS],
    }
    print(table(data))
    if args.out:
        write(args.out, data)
    if args.document:
        parts = {"figures": table(data)}
        args.document.write_text(filled(args.document.read_text(), parts))


if __name__ == "__main__":
    main()
