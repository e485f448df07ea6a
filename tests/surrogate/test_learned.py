import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from contracts.forecaster_contract import TARGET, TASK, ForecasterContract, failed, measured, source, subject

from forewarp.core import bins
from forewarp.core.protocols import Forecaster, Subject, Trial
from forewarp.core.values import Build, Candidate, Evidence, Measurement
from forewarp.surrogate.evaluation import metrics
from forewarp.surrogate.learned import PRIOR_VALID, LearnedForecaster, noise_variance


class TestLearnedForecaster(ForecasterContract):
    @pytest.fixture
    def forecaster(self) -> Forecaster:
        return LearnedForecaster()


def ask(subjects: list[Subject], history: list[Trial]):
    return LearnedForecaster().forecast(TASK, TARGET, subjects, history)


def test_prior_is_broad_and_centred_on_no_change():
    forecast = ask([subject()], [])[0]
    assert forecast.median == pytest.approx(1)
    assert forecast.interval[1] > 3
    assert forecast.p_valid == pytest.approx(PRIOR_VALID)
    assert "prior" in forecast.rationale


def test_one_trial_moves_the_prior_but_leaves_doubt():
    forecast = ask([subject(128)], [Trial(subject(64), measured(3.0))])[0]
    assert 1.2 < forecast.median < 3.2
    assert forecast.interval[0] < 1.5


def test_a_measured_candidate_is_known():
    history = [Trial(subject(b), measured(s)) for b, s in ((16, 0.6), (32, 0.9), (64, 1.7), (128, 3.0), (256, 2.9))]
    forecast = ask([subject(128)], history)[0]
    assert forecast.median == pytest.approx(3.0, rel=0.15)


def test_programs_have_levels_of_their_own():
    slow, fast = "y[i] = 2 * x[i];", "y[i] = x[i] + x[i];"
    history = [Trial(subject(b, slow), measured(0.4)) for b in (16, 32, 64)]
    history += [Trial(subject(b, fast), measured(2.8)) for b in (16, 32, 64)]
    of_slow, of_fast, of_new = ask([subject(128, slow), subject(128, fast), subject(128, "y[i] = x[i] * 2;")], history)
    assert of_slow.median < 0.7
    assert of_fast.median > 1.7
    assert of_slow.median < of_new.median < of_fast.median
    low, high = of_new.interval
    assert high / low > of_fast.interval[1] / of_fast.interval[0]


def test_failures_lower_the_chance_of_validity_nearby():
    history = [Trial(subject(b), measured(1.2)) for b in (16, 20, 24)]
    history += [Trial(subject(b), failed()) for b in (200, 220, 256)]
    good, bad = ask([subject(22), subject(240)], history)
    assert bad.p_valid < 0.5 < good.p_valid


@pytest.mark.parametrize(("trial", "least", "most"), [(failed(), 0.0, 0.06), (measured(0.5), 0.97, 1.0)])
def test_one_trial_of_a_program_tells_whether_its_other_settings_are_right(trial, least, most):
    same, other = ask([subject(128), subject(128, "y[i] = x[i] + x[i];")], [Trial(subject(16), trial)])
    assert least < same.p_valid < most
    assert abs(other.p_valid - PRIOR_VALID) < 0.3


def test_a_setting_that_crashed_says_less_of_others_than_one_that_was_wrong():
    crashed = Measurement("crashed", "failed", "a CPU", "T0")
    history = [Trial(subject(16), measured(1.2)), Trial(subject(256), crashed), Trial(subject(250), crashed)]
    near, far = ask([subject(255), subject(17)], history)
    assert 0.2 < near.p_valid < far.p_valid < 1.0


def test_suspicious_trials_teach_no_speed():
    cheat = Measurement("ok", "suspicious", "a CPU", "T0", speedup=40.0, low=39.0, high=41.0)
    assert not cheat.trusted
    forecast = ask([subject(64)], [Trial(subject(b), cheat) for b in (16, 32, 64)])[0]
    assert forecast.median == pytest.approx(1)
    assert forecast.p_valid < PRIOR_VALID


def test_noise_comes_from_the_interval_and_has_a_floor():
    assert noise_variance(measured(2.0, half_width=0.196)) == pytest.approx(0.1**2)
    assert noise_variance(measured(2.0, half_width=0.0)) > 0
    assert noise_variance(Measurement("ok", "tie", "a CPU", "T0", speedup=1.0)) > 0


def test_order_of_the_history_hardly_matters():
    history = [Trial(subject(b), measured(s)) for b, s in ((16, 0.6), (32, 0.9), (64, 1.7), (128, 3.0), (256, 2.9))]
    one, other = ask([subject(100)], history)[0], ask([subject(100)], history[::-1])[0]
    assert one.probabilities == pytest.approx(other.probabilities, abs=1e-3)


@pytest.mark.parametrize("same", [1.0, 1.5])
def test_constant_outcomes_give_no_warning(same: float):
    history = [Trial(subject(b), measured(same, 0.0)) for b in (16, 32, 64, 64, 64, 128)]
    forecast = ask([subject(256)], history)[0]
    # All that eight bins can tell of a sharp forecast: which bin, and how the mass falls about its edges.
    assert forecast.probabilities[bins.bin_of(same)] > 0.4
    assert forecast.median == pytest.approx(same, rel=0.15)


def test_the_same_kernel_again():
    known = Trial(subject(64), measured(1.5, 0.02))
    assert ask([subject(64)], [known])[0].median == pytest.approx(1.5, rel=0.3)
    assert ask([subject(64)], [known] * 4)[0].median == pytest.approx(1.5, rel=0.1)


def _landscape(seed: int, programs: int = 2) -> tuple[list[Subject], np.ndarray, np.random.Generator]:
    """Subjects of two made-up programs with a bowl, a cliff and facts that follow the tunables; and their log2 S."""
    rng = np.random.default_rng(seed)
    subjects: list[Subject] = []
    truth: list[float] = []
    for p in range(programs):
        level, best, weight = rng.normal(0, 0.8), rng.uniform(1, 6, 3), rng.uniform(0, 0.1, 3)
        cliff = rng.integers(8, 12)
        for a in range(4, 9):
            for b in range(6):
                for c in range(4):
                    facts = {"registers": 8.0 * a + 4 * b + rng.normal(0, 2), "code_bytes": 1000.0 * 2**c + 300 * p}
                    candidate = Candidate(source(f"f{p}();"), "cpp", {"A": 2**a, "B": 2**b, "C": 2**c})
                    subjects.append(Subject(candidate, Build("ok", 0.1, evidence=Evidence(facts))))
                    bowl = float(weight @ (np.array([a - 3, b, c]) - best) ** 2)
                    truth.append(level - bowl - 0.8 * (a + b > cliff) + rng.normal(0, 0.05))
    return subjects, np.array(truth), rng


@pytest.mark.parametrize("trials", [8, 25])
def test_beats_the_climatology_and_covers(trials: int):
    scores, baseline, inside = [], [], []
    for seed in range(6):
        subjects, truth, rng = _landscape(seed)
        order = rng.permutation(len(subjects))
        learned, asked = order[:trials], order[trials : trials + 60]
        history = [Trial(subjects[i], measured(2 ** (truth[i] + rng.normal(0, 0.02)), 0.04)) for i in learned]
        forecasts = ask([subjects[i] for i in asked], history)
        y = metrics.bins_of([2 ** truth[i] for i in asked])
        counts = np.bincount(metrics.bins_of([2 ** truth[i] for i in learned]), minlength=bins.COUNT) + 0.5
        scores.append(metrics.crps([f.probabilities for f in forecasts], y))
        baseline.append(metrics.crps([bins.normalise(counts.tolist())] * len(y), y))
        inside += [f.interval[0] <= 2 ** truth[i] <= f.interval[1] for f, i in zip(forecasts, asked, strict=True)]
    assert np.mean(scores) < 0.7 * np.mean(baseline)
    assert 0.68 <= np.mean(inside) <= 0.90


def test_ranks_candidates_on_a_landscape():
    subjects, truth, rng = _landscape(11)
    order = rng.permutation(len(subjects))
    history = [Trial(subjects[i], measured(2 ** truth[i], 0.04)) for i in order[:30]]
    forecasts = ask([subjects[i] for i in order[30:]], history)
    medians = [math.log2(f.median) for f in forecasts]
    assert metrics.spearman(medians, truth[order[30:]]) > 0.75


def test_importing_it_does_not_import_scikit_learn():
    code = "import sys, forewarp.surrogate.learned; sys.exit(any(m in sys.modules for m in ('sklearn', 'scipy')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_it_says_where_it_knows_nothing_of_a_candidate():
    blank = Subject(Candidate("class ModelNew: ...", "python"), Build("ok", 0.0))
    facts = replace(blank, build=Build("ok", 0.0, evidence=Evidence({"registers": 32.0})))
    tuned = Subject(Candidate("x", "cpp", {"BLOCK": 64}), Build("ok", 0.0))
    assert [f.informed for f in ask([blank, facts, tuned], [])] == [False, False, False]
    assert [f.informed for f in ask([blank, facts, tuned], [Trial(subject(16), failed())])] == [False, False, False]
    assert [f.informed for f in ask([blank, facts, tuned], [Trial(subject(16), measured(2.0))])] == [False, False, True]
    assert [f.informed for f in ask([blank, facts, tuned], [Trial(facts, measured(2.0))])] == [False, True, False]


def test_kernels_tell_nothing_of_a_module_that_may_call_a_library():
    history = [Trial(subject(b), measured(0.75)) for b in (16, 24, 32, 48, 64, 96)]
    module = Subject(Candidate("class ModelNew: ...", "python"), Build("ok", 0.0))
    of_kernel, of_module = ask([subject(128), module], history)
    assert of_kernel.interval[1] < 1.1
    assert of_module == replace(ask([module], [])[0], cost=of_module.cost)
    assert ask([subject(128)], [*history, Trial(module, measured(4.0))])[0].median == pytest.approx(of_kernel.median)
