from __future__ import annotations

import numpy as np
import pytest

from forewarp.surrogate.pretrained import MISSING, Trees


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
    trees = Trees.of_nested([first, leaf(10.0)], scale=0.5)
    rows = np.array([[1.0, 9.0], [2.0, 0.0], [2.0, 0.1], [np.nan, 0.1]])
    assert trees.predict(rows) == pytest.approx([5.5, 6.0, 6.5, 5.5])
    assert trees.predict(np.zeros((0, 2))).shape == (0,)


def test_arrays_and_back() -> None:
    trees = Trees.of_nested([split(1, -3.0, leaf(-1.0), leaf(1.0))])
    again = Trees.of_arrays(trees.arrays("a"), "a")
    rows = np.random.default_rng(0).normal(size=(20, 2)) * 5
    assert (again.predict(rows) == trees.predict(rows)).all()


def test_as_lightgbm_says() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4))
    x[rng.random(x.shape) < 0.2] = np.nan
    y = np.nan_to_num(x[:, 0]) + (np.nan_to_num(x[:, 1]) > 0) + np.isnan(x[:, 2])
    filled = np.where(np.isnan(x), MISSING, x)
    settings = {"objective": "regression", "use_missing": False, "verbose": -1, "num_threads": 1}
    booster = lightgbm.train(settings, lightgbm.Dataset(filled, y), 30)
    trees = Trees.of_nested([t["tree_structure"] for t in booster.dump_model()["tree_info"]])
    assert trees.predict(x) == pytest.approx(booster.predict(filled), abs=1e-5)


def test_other_splits_are_refused() -> None:
    with pytest.raises(ValueError, match="=="):
        Trees.of_nested([split(0, 1.0, leaf(1.0), leaf(2.0)) | {"decision_type": "=="}])
