"""`forewarp data`: every verb by its command line, and replay of the pools that it writes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import published
from support import synthetic_executor as synthetic
from support.recorded_pool import Recorded, record

from forewarp.archive import forecasts
from forewarp.archive.pools.parquet import read_pool, write_rows
from forewarp.archive.store import Archive, default_path
from forewarp.cli.main import DATA, main
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
    assert all(verb in out for verb in DATA)
    for verb in DATA:
        assert main(["data", verb, "--help"]) == 0
    assert "kernelbench" in capsys.readouterr().out


def test_import_writes_a_pool_and_forecasts_beside_it(run: Run) -> None:
    rows = [published.eval_row(1, 0.5), published.eval_row(2, 3.0)]
    published.parquet(rows, Path("sets/eval.parquet"))
    published.parquet([published.prediction_row(1, 0)], Path("sets/predictions.parquet"))
    exit_code, found = run("data", "import", "gpu-forecasters", "sets", "--out", "paper.parquet")
    assert (exit_code, found["rows"], found["forecasts"]) == (0, 2, 1)
    assert found["files"] == ["paper.parquet", "paper.forecasts.parquet"]
    assert {r.origin.split for r in read_pool("paper.parquet")} == {"test"}
    assert forecasts.read_forecasts(Path("paper.forecasts.parquet"))[0].speedup == 0.5
    assert run("data", "check", "paper.parquet")[0] == 0
    assert len(read_pool(".")) == 2
    exit_code, found = run("data", "import", "gpu-forecasters", "sets/predictions.parquet", "--out", "paper.parquet")
    assert (exit_code, found["error"]["code"]) == (2, "usage")
    again = ("--out", "paper.parquet", "--overwrite")
    assert run("data", "import", "gpu-forecasters", "sets/predictions.parquet", *again)[1]["rows"] == 0
    assert len(read_pool("paper.parquet")) == 2


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        ("makora", [{"x": published.makora_program(n), "y": float(n + 1)} for n in range(3)]),
        ("sakana", [published.sakana_row(n) for n in range(3)]),
    ],
)
def test_other_kinds_by_their_names(run: Run, kind: str, rows: list[dict[str, Any]]) -> None:
    published.parquet(rows, Path("rows.parquet"))
    arguments = ("--limit", "2", "--family", "37_FrobeniusNorm_=normalisation")
    exit_code, found = run("data", "import", kind, "rows.parquet", "--out", "p.parquet", *arguments)
    assert (exit_code, found["rows"]) == (0, 2)
    assert {r.origin.split for r in read_pool("p.parquet")} == ({"train"} if kind == "sakana" else {""})


def test_kernel_tuner_and_kernelbench_by_their_names(run: Run) -> None:
    Path("t4.json").write_text(json.dumps({"results": [published.t4_result(16, "row", [1.0])]}))
    assert run("data", "import", "kernel-tuner", "t4.json", "--out", "t.parquet")[1]["rows"] == 1
    entry = published.kernelbench_entry(0, ref_runtime=1.0)
    published.kernelbench_run(Path("runs/mine"), {"1": [entry]})
    assert run("data", "import", "kernelbench", "runs/mine", "--out", "k.parquet")[1]["rows"] == 1
    assert run("data", "merge", "t.parquet", "k.parquet", "--out", "m.parquet")[1]["rows"] == 2


def test_a_leak_is_refused_and_leaves_no_file(run: Run) -> None:
    rows = [published.eval_row(1, 0.5), published.eval_row(1, 0.5, pack="fp8_quant")]
    published.parquet(rows, Path("eval.parquet"))
    exit_code, found = run("data", "import", "gpu-forecasters", "eval.parquet", "--out", "p.parquet")
    assert (exit_code, found["error"]["code"]) == (2, "usage")
    assert "splits leak: task" in found["error"]["message"]
    assert "test (trimul)" in found["error"]["message"]
    assert "train (fp8_quant)" in found["error"]["message"]
    assert [p.name for p in Path().iterdir() if "p.parquet" in p.name] == []
    arguments = ("--family", "fp8_quant=triangle_multiplication")
    assert run("data", "import", "gpu-forecasters", "eval.parquet", "--out", "p.parquet", *arguments)[0] == 0


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


def test_export_takes_families_and_parents_from_task_folders(run: Run) -> None:
    folder = Path("tasks/toy/seeds")
    folder.mkdir(parents=True)
    (folder / "01_one.cpp").write_text(synthetic.SOURCE)
    (folder / "02_two.cpp").write_text(synthetic.SOURCE.replace("WIDTH;", "2 * WIDTH;"))
    Path("tasks/toy/task.toml").write_text('title = "Toy"\nfamily = "scan"\n')
    lineage = '["01_one.cpp"]\nparent = ""\n["02_two.cpp"]\nparent = "01_one.cpp"\nmistake = "doubled"\n'
    Path("tasks/toy/lineage.toml").write_text(lineage)
    executor, task = synthetic.SyntheticExecutor(), synthetic.task()
    with Archive(default_path()) as archive:
        for file in sorted(folder.iterdir()):
            kernel = synthetic.seed(file.read_text())
            build = executor.compile(task, kernel)
            archive.record(task, executor.target, kernel, build, executor.measure(task, kernel, build))
    assert run("data", "export", "--out", "a.parquet", "--tasks", "tasks", "--features")[0] == 0
    one, two = read_pool("a.parquet")
    assert one.origin.family == two.origin.family == "scan"
    assert one.origin.parent == ""
    assert (one.origin.tags, two.origin.tags) == ((), ("mistake",))
    features = json.loads(one.origin.features)
    assert features["version"] >= 1
    assert set(features) - {"version"} <= set(vector({}, 0, Candidate("", "cpp"), synthetic.TARGET, 1.0))
    assert len(features) > 1
    exit_code, found = run("data", "check", "a.parquet")
    assert exit_code == 0
    import pyarrow.parquet as pq

    programs = pq.read_table("a.parquet").column("program").to_pylist()
    assert two.origin.parent == programs[0]
    Path("tasks/toy/lineage.toml").write_text('["02_two.cpp"]\nparent = "03.cpp"\n')
    exit_code, found = run("data", "export", "--out", "b.parquet", "--tasks", "tasks")
    assert (exit_code, found["error"]["code"]) == (2, "task")


def test_merge_deduplicate_and_count(run: Run, recorded: Recorded) -> None:
    count = len(read_pool(recorded.pool))
    assert run("data", "merge", recorded.pool, recorded.pool, "--out", "twice.parquet")[1]["rows"] == 2 * count
    exit_code, found = run("data", "deduplicate", "twice.parquet", "--out", "once.parquet")
    assert (exit_code, found["rows"]) == (0, count)
    assert found["left_out"] == {"same text": count, "same compiled code": 0}
    exit_code, found = run("data", "stats", "once.parquet")
    counts = found["counts"]
    assert (exit_code, counts["total"]["rows"], counts["total"]["programs"]) == (0, count, 2)
    assert sum(n for _, n in counts["bins"]) == counts["total"]["worked"]
    assert counts["failures"]["compile_error"] > 0


def test_check_says_what_is_wrong(run: Run, recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    from dataclasses import replace

    rows = read_pool(recorded.pool)[:3]
    told = replace(rows[0].candidate, source=rows[0].candidate.source + "// the fastest\n")
    write_rows([replace(rows[0], candidate=told), *rows[1:]], "told.parquet")
    exit_code, found = run("data", "check", "told.parquet")
    assert (exit_code, found["status"], found["problem_counts"]) == (3, "problems", {"text": 1})
    assert "'fastest'" in found["problems"][0]["message"]
    assert main(["data", "check", "told.parquet"]) == 3
    assert "told.parquet row 1 (toy" in capsys.readouterr().out


def test_tables_are_for_people(run: Run, recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "stats", recorded.pool]) == 0
    out = capsys.readouterr().out
    assert "toy" in out
    assert "extreme speed-up (S ≥ 4.00)" in out
    assert "compile_error" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["stats", "none.parquet"], "nothing at none.parquet"),
        (["stats"], "POOL"),
        (["stats", "empty"], "no pool at empty"),
        (["merge", "text.parquet", "--out", "x.parquet"], "cannot be read"),
        (["merge", "text.parquet", "--out", "x.csv"], "no name for a pool"),
        (["merge", "text.parquet", "--out", "text.parquet"], "is there already"),
        (["merge", "text.parquet"], "--out"),
        (["export", "--out", "x.parquet", "--archive", "none.db"], "no archive at none.db"),
        (["export", "text.parquet", "--out", "x.parquet", "--run", "r-1"], "either from pools or from the archive"),
        (["export", "--out", "x.parquet", "--splits", "none.toml"], "nothing at none.toml"),
        (["export", "--out", "x.parquet", "--family", "softmax"], "'softmax' says no family"),
        (["export", "--out", "x.parquet", "--family", "softmax=odd"], "no split is known for family odd"),
        (["import", "paper", "text.parquet", "--out", "x.parquet"], "paper"),
        (["import", "makora", "none.parquet", "--out", "x.parquet"], "nothing at none.parquet"),
        (["import", "makora", "empty.jsonl", "--out", "x.parquet"], "no column x, y"),
        (["import", "sakana", "text.parquet", "--out", "x.parquet"], "cannot be read"),
        (["import", "makora", "text.parquet", "--out", "x.parquet", "--noise", "-1"], "noise"),
        (["chekc", "text.parquet"], "chekc"),
    ],
)
def test_wrong_paths_and_flags_are_refused(run: Run, arguments: list[str], says: str) -> None:
    Path("empty").mkdir()
    Path("text.parquet").write_text("no parquet")
    Path("empty.jsonl").write_text("")
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


def test_an_imported_pool_is_replayed_by_the_name_of_its_task(run: Run) -> None:
    failed = {"Correct": False, "CUDA_Runtime": None}
    rows = [published.sakana_row(n, CUDA_Runtime=0.1 * (n + 1)) for n in range(6)]
    rows += [published.sakana_row(7, Error="Error building extension", **failed)]
    rows += [published.sakana_row(8, Error="illegal memory access", **failed)]
    published.parquet(rows, Path("level_1.parquet"))
    assert run("data", "import", "sakana", "level_1.parquet", "--out", "p.parquet", "--noise", "5")[0] == 0
    pool = ("37_FrobeniusNorm_", "--device", "replay", "--pool", "p.parquet")
    exit_code, found = run("optimize", *pool, "--budget", "20", "--forecaster", "none")
    assert exit_code == 0
    assert found["best"]["speedup"]["ratio"] == pytest.approx(10)
    outcomes = [c["outcome"] for c in found["candidates"]]
    assert (outcomes.count("passed"), outcomes.count("compile_error")) == (7, 1)
    Path("mine.py").write_text(published.REFERENCE)
    assert run("optimize", "mine.py", *pool[1:], "--budget", "2", "--forecaster", "none")[0] == 0
    exit_code, found = run("optimize", "other", *pool[1:])
    assert (exit_code, found["error"]["code"]) == (2, "task")
    assert "37_FrobeniusNorm_" in found["error"]["hint"]


def test_a_pool_of_pairs_alone_cannot_be_searched(run: Run) -> None:
    published.parquet([{"x": published.makora_program(n), "y": 1.0} for n in range(3)], Path("m.parquet"))
    assert run("data", "import", "makora", "m.parquet", "--out", "p.parquet")[0] == 0
    name = read_pool("p.parquet")[0].task.name
    exit_code, found = run("optimize", name, "--device", "replay", "--pool", "p.parquet")
    assert (exit_code, found["error"]["code"]) == (2, "task")
    assert "against other kernels only" in found["error"]["message"]
