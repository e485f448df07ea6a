"""A suite as a whole, on a device made of arithmetic: rows, the record, going on, tables."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.suites import Kept, SuiteExecutor, kernel, problem, write

from forewarp.archive.store import Archive, default_path
from forewarp.core.errors import TaskError, UsageError, WorkerError
from forewarp.tools import suite_measuring
from forewarp.tools.parts import Interval, Place
from forewarp.tools.suite import SuiteRequest, run_suite
from forewarp.tools.suite_measuring import SuiteProgress
from forewarp.tools.suite_results import SuiteResult, SuiteRow

Run = Callable[..., SuiteResult]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(
        tmp_path / "p", **{"1_a": problem("compiled 1.5"), "2_b": problem(), "3_c": problem("fails"), "4_d": problem()}
    )
    write(
        tmp_path / "k",
        **{
            "1_a__fast": kernel("3.0"),
            "1_a__slow": kernel("0.5"),
            "1_a__wrong": kernel("wrong"),
            "2_b": kernel("1.0"),
            "3_c": kernel("2.0"),
            "77_x": kernel("2.0"),
        },
    )
    return tmp_path


def run(folder: Path, executor: SuiteExecutor | None = None, **more: Any) -> SuiteResult:
    stopped = more.pop("stopped", lambda: False)
    progress = more.pop("progress", lambda _: None)
    fields = {"kernels": str(folder / "k"), "output": str(folder / "out")} | more
    request = SuiteRequest(problems=str(folder / "p"), **fields)
    return run_suite(request, executors=Kept(executor or SuiteExecutor()), stopped=stopped, progress=progress)


def row(result: SuiteResult, kernel: str) -> SuiteRow:
    (found,) = [r for r in result.rows if r.kernel == kernel]
    return found


def test_every_kernel_and_every_problem_has_a_row(folder: Path) -> None:
    executor = SuiteExecutor()
    found = run(folder, executor)
    assert [(r.problem, r.kernel, r.status) for r in found.rows] == [
        ("1_a", "1_a/fast.py", "ok"),
        ("1_a", "1_a/slow.py", "ok"),
        ("1_a", "1_a/wrong.py", "incorrect"),
        ("2_b", "2_b.py", "ok"),
        ("3_c", "3_c.py", "problem_failed"),
        ("4_d", "", "no_kernel"),
    ]
    assert [(u.path, u.reason) for u in found.unmatched] == [("77_x.py", "its name is that of no problem")]
    assert (found.status, found.problems, found.kernels) == ("finished", 4, 5)
    assert found.statuses == {"ok": 3, "incorrect": 1, "no_kernel": 1, "problem_failed": 1}
    assert found.verdicts == {"faster": 1, "slower": 1, "tie": 1}
    assert "2 of 4 problems have a correct kernel" in found.summary
    # A problem that fails is run once, however many measurements it has.
    assert executor.described == {"1_a": 1, "2_b": 1, "3_c": 1}
    with Archive(default_path()) as archive:
        assert row(found, "2_b.py").measurement_id in {r.id for r in archive.measurements()}


def test_a_kernel_is_compared_with_eager_and_with_the_compiled_reference(folder: Path) -> None:
    found = run(folder)
    fast = row(found, "1_a/fast.py")
    assert fast.eager is not None
    assert fast.compile is not None
    assert (fast.eager.ratio, fast.compile.ratio) == (3.0, pytest.approx(2.0))
    assert fast.compile.low < 2.0 * fast.eager.low / 3.0
    assert (fast.kernel_us, fast.reference_us) == (pytest.approx(1e3 / 3), pytest.approx(1e3))
    assert [(c.problem, c.status, c.speedup and c.speedup.ratio) for c in found.compiled] == [
        ("1_a", "ok", 1.5),
        ("2_b", "ok", 1.0),
        ("3_c", "problem_failed", None),
    ]
    assert [s.baseline for s in found.best.scores] == ["eager", "compile"]
    without = run(folder, baselines=["eager"])
    assert (without.compiled, without.baselines) == ([], ["eager"])
    assert row(without, "1_a/fast.py").compile is None


@pytest.mark.parametrize(("says", "status"), [("wrong", "incorrect"), ("1.5 suspicious", "ok")])
def test_there_is_no_ratio_to_a_compiled_reference_that_failed(folder: Path, says: str, status: str) -> None:
    write(folder / "p", **{"1_a": problem(f"compiled {says}")})
    found = run(folder)
    assert (found.compiled[0].status, found.compiled[0].speedup) == (status, None)
    assert row(found, "1_a/fast.py").compile is None
    assert row(found, "1_a/fast.py").trusted


def test_what_is_not_trusted_is_correct_and_not_fast(folder: Path) -> None:
    write(folder / "k", **{"2_b": kernel("9.0 suspicious")})
    doubtful = row(run(folder, only="2*"), "2_b.py")
    assert (doubtful.verdict, doubtful.correct, doubtful.trusted, doubtful.log) == ("suspicious", True, False, "doubt")
    assert run(folder, only="2*").best.scores[0].fast_1.point == 0


def test_the_errors_of_problems_and_files_are_rows_without_control_characters(folder: Path) -> None:
    (folder / "p" / "5_e.py").write_text("class Model(:\n")
    (folder / "p" / "helpers.py").write_text("x = 1\n")
    (folder / "k" / "5_e.py").write_text(kernel("1.0"))
    (folder / "k" / "4_d.py").write_text("nothing that is a kernel\n")
    found = run(folder)
    assert "no memory" in row(found, "3_c.py").log
    assert "\x1b" not in row(found, "3_c.py").log
    assert row(found, "5_e.py").status == "problem_failed"
    assert "not a Python file" in row(found, "5_e.py").log
    assert row(found, "4_d.py").status == "unreadable"
    assert "helpers" in [u.path for u in found.unmatched]
    assert found.problems == 5


def test_references_may_be_measured_against_themselves(folder: Path) -> None:
    found = run(folder, kernels=None, identical=True)
    assert [(r.problem, r.kernel, r.verdict) for r in found.rows if r.status == "ok"] == [
        (name, "identical", "tie") for name in ("1_a", "2_b", "4_d")
    ]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"identical": True}, "either kernels or --identical"),
        ({"kernels": None}, "either kernels or --identical"),
        ({"place": Place(device="replay", pool="x.parquet")}, "measured, not looked up"),
        ({"only": "9*"}, "no problem is called"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(folder: Path, more: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        run(folder, **more)


def test_without_any_problem_that_loads_there_is_an_error(folder: Path) -> None:
    (folder / "p" / "1_a.py").write_text("class Model(:\n")
    with pytest.raises(TaskError, match="not a Python file"):
        run(folder, only="1*")


def after(count: int) -> tuple[Callable[[SuiteProgress], None], Callable[[], bool]]:
    """A progress that asks to stop after so many measurements."""
    seen: list[SuiteProgress] = []
    return seen.append, lambda: len(seen) >= count


def told(result: SuiteResult) -> dict[str, Any]:
    """What two runs must agree in; times and numbers in the archive are each run's own."""
    data = result.model_dump(exclude={"output", "seconds"})
    for line in (*data["rows"], *data["compiled"]):
        line.pop("measurement_id", None)
        line.pop("seconds")
    return data


def test_a_suite_that_was_interrupted_goes_on_with_identical_totals(folder: Path) -> None:
    whole = run(folder, output=str(folder / "whole"))
    for stops in (1, 3, 5):
        out = str(folder / f"out{stops}")
        first, second = SuiteExecutor(), SuiteExecutor()
        progress, stopped = after(stops)
        part = run(folder, first, progress=progress, stopped=stopped, output=out)
        assert part.status == "interrupted"
        assert part.statuses["not_measured"] > 0
        assert "run the same command again" in part.summary
        seen: list[SuiteProgress] = []
        assert told(run(folder, second, output=out, progress=seen.append)) == told(whole)
        assert not {c.sha256 for c in first.measured} & {c.sha256 for c in second.measured}
        assert (seen[-1].done, seen[-1].total) == (8, 8)
        assert seen[0].recorded >= stops


def test_a_finished_suite_measures_nothing_again(folder: Path) -> None:
    first = run(folder)
    again = SuiteExecutor()
    assert run(folder, again) == first
    assert (again.measured, again.described) == ([], {})


def test_a_line_that_a_kill_left_unfinished_is_measured_again(folder: Path) -> None:
    whole = run(folder)
    record = folder / "out" / suite_measuring.NAME
    lines = record.read_text().splitlines(keepends=True)
    record.write_text(lines[0] + lines[1][:40])
    again = SuiteExecutor()
    assert told(run(folder, again)) == told(whole)
    assert len(again.measured) == 5
    assert all(json.loads(line)["key"] for line in record.read_text().splitlines())


def test_what_changed_is_measured_again(folder: Path) -> None:
    run(folder)
    write(folder / "k", **{"2_b": kernel("4.0")})
    changed = SuiteExecutor()
    assert row(run(folder, changed), "2_b.py").eager == Interval(ratio=4.0, low=4.0 / 1.02, high=4.0 * 1.02)
    assert len(changed.measured) == 1
    write(folder / "p", **{"2_b": problem("another")})
    changed = SuiteExecutor()
    run(folder, changed)
    assert len(changed.measured) == 2  # the kernel and the compiled reference
    newer = SuiteExecutor()
    newer.versions = {"torch": "2.1"}
    run(folder, newer)
    assert len(newer.measured) == 6


def test_a_hostile_file_is_a_row(folder: Path) -> None:
    (folder / "k" / "1_a" / "slow.py").write_text(kernel("0.5") + "x = " + "-" * 90_000 + "1\n")
    found = run(folder)
    assert (row(found, "1_a/slow.py").status, "levels deep" in row(found, "1_a/slow.py").log) == ("unreadable", True)
    assert row(found, "1_a/fast.py").status == "ok"


def test_what_failed_is_measured_again_when_asked(folder: Path) -> None:
    run(folder)
    again = SuiteExecutor()
    run(folder, again, retry_failed=True)
    assert ["wrong" in c.source for c in again.measured] == [True]
    assert again.described["3_c"] == 1


def test_equal_kernels_are_measured_once(folder: Path) -> None:
    write(folder / "k", **{"1_a__same": kernel("3.0")})
    executor = SuiteExecutor()
    found = run(folder, executor)
    assert row(found, "1_a/same.py").eager == row(found, "1_a/fast.py").eager
    assert len(executor.measured) == len({(c.sha256) for c in executor.measured})


def test_a_lost_measurement_is_a_row_and_is_made_by_the_next_call(folder: Path) -> None:
    executor = SuiteExecutor()
    executor.loses = {"times 0.5"}
    found = run(folder, executor)
    assert (row(found, "1_a/slow.py").status, row(found, "1_a/slow.py").log) == (
        "lost",
        "the measuring process was lost",
    )
    assert row(found, "2_b.py").status == "ok"
    again = SuiteExecutor()
    assert row(run(folder, again), "1_a/slow.py").status == "ok"
    assert len(again.measured) == 1


def test_a_device_that_is_gone_ends_the_suite_and_keeps_what_was_measured(folder: Path) -> None:
    executor = SuiteExecutor()
    executor.loses = {"times", "wrong"}
    with pytest.raises(WorkerError, match="was lost"):
        run(folder, executor)
    again = SuiteExecutor()
    run(folder, again)
    assert 0 < len(again.measured) < 6


def test_two_suites_do_not_share_a_folder(folder: Path) -> None:
    run(folder)
    with (folder / "out" / suite_measuring.NAME).open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(UsageError, match="another suite is at work") as caught:
            run(folder)
    assert "--output DIR" in caught.value.hint


def test_a_folder_that_cannot_be_written_is_an_error(folder: Path) -> None:
    (folder / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        run(folder, output=str(folder / "file" / "out"))


def test_tables_lie_beside_the_record(folder: Path) -> None:
    (folder / "k" / "1_a" / "=cmd().py").write_text(kernel("wrong =HYPERLINK"))
    found = run(folder)
    out = folder / "out"
    assert SuiteResult.model_validate_json((out / "result.json").read_text()) == found
    markdown = (out / "table.md").read_text()
    assert "| 1\\_a | 1\\_a/fast.py | 3× \\[2.94, 3.06] |" in markdown
    assert "77\\_x.py: its name is that of no problem" in markdown
