"""Triton's own autotuner with forecasts, under Triton's interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forewarp.core.errors import UsageError
from forewarp.tuning import autotuner, forecasts

HOME = Path(__file__).parent


class Process:
    """A process that autotunes; `environment` is its own."""

    def __init__(self, **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, HOME / "autotuned.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | environment,
        )

    def ask(self, case: str, lock: Path | str = "", card: str = "h200") -> None:
        assert self._process.stdin
        print(json.dumps([case, str(lock), card]), file=self._process.stdin, flush=True)

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


Run = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    process = Process()

    def answer(*case: Path | str, **given: str) -> dict[str, Any]:
        process.ask(*map(str, case), **given)
        return process.answer()

    yield answer
    process.close()


@pytest.mark.parametrize(
    ("case", "benchmarked"),
    [("plain", 6), ("keep", 2), ("prune", 3), ("perf_model", 2), ("deterministic", 0)],
)
def test_only_what_is_kept_is_benchmarked(run: Run, case: str, benchmarked: int) -> None:
    found = run(case)
    assert found["benchmarked"] == benchmarked
    assert not found["told"]


def test_of_configurations_that_are_forecast_alike_one_stands_for_all() -> None:
    seconds = np.array([2.0, 1.0, 1.0, 3.0])
    ranking = autotuner.Ranking("kernel", "text", "key", list("dabc"), list("dabc"), seconds)
    assert ranking.order == [1, 0, 3, 2]


def test_timings_that_were_heard_move_the_choice(run: Run) -> None:
    # The later a configuration is benchmarked in this trial, the slower it is said to be: the first one wins.
    found = run("listen")
    assert found["benchmarked"] == 6
    assert found["labels"] == ["BLOCK=64 num_warps=1 num_stages=3"]


def test_a_lock_file_says_what_is_chosen(run: Run, tmp_path: Path) -> None:
    lock = tmp_path / "forewarp.lock.json"
    first = run("lock", lock)
    assert (first["benchmarked"], first["locked"]) == (0, [False])
    document = json.loads(lock.read_text())
    (choice,) = document["choices"].values()
    choice["configuration"] = "BLOCK=1024 num_warps=1 num_stages=3"
    lock.write_text(json.dumps(document))
    second = run("lock", lock)
    assert (second["labels"], second["locked"]) == (["BLOCK=1024 num_warps=1 num_stages=3"], [True])


@pytest.mark.slow
def test_ranks_that_start_together_choose_alike_and_share_a_lock(tmp_path: Path) -> None:
    lock = tmp_path / "forewarp.lock.json"
    ranks = [Process(PYTHONHASHSEED=str(seed)) for seed in range(2)]
    for rank in ranks:
        rank.ask("lock", lock)
    answers = [rank.answer() for rank in ranks]
    for rank in ranks:
        rank.close()
    assert {(a["benchmarked"], *a["labels"]) for a in answers} == {(0, *answers[0]["labels"])}
    (choice,) = json.loads(lock.read_text())["choices"].values()
    assert (choice["configuration"], choice["forecasts"]) == (answers[0]["labels"][0], forecasts.version())


def test_what_another_process_locked_meanwhile_is_kept(tmp_path: Path) -> None:
    mine, other = autotuner.Lock(tmp_path / "lock.json"), autotuner.Lock(tmp_path / "lock.json")
    other.keep("a", "first", "BLOCK=1")
    mine.keep("b", "second", "BLOCK=2")
    again = autotuner.Lock(tmp_path / "lock.json")
    assert (again.find("a"), again.find("b")) == ("BLOCK=1", "BLOCK=2")


def test_a_lock_that_names_what_is_not_there_is_told_and_passed_over(run: Run, tmp_path: Path) -> None:
    lock = tmp_path / "forewarp.lock.json"
    run("lock", lock)
    lock.write_text(lock.read_text().replace("num_warps", "num_wraps"))
    found = run("lock", lock)
    assert found["locked"] == [False]
    assert "num_wraps" in found["told"][0]


def test_a_lock_that_cannot_be_written_leaves_the_choice_to_triton(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = run("lock", tmp_path / "file" / "lock.json")
    assert (found["benchmarked"], found["labels"]) == (6, [])
    assert "Triton times all of them" in found["told"][0]


def test_an_unknown_card_is_told_once_and_triton_goes_its_own_way(run: Run) -> None:
    found = run("keep", card="gtx1")
    assert found["benchmarked"] == 6
    assert "'gtx1' is not known" in found["told"][0]


def test_a_file_that_is_no_lock_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lock.json").write_text("[]")
    with pytest.raises(UsageError, match="no lock file"):
        autotuner.Lock(tmp_path / "lock.json")


def test_nothing_left_to_keep_is_refused() -> None:
    with pytest.raises(UsageError, match="leaves no configuration"):
        autotuner.prune(0)


@pytest.mark.parametrize("begin", [autotuner.install, autotuner.listen, autotuner.prune, autotuner.perf_model])
def test_an_unknown_card_is_refused_where_it_is_named(begin: Callable[..., object]) -> None:
    with pytest.raises(UsageError, match="'v100' is not known") as refused:
        begin(card="v100")
    assert "h100" in str(refused.value.hint)


def test_it_cannot_be_installed_twice() -> None:
    with autotuner.install(card="h200"), pytest.raises(UsageError, match="already"):
        autotuner.install(card="h200")
