"""A Gaussian process over candidates of several programs, fitted by maximum a posteriori.

    k = level + offset·[same program] + amplitude · Matérn5/2(x, x′) · (1 if same program else share)

`level` is the prior variance of a task's overall level, `offset` lets each program have a level of its own, `share`
says how much of the landscape over tunables and facts programs have in common (partial pooling). Measurement noise
enters per trial from its interval; a white term takes up what the features do not explain.

Maximum likelihood over-fits a dozen trials, so every hyperparameter has a log-normal prior. That of the length scales
grows with the square root of the number of columns (Hvarfner et al., "Vanilla Bayesian Optimization Performs Great in
High Dimensions", 2024), with a factor for standardised columns. The
algebra is algorithm 2.1 and equation 5.9 of Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006.
Importing this module imports scipy: import it late.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.linalg import lapack as _lapack
from scipy.optimize import minimize

from forewarp.surrogate.blas import one_thread
from forewarp.surrogate.pretrained import BROAD, Variances

Array = NDArray[np.float64]
lapack: Any = _lapack

_SHARE = 0.3
_WHITE = 0.06**2
_LENGTH, _LENGTH_SIGMA = 1.5, 0.8
_MAX_FIT = 120
_BOUND_SDS = 4.0


@dataclass(frozen=True, slots=True)
class Covariance:
    """The covariance k of the module's docstring; the last column of rows is the program."""

    amplitude: float
    lengths: Array
    offset: float
    share: float
    level: float
    white: float

    @property
    def theta(self) -> Array:
        """The log hyperparameters that are learned: amplitude, offset, share, white, lengths."""
        return np.log(np.array([self.amplitude, self.offset, self.share, self.white, *self.lengths]))

    def at(self, theta: Array) -> Covariance:
        amplitude, offset, share, white, *lengths = np.exp(theta)
        return replace(self, amplitude=amplitude, lengths=np.array(lengths), offset=offset, share=share, white=white)

    def between(self, rows: Array, others: Array) -> Array:
        return self.covariance(Pairs.of(rows, others))

    def covariance(self, pairs: Pairs) -> Array:
        root = np.sqrt(5.0 * pairs.squares(self.lengths))
        landscape = self.amplitude * (1.0 + root + root**2 / 3.0) * np.exp(-root)
        return self.level + self.offset * pairs.same + landscape * (pairs.same + self.share * pairs.differ)

    def slopes(self, pairs: Pairs, outer: Array) -> Array:
        """Return the gradient by the log hyperparameters of the sum of `outer` (m, n) times the covariances."""
        root = np.sqrt(5.0 * pairs.squares(self.lengths))
        decay = self.amplitude * np.exp(-root)
        own, other = outer * pairs.same, outer * self.share * pairs.differ
        landscape = (1.0 + root + root**2 / 3.0) * decay
        by_square = (own + other) * (5.0 / 3.0) * (1.0 + root) * decay
        shared = float((other * landscape).sum())
        return np.array(
            [
                float((own * landscape).sum()) + shared,
                self.offset * own.sum(),
                shared,
                self.white * np.trace(outer),
                *(by_square.ravel() @ pairs.apart / self.lengths**2),
            ]
        )


@dataclass(frozen=True, slots=True)
class Pairs:
    """Comparisons of m rows with n others: squared differences (m·n, d), and whether programs are the `same`."""

    apart: Array
    same: Array
    differ: Array

    @classmethod
    def of(cls, rows: Array, others: Array) -> Pairs:
        same = (rows[:, None, -1] == others[None, :, -1]).astype(float)
        apart = (rows[:, None, :-1] - others[None, :, :-1]) ** 2
        return cls(apart.reshape(same.size, -1), same, 1.0 - same)

    def squares(self, lengths: Array) -> Array:
        """Return the squared distances (m, n) in units of the lengths."""
        return (self.apart @ lengths**-2.0).reshape(self.same.shape)


@dataclass(frozen=True, slots=True)
class Posterior:
    """A fitted process: means and standard deviations for new rows."""

    kernel: Covariance
    rows: Array
    factor: Array
    weights: Array

    @classmethod
    def of(cls, kernel: Covariance, rows: Array, y: Array, noise: Array) -> Posterior:
        covariance = kernel.between(rows, rows)
        covariance[np.diag_indices_from(covariance)] += kernel.white + noise
        factor = cholesky(covariance, lower=True, check_finite=False)
        return cls(kernel, rows, factor, cho_solve((factor, True), y, check_finite=False))

    def predict(self, rows: Array) -> tuple[Array, Array]:
        k = self.kernel
        with one_thread():
            across = k.between(rows, self.rows)
            known = solve_triangular(self.factor, across.T, lower=True, check_finite=False)
            variance = k.level + k.offset + k.amplitude + k.white - np.einsum("ij,ij->j", known, known)
            return across @ self.weights, np.sqrt(np.maximum(variance, 0.0))


def fit(
    rows: Array, y: Array, noise: Array, *, learn: bool, prior: Variances = BROAD, quick: bool = False
) -> Posterior:
    """Condition on trials: features and program, log2 speed-ups less the prior mean, and noise variances.

    To `learn` is to go to the mode of the posterior, by a `quick` search where the prior's variances are known.
    """
    dimensions = rows.shape[1] - 1
    lengths = np.full(dimensions, _LENGTH * math.sqrt(max(1, dimensions)))
    kernel = Covariance(prior.choice, lengths, prior.program, _SHARE, prior.level, _WHITE)
    with one_thread():
        if learn:
            chosen = np.linspace(0, len(y) - 1, min(len(y), _MAX_FIT)).astype(int)
            kernel = kernel.at(_mode(kernel, rows[chosen], y[chosen], noise[chosen], quick=quick))
        return Posterior.of(kernel, rows, y, noise)


def _mode(kernel: Covariance, rows: Array, y: Array, noise: Array, *, quick: bool) -> Array:
    """Return the log hyperparameters at the mode, from one start or two and a bounded number of evaluations."""
    pairs = Pairs.of(rows, rows)
    centre, sds = kernel.theta, np.array([1.5, 1.5, 0.7, 1.5, *([_LENGTH_SIGMA] * len(kernel.lengths))])
    bounds = [(c - _BOUND_SDS * s, c + _BOUND_SDS * s) for c, s in zip(centre, sds, strict=True)]
    bounds[2] = (bounds[2][0], 0.0)  # a share of one: no two programs have more in common

    def loss(theta: Array) -> tuple[float, Array]:
        value, slope = log_likelihood(kernel.at(theta), pairs, y, noise)
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


def log_likelihood(kernel: Covariance, pairs: Pairs, y: Array, noise: Array) -> tuple[float, Array]:
    """Return the log marginal likelihood of trials and its gradient by the log hyperparameters; -inf where singular."""
    covariance = kernel.covariance(pairs)
    covariance[np.diag_indices_from(covariance)] += kernel.white + noise
    # A forecast asks hundreds of times, and scipy's checks of what it is given take longer than the work.
    factor, failed = lapack.dpotrf(covariance, lower=1, clean=1)
    if failed:
        return -math.inf, np.zeros_like(kernel.theta)
    weights, _ = lapack.dpotrs(factor, y, lower=1)
    inverse, _ = lapack.dpotrs(factor, np.eye(len(y)), lower=1)
    value = -0.5 * (y @ weights) - np.log(np.diag(factor)).sum() - 0.5 * len(y) * math.log(2 * math.pi)
    return float(value), 0.5 * kernel.slopes(pairs, np.outer(weights, weights) - inverse)
