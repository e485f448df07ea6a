"""A run on several devices at once: as many measurements as devices, each written and booked once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import synthetic_executor as synthetic

from forewarp.archive.store import Archive
from forewarp.core.budget import Budget
from forewarp.core.errors import WorkerError
from forewarp.core.protocols import Subject
from forewarp.core.values import Build, Candidate, Measurement, Task
from forewarp.gpu_runner.executors.several import SeveralExecutor
from forewarp.search.events import Event, Measured
from forewarp.search.loop import Search
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.search.settings import SearchSettings
from forewarp.search.state import RunState

DEVICES = 3
SETTINGS = SearchSettings(budget=Budget(measurements=13), measure_per_round=5, confirm=False, holdout=False)


class Busy:
    """Counts how many measure at once; fails those of a number, on both tries.

    The first `together` wait for one another, so that as many are sure to measure at once.
    """

    def __init__(self, lost: int = -1, together: int = 1) -> None:
        self.lock = threading.Lock()
        self.now = self.most = self.begun = 0
        self.lost, self.together = lost, together
        self.all = threading.Barrier(together)
        self.bad = ""

    def device(self) -> synthetic.SyntheticExecutor:
        return _Device(self)


class _Device(synthetic.SyntheticExecutor):
    def __init__(self, busy: Busy) -> None:
        super().__init__()
        self.busy = busy

    def measure(
        self,
        task: Task,
        candidate: Candidate,
        build: Build,
        against: Subject | None = None,
        beat: float | None = None,
    ) -> Measurement:
        busy = self.busy
        with busy.lock:
            busy.begun += 1
            busy.now += 1
            busy.most = max(busy.most, busy.now)
            waits = busy.begun <= busy.together
            if busy.begun == busy.lost:
                busy.bad = candidate.sha256
        if waits:
            busy.all.wait(60)
        # Every third one takes longer, so that they do not end in the order in which they began.
        time.sleep(0.02 if int(candidate.sha256, 16) % 3 else 0.06)
        with busy.lock:
            busy.now -= 1
        if candidate.sha256 == busy.bad:
            raise WorkerError("the machine is gone")
        return super().measure(task, candidate, build, against, beat)


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    with Archive(tmp_path / "archive.db") as made:
        yield made


def begin(archive: Archive, busy: Busy, settings: SearchSettings = SETTINGS) -> Search:
    executor = SeveralExecutor([busy.device() for _ in range(DEVICES)])
    forecaster = synthetic.KnowingForecaster()
    return Search.start(archive, synthetic.task(), executor, TunablesProposer(), forecaster, settings)


def test_all_devices_work_and_the_budget_is_kept_exactly(archive: Archive) -> None:
    busy = Busy(together=DEVICES)
    search = begin(archive, busy)
    search.run()
    rows = archive.measurements(run=search.run_id)
    assert busy.most == DEVICES
    assert busy.begun == len(rows) == archive.spend(search.run_id).measurements == 13
    assert len({r.proposal for r in rows}) == 13
    seconds = sum(r.measurement.device_s for r in rows if r.measurement)
    assert archive.spend(search.run_id).device_s == pytest.approx(seconds)


def test_a_loaded_state_is_that_of_the_living_run(archive: Archive) -> None:
    search = begin(archive, Busy())
    order = [e.kernel for e in search.events() if isinstance(e, Measured)]
    loaded = RunState.load(archive, search.run_id, forecasting=True)
    assert [t.subject.candidate.sha256 for t in loaded.trials] == order


def test_what_other_devices_measure_is_kept_when_one_is_lost_and_the_run_goes_on_later(archive: Archive) -> None:
    busy = Busy(lost=7)
    search = begin(archive, busy)
    with pytest.raises(WorkerError):
        search.run()
    rows = archive.measurements(run=search.run_id)
    assert [r.state for r in rows].count("started") == 1
    assert next(r for r in rows if r.state == "started").candidate.sha256 == busy.bad
    executor = SeveralExecutor([Busy().device() for _ in range(DEVICES)])
    forecaster = synthetic.KnowingForecaster()
    Search.resume(archive, search.run_id, executor, TunablesProposer(), forecaster).run()
    rows = archive.measurements(run=search.run_id)
    assert [r.state for r in rows] == ["done"] * 13
    assert archive.spend(search.run_id).measurements == 13


def test_stopping_finishes_what_runs_and_begins_nothing(archive: Archive) -> None:
    search = begin(archive, Busy())
    seen: list[Event] = []
    for event in search.events():
        seen.append(event)
        if isinstance(event, Measured):
            search.stop()
    assert len([e for e in seen if isinstance(e, Measured)]) <= DEVICES
    assert {r.state for r in archive.measurements(run=search.run_id)} == {"done"}
    assert archive.run(search.run_id).status == "interrupted"


class Lost(synthetic.SyntheticExecutor):
    """Loses its machine at some measurements, after three seconds each; one that loses none waits until `over` is set.

    `over` is set at the third loss: by then one measurement was lost twice. If another device were free until then, it
    might be given all second attempts.
    """

    def __init__(self, over: threading.Event, *lost: int) -> None:
        super().__init__()
        self.over, self.lost, self.begun, self.losses = over, lost, 0, 0

    def measure(
        self,
        task: Task,
        candidate: Candidate,
        build: Build,
        against: Subject | None = None,
        beat: float | None = None,
    ) -> Measurement:
        self.begun += 1
        if not self.lost:
            assert self.over.wait(60)
        if self.begun in self.lost:
            self.losses += 1
            if self.losses == 3:
                self.over.set()
            error = WorkerError("the machine is gone")
            error.lost_s = 3.0
            raise error
        return super().measure(task, candidate, build, against, beat)


@pytest.mark.parametrize("devices", [1, 2])
def test_what_a_lost_machine_took_is_booked_with_or_without_a_result(archive: Archive, devices: int) -> None:
    over = threading.Event()
    executors = [Lost(over, 2, *range(4, 99)), *(Lost(over) for _ in range(devices - 1))]
    forecaster = synthetic.KnowingForecaster()
    executor = SeveralExecutor(executors) if devices > 1 else executors[0]
    search = Search.start(archive, synthetic.task(), executor, TunablesProposer(), forecaster, SETTINGS)
    with pytest.raises(WorkerError):
        search.run()
    rows = archive.measurements(run=search.run_id)
    held = sum(r.measurement.device_s for r in rows if r.measurement)
    # The first attempt of a measurement that was made all the same, and both of one that never was.
    assert executors[0].losses >= 3
    assert archive.spend(search.run_id).device_s == pytest.approx(held + 3.0 * executors[0].losses)
