"""Descriptions of a task by its reference, made in processes of their own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from support.jobs import task_job
from support.small_tasks import REFERENCE, small_task

from forewarp.inspection import describing


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Compute in one thread: where earlier tests have used several, OpenMP hangs in a fork of this process."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_what_a_reference_leaves_running_holds_up_nothing(tmp_path: Path) -> None:
    leaving = f"""
        float(x[0, 0])  # shapes alone will not do
        import os, pathlib, time
        pid = os.fork()
        if pid == 0:
            time.sleep(30)
            pathlib.Path({str(tmp_path / "slept")!r}).touch()
            os._exit(0)
        pathlib.Path({str(tmp_path / "pid")!r}).write_text(str(pid))
"""
    task = small_task(REFERENCE.replace("        return torch.softmax", leaving + "        return torch.softmax"))
    workload = task.workloads["cpu"][0]
    found = describing.describe(task_job(task, "cuda"), workload, flops=False)
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    assert found.outputs[0].shape == (64, 256)
    assert not (tmp_path / "slept").exists()
