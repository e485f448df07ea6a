from __future__ import annotations

import pytest
import torch

from forewarp.core.values import Tolerance
from forewarp.gpu_runner.worker.check import Expected, Mismatch


def expected(exact: torch.Tensor, tolerance: Tolerance | None = None) -> Expected:
    return Expected([exact], [exact.float()], tolerance)


def test_error_is_a_fraction_of_what_is_allowed() -> None:
    # rms is 1, so an element of size 1 may be off by atol + rtol = 0.02; the reference in fp32 is exact here.
    judge = expected(torch.ones(4, dtype=torch.float64), Tolerance(0.01, 0.01))
    assert judge.compare([torch.tensor([1.0, 1.0, 1.01, 1.0])]) == pytest.approx(0.5, rel=1e-4)


def test_tiny_outputs_are_held_to_their_own_scale() -> None:
    softmax_like = torch.full((1000,), 4e-6, dtype=torch.float64)
    with pytest.raises(Mismatch, match="tolerance"):
        expected(softmax_like).compare([torch.zeros(1000)])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_fails(value: float) -> None:
    output = torch.ones(8)
    output[3] = value
    with pytest.raises(Mismatch, match=r"first at \[3\]"):
        expected(torch.ones(8, dtype=torch.float64)).compare([output])


def test_infinities_must_stand_where_the_oracle_has_them() -> None:
    exact = torch.tensor([1.0, float("-inf"), 2.0], dtype=torch.float64)
    assert expected(exact).compare([exact.float()]) <= 1.0
    with pytest.raises(Mismatch, match="not finite"):
        expected(exact).compare([torch.tensor([1.0, -3.0, 2.0])])


def test_integers_must_agree_with_oracle_or_reference() -> None:
    exact, reference = torch.tensor([1, 2, 3]), torch.tensor([1, 2, 4])
    judge = Expected([exact], [reference], None)
    assert judge.compare([torch.tensor([1, 2, 4])]) == 0.0
    assert judge.compare([torch.tensor([1, 2, 3])]) == 0.0
    with pytest.raises(Mismatch, match="1 of 3 integers"):
        judge.compare([torch.tensor([1, 2, 5])])


def test_the_references_own_error_widens_the_tolerance() -> None:
    exact = torch.ones(4, dtype=torch.float64)
    coarse = Expected([exact], [torch.full((4,), 1.1)], Tolerance(1e-6, 1e-6))
    assert coarse.compare([torch.full((4,), 1.3)]) < 1.0
    with pytest.raises(Mismatch):
        coarse.compare([torch.full((4,), 1.5)])
