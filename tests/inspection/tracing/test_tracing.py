"""Tracing modules for a GPU that is not there: real compilers, real processes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

pytest.importorskip("triton")
from traced_modules import (
    ASKS_FOR_CUDA,
    ENDLESS,
    EXTENSION,
    GRID_FROM_DATA,
    LIBRARY,
    ONE_REFUSED,
    REFERENCE,
    REFUSED,
    ROWS,
    TUNED,
)

from forewarp.core.errors import TaskError, UsageError
from forewarp.core.values import Candidate, Target, Task, Workload
from forewarp.gpu_runner.compilers.cubin import codes
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor
from forewarp.gpu_runner.formats.task import load
from forewarp.inspection.tracing.values import Trace, WorkloadTrace

TARGET = Target("H200", "cuda", "sm_90", 132, 4.8e12, 6.7e13, 9.9e14, 60 << 20, 232448, 141 << 30)


@pytest.fixture(scope="module")
def executor(h200_executor: LocalExecutor) -> LocalExecutor:
    return h200_executor


def task(reference: str = REFERENCE, **constants: int | str) -> Task:
    return Task("small", "small", reference, {"cuda": (Workload("only", constants),)})


def traced(executor: LocalExecutor, source: str, **constants: int | str) -> WorkloadTrace:
    return executor.trace(task(REFERENCE, **constants), Candidate(source, "python")).workloads["only"]


def test_launches_are_recorded_in_order_and_merged(executor: LocalExecutor) -> None:
    trace = executor.trace(task(), Candidate(ROWS, "python"))
    found = trace.workloads["only"]
    rows, scale, tail = found.launches
    assert (found.problems, found.strategy, trace.cached) == ((), "cpu", False)
    assert (rows.kernel, rows.grid, rows.block, rows.times) == ("rows", (256, 1, 1), (256, 1, 1), 1)
    assert (scale.grid, scale.times) == ((64, 1, 1), 3)
    assert tail.cubin != rows.cubin  # another alignment, and another number of columns
    assert [str(c) for c in found.calls] == ["relu(256×256 float32)"]
    for launch in found.launches:
        assert codes((Path(trace.folder) / launch.cubin).read_bytes(), "sm_90")[launch.symbol].registers > 0

    again = executor.trace(task(), Candidate(ROWS, "python"))
    assert again.cached
    assert again.workloads == trace.workloads
    assert not executor.trace(task(N=128), Candidate(ROWS, "python")).cached


@pytest.mark.slow
def test_a_module_that_asks_for_cuda_gets_it(executor: LocalExecutor) -> None:
    found = traced(executor, ASKS_FOR_CUDA)
    assert found.problems == ()
    assert [(e.grid, e.times) for e in found.launches] == [((64, 1, 1), 1)]
    assert [c.name for c in found.calls] == ["zeros", "copy_", "addmm", "rand", "add"]


@pytest.mark.slow
def test_a_grid_may_depend_on_data(executor: LocalExecutor) -> None:
    found = traced(executor, GRID_FROM_DATA)
    assert found.launches[0].grid == (64, 1, 1)
    assert [c.name for c in found.calls] == ["gt", "sum", "item"]


@pytest.mark.slow
def test_calls_of_libraries_are_recorded(executor: LocalExecutor) -> None:
    found = traced(executor, LIBRARY)
    assert found.launches == ()
    names = [c.name for c in found.calls]
    assert [n for n in names if n not in ("to_copy", "clone")] == ["mm", "softmax", "gelu"]
    assert next(c for c in found.calls if c.name == "mm").tensors == ("256×256 bfloat16", "256×256 bfloat16")
    assert "torch.compile" in found.notes[0]


@pytest.mark.slow
def test_an_extension_is_followed_to_its_launches(executor: LocalExecutor) -> None:
    trace = executor.trace(task(), Candidate(EXTENSION, "python"))
    found = trace.workloads["only"]
    scale, shift = found.launches
    assert (found.problems, found.notes) == ((), ())
    assert (scale.kernel, scale.grid, scale.block, scale.shared) == ("scale", (128, 1, 1), (128, 1, 1), 512)
    assert "IfLi4E" in scale.symbol  # scale<float, 4>
    assert (shift.grid, shift.block, shift.shared) == ((256, 1, 1), (32, 8, 1), 0)
    assert [c.name for c in found.calls] == ["mm"]
    for launch in found.launches:
        assert launch.symbol in codes((Path(trace.folder) / launch.cubin).read_bytes(), "sm_90")


@pytest.mark.slow
def test_an_extension_that_is_never_reached_is_still_read(executor: LocalExecutor) -> None:
    found = traced(executor, EXTENSION.replace("return extension", "raise ValueError('no'); return extension"))
    assert found.strategy == "source"
    assert [(e.kernel, e.grid, e.block) for e in found.launches] == [
        ("scale", None, (128, 1, 1)),
        ("shift", None, (32, 8, 1)),
    ]
    assert "ValueError (line" in found.problems[0]


@pytest.mark.slow
def test_an_extension_that_is_not_used_is_not_launched(executor: LocalExecutor) -> None:
    found = traced(executor, EXTENSION.replace("return extension", "return a * 2; return extension"))
    assert (found.strategy, found.launches, found.problems) == ("cpu", (), ())
    assert "none of its kernels" in found.notes[0]


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        pytest.param(REFUSED, "CompilationError", marks=pytest.mark.slow),
        ("class ModelNew(:", "SyntaxError"),
        ("import os\nos._exit(3)", "left with exit status 3"),
        (LIBRARY.replace("(d)", "(d)[:7]"), "forward returned [7, 256] float32; the task returns [256, 256] float32"),
    ],
)
def test_what_is_wrong_with_a_module_is_a_problem(executor: LocalExecutor, source: str, problem: str) -> None:
    assert problem in "\n".join(traced(executor, source).problems)


@pytest.mark.slow
def test_one_kernel_that_fails_takes_no_other_along(executor: LocalExecutor) -> None:
    found = traced(executor, ONE_REFUSED)
    assert [(e.kernel, bool(e.cubin)) for e in found.launches] == [("wrong", False), ("scale", True)]
    assert any(p.startswith("wrong: CompilationError") for p in found.problems)
    assert found.strategy == "cpu"


@pytest.mark.slow
def test_a_module_that_does_without_a_kernel_that_fails_is_left_to_it(executor: LocalExecutor) -> None:
    caught = ONE_REFUSED.replace(
        "wrong[(1,)](a)",
        "try:\n            wrong[(1,)](a)\n        except Exception:\n            scale[(3,)](a, a, 7, BLOCK=64)",
    )
    found = traced(executor, caught)
    assert ([(e.kernel, e.grid) for e in found.launches], found.problems) == (
        [("scale", (3, 1, 1)), ("scale", (64, 1, 1))],
        (),
    )


@pytest.mark.slow
def test_a_grid_of_no_block_costs_no_fact(executor: LocalExecutor) -> None:
    empty = ONE_REFUSED.replace("wrong[(1,)](a)", "scale[(int(torch.zeros(1).item()),)](a, a, 7, BLOCK=64)")
    evidence = executor.evidence(task(), Candidate(empty, "python"))
    assert evidence is not None
    assert any("its grid is 0×1×1 in the trace" in p for p in evidence.problems)
    assert (evidence.facts["launches"], evidence.facts["blocks"]) == (2, 64)


@pytest.mark.slow
def test_a_module_has_evidence_as_a_kernel_has(executor: LocalExecutor) -> None:
    evidence = executor.evidence(task(), Candidate(ROWS, "python"))
    assert evidence is not None
    assert {"registers", "occupancy", "floor_s", "bytes_per_thread"} <= evidence.facts.keys()
    assert (evidence.facts["launches"], evidence.facts["calls"]) == (5, 1)
    assert evidence.facts["argument_bytes"] == 2 * (256 * 256 * 4) * 4 + 2 * 256 * 256 * 4 - 4
    assert {n.split(".")[1] for n in evidence.facts if n.startswith("kernel.")} == {"rows", "scale"}
    failed = executor.evidence(task(), Candidate("import os\nos._exit(3)", "python"))
    assert failed is not None
    assert (failed.facts, "left with exit status 3" in failed.problems[0]) == ({}, True)
    broken = executor.evidence(task("raise ValueError('no')"), Candidate(ROWS, "python"))
    assert broken is not None
    assert broken.problems[0].startswith("not traced, so nothing is known of its kernels")
    assert executor.evidence(task(), Candidate("", "cuda")) is None


@pytest.mark.slow
def test_what_does_not_fit_is_traced_by_its_shapes(executor: LocalExecutor) -> None:
    found = traced(executor, ROWS, N=65536, DTYPE="float16")
    assert (found.strategy, found.problems) == ("fake", ())
    assert [e.grid for e in found.launches] == [(65536, 1, 1), (4194304, 1, 1), (1, 1, 1)]
    assert found.launches[2].cubin != found.launches[0].cubin


@pytest.mark.slow
def test_the_taken_configuration_is_the_first_that_fits(executor: LocalExecutor) -> None:
    found = traced(executor, TUNED)
    (note,), (launch,) = found.notes, found.launches
    assert "product is autotuned over 23 configurations" in note
    assert "taken (M: 64, K: 32" in note
    assert "of 16 tried, 1 do not fit (OutOfResources" in note
    assert launch.grid == (4, 4, 1)


@pytest.mark.slow
def test_a_module_that_never_ends_is_stopped(tmp_path: Path) -> None:
    executor = LocalExecutor(TARGET, cache=tmp_path, limits=Limits(trace_s=1))
    try:
        assert "did not finish within 1 s" in traced(executor, ENDLESS).problems[0]
        deaf = ENDLESS.replace("except Exception", "except BaseException")
        assert "stopped after" in traced(executor, deaf).problems[0]
    finally:
        executor.close()


@pytest.mark.slow
def test_a_reference_that_needs_values_is_described_without_a_gpu(executor: LocalExecutor) -> None:
    source = REFERENCE.replace("return a * 2", "a.mul_(2 if b.sum().item() > -1e9 else 3); return a")
    (signature,) = executor.describe(task(source.replace("torch.randn(N, N)", "torch.randn(N, N, device='cuda')")))
    assert (signature.written, signature.outputs[0].shape) == ((0,), (256, 256))
    with pytest.raises(TaskError, match=r"32\.0 GiB"):
        executor.describe(task(source, N=65536))


@pytest.mark.slow
def test_a_submission_to_gpu_mode_is_traced(executor: LocalExecutor) -> None:
    folder = Path(__file__).parents[3] / "examples" / "gpumode_vectoradd"
    trace = executor.trace(load(str(folder)), Candidate((folder / "submission.py").read_text(), "python"))
    assert [w.problems for w in trace.workloads.values()] == [(), ()]
    assert [str(c) for w in trace.workloads.values() for c in w.calls] == [
        "add(1000003 float32, 1000003 float32, 1000003 float32)",
        "add(4194304 float32, 4194304 float32, 4194304 float32)",
    ]


def test_other_languages_are_not_traced(executor: LocalExecutor) -> None:
    with pytest.raises(UsageError, match="not traced"):
        executor.trace(task(), Candidate("", "cuda"))


def test_a_trace_that_was_tampered_with_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "inside.cubin").write_bytes(b"")
    trace = Trace({"only": WorkloadTrace("cpu")})
    launch = {"kernel": "k", "symbol": "k", "cubin": "inside.cubin", "grid": [1, 1, 1], "block": None}
    good = f'{{"workloads": {{"only": {{"strategy": "cpu", "launches": [{launch}]}}}}}}'.replace("'", '"')
    good = good.replace("None", "null")
    trace.save(tmp_path)
    assert Trace.load(tmp_path) == dataclasses.replace(trace, folder=str(tmp_path))
    (tmp_path / "trace.json").write_text(good)
    assert Trace.load(tmp_path).workloads["only"].launches[0].cubin == "inside.cubin"
    for old, new in [("inside", "../inside"), ("inside", "missing"), ("[1, 1, 1]", '["1", 1, 1]'), ("{", "[")]:
        (tmp_path / "trace.json").write_text(good.replace(old, new))
        with pytest.raises(ValueError, match="cannot be read"):
            Trace.load(tmp_path)
