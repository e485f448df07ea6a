"""`forewarp export`: a run's winner and a kernel of one's own, in each form."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarp.archive.store import Archive
from forewarp.cli.main import main
from forewarp.tools.export import _rows_of
from forewarp.tools.parts import Place


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Return an archive with a run that was replayed, and the folder of its files."""
    folder = tmp_path_factory.mktemp("run")
    archive = str(folder / "archive.db")
    flags = ("--device", "replay", "--budget", "2", "--quiet", "--archive", archive, "--out", str(folder / "out"))
    assert main(["optimize", "gelu_bias", *flags]) == 0
    return archive, folder / "out"


def exported(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["export", *arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_a_run_is_named_by_id_by_latest_or_by_its_folder(
    run: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive, folder = run
    flags = ("--archive", archive, "--out", str(tmp_path))
    latest = exported(capsys, "latest", "--format", "file", *flags)
    assert latest["files"] == [str(tmp_path / "best_module.py")]
    first = (tmp_path / "best_module.py").read_text()
    assert first == (folder / "best_module.py").read_text()
    capsys.readouterr()
    assert main(["show", "--archive", archive, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run_id"] == latest["run_id"]
    for subject in (str(folder), latest["run_id"]):
        assert exported(capsys, subject, "--format", "file", *flags)["run_id"] == latest["run_id"]
        assert (tmp_path / "best_module.py").read_text() == first
    assert "there is no run" in exported(capsys, "r-nothing", *flags, code=2)["error"]["message"]


def test_a_run_becomes_a_package_or_a_file_for_vllm(
    run: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = exported(capsys, "latest", "--archive", run[0])
    assert made["folder"] == str(tmp_path / "gelu_bias")
    assert {str(Path(f).relative_to(made["folder"])) for f in made["files"]} >= {
        *("pyproject.toml", "README.md", "LICENSE", "evidence.json", "benchmark.py", "tests/test_gelu_bias.py"),
        *("src/gelu_bias/__init__.py", "src/gelu_bias/op.py", "src/gelu_bias/reference.py", "src/gelu_bias/kernel.py"),
    }
    evidence = json.loads((tmp_path / "gelu_bias" / "evidence.json").read_text())
    assert evidence["run_id"] == made["run_id"]
    exported(capsys, "latest", "--archive", run[0], "--format", "vllm-op", "--name", "fast_gelu")
    assert "torch.ops.vllm.fast_gelu" in (tmp_path / "fast_gelu.py").read_text()
    named = exported(capsys, "latest", "--archive", run[0], "--format", "file", "--out", "own/mine.py")
    assert named["files"] == [str(tmp_path / "own" / "mine.py")]
    assert "no name of a package" in exported(capsys, "latest", "--archive", run[0], "--name", "9", code=2)["summary"]
    wrong = exported(capsys, "latest", "--archive", run[0], "--backward", "latest", code=2)
    assert "not of the gradients of this task" in wrong["summary"]
    assert "--gradients only" in wrong["error"]["hint"]


def test_a_measured_kernel_of_ones_own_is_exported(
    run: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Archive(run[0]) as archive:
        row = next(r for r in archive.recorded() if r.measurement.verdict == "faster")
    kernel = tmp_path / "mine.cu"
    kernel.write_text(row.candidate.source)
    tunables = [flag for name, value in row.candidate.tunables.items() for flag in ("--tunable", f"{name}={value}")]
    flags = (str(kernel), *tunables, "--task", "gelu_bias", "--out", str(tmp_path / "made"), "--archive")
    assert "there is no archive" in exported(capsys, *flags, str(tmp_path / "none.db"), code=2)["error"]["message"]
    made = exported(capsys, *flags, run[0])
    assert made["run_id"] == row.run
    assert made["evidence"]["confirmed"] is False
    assert (tmp_path / "made" / "src" / "gelu_bias" / "kernel.cu").exists()
    kernel.write_text(row.candidate.source + "// another\n")
    error = exported(capsys, *flags, run[0], code=2)["error"]
    assert "no trusted measurement" in error["message"]
    assert "forewarp measure" in error["hint"]
    assert "no task is called" in exported(capsys, str(kernel), "--task", "x", "--archive", run[0], code=2)["summary"]


def test_a_kernel_that_was_measured_on_other_sizes_of_the_task_is_found(run: tuple[str, Path], tmp_path: Path) -> None:
    with Archive(run[0]) as archive:
        row = next(r for r in archive.recorded() if r.measurement.verdict == "faster")
    (first, *_) = row.task.workloads[row.target.kind]
    sized = replace(row.task, workloads={row.target.kind: (replace(first, constants={"N": 4096}),)})
    own = str(tmp_path / "own.db")
    with Archive(own) as archive:
        id_ = archive.begin_measurement(sized, row.target, row.candidate)
        archive.finish_measurement(id_, row.measurement, row.build)
        assert [r.task.sha256 for r in archive.recorded()] == [sized.sha256] != [row.task.sha256]
    (tmp_path / "task.py").write_text(row.task.reference)
    with Archive(own) as archive:
        candidate = archive.recorded()[0].candidate
        place = Place(archive=own)
        assert _rows_of(archive, candidate, str(tmp_path / "task.py"), place, None)[0].task.sha256 == sized.sha256
        assert not _rows_of(archive, candidate, str(tmp_path / "task.py"), place, "only")
