"""Triton's own autotuner with forecasts, under Triton's interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forewarp.core.errors import UsageError
from forewarp.core.values import Target
from forewarp.gpu_runner import devices
from forewarp.tuning import autotuner, forecasts
from forewarp.tuning.locks import Lock, LockKey
from forewarp.tuning.space import Space, TensorArgument

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
    ranking = autotuner.Ranking("text", list("dabc"), seconds)
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
    mine, other = Lock(tmp_path / "lock.json"), Lock(tmp_path / "lock.json")
    first, second = LockKey("first", "a0", "h200: N=1"), LockKey("second", "b0", "h200: N=1")
    other.keep(first, "BLOCK=1")
    assert mine.find(first, ["BLOCK=1", "BLOCK=2"]) == ("BLOCK=1", "")
    mine.keep(second, "BLOCK=2")
    assert Lock(tmp_path / "lock.json").find(first, ["BLOCK=1"]) == ("BLOCK=1", "")


def test_a_lock_made_for_a_card_elsewhere_holds_on_that_card() -> None:
    space = Space("scale", "def scale(): pass", {"x": TensorArgument("float32", (8,)), "M": 3}, [], [])
    driver = Target("NVIDIA H100 80GB HBM3", "cuda", "sm_90", 132, 3e12)
    keys = [LockKey.of(space, {"N": 8}, t) for t in (devices.known_targets()["h100"], driver)]
    assert keys[0] == keys[1]
    assert keys[0].call == "h100: N=8 x=float32"
    assert LockKey.of(space, {"N": 8}, devices.known_targets()["h200"]) != keys[0]
    helped = replace(space, helpers={"f": "def f(): pass"})
    assert LockKey.of(helped, {"N": 8}, driver).text != keys[0].text


def test_a_lock_that_names_what_is_not_there_is_told_and_passed_over(run: Run, tmp_path: Path) -> None:
    lock = tmp_path / "forewarp.lock.json"
    run("lock", lock)
    text = lock.read_text()
    lock.write_text(text.replace("num_warps", "num_wraps"))
    found = run("lock", lock)
    assert found["locked"] == [False]
    assert "num_wraps" in found["told"][0]
    assert "chosen anew" in found["told"][0]
    lock.write_text(text.replace(forecasts.version(), "1999.1"))
    found = run("lock", lock)
    assert found["locked"] == [True]
    assert "forecasts 1999.1" in found["told"][0]
    (name,) = json.loads(text)["choices"]
    lock.write_text(text.replace(name.split()[1], "0123456789abcdef"))
    found = run("lock", lock)
    assert found["locked"] == [False]
    assert "another text of add" in found["told"][0]


def test_a_lock_that_cannot_be_written_is_told_and_the_choice_stays_the_forecasts(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = run("lock", tmp_path / "file" / "lock.json")
    assert (found["benchmarked"], len(found["labels"])) == (0, 1)
    assert "could not be written" in found["told"][0]


def test_an_unknown_card_is_told_once_and_triton_goes_its_own_way(run: Run) -> None:
    found = run("keep", card="gtx1")
    assert found["benchmarked"] == 6
    assert "'gtx1' is not known" in found["told"][0]


def test_a_file_that_is_no_lock_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lock.json").write_text("[]")
    with pytest.raises(UsageError, match="no lock file"):
        Lock(tmp_path / "lock.json")


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


COMPILED = """
import sys

import torch
import torch.utils._triton
import triton
import triton.language as tl

import forewarp.triton

torch.utils._triton.has_triton = lambda *_, **__: True  # the graph is looked at, not run
hook = {
    "prune": {"early_config_prune": forewarp.triton.prune(keep=2, card="h200")},
    "perf_model": {"perf_model": forewarp.triton.perf_model(card="h200"), "top_k": 2},
}[sys.argv[1]]


@triton.autotune([triton.Config({"BLOCK": b}) for b in (64, 256, 1024)], key=["N"], prune_configs_by=hook)
@triton.jit
def copy(x, o, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < N), mask=i < N)


def backend(graph, _):
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table as table

    launches = [node.kwargs["kernel_idx"] for node in graph.graph.nodes if "triton" in str(node.target)]
    print(*(len(table.get_kernel(index).configs) for index in launches))
    return lambda x: (x,)


def run(x):
    o = torch.empty_like(x)
    copy[lambda meta: (triton.cdiv(o.numel(), meta["BLOCK"]),)](x, o, o.numel())
    return o


torch.compile(run, backend=backend, fullgraph=True)(torch.ones(4096))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("hook", "kept"), [("prune", "3"), ("perf_model", "2")])
def test_hooks_step_aside_under_torch_compile(tmp_path: Path, hook: str, kept: str) -> None:
    path = tmp_path / "compiled.py"
    path.write_text(COMPILED)
    done = subprocess.run([sys.executable, path, hook], capture_output=True, text=True, check=False)
    assert done.stdout.split() == [kept], done.stderr


def compiled(tmp_path: Path, case: str, **given: object) -> dict[str, Any]:
    command = [sys.executable, HOME / "compiled.py", case, json.dumps(given)]
    environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["static", "dynamic"])
def test_inductor_is_given_what_is_kept_of_a_kernel(tmp_path: Path, case: str) -> None:
    found = compiled(tmp_path, case, keep=1)
    # Graphs that were stored before are not taken, nor are these afterwards.
    assert found["before"] == found["after"] == [[64, 256, 1024], ["PrecomputedGrid"]]
    assert (len(found["during"][0]), found["during"][1]) == (1, ["FixedGrid"])
    assert found["choices"] == [["copy", 3, 1, False]]
    assert not found["told"]


@pytest.mark.slow
def test_a_lock_file_holds_under_inductor(tmp_path: Path) -> None:
    lock = tmp_path / "forewarp.lock.json"
    compiled(tmp_path, "static", lock=str(lock))
    document = json.loads(lock.read_text())
    (choice,) = document["choices"].values()
    choice["configuration"] = "BLOCK=1024 num_warps=4 num_stages=3"
    lock.write_text(json.dumps(document))
    found = compiled(tmp_path, "static", lock=str(lock))
    assert (found["during"][0], found["choices"]) == ([1024], [["copy", 3, 1, True]])


@pytest.mark.slow
def test_inductor_times_what_is_kept_and_stores_no_best_of_it(tmp_path: Path) -> None:
    found = compiled(tmp_path, "own", keep=1)
    assert found["during"] == [[1024], False]


@pytest.mark.slow
def test_what_is_kept_is_compiled_side_by_side() -> None:
    done = subprocess.run([sys.executable, HOME / "together.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"in_main_thread": [False] * 3, "left": [0] * 3}
