"""References and candidates in TF32, simulated: operands of products lose thirteen bits of mantissa."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

from forewarp.gpu_runner.worker.check import Expected, Mismatch
from forewarp.gpu_runner.worker.operations import as_tf32, run_in_tf32
from forewarp.gpu_runner.worker.oracle import expect

Rounding = Callable[[torch.Tensor], torch.Tensor]


@pytest.fixture(autouse=True)
def _same_numbers() -> Any:
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def exactly(t: torch.Tensor) -> torch.Tensor:
    return t


def nearest(t: torch.Tensor) -> torch.Tensor:
    return as_tf32(t)


def truncated(t: torch.Tensor) -> torch.Tensor:
    return as_tf32(t, truncate=True)


def half(t: torch.Tensor) -> torch.Tensor:
    return t.half().float()


def bfloat(t: torch.Tensor) -> torch.Tensor:
    return t.bfloat16().float()


class Convolution(torch.nn.Module):
    """Two convolutions; `rounding` is what its numerics do to the operands of each."""

    def __init__(self, rounding: Rounding = exactly) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(16, 32, 3), torch.nn.Conv2d(32, 16, 3)
        self.rounding = rounding

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in (self.first, self.second):
            operands = x, layer.weight
            if x.dtype == torch.float32 and torch.backends.cudnn.allow_tf32:  # as cuDNN's do, by default
                operands = self.rounding(x), self.rounding(layer.weight)
            x = functional.leaky_relu(functional.conv2d(*operands) + layer.bias.view(-1, 1, 1))
        return x


class Product(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(512, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


def convolved(rounding: Rounding, like: Convolution, x: torch.Tensor) -> torch.Tensor:
    """Return what the same weights give in other numerics."""
    other = Convolution(rounding)
    other.load_state_dict(like.state_dict())
    return other(x)


DRAWS = pytest.mark.parametrize("draw", [torch.randn, torch.rand], ids=["normal", "positive"])


@DRAWS
@pytest.mark.parametrize("rounding", [nearest, truncated])
@pytest.mark.parametrize("candidate", [exactly, nearest, truncated])
def test_whoever_computes_as_precisely_as_a_reference_in_tf32_is_right(
    rounding: Rounding, candidate: Rounding, draw: Callable[..., torch.Tensor]
) -> None:
    model, x = Convolution(rounding), draw(4, 16, 20, 20)
    judge, how = expect(model, [x], None)
    assert how == "fp64"
    assert judge.accepts_tf32
    assert judge.compare([model(x)]) <= 0.55
    assert judge.compare([convolved(candidate, model, x)]) <= 1.0


@DRAWS
@pytest.mark.parametrize("rounding", [nearest, truncated])
def test_a_reference_in_tf32_does_not_let_half_precision_pass(
    rounding: Rounding, draw: Callable[..., torch.Tensor]
) -> None:
    model, x = Convolution(rounding), draw(4, 16, 20, 20)
    judge, _ = expect(model, [x], None)
    with pytest.raises(Mismatch):
        judge.compare([convolved(bfloat, model, x)])
    with pytest.raises(Mismatch, match="ten bits of mantissa"):
        judge.compare([convolved(half, model, x).half().float()])
    with pytest.raises(Mismatch):
        judge.compare([convolved(nearest, model, x) * 1.01])


def accumulated_in_half(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(x.shape[0], weight.shape[1], dtype=torch.float16)
    for k in range(x.shape[1]):
        total += x[:, k : k + 1].half() * weight[k].half()
    return total.float()


@pytest.mark.parametrize("lower", [half, bfloat])
def test_a_reference_in_fp32_does_not_let_less_pass(lower: Rounding) -> None:
    model, x = Product(), torch.randn(64, 512)
    judge, _ = expect(model, [x], None)
    assert not judge.accepts_tf32
    assert judge.compare([model(x)]) < 0.5
    with pytest.raises(Mismatch):
        judge.compare([lower(x) @ lower(model.weight)])
    allowing, _ = expect(model, [x], None, allow_tf32=True)
    with pytest.raises(Mismatch):
        allowing.compare([bfloat(x) @ bfloat(model.weight)])
    with pytest.raises(Mismatch):
        allowing.compare([accumulated_in_half(x, model.weight)])


@DRAWS
@pytest.mark.parametrize("rounding", [nearest, truncated])
def test_tf32_in_place_of_fp32_is_named_and_may_be_accepted(
    rounding: Rounding, draw: Callable[..., torch.Tensor]
) -> None:
    model, x = Product(), draw(64, 512)
    output = rounding(x) @ rounding(model.weight)
    judge, _ = expect(model, [x], None)
    with pytest.raises(Mismatch, match=r"look like TF32 .* pass --allow-tf32 .* input_precision='ieee' in tl.dot"):
        judge.compare([output])
    allowing, _ = expect(model, [x], None, allow_tf32=True)
    assert allowing.compare([output]) <= 1.0
    assert allowing.compare([model(x)]) < 0.5


@pytest.mark.parametrize(
    "wrong",
    [lambda x, w: bfloat(x) @ bfloat(w), lambda x, w: x @ w + 0.01 * torch.randn(64, 64), lambda x, w: -(x @ w)],
)
def test_other_errors_are_not_called_tf32(wrong: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
    model, x = Product(), torch.randn(64, 512)
    judge, _ = expect(model, [x], None)
    with pytest.raises(Mismatch) as caught:
        judge.compare([wrong(x, model.weight)])
    assert "TF32" not in str(caught.value)


def test_what_has_no_products_has_nothing_to_do_with_tf32() -> None:
    model, x = torch.nn.Softmax(-1), torch.randn(64, 256)
    assert run_in_tf32(model, [x], truncate=False) is None
    judge, _ = expect(model, [x], None, allow_tf32=True)
    with pytest.raises(Mismatch) as caught:
        judge.compare([nearest(x).softmax(-1)])
    assert "TF32" not in str(caught.value)


def test_tf32_keeps_ten_bits() -> None:
    x = torch.tensor([1.0, 1 + 2**-10, 1 + 2**-11, 1 + 3 * 2**-11, -1 - 2**-12, float("inf"), float("nan"), 0.0])
    assert as_tf32(x)[:6].tolist() == [1.0, 1 + 2**-10, 1.0, 1 + 2**-9, -1.0, float("inf")]
    assert as_tf32(x, truncate=True)[:5].tolist() == [1.0, 1 + 2**-10, 1.0, 1 + 2**-10, -1.0]
    assert as_tf32(x)[6].isnan()
    assert as_tf32(x.double()).dtype == torch.float64


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (torch.nn.Linear(64, 64), (8, 64)),
        (torch.nn.Conv1d(8, 8, 3), (2, 8, 32)),
        (torch.nn.ConvTranspose2d(8, 8, 3), (2, 8, 9, 9)),
        (torch.nn.LSTM(16, 16), (4, 2, 16)),
        (torch.nn.GRU(16, 16), (4, 2, 16)),
        (torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), (2, 5, 16)),
    ],
)
def test_products_are_found_in_every_kind_of_layer(module: torch.nn.Module, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    module = module.eval()
    rough = run_in_tf32(module, [x], truncate=False)
    right = module(x)
    one, other = (v[0] if isinstance(v, tuple) else v for v in (rough, right))
    error = float((one - other).square().mean().sqrt() / other.square().mean().sqrt())
    assert 1e-5 < error < 3e-3


# The distribution of the reference's own errors, not each of them alone, says what is allowed.


def coarse(exact: torch.Tensor, size: float) -> torch.Tensor:
    """Return numbers with errors of their own of so many root mean squares."""
    return (exact + size * torch.randn_like(exact)).float()


def test_a_reordering_as_coarse_as_the_reference_passes() -> None:
    exact = torch.randn(100_000, dtype=torch.float64)
    judge = Expected([exact], [coarse(exact, 0.01)], None)
    assert not judge.reference_agrees()
    for size in (0.001, 0.01, 0.015):
        assert judge.compare([coarse(exact, size)]) <= 1.0
    with pytest.raises(Mismatch):
        judge.compare([coarse(exact, 0.03)])


def test_errors_may_be_no_more_frequent_than_the_references_own() -> None:
    # One in a hundred of the reference's elements is far off: as many of the candidate's may be, and no more.
    exact = torch.randn(100_000, dtype=torch.float64)
    reference, some, many = exact.float(), exact.float(), exact.float()
    reference[:1000] += 0.05
    some[5000:5800] += 0.05
    many[5000 : 5000 + 1900] += 0.05
    judge = Expected([exact], [reference], None)
    assert judge.compare([some]) <= 1.0
    with pytest.raises(Mismatch, match="of the elements are off"):
        judge.compare([many])
    some[5000] += 1.0
    with pytest.raises(Mismatch, match="of the elements are off"):
        judge.compare([some])


def test_identical_modules_pass_however_coarse() -> None:
    exact = torch.randn(5000, dtype=torch.float64)
    for size in (1e-6, 1e-3, 0.1, 3.0):
        reference = coarse(exact, size)
        assert Expected([exact], [reference], None).compare([reference.clone()]) <= 0.55
