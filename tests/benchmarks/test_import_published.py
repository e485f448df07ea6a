"""Published sets as pools: each kind by its name, what is refused, and replay of what was imported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import import_published
import pool_checks
import pytest
from support import published

from forewarp.archive import forecasts
from forewarp.archive.pools import splits
from forewarp.archive.pools.parquet import read_pool
from forewarp.cli.main import main


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def imported(*arguments: str) -> int:
    return import_published.main([*arguments])


def optimize(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    exit_code = main(["optimize", *arguments, "--json"])
    return exit_code, json.loads(capsys.readouterr().out)


def test_a_pool_is_written_and_forecasts_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [published.eval_row(1, 0.5), published.eval_row(2, 3.0)]
    published.parquet(rows, Path("sets/eval.parquet"))
    published.parquet([published.prediction_row(1, 0)], Path("sets/predictions.parquet"))
    assert imported("gpu-forecasters", "sets", "--out", "paper.parquet") == 0
    assert capsys.readouterr().out == "2 rows to paper.parquet\n1 forecasts to paper.forecasts.parquet\n"
    assert {r.origin.split for r in read_pool("paper.parquet")} == {"test"}
    assert forecasts.read_forecasts(Path("paper.forecasts.parquet"))[0].speedup == 0.5
    assert list(pool_checks.check([Path("paper.parquet")], splits.load())) == []
    assert len(read_pool(".")) == 2
    assert imported("gpu-forecasters", "sets/predictions.parquet", "--out", "paper.parquet") == 2
    assert "--overwrite" in capsys.readouterr().err
    assert imported("gpu-forecasters", "sets/predictions.parquet", "--out", "paper.parquet", "--overwrite") == 0
    assert len(read_pool("paper.parquet")) == 2


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        ("makora", [{"x": published.makora_program(n), "y": float(n + 1)} for n in range(3)]),
        ("sakana", [published.sakana_row(n) for n in range(3)]),
    ],
)
def test_other_kinds_by_their_names(kind: str, rows: list[dict[str, Any]]) -> None:
    published.parquet(rows, Path("rows.parquet"))
    assert imported(kind, "rows.parquet", "--out", "p.parquet", "--limit", "2") == 0
    families = ("--family", "37_FrobeniusNorm_=normalisation")
    assert main(["data", "export", "p.parquet", "--pairs", "--out", "m.parquet", *families]) == 0
    held = read_pool("m.parquet")
    assert len(held) == 2
    assert {r.origin.split for r in held} == ({"train"} if kind == "sakana" else {""})


def test_kernel_tuner_and_kernelbench_by_their_names() -> None:
    Path("t4.json").write_text(json.dumps({"results": [published.t4_result(16, "row", [1.0])]}))
    assert imported("kernel-tuner", "t4.json", "--out", "t.parquet") == 0
    entry = published.kernelbench_entry(0, ref_runtime=1.0)
    published.kernelbench_run(Path("runs/mine"), {"1": [entry]})
    assert imported("kernelbench", "runs/mine", "--out", "k.parquet") == 0
    assert main(["data", "export", "t.parquet", "k.parquet", "--pairs", "--out", "m.parquet"]) == 0
    assert len(read_pool("m.parquet")) == 2


def test_leaks_between_splits_are_found_by_the_check() -> None:
    published.parquet([published.eval_row(1, 0.5), published.eval_row(1, 0.5, pack="fp8_quant")], Path("eval.parquet"))
    assert imported("gpu-forecasters", "eval.parquet", "--out", "p.parquet") == 0
    leaks = [f.message for f in pool_checks.check([Path("p.parquet")], splits.load()) if f.kind == "leak"]
    assert any("test (trimul)" in leak for leak in leaks)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["makora", "none.parquet"], "no file none.parquet"),
        (["makora", "empty.jsonl"], "no column x, y"),
        (["sakana", "text.parquet"], "cannot be read"),
    ],
)
def test_wrong_files_are_refused(capsys: pytest.CaptureFixture[str], arguments: list[str], says: str) -> None:
    Path("text.parquet").write_text("no parquet")
    Path("empty.jsonl").write_text("")
    assert imported(*arguments, "--out", "x.parquet") == 2
    assert says in capsys.readouterr().err
    assert not Path("x.parquet").exists()


def test_an_imported_pool_is_replayed_by_the_name_of_its_task(capsys: pytest.CaptureFixture[str]) -> None:
    failed = {"Correct": False, "CUDA_Runtime": None}
    rows = [published.sakana_row(n, CUDA_Runtime=0.1 * (n + 1)) for n in range(6)]
    rows += [published.sakana_row(7, Error="Error building extension", **failed)]
    rows += [published.sakana_row(8, Error="illegal memory access", **failed)]
    published.parquet(rows, Path("level_1.parquet"))
    assert imported("sakana", "level_1.parquet", "--out", "p.parquet", "--noise", "5") == 0
    pool = ("37_FrobeniusNorm_", "--device", "replay", "--pool", "p.parquet")
    exit_code, found = optimize(capsys, *pool, "--budget", "20", "--forecaster", "none")
    assert exit_code == 0
    assert found["best"]["speedup"]["ratio"] == pytest.approx(10)
    outcomes = [c["outcome"] for c in found["candidates"]]
    assert (outcomes.count("passed"), outcomes.count("compile_error")) == (7, 1)
    Path("mine.py").write_text(published.REFERENCE)
    assert optimize(capsys, "mine.py", *pool[1:], "--budget", "2", "--forecaster", "none")[0] == 0
    exit_code, found = optimize(capsys, "other", *pool[1:])
    assert (exit_code, found["error"]["code"]) == (2, "task")
    assert "37_FrobeniusNorm_" in found["error"]["hint"]


def test_a_pool_of_pairs_alone_cannot_be_searched(capsys: pytest.CaptureFixture[str]) -> None:
    published.parquet([{"x": published.makora_program(n), "y": 1.0} for n in range(3)], Path("m.parquet"))
    assert imported("makora", "m.parquet", "--out", "p.parquet") == 0
    name = read_pool("p.parquet")[0].task.name
    exit_code, found = optimize(capsys, name, "--device", "replay", "--pool", "p.parquet")
    assert (exit_code, found["error"]["code"]) == (2, "task")
    assert "against other kernels only" in found["error"]["message"]
