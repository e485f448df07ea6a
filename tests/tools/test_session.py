"""Devices that are kept open, and closed by somebody else while one is being opened."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support import synthetic_executor as synthetic
from support.recorded_pool import record
from support.small_tasks import REFERENCE

from forewarp.core.errors import ForewarpError, TaskError, WorkerError
from forewarp.gpu_runner.formats import task as tasks
from forewarp.tools.parts import Place
from forewarp.tools.session import Executors, load_task


@pytest.fixture
def stuck(tmp_path: Path) -> Path:
    """A Python whose measuring server starts and never gets ready; `pid` beside it names its process."""
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; exec sleep 600\n")
    python.chmod(0o755)
    return python


def until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.01)


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_closing_ends_a_device_that_is_just_being_opened(stuck: Path) -> None:
    executors, errors = Executors(), list[ForewarpError]()

    def get() -> None:
        try:
            executors.get(Place(device="cpu", python=str(stuck)), synthetic.task())
        except ForewarpError as e:
            errors.append(e)

    # The second one waits for the first one's device.
    threads = [threading.Thread(target=get) for _ in range(2)]
    for thread in threads:
        thread.start()
    until((stuck.parent / "pid").exists)
    executors.close()
    pid = int((stuck.parent / "pid").read_text())
    for thread in threads:
        thread.join()
    assert not lives(pid)
    assert [type(e) for e in errors] == [WorkerError, WorkerError]
    assert all(e.hint.startswith("nothing is lost") for e in errors)


def test_what_is_closed_opens_nothing_any_more(stuck: Path) -> None:
    with Executors() as executors:
        pass
    executors.close()
    with pytest.raises(WorkerError):
        executors.get(Place(device="cpu", python=str(stuck)), synthetic.task())
    assert not (stuck.parent / "pid").exists()


def test_a_device_is_opened_once_and_a_failure_is_not_kept(tmp_path: Path) -> None:
    recorded = record(tmp_path)
    place, task = Place(device="replay", pool=recorded.pool), tasks.load(recorded.task)
    with Executors() as executors:
        for _ in range(2):
            with pytest.raises(ForewarpError):
                executors.get(Place(device="cpu", python=str(tmp_path / "missing")), task)
        assert executors.get(place, task) is executors.get(place, task)


@pytest.mark.parametrize("workloads", [None, {"a": {"ROWS": 8}, "b": {"ROWS": 16}}])
def test_a_size_is_set_in_every_workload_and_equal_ones_become_one(workloads: dict[str, dict[str, int]] | None) -> None:
    task = tasks.from_source(REFERENCE, name="small", workloads=workloads)
    found = load_task(task, Place(), size={"ROWS": 4})
    assert [dict(w.constants) for w in found.workloads["cpu"]] == [{"ROWS": 4}]
    both = load_task(task, Place(), size={"COLS": 32})
    assert [w.constants["COLS"] for w in both.workloads["cpu"]] == [32] * (2 if workloads else 1)
    assert task.sha256 != found.sha256 != both.sha256


def test_a_size_of_no_constant_names_those_that_there_are() -> None:
    task = tasks.from_source(REFERENCE, name="small")
    with pytest.raises(TaskError, match="no constant 'BATCH'") as caught:
        load_task(task, Place(), size={"BATCH": 4})
    assert caught.value.hint == "it has COLS, ROWS"
