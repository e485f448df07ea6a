import numpy as np
import pytest

from forewarp.surrogate import gp


def _rows(n: int = 6, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.normal(size=(n, 2)), np.arange(n) % 2])


def test_gradient_matches_finite_differences():
    kernel = gp.ProgramKernel(0.7, np.array([0.9, 1.7]), 0.4, 0.3)
    rows = _rows()
    _, gradient = kernel(rows, eval_gradient=True)
    step = 1e-6
    for i, theta in enumerate(np.eye(len(kernel.theta)) * step):
        above = kernel.clone_with_theta(kernel.theta + theta)(rows)
        below = kernel.clone_with_theta(kernel.theta - theta)(rows)
        assert gradient[:, :, i] == pytest.approx((above - below) / (2 * step), abs=1e-7)


def test_diagonal_is_the_kernel_at_distance_zero():
    kernel = gp.ProgramKernel(0.7, np.array([0.9, 1.7]), 0.4, 0.3)
    rows = _rows()
    assert kernel.diag(rows) == pytest.approx(np.diag(kernel(rows)))


def test_prior_variance_adds_up_to_the_documented_spread():
    nothing = np.zeros((1, 3))
    posterior = gp.fit(nothing, np.zeros(1), np.array([1e9]), learn=False)
    _, sd = posterior.predict(nothing)
    assert sd[0] == pytest.approx(gp.PRIOR_SD, abs=0.01)
