"""A Gaussian process over candidates of several programs, fitted by maximum a posteriori.

    k = level + offset·[same program] + amplitude · Matérn5/2(x, x′) · (1 if same program else share)

`level` is the prior variance of a task's overall level, `offset` lets each program have a level of its own, `share`
says how much of the landscape over tunables and facts programs have in common (partial pooling). Measurement noise
enters per trial from its interval; a white term takes up what the features do not explain.

Maximum likelihood over-fits a dozen trials, so every hyperparameter has a log-normal prior. That of the length scales
grows with the square root of the number of columns (Hvarfner et al., "Vanilla Bayesian Optimization Performs Great in
High Dimensions", 2024), with a factor for standardised columns. Importing this module imports scikit-learn: import it
late.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel, StationaryKernelMixin, WhiteKernel
from threadpoolctl import ThreadpoolController

Array = NDArray[np.float64]

PRIOR_MEAN = 0.0
PRIOR_SD = 1.5
"""The forecast before anything is measured: log2 S is normal about "no change", with a spread of 1.5 octaves."""

_SHARE = 0.3
_WHITE = 0.06**2
_LENGTH, _LENGTH_SIGMA = 1.5, 0.8
_MAX_FIT = 120
_BOUND_SDS = 4.0


@dataclass(frozen=True, slots=True)
class Prior:
    """Variances before any trial, in octaves²: of a task's level, of a program's own, and of the landscape."""

    level: float = 1.0
    offset: float = 0.5
    amplitude: float = PRIOR_SD**2 - 1.5


BROAD = Prior()
"""Of a forecaster that knows nothing but the run's own trials."""


class ProgramKernel(StationaryKernelMixin, Kernel):  # pyright: ignore[reportIncompatibleMethodOverride]
    """The covariance above. The last column of X is the program's number, the others are standardised features."""

    def __init__(self, amplitude: float, lengths: Any, offset: float, share: float, level: float = 1.0) -> None:
        self.amplitude, self.lengths, self.offset, self.share = amplitude, lengths, offset, share
        self.level = level

    @property
    def hyperparameter_amplitude(self) -> Any:
        """Variance of the landscape."""
        return _positive("amplitude")

    @property
    def hyperparameter_lengths(self) -> Any:
        """One length scale per feature."""
        return _positive("lengths", int(np.size(self.lengths)))  # scikit-learn turns a single one into a number

    @property
    def hyperparameter_offset(self) -> Any:
        """Variance of a program's own level."""
        return _positive("offset")

    @property
    def hyperparameter_share(self) -> Any:
        """Correlation between the landscapes of two programs."""
        return _positive("share")

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        """Return K(X, Y), and its gradient by the log hyperparameters in scikit-learn's order, the alphabet's."""
        other = X if Y is None else Y
        squares = ((X[:, None, :-1] - other[None, :, :-1]) / np.asarray(self.lengths)) ** 2
        same = (X[:, None, -1] == other[None, :, -1]).astype(float)
        root = np.sqrt(5.0 * squares.sum(axis=2))
        decay = np.exp(-root)
        landscape = self.amplitude * (1.0 + root + root**2 / 3.0) * decay
        pooled = landscape * (same + self.share * (1.0 - same))
        covariance = self.level + self.offset * same + pooled
        if not eval_gradient:
            return covariance
        slope = self.amplitude * (5.0 / 3.0) * (1.0 + root) * decay * (same + self.share * (1.0 - same))
        parts = [
            pooled[:, :, None],
            slope[:, :, None] * squares,
            (self.offset * same)[:, :, None],
            (landscape * self.share * (1.0 - same))[:, :, None],
        ]
        return covariance, np.concatenate(parts, axis=2)

    def diag(self, X: Array) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Return the prior variance at each row."""
        return np.full(len(X), self.level + self.offset + self.amplitude)


@dataclass(frozen=True, slots=True)
class Posterior:
    """A fitted process: means and standard deviations for new rows."""

    process: Any

    def predict(self, rows: Array) -> tuple[Array, Array]:
        """Return mean and standard deviation of a new measurement at each row."""
        with _one_thread():
            mean, sd = self.process.predict(rows, return_std=True)
        return mean, sd


def fit(rows: Array, y: Array, noise: Array, *, learn: bool, prior: Prior = BROAD, quick: bool = False) -> Posterior:
    """Condition on trials: features and program number, log2 speed-ups less what was expected, and noise variances.

    With `learn` the hyperparameters go to the mode of their posterior; otherwise they stay at their priors' medians.
    `quick` looks for the mode from the medians only, which is enough where the prior's variances are known.
    """
    kernel = _prior_kernel(rows.shape[1] - 1, prior)
    with _one_thread():
        if learn:
            chosen = np.linspace(0, len(y) - 1, min(len(y), _MAX_FIT)).astype(int)
            kernel = kernel.clone_with_theta(_mode(kernel, rows[chosen], y[chosen], noise[chosen], quick=quick))
        return Posterior(_condition(kernel, rows, y, noise))


def _one_thread() -> Any:
    """Keep linear algebra to one thread: threads that wait for each other make these small matrices slower, not faster.

    On a loaded machine, several times slower.
    """
    return _controller().limit(limits=1, user_api="blas")


@lru_cache(maxsize=1)
def _controller() -> Any:
    return ThreadpoolController()


def _positive(name: str, count: int = 1) -> Any:
    return Hyperparameter(name, "numeric", (1e-9, 1e9), count)


def _prior_kernel(dimensions: int, prior: Prior) -> Any:
    lengths = np.full(dimensions, _LENGTH * math.sqrt(max(1, dimensions)))
    landscape = ProgramKernel(prior.amplitude, lengths, prior.offset, _SHARE, prior.level)
    return landscape + WhiteKernel(_WHITE, (1e-9, 1e9))


def _prior_sds(dimensions: int) -> Array:
    """Return the standard deviations of the log hyperparameters, in the kernel's order (the white term last)."""
    return np.array([1.5, *([_LENGTH_SIGMA] * dimensions), 1.5, 0.7, 1.5])


def _condition(kernel: Any, rows: Array, y: Array, noise: Array) -> Any:
    regressor: Any = GaussianProcessRegressor
    return regressor(kernel, alpha=noise, optimizer=None).fit(rows, y)


def _mode(kernel: Any, rows: Array, y: Array, noise: Array, *, quick: bool) -> Array:
    """Return the log hyperparameters at the mode, from one start or two and a bounded number of evaluations.

    The process is optimised here rather than by scikit-learn, which knows no priors and warns where a likelihood is
    flat.
    """
    process = _condition(kernel, rows, y, noise)
    centre, sds = np.asarray(kernel.theta), _prior_sds(rows.shape[1] - 1)
    bounds = [(c - _BOUND_SDS * s, c + _BOUND_SDS * s) for c, s in zip(centre, sds, strict=True)]
    bounds[-2] = (bounds[-2][0], 0.0)

    def loss(theta: Array) -> tuple[float, Array]:
        value, slope = process.log_marginal_likelihood(theta, eval_gradient=True, clone_kernel=False)
        if not math.isfinite(value):
            return 1e9, np.zeros_like(theta)
        away = (theta - centre) / sds
        return float(0.5 * away @ away - value), away / sds - slope

    short = centre - np.where(sds == _LENGTH_SIGMA, 1.5, 0.0)
    limits = {"maxfun": max(15, min(40, 4000 // len(y))), "maxiter": 50}
    found: list[Any] = [
        minimize(loss, s, jac=True, method="L-BFGS-B", bounds=bounds, options=limits)
        for s in ((centre,) if quick else (centre, short))
    ]
    return np.asarray(found[int(np.argmin([r.fun for r in found]))].x)
