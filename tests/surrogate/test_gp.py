import numpy as np
import pytest

from forewarp.surrogate import gp


def _rows(n: int = 6, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.normal(size=(n, 2)), np.arange(n) % 2])


def _kernel() -> gp.Covariance:
    return gp.Covariance(0.7, np.array([0.9, 1.7]), 0.4, 0.3, level=0.8, white=0.05)


def test_gradient_matches_finite_differences():
    kernel, rows = _kernel(), _rows()
    pairs, y, noise = gp.Pairs.of(rows, rows), np.sin(np.arange(6.0)), np.linspace(0.01, 0.1, 6)
    _, gradient = gp.log_likelihood(kernel, pairs, y, noise)
    step = 1e-6
    for i, theta in enumerate(np.eye(len(kernel.theta)) * step):
        above, _ = gp.log_likelihood(kernel.at(kernel.theta + theta), pairs, y, noise)
        below, _ = gp.log_likelihood(kernel.at(kernel.theta - theta), pairs, y, noise)
        assert gradient[i] == pytest.approx((above - below) / (2 * step), abs=1e-7)


def test_likelihood_and_forecast_are_those_of_the_textbook():
    kernel, rows, new = _kernel(), _rows(), _rows(3, seed=1)
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
    nothing = np.zeros((1, 3))
    posterior = gp.fit(nothing, np.zeros(1), np.array([1e9]), learn=False)
    _, sd = posterior.predict(nothing)
    assert sd[0] == pytest.approx(1.5, abs=0.01)
