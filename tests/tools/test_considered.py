"""Measuring that looks first, on a recorded device."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import synthetic_executor as synthetic
from support.recorded_pool import Recorded, record

from forewarp.core.protocols import Executor
from forewarp.core.values import Task
from forewarp.tools.considered import Considered, consider
from forewarp.tools.measure_kernel import MeasureRequest
from forewarp.tools.parts import Kernel, Place
from forewarp.tools.session import Executors


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record(tmp_path_factory.mktemp("pool"))


def asked(
    recorded: Recorded, archive: Path, path: str | None = None, tunables: dict[str, int] | None = None
) -> MeasureRequest:
    place = Place(device="replay", pool=recorded.pool, archive=str(archive))
    return MeasureRequest(
        task=recorded.task, kernel=Kernel(path=path or recorded.seed, tunables=tunables or {}), place=place
    )


def test_a_kernel_is_forecast_then_measured_then_held_back(recorded: Recorded, tmp_path: Path) -> None:
    stages: list[str] = []
    request = asked(recorded, tmp_path / "a.db")
    first = consider(request, stage=stages.append)
    assert stages == ["forecasting", "starting the device", "compiling", "measuring"]
    assert first.decision == "measured"
    assert first.measured is not None
    again = consider(request, stage=stages.append)
    assert (again.decision, again.measured) == ("held back", None)
    assert "measured already" in again.summary
    assert stages[4:] == ["forecasting"]
    insisted = consider(request, insist="to see the spread")
    assert (insisted.decision, insisted.insisted) == ("measured", "to see the spread")


def test_what_does_not_compile_is_not_measured(recorded: Recorded, tmp_path: Path) -> None:
    found = consider(asked(recorded, tmp_path / "a.db", recorded.broken), insist="please")
    assert (found.decision, found.measured) == ("failed", None)


def test_the_forecast_is_of_the_task_that_is_measured(tmp_path: Path) -> None:
    seen: list[Task] = []

    class Noting(Executors):
        def get(self, place: Place, task: Task) -> Executor:
            seen.append(task)
            return synthetic.SyntheticExecutor()

    kernel, place = Kernel(source=synthetic.SOURCE), Place(archive=str(tmp_path / "a.db"))
    request = MeasureRequest(task="softmax", kernel=kernel, place=place, allow_tf32=True)
    assert consider(request, executors=Noting()).decision == "measured"
    assert [t.allow_tf32 for t in seen] == [True, True]


def test_a_no_is_a_no(recorded: Recorded, tmp_path: Path) -> None:
    told: list[str] = []
    found = consider(
        asked(recorded, tmp_path / "a.db"),
        forecast=lambda f: told.append(f.recommendation),
        allow=lambda f: f"not for {f.p_better:.0%}",
    )
    assert (found.decision, found.measured) == ("refused", None)
    assert found.summary.startswith("Not measured: not for ")
    assert told == ["measure"]


def test_a_result_below_the_best_says_so(recorded: Recorded, tmp_path: Path) -> None:
    choices: list[dict[str, int]] = [{}, {"WIDTH": 8, "UNUSED": 1}]

    def measured(archive: Path, order: list[dict[str, int]]) -> list[Considered]:
        return [consider(asked(recorded, archive, tunables=c), insist="to compare") for c in order]

    there = measured(tmp_path / "a.db", choices)
    back = measured(tmp_path / "b.db", choices[::-1])
    told = ["the best so far" in found.summary for found in (there[1], back[1])]
    assert sorted(told) == [False, True]
    assert not any("the best so far" in found.summary for found in (there[0], back[0]))


def test_a_program_counts_by_all_of_its_measurements(recorded: Recorded, tmp_path: Path) -> None:
    request = asked(recorded, tmp_path / "a.db")
    once = consider(request)
    assert once.measured is not None
    assert once.measured.speedup is not None
    consider(request, insist="again")
    found = consider(request).forecast.best_so_far
    assert found is not None
    assert found.ratio == pytest.approx(once.measured.speedup.ratio)
    assert (found.low, found.high) == pytest.approx((once.measured.speedup.low, once.measured.speedup.high))
