"""Makora's, Sakana's, Kernel Tuner's and KernelBench's results, from small files in their schemas."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pool_checks
import pytest
from published_sets import kernel_tuner, kernelbench, makora, sakana
from published_sets.made import Imported, ImportOptions
from support import published

from forewarp.archive.pools import columns, parquet
from forewarp.archive.rows import RecordedRow
from forewarp.core.errors import UsageError
from forewarp.gpu_runner.formats import task as tasks

NO_OPTIONS = ImportOptions()
Read = Callable[[Sequence[Path], ImportOptions], Imported]


def rows_of(read: Read, *paths: Path, options: ImportOptions = NO_OPTIONS) -> tuple[Imported, list[RecordedRow]]:
    found = read(paths, options)
    return found, list(found.rows)


def test_makora_s_rows_are_against_the_middle_of_their_problem(tmp_path: Path) -> None:
    rows = [{"x": published.makora_program(n), "y": y} for n, y in enumerate((4.0, 1.0, 2.0, None, float("nan")))]
    rows += [
        {"x": "class ModelNew: pass", "y": 1.0},
        {"x": published.makora_program(9).replace("x + 1", "x"), "y": None},
    ]
    found, kept = rows_of(makora.read, published.parquet(rows, tmp_path / "train.parquet"))
    assert [r.measurement.speedup for r in kept] == [0.5, 2.0, 1.0, None, None]
    assert [r.measurement.status for r in kept[3:]] == ["runtime_error"] * 2
    assert {r.measurement.anchor for r in kept} == {kept[2].candidate.sha256}
    assert kept[0].against == kept[2].candidate
    assert kept[0].task.reference == published.REFERENCE
    assert "# fast" not in kept[0].candidate.source
    assert kept[0].candidate.source.startswith("import triton")
    assert "class Model(" not in kept[0].candidate.source
    assert "failure-of-unknown-kind" in kept[3].origin.tags
    assert found.left_out == {
        "programs whose problem could not be told from the answer": 1,
        "answers to problems of which nothing was measured": 1,
    }


def test_makora_s_test_split_names_problems(tmp_path: Path) -> None:
    row = {"x": published.makora_program(1), "y": 1.0, "problem_id": "1_23", "holdout_group": "full_holdout"}
    _, (kept,) = rows_of(
        makora.read, published.jsonl([row], tmp_path / "test.jsonl"), options=ImportOptions(device="NVIDIA B200")
    )
    assert kept.task.name == "1_23"
    assert "holdout:full_holdout" in kept.origin.tags
    assert kept.target.arch == "sm_100"
    with pytest.raises(UsageError, match="no column y"):
        rows_of(makora.read, published.jsonl([{"x": ""}], tmp_path / "bad.jsonl"))


def test_sakana_s_speed_up_is_that_of_the_times(tmp_path: Path) -> None:
    rows = [
        published.sakana_row(1),
        published.sakana_row(2, Correct=False, Error="RuntimeError: Error building extension 'k2'", CUDA_Runtime=None),
        published.sakana_row(
            3, Correct=False, Error="CUDA error: illegal access. Compile with TORCH_USE_CUDA_DSA", CUDA_Runtime=None
        ),
        published.sakana_row(4, Correct=False),
        published.sakana_row(5, CUDA_Runtime=None),
        published.sakana_row(6, CUDA_Code=""),
        published.sakana_row(7, Correct=False, Error="Timed out after 60 s", CUDA_Runtime=None),
    ]
    found, kept = rows_of(sakana.read, published.parquet(rows, tmp_path / "level_1.parquet"))
    assert [r.measurement.status for r in kept] == ["ok", "compile_error", "runtime_error", "incorrect", "timeout"]
    assert kept[0].measurement.speedup == 2.0
    assert kept[1].build.status == "compile_error"
    assert kept[0].candidate.language == "cuda"
    assert "optimized" not in kept[0].candidate.source
    assert kept[0].origin.tags == ("level:1", "unaudited")
    assert found.left_out == {"correct kernels without run times": 1, "rows without a kernel": 1}
    with pytest.raises(UsageError, match="no column Level_ID, Task_ID, Kernel_Name, CUDA_Code"):
        rows_of(sakana.read, published.parquet([{"Op_Name": "x"}], tmp_path / "bad.parquet"))


def test_an_imported_reference_is_the_task_that_its_file_would_be(tmp_path: Path) -> None:
    _, (row,) = rows_of(sakana.read, published.parquet([published.sakana_row(1)], tmp_path / "l.parquet"))
    (tmp_path / "mine.py").write_text(published.REFERENCE)
    assert tasks.load(str(tmp_path / "mine.py")).sha256 == row.task.sha256


def t4(folder: Path, results: list[dict[str, object]], name: str = "gemm") -> Path:
    (folder / f"{name}.json").write_text(json.dumps({"schema_version": "1.0.0", "results": results}))
    return folder / f"{name}.json"


def test_kernel_tuner_s_configurations_are_against_the_middle_one(tmp_path: Path) -> None:
    close = [1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0]
    results = [
        published.t4_result(16, "row", [2 * t for t in close]),
        published.t4_result(32, "column", close),
        published.t4_result(64, "row", [0.5]),
        published.t4_result(64, "column", [], "compile"),
        published.t4_result(128, "column", [], "constraints"),
        published.t4_result(256, "column", [], "correctness"),
    ]
    found, kept = rows_of(kernel_tuner.read, t4(tmp_path, results))
    assert [r.measurement.status for r in kept] == ["ok", "ok", "ok", "compile_error", "incorrect"]
    assert [r.measurement.speedup for r in kept[:3]] == pytest.approx([0.5, 1.0, 2.0])
    assert {r.measurement.anchor for r in kept} == {kept[1].candidate.sha256}
    slow, same, single = (r.measurement for r in kept[:3])
    assert slow.low is not None
    assert slow.high is not None
    assert 0.45 < slow.low < 0.5 < slow.high < 0.55
    assert (slow.verdict, same.verdict, single.verdict, single.low) == ("slower", "inconclusive", "inconclusive", None)
    assert kept[0].candidate.tunables == {"tile": 16, "layout": -1}
    assert "layout:-2=column" in kept[1].origin.tags
    assert "no-source" in kept[0].origin.tags
    assert len({columns.flat(r)["program"] for r in kept}) == 1
    assert found.left_out == {"configurations that were never run (constraints)": 1}


def test_kernel_tuner_s_kernel_may_be_given(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text("// tuned for speed\n__global__ void k() {}\n")
    options = ImportOptions(kernel=tmp_path / "k.cu", device="NVIDIA T4")
    two = [t4(tmp_path, [published.t4_result(16, "row", [1.0])], name) for name in ("a", "b")]
    _, kept = rows_of(kernel_tuner.read, *two, options=options)
    assert {r.candidate.source for r in kept} == {"__global__ void k() {}\n"}
    assert [r.task.name for r in kept] == ["a", "b"]
    assert kept[0].target.arch == "sm_75"
    _, unknown = rows_of(kernel_tuner.read, *two)
    assert len({r.candidate.source for r in unknown}) == 2


def test_kernel_tuner_s_results_may_be_packed(tmp_path: Path) -> None:
    plain = t4(tmp_path, [published.t4_result(16, "row", [1.0]), published.t4_result(32, "row", [2.0])])
    packed = tmp_path / "packed.json.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    one, other = (rows_of(kernel_tuner.read, path)[1] for path in (plain, packed))
    assert [r.measurement.speedup for r in other] == [r.measurement.speedup for r in one]
    packed.write_bytes(b"no gzip")
    with pytest.raises(UsageError, match="cannot be read"):
        rows_of(kernel_tuner.read, packed)


@pytest.mark.parametrize(
    ("content", "says"), [("{}", "no list named results"), ('{"results": [{}]}', "result 1 has no configuration")]
)
def test_what_is_no_t4_result(tmp_path: Path, content: str, says: str) -> None:
    (tmp_path / "r.json").write_text(content)
    with pytest.raises(UsageError, match=says):
        rows_of(kernel_tuner.read, tmp_path / "r.json")


def test_kernelbench_runs_with_a_baseline(tmp_path: Path) -> None:
    entries = {
        "1": [
            published.kernelbench_entry(0),
            published.kernelbench_entry(1, compiled=False, correctness=False, runtime=-1.0),
        ],
        "7": [
            published.kernelbench_entry(
                0,
                correctness=False,
                runtime=-1.0,
                metadata={"runtime_error": "illegal access", "hardware": "NVIDIA L40S"},
            ),
            published.kernelbench_entry(1, correctness=False, runtime=-1.0),
            published.kernelbench_entry(2, metadata={"hardware": "NVIDIA L40S", "excessive_speedup": True}),
        ],
        "9": [published.kernelbench_entry(0)],
    }
    run = published.kernelbench_run(tmp_path / "runs" / "mine", entries)
    times = {"1_Square.py": {"mean": 1.0, "std": 0.02, "num_trials": 100}, "7_Tall.py": {"mean": 8.0}}
    (tmp_path / "base.json").write_text(json.dumps({"level1": times}))
    problems = tmp_path / "KernelBench" / "level1"
    problems.mkdir(parents=True)
    (problems / "1_Square.py").write_text(published.REFERENCE)
    options = ImportOptions(baseline=tmp_path / "base.json", references=tmp_path / "KernelBench")
    found, kept = rows_of(kernelbench.read, run, options=options)
    assert [r.measurement.status for r in kept] == ["ok", "compile_error", "runtime_error", "incorrect", "ok"]
    good, *_, rushed = (r.measurement for r in kept)
    assert good.speedup == 2.0
    assert good.low is not None
    assert 1.98 < good.low < 2.0
    assert good.verdict == "faster"
    assert (rushed.speedup, rushed.low, rushed.verdict) == (16.0, None, "suspicious")
    assert [r.task.name for r in kept] == ["1_Square", "1_Square", "7_Tall", "7_Tall", "7_Tall"]
    assert kept[0].task.reference == published.REFERENCE
    assert kept[0].target.name == "NVIDIA L40S"
    assert kept[0].candidate.source == "class ModelNew:\n    number = 10\n"
    assert found.left_out == {"correct modules without times": 1}


def test_kernelbench_s_own_reference_times_and_old_results(tmp_path: Path) -> None:
    entry = published.kernelbench_entry(
        0, ref_runtime=1.0, ref_runtime_stats={"mean": 1.0, "std": 0.1, "num_trials": 100}
    )
    run = published.kernelbench_run(tmp_path / "run", {"3": [entry]})
    (run / "eval_results.json").write_text(json.dumps({"3": entry}))
    _, (row,) = rows_of(kernelbench.read, run)
    assert row.measurement.speedup == 2.0
    assert row.task.name == "kernelbench_level_1_problem_3"


def test_what_is_no_kernelbench_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no eval_results\.json"):
        rows_of(kernelbench.read, tmp_path)
    run = published.kernelbench_run(tmp_path / "run", {"1": [published.kernelbench_entry(0)]})
    with pytest.raises(UsageError, match="ref_runtime") as caught:
        rows_of(kernelbench.read, run)
    assert "--baseline" in caught.value.hint
    (run / "level_2_problem_1_sample_0_kernel.py").write_text("")
    with pytest.raises(UsageError, match="levels 1, 2"):
        rows_of(kernelbench.read, run)
    bare = published.kernelbench_run(tmp_path / "bare", {"1": [{"sample_id": 0}]})
    with pytest.raises(UsageError, match="no compiled, correctness, runtime"):
        rows_of(kernelbench.read, bare)


def test_imported_rows_are_a_pool_in_order(tmp_path: Path) -> None:
    _, rows = rows_of(
        sakana.read, published.parquet([published.sakana_row(n) for n in range(3)], tmp_path / "l.parquet")
    )
    _, more = rows_of(
        makora.read, published.jsonl([{"x": published.makora_program(1), "y": 1.0}], tmp_path / "m.jsonl")
    )
    parquet.write_rows([*rows, *more], tmp_path / "p.parquet")
    assert list(pool_checks.check([tmp_path / "p.parquet"], {})) == []
    assert parquet.read_pool(tmp_path / "p.parquet") == [*rows, *more]
