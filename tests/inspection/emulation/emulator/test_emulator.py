"""Right and wrong CUDA kernels, checked on the CPU as a user has them checked."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import emulated as samples
from support import interpreted

from forewarp.core.checking import Check, Finding
from forewarp.core.values import Candidate, Task
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.gpu_runner.formats import task as tasks

TASKS = Path(__file__).parents[4] / "tasks"
BUDGET_S = 30.0
MANY_ROWS = interpreted.model("x * 2", "torch.randn(ROWS, COLS)", ROWS=4096, COLS=2048)


def run(checks: LocalExecutor, task: Task, candidate: Candidate) -> Check:
    return checks.check(task, candidate, BUDGET_S)


def found(check: Check, kind: str) -> Finding:
    matching = [f for f in check.findings if f.kind == kind]
    assert matching, check
    return matching[0]


def line_of(candidate: Candidate, text: str) -> int:
    return next(i for i, line in enumerate(candidate.source.splitlines(), 1) if text in line)


def test_a_right_kernel_passes_with_no_finding(checks: LocalExecutor) -> None:
    check = run(checks, samples.ROW_SUM, samples.rows(samples.RIGHT_SUM))
    assert check.status == "ok", check
    assert check.how == "CPU-emulated"
    assert check.findings == ()
    (workload,) = check.workloads
    assert workload.programs == workload.grid == 5
    assert workload.error is not None
    assert workload.error < 0.1


def test_what_is_out_of_bounds_is_found_with_line_block_and_thread(checks: LocalExecutor) -> None:
    candidate = samples.kernel("const int i = blockIdx.x * 128 + threadIdx.x;\ny[i] = x[i] * 2.0f;")
    check = run(checks, samples.DOUBLE, candidate)
    assert check.status == "failed", check
    finding = found(check, "out of bounds")
    assert finding.where == f"k, line {line_of(candidate, 'y[i] = x[i]')}"
    assert finding.message == "reads 4 bytes from byte 4000 of x, which has 4000; block (7,0,0), thread (104,0,0)"


@pytest.mark.slow
def test_a_missing_barrier_is_a_race(checks: LocalExecutor) -> None:
    candidate = samples.rows(samples.RIGHT_FLIP.replace("__syncthreads();\n", ""), shared=512)
    check = run(checks, samples.FLIP, candidate)
    assert check.status == "incorrect", check
    finding = found(check, "race")
    assert finding.where == f"k, line {line_of(candidate, 'row[127')}"
    assert f"(line {line_of(candidate, 'row[threadIdx.x] =')})" in finding.message


def test_blocks_that_add_up_without_atomics_are_a_race(checks: LocalExecutor) -> None:
    part = "float sum = 0.0f;\nfor (int i = blockIdx.x * 128; i < n && i < (blockIdx.x + 1) * 128; i++) sum += x[i];\n"
    candidate = samples.total(f"if (threadIdx.x) return;\n{part}part[0] += sum;\ny[0] = part[0];")
    finding = found(run(checks, samples.TOTAL, candidate), "race")
    assert finding.where == f"k, line {line_of(candidate, 'part[0] +=')}"
    assert "of the launch writes, neither atomically nor behind a fence" in finding.message


def test_a_last_block_needs_a_fence(checks: LocalExecutor) -> None:
    right, wrong = (samples.total(t) for t in (samples.LAST_BLOCK, samples.LAST_BLOCK.replace("__threadfence();", "")))
    check = run(checks, samples.TOTAL, right)
    assert (check.status, check.findings) == ("ok", ())
    finding = found(run(checks, samples.TOTAL, wrong), "race")
    assert finding.where == f"k, line {line_of(wrong, 'sum += part[b]')}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        "part[0] = 1.0f;",  # all write the same
        "atomicAdd(part, 1.0f);",
        'part[blockIdx.x] = 1.0f; asm volatile("fence.acq_rel.gpu;"); atomicAdd(ticket, 1); y[0] = part[0];',
    ],
)
def test_what_blocks_may_do_is_no_race(checks: LocalExecutor, body: str) -> None:
    check = run(checks, samples.TOTAL, samples.total(f"if (threadIdx.x == 0) {{ {body} }}"))
    assert check.status == "incorrect", check
    assert [f for f in check.findings if f.kind == "race"] == []


def test_barriers_in_two_branches_are_divergent_although_the_counts_fit(checks: LocalExecutor) -> None:
    branches = "if (threadIdx.x % 2) {\n__syncthreads();\n} else {\nn += 1;\n__syncthreads();\n}"
    candidate = samples.kernel(f"{samples.RIGHT_DOUBLE}{branches}\nif (n < 0) y[0] = n;")
    finding = found(run(checks, samples.DOUBLE, candidate), "divergent barrier")
    assert "which is undefined" in finding.message


def test_barriers_in_two_branches_on_one_line_are_divergent(checks: LocalExecutor) -> None:
    branches = "if (threadIdx.x % 2) { __syncthreads(); } else { n += 1; __syncthreads(); }"
    candidate = samples.kernel(f"{samples.RIGHT_DOUBLE}{branches}\nif (n < 0) y[0] = n;")
    finding = found(run(checks, samples.DOUBLE, candidate), "divergent barrier")
    assert finding.where == f"k, line {line_of(candidate, branches)}"
    assert "another one in the same line, which is undefined" in finding.message


@pytest.mark.parametrize("how", ["__noinline__", "__forceinline__", "inline"])
def test_a_barrier_of_a_helper_that_two_branches_call_is_divergent(checks: LocalExecutor, how: str) -> None:
    helper = f"__device__ {how} void meet(int* n) {{\n*n += 1;\n__syncthreads();\n}}"
    branches = "if (threadIdx.x % 2) {\nmeet(&n);\n} else {\nn += 1;\nmeet(&n);\n}"
    candidate = samples.kernel(f"{samples.RIGHT_DOUBLE}{branches}\nif (n < 0) y[0] = n;", before=helper)
    finding = found(run(checks, samples.DOUBLE, candidate), "divergent barrier")
    assert "which is undefined" in finding.message
    assert finding.where != f"k, line {line_of(candidate, '__syncthreads')}"


@pytest.mark.parametrize("how", ["__noinline__", "__forceinline__", "inline"])
def test_a_helper_that_two_branches_of_one_line_call_is_divergent(checks: LocalExecutor, how: str) -> None:
    helper = f"__device__ {how} void meet(int* n) {{\n*n += 1;\n__syncthreads();\n}}"
    branches = "if (threadIdx.x % 2) meet(&n); else { n += 1; meet(&n); }"
    candidate = samples.kernel(f"{samples.RIGHT_DOUBLE}{branches}\nif (n < 0) y[0] = n;", before=helper)
    finding = found(run(checks, samples.DOUBLE, candidate), "divergent barrier")
    assert finding.where == f"k, line {line_of(candidate, branches)}"
    assert "which is undefined" in finding.message


def test_a_helper_that_one_line_calls_twice_is_not_divergent(checks: LocalExecutor) -> None:
    helper = "__device__ __forceinline__ void meet(int* n) { *n += 1; __syncthreads(); if (*n < 0) __syncthreads(); }"
    calls = (
        "for (int k = 0; k < 3; k++) { if (k == int(threadIdx.x)) n++; meet(&n); if (k) n++; else n += 2; meet(&n); }"
    )
    candidate = samples.kernel(f"{samples.RIGHT_DOUBLE}{calls}\nif (n < 0) y[0] = n;", before=helper)
    check = run(checks, samples.DOUBLE, candidate)
    assert (check.status, check.findings) == ("ok", ())


@pytest.mark.parametrize("how", ["__noinline__", "__forceinline__", "inline"])
def test_a_helper_with_a_barrier_that_all_call_is_not_divergent(checks: LocalExecutor, how: str) -> None:
    helper = f"__device__ {how} void meet(int* n) {{\n*n += 1;\n__syncthreads();\n}}"
    calls = "for (int k = 0; k < 3; k++) {\nif (k == int(threadIdx.x)) n++;\nmeet(&n);\n}\nmeet(&n);\n"
    candidate = samples.kernel(f"{samples.RIGHT_DOUBLE}{calls}\nif (n < 0) y[0] = n;", before=helper)
    check = run(checks, samples.DOUBLE, candidate)
    assert (check.status, check.findings) == ("ok", ())


@pytest.mark.parametrize("pick", ["fmaxf", "fminf"])
def test_what_a_shuffle_brings_from_a_lane_that_has_returned_is_garbage(checks: LocalExecutor, pick: str) -> None:
    """Neither a maximum nor a minimum hides it: a mask may name such a lane, and nobody may use its value."""
    body = f"""
if (threadIdx.x >= 16) return;
float best = x[blockIdx.x * cols + threadIdx.x];
for (int c = threadIdx.x; c < cols; c += 16) best = {pick}(best, x[blockIdx.x * cols + c]);
for (int by = FROM; by > 0; by /= 2) best = {pick}(best, __shfl_xor_sync(0xffffffffu, best, by));
if (threadIdx.x == 0) y[blockIdx.x] = best;
"""
    task = samples.task(f"x.{'amax' if pick == 'fmaxf' else 'amin'}(1)", "torch.randn(5, 200)")
    right = run(checks, task, samples.rows(body.replace("FROM", "8"), block=32))
    assert (right.status, right.findings) == ("ok", ())
    assert run(checks, task, samples.rows(body.replace("FROM", "16"), block=32)).status == "incorrect"


def test_one_barrier_in_a_loop_is_not_divergent(checks: LocalExecutor) -> None:
    body = samples.RIGHT_DOUBLE + "for (int k = 0; k < 6; k++) {\nif (k == int(threadIdx.x)) n++;\n__syncthreads();\n}"
    check = run(checks, samples.DOUBLE, samples.kernel(body + "\nif (n < 0) y[0] = n;"))
    assert (check.status, check.findings) == ("ok", ())


def test_a_barrier_that_half_of_a_block_comes_past_is_divergent(checks: LocalExecutor) -> None:
    branch = "if (threadIdx.x < 64) __syncthreads();\n"
    check = run(checks, samples.DOUBLE, samples.kernel(f"{branch}{samples.RIGHT_DOUBLE}"))
    assert "came past this barrier without waiting" in found(check, "divergent barrier").message


def test_who_returns_early_need_not_wait(checks: LocalExecutor) -> None:
    index = "const int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    write = "if (i < n) put(y + i, 2 * x[i]);\n"
    early = f"if (threadIdx.x >= 64) {{\n{write}return;\n}}\n__syncthreads();\n{write}"
    helper = "__device__ __noinline__ void put(float* to, float value) { *to = value; }\n"
    check = run(checks, samples.DOUBLE, samples.kernel(index + early, before=helper))
    assert (check.status, check.findings) == ("ok", ())


@pytest.mark.slow
def test_threads_that_wait_for_each_other_are_a_divergent_barrier(checks: LocalExecutor) -> None:
    body = samples.RIGHT_DOUBLE + "if (threadIdx.x % 2) __syncthreads();\nelse __syncwarp();"
    check = run(checks, samples.DOUBLE, samples.kernel(body))
    assert check.status == "failed", check
    assert "64 of its 128 threads are at a barrier" in found(check, "divergent barrier").message


def test_a_grid_that_is_too_small_for_the_tasks_rows_is_incorrect(checks: LocalExecutor) -> None:
    body = (
        "for (int c = threadIdx.x; c < cols; c += blockDim.x) y[blockIdx.x * cols + c] = x[blockIdx.x * cols + c] * 2;"
    )
    check = run(checks, MANY_ROWS, samples.rows(body, grid="min(x.shape[0], 512)"))
    assert check.status == "incorrect", check
    assert "were never written" in check.message
    assert check.workloads[0].constants["ROWS"] == 4096


@pytest.mark.slow
def test_an_array_that_is_too_short_for_the_tasks_rows_is_out_of_bounds(checks: LocalExecutor) -> None:
    body = """
__shared__ float row[1024];
for (int c = threadIdx.x; c < cols; c += blockDim.x) row[c] = x[blockIdx.x * cols + c];
__syncthreads();
for (int c = threadIdx.x; c < cols; c += blockDim.x) y[blockIdx.x * cols + c] = row[c] * 2;
"""
    check = run(checks, MANY_ROWS, samples.rows(body))
    assert check.status == "failed", check
    assert "index 1024 of an array" in found(check, "out of bounds").message
    check = run(checks, MANY_ROWS, samples.rows(body.replace("1024", "2048")))
    assert (check.status, check.findings) == ("ok", ()), check


@pytest.mark.slow
def test_an_index_that_overflows_at_the_tasks_own_shape_is_out_of_bounds(checks: LocalExecutor) -> None:
    task = interpreted.model("x * 2", "torch.randn(ROWS, COLS)", ROWS=131072, COLS=20001)
    body = "for (int c = threadIdx.x; c < cols; c += blockDim.x) y[ROW * cols + c] = x[ROW * cols + c] * 2;"
    check = run(checks, task, samples.rows(body.replace("ROW", "int(blockIdx.x)")))
    finding = found(check, "out of bounds")
    assert "before the start of x; block (131071,0,0)" in finding.message
    assert finding.message.endswith("at the task's own shape, ROWS = 131072, COLS = 20001")
    check = run(checks, task, samples.rows(body.replace("ROW", "(long long)blockIdx.x")))
    assert (check.status, check.findings) == ("ok", ()), check


@pytest.mark.slow
def test_loops_by_the_grids_stride_are_not_accused(checks: LocalExecutor) -> None:
    loop = "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i] * 2.0f;"
    check = run(checks, MANY_ROWS, samples.kernel(loop, grid="264"))
    assert (check.status, check.findings) == ("ok", ()), check


@pytest.mark.slow
def test_unwritten_elements_are_named(checks: LocalExecutor) -> None:
    check = run(checks, samples.DOUBLE, samples.kernel(samples.RIGHT_DOUBLE.replace("i < n", "i < n - 3")))
    assert check.status == "incorrect"
    assert "3 elements of y were never written" in check.message


def test_unknown_instructions_are_named(checks: LocalExecutor) -> None:
    body = 'asm volatile("wgmma.fence.sync.aligned;");'
    check = run(checks, samples.DOUBLE, samples.kernel(body))
    assert check.status == "unsupported"
    assert "wgmma.fence.sync.aligned" in check.message


@pytest.mark.slow
@pytest.mark.parametrize("name", tasks.bundled())
def test_bundled_seeds_pass(checks: LocalExecutor, name: str) -> None:
    task = tasks.load(name)
    for seed in task.seeds:
        if seed.language == "cuda":
            check = run(checks, task, seed)
            assert check.status == "ok", check
            assert not check.faults
