"""Blocks of the Triton kernels in Inductor's code, forecast; the code here is in the form of torch 2.13."""

from __future__ import annotations

import pytest

from forewarp.core.values import Candidate, Task
from forewarp.gpu_runner.devices import known_targets
from forewarp.tuning import generated
from forewarp.tuning.counting import NotCounted
from forewarp.tuning.planned import TunableForecaster

H200 = known_targets()["h200"]
CODE = '''
triton_poi_fused_add_0 = async_compile.triton('triton_poi_fused_add_0', _chosen("""
import triton
import triton.language as tl

@triton_heuristics.fixed_config(
    {"XBLOCK": @K0_XBLOCK@, "num_warps": @K0_WARPS@, "num_stages": 1},
    filename=__file__,
    triton_meta={'signature': {'in_ptr0': '*fp32', 'out_ptr0': '*fp32', 'xnumel': 'i32', 'XBLOCK': 'constexpr'},
        'device': DeviceProperties(type='cuda', index=0), 'configs': [{}]},
    inductor_meta={'grid_type': 'Grid1D', 'autotune_hints': set()},
)
@triton.jit
def triton_poi_fused_add_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    xnumel = 67108864
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), None)
    tl.store(out_ptr0 + (x0), tmp0 + 1.0, None)
"""), device_str='cuda')

triton_red_fused_amax_1 = async_compile.triton('triton_red_fused_amax_1', _chosen("""
import triton
import triton.language as tl

@triton_heuristics.fixed_config(
    {"XBLOCK": @K1_XBLOCK@, "R0_BLOCK": @K1_R0_BLOCK@, "num_warps": 8, "num_stages": 1},
    filename=__file__,
    triton_meta={'signature': {'in_ptr0': '*fp32', 'out_ptr0': '*fp32', 'xnumel': 'i32', 'r0_numel': 'i32',
        'XBLOCK': 'constexpr', 'R0_BLOCK': 'constexpr'}, 'configs': [{}]},
    inductor_meta={'grid_type': 'Grid1D'},
)
@triton.jit
def triton_red_fused_amax_1(in_ptr0, out_ptr0, xnumel, r0_numel, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    xnumel = 8192
    r0_numel = 8192
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    r0_base = tl.arange(0, R0_BLOCK)[None, :]
    _tmp2 = tl.full([XBLOCK, R0_BLOCK], float("-inf"), tl.float32)
    for r0_offset in tl.range(0, r0_numel, R0_BLOCK):
        r0_index = r0_offset + r0_base
        tmp0 = tl.load(in_ptr0 + (r0_index + 8192*xindex), None)
        _tmp2 = triton_helpers.maximum(_tmp2, tmp0)
    tmp2 = triton_helpers.max2(_tmp2, 1)[:, None]
    tl.store(out_ptr0 + (xindex), tmp2, None)
"""), device_str='cuda')

class Runner:
    def call(self, args):
        arg0_1, = args
        args.clear()
        assert_size_stride(arg0_1, (8192, 8192), (8192, 1))
        with torch.cuda._DeviceGuard(0):
            buf0 = empty_strided_cuda((8192, 8192), (8192, 1), torch.float32)
            stream0 = get_raw_stream(0)
            triton_poi_fused_add_0.run(arg0_1, buf0, 67108864, stream=stream0)
            buf1 = buf0; del buf0  # reuse
            buf2 = empty_strided_cuda((8192, 1), (1, 8192), torch.float32)
            buf3 = reinterpret_tensor(buf1, (8192, 8192), (8192, 1), 0)
            triton_red_fused_amax_1.run(buf3, buf2, 8192, 8192, stream=stream0)
        return (buf2, )
'''  # fmt: skip
TUNABLES = {
    "K0_XBLOCK": (1, 32, 1024),
    "K0_WARPS": (4, 1),
    "K1_XBLOCK": (1, 64),
    "K1_R0_BLOCK": (2048, 2),
}


def test_blocks_of_all_kernels_are_forecast_together_and_tiny_ones_come_last() -> None:
    seconds, choices = zip(*generated.forecast(CODE, TUNABLES, H200), strict=True)
    assert len(choices) == 3 * 2 * 2 * 2
    assert list(seconds) == sorted(seconds)
    assert (choices[0]["K0_XBLOCK"], choices[0]["K1_R0_BLOCK"]) == (1024, 2048)
    assert choices[-1]["K0_XBLOCK"] == 1
    # 768 MB are moved: 168 µs at the data sheet's rate.
    assert 120e-6 < seconds[0] < 500e-6


def test_shapes_are_read_in_the_form_of_later_versions_too() -> None:
    sized = "assert_size_stride(arg0_1, (8192, 8192), (8192, 1))"
    later = "assert_size_stride_grouped((arg0_1,), ((8192, 8192),), ((8192, 1),), 'input')"
    assert sized in CODE
    known, grouped, unknown = (
        generated.forecast(CODE.replace(sized, line), TUNABLES, H200) for line in (sized, later, "pass")
    )
    assert grouped == known
    assert unknown == known  # a tensor of unknown shape is taken to be as large as the launch


def test_a_module_with_other_tunables_is_left_to_chance() -> None:
    for source, tunables in ((CODE, {**TUNABLES, "PRODUCT_ROWS": (64, 128)}), ("x = 1\n", TUNABLES), (CODE, {})):
        with pytest.raises(NotCounted, match="something else"):
            generated.forecast(source, tunables, H200)


def test_searches_ask_for_modules_on_a_gpu() -> None:
    table = "".join(f"{name} = {list(choices)}\n" for name, choices in TUNABLES.items())
    constants = "".join(f"{name} = {choices[0]}\n" for name, choices in TUNABLES.items())
    seed = Candidate(f'"""forewarp\n[tunables]\n{table}"""\n{constants}{CODE}', "python")
    task = Task("amax", "", "class Model: ...", {}, seeds=(seed,))
    first, second, *_ = TunableForecaster(H200, lambda _: ()).fastest_first(task, seed, [])
    assert first["K0_XBLOCK"] == 1024
    slow = [(first, 4.0)]
    assert TunableForecaster(H200, lambda _: ()).fastest_first(task, seed, slow)[0] == second
