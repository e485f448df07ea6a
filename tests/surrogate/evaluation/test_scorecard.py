import math

import numpy as np
import pytest
from scipy import stats
from support.judged_pool import SPEEDUPS, Oracle, rows

from forewarp.core import bins
from forewarp.core.values import Forecast
from forewarp.surrogate import baselines
from forewarp.surrogate.evaluation import backtest, scorecard
from forewarp.surrogate.evaluation.backtest import AnsweredCase, Answers, Case
from forewarp.surrogate.evaluation.resampling import cluster_draws


def answers(forecaster, history=0):
    return backtest.run(forecaster, backtest.plan(rows(), history).groups)


def figures(given, resamples=20):
    draws = cluster_draws([b.task for b in scorecard.blocks(given)], resamples)
    return {name: r.value for name, (_, r) in scorecard.score(given, draws).items()}


def test_an_oracle_has_nothing_to_improve():
    found = figures(answers(Oracle()))
    for name in ("exact", "within_one", "pairwise", "spearman", "coverage", "valid_auroc", "faster_auroc"):
        assert found[name] == pytest.approx(1), name
    for name in ("brier", "crps", "nll", "ece", "error", "valid_brier"):
        assert found[name] == pytest.approx(0), name
    assert found["recovery_1"] == 1
    assert found["miss_1"] == 0
    assert math.isnan(found["auroc_confidence"])  # it is never wrong


def test_a_forecaster_that_is_wrong_way_round():
    found = figures(answers(Oracle(sign=-1.0)))
    assert found["pairwise"] == 0
    assert found["spearman"] == pytest.approx(-1)
    # Of each task it measures the slowest valid candidate first: 0.2 of 3, 0.6 of 5, 0.3 of 1.3.
    assert found["recovery_mean_1"] == pytest.approx(np.mean([0.2 / 3, 0.6 / 5, 0.3 / 1.3]))
    assert found["recovery_1"] == pytest.approx(0.12)
    assert found["miss_1"] == 1
    assert found["false_discard_1"] == 1
    # The best comes last among the valid: 6th of 7, 5th of 7, 6th of 6; losing it in one of three tasks is too much.
    assert found["share_for_all"] == found["share_for_one"] == 0.84


def test_uniform_is_worth_what_chance_is():
    found = figures(answers(baselines.uniform()))
    assert found["brier"] == pytest.approx(0.4375)
    even = [1 / 8] * 8
    assert found["sharpness"] == pytest.approx(math.log2(bins.quantile(even, 0.9) / bins.quantile(even, 0.1)))
    assert found["nll"] == pytest.approx(math.log(8))
    assert found["pairwise"] == 0.5
    assert found["spearman"] == 0
    # One at random of each task: the mean of its speed-ups, invalid ones as 0, over the best.
    chance = [np.mean([s or 0.0 for s in v]) / max(s or 0.0 for s in v) for v in SPEEDUPS.values()]
    assert found["recovery_mean_1"] == pytest.approx(np.mean(chance))
    # Each task has one candidate near its best: it is in a random one of 7, 7 and 6 with that chance.
    assert found["miss_1"] == pytest.approx(np.mean([6 / 7, 6 / 7, 5 / 6]))
    assert found["false_discard_50"] == pytest.approx(np.mean([3 / 7, 3 / 7, 3 / 6]))


def made(tasks=6, each=40, seed=0, judges=True) -> Answers:
    rng = np.random.default_rng(seed)
    said: list[AnsweredCase] = []
    for t in range(tasks):
        for k in range(each):
            real = float(rng.normal(scale=1.5))
            center = real + float(rng.normal(scale=0.7))
            speedup = 2.0**real if rng.random() < 0.85 else None
            forecast = Forecast(bins.from_normal(center, 0.7), float(rng.uniform(0.5, 1)), "made")
            case = Case(f"task {t}", "device", f"family {t // 2}", f"kernel {k}", "", "cuda", speedup)
            said.append(AnsweredCase(case, forecast, validity=judges))
    return Answers("made", tuple(said), {}, said[0].forecast.cost)


def test_figures_against_scikit_learn_and_scipy():
    from sklearn import metrics as sk  # takes a second

    given = made()
    found = figures(given)
    good = [r for r in given.rows if r.case.speedup]
    p = np.array([r.forecast.probabilities for r in good])
    y = np.array([np.searchsorted(bins.EDGES, r.case.speedup, side="right") for r in good])
    assert found["exact"] == pytest.approx(sk.accuracy_score(y, p.argmax(axis=1)))
    assert found["nll"] == pytest.approx(sk.log_loss(y, p, labels=list(range(8))))
    assert found["brier"] == pytest.approx(sk.brier_score_loss(y, p, labels=list(range(8)), scale_by_half=True))
    assert found["auroc_confidence"] == pytest.approx(sk.roc_auc_score(p.argmax(axis=1) == y, p.max(axis=1)))
    valid = [r.case.speedup is not None for r in given.rows]
    said = [r.forecast.p_valid for r in given.rows]
    assert found["valid_auroc"] == pytest.approx(sk.roc_auc_score(valid, said))
    assert found["valid_brier"] == pytest.approx(sk.brier_score_loss(valid, said))
    faster = [(r.case.speedup or 0.0) > 1 for r in given.rows]
    assert found["faster_auroc"] == pytest.approx(sk.roc_auc_score(faster, [r.forecast.p_faster for r in given.rows]))
    each = []
    for t in range(6):
        mine = [r for r in good if r.case.task == f"task {t}"]
        guess = [bins.mean_log2(r.forecast.probabilities) for r in mine]
        each.append(stats.spearmanr(guess, [r.case.speedup for r in mine]).statistic)
    assert found["spearman"] == pytest.approx(np.median(each))
    assert found["spearman_mean"] == pytest.approx(np.mean(each))
    concordant = [
        (bins.mean_log2(a.forecast.probabilities) - bins.mean_log2(b.forecast.probabilities))
        * (a.case.speedup - b.case.speedup)
        > 0
        for i, a in enumerate(good)
        for b in good[:i]
        if a.case.task == b.case.task and max(a.case.speedup / b.case.speedup, b.case.speedup / a.case.speedup) > 1.1
    ]
    assert found["pairwise"] == pytest.approx(np.mean(concordant))


def test_a_draw_of_all_tasks_gives_the_figure_itself():
    given = made()
    found = scorecard.blocks(given)
    for m in scorecard.measures(found):
        whole = m.statistic(np.arange(len(found)))
        doubled = m.statistic(np.concatenate([np.arange(len(found))] * 2))
        if math.isfinite(whole):
            assert doubled == pytest.approx(whole), m.name


def test_what_was_never_said_is_not_judged():
    found = figures(made(judges=False))
    assert all(math.isnan(found[name]) for name in ("valid_brier", "valid_ece", "valid_auroc"))
    assert found["crps"] > 0


def test_by_task_is_the_figure_of_that_task_alone():
    given = made()
    for block, mine in scorecard.by_task(given):
        alone = Answers("made", tuple(r for r in given.rows if r.case.task == block.task), {}, given.cost)
        found = figures(alone, resamples=2)
        assert mine["crps"] == pytest.approx(found["crps"])
        assert mine["spearman"] == pytest.approx(found["spearman"])


def test_incumbent_counts_as_what_has_to_be_beaten():
    # In the order of the scores 4×, 1.2×, 2×, 1.6×, with 1.5× known: the top half holds one of the three that beat it.
    outcomes = [(4.0, 2.0), (1.2, 1.5), (2.0, 1.2), (1.6, 1.1)]
    said = [
        AnsweredCase(
            Case("t", "d", "f", str(k), "", "cuda", speedup, incumbent=1.5),
            Forecast(bins.from_normal(math.log2(score), 0.5), 1.0, "u"),
        )
        for k, (speedup, score) in enumerate(outcomes)
    ]
    found = figures(Answers("u", tuple(said), {}, made().cost), resamples=2)
    assert found["lost_wins_50"] == pytest.approx(2 / 3)
    assert found["lost_wins_1"] == pytest.approx(2 / 3)
    assert found["false_discard_50"] == 0


def test_one_valid_candidate_is_enough():
    case = Case("t", "d", "f", "k", "", "cuda", 2.0)
    bad = Case("t", "d", "f", "j", "", "cuda", None)
    for rows_ in ((case,), (case, bad), (bad,)):
        given = Answers("u", tuple(AnsweredCase(c, Forecast((1 / 8,) * 8, 0.5, "u")) for c in rows_), {}, made().cost)
        found = figures(given, resamples=2)
        assert math.isnan(found["spearman"])
