from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import pytest
import torch

from forewarp.gpu_runner.worker.check import Expected
from forewarp.gpu_runner.worker.perturb import PERTURBATIONS, applied, cases, fixed_zeros, minds_range
from forewarp.gpu_runner.worker.problem import load_module


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    torch.manual_seed(0)


BY_NAME = {p.name: p for p in PERTURBATIONS}
ALL = [p.name for p in PERTURBATIONS if p.only != "larger" and p.integers != "only"]


def changed(name: str, value: torch.Tensor) -> torch.Tensor | None:
    values = applied(BY_NAME[name], [value, 3])
    if values is None:
        return None
    assert values[1] == 3
    assert (values[0].dtype, values[0].shape) == (value.dtype, value.shape)
    return values[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn])
def test_each_does_what_its_name_says(dtype: torch.dtype) -> None:
    value = torch.randn(64, 256).to(dtype)
    before = value.float().clone()
    found = {name: changed(name, value) for name in ALL}
    assert all(f is not None for f in found.values())
    wide = {name: f.float() for name, f in found.items() if f is not None}
    torch.testing.assert_close(wide["inputs × 3"], before * 3, rtol=0.07, atol=1e-2)
    assert torch.equal(wide["signs flipped"], -before)
    assert not wide["zeros"].any()
    assert set(wide["small integers"].unique().tolist()) == set(range(-4, 5))
    kept = wide["mostly zeros"] != 0
    assert 0.15 < kept.float().mean() < 0.35
    assert torch.equal(wide["mostly zeros"][kept], before[kept])
    assert torch.equal(value.float(), before)


def test_a_mask_stays_one_where_most_numbers_are_made_zero() -> None:
    mask = torch.zeros(64, 256).masked_fill(torch.rand(64, 256) < 0.3, -torch.inf)
    kept = changed("mostly zeros", mask)
    assert kept is not None
    assert set(kept.unique().tolist()) == {0.0, -torch.inf}


@pytest.mark.parametrize("nature", [torch.triu, torch.tril, torch.diag_embed])
def test_zeros_of_a_matrix_stay(nature: Callable[[torch.Tensor], torch.Tensor]) -> None:
    def draw() -> list[Any]:
        value = torch.randn(3, 64, 64)
        value[0, 0, 0] = float(torch.randint(2, ()))  # at times a zero by chance
        return [nature(value), torch.randn(3, 64, 64).relu_()]

    places = fixed_zeros(draw(), draw)
    assert places == {0}
    for perturbation in PERTURBATIONS:
        value = draw()[0]
        (new,) = applied(perturbation, [value], zeros=places) or [value]
        assert not new[value == 0].any(), perturbation.name


def test_a_symmetric_matrix_stays_one() -> None:
    value = torch.randn(3, 64, 64)
    value += value.mT.clone()
    for perturbation in PERTURBATIONS:
        (new,) = applied(perturbation, [value]) or [value]
        assert torch.equal(new, new.mT), perturbation.name


def test_a_tensor_keeps_its_range_where_that_is_minded() -> None:
    unit, positive = torch.rand(64), torch.rand(64) * 10
    for name in ALL:
        for value, most in ((unit, 1.0), (positive, 10_000.0)):
            values = applied(BY_NAME[name], [value], keep_range=True)
            assert values is None or (float(values[0].min()) >= 0.0 and float(values[0].max()) <= most)
    assert applied(BY_NAME["signs flipped"], [unit], keep_range=True) is None
    assert applied(BY_NAME["inputs × 3"], [unit], keep_range=True) is None
    assert applied(BY_NAME["mostly zeros"], [unit], keep_range=True) is not None
    assert changed("signs flipped", unit) is not None


@pytest.mark.parametrize(
    ("forward", "minds"),
    [
        ("return torch.softmax(x, -1)", False),
        ("return F.binary_cross_entropy(x, x)", True),
        ("return self.table[x.long()]", True),
        ("return [v.to(torch.int64) for v in x]", True),
    ],
)
def test_code_that_minds_the_range_is_known_by_its_names(forward: str, minds: bool) -> None:
    source = "import torch\nimport torch.nn.functional as F\nclass Model(torch.nn.Module):\n"
    source += f"  def forward(self, x):\n    {forward}\n"
    assert minds_range(load_module(source, "reference", {})) is minds


def test_integers_stay_as_they_are() -> None:
    assert applied(BY_NAME["zeros"], [torch.arange(4), 2.0]) is None
    values = applied(BY_NAME["zeros"], [torch.arange(4), torch.ones(4)])
    assert values is not None
    assert torch.equal(values[0], torch.arange(4))


def names(reference: Callable[[torch.Tensor], torch.Tensor]) -> list[str]:
    """Run all cases on a reference of one normal input."""

    def draw() -> list[Any]:
        return [torch.randn(32, 64)]

    def expect(values: Sequence[Any], scales: Sequence[float] | None = None) -> Expected:
        return Expected([reference(values[0].double())], [reference(values[0])], None, scales)

    return [name for name, _, _ in cases(expect(draw()), draw, expect, ModuleType("reference"))]


def test_all_count_for_an_ordinary_reference() -> None:
    assert names(lambda x: x.softmax(-1)) == ALL


def test_those_that_make_ties_do_not_count_where_outputs_are_integers() -> None:
    assert names(lambda x: x.argmax(-1)) == ["inputs × 3", "inputs × 32", "signs flipped"]


def test_no_perturbation_lets_the_order_of_integers_hang_on_underflow() -> None:
    # Normal quantiles, in the order of a softmax: where inputs are large, all but the first few come out as zero.
    logits = torch.special.ndtri((torch.arange(162.0) + 0.5) / 162)
    largest = max((p for p in PERTURBATIONS if p.integers != "never"), key=lambda p: float(p.change(logits).max()))
    chances = largest.change(logits).softmax(-1).topk(6).values
    assert chances.min() > torch.finfo(torch.float32).tiny


def test_those_on_which_the_reference_is_not_finite_do_not_count() -> None:
    assert names(lambda x: 1.0 / x.norm(dim=-1)) == [n for n in ALL if n != "zeros"]


def test_those_that_the_reference_refuses_do_not_count() -> None:
    def picky(x: torch.Tensor) -> torch.Tensor:
        if x.abs().max() < 1.0:
            raise ValueError("too small")
        return x * 2

    assert names(picky) == [n for n in ALL if n not in ("inputs × 0.01", "zeros")]


def test_those_on_which_the_reference_is_far_from_its_oracle_do_not_count() -> None:
    # In fp32 the sum of squares overflows at three times the input, in fp64 it does not.
    assert "inputs × 3" not in names(lambda x: (x * 1e19 / 8).square().sum(-1).sqrt())
