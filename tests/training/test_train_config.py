"""A run's file: what is written makes the same run again, and nothing judges by what is learned from."""

from __future__ import annotations

from pathlib import Path

import pytest

from forewarp.core.errors import UsageError
from forewarp.training import config
from forewarp.training.config import Config

PLAIN = {"base": "a/model", "data": {"pools": ["pool"]}}
FULL = {
    "base": 'a "quoted" \\ name with ümlauts',
    "seed": 7,
    "dtype": "float32",
    "attention": "eager",
    "data": {"pools": ["one", "two"], "history": 0, "invalid": False},
    "reward": {"shape": "decision", "validity": 0.25},
    "lora": {"rank": 4, "modules": "all-linear", "experts": ["mlp.experts.down_proj"]},
    "grpo": {"scale": "group", "vllm": True, "temperature": 0.7, "learning_rate": 1e-9},
    "watch": {"first": False},
}


@pytest.mark.parametrize("values", [PLAIN, FULL, PLAIN | {"lora": False}])
def test_what_is_written_makes_the_same_run(values: dict[str, object], tmp_path: Path) -> None:
    made = config.make(values)
    path = tmp_path / "config.toml"
    path.write_text(config.dump(made), encoding="utf-8")
    assert config.load(path) == made
    assert config.dump(config.load(path)) == config.dump(made)


def test_flags_go_before_the_file_and_leave_its_other_values(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(config.dump(config.make(FULL)), encoding="utf-8")
    found = config.load(path, {"reward": {"shape": "crps"}, "data": {"pools": ["three"]}})
    assert (found.reward.shape, found.reward.validity) == ("crps", 0.25)
    assert (found.data.pools, found.data.history) == (["three"], 0)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (PLAIN | {"rewards": {}}, "rewards"),
        (PLAIN | {"grpo": {"group": 1}}, "grpo.group"),
        (PLAIN | {"reward": {"shape": "log"}}, "reward.shape"),
        (PLAIN | {"data": {"pools": ["p"], "split": "test"}}, "test split"),
        (PLAIN | {"data": {"pools": ["p"], "watch": "test"}}, "test split"),
        (PLAIN | {"data": {"pools": ["p"], "watch": "train"}}, "both learning and watching"),
    ],
)
def test_what_is_no_run_is_refused(values: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        config.make(values)


def test_advantages_are_centred_only_unless_somebody_asks() -> None:
    assert Config.model_validate(PLAIN).grpo.scale == "none"


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        config.load(tmp_path / "nowhere.toml")
    (tmp_path / "bad.toml").write_text("base = ", encoding="utf-8")
    with pytest.raises(UsageError, match="not valid TOML"):
        config.load(tmp_path / "bad.toml")
