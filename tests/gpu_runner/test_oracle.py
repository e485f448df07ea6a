"""An oracle that works on some rows at a time gives what it gives on all of them, or is not used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from forewarp.core.values import Workload
from forewarp.gpu_runner.worker import oracle as oracles
from forewarp.gpu_runner.worker.check import Mismatch
from forewarp.gpu_runner.worker.oracle import exact_in_pieces, expect, expect_alike, oracle
from forewarp.gpu_runner.worker.problem import Problem
from forewarp.gpu_runner.worker.stage import ArmBuffers, Stage
from forewarp.gpu_runner.worker.state import State


@pytest.fixture(autouse=True)
def _same_numbers() -> Any:
    torch.manual_seed(0)
    with torch.no_grad():
        yield


class Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *values: Any) -> Any:
        return self.function(*values)


SQUARE = torch.randn(33, 33)


@pytest.mark.parametrize(
    ("function", "values"),
    [
        (lambda x: torch.relu(x).softmax(-1), [torch.randn(33, 20)]),
        (lambda x, y: (x + y, x.argmax(-1)), [torch.randn(33, 20), torch.randn(33, 20)]),
        (lambda x, w, n: x @ w * n, [torch.randn(33, 16), torch.randn(16, 33), 2.0]),
        (lambda x, w: x @ w, [torch.randn(33, 33), SQUARE]),  # as many rows, but not the rows of the outputs
        (lambda x: x.mul_(2.0), [torch.randn(33, 20)]),
    ],
)
def test_pieces_give_what_the_whole_gives(function: Callable[..., Any], values: list[Any]) -> None:
    model = Function(function)
    exact, how = oracle(model, values)
    reference = [e.float() if e.is_floating_point() else e for e in exact]
    before = [v.clone() for v in values if isinstance(v, torch.Tensor)]
    found = exact_in_pieces(model, values, reference, 5 * 33 * 8)
    assert how == "fp64"
    assert found is not None
    for whole, piece in zip(exact, found, strict=True):
        parts = list(piece())
        assert len(parts) > 1
        assert [p.start for p, _ in parts[1:]] == [p.stop for p, _ in parts[:-1]]
        assert torch.allclose(torch.cat([stretch for _, stretch in parts]), whole.reshape(-1), rtol=1e-12)
    assert all(
        torch.equal(a, b) for a, b in zip(before, (v for v in values if isinstance(v, torch.Tensor)), strict=True)
    )


@pytest.mark.parametrize("kept", [False, True])
def test_where_there_is_memory_they_are_worked_out_once(kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def count(x: torch.Tensor) -> torch.Tensor:
        calls.append(len(x))
        return x.exp()

    monkeypatch.setattr(oracles, "_may_be_kept", lambda _: kept)
    values = [torch.randn(33, 20)]
    found = exact_in_pieces(Function(count), values, [values[0].exp()], 5 * 33 * 8)
    assert found is not None
    calls.clear()
    next(iter(found[0]()))  # one that is left halfway
    first, again = ([stretch.clone() for _, stretch in found[0]()] for _ in range(2))
    assert sum(calls) == (33 if kept else calls[0] + 2 * 33)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x - x.mean(0),
        lambda x: x.cumsum(0),
        lambda x: x.sum(),
        lambda x: x.t(),
        lambda x: x / x.shape[0],
        lambda x: x.float().double() if x.dtype == torch.float32 else x.to(torch.int8).numpy(),
    ],
)
def test_rows_that_depend_on_each_other_are_not_cut(function: Callable[..., Any]) -> None:
    values = [torch.randn(33, 20)]
    reference = function(values[0])
    assert exact_in_pieces(Function(function), values, [reference], 1 << 10) is None


def test_what_only_other_rows_show_is_seen_in_the_reference() -> None:
    # The first rows do not depend on each other, later ones do.
    model = Function(lambda x: torch.cat([x[:4], x[4:] - x[4:].mean(0)]) if len(x) > 4 else x)
    x = torch.randn(40, 16)
    judge, how = expect(model, [x], None, pieces=True)
    assert how == "fp64"
    assert judge.compare([model(x)]) < 0.5


def test_comparing_in_pieces_finds_one_wrong_element() -> None:
    model, x = torch.nn.Softmax(-1), torch.randn(300, 64)
    judge, _ = expect(model, [x], None, pieces=True)
    output = model(x)
    assert judge.compare([output]) < 0.1
    output[297, 3] *= 1.01
    with pytest.raises(Mismatch, match=r"first at \[297, 3\]"):
        judge.compare([output])


REFERENCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        {forward}

def get_inputs():
    return [torch.randn(64, 32)]

def get_init_inputs():
    return []
"""


def lean(forward: str = "return torch.tanh(x)", written: tuple[int, ...] = ()) -> Stage:
    problem = Problem.load(REFERENCE.format(forward=forward), Workload("w"), 0)
    slots, mirror = ([problem.inputs(0, "cpu")] for _ in range(2))
    candidate = ArmBuffers(slots, [torch.empty(64, 32)])
    return Stage(problem, problem.model("cpu"), candidate, None, ArmBuffers(mirror), written=written, lean=True)


def try_on(stage: Stage) -> float:
    stage.prepare(0)
    stage.outputs[0].copy_(stage.model(*stage.slots[0]))
    stage.spoil_inputs(0)
    stage.restore_inputs(0)
    return stage.compare(0)


def test_inputs_of_which_no_copies_are_kept_are_judged_as_others_are() -> None:
    stage = lean()
    assert stage.lean
    seen = {name: try_on(stage) < 0.1 for name in stage.cases()}
    assert len(seen) == 12
    assert all(seen.values())
    assert try_on(stage) < 0.1
    stage.outputs[0][0, 0] += 0.1
    with pytest.raises(Mismatch, match="of the elements are off"):
        stage.compare(0)
    before = stage.slots[0][0].clone()
    stage.touch(0)
    assert not torch.equal(before, stage.slots[0][0])
    assert stage.anchor is not None
    assert torch.equal(stage.anchor.slots[0][0], stage.slots[0][0])
    stage.touch(0)
    assert try_on(stage) < 0.1
    stage.check_inputs()
    for act in (stage.check_inputs, lambda: stage.touch(0)):
        stage.slots[0][0][5, 5] += 1e-6
        with pytest.raises(Mismatch, match="changed its input 0"):
            act()


def test_what_the_reference_writes_is_put_back_without_copies_of_the_rest() -> None:
    stage = lean("x.relu_()\n        return x + 1", written=(0,))
    before = stage.slots[0][0].clone()
    assert try_on(stage) < 0.1
    stage.prepare(0)
    assert torch.equal(before, stage.slots[0][0])


ALIVE = """
import torch

ROWS = []

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(32))
        self.register_buffer("total", torch.zeros(32))

    def forward(self, x):
        ROWS.append(len(x))
        self.total += x.sum(0)
        return x * self.weight + self.total * torch.rand_like(x)

def get_inputs():
    return [torch.randn(64, 32)]

def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(("state", "random"), [(("total",), False), ((), True)])
def test_a_reference_with_state_or_random_numbers_is_run_as_a_whole(state: tuple[str, ...], random: bool) -> None:
    source = ALIVE.replace(" * torch.rand_like(x)", " * 0" if state else " * 0 * torch.rand_like(x)")
    problem = replace(Problem.load(source, Workload("w"), 0), state=state, random=random)
    model = problem.model("cpu")
    expect_alike(problem, model, State(model, state), problem.inputs(0, "cpu"), None, pieces=True)
    assert set(problem.module.ROWS) == {64}


def test_state_and_random_numbers_are_judged_without_copies_of_the_inputs() -> None:
    problem = replace(Problem.load(ALIVE, Workload("w"), 0), state=("total",), random=True)
    total = torch.empty(32)
    slots, outputs = [problem.inputs(0, "cpu")], [torch.empty(64, 32)]
    stage = Stage(problem, problem.model("cpu"), ArmBuffers(slots, outputs, {"total": total}), None, lean=True)

    def run() -> float:
        stage.prepare(0)
        seed, candidate = stage.seed_of(0), problem.model("cpu")
        assert seed is not None
        torch.manual_seed(seed)
        outputs[0].copy_(candidate(*slots[0]))
        total.copy_(candidate.state_dict()["total"])
        stage.spoil_inputs(0)
        stage.restore_inputs(0)
        return stage.compare(0)

    assert stage.lean
    names = [name for name in stage.cases() if run() <= 1.0]
    assert len(names) >= 4
    assert run() <= 1.0
    total[3] += 1.0
    with pytest.raises(Mismatch, match="the buffer total"):
        stage.compare(0)
    stage.check_reference()  # its calls change the state
    stage.model.state_dict()["weight"][0] += 1.0
    with pytest.raises(Mismatch, match="weights of the reference"):
        stage.check_reference()


def summed_in_turn(x: torch.Tensor) -> torch.Tensor:
    """Sum in fp32, one after the other."""
    return torch.tensor(x.numpy().cumsum(dtype="float32")[-1])


def sum_is_refused(seed: int, candidate: Callable[[torch.Tensor], torch.Tensor]) -> bool:
    torch.manual_seed(seed)
    x = torch.randn(1 << 18)
    expected, _ = expect(Function(lambda x: x.sum()), [x], None)
    try:
        expected.compare([candidate(x)])
    except Mismatch:
        return True
    return False


@pytest.mark.parametrize("seed", [53, 62, 84, 117])
def test_a_sum_that_cancels_may_be_off_by_its_rounding(seed: int) -> None:
    assert not sum_is_refused(seed, summed_in_turn)


@pytest.mark.parametrize(
    "cheat",
    [
        lambda x: x.bfloat16().float().sum(),
        lambda x: (x.view(torch.int32) & ~0x1FFF).view(torch.float32).sum(),  # as TF32 truncates
        lambda x: x[1:].sum(),
        lambda x: x.sum() * 1.001,
    ],
    ids=["bf16", "TF32", "one left out", "a thousandth"],
)
def test_a_sum_that_is_off_by_more_is_refused_on_most_inputs(cheat: Callable[[torch.Tensor], torch.Tensor]) -> None:
    assert sum(sum_is_refused(seed, cheat) for seed in range(20)) >= 12
