"""What the emulated device does as a GPU does, and which mistakes it finds; a second or two for each kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import emulated as samples

from forewarp.core.checking import Check
from forewarp.core.values import Candidate, Task
from forewarp.gpu_runner.executors.local import LocalExecutor

pytestmark = pytest.mark.slow


def run(checks: LocalExecutor, task: Task, candidate: Candidate) -> Check:
    return checks.check(task, candidate, 30.0)


MMA = """
const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
for (int m = 0; m < 32; m += 16)
for (int n = 0; n < 16; n += 8) {
    float c[4] = {};
    for (int q = 0; q < 64; q += 16) {
        unsigned a[4], b[2];
        const auto pair = [](half lo, half hi) { return (unsigned)__half_as_ushort(hi) << 16 | __half_as_ushort(lo); };
        for (int i = 0; i < 4; i++) {
            const half* p = x + (m + g + i % 2 * 8) * 64 + q + t * 2 + i / 2 * 8;
            a[i] = pair(p[0], p[1]);
        }
        for (int i = 0; i < 2; i++) {
            const half* p = w + (q + t * 2 + i * 8) * 16 + n + g;
            b[i] = pair(p[0], p[16]);
        }
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};" : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
    for (int i = 0; i < 4; i++) y[(m + g + i / 2 * 8) * 16 + n + t * 2 + i % 2] = c[i];
}
"""
WMMA = """
using namespace nvcuda;
wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
for (int m = 0; m < 32; m += 16) {
    wmma::fill_fragment(c, 0.0f);
    for (int q = 0; q < 64; q += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
        wmma::load_matrix_sync(a, x + m * 64 + q, 64);
        wmma::load_matrix_sync(b, w + q * 16, 16);
        wmma::mma_sync(c, a, b, c);
    }
    wmma::store_matrix_sync(y + m * 16, c, 16, wmma::mem_row_major);
}
"""


@pytest.mark.parametrize(("body", "header"), [(MMA, "cuda_fp16.h"), (WMMA, "mma.h")])
def test_matrix_instructions(checks: LocalExecutor, body: str, header: str) -> None:
    candidate = samples.launched(
        '"x", "w", "y"', "const half* x, const half* w, float* y", body, 32, "1", 0, f"#include <{header}>", '"x", "w"'
    )
    check = run(checks, samples.PRODUCT, candidate)
    assert check.status == "ok", check
    assert check.findings == ()


GROUPS = """
namespace cg = cooperative_groups;
cg::thread_block_tile<32> tile = cg::tiled_partition<32>(cg::this_thread_block());
float sum = 0.0f;
for (int c = tile.thread_rank(); c < cols; c += 32) sum += x[blockIdx.x * cols + c];
sum = cg::reduce(tile, sum, cg::plus<float>());
if (tile.thread_rank() == 0) y[blockIdx.x] = sum;
"""
ATOMICS = """
__shared__ float total;
if (threadIdx.x == 0) total = 0.0f;
__syncthreads();
float sum = 0.0f;
for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += x[blockIdx.x * cols + c];
atomicAdd(&total, sum);
__syncthreads();
if (threadIdx.x == 0) y[blockIdx.x] = total;
"""
COPIES = """
extern __shared__ float row[];
for (int c = threadIdx.x; c < cols; c += blockDim.x) __pipeline_memcpy_async(row + c, x + blockIdx.x * cols + c, 4);
__pipeline_commit();
__pipeline_wait_prior(0);
__syncthreads();
if (threadIdx.x) return;
float sum = 0.0f;
for (int c = 0; c < cols; c++) sum += row[c];
y[blockIdx.x] = sum;
"""
DONE_LAST = """
__shared__ bool last;
float sum = 0.0f;
if (threadIdx.x == 0) {
    for (int c = 0; c < cols; c++) sum += x[blockIdx.x * cols + c];
    ((volatile float*)y)[blockIdx.x] = sum;
    __threadfence();
}
if (threadIdx.x >= 64) return;
__syncthreads();
if (__syncthreads_count(threadIdx.x < 10) != 10) y[blockIdx.x] = -1.0f;
"""


@pytest.mark.parametrize(
    ("body", "header", "block"),
    [
        (GROUPS, "#include <cooperative_groups.h>\n#include <cooperative_groups/reduce.h>", 32),
        (ATOMICS, "", 96),
        (COPIES, "#include <cuda_pipeline.h>", 64),
        (DONE_LAST, "", 128),
    ],
)
def test_ways_to_work_together(checks: LocalExecutor, body: str, header: str, block: int) -> None:
    check = run(checks, samples.ROW_SUM, samples.rows(body, before=header, block=block, shared=800))
    assert check.status == "ok", check
    assert check.findings == ()


def test_a_copy_that_nobody_waits_for_has_not_landed(checks: LocalExecutor) -> None:
    body = COPIES.replace("__pipeline_wait_prior(0);", "__pipeline_wait_prior(1);")
    check = run(checks, samples.ROW_SUM, samples.rows(body, before="#include <cuda_pipeline.h>", shared=800))
    assert check.status == "incorrect", check


@pytest.mark.parametrize(
    ("body", "kind", "words"),
    [
        ("__shared__ float s[4];\ns[threadIdx.x] = x[0];\ny[0] = s[0];", "out of bounds", "index 4 of an array"),
        (
            "y[threadIdx.x] = (*(const float2*)(x + 1)).x;",
            "out of bounds",
            "multiple of 8",
        ),
        ("((float*)x)[threadIdx.x] = 1.0f;", "out of bounds", "which is read-only"),
        (
            "extern __shared__ float s[];\ny[threadIdx.x] = s[threadIdx.x + 100];",
            "out of bounds",
            "dynamic shared memory",
        ),
        (
            "__shared__ float s[128];\nfor (int i = 0; i < 8; i++) y[threadIdx.x] = s[threadIdx.x];",
            "uninitialised",
            "no thread",
        ),
    ],
)
def test_misuse_of_memory_is_found(checks: LocalExecutor, body: str, kind: str, words: str) -> None:
    check = run(checks, samples.DOUBLE, samples.kernel(body, shared=512, grid="1"))
    assert check.status != "ok"
    assert [f for f in check.findings if f.kind == kind and words in f.message], check


def test_an_order_of_blocks_that_matters_is_told(checks: LocalExecutor) -> None:
    body = (
        "if (threadIdx.x == 0) y[0] = blockIdx.x == gridDim.x - 1 ? x[0] * 2.0f : 0.0f;\n"
        + samples.RIGHT_DOUBLE.replace("i < n", "i < n && i > 0")
    )
    check = run(checks, samples.DOUBLE, samples.kernel(body))
    assert check.status == "incorrect", check
    assert "the order matters" in check.message


def test_kernels_that_cannot_end_are_ended(checks: LocalExecutor) -> None:
    check = checks.check(
        samples.DOUBLE, samples.kernel("for (int i = 0; i < 2; i = i * 2 % 3) if (x[0] == 17.0f) y[0] = i;"), 6.0
    )
    assert check.status == "failed", check
    assert "endless loop" in check.message
    assert "k, line" in check.message
    check = run(checks, samples.DOUBLE, samples.kernel("while (atomicAdd(y, 0.0f) != 17.0f);"))
    assert check.status == "unsupported", check
    assert "wait in a loop" in check.message


def test_arguments_must_go_with_parameters(checks: LocalExecutor) -> None:
    candidate = samples.launched('"x", "y", "numel(x)"', "const float* x, float* y, long long n", samples.RIGHT_DOUBLE)
    check = run(checks, samples.DOUBLE, candidate)
    assert check.status == "failed"
    assert "parameter 3 of k is an integer of 8 bytes, but the launch plan passes i32" in check.message


def test_what_does_not_compile_is_told_apart(checks: LocalExecutor) -> None:
    pytest.importorskip("nvidia.cu13")
    wrong = run(checks, samples.DOUBLE, samples.kernel("y[0] = not_there(x[0]);"))
    assert wrong.status == "failed"
    assert "not_there" in wrong.message
    unknown = run(checks, samples.DOUBLE, samples.kernel("y[0] = __vadd2(n, n);"))
    assert unknown.status == "unsupported"
    assert "__vadd2" in unknown.message


def test_a_candidate_writes_to_no_file_of_others(checks: LocalExecutor, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("mine")
    tmp_path.chmod(0o777)
    target.chmod(0o666)
    body = f'FILE* f = fopen("{target}", "w");\nif (f) fputs("theirs", f), fclose(f);\n' + samples.RIGHT_DOUBLE
    run(checks, samples.DOUBLE, samples.kernel(body, before="#ifndef __CUDACC_RTC__\n#endif\n#include <stdio.h>"))
    assert target.read_text() == "mine"
