"""Killed anywhere and resumed, a run comes to the same as one that was left alone."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.synthetic_executor import TARGET, KnowingForecaster, SyntheticExecutor, task

from forewarp.archive.store import Archive
from forewarp.core import serde
from forewarp.core.budget import Budget
from forewarp.core.errors import DeviceError, UsageError, WorkerError
from forewarp.core.protocols import Known, Proposal, Subject
from forewarp.core.values import Build, Candidate, Cost, Measurement, Target, Task
from forewarp.search.loop import Search
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.search.settings import SearchSettings, stored
from forewarp.surrogate.calibration import Recalibrated
from forewarp.surrogate.learned import LearnedForecaster

SETTINGS = SearchSettings(seed=5, budget=Budget(measurements=5), proposals_per_round=4, measure_per_round=2, audit=0.3)


class Killed(BaseException):
    """Stands for a process that ends without a word."""


class DyingArchive(Archive):
    """Dies just before or just after it commits transaction number `at`."""

    commits = 0
    at = -1
    after = False

    @contextlib.contextmanager
    def transaction(self) -> Generator[None]:
        outer = self._depth == 0
        self.commits += outer
        dies = outer and self.commits == self.at
        with super().transaction():
            yield
            if dies and not self.after:
                raise Killed
        if dies:
            raise Killed


class DyingExecutor(SyntheticExecutor):
    """Dies in call number `at` of compile and measure."""

    def __init__(self, at: int = -1) -> None:
        super().__init__()
        self.calls, self.at = 0, at

    def _step(self) -> None:
        with self._lock:
            self.calls += 1
            dies = self.calls == self.at
        if dies:
            raise Killed

    def compile(self, task: Task, candidate: Candidate) -> Build:
        self._step()
        return super().compile(task, candidate)

    def measure(
        self,
        task: Task,
        candidate: Candidate,
        build: Build,
        against: Subject | None = None,
        beat: float | None = None,
    ) -> Measurement:
        self._step()
        return super().measure(task, candidate, build, against, beat)


class PaidProposer(TunablesProposer):
    def propose(self, task: Task, target: Target, known: Known, count: int, rng: random.Random) -> list[Proposal]:
        made = super().propose(task, target, known, count, rng)
        return [Proposal(p.candidate, p.proposer, p.parent, p.note, Cost(0.1, 10, 5, 0.01)) for p in made]


def outcome(archive: Archive, run: str) -> dict[str, Any]:
    """Everything that must not depend on when the run was killed."""
    spend = archive.spend(run)
    return {
        "proposed": [(r.round, r.position, r.candidate.sha256, r.outcome) for r in archive.candidates(run)],
        "decided": [(d.proposal, d.round, d.decision) for d in archive.decisions(run)],
        "measured": [(m.candidate.sha256, m.purpose, m.measurement) for m in archive.measurements(run=run)],
        "spend": (spend.measurements, spend.device_s, spend.tokens, round(spend.dollars, 6)),
        "ledger": archive._one("SELECT count(*) FROM spend WHERE kind = 'measurement'")[0],  # type: ignore[index]
        "status": archive.run(run).status,
    }


def start(archive: Archive, executor: SyntheticExecutor) -> Search:
    return Search.start(archive, task(), executor, PaidProposer(), KnowingForecaster(), SETTINGS)


def left_alone(folder: Path) -> tuple[dict[str, Any], int, int]:
    executor = DyingExecutor()
    with DyingArchive(folder / "alone.db") as archive:
        search = start(archive, executor)
        archive.commits = 0
        assert search.run().status == "finished"
        return outcome(archive, search.run_id), archive.commits, executor.calls


def killed_and_resumed(folder: Path, *, commit: int = -1, after: bool = False, call: int = -1) -> dict[str, Any]:
    path = folder / f"{commit}-{after}-{call}.db"
    with DyingArchive(path) as archive:
        search = start(archive, DyingExecutor(call))
        archive.commits, archive.at, archive.after = 0, commit, after
        with pytest.raises(Killed):
            search.run()
        run = search.run_id
    with Archive(path) as archive:
        wall = archive.spend(run).wall_s
        again = Search.resume(archive, run, SyntheticExecutor(), PaidProposer(), KnowingForecaster())
        again.run()
        assert archive.spend(run).wall_s >= wall
        return outcome(archive, run)


@pytest.mark.slow
def test_killed_around_every_write(tmp_path: Path) -> None:
    expected, commits, _ = left_alone(tmp_path)
    assert commits > 30
    assert expected["spend"][0] == 5
    # Before one commit the archive is as it was after the one before; a few of them suffice. After the last commit the
    # run is finished.
    for number in range(1, commits):
        assert killed_and_resumed(tmp_path, commit=number, after=True) == expected, f"after commit {number}"
    for number in [*range(1, commits, 5), commits]:
        assert killed_and_resumed(tmp_path, commit=number) == expected, f"before commit {number}"


def test_killed_in_every_compile_and_measurement(tmp_path: Path) -> None:
    expected, _, calls = left_alone(tmp_path)
    for number in range(1, calls + 1):
        assert killed_and_resumed(tmp_path, call=number) == expected, f"in call {number}"


def test_killed_again_and_again(tmp_path: Path) -> None:
    expected, commits, _ = left_alone(tmp_path)
    path, run, deaths = tmp_path / "again.db", "", 0
    for _ in range(commits):
        with DyingArchive(path) as archive:
            if run:
                search = Search.resume(archive, run, SyntheticExecutor(), PaidProposer(), KnowingForecaster())
            else:
                search = start(archive, SyntheticExecutor())
                run = search.run_id
            archive.commits, archive.at, archive.after = 0, 9, True
            with contextlib.suppress(Killed):
                search.run()
            deaths += 1
            if archive.run(run).status == "finished":
                break
    assert deaths > 3
    with Archive(path) as archive:
        assert outcome(archive, run) == expected


def test_a_forecaster_that_learns_goes_on_as_it_was(tmp_path: Path) -> None:
    settings = SearchSettings(seed=3, budget=Budget(measurements=9), proposals_per_round=6, audit=0.3, confirm=False)

    def forecaster() -> Recalibrated:
        return Recalibrated(LearnedForecaster())

    with Archive(tmp_path / "alone.db") as archive:
        alone = Search.start(archive, task(), SyntheticExecutor(), PaidProposer(), forecaster(), settings)
        alone.run()
        expected = outcome(archive, alone.run_id)
    path = tmp_path / "again.db"
    with DyingArchive(path) as archive:
        run = Search.start(archive, task(), SyntheticExecutor(), PaidProposer(), forecaster(), settings).run_id
    for _ in range(100):
        with DyingArchive(path) as archive:
            search = Search.resume(archive, run, SyntheticExecutor(), PaidProposer(), forecaster())
            archive.commits, archive.at, archive.after = 0, 14, True
            with contextlib.suppress(Killed):
                search.run()
            if archive.run(run).status == "finished":
                break
    with Archive(path) as archive:
        assert outcome(archive, run) == expected


def test_stopping_at_every_event_and_resuming(tmp_path: Path) -> None:
    expected, _, _ = left_alone(tmp_path)
    with Archive(tmp_path / "count.db") as archive:
        total = len(list(start(archive, SyntheticExecutor()).events()))
    for number in range(1, total, 5):
        with Archive(tmp_path / f"stop{number}.db") as archive:
            search = start(archive, SyntheticExecutor())
            for place, _ in enumerate(search.events(), 1):
                if place == number:
                    search.stop()
            run = search.run_id
            if search.summary().status == "finished":
                continue
            assert search.summary().status == "interrupted"
            assert all(m.state == "done" for m in archive.measurements(run=run))
            Search.resume(archive, run, SyntheticExecutor(), PaidProposer(), KnowingForecaster()).run()
            assert outcome(archive, run) == expected


def test_a_closed_iterator_and_ctrl_c_interrupt(tmp_path: Path) -> None:
    class Impatient(SyntheticExecutor):
        def measure(
            self,
            task: Task,
            candidate: Candidate,
            build: Build,
            against: Subject | None = None,
            beat: float | None = None,
        ) -> Measurement:
            raise KeyboardInterrupt

    with Archive(tmp_path / "a.db") as archive:
        closed = start(archive, SyntheticExecutor())
        stream = closed.events()
        for _ in range(4):
            next(stream)
        stream.close()  # type: ignore[attr-defined]
        assert closed.summary().status == "interrupted"
        pressed = start(archive, Impatient())
        with pytest.raises(KeyboardInterrupt):
            pressed.run()
        assert pressed.summary().status == "interrupted"
        # A measurement that was interrupted costs none; the one that takes its place counts once.
        assert archive.spend(pressed.run_id).measurements == 0
        resumed = Search.resume(archive, pressed.run_id, SyntheticExecutor(), PaidProposer(), KnowingForecaster())
        resumed.run()
        assert archive.spend(pressed.run_id).measurements == len(archive.measurements(run=pressed.run_id))


def test_our_own_failure_fails_the_run_and_it_resumes(tmp_path: Path) -> None:
    class Unplugged(SyntheticExecutor):
        def measure(
            self,
            task: Task,
            candidate: Candidate,
            build: Build,
            against: Subject | None = None,
            beat: float | None = None,
        ) -> Measurement:
            raise DeviceError("the GPU fell off the bus")

    expected, _, _ = left_alone(tmp_path)
    with Archive(tmp_path / "a.db") as archive:
        search = start(archive, Unplugged())
        with pytest.raises(DeviceError):
            search.run()
        assert search.summary().status == "failed"
        assert "fell off" in search.summary().reason
        assert archive.events(search.run_id)[-1].type == "RunFinished"
        Search.resume(archive, search.run_id, SyntheticExecutor(), PaidProposer(), KnowingForecaster()).run()
        assert outcome(archive, search.run_id) == expected


def test_one_lost_worker_does_not_end_the_run(tmp_path: Path) -> None:
    class Flickering(SyntheticExecutor):
        lost = 0

        def measure(
            self,
            task: Task,
            candidate: Candidate,
            build: Build,
            against: Subject | None = None,
            beat: float | None = None,
        ) -> Measurement:
            if self.lost == 0:
                self.lost = 1
                raise WorkerError("gone")
            return super().measure(task, candidate, build, against, beat)

    expected, _, _ = left_alone(tmp_path)
    with Archive(tmp_path / "a.db") as archive:
        search = start(archive, Flickering())
        search.run()
        assert outcome(archive, search.run_id) == expected


def test_what_cannot_be_resumed(tmp_path: Path) -> None:
    with Archive(tmp_path / "a.db") as archive:
        search = start(archive, SyntheticExecutor())
        stream = search.events()
        next(stream)
        with pytest.raises(UsageError, match="being worked on by process"):
            Search.resume(archive, search.run_id, SyntheticExecutor(), PaidProposer(), KnowingForecaster())
        stream.close()  # type: ignore[attr-defined]
        elsewhere = SyntheticExecutor(Target("other", "cpu", "none", 4))
        with pytest.raises(UsageError, match=f"measures on {TARGET.name}"):
            Search.resume(archive, search.run_id, elsewhere, PaidProposer(), KnowingForecaster())
        with pytest.raises(UsageError, match="began with forecaster knowing"):
            Search.resume(archive, search.run_id, SyntheticExecutor(), PaidProposer())
        Search.resume(archive, search.run_id, SyntheticExecutor(), PaidProposer(), KnowingForecaster()).run()
        with pytest.raises(UsageError, match="is finished"):
            Search.resume(archive, search.run_id, SyntheticExecutor(), PaidProposer(), KnowingForecaster())


CHILD = """
import signal, sys
sys.path[:0] = sys.argv[2:]
import test_search_resume as t
class Endless(t.SyntheticExecutor):
    def measure(self, *args, **more):
        signal.pause()
with t.Archive(sys.argv[1]) as archive:
    search = t.start(archive, Endless())
    print(search.run_id, flush=True)
    for event in search.events():
        print(type(event).__name__, flush=True)
"""


def test_a_process_that_is_killed_for_real(tmp_path: Path) -> None:
    expected, _, _ = left_alone(tmp_path)
    here = Path(__file__).parent
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path / "a.db"), str(here), str(here.parent)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ.copy(),
    )
    with child, Archive(tmp_path / "a.db") as archive:
        try:
            assert child.stdout is not None
            run = child.stdout.readline().strip()
            assert "Measuring" in iter(lambda: child.stdout.readline().strip(), "")  # type: ignore[union-attr]
            with pytest.raises(UsageError, match=f"process {child.pid}"):
                Search.resume(archive, run, SyntheticExecutor(), PaidProposer(), KnowingForecaster())
        finally:
            child.kill()
        assert child.wait() == -signal.SIGKILL
        assert archive.run(run).status == "running"
        Search.resume(archive, run, SyntheticExecutor(), PaidProposer(), KnowingForecaster()).run()
        assert outcome(archive, run) == expected


def test_settings_of_runs_from_before_a_name_changed_are_read() -> None:
    old = serde.to_data(SETTINGS) | {"effort": 0.5}
    del old["min_improvement"]
    assert stored(old) == replace(SETTINGS, min_improvement=0.5)
