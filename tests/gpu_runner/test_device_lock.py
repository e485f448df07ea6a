"""Who holds a device, and who waits for it."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from forewarp.core.errors import WorkerError
from forewarp.core.values import Target
from forewarp.gpu_runner.executors.local import exclusive_device

GPU = Target("Card", "cuda", "sm_90", 132, source="tests")
CPU = Target("Processor", "cpu", "x86_64", 2, source="tests")


@pytest.mark.parametrize(
    ("target", "visible", "machine", "waits"),
    [
        (GPU, "0", "", True),
        (GPU, "1", "", False),
        (replace(GPU, name="Other"), "0", "", False),
        (CPU, "", "", True),
        # The one that holds it may have fallen silent, and a home directory on the network would keep its lock.
        (GPU, "0", "another machine", False),
        (CPU, "", "another machine", False),
    ],
)
def test_one_holds_a_device(tmp_path: Path, target: Target, visible: str, machine: str, waits: bool) -> None:
    held = threading.Event()

    def hold() -> None:
        with exclusive_device(tmp_path / "locks", target, visible, machine):
            held.set()

    with exclusive_device(tmp_path / "locks", GPU, "0"):
        thread = threading.Thread(target=hold)
        thread.start()
        assert held.wait(0.2 if waits else 30) is not waits
    thread.join(30)
    assert held.is_set()


def test_gpus_that_take_turns_do_not_keep_out_the_cpu(tmp_path: Path) -> None:
    order: list[str] = []

    def come(target: Target, visible: str) -> threading.Thread:
        def hold() -> None:
            with exclusive_device(tmp_path / "locks", target, visible):
                order.append(target.kind)

        thread = threading.Thread(target=hold)
        thread.start()
        return thread

    with exclusive_device(tmp_path / "locks", GPU, "0"):
        first = come(CPU, "")
        later = come(GPU, "1")
        while later.join(0.2) or not later.is_alive():  # until the CPU is in line, GPUs get in beside the first
            later = come(GPU, "1")
        order.clear()
    first.join(30)
    later.join(30)
    assert order == ["cpu", "cuda"]


def test_a_lock_that_cannot_be_opened_is_a_matter_of_the_machine(tmp_path: Path) -> None:
    with exclusive_device(tmp_path, GPU, "0"):
        locks = list(tmp_path.iterdir())
    for lock in locks:
        lock.unlink()
        lock.mkdir()
    with pytest.raises(WorkerError, match=r"cannot be held.*Is a directory"), exclusive_device(tmp_path, GPU, "0"):
        pass
