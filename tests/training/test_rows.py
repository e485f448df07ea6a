"""Prompts with outcomes: which rows, in which order, and what no prompt may know."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from support import training_pool

from forewarp.archive.pools.parquet import write_rows
from forewarp.core.errors import UsageError
from forewarp.surrogate.questions import Shown
from forewarp.training import rows
from forewarp.training.rows import CandidateOutcome, PromptRow

TRAIN = ["alpha", "beta"]


def ask(
    *, history: int = 6, candidates: int = 1, invalid: bool = True, seed: int = 0, wrong: int = 2
) -> list[PromptRow]:
    recorded = training_pool.rows(TRAIN, invalid=wrong)
    return rows.ask(recorded, history=history, candidates=candidates, shown=Shown(), invalid=invalid, seed=seed)


def test_only_the_wanted_splits_are_read(tmp_path: Path) -> None:
    found = rows.read([training_pool.write(tmp_path / "pool.parquet")], ("train", "validation"))
    assert {k: {r.task.name for r in v} for k, v in found.items()} == {"train": set(TRAIN), "validation": {"gamma"}}


def test_splits_that_share_a_family_are_refused(tmp_path: Path) -> None:
    made = training_pool.rows()
    leaked = [
        replace(r, origin=replace(r.origin, family="alpha family")) if r.task.name == "gamma" else r for r in made
    ]
    write_rows(leaked, tmp_path / "pool.parquet")
    with pytest.raises(UsageError, match="alpha family"):
        rows.read([str(tmp_path / "pool.parquet")], ("train", "validation"))


def test_a_leak_between_two_files_is_refused(tmp_path: Path) -> None:
    write_rows(training_pool.rows(TRAIN), tmp_path / "a.parquet")
    again = [replace(r, origin=replace(r.origin, split="validation")) for r in training_pool.rows(["alpha"])]
    write_rows(again, tmp_path / "b.parquet")
    with pytest.raises(UsageError):
        rows.read([str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")], ("train", "validation"))


def test_an_empty_split_is_refused(tmp_path: Path) -> None:
    write_rows(training_pool.rows(TRAIN), tmp_path / "pool.parquet")
    with pytest.raises(UsageError, match="validation"):
        rows.read([str(tmp_path / "pool.parquet")], ("train", "validation"))


def test_each_candidate_is_asked_about_once() -> None:
    for candidates in (1, 3, 8):
        asked = ask(candidates=candidates)
        kernels = [o.kernel for r in asked for o in r.outcomes]
        assert len(kernels) == len(set(kernels)) == 2 * training_pool.EACH
    assert sum(o.speedup is None for r in ask() for o in r.outcomes) == 4
    assert all(o.speedup is not None for r in ask(invalid=False) for o in r.outcomes)


def test_no_prompt_shows_a_trial_of_what_it_asks_about() -> None:
    block = {r.candidate.sha256: r.candidate.tunables["BLOCK"] for r in training_pool.rows(TRAIN, invalid=2)}
    shown = 0
    for row in ask(candidates=3):
        before, asked = (
            re.findall(r"### .*BLOCK = (\d+)", part) for part in row.user.split("## Candidates to forecast")
        )
        assert asked == [str(block[o.kernel]) for o in row.outcomes]
        assert not set(before) & set(asked)
        shown += len(before)
    assert shown


def test_trials_are_drawn_by_the_seed() -> None:
    one, same, other = ([r.user for r in ask(seed=s)] for s in (1, 1, 2))
    assert one == same
    assert one != other
    assert len({r.user for r in ask(history=0)}) == 2 * training_pool.EACH


def test_any_stretch_has_each_stratum_in_proportion() -> None:
    def row(family: str, speedup: float, place: int) -> PromptRow:
        return PromptRow("t", family, "s", str(place), (CandidateOutcome(f"k{place}", speedup),))

    made = [row("big", 0.6, i) for i in range(60)] + [row("big", 1.2, 60 + i) for i in range(30)]
    made += [row("small", 1.2, 90 + i) for i in range(10)]
    order = rows.ordered(made, 200, 3)
    assert Counter(r.user for r in order) == {str(i): 2 for i in range(100)}
    whole = Counter(r.stratum for r in made)
    for start in range(0, 200, 10):
        part = Counter(r.stratum for r in order[start : start + 10])
        assert all(abs(part[s] - n / 10) <= 1 for s, n in whole.items())
    assert rows.ordered(made, 200, 3) == order
    assert rows.ordered(made, 200, 4) != order


def test_climatology_counts_valid_outcomes() -> None:
    found = rows.climatology(training_pool.rows(["alpha"], invalid=2))
    assert sum(found) == pytest.approx(1)
    assert found[2] == pytest.approx(5.5 / 12)
    assert found[4] == pytest.approx(3.5 / 12)
