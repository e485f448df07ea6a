import numpy as np
import pytest

from forewarp.surrogate import gp


def _rows(n: int = 6, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.normal(size=(n, 2)), np.arange(n) // 3 % 2, np.arange(n) % 2])


def _kernel(across: float | None = None) -> gp.Covariance:
    return gp.Covariance(0.7, np.array([0.9, 1.7]), 0.4, 0.3, level=0.8, white=0.05, across=across)


@pytest.mark.parametrize("across", [None, 0.6])
def test_gradient_matches_finite_differences(across: float | None):
    kernel, rows = _kernel(across), _rows()
    pairs, y, noise = gp.Pairs.of(rows, rows), np.sin(np.arange(6.0)), np.linspace(0.01, 0.1, 6)
    _, gradient = gp.log_likelihood(kernel, pairs, y, noise)
    step = 1e-6
    for i, theta in enumerate(np.eye(len(kernel.theta)) * step):
        above, _ = gp.log_likelihood(kernel.at(kernel.theta + theta), pairs, y, noise)
        below, _ = gp.log_likelihood(kernel.at(kernel.theta - theta), pairs, y, noise)
        assert gradient[i] == pytest.approx((above - below) / (2 * step), abs=1e-7)


@pytest.mark.parametrize("across", [None, 0.6])
def test_likelihood_and_forecast_are_those_of_the_textbook(across: float | None):
    kernel, rows, new = _kernel(across), _rows(), _rows(3, seed=1)
    y, noise = np.sin(np.arange(6.0)), np.full(6, 0.02)
    whole = kernel.between(rows, rows) + np.diag(kernel.white + noise)
    value, _ = gp.log_likelihood(kernel, gp.Pairs.of(rows, rows), y, noise)
    size = np.linalg.slogdet(2 * np.pi * whole).logabsdet
    assert value == pytest.approx(-0.5 * (y @ np.linalg.solve(whole, y) + size))
    mean, sd = gp.Posterior.of(kernel, rows, y, noise).predict(new)
    across = kernel.between(new, rows)
    assert mean == pytest.approx(across @ np.linalg.solve(whole, y))
    left = kernel.between(new, new) - across @ np.linalg.solve(whole, across.T)
    assert sd == pytest.approx(np.sqrt(np.diag(left) + kernel.white))


def test_prior_variance_adds_up_to_the_documented_spread():
    nothing = np.zeros((1, 4))
    posterior = gp.fit(nothing, np.zeros(1), np.array([1e9]), learn=False)
    _, sd = posterior.predict(nothing)
    assert sd[0] == pytest.approx(1.5, abs=0.01)


def _two_targets(correlated: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of a grid on two targets, each with a landscape; equal ones if correlated."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-2, 2, size=(24, 1))
    one = np.sin(2.0 * x[:, 0])
    other = one if correlated else np.cos(3.3 * x[:, 0] + 1.0)
    rows = np.vstack([np.column_stack([x, np.full(24, t), np.zeros(24)]) for t in (0.0, 1.0)])
    return rows, np.concatenate([one, other]), np.full(48, 1e-4)


def test_targets_that_agree_teach_each_other():
    rows, y, noise = _two_targets(correlated=True)
    known = [*range(24), *range(24, 28)]
    together = gp.fit(rows[known], y[known], noise[known], learn=True)
    alone = gp.fit(rows[24:28], y[24:28], noise[24:28], learn=True)
    assert together.kernel.across is not None
    assert together.kernel.across > 0.8
    errors = [np.abs(p.predict(rows[28:])[0] - y[28:]).mean() for p in (together, alone)]
    assert errors[0] < 0.3 * errors[1]


def test_targets_that_disagree_are_told_apart():
    rows, y, noise = _two_targets(correlated=False)
    found = gp.fit(rows, y, noise, learn=True)
    assert found.kernel.across is not None
    assert found.kernel.across < 0.5
    assert np.abs(found.predict(rows)[0] - y).mean() < 0.05
