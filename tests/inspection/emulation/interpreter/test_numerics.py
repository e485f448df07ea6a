"""Number formats against torch's, and the math library against the standard one."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from forewarp.inspection.emulation.interpreter import libdevice, numerics, reductions

ODD = [0.0, -0.0, 1.0, -1.5, 3.14159, 1e-30, -1e30, 65504.0, 65520.0, 3.3e38, math.inf, -math.inf, 1e-41]


def samples() -> torch.Tensor:
    torch.manual_seed(3)
    return torch.cat([torch.tensor(ODD), torch.randn(500) * 10.0 ** torch.randint(-6, 6, (500,))])


def test_bf16_is_rounded_as_torch_rounds_it() -> None:
    values = samples()
    wanted = values.bfloat16()
    assert torch.equal(torch.from_numpy(numerics.round_bf16(values.numpy())), wanted.float())
    bits = torch.from_numpy(numerics.bf16_to_bits(values.numpy()).view(np.int16)).view(torch.bfloat16)
    assert torch.equal(bits, wanted)
    again = numerics.bf16_from_bits(wanted.view(torch.int16).numpy().view(np.uint16))
    assert torch.equal(torch.from_numpy(again), wanted.float())
    assert np.isnan(numerics.round_bf16(np.array([np.nan], np.float32))).all()


def test_tf32_cuts_off_thirteen_bits() -> None:
    one = np.float32(1.0)
    values = np.array([one, one + 2.0**-10, one + 2.0**-11, -(one + 2.0**-11), np.inf], np.float32)
    assert numerics.as_tf32(values).tolist() == [1.0, 1.0 + 2.0**-10, 1.0, -1.0, np.inf]
    double = np.array([1.1])
    assert numerics.as_tf32(double) is double


@pytest.mark.parametrize("kind", ["fp8e5", "fp8e4nv"])
def test_fp8_goes_there_and_back(kind: str) -> None:
    every = np.arange(256, dtype=np.uint8)
    values = numerics.fp8_values(every, kind)
    finite = np.isfinite(values)
    assert numerics.fp8_values(numerics.fp8_bits(values[finite], kind), kind).tolist() == values[finite].tolist()
    assert np.isfinite(numerics.fp8_values(numerics.fp8_bits(np.array([1e9], np.float32), kind), kind)).all()


def test_integers_saturate() -> None:
    values = np.array([1.9, -1.9, 3e9, -3e9, np.nan, np.inf], np.float32)
    assert numerics.to_integers(values, np.dtype(np.int32)).tolist() == [1, -1, 2**31 - 1, -(2**31), 0, 2**31 - 1]


def test_rounding_towards_zero_never_grows() -> None:
    values = np.array([1.0009, -1.0009, 60000.0, 1.00001], np.float32)
    for kind in ("bf16", "fp16"):
        assert (np.abs(numerics.towards_zero(values, kind)) <= np.abs(values)).all()


def test_the_math_library_computes_what_its_names_say() -> None:
    x = np.array([0.25, 0.5, 1.5], np.float32)
    for symbol, function in {
        "__nv_expf": math.exp,
        "__nv_fast_logf": math.log,
        "__nv_tanhf": math.tanh,
        "__nv_erff": math.erf,
        "__nv_rsqrtf": lambda v: v**-0.5,
        "__nv_exp2f": lambda v: 2.0**v,
        "__nv_normcdff": lambda v: 0.5 * (1 + math.erf(v / math.sqrt(2))),
        "__nv_lgammaf": math.lgamma,
    }.items():
        found = libdevice.find(symbol)
        assert found is not None, symbol
        assert np.allclose(found(x), [function(v) for v in x.tolist()], rtol=1e-5), symbol
    power, popc, clz, ffs = (libdevice.find(f"__nv_{n}") for n in ("powf", "popc", "clz", "ffs"))
    assert power is not None
    assert np.allclose(power(x, x), [v**v for v in x.tolist()])
    assert popc is not None
    assert clz is not None
    assert ffs is not None
    whole = np.array([0, 1, 8, -1], np.int32)
    assert popc(whole).tolist() == [0, 1, 1, 32]
    assert clz(whole).tolist() == [32, 31, 28, 0]
    assert ffs(whole).tolist() == [0, 1, 4, 1]
    assert libdevice.find("__nv_nothing") is None


def test_narrow_sums_are_rounded_at_each_step() -> None:
    ones = np.ones(4096, np.float32)
    assert float(reductions.sum_of(ones, 0, keep_dims=False, bf16=True)) == 4096
    mixed = np.concatenate([[256.0], np.full(255, 0.5)]).astype(np.float32)
    exact = reductions.sum_of(mixed, 0, keep_dims=False, bf16=False)
    assert float(exact) == 383.5
    narrow = float(reductions.sum_of(mixed, 0, keep_dims=False, bf16=True))
    assert narrow != 383.5
    assert abs(narrow - 383.5) < 8
    matrix = np.arange(8, dtype=np.float16).reshape(2, 4)
    assert reductions.sum_of(matrix, 1, keep_dims=True, bf16=False).tolist() == [[6.0], [22.0]]
    assert reductions.sum_of(matrix, None, keep_dims=False, bf16=False) == 28


def test_a_tree_and_a_scan_keep_the_order_of_what_they_combine() -> None:
    words = np.array(list("abcdefgh"), dtype=object)
    assert reductions.tree([words], lambda a, b: [a[0] + b[0]])[0] == "abcdefgh"
    assert reductions.running([words], lambda a, b: [a[0] + b[0]])[0].tolist() == [
        "abcdefgh"[: i + 1] for i in range(8)
    ]
