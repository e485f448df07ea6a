"""`forewarp data`: its command line, and replay of the pools that it writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import synthetic_executor as synthetic
from support.recorded_pool import Recorded, record

from forewarp.archive.pools.parquet import read_pool, write_rows
from forewarp.archive.store import Archive, default_path
from forewarp.cli.main import GROUPS, main
from forewarp.core.values import Candidate
from forewarp.inspection.features.vector import vector
from forewarp.report import documents

Run = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record(tmp_path_factory.mktemp("pool"))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command with --json in an empty folder and return exit code and document."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, dict[str, Any]]:
        exit_code = main([*arguments, "--json"])
        document = json.loads(capsys.readouterr().out)
        if arguments[0] == "data":
            kind = "error" if document["status"] == "error" else "data"
            documents.DOCUMENTS[kind].model_validate(document)
        return exit_code, document

    return call


def test_help_of_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data"]) == 0
    out = capsys.readouterr().out
    assert all(verb in out for verb in GROUPS["data"][1])
    for verb in GROUPS["data"][1]:
        assert main(["data", verb, "--help"]) == 0
    assert "--overwrite" in capsys.readouterr().out


def test_export_from_the_archive_and_from_pools(run: Run, recorded: Recorded) -> None:
    assert run("measure", recorded.task, recorded.seed, *recorded.flags)[0] == 0
    exit_code, found = run("data", "export", "--out", "a.parquet", "--family", "toy=scan")
    assert (exit_code, found["rows"]) == (0, 1)
    (row,) = read_pool("a.parquet")
    assert (row.origin.family, row.origin.split) == ("scan", "validation")
    exit_code, found = run("data", "export", recorded.pool, "--out", "b.parquet", "--split", "test")
    assert (exit_code, found["rows"]) == (0, 0)
    exit_code, found = run("data", "export", recorded.pool, "--out", "c.parquet", "--task", "toy")
    assert found["rows"] == len(read_pool(recorded.pool))


def test_export_takes_families_from_task_folders(run: Run) -> None:
    folder = Path("tasks/toy/seeds")
    folder.mkdir(parents=True)
    (folder / "01_one.cpp").write_text(synthetic.SOURCE)
    (folder / "02_two.cpp").write_text(synthetic.SOURCE.replace("WIDTH;", "2 * WIDTH;"))
    Path("tasks/toy/task.toml").write_text('title = "Toy"\nfamily = "scan"\n')
    executor, task = synthetic.SyntheticExecutor(), synthetic.task()
    with Archive(default_path()) as archive:
        for file in sorted(folder.iterdir()):
            kernel = synthetic.seed(file.read_text())
            build = executor.compile(task, kernel)
            archive.record(task, executor.target, kernel, build, executor.measure(task, kernel, build))
    assert run("data", "export", "--out", "a.parquet", "--tasks", "tasks", "--features")[0] == 0
    one, two = read_pool("a.parquet")
    assert one.origin.family == two.origin.family == "scan"
    features = json.loads(one.origin.features)
    assert features["version"] >= 1
    assert set(features) - {"version"} <= set(vector({}, 0, Candidate("", "cpp"), synthetic.TARGET, 1.0))
    assert len(features) > 1


def test_a_leak_is_refused_and_leaves_no_file(run: Run, recorded: Recorded) -> None:
    from dataclasses import replace

    row = read_pool(recorded.pool)[0]
    write_rows([row, replace(row, task=replace(row.task, name="other"))], "twice.parquet")
    families = ("--family", "toy=scan", "--family", "other=reduction")
    exit_code, found = run("data", "export", "twice.parquet", "--out", "p.parquet", *families)
    assert (exit_code, found["error"]["code"]) == (2, "usage")
    assert "splits leak: task" in found["error"]["message"]
    assert "validation (toy)" in found["error"]["message"]
    assert "train (other)" in found["error"]["message"]
    assert [p.name for p in Path().iterdir() if "p.parquet" in p.name] == []
    families = ("--family", "toy=scan", "--family", "other=scan")
    assert run("data", "export", "twice.parquet", "--out", "p.parquet", *families)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["export", "none.parquet", "--out", "x.parquet"], "nothing at none.parquet"),
        (["export", "empty", "--out", "x.parquet"], "no pool at empty"),
        (["export", "text.parquet", "--out", "x.parquet"], "cannot be read"),
        (["export", "text.parquet", "--out", "x.csv"], "no name for a pool"),
        (["export", "text.parquet", "--out", "text.parquet"], "is there already"),
        (["export", "text.parquet"], "--out"),
        (["export", "--out", "x.parquet", "--archive", "none.db"], "no archive at none.db"),
        (["export", "text.parquet", "--out", "x.parquet", "--run", "r-1"], "either from pools or from the archive"),
        (["export", "--out", "x.parquet", "--splits", "none.toml"], "nothing at none.toml"),
        (["export", "--out", "x.parquet", "--family", "softmax"], "'softmax' says no family"),
        (["export", "--out", "x.parquet", "--family", "softmax=odd"], "no split is known for family odd"),
        (["exprot", "text.parquet"], "exprot"),
    ],
)
def test_wrong_paths_and_flags_are_refused(run: Run, arguments: list[str], says: str) -> None:
    Path("empty").mkdir()
    Path("text.parquet").write_text("no parquet")
    exit_code, found = run("data", *arguments)
    assert exit_code in (2, 73)
    assert found["status"] == "error"
    assert says in found["error"]["message"]
    assert found["error"]["hint"]
    assert not Path("x.parquet").exists()


def searched(run: Run, *arguments: str) -> list[Any]:
    exit_code, found = run("optimize", *arguments, "--quiet", "--budget", "6", "--forecaster", "none")
    assert exit_code == 0, found
    return [(c["kernel"]["sha256"], c["outcome"], c["measured"] is not None) for c in found["candidates"]]


def test_the_same_seed_searches_a_pool_the_same_way(run: Run, recorded: Recorded) -> None:
    half = read_pool(recorded.pool)
    write_rows(half[::2], "folder/a.parquet")
    write_rows(half[1::2], "folder/b.parquet")
    pool = (recorded.task, "--device", "replay", "--pool", "folder")
    first = searched(run, *pool, "--seed", "3")
    assert searched(run, *pool, "--seed", "3") == first
    assert searched(run, *pool, "--seed", "4") != first
    held = {r.candidate.sha256: r.measurement.status for r in half}
    assert {kernel for kernel, _, _ in first} <= set(held)
    assert {held[kernel] for kernel, _, measured in first if measured} >= {"ok"}
