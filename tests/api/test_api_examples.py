"""The examples do what they say, on a recorded pool."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import synthetic_executor as synthetic
from support.recorded_pool import Recorded, record

import forewarp
from forewarp.archive.pools.parquet import write_rows
from forewarp.archive.rows import RecordedRow
from forewarp.gpu_runner.formats import plan

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record(tmp_path_factory.mktemp("pool"), every=1)


def example(name: str) -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))


def main_of(name: str) -> Callable[..., Any]:
    return example(name)["main"]


def test_optimize_is_ten_lines() -> None:
    text = (EXAMPLES / "optimize.py").read_text()
    body = text[text.index("import forewarp") : text.index("if __name__")]
    assert sum(bool(line.strip()) for line in body.splitlines()) <= 10


def test_optimize(recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main_of("optimize")(recorded.task, tmp_path / "out", device="replay", pool=recorded.pool)
    out = capsys.readouterr().out
    assert out.startswith("Best kernel of toy")
    assert str(tmp_path / "out" / "report.html") in out
    assert 'extern "C" void go' in out


def test_custom_proposer(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    where = {"device": "replay", "pool": recorded.pool}
    found = main_of("custom_proposer")(recorded.task, seeds=[recorded.seed], **where)
    assert found.proposer == "own one-by-one"
    assert found.best is not None
    assert found.best.speedup.ratio > 1
    assert "TILE = " in capsys.readouterr().out
    assert forewarp.load().run_id == found.run_id


def test_watch_events(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    found = main_of("watch_events")(recorded.task, device="replay", pool=recorded.pool)
    out = capsys.readouterr().out
    assert out.startswith(f"{found.run_id}: toy on synthetic-1")
    assert "is worth a measurement" in out
    assert found.status == "interrupted"
    assert found.best is not None
    assert found.best.speedup.ratio > 1.5


def test_own_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = example("own_task")
    task, executor = module["define"](), synthetic.SyntheticExecutor()
    (seed,) = task.seeds
    rows: list[RecordedRow] = []
    for tunables in plan.parse(seed).combinations():
        kernel = forewarp.Candidate(seed.source, seed.language, tunables)
        build = executor.compile(task, kernel)
        found = executor.measure(task, kernel, build), None, "2026-11-20T00:00:00", "0"
        rows.append(RecordedRow(task, executor.target, executor.describe(task), kernel, build, *found))
    pool = tmp_path / "pool.parquet"
    write_rows(rows, pool)
    result = module["main"](device="replay", pool=str(pool))
    assert (result.task, result.status) == ("swish_gate", "finished")
    out = capsys.readouterr().out
    assert "Forecast" in out
    assert "over the reference of swish_gate" in out
