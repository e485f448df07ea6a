"""The Python interface as a caller sees it: plain arguments, typed results, a view, a function that watches."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import small_tasks
from support import synthetic_executor as synthetic
from support.recorded_pool import Recorded, record

import forewarp
from forewarp import events
from forewarp.api import searches
from forewarp.core.protocols import Executor
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.tools.parts import Kernel, Place
from forewarp.tools.session import Executors


class Synthetic(Executors):
    """Always the synthetic device, for any task; it must be closed by who made it."""

    def get(self, place: Place, task: forewarp.Task) -> Executor:
        return synthetic.SyntheticExecutor()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record(tmp_path_factory.mktemp("pool"), every=3)


def run(**options: Any) -> forewarp.Run:
    chosen: dict[str, Any] = {"forecaster": "none", "holdout": False} | options
    return forewarp.optimize(synthetic.task(), budget=6, executors=Synthetic(), **chosen)


def test_the_whole_thing_in_a_few_lines(recorded: Recorded, tmp_path: Path) -> None:
    result = forewarp.optimize(recorded.task, budget=6, device="replay", pool=recorded.pool)
    assert str(result) == result.summary
    assert result.best is not None
    files = result.save(tmp_path / "out")
    assert {"kernel", "evidence", "candidates", "report", "result"} <= set(files)
    assert files["kernel"].read_text() == result.best.source
    assert json.loads(files["result"].read_text())["run_id"] == result.run_id
    assert result.run_id in repr(result)
    assert len(repr(result)) < 200
    shown = result._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert "<table>" in shown
    assert "extern &quot;C&quot;" in shown


def test_a_run_is_read_again_and_saved_in_another_process(tmp_path: Path) -> None:
    made = run()
    assert forewarp.load() == made
    assert forewarp.load(made.run_id[:5]) == made
    assert "report" in forewarp.load(made.run_id).save(tmp_path)
    with pytest.raises(forewarp.UsageError, match="there is no archive"):
        forewarp.load(archive=tmp_path / "none.db")


def test_kernels_are_files_texts_and_candidates(tmp_path: Path) -> None:
    file = tmp_path / "kernel.cpp"
    file.write_text(synthetic.SOURCE)
    candidate = synthetic.seed(TILE=16)
    with Synthetic() as warm:
        answers = [
            forewarp.measure(synthetic.task(), k, tunables={"UNROLL": 4}, executors=warm)
            for k in (file, str(file), synthetic.SOURCE, candidate, Kernel(path=str(file)))
        ]
        many = forewarp.measure_all(synthetic.task(), [file, candidate], executors=warm)
        ranked = forewarp.forecast(synthetic.task(), file, candidate, executors=warm)
        against = forewarp.forecast(synthetic.task(), file, against=candidate, executors=warm)
    assert {a.kernel.tunables["UNROLL"] for a in answers} == {4}
    assert [a.kernel.tunables["TILE"] for a in answers] == [64, 64, 64, 16, 64]
    assert [k.result.status for k in many.kernels if k.result] == ["ok", "ok"]
    assert len(ranked.ranking) == 2
    assert against.anchor == candidate.sha256
    assert str(answers[0]) == answers[0].summary


def test_an_own_forecaster_is_asked() -> None:
    own = synthetic.KnowingForecaster()
    with Synthetic() as warm:
        found = forewarp.forecast(synthetic.task(), synthetic.seed(), forecaster=own, executors=warm)
    assert found.forecast is not None
    assert found.forecast.forecaster == "knowing"
    assert run(forecaster=own).forecaster == "own knowing"


@pytest.mark.parametrize(
    ("answer", "said"), [(None, "a NoneType"), ([], "0 forecasts where"), ([1.5], "a float among its forecasts")]
)
def test_an_own_forecaster_that_gives_no_forecasts_is_told_so(answer: Any, said: str) -> None:
    class Odd(synthetic.KnowingForecaster):
        def forecast(self, *_: Any) -> Any:
            return answer

    with Synthetic() as warm, pytest.raises(forewarp.UsageError, match=f"the forecaster knowing gave {said}"):
        forewarp.forecast(synthetic.task(), synthetic.seed(), forecaster=Odd(), executors=warm)
    with pytest.raises(forewarp.UsageError, match=said):
        run(forecaster=Odd())


def test_seeds_may_be_texts() -> None:
    other = synthetic.SOURCE.replace("UNUSED = [0, 1]", "UNUSED = [0, 1, 2]")
    found = run(seeds=[other])
    assert {c.kernel.sha256 for c in found.candidates} & {synthetic.seed(other).sha256}
    assert synthetic.seed().sha256 not in {c.kernel.sha256 for c in found.candidates}


def test_a_function_sees_every_event_and_may_end_the_run() -> None:
    seen: list[events.Event] = []

    def watch(event: events.Event) -> None:
        seen.append(event)
        if isinstance(event, events.Measured):
            raise StopIteration

    found = run(on_event=watch)
    assert found.status == "interrupted"
    assert isinstance(seen[0], events.RunStarted)
    assert isinstance(seen[-1], events.RunFinished)
    finished = forewarp.resume(found.run_id, executors=Synthetic())
    assert (finished.status, finished.run_id, finished.budget.spent.measurements) == ("finished", found.run_id, 6)


def test_an_error_of_the_callers_interrupts_the_run() -> None:
    def fail(event: events.Event) -> None:
        if isinstance(event, events.Measured):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(on_event=fail)
    assert forewarp.load().status == "interrupted"


def test_interrupting_returns_what_there_is() -> None:
    before, pressed = signal.getsignal(signal.SIGINT), list[events.Event]()

    def press(event: events.Event) -> None:
        if isinstance(event, events.Measured) and not pressed:
            pressed.append(event)
            signal.raise_signal(signal.SIGINT)

    found = run(on_event=press)
    assert found.status == "interrupted"
    assert found.counts.measured >= 1
    assert signal.getsignal(signal.SIGINT) is before


def test_a_run_that_fails_says_how_to_go_on() -> None:
    class Broken(synthetic.KnowingForecaster):
        def forecast(self, *_: Any) -> list[forewarp.Forecast]:
            raise forewarp.UsageError("no forecasts today")

    with pytest.raises(forewarp.UsageError) as e:
        run(forecaster=Broken())
    assert f"forewarp.resume({forewarp.load().run_id!r})" in "".join(e.value.__notes__)


def test_a_task_from_source_text(tmp_path: Path) -> None:
    seed = small_tasks.cpp()
    shapes = {"wide": {"ROWS": 4}, "long": {"ROWS": 99}}
    task = forewarp.define_task(
        small_tasks.REFERENCE, name="mine", workloads=shapes, tolerance=(1e-3, 1e-4), seeds=[seed.source]
    )
    assert [dict(w.constants) for w in task.workloads["cuda"]] == list(shapes.values())
    assert task.tolerance is not None
    assert (task.name, task.tolerance.rtol, task.seeds) == ("mine", 1e-3, (candidates.from_source(seed.source, "cpp"),))
    file = tmp_path / "mine.py"
    file.write_text(small_tasks.REFERENCE)
    assert [w.name for w in forewarp.define_task(file, name="mine").workloads["cpu"]] == ["default"]
    with pytest.raises(forewarp.TaskError, match="the reference of x does not define Model"):
        forewarp.define_task("def get_inputs(): ...\ndef get_init_inputs(): ...\n", name="x")
    with pytest.raises(forewarp.TaskError, match="is not a Python file"):
        forewarp.define_task("class Model(", name="x")


def test_progress_is_shown_where_somebody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    assert not searches.in_notebook()
    run()
    assert capsys.readouterr() == ("", "")
    run(progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "best" in err


def test_importing_forewarp_imports_nothing_else() -> None:
    code = (
        "import sys; before = set(sys.modules); import forewarp; print(sorted(set(sys.modules) - before));"
        "forewarp.UsageError; print('pydantic' in sys.modules, 'numpy' in sys.modules, 'optimize' in dir(forewarp))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["['forewarp']", "False False True"]


def test_all_that_is_offered_is_there() -> None:
    assert all(getattr(forewarp, name) is not None for name in forewarp.__all__)
    with pytest.raises(AttributeError, match="optimise"):
        _ = forewarp.optimise  # type: ignore[attr-defined]
