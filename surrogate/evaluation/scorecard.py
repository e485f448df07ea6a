"""Every figure of a forecaster over several tasks, with intervals by task, and the differences of two forecasters.

Three kinds of figures: shares and means over rows (all tasks pooled), figures that only a whole set of rows has (ECE,
AUROC; pooled too), and figures of one task (rank correlation, recovery) of which median or mean over tasks is
taken. Bins, ranks and intervals are judged on valid candidates alone; where a share is measured, invalid ones count as
a speed-up of zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from forewarp.core import bins
from forewarp.surrogate.evaluation import metrics
from forewarp.surrogate.evaluation.backtest import AnsweredCase, Answers
from forewarp.surrogate.evaluation.resampling import Picks, Resampled, Statistic, cluster_draws, resample
from forewarp.surrogate.pooling import moments

Array = NDArray[np.float64]
Better = Literal["higher", "lower", ""]

SHARES = (0.01, 0.05, 0.1, 0.15, 0.2, 0.5)
MARGIN = 0.05
APART = 0.1
MOST_LOST = 0.05
"""The rate of false discards, or of misses, that the share to be measured is asked for."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure: its name, and whether higher or lower is better ("" where neither is by itself)."""

    name: str
    title: str
    better: Better
    statistic: Statistic = field(repr=False)


class TaskBlock:
    """The rows of one task on one target as arrays, `p` to `highs` of valid candidates; invalid `speedups` are 0."""

    def __init__(self, rows: Sequence[AnsweredCase], milliseconds: float) -> None:
        first, good = rows[0].case, [r for r in rows if r.case.speedup is not None]
        self.task, self.target, self.family, self.incumbent = first.task, first.target, first.family, first.incumbent
        self.rows, self.milliseconds = len(rows), milliseconds
        self.p = np.array([r.forecast.probabilities for r in good], float).reshape(-1, bins.COUNT)
        self.s = np.array([r.case.speedup for r in good], float)
        self.y = metrics.bins_of(self.s.tolist())
        self.centres = np.array([moments(r.forecast)[0] for r in good], float)
        self.lows, self.highs = np.array([r.forecast.interval for r in good], float).reshape(-1, 2).T
        self.p_valid = np.array([r.forecast.p_valid for r in rows], float)
        self.p_faster = np.array([r.forecast.p_faster for r in rows], float)
        self.worth = self.p_valid * np.exp2([moments(r.forecast)[0] for r in rows])
        self.speedups = np.array([r.case.speedup or 0.0 for r in rows], float)
        self.valid = np.array([r.case.speedup is not None for r in rows], bool)
        self.judges_validity = all(r.validity for r in rows)


def blocks(answers: Answers) -> list[TaskBlock]:
    grouped: dict[tuple[str, str], list[AnsweredCase]] = {}
    for row in answers.rows:
        grouped.setdefault((row.case.task, row.case.target), []).append(row)
    return [TaskBlock(rows, answers.milliseconds.get(key, math.nan)) for key, rows in grouped.items()]


def measures(found: Sequence[TaskBlock], margin: float = MARGIN) -> list[Measure]:
    """Return every figure of these blocks, as statistics that can be resampled."""
    milliseconds = _over([b.milliseconds for b in found], np.median)
    pace = Measure("milliseconds", "milliseconds a kernel", "lower", milliseconds)
    return [*_of_bins(found), *_of_confidence(found), *_of_validity(found), *_of_choice(found, margin), pace]


def score(answers: Answers, draws: Sequence[Picks], margin: float = MARGIN) -> dict[str, tuple[Measure, Resampled]]:
    """Return every figure by name with its resamples; `draws` are of the blocks' tasks (`cluster_draws`)."""
    found = blocks(answers)
    clusters = [b.task for b in found]
    return {m.name: (m, resample(m.statistic, clusters, draws)) for m in measures(found, margin)}


def by_task(answers: Answers, margin: float = MARGIN) -> list[tuple[TaskBlock, Mapping[str, float]]]:
    return [(b, {m.name: m.statistic(np.zeros(1, np.int64)) for m in measures([b], margin)}) for b in blocks(answers)]


@dataclass(frozen=True, slots=True)
class PairedFamily:
    """CRPS of one forecaster on the valid candidates of a family, and the paired difference from another's."""

    family: str
    rows: int
    crps: float
    difference: Resampled


def by_family(one: Answers, other: Answers, resamples: int, seed: int = 0) -> list[PairedFamily]:
    """Return `one` less `other` by family, on equal questions; programs are drawn, since families have few tasks."""
    families: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for a, b in zip(one.rows, other.rows, strict=True):
        if a.case.speedup is not None:
            losses = _crps(a), _crps(b)
            families.setdefault(a.case.family, {}).setdefault(f"{a.case.task} {a.case.program}", []).append(losses)
    found: list[PairedFamily] = []
    for family, programs in sorted(families.items()):
        pairs = [np.array(each) for each in programs.values()]
        names = list(programs)
        difference = resample(_mean([p[:, 0] - p[:, 1] for p in pairs]), names, cluster_draws(names, resamples, seed))
        rows = np.concatenate(pairs)
        found.append(PairedFamily(family, len(rows), float(rows[:, 0].mean()), difference))
    return found


def _crps(row: AnsweredCase) -> float:
    speedups = [row.case.speedup or 0.0]
    return metrics.crps(np.array([row.forecast.probabilities], float), metrics.bins_of(speedups))


def _of_bins(found: Sequence[TaskBlock]) -> list[Measure]:
    def rows(loss: Callable[[TaskBlock], Array]) -> Statistic:
        return _mean([loss(b) for b in found])

    def each(score: Callable[[Array, NDArray[np.int64]], float]) -> Callable[[TaskBlock], Array]:
        return lambda b: np.array([score(b.p[i : i + 1], b.y[i : i + 1]) for i in range(len(b.y))], float)

    ranks = [_rank_correlation(b) for b in found]
    pairs = _mean([metrics.pair_outcomes(b.centres, b.s, APART) for b in found])
    p, y = [b.p for b in found], [b.y for b in found]
    return [
        Measure("exact", "exact bin", "higher", rows(each(metrics.accuracy))),
        Measure("within_one", "±1 bin", "higher", rows(each(lambda p, y: metrics.accuracy(p, y, within=1)))),
        Measure("pairwise", f"order of pairs over {APART * 100:g} % apart", "higher", pairs),
        Measure("spearman", "Spearman in a task, median", "higher", _over(ranks, np.median)),
        Measure("spearman_mean", "Spearman in a task, mean", "higher", _over(ranks, np.mean)),
        Measure("ece", "ECE", "lower", _pooled(metrics.ece, p, y)),
        Measure("brier", "Brier (halved)", "lower", rows(each(metrics.brier))),
        Measure("crps", "CRPS", "lower", rows(each(metrics.crps))),
        Measure("nll", "NLL, nats", "lower", rows(each(metrics.nll))),
        Measure("sharpness", "width of 80 % intervals, octaves", "", rows(lambda b: np.log2(b.highs / b.lows))),
        Measure("coverage", "measured within the 80 % interval", "", rows(_inside)),
        Measure("error", "|error| of log2 S, octaves", "lower", rows(lambda b: np.abs(b.centres - np.log2(b.s)))),
    ]


def _of_confidence(found: Sequence[TaskBlock]) -> list[Measure]:
    confidence = [b.p.max(axis=1) for b in found]
    right = [b.p.argmax(axis=1) == b.y for b in found]
    said, faster = [b.p_faster for b in found], [b.speedups > 1.0 for b in found]
    return [
        Measure("auroc_confidence", "AUROC of confidence", "higher", _pooled(metrics.auroc, confidence, right)),
        Measure("faster_brier", "Brier of P(valid and faster)", "lower", _pooled(metrics.event_brier, said, faster)),
        Measure("faster_ece", "ECE of P(valid and faster)", "lower", _pooled(metrics.event_ece, said, faster)),
        Measure("faster_auroc", "AUROC of P(valid and faster)", "higher", _pooled(metrics.auroc, said, faster)),
    ]


def _of_validity(found: Sequence[TaskBlock]) -> list[Measure]:
    if not all(b.judges_validity for b in found):
        found = []
    said, valid = [b.p_valid for b in found], [b.valid for b in found]
    return [
        Measure("valid_brier", "Brier of P(valid)", "lower", _pooled(metrics.event_brier, said, valid)),
        Measure("valid_ece", "ECE of P(valid)", "lower", _pooled(metrics.event_ece, said, valid)),
        Measure("valid_auroc", "AUROC of P(valid)", "higher", _pooled(metrics.auroc, said, valid)),
    ]


def _of_choice(found: Sequence[TaskBlock], margin: float) -> list[Measure]:
    """Return the costs of the rule "measure the top share", for each share."""
    near = [metrics.near_best(b.speedups, margin) for b in found]
    beats = [b.speedups > b.incumbent for b in found]
    made: list[Measure] = []
    close = f"within {margin * 100:g} % of the best"

    def add(name: str, title: str, better: Better, values: Sequence[float], of: Callable[[Array], Any]) -> None:
        made.append(Measure(name, title, better, _over(values, of)))

    for share in SHARES:
        top, k = f"the top {share * 100:g} %", f"{share * 100:g}"
        got = [metrics.recovery(b.worth, b.speedups, share) for b in found]
        lost = [metrics.false_discard_rate(b.worth, g, share) for b, g in zip(found, near, strict=True)]
        none = [metrics.miss_rate(b.worth, g, share) for b, g in zip(found, near, strict=True)]
        wins = [metrics.false_discard_rate(b.worth, g, share) for b, g in zip(found, beats, strict=True)]
        add(f"recovery_{k}", f"recovery of {top}, median", "higher", got, np.median)
        add(f"recovery_mean_{k}", f"recovery of {top}, mean", "higher", got, np.mean)
        add(f"miss_{k}", f"P(none {close} in {top})", "lower", none, np.mean)
        add(f"false_discard_{k}", f"of those {close}, not in {top}", "lower", lost, np.mean)
        add(f"lost_wins_{k}", f"of those faster than the incumbent, not in {top}", "lower", wins, np.mean)
    return [*made, *_shares_needed(found, near, close)]


def _shares_needed(found: Sequence[TaskBlock], near: Sequence[NDArray[np.bool_]], close: str) -> list[Measure]:
    """Return the smallest shares, in whole percents, at which at most `MOST_LOST` is lost on average over tasks."""
    shares = np.arange(1, 101) / 100

    def table(rate: Callable[..., float]) -> Array:
        rates = [[rate(b.worth, g, float(share)) for share in shares] for b, g in zip(found, near, strict=True)]
        return np.array(rates, float).reshape(-1, len(shares))

    def needed(rates: Array) -> Statistic:
        there = np.array([bool(np.isfinite(row).all()) for row in rates], bool)

        def value(picks: Picks) -> float:
            rows = rates[picks[there[picks]]]
            return float(shares[np.argmax(rows.mean(axis=0) <= MOST_LOST)]) if len(rows) else math.nan

        return value

    most = f"at most {MOST_LOST * 100:g} %"
    discard, miss = needed(table(metrics.false_discard_rate)), needed(table(metrics.miss_rate))
    return [
        Measure("share_for_all", f"to be measured so that {most} of those {close} are lost", "lower", discard),
        Measure("share_for_one", f"to be measured so that {most} of tasks find none {close}", "lower", miss),
    ]


def _rank_correlation(block: TaskBlock) -> float:
    """Return Spearman's correlation in one task; a forecast that does not tell candidates apart is worth zero."""
    if len(block.s) > 1 and np.ptp(block.s) > 0 and np.ptp(block.centres) == 0:
        return 0.0
    return metrics.spearman(block.centres, block.s)


def _inside(block: TaskBlock) -> Array:
    return ((block.lows <= block.s) & (block.s <= block.highs)).astype(float)


def _mean(losses: Sequence[Array]) -> Statistic:
    """Return the mean over all rows, from the sums of each block."""
    sums, counts = np.array([v.sum() for v in losses], float), np.array([len(v) for v in losses], float)

    def value(picks: Picks) -> float:
        rows = counts[picks].sum() if len(counts) else 0.0
        return float(sums[picks].sum() / rows) if rows else math.nan

    return value


def _over(values: Sequence[float], of: Callable[[Array], Any]) -> Statistic:
    found = np.array(values, float)

    def value(picks: Picks) -> float:
        there = found[picks]
        there = there[np.isfinite(there)]
        return float(of(there)) if len(there) else math.nan

    return value


def _pooled(score: Callable[..., float], *columns: Sequence[Any]) -> Statistic:
    def value(picks: Picks) -> float:
        if not columns[0]:
            return math.nan
        return score(*(np.concatenate([column[k] for k in picks]) for column in columns))

    return value
