"""Searches for kernels of a whole model: shares of one budget, and a killed search that goes on with equal totals."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import dying
from support.small_model import FLIPPED, TEXT

from forewarp.archive.store import Archive, default_path
from forewarp.cli.main import main
from forewarp.core.errors import TaskError, UsageError
from forewarp.tools.optimize_model import LEAST, RECORD, ModelRecord, open_model_search, resume_model_search
from forewarp.tools.parts import Amounts, Place
from forewarp.tools.profile_model import Share
from forewarp.tools.requests import OptimizeModelRequest, SearchRequest

pytest.importorskip("torch")

HERE = Place(device="cpu")


def request(model: Path, top: int, **budget: float) -> OptimizeModelRequest:
    search = SearchRequest(task=str(model), budget=Amounts.model_validate(budget), place=HERE)
    return OptimizeModelRequest(search=search, top=top)


def test_what_no_search_can_begin_with_is_told_before_the_model_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "called.py"
    model.write_text("raise SystemExit('it ran')\n\n\ndef build():\n    return None, ()\n")
    whole = ["optimize", str(model), "--device", "cpu", "--budget", "4"]
    assert main([*whole, "--call", "build"]) == 2
    assert "1 line and judging the whole take at least 5 measurements" in capsys.readouterr().err
    assert main([*whole[:-1], "5", "--top", "1"]) == 2
    assert "or pass --call NAME" in capsys.readouterr().err


@pytest.mark.slow
def test_one_budget_is_shared_by_what_each_line_should_gain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "small.py"
    model.write_text(TEXT)
    small = open_model_search(request(model, 2, measurements=7), tmp_path / "too_small")
    with pytest.raises(UsageError, match="2 lines and judging the whole take at least 8 measurements"), small:
        pass
    with open_model_search(request(model, 3, measurements=30), tmp_path / "out") as search:
        gains = (0.6, 0.2, 0.0)
        lines = [
            line.model_copy(update={"gain": Share(value=gain, low=0, high=1)})
            for line, gain in zip(search.record.lines, gains, strict=True)
        ]
        search.record = search.record.model_copy(update={"lines": lines})
        shares = [search._share(index) for index in range(3)]
    # Five are kept for judging three kernels and the whole.
    assert [s.measurements for s in shares] == [19, 25 - LEAST, 25]
    record = ModelRecord.model_validate_json((tmp_path / "out" / RECORD).read_bytes())
    assert [line.number for line in record.lines] == [1, 2, 3]
    assert "SUBGRAPH" in (tmp_path / "out" / "line1.py").read_text()
    second = open_model_search(request(model, 3, measurements=30), tmp_path / "out")
    with pytest.raises(UsageError, match="holds a search already"), second:
        pass
    with resume_model_search(str(tmp_path / "out")) as again:
        assert again.result().status == "interrupted"
        assert again.result().budget.spent.measurements == 0
    assert main(["show", str(tmp_path / "out"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "interrupted"
    with pytest.raises(UsageError, match="holds no model's search"), resume_model_search("w-000000"):
        pass


@pytest.mark.slow
def test_seconds_are_kept_for_judging_by_what_judging_the_model_alone_took(tmp_path: Path) -> None:
    model = tmp_path / "small.py"
    model.write_text(TEXT.replace("32, 16, 2", "32, 12, 2"))  # a profile of the other one may be kept
    short = open_model_search(request(model, 3, wall_s=0.01), tmp_path / "out")
    with pytest.raises(TaskError, match="stopped after"), short:
        pass
    with open_model_search(request(model, 3, wall_s=1e6), tmp_path / "out") as search:
        each = search.record.judgement.wall_s or 0.0
        assert each > 0
        assert search.result().budget.spent.measurements == 1
        assert [line.why_none for line in search.record.lines] == [""] * 3
        budget = Amounts(wall_s=search.spent().wall_s + 6 * each)
        tight = search.record.request.search.model_copy(update={"budget": budget})
        search.record = search.record.model_copy(
            update={"request": search.record.request.model_copy(update={"search": tight})}
        )
        # Two are judged, then the whole: that leaves two and a half for two searches, and one and a half for three.
        assert [search._affords(lines) for lines in (1, 2, 3)] == [True, True, False]


@pytest.mark.slow
def test_a_killed_search_goes_on_and_measures_nothing_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = tmp_path / "flipped.py", tmp_path / "out"
    model.write_text(FLIPPED)
    command = [sys.executable, dying.__file__, "measurement", "3", "SIGKILL", "optimize", str(model)]
    command += ["--top", "1", "--budget", "5", "--device", "cpu", "--quiet", "--out", str(out)]
    assert subprocess.run(command, capture_output=True, check=False, timeout=300).returncode == -signal.SIGKILL
    code = main(["resume", str(out), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["status"] == "finished"
    (line,) = found["lines"]
    (judged,) = found["applied"]["kernels"]
    assert judged["verdict"] == "faster" or "too noisy to tell" in judged["why"]  # on a machine that is too busy
    assert code == (0 if judged["kept"] else 3)
    # Twice more where it was put in; the last judgement of all may still take it out.
    assert found["budget"]["spent"]["measurements"] in ({5} if judged["kept"] else {3, 5})
    assert {"report", "module", "result"} <= {a["kind"] for a in found["artifacts"]}
    with Archive(default_path()) as archive:
        done = archive.measurements(run=line["run_id"])
        assert len({(m.candidate.sha256, m.purpose) for m in done}) == len(done) == 2
