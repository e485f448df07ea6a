"""Fitting the learned forecaster's prior, on made-up kernels whose times follow a rule."""

from __future__ import annotations

from pathlib import Path

import learned_prior
import numpy as np
import pytest
from learned_prior import Data, LeftOut

from forewarp.core.trees import MISSING
from forewarp.surrogate import pretrained
from forewarp.surrogate.evaluation import metrics


@pytest.fixture(scope="module")
def kernels() -> Data:
    """Six tasks of three families; time follows two columns, a task's level a third, errors are larger where x3 > 0."""
    rng = np.random.default_rng(0)
    tasks, each = 6, 40
    x = rng.normal(size=(tasks * each, 5))
    task = np.repeat(np.arange(tasks), each)
    x[:, 2] = np.repeat(rng.normal(size=tasks), each)
    noise = rng.normal(size=len(x)) * np.where(x[:, 3] > 0, 0.6, 0.1)
    time = 2.0 + 1.5 * x[:, 0] - 0.8 * x[:, 1] + 0.5 * x[:, 2] + noise
    valid = rng.random(len(x)) < np.where(x[:, 4] > 0, 0.95, 0.5)
    return Data(
        ("a", "b", "c", "d", "e"),
        x,
        np.where(valid, time, np.nan),
        np.where(valid, 3.0 - time, np.nan),
        valid,
        np.array([f"task{t}" for t in task]),
        np.array([f"family{t // 2}" for t in task]),
        np.array([f"task{t}/{i % 8}" for i, t in enumerate(task)]),
        (None,) * len(x),  # type: ignore[arg-type]
        "0",
        "",
    )


@pytest.fixture(scope="module")
def fitted(kernels: Data) -> tuple[LeftOut, pretrained.Model]:
    out = learned_prior.left_out(kernels)
    return out, learned_prior.fit(kernels, out, {"kernels": 1})


def test_families_left_out_are_ranked(kernels: Data, fitted: tuple[LeftOut, pretrained.Model]) -> None:
    out, _ = fitted
    for task in np.unique(kernels.task):
        mask = (kernels.task == task) & kernels.valid
        assert metrics.spearman(out.looks[mask, 0], kernels.time[mask]) > 0.7
        assert metrics.spearman(out.looks[mask, 2], kernels.time[mask]) < -0.7


def test_a_model_of_all(kernels: Data, fitted: tuple[LeftOut, pretrained.Model]) -> None:
    _, model = fitted
    said = model.expect_rows(kernels.x)
    kept = kernels.valid
    assert np.corrcoef(said.time[kept], kernels.time[kept])[0, 1] > 0.8
    assert model.anchor == pytest.approx(3.0)
    wild = kernels.x[:, 3] > 0
    assert said.spread[wild].mean() > 1.03 * said.spread[~wild].mean()
    assert said.valid[kernels.x[:, 4] > 0].mean() > said.valid[kernels.x[:, 4] <= 0].mean() + 0.03
    assert said.valid.mean() == pytest.approx(kept.mean(), abs=0.05)


def test_the_same_data_give_the_same_bytes(
    kernels: Data,
    fitted: tuple[LeftOut, pretrained.Model],
    tmp_path: Path,
) -> None:
    again = learned_prior.fit(kernels, learned_prior.left_out(kernels), {"kernels": 1})
    learned_prior.save(fitted[1], tmp_path / "a.npz")
    learned_prior.save(again, tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_a_family_left_out_has_no_part_in_its_model(kernels: Data, fitted: tuple[LeftOut, pretrained.Model]) -> None:
    model = learned_prior.without(kernels, fitted[0], "family0", {})
    assert model.times == fitted[0].trees["family0"][0]


def test_a_model_is_written_and_read_as_it_was(tmp_path: Path) -> None:
    model = pretrained.shipped()
    path, again = tmp_path / "a.npz", tmp_path / "b.npz"
    learned_prior.save(model, path)
    learned_prior.save(pretrained.load(path), again)
    assert path.read_bytes() == again.read_bytes()
    rows = np.random.default_rng(0).normal(size=(9, len(model.columns)))
    assert (pretrained.load(path).expect_rows(rows).time == model.expect_rows(rows).time).all()


def leaf(value: float) -> dict[str, object]:
    return {"leaf_value": value}


def split(feature: int, threshold: float, left: dict[str, object], right: dict[str, object]) -> dict[str, object]:
    return {
        "split_feature": feature,
        "threshold": threshold,
        "decision_type": "<=",
        "left_child": left,
        "right_child": right,
    }


def test_rows_walk_to_their_leaves() -> None:
    first = split(0, 1.0, leaf(1.0), split(1, 0.0, leaf(2.0), leaf(3.0)))
    trees = learned_prior.trees_of([first, leaf(10.0)], scale=0.5)
    rows = np.array([[1.0, 9.0], [2.0, 0.0], [2.0, 0.1], [np.nan, 0.1]])
    assert trees.predict(rows) == pytest.approx([5.5, 6.0, 6.5, 5.5])
    assert trees.predict(np.zeros((0, 2))).shape == (0,)


def test_as_lightgbm_says() -> None:
    import lightgbm

    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4))
    x[rng.random(x.shape) < 0.2] = np.nan
    y = np.nan_to_num(x[:, 0]) + (np.nan_to_num(x[:, 1]) > 0) + np.isnan(x[:, 2])
    filled = np.where(np.isnan(x), MISSING, x)
    settings = {"objective": "regression", "use_missing": False, "verbose": -1, "num_threads": 1}
    booster = lightgbm.train(settings, lightgbm.Dataset(filled, y), 30)
    trees = learned_prior.trees_of([t["tree_structure"] for t in booster.dump_model()["tree_info"]])
    assert trees.predict(x) == pytest.approx(booster.predict(filled), abs=1e-5)


def test_other_splits_are_refused() -> None:
    with pytest.raises(ValueError, match="=="):
        learned_prior.trees_of([split(0, 1.0, leaf(1.0), leaf(2.0)) | {"decision_type": "=="}])
