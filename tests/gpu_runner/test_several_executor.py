from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest
from contracts.executor_contract import ExecutorContract
from support import synthetic_executor as synthetic

from forewarp.core.errors import UsageError
from forewarp.core.protocols import Executor, Subject
from forewarp.core.values import Build, Candidate, Measurement, Status, Task
from forewarp.gpu_runner import devices
from forewarp.gpu_runner.executors.several import SeveralExecutor


class TestContract(ExecutorContract):
    @pytest.fixture
    def executor(self) -> Iterator[Executor]:
        made = SeveralExecutor([synthetic.SyntheticExecutor() for _ in range(2)])
        yield made
        made.close()

    @pytest.fixture
    def task(self) -> Task:
        return synthetic.task()

    @pytest.fixture
    def good(self) -> Candidate:
        return synthetic.seed()

    @pytest.fixture
    def failing(self) -> list[tuple[Candidate, Status]]:
        return [(synthetic.seed(synthetic.SOURCE + "#error\n"), "compile_error")]


class Knows(synthetic.SyntheticExecutor):
    """Knows its versions."""

    def probe(self) -> dict[str, str]:
        return {"torch": "2.0"}


def test_versions_are_those_of_the_first_that_knows_them() -> None:
    assert SeveralExecutor([Knows(), Knows()]).probe() == {"torch": "2.0"}
    assert SeveralExecutor([synthetic.SyntheticExecutor()]).probe() == {}


class Waits(synthetic.SyntheticExecutor):
    """Measures once all devices of the test measure."""

    def __init__(self, together: threading.Barrier) -> None:
        super().__init__()
        self.together = together

    def measure(
        self,
        task: Task,
        candidate: Candidate,
        build: Build,
        against: Subject | None = None,
        beat: float | None = None,
    ) -> Measurement:
        self.together.wait(timeout=60)
        return super().measure(task, candidate, build, against, beat)


def test_each_device_measures_one_at_a_time() -> None:
    together = threading.Barrier(3)
    parts = [Waits(together) for _ in range(3)]
    executor = SeveralExecutor(parts)
    assert executor.devices == 3
    task, kernel = synthetic.task(), synthetic.seed()
    build = executor.compile(task, kernel)
    threads = [threading.Thread(target=executor.measure, args=(task, kernel, build)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert [len(p.measured) for p in parts] == [2, 2, 2]


def test_one_at_a_time_stays_on_one_device() -> None:
    parts = [synthetic.SyntheticExecutor() for _ in range(3)]
    executor = SeveralExecutor(parts)
    task, kernel = synthetic.task(), synthetic.seed()
    build = executor.compile(task, kernel)
    for _ in range(4):
        executor.measure(task, kernel, build)
    assert [len(p.measured) for p in parts] == [4, 0, 0]


def test_different_devices_do_not_mix() -> None:
    other = synthetic.SyntheticExecutor(replace(synthetic.TARGET, name="another"))
    with pytest.raises(ValueError, match="do not mix"):
        SeveralExecutor([synthetic.SyntheticExecutor(), other])


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cpu:1", "auto:all"])
def test_unknown_devices_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="unknown"):
        devices.choose(name)


def test_names_of_devices() -> None:
    assert devices.indices("cuda") == [0]
    assert devices.indices("cuda:3") == [3]
