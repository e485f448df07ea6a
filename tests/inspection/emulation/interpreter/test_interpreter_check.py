"""Right and wrong kernels, checked as a user has them checked."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import interpreted as samples

from forewarp.core.checking import Check, Finding
from forewarp.core.errors import CandidateError, UsageError
from forewarp.core.values import Candidate
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.gpu_runner.formats import task as tasks

TASKS = Path(__file__).parents[4] / "tasks"
MODULES = Path(__file__).parents[3] / "honest" / "kernels"


def found(check: Check, kind: str) -> Finding:
    matching = [f for f in check.findings if f.kind == kind]
    assert len(matching) == 1, check
    return matching[0]


def line_of(candidate: Candidate, text: str) -> int:
    return next(i for i, line in enumerate(candidate.source.splitlines(), 1) if text in line)


def test_a_right_kernel_passes_with_no_finding(executor: LocalExecutor) -> None:
    check = executor.check(samples.DOUBLE, samples.flat(samples.RIGHT_DOUBLE))
    assert check.status == "ok", check
    assert check.findings == ()
    assert check.how == "CPU-interpreted"
    (workload,) = check.workloads
    assert workload.constants == {"N": 1000}
    assert workload.programs == workload.grid == 8
    assert workload.error is not None
    assert workload.error < 0.01


def test_a_missing_mask_is_out_of_bounds_at_its_line(executor: LocalExecutor) -> None:
    candidate = samples.flat("""
i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
tl.store(y + i, tl.load(x + i, mask=i < n) * 2)
""")
    check = executor.check(samples.DOUBLE, candidate)
    assert check.status == "ok"
    fault = found(check, "out of bounds")
    assert fault.where == f"k, line {line_of(candidate, 'tl.store')}"
    assert fault.message == ("stores elements 1000 to 1023 of y, which holds 1000 elements; first in program (7, 0, 0)")
    assert fault.count % 24 == 0
    assert check.faults == (fault,)


@pytest.mark.slow
def test_a_negative_index_is_out_of_bounds(executor: LocalExecutor) -> None:
    candidate = samples.flat("""
i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
before = tl.load(x + i - 1, mask=i < n)
tl.store(y + i, tl.load(x + i, mask=i < n) * 2 + tl.where(i < 0, before, 0.0), mask=i < n)
""")
    assert "loads element -1 of x" in found(executor.check(samples.DOUBLE, candidate), "out of bounds").message


def test_a_sum_without_atomics_is_a_race(executor: LocalExecutor) -> None:
    total = samples.model("x.sum().reshape(1)", "torch.rand(N)", N=1000)
    body = """
i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
part = tl.sum(tl.load(x + i, mask=i < n, other=0.0), axis=0)
{add}
"""
    clear = "@triton.jit\ndef clear(y):\n    tl.store(y, 0.0)\n"
    launch = '[[launch]]\nkernel = "clear"\nargs = ["y"]\ngrid = ["1"]\n'

    def candidate(add: str) -> Candidate:
        plain = samples.flat(body.format(add=add)).source
        return Candidate(plain.replace("[[launch]]", f"{launch}[[launch]]", 1) + clear, "triton")

    check = executor.check(total, candidate("tl.store(y, tl.load(y) + part)"))
    races = [f for f in check.findings if f.kind == "race"]
    assert races
    assert "element 0 of y" in races[0].message
    check = executor.check(total, candidate("tl.atomic_add(y, part)"))
    assert check.status == "ok"
    assert check.findings == ()


@pytest.mark.slow
def test_what_a_lock_protects_is_no_race(executor: LocalExecutor) -> None:
    total = samples.model("x.sum().reshape(1)", "torch.rand(N)", N=1000)
    body = """
i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
part = tl.sum(tl.load(x + i, mask=i < n, other=0.0), axis=0)
while tl.atomic_cas(lock, 0, 1) == 1:
    pass
tl.store(sums, tl.load(sums) + part)
tl.store(y, tl.load(sums))
tl.atomic_xchg(lock, 0)
"""
    source = samples.flat(body).source.replace("def k(x, y, n", "def k(x, y, lock, sums, n")
    source = source.replace('["x", "y", "numel(x)"]', '["x", "y", "lock", "sums", "numel(x)"]')
    scratch = '[scratch]\nlock = { dtype = "int32", shape = [1] }\nsums = { dtype = "float32", shape = [1] }\n'
    check = executor.check(total, Candidate(source.replace("[[launch]]", f"{scratch}[[launch]]"), "triton"))
    assert check.status == "ok"
    assert check.findings == ()


@pytest.mark.slow
def test_access_by_columns_is_uncoalesced(executor: LocalExecutor) -> None:
    turned = samples.model("x.t().contiguous()", "torch.randn(ROWS, COLS)", ROWS=256, COLS=128)
    candidate = samples.rows(
        """
r = tl.arange(0, 256)
column = tl.program_id(0)
tl.store(y + column * ROWS + r, tl.load(x + r * COLS + column))
""",
        grid="COLS",
    )
    check = executor.check(turned, candidate)
    assert check.status == "ok"
    slow = found(check, "uncoalesced")
    assert slow.message.startswith("loads 8.0 times the sectors")
    assert check.faults == ()


def test_an_output_that_is_partly_unwritten_is_named(executor: LocalExecutor) -> None:
    check = executor.check(samples.DOUBLE, samples.flat(samples.RIGHT_DOUBLE, grid="cdiv(numel(x), BLOCK) - 1"))
    assert check.status == "incorrect"
    fault = found(check, "uninitialised")
    assert fault.message.startswith("104 of 1000 elements of y are never written; the first is element 896")
    assert check.workloads[0].error is None


@pytest.mark.slow
def test_to_add_to_what_was_never_set_is_uninitialised(executor: LocalExecutor) -> None:
    candidate = samples.flat("""
i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
tl.atomic_add(y + i, tl.load(x + i, mask=i < n), mask=i < n)
""")
    check = executor.check(samples.DOUBLE, candidate)
    assert check.status == "incorrect"
    assert found(check, "uninitialised").count >= 1000


def test_a_wrong_reduction_is_incorrect_by_so_much(executor: LocalExecutor) -> None:
    body = samples.RIGHT_SUM.replace("tl.sum(v, axis=0)", "tl.sum(v, axis=0) * 1.01")
    check = executor.check(samples.SUM, samples.rows(body))
    assert check.status == "incorrect"
    assert check.findings == ()
    error = check.workloads[0].error
    assert error is not None
    assert 5 < error < 500
    assert "off, by up to" in check.message
    assert executor.check(samples.SUM, samples.rows(samples.RIGHT_SUM)).status == "ok"


def test_bf16_is_rounded_and_not_garbled(executor: LocalExecutor) -> None:
    launch = '[constants]\nBLOCK = "128"\n[[launch]]\nkernel = "k"\nargs = ["x", "z", "y", "numel(x)"]\n'
    body = """
@triton.jit
def k(x, z, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) + tl.load(z + i, mask=i < n), mask=i < n)
"""
    candidate = samples.plan(f'{launch}grid = ["cdiv(numel(x), BLOCK)"]', body, inputs='"x", "z"')
    check = executor.check(samples.ADD_BF16, candidate)
    assert check.status == "ok"
    error = check.workloads[0].error
    assert error is not None
    assert 0.01 < error < 0.5


@pytest.mark.slow
def test_an_endless_loop_ends_with_its_line(executor: LocalExecutor) -> None:
    candidate = samples.flat("""
i = tl.program_id(0)
while i >= 0:
    i += 1 - 1
tl.store(y, 0.0)
""")
    check = executor.check(samples.DOUBLE, candidate, 2.0)
    assert check.status == "failed"
    assert "program (0, 0, 0) was still running" in check.message
    assert f"line {line_of(candidate, 'i += 1')}" in check.message or "line" in check.message
    assert check.seconds < 60  # 2 s are asked for; without an end it would be the two minutes of a test


@pytest.mark.slow
def test_large_shapes_are_shrunk_and_odd_ones_stay_odd(executor: LocalExecutor) -> None:
    large = samples.model("x.float().sum(1)", "torch.randn(ROWS, COLS)", ROWS=100_001, COLS=4096)
    check = executor.check(large, samples.rows(samples.RIGHT_SUM))
    assert check.status == "ok", check
    rows, columns = (check.workloads[0].constants[n] for n in ("ROWS", "COLS"))
    assert isinstance(rows, int)
    assert rows % 2 == 1
    assert rows < 1000
    assert columns in (256, 512, 1024)


def test_a_module_runs_on_tensors_that_pass_for_cuda(executor: LocalExecutor) -> None:
    wide = samples.model("torch.relu(x)", "torch.randn(N)", N=3000)
    module = Candidate((MODULES / "relu_triton_module.py").read_text(), "python")
    check = executor.check(wide, module)
    assert check.status == "ok", check
    assert check.findings == ()
    assert check.workloads[0].programs == 3
    wrong = Candidate(module.source.replace("mask=i < n)\n", "mask=i < n + 9)\n"), "python")
    assert "of y" in found(executor.check(wide, wrong), "out of bounds").message


def test_what_cannot_be_interpreted_is_unsupported(executor: LocalExecutor) -> None:
    body = """
i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
v = tl.load(x + i, mask=i < n)
w = tl.inline_asm_elementwise("add.f32 $0, $1, $1;", "=f,f", [v], dtype=tl.float32, is_pure=True, pack=1)
tl.store(y + i, w, mask=i < n)
"""
    check = executor.check(samples.DOUBLE, samples.flat(body))
    assert check.status == "unsupported"
    assert "inline assembly" in check.message


def test_other_languages_and_bad_plans_are_errors(executor: LocalExecutor) -> None:
    with pytest.raises(UsageError):
        executor.check(samples.DOUBLE, Candidate("/*forewarp\n*/", "cpp"))
    with pytest.raises(CandidateError):
        executor.check(samples.DOUBLE, Candidate("import triton", "triton"))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(p.name for p in TASKS.iterdir() if (p / "seeds").is_dir()))
def test_every_bundled_seed_passes_with_no_finding(executor: LocalExecutor, name: str) -> None:
    task = tasks.load(str(TASKS / name))
    for seed in (s for s in task.seeds if s.language == "triton"):
        check = executor.check(task, seed, 10.0)
        assert check.status == "ok", check
        assert check.findings == ()


@pytest.mark.slow
def test_what_needs_no_mask_at_the_tasks_own_shape_gets_none(executor: LocalExecutor) -> None:
    long = samples.model("x * 2", "torch.randn(N)", N=1 << 22)
    body = """
i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
tl.store(y + i, tl.load(x + i) * 2)
"""
    check = executor.check(long, samples.flat(body, constants={"BLOCK": 8192}))
    assert check.status == "ok", check
    assert check.findings == ()


@pytest.mark.slow
def test_libdevice_custom_reductions_and_scans_are_interpreted(executor: LocalExecutor) -> None:
    norm = samples.model(
        "torch.tanh(torch.nn.functional.layer_norm(x, (x.shape[1],)))", "torch.randn(ROWS, COLS)", ROWS=37, COLS=100
    )
    kernels = """
@triton.jit
def welford(ma, sa, na, mb, sb, nb):
    d = mb - ma
    r = tl.where(na + nb == 0, 0.0, nb / (na + nb))
    return ma + d * r, sa + sb + d * d * na * r, na + nb


@triton.jit
def add(a, b):
    return a + b


@triton.jit
def k(x, y, COLS: tl.constexpr, WIDE: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, WIDE)
    v = tl.load(x + row * COLS + c, mask=c < COLS, other=0.0)
    count = tl.where(c < COLS, 1.0, 0.0)
    mean, squares, n = tl.reduce((v, tl.zeros_like(v), count), 0, welford)
    for step in range(0, 2):
        n += (tl.associative_scan(v, 0, add) * 0).sum() + step.to(tl.float32) * 0
    z = (v - mean) * tl.rsqrt(squares / n + 1e-5)
    tl.store(y + row * COLS + c, libdevice.tanh(z), mask=c < COLS)
"""
    launches = (
        '[constants]\nCOLS = "x.shape[1]"\nWIDE = "next_pow2(COLS)"\n'
        '[[launch]]\nkernel = "k"\nargs = ["x", "y"]\ngrid = ["x.shape[0]"]'
    )
    check = executor.check(norm, samples.plan(launches, kernels))
    assert check.status == "ok", check
    assert check.findings == ()
