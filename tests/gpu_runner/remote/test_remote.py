"""The executor at the near end of a link: the contract, and what it does about machines that are lost."""

from __future__ import annotations

import contextlib
import sqlite3
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, repeat
from pathlib import Path

import pytest
from contracts.executor_contract import ExecutorContract
from support import synthetic_agent
from support import synthetic_executor as synthetic

from forewarp.archive.store import Archive
from forewarp.core.budget import Budget
from forewarp.core.errors import DeviceError, UsageError, WorkerError
from forewarp.core.protocols import Executor, ParallelCompiler, Subject
from forewarp.core.values import Candidate, Status, Task
from forewarp.gpu_runner.remote import executor as remote
from forewarp.gpu_runner.remote.executor import RemoteExecutor
from forewarp.gpu_runner.remote.far_end.link import Link, LinkLost
from forewarp.search.loop import Search
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.search.settings import SearchSettings
from forewarp.tools.measure_kernel import MeasureManyRequest, MeasureRequest, measure_kernel, measure_kernels
from forewarp.tools.parts import Kernel, Place
from forewarp.tools.session import Executors

Opens = Callable[[], RemoteExecutor]


def open_in(folder: Path) -> RemoteExecutor:
    """Return an executor whose agent keeps its books in `folder`."""
    command = [sys.executable, synthetic_agent.__file__, str(folder)]
    return RemoteExecutor(lambda: Link(command), {}, where="there", cache=folder / "near")


@pytest.fixture
def opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opens]:
    """Open executors whose agents keep their books in the test's folder."""
    monkeypatch.setattr(remote, "PAUSE_S", 0.01)
    made: list[RemoteExecutor] = []

    def opened() -> RemoteExecutor:
        made.append(open_in(tmp_path))
        return made[-1]

    yield opened
    for executor in made:
        executor.close()


def count(folder: Path, name: str) -> int:
    return len((folder / name).read_text().split())


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Executor]:
    made = open_in(tmp_path_factory.mktemp("there"))
    yield made
    made.close()


class TestContract(ExecutorContract):
    @pytest.fixture
    def executor(self, executor: Executor) -> Executor:
        return executor

    @pytest.fixture
    def task(self) -> Task:
        return synthetic.task()

    @pytest.fixture
    def good(self) -> Candidate:
        return synthetic.seed()

    @pytest.fixture
    def failing(self) -> list[tuple[Candidate, Status]]:
        return [
            (synthetic.seed(synthetic.SOURCE + "#error\n"), "compile_error"),
            (synthetic.seed(synthetic.SOURCE + "// wrong\n"), "incorrect"),
            (synthetic.seed(synthetic.SOURCE + "// crash\n"), "crashed"),
        ]

    def test_closing_twice_is_fine(self, opens: Opens) -> None:
        super().test_closing_twice_is_fine(opens())


def saying(text: str) -> Candidate:
    return synthetic.seed(f"{synthetic.SOURCE}// {text}\n")


def test_an_agent_that_is_lost_is_started_anew_and_the_measurement_made_again(opens: Opens, tmp_path: Path) -> None:
    executor, task, candidate = opens(), synthetic.task(), saying("lose the agent once")
    m = executor.measure(task, candidate, executor.compile(task, candidate))
    assert m.status == "ok"
    assert count(tmp_path, "opened") == 2
    assert count(tmp_path, "measured") == 2
    # Its agent was there for half a second before it was lost.
    assert m.phases["lost"] > 0.5
    assert m.device_s == 0.5


def test_a_measurement_that_loses_every_agent_is_an_error_that_may_be_tried_again(
    opens: Opens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "TRIES", 2)
    executor, task, candidate = opens(), synthetic.task(), saying("lose the agent always")
    build = executor.compile(task, candidate)
    with pytest.raises(WorkerError, match="there was lost 2 times") as failed:
        executor.measure(task, candidate, build)
    assert failed.value.retryable
    assert failed.value.lost_s > 0.0
    assert count(tmp_path, "measured") == 2
    other = synthetic.seed()
    assert executor.measure(task, other, executor.compile(task, other)).status == "ok"


@pytest.mark.parametrize("several", [False, True])
def test_what_lost_attempts_took_is_booked_though_none_answered(
    opens: Opens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, several: bool
) -> None:
    class Given(Executors):
        def get(self, place: Place, task: Task) -> Executor:
            return opens()

    monkeypatch.setattr(remote, "TRIES", 2)
    kernel = Kernel(source=saying("lose the agent always").source, language="cpp")
    place = Place(archive=str(tmp_path / "archive.db"))
    one = MeasureRequest(task=synthetic.task(), kernel=kernel, place=place)
    many = MeasureManyRequest(task=synthetic.task(), kernels=[kernel], place=place)
    measure = partial(measure_kernels, many) if several else partial(measure_kernel, one)
    with pytest.raises(WorkerError, match="lost 2 times"):
        measure(executors=Given())
    [(ref, seconds)] = device_seconds(tmp_path)
    assert ref.endswith("lost attempts, at most")
    assert seconds > 0.0


def device_seconds(folder: Path) -> list[tuple[str, float]]:
    """Return what the ledger holds of device time."""
    with contextlib.closing(sqlite3.connect(folder / "archive.db")) as db:
        return db.execute("SELECT ref, amount FROM spend WHERE kind = 'device_s' ORDER BY amount").fetchall()


def test_a_far_end_that_makes_no_seed_kernels_says_so(opens: Opens) -> None:
    with pytest.raises(UsageError, match="makes no seed kernels"):
        opens().make_seeds(synthetic.task())


def test_artefacts_travel_once(opens: Opens, tmp_path: Path) -> None:
    executor, task, candidate = opens(), synthetic.task(), synthetic.seed()
    build = executor.compile(task, candidate)
    assert Path(build.artefact).parent == tmp_path / "near" / "artefacts"
    assert (Path(build.artefact) / "code").read_text() == candidate.source
    for _ in range(2):
        against = Subject(candidate, build)
        assert executor.measure(task, candidate, build, against).anchor == candidate.sha256
    # Twice for the pair that came with its artefacts would be a second transfer.
    assert count(tmp_path, "measured") == 2


def test_the_answer_of_another_card_is_refused(opens: Opens) -> None:
    executor, task, candidate = opens(), synthetic.task(), saying("another card")
    with pytest.raises(WorkerError, match="do not mix"):
        executor.measure(task, candidate, executor.compile(task, candidate))


def test_an_error_after_a_loss_tells_what_was_lost(opens: Opens) -> None:
    executor, task, candidate = opens(), synthetic.task(), saying("lose the agent once, be another card")
    with pytest.raises(WorkerError, match="do not mix") as told:
        executor.measure(task, candidate, executor.compile(task, candidate))
    assert told.value.lost_s >= 0.6


def test_a_machine_that_comes_back_with_another_card_is_refused(opens: Opens, tmp_path: Path) -> None:
    executor, task, candidate = opens(), synthetic.task(), saying("lose the agent always")
    build = executor.compile(task, candidate)
    (tmp_path / "changed").touch()
    with pytest.raises(DeviceError, match="now has another card"):
        executor.measure(task, candidate, build)


def test_what_cannot_be_started_says_why(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        "import sys; print('Permission denied (publickey).', file=sys.stderr); sys.exit(255)",
    ]
    with pytest.raises(DeviceError, match=r"there cannot be reached: Permission denied \(publickey\)"):
        RemoteExecutor(lambda: Link(command), {}, where="there", cache=tmp_path)
    with pytest.raises(DeviceError, match="no-such-command"):
        RemoteExecutor(lambda: Link(["no-such-command"]), {}, where="there", cache=tmp_path)


def test_a_command_that_never_comes_to_an_agent_is_ended(tmp_path: Path) -> None:
    # A shell has put its question in no time, and two seconds are far more than it needs on a busy machine.
    command = ["sh", "-c", "echo 'Which project?'; exec sleep 600"]
    with pytest.raises(DeviceError, match=r"Which project\?\s+no measuring process had started after 2 s"):
        RemoteExecutor(lambda: Link(command, patience_s=2.0), {}, where="there", cache=tmp_path)


def test_a_machine_that_was_there_once_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "PAUSE_S", 0.01)
    monkeypatch.setattr(remote, "TRIES", 2)
    there = [sys.executable, synthetic_agent.__file__, str(tmp_path)]
    away = ["no-such-command"]

    def opened(tries: Iterator[list[str]], patience_s: float) -> RemoteExecutor:
        near = tmp_path / "near"
        return RemoteExecutor(lambda: Link(next(tries)), {}, where="there", cache=near, patience_s=patience_s)

    task, candidate = synthetic.task(), saying("lose the agent once")
    executor = opened(iter([there, *[away] * 5, there]), 60.0)
    assert executor.measure(task, candidate, executor.compile(task, candidate)).status == "ok"
    executor.close()
    candidate = saying("lose the agent always")
    executor = opened(chain([there], repeat(away)), 2.0)
    build = executor.compile(task, candidate)
    begun = time.monotonic()
    with pytest.raises(WorkerError, match=r"lost 2 times in a row: no-such-command"):
        executor.measure(task, candidate, build)
    assert time.monotonic() - begun > 1.0
    executor.close()


def test_closing_ends_the_wait_for_a_machine(tmp_path: Path) -> None:
    tries = iter([[sys.executable, synthetic_agent.__file__, str(tmp_path)]])
    asked = threading.Event()

    def connect() -> Link:
        command = next(tries, None)
        if command is None:
            asked.set()
            raise LinkLost("nobody there")
        return Link(command)

    executor = RemoteExecutor(connect, {}, where="there", cache=tmp_path / "near", patience_s=600.0)
    task, candidate = synthetic.task(), saying("lose the agent always")
    build = executor.compile(task, candidate)
    failed: list[WorkerError] = []

    def measure() -> None:
        try:
            executor.measure(task, candidate, build)
        except WorkerError as e:
            failed.append(e)

    thread = threading.Thread(target=measure)
    thread.start()
    assert asked.wait(60)
    executor.close()
    thread.join(60)
    assert not thread.is_alive()
    assert "was closed" in str(failed[0])


def test_closing_ends_a_measurement_that_others_wait_for(opens: Opens, tmp_path: Path) -> None:
    executor, task, candidate = opens(), synthetic.task(), saying("take long")
    build = executor.compile(task, candidate)
    failed: list[BaseException] = []

    def measure() -> None:
        try:
            executor.measure(task, candidate, build)
        except WorkerError as e:
            failed.append(e)

    thread = threading.Thread(target=measure)
    thread.start()
    while not (tmp_path / "measured").exists():
        assert thread.is_alive()
        thread.join(0.01)
    executor.close()
    thread.join(60)
    assert not thread.is_alive()
    assert "was closed" in str(failed[0])


def test_errors_arrive_as_they_were_raised(opens: Opens) -> None:
    executor = opens()
    no_shapes = replace(synthetic.task(), workloads={})
    with pytest.raises(WorkerError, match="KeyError"):
        executor.describe(no_shapes)
    assert isinstance(executor, ParallelCompiler)
    assert executor.compilers >= 1


def test_a_run_whose_agent_is_lost_counts_every_measurement_once(opens: Opens, tmp_path: Path) -> None:
    task = synthetic.task(saying("lose the agent once"))
    settings = SearchSettings(budget=Budget(measurements=6), confirm=False)
    with Archive(tmp_path / "archive.db") as archive:
        search = Search.start(archive, task, opens(), TunablesProposer(), None, settings)
        search.run()
        rows = archive.measurements(run=search.run_id)
        spend = archive.spend(search.run_id)
    assert count(tmp_path, "opened") == 2
    assert [r.state for r in rows] == ["done"] * 6
    assert len({r.candidate.sha256 for r in rows}) == 6
    assert spend.measurements == 6
    results = [r.measurement for r in rows if r.measurement]
    lost = [m.phases["lost"] for m in results if "lost" in m.phases]
    assert len(lost) == 1
    assert lost[0] > 0.5
    assert spend.device_s == pytest.approx(sum(m.device_s for m in results) + lost[0])
    booked = device_seconds(tmp_path)
    refs = Counter(ref for ref, _ in booked)
    assert set(refs.values()) == {1}
    number = next(r.id for r in rows if r.measurement and "lost" in r.measurement.phases)
    assert dict(booked)[f"measurement {number}, lost attempts, at most"] == pytest.approx(lost[0])
    assert count(tmp_path, "measured") == 7


def test_names_of_executors() -> None:
    from forewarp.gpu_runner.remote.over_ssh import open_remote

    with pytest.raises(UsageError, match="is unknown"):
        open_remote("slurm", "cpu", None)
    with pytest.raises(UsageError, match="names no host"):
        open_remote("ssh:-oProxyCommand=x", "cpu", None)
