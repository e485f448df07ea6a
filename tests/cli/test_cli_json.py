"""Every verb with --json: one document on stdout that fits its schema, and the exit code that is documented."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.recorded_pool import Recorded, record

from forewarp.archive.pools.parquet import read_pool, write_rows
from forewarp.cli.main import main
from forewarp.report import documents

Run = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record(tmp_path_factory.mktemp("pool"))


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command with --json and return exit code, document and stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, dict[str, Any], str]:
        exit_code = main([*arguments, "--json"])
        out, err = capsys.readouterr()
        assert out.count("\n") == 1, out
        document = json.loads(out)
        verb = {"resume": "optimize", "show": "optimize"}.get(arguments[0], arguments[0])
        verb = "measure_many" if "kernels" in document else verb
        kind = "error" if document["status"] == "error" and "candidates" not in document else verb
        documents.DOCUMENTS[kind].model_validate(document)
        assert document["type"] == "result"
        assert document["schema_version"] == 1
        assert document["summary"]
        return exit_code, document, err

    return call


def optimize(recorded: Recorded, *more: str) -> list[str]:
    return ["optimize", recorded.task, *recorded.flags, "--budget", "8", *more]


def test_optimize_prints_the_best_and_writes_the_files(run: Run, recorded: Recorded, tmp_path: Path) -> None:
    exit_code, found, err = run(*optimize(recorded, "--out", "here"))
    assert exit_code == 0
    assert found["status"] == "finished"
    assert found["best"]["speedup"]["low"] <= found["best"]["speedup"]["ratio"] <= found["best"]["speedup"]["high"]
    assert found["budget"]["spent"]["measurements"] == found["budget"]["limit"]["measurements"] == 8
    paths = {a["kind"]: Path(a["path"]) for a in found["artifacts"]}
    assert set(paths) - {"module"} == {"kernel", "evidence", "result", "candidates", "report"}
    assert all(p.parent == tmp_path / "here" for p in paths.values())
    assert json.loads(paths["result"].read_text()) == found
    assert "[8/8]" not in err


def test_the_winner_comes_with_its_evidence(run: Run, recorded: Recorded) -> None:
    _, found, _ = run(*optimize(recorded, "--out", "here"))
    paths = {a["kind"]: Path(a["path"]) for a in found["artifacts"]}
    evidence = json.loads(paths["evidence"].read_text())
    assert evidence["run_id"] == found["run_id"]
    assert evidence["kernel_sha256"] == found["best"]["kernel"]["sha256"]
    assert evidence["speedup"] == found["best"]["speedup"]
    assert {s["name"] for s in evidence["shapes"]} == {w["name"] for w in found["best"]["workloads"]}
    assert (evidence["module"] is None) == ("module" not in paths) == bool(evidence["why_no_module"])


def test_files_that_cannot_be_written_cost_nothing_that_was_there(run: Run, recorded: Recorded, tmp_path: Path) -> None:
    _, found, _ = run(*optimize(recorded, "--out", "here"))
    before = (tmp_path / "here" / "candidates.csv").read_bytes()
    (tmp_path / "here" / "result.json").unlink()
    (tmp_path / "here" / "result.json").mkdir()
    exit_code, failed, _ = run("show", found["run_id"], "--out", "here")
    assert exit_code != 0
    assert "cannot be written" in failed["error"]["message"]
    assert "forewarp show" in failed["error"]["hint"]
    assert (tmp_path / "here" / "candidates.csv").read_bytes() == before
    assert not [p for p in (tmp_path / "here").iterdir() if p.name.startswith(".")]


def test_files_go_to_a_folder_of_the_run_by_default(run: Run, recorded: Recorded, tmp_path: Path) -> None:
    _, found, err = run(*optimize(recorded, "--quiet"))
    assert (tmp_path / "forewarp-runs" / found["run_id"] / "result.json").exists()
    assert err == ""


def test_show_and_resume_speak_of_the_same_run(run: Run, recorded: Recorded) -> None:
    _, made, _ = run(*optimize(recorded))
    exit_code, shown, _ = run("show", made["run_id"])
    assert exit_code == 0
    assert shown["candidates"] == made["candidates"]
    _, listed, _ = run("runs")
    assert [r["run_id"] for r in listed["runs"]] == [made["run_id"]]
    assert listed["summary"].startswith("1 run in ")
    exit_code, refused, _ = run("resume", made["run_id"], *recorded.flags)
    assert (exit_code, refused["error"]["code"]) == (2, "usage")
    assert "is finished" in refused["error"]["message"]


def test_measure_and_forecast_speak_of_one_kernel(run: Run, recorded: Recorded) -> None:
    other = next(r.candidate for r in read_pool(recorded.pool)[2:] if r.measurement.status == "ok")
    chosen = [f"--tunable={name}={value}" for name, value in other.tunables.items()]
    assert run("measure", recorded.task, recorded.seed, *recorded.flags, *chosen)[0] == 0
    exit_code, measured, _ = run("measure", recorded.task, recorded.seed, *recorded.flags)
    assert exit_code == 0
    assert (measured["status"], measured["source"]) == ("ok", "replay")
    exit_code, again, _ = run("forecast", recorded.task, recorded.seed, *recorded.flags)
    assert (exit_code, again["recommendation"], again["trials"]) == (0, "skip", 2)
    assert again["already_measured"] == measured["speedup"]
    assert again["kernel"] == measured["kernel"]


def test_several_kernels_are_one_document(run: Run, recorded: Recorded) -> None:
    exit_code, found, _ = run("measure", recorded.task, recorded.broken, recorded.seed, "gone.cpp", *recorded.flags)
    assert (exit_code, found["status"], found["error"]) == (0, "ok", None)
    broken, good, gone = found["kernels"]
    assert (broken["result"]["status"], good["result"]["status"], gone["result"]) == ("compile_error", "ok", None)
    assert "gone.cpp cannot be read" in gone["problem"]
    exit_code, found, _ = run("measure", recorded.task, recorded.broken, "gone.cpp", *recorded.flags)
    assert (exit_code, found["status"]) == (3, "failed")


def test_several_kernels_are_ranked_in_one_document(run: Run, recorded: Recorded) -> None:
    arguments = ("forecast", recorded.task, recorded.broken, recorded.seed, "gone.cpp", *recorded.flags)
    exit_code, found, _ = run(*arguments)
    assert (exit_code, found["status"], found["error"]) == (0, "ok", None)
    assert [line["position"] for line in found["ranking"]] == [2, 1, 3]
    assert found["kernel"] == found["ranking"][0]["kernel"]
    assert run("forecast", recorded.task, recorded.broken, "gone.cpp", *recorded.flags)[0] == 3
    exit_code, found, _ = run("forecast", recorded.task, recorded.seed, *recorded.flags, "--against", recorded.seed)
    assert (exit_code, found["anchor"], found["ranking"]) == (0, found["kernel"]["sha256"], [])


def test_a_pool_knows_no_other_anchor_than_the_reference(run: Run, recorded: Recorded) -> None:
    arguments = ("measure", recorded.task, recorded.seed, *recorded.flags, "--against", recorded.seed)
    exit_code, found, _ = run(*arguments)
    assert (exit_code, found["error"]["code"]) == (2, "usage")
    assert "--against" in found["error"]["hint"]


@pytest.mark.parametrize("verb", ["measure", "forecast"])
def test_a_kernel_that_fails_is_exit_3(run: Run, recorded: Recorded, verb: str) -> None:
    exit_code, found, _ = run(verb, recorded.task, recorded.broken, *recorded.flags)
    assert (exit_code, found["status"], found["error"]) == (3, "compile_error", None)


def test_no_correct_candidate_is_exit_3(run: Run, tmp_path: Path, recorded: Recorded) -> None:
    failing = [r for r in read_pool(recorded.pool) if r.measurement.status == "incorrect"]
    assert failing
    write_rows(failing, tmp_path / "failing.parquet")
    exit_code, found, _ = run("optimize", recorded.task, "--device", "replay", "--pool", "failing.parquet")
    assert (exit_code, found["best"], found["status"]) == (3, None, "finished")
    assert "No correct and trusted candidate" in found["summary"]


def test_tasks_and_doctor_need_nothing(run: Run) -> None:
    exit_code, found, _ = run("tasks")
    assert exit_code == 0
    assert "softmax" in [t["name"] for t in found["tasks"]]
    exit_code, found, _ = run("doctor")
    missing = [c for c in found["checks"] if not c["found"]]
    assert all(c["costs"] for c in missing)
    assert exit_code == (0 if found["status"] == "ok" else 69)


def test_doctor_works_without_torch(run: Run, tmp_path: Path) -> None:
    exit_code, found, _ = run("doctor", "--python", "/bin/false")
    assert (exit_code, found["status"]) == (69, "degraded")
    torch = next(c for c in found["checks"] if c["name"] == "torch")
    assert not torch["found"]
    assert "nothing can be measured" in torch["costs"]
    assert "forewarp[gpu]" in found["summary"]
    # What could not be tried is not said to be missing, with a remedy that is none.
    (protections,) = [c for c in found["checks"] if "protection" in c["name"] + c["costs"]]
    assert protections["detail"].startswith("not tried")


def test_doctor_never_shows_a_key(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    _, found, err = run("doctor", "--python", "/bin/false")
    assert "sk-secret" not in json.dumps(found) + err
    assert next(c for c in found["checks"] if c["name"] == "openai key")["found"]


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code", "says"),
    [
        (["optimize", "softmux"], 2, "task", "softmux"),
        (["optimize"], 2, "usage", "TASK"),
        (["apply", "model.py"], 2, "usage", "--with"),
        (["optimize", "softmax", "--bugdet", "3"], 2, "usage", "--budget"),
        (["optimize", "softmax", "--budget", "0"], 2, "usage", "budget"),
        (["optimize", "softmax", "--device", "tpu"], 2, "usage", "tpu"),
        (["optimise", "softmax"], 2, "usage", "optimize"),
        (["measure", "softmax", "nothing.cpp"], 2, "candidate", "nothing.cpp"),
        (["measure", "softmax", "nothing.cpp", "--tunable", "A"], 2, "usage", "'A'"),
        (["optimize", "softmax", "--model", "openai:x"], 2, "model", "OPENAI_API_KEY"),
        (["optimize", "softmax", "--model", "nobody:x"], 2, "model", "nobody"),
        (["optimize", "softmax", "--device", "replay"], 2, "task", "pool"),
        (["optimize", "softmax", "--archive", "/proc/none/a.db"], 73, "archive", "/proc/none"),
        (["show", "r-none"], 2, "usage", "r-none"),
        (["resume", "r-none"], 2, "usage", "r-none"),
    ],
)
def test_errors_are_documents_too(run: Run, arguments: list[str], exit_code: int, code: str, says: str) -> None:
    given, found, err = run(*arguments)
    assert (given, found["status"], found["error"]["code"]) == (exit_code, "error", code)
    assert says in found["error"]["message"]
    assert says in err
    assert "Traceback" not in err


def test_an_archive_that_is_no_archive_is_exit_73(run: Run, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("these are notes" * 100)
    exit_code, found, _ = run("runs", "--archive", "notes.txt")
    assert (exit_code, found["error"]["code"]) == (73, "archive")


@pytest.mark.parametrize("arguments", [["runs"], ["report"], ["show", "r-1"], ["resume", "r-1"]])
def test_looking_into_an_archive_that_is_not_there_makes_none(run: Run, tmp_path: Path, arguments: list[str]) -> None:
    exit_code, found, _ = run(*arguments, "--archive", "typo/archive.db")
    assert (exit_code, found["error"]["code"]) == (2, "usage")
    assert "there is no archive at" in found["error"]["message"]
    assert "--archive" in found["error"]["hint"]
    assert not (tmp_path / "typo").exists()


def test_ones_own_archive_may_not_be_there_yet(run: Run, tmp_path: Path) -> None:
    exit_code, found, _ = run("runs")
    assert (exit_code, found["runs"]) == (0, [])
    assert "No runs in" in found["summary"]
    assert not (tmp_path / "archive.db").exists()


def test_a_forecast_for_a_target_takes_no_device(run: Run, recorded: Recorded) -> None:
    exit_code, found, _ = run("forecast", recorded.task, recorded.seed, "--target", "h200", "--device", "cpu")
    assert (exit_code, found["error"]["code"]) == (2, "usage")
    assert "leave them out" in found["error"]["hint"]
    assert run("forecast", recorded.task, recorded.seed, "--target", "h200", *recorded.flags)[0] == 2


@pytest.mark.parametrize("flag", ["--max-usd", "--max-tokens"])
def test_a_cap_on_what_nobody_spends_is_refused(run: Run, recorded: Recorded, flag: str) -> None:
    exit_code, found, _ = run(*optimize(recorded, flag, "2"))
    assert (exit_code, found["error"]["code"]) == (2, "usage")
    assert "--model" in found["error"]["hint"]


@pytest.mark.parametrize(
    ("flag", "value"),
    [("--deadline", "inf"), ("--max-gpu-seconds", "nan"), ("--max-usd", "0"), ("--max-tokens", "-1")],
)
def test_a_cap_is_a_finite_amount(run: Run, recorded: Recorded, flag: str, value: str) -> None:
    exit_code, found, _ = run(*optimize(recorded, flag, value))
    assert (exit_code, found["error"]["code"]) == (2, "usage")
    assert f"for {flag}. It must be above 0 and finite." in found["error"]["message"]


def test_a_traceback_is_shown_only_on_request(run: Run) -> None:
    _, _, err = run("show", "r-none", "-v")
    assert "Traceback" in err


def test_an_unwritable_folder_does_not_lose_the_run(run: Run, recorded: Recorded) -> None:
    exit_code, found, _ = run(*optimize(recorded, "--out", "/proc/none"))
    assert (exit_code, found["error"]["code"]) == (2, "usage")
    _, listed, _ = run("runs")
    assert listed["runs"][0]["status"] == "finished"


@pytest.mark.parametrize("name", documents.DOCUMENTS)
def test_committed_schemas_are_up_to_date(name: str) -> None:
    committed = Path(__file__).parents[2] / "docs" / "schemas" / f"{name}.schema.json"
    assert json.loads(committed.read_text()) == documents.schema(name), (
        "run python -m forewarp.report.documents docs/schemas"
    )
