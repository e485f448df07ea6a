"""The weights of the pool of forecasters, as `benchmarks/py` learns them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pool_weights import FittedWeights, PooledOutcome, fit_weights

from forewarp.core import bins
from forewarp.core.errors import UsageError
from forewarp.core.values import Forecast
from forewarp.surrogate import pooling
from forewarp.surrogate.pooling import Weights

EQUAL = Weights({"learned": 0.5, "llm": 0.5}, valid={"learned": 0.5, "llm": 0.5})


def normal(mean: float, sd: float = 0.5, p_valid: float = 0.8) -> Forecast:
    return Forecast(bins.from_normal(mean, sd), p_valid, "f", mean_log2=mean, sd_log2=sd)


def outcomes(good: str, tasks: int = 5, count: int = 20) -> list[PooledOutcome]:
    """One tier knows the speed-up to 0.3 octaves and says so; the other is as sure and knows nothing."""
    rng = random.Random(3)
    found: list[PooledOutcome] = []
    for i in range(tasks * count):
        truth = rng.gauss(0.0, 1.0)
        said = {
            "learned": normal(truth + rng.gauss(0, 0.3) if good == "learned" else rng.gauss(0.0, 1.0), 0.3),
            "llm": normal(truth + rng.gauss(0, 0.3) if good == "llm" else rng.gauss(0.0, 1.0), 0.3),
        }
        valid = rng.random() < 0.7
        knows = {"learned": 0.5, "llm": 0.5, good: 0.95 if valid else 0.05}
        forecasts = {k: normal(f.mean_log2 or 0.0, 0.3, knows[k]) for k, f in said.items()}
        found.append(PooledOutcome(f"task {i % tasks}", forecasts, 2.0**truth if valid else None, valid))
    return found


@pytest.mark.parametrize(("good", "loss"), [("learned", "nll"), ("llm", "crps")])
def test_the_tier_that_knows_gets_the_weight(good: str, loss: str) -> None:
    found = fit_weights(outcomes(good), EQUAL, loss=loss)
    assert found.weights.weights[good] > 0.8
    assert found.weights.valid[good] > 0.6
    assert sum(found.weights.weights.values()) == pytest.approx(1.0, abs=1e-3)
    assert found.numbers["left_out_loss"] < found.numbers["left_out_loss_default"]
    assert found.weights.origin == f"fitted by {loss}"
    assert fit_weights(outcomes(good, tasks=3, count=5), EQUAL, loss=loss, origin="here").weights.origin == "here"


def test_outcomes_that_teach_nothing_leave_the_default() -> None:
    rng = random.Random(5)
    flat = Forecast((0.125,) * 8, 0.5, "f")
    said = [PooledOutcome(f"t{i % 4}", {"learned": flat, "llm": flat}, 2.0 ** rng.gauss(0, 1)) for i in range(40)]
    found = fit_weights(said, EQUAL)
    assert found.weights.weights == EQUAL.weights
    assert found.weights.valid == EQUAL.valid


def test_a_fit_needs_tasks_and_all_tiers() -> None:
    with pytest.raises(UsageError, match="two tasks"):
        fit_weights(outcomes("llm", tasks=1), EQUAL)
    with pytest.raises(UsageError, match="every outcome"):
        fit_weights([PooledOutcome("t", {"learned": normal(0.0)}, 1.0)], EQUAL)


def test_what_is_fitted_ships(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = Weights({"learned": 0.3, "llm": 0.7}, {"learned": 0.4, "llm": 0.6}, 0.7, "fitted")
    FittedWeights(fitted, {"rows": 3}).save(tmp_path / "w.json")
    monkeypatch.setattr(pooling, "SHIPPED", tmp_path / "w.json")
    assert pooling.shipped.__wrapped__() == fitted
