"""Occupancy, waves, floors, problems and facts, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forewarp.core.inspection import Code, Inspection, Launch
from forewarp.core.roofline import bound, floor_s
from forewarp.core.values import Signature, TensorSpec
from forewarp.gpu_runner.compilers import occupancy as occupancies
from forewarp.gpu_runner.compilers.facts import facts, facts_of_kernels
from forewarp.gpu_runner.compilers.inspection import inspection
from forewarp.gpu_runner.compilers.occupancy import launch, occupancy
from forewarp.gpu_runner.devices import known_targets

H200 = known_targets()["h200"]
CODE = Code("k", 64, 0, 0, 1024, mix={"fp32": 30, "global_load": 4, "global_store": 1})
X = TensorSpec("0", (1 << 20,), "float32")
SIGNATURE = Signature("w", (X,), {}, {}, (), (X,), None, 8 << 20)


@pytest.mark.parametrize(
    ("registers", "static", "dynamic", "threads", "blocks", "limiter"),
    [
        (64, 0, 0, 128, 8, "registers"),  # 8192 of 65536 registers
        (32, 0, 0, 1024, 2, "threads"),
        (32, 0, 0, 32, 32, "blocks"),
        (32, 0, 100 << 10, 256, 2, "shared memory"),  # (100 + 1) KiB of 228
        (32, 48 << 10, 0, 256, 4, "shared memory"),
        (255, 0, 0, 256, 1, "registers"),
        (65, 0, 0, 512, 1, "registers"),  # 72 × 32 a warp: seven warps to each file of 16384, not 28.4 in all
        (255, 0, 0, 512, 0, "registers"),
        (32, 0, 228 << 10, 64, 0, "shared memory"),
    ],
)
def test_occupancy_on_an_h200(
    registers: int, static: int, dynamic: int, threads: int, blocks: int, limiter: str
) -> None:
    code = replace(CODE, registers=registers, static_shared_bytes=static)
    found = occupancy(code, threads, dynamic, H200)
    assert (found.blocks, found.limiter) == (blocks, limiter)
    assert found.warps == blocks * threads // 32
    assert found.share == found.warps / 64


def test_other_architectures_have_other_limits() -> None:
    assert occupancy(replace(CODE, registers=32), 1024, 0, known_targets()["rtx4090"]).share == 32 / 48
    assert occupancies.limits("sm_103") == occupancies.limits("sm_100")


def test_waves_and_tail() -> None:
    one = launch(CODE, (8 * 132, 1, 1), (128, 1, 1), 0, H200)
    assert (one.waves, one.tail) == (1.0, 0.0)
    more = launch(CODE, (8 * 132 + 528, 1, 1), (128, 1, 1), 0, H200)
    assert more.waves == pytest.approx(1.5)
    assert more.tail == pytest.approx(0.25)  # half of the second of two waves idles


def test_a_floor_is_made_of_bytes_or_of_operations() -> None:
    moved = replace(SIGNATURE, bytes_moved=10**9)
    assert floor_s(moved, H200) == pytest.approx((10**9 - (4 << 20)) / 4.8e12)
    assert bound(moved, H200) == "memory"
    computed = replace(SIGNATURE, flops=1e12, needed_flops=1e12)
    assert floor_s(computed, H200) == pytest.approx(1e12 / 989e12)
    assert bound(computed, H200) == "arithmetic"
    masked = replace(computed, needed_flops=0.0)
    assert floor_s(masked, H200) < 1e12 / 989e12
    assert bound(masked, H200) == "arithmetic"
    tokens = TensorSpec("0", (8,), "int8")
    assert floor_s(replace(computed, inputs=(tokens,)), H200) == pytest.approx(0.5e12 / 989e12)
    nothing = replace(H200, memory_bandwidth=None)
    assert floor_s(computed, nothing) == 0.0
    assert bound(computed, nothing) is None


def seen(*launches: Launch, signature: Signature = SIGNATURE) -> Inspection:
    return inspection(H200, "cuda", "compiled from its launch plan", [signature], {"w": launches})


GRID, BLOCK = (1056, 1, 1), (256, 1, 1)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            replace(CODE, stack_bytes=40, mix={"local_load": 3, "local_store": 2}),
            "40 bytes of local memory a thread, 5",
        ),
        (replace(CODE, widths={"global_load.16": 3, "global_load.32": 1}), "3 of 4 global loads are only 16 bits wide"),
        (replace(CODE, mix={"fp64": 9, "fp32": 1}), "computes in fp64: 9"),
        (replace(CODE, static_shared_bytes=228 << 10), "needs 233472 bytes of shared memory; a block may have 232448"),
        (replace(CODE, registers=255), "does not fit: 255 registers × 512 threads"),
    ],
)
def test_a_problem_is_named(code: Code, words: str) -> None:
    found = seen(launch(code, GRID, (512, 1, 1), 0, H200)).problems
    assert any(words in p for p in found), found


def test_a_good_launch_has_no_problem() -> None:
    assert seen(launch(CODE, GRID, BLOCK, 0, H200)).problems == ()


def test_few_blocks_and_scalar_arithmetic() -> None:
    work = replace(SIGNATURE, flops=1e12)
    found = seen(launch(CODE, (32, 1, 1), BLOCK, 0, H200), signature=work).problems
    assert "k launches 32 blocks for 132 multiprocessors" in found
    assert any("no tensor-core instruction" in p for p in found)
    tensor = replace(CODE, mix={"tensor": 4})
    assert not any("tensor-core" in p for p in seen(launch(tensor, GRID, BLOCK, 0, H200), signature=work).problems)


def test_facts_of_several_launches() -> None:
    small = replace(CODE, kernel="small", mix={"fp32": 5}, loops={"fp32": 5}, code_bytes=16)
    wide = replace(CODE, widths={"global_load.128": 4})
    found = facts(seen(launch(small, (1, 1, 1), (32, 1, 1), 0, H200), launch(wide, GRID, BLOCK, 0, H200)))
    assert found["launches"] == 2
    assert found["threads"] == 256
    assert found["code_bytes"] == 1040
    assert found["instructions"] == 40
    assert found["mix.fp32"] == pytest.approx(35 / 40)
    assert found["loop_share"] == pytest.approx(5 / 40)
    assert found["width.global_load"] == 128
    assert found["bytes_per_thread"] == pytest.approx((8 << 20) / (1056 * 256))


def test_facts_that_differ_by_workload_are_geometric_means() -> None:
    other = replace(SIGNATURE, workload="v")
    launches = {
        "w": [launch(CODE, (1056, 1, 1), BLOCK, 0, H200)],
        "v": [launch(CODE, (4224, 1, 1), BLOCK, 0, H200)],
    }
    found = facts(inspection(H200, "cuda", "", [SIGNATURE, other], launches))
    assert found["blocks"] == pytest.approx(2112)
    assert found["registers"] == 64


def test_what_is_not_known_is_left_out() -> None:
    found = facts(seen(Launch(CODE, None, None)))
    assert "waves" not in found
    assert "threads" not in found
    assert found["registers"] == 64


def test_few_warps_are_a_problem_without_tensor_cores_only() -> None:
    held = replace(CODE, static_shared_bytes=200 << 10)
    (found,) = seen(launch(held, GRID, BLOCK, 0, H200)).problems
    assert found == "k keeps only 8 warps on a multiprocessor, limited by shared memory"
    assert seen(launch(replace(held, mix={"tensor": 9}), GRID, BLOCK, 0, H200)).problems == ()


def test_a_grid_that_no_gpu_launches_is_named() -> None:
    assert seen(launch(CODE, (1, 70001, 1), BLOCK, 0, H200)).problems == (
        "k launches 70001 × 1 blocks along y and z; 65535 may be",
    )


def test_a_grid_of_no_block_has_no_waves_and_stops_nothing() -> None:
    none = launch(CODE, (0, 1, 1), BLOCK, 0, H200)
    assert (none.waves, none.occupancy is not None) == (None, True)
    assert "bytes_per_thread" not in facts(seen(none))


def test_several_kernels_have_facts_of_their_own_and_one_has_none() -> None:
    small = replace(CODE, kernel="small", registers=16, mix={"fp32": 5})
    both = seen(
        replace(launch(small, (1, 1, 1), (32, 1, 1), 0, H200), argument_bytes=64),
        replace(launch(CODE, GRID, BLOCK, 0, H200, times=3), argument_bytes=1000),
    )
    found = facts_of_kernels(both)
    assert (found["kernel.small.registers"], found["kernel.k.registers"], found["kernel.k.times"]) == (16, 64, 3)
    assert next(n.split(".")[1] for n in found) == "k"  # the one with most work comes first
    assert facts(both)["argument_bytes"] == 3064
    assert facts_of_kernels(seen(launch(CODE, GRID, BLOCK, 0, H200))) == {}
