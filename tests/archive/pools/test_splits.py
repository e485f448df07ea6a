"""Splits by family, and what may not lie in two of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from forewarp.archive.pools import splits
from forewarp.archive.pools.splits import Keyed, Leaks
from forewarp.core.errors import UsageError

ROOT = Path(__file__).parents[3]
ROW = Keyed("train", "softmax", "reduction", "t1", "p1", "x1", "c1")
OTHER = Keyed("test", "sort", "sort_topk", "t2", "p2", "x2", "c2")


def test_each_family_has_one_split() -> None:
    table = splits.load()
    assert table == splits.load(ROOT / "pool" / "splits.toml")
    assert table["gemm"] == "train"
    assert table["scan"] == "validation"
    assert table["quantised_gemm"] == "test"
    assert set(table.values()) == set(splits.NAMES)


def test_every_bundled_task_is_of_a_known_family() -> None:
    from forewarp.gpu_runner.formats import task as tasks

    table = splits.load()
    families = {name: tasks.load(name).family for name in tasks.bundled()}
    assert all(table[family] for family in families.values()), families
    assert families["topk_gate"] == "sort_topk"


def test_what_a_name_is_said_to_be_goes_first() -> None:
    table = {"scan": "validation", "gemm": "train"}
    assert splits.place("a", "scan", table, None) == ("scan", "validation")
    assert splits.place("a", "scan", table, {"a": "gemm"}) == ("gemm", "train")
    assert splits.place("a", "odd", table, {"b": "gemm"}) == ("odd", "")
    assert splits.place("a", "", table, {}) == ("", "")


@pytest.mark.parametrize(
    ("shared", "says"),
    [
        ({"task_sha256": "t1"}, "task t1"),
        ({"family": "reduction"}, "family reduction"),
        ({"program": "p1"}, "program p1"),
        ({"text": "x1"}, "stripped text x1"),
        ({"code": "c1"}, "compiled code c1"),
    ],
)
def test_what_lies_in_two_splits_is_named(shared: dict[str, str], says: str) -> None:
    leaks = Leaks()
    for row in (ROW, OTHER, replace(OTHER, **shared), ROW):
        leaks.add(row)
    assert leaks.found() == [f"{says} is in test (sort) and train (softmax)"]
    with pytest.raises(UsageError, match=says):
        splits.refuse(leaks.found())


def test_rows_without_a_split_and_unknown_keys_leak_nothing() -> None:
    leaks = Leaks()
    leaks.add(ROW)
    leaks.add(replace(ROW, split=""))
    leaks.add(replace(OTHER, code="", program="", text=""))
    leaks.add(replace(ROW, code="", program="", text=""))
    assert leaks.found() == []
    splits.refuse([])


@pytest.mark.parametrize("text", ["[families]\nscan = 'testing'", "families = 3", "", "[families"])
def test_a_malformed_table_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(UsageError, match=r"s\.toml"):
        splits.load(tmp_path / "s.toml")
    with pytest.raises(UsageError, match="cannot be read"):
        splits.load(tmp_path / "none.toml")
