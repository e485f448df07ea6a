from __future__ import annotations

from typing import Any

import pytest
import torch

from forewarp.core.values import Workload
from forewarp.gpu_runner.worker import numerics
from forewarp.gpu_runner.worker.oracle import oracle
from forewarp.gpu_runner.worker.problem import Problem

REFUSES = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        if x.dtype == torch.float64:
            raise TypeError("fp32 only")
        if x.sum() > 1e6:
            raise ValueError("too much")
        assert not torch.backends.cudnn.allow_tf32
        return x + 1

def get_inputs():
    return [torch.ones(4)]

def get_init_inputs():
    return []
"""


def seen() -> list[Any]:
    backends: Any = torch.backends
    found = [backends.cuda.matmul.allow_tf32, backends.cudnn.allow_tf32, torch.get_float32_matmul_precision()]
    return [*found, torch.get_default_dtype(), backends.cudnn.benchmark]


@pytest.fixture(autouse=True)
def _as_before() -> Any:
    with numerics.restored():
        yield


@pytest.mark.parametrize("precision", ["highest", "high"])
@pytest.mark.parametrize("convolutions", [True, False])
def test_the_reference_keeps_its_own_numerics_after_the_oracle(precision: str, convolutions: bool) -> None:
    torch.set_float32_matmul_precision(precision)
    torch.backends.cudnn.allow_tf32 = convolutions
    before = seen()
    problem = Problem.load(REFUSES, Workload("w"), 0)
    exact, how = oracle(problem.model("cpu"), problem.inputs(0, "cpu"))
    assert how == "fp32 highest"
    assert torch.equal(exact[0], torch.full((4,), 2.0))
    assert seen() == before
    with pytest.raises(ValueError, match="too much"):
        oracle(problem.model("cpu"), [torch.full((4,), 1e6)])
    assert seen() == before


def test_settings_come_back_after_an_error() -> None:
    before = seen()

    def fails() -> None:
        with numerics.restored():
            torch.set_float32_matmul_precision("medium")
            torch.set_default_dtype(torch.float64)
            torch.backends.cudnn.allow_tf32 = False
            torch.backends.cudnn.benchmark = True
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert seen() == before


def test_programs_that_mix_torchs_old_and_new_settings_are_no_obstacle() -> None:
    backends: Any = torch.backends
    if not hasattr(backends.cudnn, "conv"):
        pytest.skip("this torch has one way of setting TF32 only")
    backends.cuda.matmul.fp32_precision = "tf32"
    backends.cudnn.conv.fp32_precision = "ieee"
    with numerics.without_tf32():
        assert backends.cuda.matmul.fp32_precision == "ieee"
        assert backends.cudnn.rnn.fp32_precision == "ieee"
    assert backends.cuda.matmul.fp32_precision == "tf32"
    assert backends.cudnn.conv.fp32_precision == "ieee"
    assert backends.cudnn.rnn.fp32_precision == "tf32"
