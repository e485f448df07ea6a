from __future__ import annotations

import math
from collections.abc import Callable

import numpy
import pytest
import torch

from forewarp.core.values import Tolerance
from forewarp.gpu_runner.worker import check
from forewarp.gpu_runner.worker.check import Expected, Mismatch, repeated
from forewarp.gpu_runner.worker.perturb import PERTURBATIONS


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    torch.manual_seed(0)


def expected(exact: torch.Tensor, tolerance: Tolerance | None = None) -> Expected:
    return Expected([exact], [exact.float()], tolerance)


def test_error_is_a_fraction_of_what_is_allowed() -> None:
    # rms is 1, so an element of size 1 may be off by atol + rtol = 0.02; the reference in fp32 is exact here.
    judge = expected(torch.ones(1000, dtype=torch.float64), Tolerance(0.01, 0.01))
    output = torch.ones(1000)
    output[2] = 1.01
    assert judge.compare([output]) == pytest.approx(0.5, rel=1e-4)
    assert judge.error([output * 2]) > 40.0


def test_tiny_outputs_are_held_to_their_own_scale() -> None:
    softmax_like = torch.full((1000,), 4e-6, dtype=torch.float64)
    judge = expected(softmax_like)
    with pytest.raises(Mismatch, match="tolerance"):
        judge.compare([torch.zeros(1000)])
    assert judge.kernelbench_allclose([torch.zeros(1000)])


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_fails(value: float) -> None:
    output = torch.ones(2, 4)
    output[0, 3] = value
    judge = expected(torch.ones(2, 4, dtype=torch.float64))
    assert not judge.error([output]) <= 1.0
    with pytest.raises(Mismatch, match=r"1 elements are not finite.*first at \[0, 3\]"):
        judge.compare([output])


def test_infinities_and_nan_must_stand_where_the_oracle_has_them() -> None:
    exact = torch.tensor([1.0, float("-inf"), 2.0, float("nan")], dtype=torch.float64)
    assert expected(exact).compare([exact.float()]) <= 1.0
    for index, value in [(1, -3.0), (1, float("inf")), (3, 0.0), (0, float("nan")), (2, float("inf"))]:
        output = exact.float()
        output[index] = value
        with pytest.raises(Mismatch, match=rf"not finite or should not be; first at \[{index}\]"):
            expected(exact).compare([output])


def test_what_overflows_the_dtype_is_infinite_in_it() -> None:
    exact = torch.tensor([1.0, 1e6], dtype=torch.float64)
    judge = Expected([exact], [exact.half()], None)
    assert judge.compare([torch.tensor([1.0, float("inf")], dtype=torch.float16)]) <= 1.0


def test_quotients_halfway_between_two_values_of_fp8_may_go_either_way() -> None:
    wide = torch.randint(-16, 17, (4096,)) * 16.0
    exact = wide.to(torch.float8_e4m3fn)
    other = torch.where(torch.rand(4096) < 0.002, wide * 1.07, wide).to(torch.float8_e4m3fn)
    assert (other != exact).any()
    judge = Expected([exact.double()], [exact], None)
    assert judge.compare([other]) <= 1.0
    with pytest.raises(Mismatch, match="root mean square"):
        judge.compare([(wide * 1.07).to(torch.float8_e4m3fn)])


def test_integers_must_agree_with_oracle_or_reference() -> None:
    exact, reference = torch.tensor([1, 2, 3]), torch.tensor([1, 2, 4])
    judge = Expected([exact], [reference], None)
    assert judge.compare([torch.tensor([1, 2, 4])]) == 0.0
    assert judge.compare([torch.tensor([1, 2, 3])]) == 0.0
    with pytest.raises(Mismatch, match=r"1 of 3 integers differ; first at \[2\]: got 5, expected 3"):
        judge.compare([torch.tensor([1, 2, 5])])


def test_an_unwritten_truth_value_is_not_true() -> None:
    judge = Expected([torch.ones(8, dtype=torch.bool)], [torch.ones(8, dtype=torch.bool)], None)
    output = torch.empty(8, dtype=torch.bool)
    output.view(torch.uint8).fill_(check.POISON_BYTE)
    with pytest.raises(Mismatch, match="8 of 8"):
        judge.compare([output])


def test_complex_numbers_are_compared_by_their_parts() -> None:
    exact = torch.randn(64, dtype=torch.complex128)
    judge = Expected([exact], [exact.to(torch.complex64)], None)
    assert judge.compare([exact.to(torch.complex64)]) < 0.1
    with pytest.raises(Mismatch, match="of the elements are off"):
        judge.compare([exact.conj().resolve_conj().to(torch.complex64)])


def test_a_wrong_complex_number_is_named_by_its_own_place() -> None:
    exact = torch.ones(4, 5, 6, dtype=torch.complex128)
    wrong = exact.to(torch.complex64)
    wrong[3, 2, 1] += 9
    with pytest.raises(Mismatch, match=r"first at \[3, 2, 1\]"):
        Expected([exact], [exact.to(torch.complex64)], None).compare([wrong])


def test_the_references_own_error_widens_the_tolerance() -> None:
    exact = torch.ones(4, dtype=torch.float64)
    coarse = Expected([exact], [torch.full((4,), 1.1)], Tolerance(1e-6, 1e-6))
    assert not coarse.reference_agrees()
    assert coarse.compare([torch.full((4,), 1.3)]) < 1.0
    with pytest.raises(Mismatch):
        coarse.compare([torch.full((4,), 1.5)])


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (torch.ones(4, dtype=torch.float64), "output 0 is float64"),
        (torch.ones(2, 2), r"output 0 is float32 \[2, 2\] on cpu, the task returns float32 \[4\]"),
        (torch.nn.Parameter(torch.ones(4), requires_grad=False), "is a Parameter"),
    ],
)
def test_dtype_shape_and_type_must_be_the_tasks(output: torch.Tensor, message: str) -> None:
    with pytest.raises(Mismatch, match=message):
        expected(torch.ones(4, dtype=torch.float64)).compare([output])


def test_steps_see_every_element(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "_STEP", {"cpu": 7})
    exact = torch.randn(5, 9, dtype=torch.float64)
    judge = expected(exact)
    assert judge.compare([exact.float()]) < 0.1
    for index in (0, 6, 7, 44):
        output = exact.float()
        output.view(-1)[index] += 1.0
        with pytest.raises(Mismatch, match=rf"first at \[{index // 9}, {index % 9}\]"):
            judge.compare([output])


class TestLargeOutputs:
    """How the reference errs is seen in a part of them, whether a candidate is right in all."""

    @pytest.fixture(autouse=True)
    def _small_steps(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(check, "_STEP", {"cpu": 100})
        monkeypatch.setattr(check, "_SAMPLED", {"cpu": 2000})

    def test_every_element_of_the_candidates_is_compared(self) -> None:
        exact = torch.randn(10_000, dtype=torch.float64)
        judge = expected(exact)
        for index in (0, 150, 4999, 9999):
            output = exact.float()
            output[index] += 1.0
            with pytest.raises(Mismatch, match=rf"first at \[{index}\]"):
                judge.compare([output])

    def test_the_reference_errs_in_a_part_as_in_the_whole(self, monkeypatch: pytest.MonkeyPatch) -> None:
        exact = torch.randn(100_000, dtype=torch.float64)
        noise = 3e-4 * torch.randn(2, 100_000, dtype=torch.float64)
        reference, output = (exact + n for n in noise)
        sampled = Expected([exact], [reference.float()], None).compare([output.float()])
        monkeypatch.setattr(check, "_SAMPLED", {"cpu": 1 << 20})
        whole = Expected([exact], [reference.float()], None).compare([output.float()])
        assert whole <= sampled < 1.6 * whole  # the largest error of fewer is smaller

    def test_an_output_whose_mean_error_a_few_elements_make_up_may_err_as_the_reference_does(self) -> None:
        # Such is a product of many numbers: those few may lie where nobody has looked at the reference.
        exact = torch.randn(10_000, dtype=torch.float64)
        exact[150] = 1e12
        reference = exact.float() * (1 + 1e-5)
        assert Expected([exact], [reference], None).compare([reference.clone()]) <= 1.0

    @pytest.mark.parametrize("odd", [math.inf, math.nan, 1e300])
    def test_what_is_not_finite_is_looked_for_everywhere(self, odd: float) -> None:
        exact = torch.randn(10_000, dtype=torch.float64)
        exact[150] = odd
        judge = expected(exact)
        assert judge.compare([exact.float()]) < 0.1
        with pytest.raises(Mismatch):
            judge.compare([exact.float().nan_to_num(0.0, 0.0, 0.0)])


def test_comparing_leaves_everything_as_it_was() -> None:
    exact = torch.randn(64, dtype=torch.float64)
    reference = exact + 1e-13
    judge = Expected([exact], [reference], None)
    output, before = exact.clone(), exact.clone()
    first = judge.compare([output])
    assert judge.compare([output]) == first < 1e-3
    assert torch.equal(output, before)
    assert torch.equal(exact, before)
    assert judge.kernelbench_allclose([output])


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_comparing_on_a_gpu_finds_one_wrong_element_among_many(dtype: torch.dtype) -> None:
    exact = torch.randint(-50, 50, (3000, 5001), device="cuda").double()
    judge = Expected([exact if dtype.is_floating_point else exact.to(dtype)], [exact.to(dtype)], None)
    output = exact.to(dtype)
    assert judge.compare([output]) < 0.5
    output[2999, 4999] += 7
    with pytest.raises(Mismatch, match=r"first at \[2999, 4999\]"):
        judge.compare([output])


def test_of_many_elements_one_in_a_million_may_be_a_little_off() -> None:
    exact = torch.randn(1_000_000, dtype=torch.float64).bfloat16().double()
    exact[:2] = torch.tensor([0.5, -1.0])  # what is allowed grows with the element
    expected = Expected([exact], [exact.bfloat16()], None)
    output = exact.bfloat16()
    output[0] += 1.5 * (1.6e-2 * output[0].abs() + 1e-2)
    assert expected.compare([output]) == 1.0
    output[1] += 1.5 * (1.6e-2 * output[1].abs() + 1e-2)
    with pytest.raises(Mismatch, match="by up to"):
        expected.compare([output])
    output[:2] = exact[:2].bfloat16()
    output[0] += 0.1
    with pytest.raises(Mismatch, match="are off"):
        expected.compare([output])


def test_an_empty_output_is_right() -> None:
    assert expected(torch.empty(0, 3, dtype=torch.float64)).compare([torch.empty(0, 3)]) == 0.0


# Honest kernels in fp32 must never be accused, however they sum and whatever fast functions they use.

Matmul = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def one_by_one(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """One accumulator per element, first to last: the least accurate order that anybody uses."""
    total = torch.zeros(a.shape[0], b.shape[1])
    for k in range(a.shape[1]):
        total += a[:, k : k + 1] * b[k]
    return total


def backwards(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return one_by_one(a.flip(1), b.flip(0))


def blocked(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(a.shape[0], b.shape[1])
    for k in range(0, a.shape[1], 32):
        total += one_by_one(a[:, k : k + 32], b[k : k + 32])
    return total


def pairwise(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    half = a.shape[1] // 2
    if half == 0:
        return a * b
    return pairwise(a[:, :half], b[:half]) + pairwise(a[:, half:], b[half:])


def kahan(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    total, lost = torch.zeros(2, a.shape[0], b.shape[1])
    for k in range(a.shape[1]):
        term = a[:, k : k + 1] * b[k] - lost
        new = total + term
        lost, total = (new - total) - term, new
    return total


def fused(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Multiply and add with one rounding."""
    total = torch.zeros(a.shape[0], b.shape[1])
    for k in range(a.shape[1]):
        total = (total.double() + a[:, k : k + 1].double() * b[k].double()).float()
    return total


def tf32(t: torch.Tensor) -> torch.Tensor:
    whole = t.view(torch.int32)
    return ((whole + 0xFFF + ((whole >> 13) & 1)) & ~0x1FFF).view(torch.float32)


@pytest.mark.parametrize("draw", [torch.randn, torch.rand], ids=["normal", "positive"])
@pytest.mark.parametrize("multiply", [one_by_one, backwards, blocked, pairwise, kahan, fused])
def test_honest_products_pass(multiply: Matmul, draw: Callable[..., torch.Tensor]) -> None:
    torch.manual_seed(0)
    a, b = draw(24, 4096), draw(4096, 24)
    judge = Expected([a.double() @ b.double()], [a @ b], None)
    assert judge.compare([multiply(a, b)]) < 0.5


def test_a_single_accumulator_may_sum_half_a_million_terms() -> None:
    torch.manual_seed(0)
    a, b = torch.rand(8, 524288), torch.rand(524288, 8)
    judge = Expected([a.double() @ b.double()], [a @ b], None, sizes=[a.numel(), b.numel()])
    terms = a.unsqueeze(1) * b.t()
    output = torch.from_numpy(numpy.cumsum(terms.numpy(), axis=-1, dtype=numpy.float32)[..., -1].copy())
    assert 0.1 < judge.compare([output]) < 0.7


def summed_one_by_one(terms: torch.Tensor) -> torch.Tensor:
    return one_by_one(terms, torch.ones(terms.shape[1], 1))


def one_by_one_softmax(x: torch.Tensor) -> torch.Tensor:
    powers = (x - x.amax(-1, keepdim=True)).exp()
    return powers / summed_one_by_one(powers)


def perturbed(name: str, x: torch.Tensor) -> torch.Tensor:
    return next(p for p in PERTURBATIONS if p.name == name).change(x).float()


@pytest.mark.parametrize("name", ["inputs × 3", "inputs × 0.01", "zeros", "small integers", "mostly zeros"])
def test_a_softmax_of_8192_numbers_may_be_summed_one_by_one(name: str) -> None:
    # Where most terms are equal, all are rounded to the same side, and errors add up that cancel elsewhere.
    x = perturbed(name, torch.randn(64, 8192)) * torch.randn(8192)
    judge = Expected([x.double().softmax(-1)], [x.softmax(-1)], None)
    assert judge.compare([one_by_one_softmax(x)]) < 0.95


def test_a_softmax_of_mostly_equal_numbers_is_held_to_single_precision() -> None:
    x = torch.randn(16, 8192) * torch.randn(8192) * (torch.rand(16, 8192) < 0.05)
    judge = Expected([x.double().softmax(-1)], [x.softmax(-1)], None)
    assert judge.compare([one_by_one_softmax(x)]) > 0.1
    with pytest.raises(Mismatch):
        judge.compare([x.half().float().softmax(-1)])


@pytest.mark.parametrize("name", ["zeros", "small integers", "mostly zeros"])
def test_a_mean_of_equal_terms_may_be_summed_one_by_one(name: str) -> None:
    # The results are few and differ: that terms are equal shows in the inputs alone.
    x = perturbed(name, torch.randn(32, 8192))
    terms = torch.nn.functional.softplus(x)
    exact = torch.nn.functional.softplus(x.double()).mean(-1)
    judge = Expected([exact], [terms.mean(-1)], None, sizes=[x.numel()], repeats=repeated([x]))
    assert judge.compare([summed_one_by_one(terms).flatten() / 8192]) < 0.95
    with pytest.raises(Mismatch):
        judge.compare([terms.bfloat16().float().mean(-1) * 1.001])


def test_numbers_that_differ_do_not_count_as_repeated() -> None:
    x = torch.randn(64, 256)
    assert repeated([x]) < 0.01 * x.numel()
    assert repeated([x, torch.zeros(64, 256), torch.arange(9)]) > 0.99 * x.numel()


def test_results_that_are_mostly_zero_allow_no_more_than_others() -> None:
    exact = torch.randn(1 << 14).double().clamp(min=1.0) - 1.0
    assert (exact == 0).float().mean() > 0.8
    with pytest.raises(Mismatch):
        expected(exact).compare([(exact * (1 + 1e-3)).float()])


@pytest.mark.parametrize("lower", [tf32, lambda t: t.half().float(), lambda t: t.bfloat16().float()])
def test_products_of_lower_precision_fail(lower: Callable[[torch.Tensor], torch.Tensor]) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(64, 512), torch.randn(512, 64)
    judge = Expected([a.double() @ b.double()], [a @ b], None)
    with pytest.raises(Mismatch):
        judge.compare([lower(a) @ lower(b)])


def nudged(value: torch.Tensor, ulps: int) -> torch.Tensor:
    """Add up to so many units in the last place."""
    return (value.view(torch.int32) + torch.randint(-ulps, ulps + 1, value.shape, dtype=torch.int32)).view(
        torch.float32
    )


def test_honest_fast_functions_pass() -> None:
    torch.manual_seed(0)
    x = torch.randn(16, 2048) * 3
    fast = nudged(torch.exp2((x - x.amax(-1, keepdim=True)) * 1.4426950408889634), 2)
    softmax = Expected([x.double().softmax(-1)], [x.softmax(-1)], None)
    assert softmax.compare([fast / nudged(fast.sum(-1, keepdim=True), 2)]) < 0.5

    wide = x.double()
    exact = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
    rmsnorm = Expected([exact], [x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)], None)
    naive = summed_one_by_one(x * x) / 2048
    assert rmsnorm.compare([x * nudged(torch.rsqrt(naive + 1e-6), 2)]) < 0.5

    mean, square = x.mean(-1, keepdim=True), x.square().mean(-1, keepdim=True)
    layernorm = Expected([torch.layer_norm(wide, (2048,))], [torch.layer_norm(x, (2048,))], None)
    assert layernorm.compare([(x - mean) * nudged(torch.rsqrt(square - mean * mean + 1e-5), 2)]) < 0.5


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_half_precision_kernel_may_round_in_between(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x, w = torch.randn(64, 512, dtype=dtype), torch.randn(512, dtype=dtype)
    exact = (x.double() * w.double()).softmax(-1)
    judge = Expected([exact], [(x * w).softmax(-1)], None)
    assert judge.compare([(x.float() * w.float()).softmax(-1).to(dtype)]) < 1.0
    assert judge.compare([(x * w).float().softmax(-1).to(dtype)]) < 1.0


def test_errors_that_hide_below_the_largest_are_seen_in_their_mean_square() -> None:
    # Each element off by 0.7e-4 of 2e-4: a share of 0.35 one by one, but no fp32 kernel errs so much everywhere.
    exact = torch.where(torch.rand(4096) < 0.5, 1.0, -1.0).double()
    output = (exact * (1 + 0.7e-4)).float()
    with pytest.raises(Mismatch, match="root mean square"):
        expected(exact).compare([output])
