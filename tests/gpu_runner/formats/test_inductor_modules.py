"""Modules made of Inductor's code, as text; the code here is written by hand in its form."""

from __future__ import annotations

import pytest

from forewarp.gpu_runner.formats import inductor
from forewarp.gpu_runner.formats import plan as plans
from forewarp.gpu_runner.formats.inductor import Generated, Unfit
from forewarp.gpu_runner.worker.rewriting import TUNABLES, product_constraints

REFERENCE = '''"""A reference."""
from __future__ import annotations
import torch

ROWS = 8


class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1


def get_inputs():
    return [torch.rand(ROWS)]


def get_init_inputs():
    return []
'''
CPP = """
from torch._inductor.async_compile import AsyncCompile
async_compile = AsyncCompile()

cpp_fused_add_0 = async_compile.cpp_pybinding(['const float*', 'float*'], r'''
extern "C" void kernel(const float* in_ptr0, float* out_ptr0)
{
    #pragma omp parallel num_threads(4)
    {
    }
}
''')

async_compile.wait(globals())
del async_compile

def call(args):
    arg0_1, = args
    return (arg0_1, )


def benchmark_compiled_module():
    return None
"""
TRITON = """
triton_poi_fused_add_0 = async_compile.triton('triton_poi_fused_add_0', '''
import triton
@triton_heuristics.pointwise(
    size_hints={'x': 1024},
    filename=__file__,
    triton_meta={'signature': {'in_ptr0': '*fp32'}, 'configs': [{}]},
    inductor_meta={'grid_type': 'Grid1D'},
    min_elem_per_thread=0
)
@triton.jit
def triton_poi_fused_add_0(in_ptr0, XBLOCK : tl.constexpr):
    pass
''', device_str='cuda')

triton_red_fused_sum_1 = async_compile.triton('triton_red_fused_sum_1', '''
import triton
@triton_heuristics.reduction(
    size_hints={'x': 64, 'r0_': 4096},
    filename=__file__,
    triton_meta={'signature': {'in_ptr0': '*fp32'}},
    inductor_meta={'grid_type': 'Grid1D'}
)
@triton.jit
def triton_red_fused_sum_1(in_ptr0, XBLOCK : tl.constexpr, R0_BLOCK : tl.constexpr):
    for r0_offset in range(0, r0_numel, R0_BLOCK):
        pass
''', device_str='cuda')
"""
CONFIGURATIONS = {
    "triton_poi_fused_add_0": {"XBLOCK": 256, "num_warps": 4, "num_stages": 1},
    "triton_red_fused_sum_1": {"XBLOCK": 1, "R0_BLOCK": 2048, "num_warps": 16, "num_stages": 1},
}


def found(code: str, **fields: object) -> Generated:
    given: dict[str, object] = {
        "version": "2.13",
        "capability": "AVX512",
        "constants": {"ROWS": 4},
        "parameters": ("x",),
        "arguments": ("x", "self._parameters['w']"),
        "described": ("((4,), (1,), 'torch.float32', 'cpu', True)",),
        "result": "outputs[0]",
        "training": True,
        "threads": 4,
        "configurations": {},
    }
    return Generated(code, **(given | fields))  # pyright: ignore[reportArgumentType]


def test_options_of_the_compiler_are_tunables_its_own_choices_first() -> None:
    made = inductor.compiled(REFERENCE, "cpu", "Inductor made\n2 graphs")
    assert made.language == "python"
    assert made.tunables == plans.parse(made).defaults()
    assert made.tunables["MIN_CHUNK"] == 512
    assert "\n# No module of Inductor's generated code: Inductor made 2 graphs\n" in made.source
    compile(made.source, "made.py", "exec")  # what has to come first does
    assert inductor.compiled(REFERENCE, "cuda").tunables["PERSISTENT"] == 1


def test_a_task_of_gradients_is_compiled_with_them() -> None:
    """Under torch.no_grad() alone, a search for a backward pass had the reference for its only kernel."""
    made, usual = (inductor.compiled(REFERENCE, "cpu", gradients=g) for g in (True, False))
    assert "if torch.is_grad_enabled() is False:" in made.source
    assert "if torch.is_grad_enabled() is True:" in usual.source
    assert plans.parse(made).tunables["FREEZING"] == (0,)


def test_threads_of_cpp_kernels_are_a_tunable_and_never_more_than_the_code_counts_on() -> None:
    made = inductor.generated(REFERENCE, "cpu", found(CPP))
    assert dict(plans.parse(made).tunables) == {"THREADS": (4, 2, 1), "CONTRACT": (0, 1)}
    assert "#pragma omp parallel num_threads(@THREADS@)" in made.source
    assert "benchmark_compiled_module" not in made.source
    assert "\nROWS = 4\n" in made.source.partition("class Model(")[2]  # the workload's, after the reference's own
    compile(made.source, "made.py", "exec")


def test_code_without_a_parallel_kernel_has_nothing_to_choose() -> None:
    made = inductor.generated(REFERENCE, "cpu", found(CPP.replace("#pragma omp", "//")))
    assert made.tunables == {}


def test_triton_kernels_have_the_configuration_that_they_ran_with_and_its_neighbours() -> None:
    made = inductor.generated(REFERENCE, "cuda", found(TRITON, configurations=CONFIGURATIONS))
    choices = plans.parse(made).tunables
    assert choices["K0_XBLOCK"] == (256, 128, 512, 64, 1024)
    assert choices["K0_WARPS"] == (4, 2, 8, 1, 16)
    assert choices["K1_XBLOCK"] == (1, 2, 4)
    assert choices["K1_STAGES"] == (1, 2, 3, 4)
    assert "K0_STAGES" not in choices  # it has no loop
    assert '{"XBLOCK": @K0_XBLOCK@, "num_warps": @K0_WARPS@, "num_stages": 1}' in made.source
    assert "min_elem_per_thread" not in made.source
    assert made.source.count("@triton_heuristics.fixed_config(\n") == 2
    compile(made.source, "made.py", "exec")


def test_tiles_of_a_product_from_parts_fit_into_shared_memory_and_registers() -> None:
    given = found(TRITON, configurations=CONFIGURATIONS, tunables=TUNABLES, constraints=product_constraints(232_448))
    plan = plans.parse(inductor.generated(REFERENCE, "cuda", given))
    usual = plan.defaults()
    assert plan.allows(usual)
    assert plan.allows(usual | {"PRODUCT_COLUMNS": 128, "PRODUCT_WARPS": 8})
    assert not plan.allows(usual | {"PRODUCT_COLUMNS": 128})  # 256 registers of a thread for sums
    assert not plan.allows(usual | {"PRODUCT_DEPTH": 64, "PRODUCT_STAGES": 4})  # 288 KiB


def test_a_kernel_that_did_not_run_stays_as_it_is() -> None:
    made = inductor.generated(REFERENCE, "cuda", found(TRITON))
    assert made.tunables == {}
    assert "@triton_heuristics.pointwise(" in made.source


def test_one_name_for_two_things_is_refused() -> None:
    with pytest.raises(Unfit, match="both define call"):
        inductor.generated(REFERENCE + "\n\ndef call(x):\n    return x\n", "cpu", found(CPP))
    with pytest.raises(Unfit, match="the reference defines THREADS"):
        inductor.generated(REFERENCE.replace("ROWS = 8", "ROWS = THREADS = 8"), "cpu", found(CPP))
