from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from support.jobs import describe

from forewarp.core.values import Workload
from forewarp.gpu_runner.worker.check import Mismatch
from forewarp.gpu_runner.worker.guards import Guards
from forewarp.gpu_runner.worker.problem import Problem, outputs_of
from forewarp.gpu_runner.worker.stage import FRESH_CASES, ArmBuffers, Stage

REFERENCE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x, scale, n):
        {forward}

def get_inputs():
    return [{inputs}, 2.0, torch.arange(8).view(8, 1)]

def get_init_inputs():
    return []
"""
PURE = "return torch.tanh(self.linear(x)) * scale + n"
WRITES = "x.relu_()\n        return self.linear(x) * scale + n"
NORMAL, UNIT = "torch.randn(8, 16)", "torch.rand(8, 16)"


@pytest.fixture(autouse=True)
def _without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def buffers(problem: Problem, guarded: Guards, count: int) -> list[list[Any]]:
    return [
        [guarded.tensor(v.shape, v.dtype) if isinstance(v, torch.Tensor) else v for v in problem.inputs(0, "cpu")]
        for _ in range(count)
    ]


def anchors(stage: Stage) -> Sequence[list[Any]]:
    assert stage.anchor is not None
    return stage.anchor.slots


def staged(
    forward: str = PURE,
    inputs: str = NORMAL,
    *,
    mirrored: bool = True,
    perturb: bool = True,
    one_memory: bool = False,
    lean: bool | None = None,
) -> Stage:
    reference = REFERENCE.format(forward=forward, inputs=inputs)
    signature = describe(reference, Workload("w"))
    problem, guarded = Problem.load(reference, Workload("w"), 7), Guards("cpu")
    outputs = [guarded.tensor(s.shape, getattr(torch, s.dtype), f"output {s.name}") for s in signature.outputs]
    slots = buffers(problem, guarded, 3)
    return Stage(
        problem,
        problem.model("cpu"),
        ArmBuffers(slots, outputs),
        None,
        ArmBuffers(slots if one_memory else buffers(problem, guarded, 3)) if mirrored else None,
        written=signature.written,
        guards=guarded,
        perturb=perturb,
        lean=lean,
    )


def run(stage: Stage, slot: int = 0) -> None:
    """Do what an honest candidate does."""
    for result, output in zip(outputs_of(stage.model(*stage.slots[slot])), stage.outputs, strict=True):
        output.copy_(result)


def try_on(stage: Stage, slot: int = 0) -> float:
    stage.prepare(slot)
    run(stage, slot)
    stage.spoil_inputs(slot)
    stage.restore_inputs(slot)
    return stage.compare(slot)


@pytest.mark.parametrize("mirrored", [True, False])
@pytest.mark.parametrize("forward", [PURE, WRITES])
def test_an_honest_candidate_passes_everything_twice(forward: str, mirrored: bool) -> None:
    stage = staged(forward, mirrored=mirrored)
    assert stage.oracle in ("", "fp64")
    for slot in range(stage.slot_count):
        for _ in range(2):
            assert try_on(stage, slot) < 0.1
    assert stage.oracle == "fp64"
    stage.check_inputs()
    stage.check_guards()
    assert stage.kernelbench_allclose(2)


def test_triangular_inputs_stay_triangular() -> None:
    stage = staged(inputs="torch.randn(8, 16).triu()")
    stage.touch(0)
    for name in stage.cases(0):
        x = stage.slots[0][0]
        assert torch.equal(x, x.triu()), name


def test_slots_hold_different_inputs_and_mirrors_the_same() -> None:
    stage = staged()
    seen = [values[0] for values in stage.slots]
    assert not torch.equal(seen[0], seen[1])
    assert all(torch.equal(s[0], m[0]) for s, m in zip(stage.slots, anchors(stage), strict=True))
    before = seen[0].clone()
    stage.redraw(0)
    assert not torch.equal(stage.slots[0][0], before)


@pytest.mark.parametrize("mirrored", [True, False])
@pytest.mark.parametrize("forward", [PURE, WRITES])
def test_inputs_changed_in_place_are_compared_as_drawn_ones_are(forward: str, mirrored: bool) -> None:
    stage = staged(forward, mirrored=mirrored)
    for _ in range(3):
        before = stage.slots[0][0].clone()
        stage.touch(0)
        assert not torch.equal(stage.slots[0][0], before)
        assert try_on(stage) < 0.1
    stage.check_inputs()
    stage.prepare(0)
    run(stage)
    stage.outputs[0][0, 0] += 1.0
    with pytest.raises(Mismatch, match="of the elements are off"):
        stage.compare(0)


def test_rows_stay_whole_where_the_reference_returns_integers() -> None:
    # Parts of two rows in one could hold equal elements, whose order is nobody's.
    stage = staged("return x.topk(3)")
    before = stage.slots[0][0].clone()
    stage.touch(0)
    after = stage.slots[0][0]
    assert all(torch.isclose(before, row, rtol=1 / 60).all(-1).any() for row in after)
    assert not torch.isclose(before, after, rtol=1 / 60).all()


def test_where_elements_come_from_is_told_by_none_of_their_neighbours() -> None:
    """Else a look at one place would tell where those lie that were largest before."""
    stage = staged("return x.sum(-1) * scale", "torch.rand(8, 4096)")
    before = stage.slots[0][0].flatten().clone()
    stage.touch(0)
    after = stage.slots[0][0].flatten()
    order = before.sort().values
    # Each element is an old one, shrunk by less than 1.6 %; runs of 16 are copied, many twice and many not at all.
    assert bool((after <= order.max()).all())
    places = [(before[None, :] / run[:1]).sub(1.008).abs().argmin() for run in after.view(-1, 16)]
    steps = torch.stack(places).view(-1).diff()
    assert steps.unique().numel() > len(steps) / 2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_no_single_factor_tells_changed_inputs_from_drawn_ones(dtype: str) -> None:
    """A norm, a sum or a sorted list of them would else be the last one's, shrunk."""
    stage = staged("return x.float().sum(-1) * scale", f"torch.rand(8, 4096).to(torch.{dtype})")
    before = stage.slots[0][0].double().flatten().sort().values
    stage.touch(0)
    after = stage.slots[0][0].double().flatten().sort().values
    assert after.max() <= 1.0
    assert after.norm() < before.norm()
    ratios = (after / before)[before > 0.5]
    assert ratios.max() - ratios.min() > 1e-3


@pytest.mark.parametrize(
    ("inputs", "perturb"),
    [("torch.randint(0, 9, (8, 16))", True), ("torch.randn(8, 16).to(torch.float8_e4m3fn)", True), (NORMAL, False)],
)
def test_inputs_that_cannot_be_changed_are_drawn_anew_however_long_it_takes(inputs: str, perturb: bool) -> None:
    forward = "return x.float() * scale"
    stage = staged(forward, f"(__import__('time').sleep(0.01), {inputs})[1]", perturb=perturb)
    before = stage.slots[0][0].clone()
    stage.renew(0)
    assert not torch.equal(stage.slots[0][0].float(), before.float())


@pytest.mark.parametrize("arm", ["candidate", "anchor"])
def test_large_inputs_that_both_arms_have_in_one_memory_are_changed_once(arm: str) -> None:
    stage = staged(one_memory=True, lean=True)
    for _ in range(2):
        stage.touch(0, arm)
        assert try_on(stage) < 0.1


def test_outputs_are_poisoned_before_every_call() -> None:
    stage = staged()
    assert try_on(stage) < 0.1
    stage.prepare(0)
    assert bool(torch.isnan(stage.outputs[0]).all())
    with pytest.raises(Mismatch, match="not finite"):
        stage.compare(0)


def test_the_answer_to_other_inputs_is_wrong() -> None:
    stage = staged()
    stage.prepare(1)
    run(stage, 0)
    with pytest.raises(Mismatch, match="of the elements are off"):
        stage.compare(1)


@pytest.mark.parametrize("index", [0, 2])
def test_an_input_must_stay_as_it_was(index: int) -> None:
    stage = staged()
    stage.prepare(0)
    stage.slots[0][index].view(-1)[3] += 1
    with pytest.raises(Mismatch, match=f"changed its input {min(index, 1)}"):
        stage.spoil_inputs(0)
    with pytest.raises(Mismatch, match="changed its input"):
        stage.check_inputs()


def test_inputs_are_spoilt_before_delivery() -> None:
    stage = staged()
    stage.prepare(0)
    stage.spoil_inputs(0)
    run(stage, 0)  # too late
    stage.restore_inputs(0)
    with pytest.raises(Mismatch):
        stage.compare(0)


def test_what_the_reference_writes_must_be_written_alike() -> None:
    stage = staged(WRITES)
    assert stage.written == (0,)
    stage.prepare(0)
    before = stage.slots[0][0].clone()
    stage.outputs[0].copy_(stage.model(before.clone(), *stage.slots[0][1:]))
    with pytest.raises(Mismatch, match=r"output 1: .* of the elements are off"):
        stage.compare(0)
    stage.slots[0][0].relu_()
    assert stage.compare(0) < 0.1
    stage.prepare(0)
    assert torch.equal(stage.slots[0][0], before)


def test_what_the_anchor_writes_is_put_back_for_it() -> None:
    stage = staged(WRITES)
    before = anchors(stage)[1][0].clone()
    stage.model(*anchors(stage)[1])
    assert not torch.equal(anchors(stage)[1][0], before)
    stage.prepare(1, "anchor")
    assert torch.equal(anchors(stage)[1][0], before)
    alone = staged(WRITES, mirrored=False)
    before = alone.slots[1][0].clone()
    alone.model(*alone.slots[1])
    alone.prepare(1, "anchor")
    assert torch.equal(alone.slots[1][0], before)


def test_nothing_is_written_after_the_call() -> None:
    stage = staged(WRITES)
    stage.prepare(0)
    stage.spoil_inputs(0)
    run(stage, 0)
    stage.restore_inputs(0)
    with pytest.raises(Mismatch, match="went on writing to its input 0"):
        stage.compare(0)


def test_cases_are_judged_one_by_one_and_end_on_a_fresh_draw() -> None:
    stage = staged()
    seen: list[str] = []
    for name in stage.cases():
        assert try_on(stage) < 0.1
        seen.append(name)
        assert torch.equal(stage.slots[0][0], anchors(stage)[0][0])
        if name == "zeros":
            assert not stage.slots[0][0].any()
    assert seen == [
        *["fresh inputs"] * FRESH_CASES,
        "inputs × 3",
        "inputs × 100",
        "inputs + 300",
        "inputs − 300",
        "inputs + 300 σ",
        "one outlier",
        "inputs × 0.01",
        "signs flipped",
        "zeros",
        "small integers",
        "mostly zeros",
    ]
    assert float(stage.slots[0][0].std()) > 0.5
    assert try_on(stage) < 0.1


def wrong_on(stage: Stage, candidate: Callable[..., torch.Tensor], *, thorough: bool = True) -> list[str]:
    """Return the cases on which a candidate is wrong."""
    wrong: list[str] = []
    for name in stage.cases(thorough=thorough):
        stage.prepare(0)
        stage.outputs[0].copy_(candidate(*stage.slots[0]))
        try:
            stage.compare(0)
        except Mismatch:
            wrong.append(name)
    return wrong


def test_a_shortcut_for_the_usual_inputs_is_found_out() -> None:
    stage = staged("return x * scale + n", "torch.randn(8, 128)")
    # One normal number in 500 million is larger.
    wrong = wrong_on(stage, lambda x, scale, n: x.clamp(-6, 6) * scale + n)
    assert wrong == ["inputs × 3", "inputs × 100", "inputs + 300", "inputs − 300", "inputs + 300 σ", "one outlier"]


def over_rows(x: torch.Tensor, top: torch.Tensor | float) -> torch.Tensor:
    power = (x - top).exp()
    return power / power.sum(-1, keepdim=True)


def layer_norm_by_squares(x: torch.Tensor) -> torch.Tensor:
    mean, square = x.mean(-1, keepdim=True), x.square().mean(-1, keepdim=True)
    return (x - mean) * (square - mean * mean + 1e-5).rsqrt()


def layer_norm_one_by_one(x: torch.Tensor) -> torch.Tensor:
    """Follow Welford."""
    mean, squares = torch.zeros(len(x)), torch.zeros(len(x))
    for i, column in enumerate(x.T):
        off = column - mean
        mean = mean + off / (i + 1)
        squares = squares + off * (column - mean)
    return (x - mean[:, None]) * (squares / x.shape[1] + 1e-5).rsqrt()[:, None]


def layer_norm_in_two_passes(x: torch.Tensor) -> torch.Tensor:
    """Sum up one number after the other, twice."""
    mean = torch.from_numpy(x.numpy().cumsum(1, dtype=np.float32)[:, -1:]) / x.shape[1]
    squares = (x - mean).square().numpy().cumsum(1, dtype=np.float32)[:, -1:]
    return (x - mean) * (torch.from_numpy(squares) / x.shape[1] + 1e-5).rsqrt()


def group_norm_in_two_passes(x: torch.Tensor) -> torch.Tensor:
    return layer_norm_in_two_passes(x.reshape(-1, x.shape[1] // 4 * x.shape[2] * x.shape[3])).view(x.shape)


SOFTMAX, LAYER_NORM = "return torch.softmax(x, -1)", "return torch.nn.functional.layer_norm(x, x.shape[-1:])"
MAXIMUM, DEVIATION = "return x.amax(-1)", "return x.std(-1, unbiased=False)"
ROWS, IMAGES = "torch.randn(64, 2048)", "torch.randn(8, 16, 12, 12)"
MEAN, VARIANCE = "x.mean(-1, keepdim=True)", "x.var(-1, keepdim=True, unbiased=False)"


@pytest.mark.parametrize(
    ("forward", "candidate", "cases"),
    [
        (SOFTMAX, lambda x: over_rows(x, 0.0), {"inputs × 100", "inputs + 300", "inputs − 300"}),
        (SOFTMAX, lambda x: over_rows(x, x.amax(-1, keepdim=True).clamp(min=0)), {"inputs − 300"}),
        (SOFTMAX, lambda x: x.clamp(max=2000.0).softmax(-1) * (x.amax(-1, keepdim=True) < 2000), {"one outlier"}),
        (MAXIMUM, lambda x: x.amax(-1).clamp(min=0), {"inputs − 300"}),
        (LAYER_NORM, layer_norm_by_squares, {"inputs + 300", "inputs − 300"}),
        (DEVIATION, lambda x: (x.square().mean(-1) - x.mean(-1).square()).clamp(min=0).sqrt(), {"inputs + 300"}),
    ],
    ids=["softmax without maximum", "maximum from zero", "clipped", "greatest from zero", "variance", "deviation"],
)
def test_what_is_wrong_far_from_the_usual_inputs_is_found_out_on_any_workload(
    forward: str, candidate: Callable[..., torch.Tensor], cases: set[str]
) -> None:
    def judged(x: torch.Tensor, *_: Any) -> torch.Tensor:
        return candidate(x)

    assert cases <= set(wrong_on(staged(forward, "torch.randn(64, 256)"), judged))
    for inputs in ("torch.randn(64, 256)", "torch.randn(64, 9000)"):
        draws = (wrong_on(staged(forward, inputs), judged, thorough=False) for _ in range(3))
        assert any("mixed rows" in found for found in draws)  # one draw of mixed rows finds 19 of 20 deviations


@pytest.mark.parametrize("inputs", ["torch.rand(64, 256)", "0.02 * torch.randn(64, 256)", "9 * torch.randn(64, 256)"])
@pytest.mark.parametrize("dim", [-1, 0, (0, 1)], ids=["rows", "columns", "all"])
def test_a_variance_by_squares_is_found_out_however_wide_the_inputs_are(
    inputs: str, dim: int | tuple[int, int]
) -> None:
    def by_squares(x: torch.Tensor, *_: Any) -> torch.Tensor:
        mean, square = x.mean(dim, keepdim=True), x.square().mean(dim, keepdim=True)
        return (x - mean) * (square - mean * mean + 1e-5).rsqrt()

    forward = f"return (x - x.mean({dim}, True)) * (x.var({dim}, False, keepdim=True) + 1e-5).rsqrt()"
    for thorough in (True, False):
        # A single sum over everything rounds to nearly the right variance in one draw of twenty.
        draws = (wrong_on(staged(forward, inputs), by_squares, thorough=thorough) for _ in range(3))
        assert any(draws), "right on all workloads"


@pytest.mark.parametrize(
    ("forward", "inputs", "candidate"),
    [
        (LAYER_NORM, "torch.rand(64, 2048)", layer_norm_one_by_one),
        (LAYER_NORM, "torch.rand(64, 2048)", layer_norm_in_two_passes),
        (SOFTMAX, ROWS, lambda x: over_rows(x, x.amax(-1, keepdim=True))),
        (LAYER_NORM, ROWS, layer_norm_one_by_one),
        (LAYER_NORM, ROWS, layer_norm_in_two_passes),
        (
            f"return (x - {MEAN}) / torch.sqrt({VARIANCE} + 1e-5)",
            ROWS,
            lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
        ),
        ("return torch.nn.functional.group_norm(x, 4)", IMAGES, group_norm_in_two_passes),
        (
            "return torch.softmax(x.masked_fill(x > 1, -torch.inf), -1)",
            ROWS,
            lambda x: x.masked_fill(x > 1, -1e30).softmax(-1),
        ),
    ],
)
def test_honest_candidates_are_right_on_all_of_them(
    forward: str, inputs: str, candidate: Callable[..., torch.Tensor]
) -> None:
    for thorough in (True, False):
        stage = staged(forward, inputs)
        assert wrong_on(stage, lambda x, *_: candidate(x), thorough=thorough) == []


def test_perturbations_can_be_turned_off() -> None:
    assert list(staged(perturb=False).cases()) == ["fresh inputs"] * FRESH_CASES


def test_a_shortcut_for_positive_inputs_is_found_out() -> None:
    stage = staged("return torch.relu(x) * scale + n", UNIT)
    wrong = wrong_on(stage, lambda x, scale, n: x * scale + n)
    assert wrong == ["inputs − 300", "signs flipped", "small integers"]


def test_a_snapshot_tells_a_repeat_from_another_result() -> None:
    stage = staged(WRITES)
    try_on(stage)
    first = stage.snapshot(0)
    try_on(stage)
    assert stage.snapshot(0) == first
    stage.outputs[0][0, 0] = torch.nextafter(stage.outputs[0][0, 0], torch.tensor(9e9))
    assert stage.snapshot(0) != first
    assert stage.compare(0) < 0.1


def test_bytes_beside_an_output_are_watched() -> None:
    stage = staged()
    output = stage.outputs[0].view(-1)
    before = output.as_strided((1,), (1,), output.storage_offset() - 1).view(torch.uint8)
    before.bitwise_not_()  # whatever is there
    with pytest.raises(Mismatch, match="4 bytes beside output 0"):
        stage.check_guards()


def test_the_tasks_own_check_decides_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(values: list[Any], outputs: list[torch.Tensor]) -> str:
        assert len(values) == 3
        return "" if bool(torch.isfinite(outputs[0]).all()) else "not finite, says the task"

    monkeypatch.setattr(Problem, "checker", lambda self: check)
    stage = staged()
    stage.prepare(0)
    with pytest.raises(Mismatch, match="says the task"):
        stage.compare(0)
    stage.outputs[0].fill_(1.0)
    assert stage.compare(0) == 0.0
