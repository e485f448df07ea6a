"""Cells by themselves: commands by socket and by page, what they report, and how their end is told."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forewarp.gpu_runner.worker import watch
from forewarp.gpu_runner.worker.cell_process import NULL, RUN
from forewarp.gpu_runner.worker.cells import Cell, CellFailed
from forewarp.gpu_runner.worker.protections import Confinement
from forewarp.gpu_runner.worker.runners import Runner

Make = Callable[..., Cell]
PATIENCE_S = 60.0


class Scripted:
    """Runs a function of the slot; `wait` waits for its device."""

    def __init__(self, act: Callable[[int], object], wait: Callable[[], None]) -> None:
        self.act, self.wait = act, wait

    def run(self, slot: int) -> None:
        self.act(slot)


@pytest.fixture(params=[False, True], ids=["by socket", "by page"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    cells: list[Cell] = []

    def start(act: Callable[[int], object], wait: Callable[[], None] = lambda: None) -> Cell:
        def load(index: int, message: bytes) -> Runner:
            assert message == b"hello" * index
            return Scripted(act, wait)

        how = Confinement(folder="", folder_bytes=1 << 20, own_processes=True)
        cell = Cell(load, how, memory=1 << 30, spins=request.param)
        cells.append(cell)
        cell.load(3, PATIENCE_S, b"hello" * 3)
        return cell

    yield start
    for cell in cells:
        cell.close()


def test_commands_are_answered_and_timed(make: Make) -> None:
    cell = make(lambda slot: time.sleep(0.01 * slot))
    began = time.perf_counter()
    told = [cell.call(NULL, PATIENCE_S), cell.call(RUN, PATIENCE_S, 2), cell.deliver(PATIENCE_S)]
    assert told[1] >= 0.02
    assert 0 < sum(told) < time.perf_counter() - began


def test_asking_for_a_native_result_waits_for_the_device_and_a_call_of_nothing_does_the_same(make: Make) -> None:
    cell = make(lambda slot: None, lambda: time.sleep(0.02))
    assert cell.deliver(PATIENCE_S) >= 0.02
    assert cell.call(NULL, PATIENCE_S) >= 0.02


def test_a_cell_that_has_slept_wakes_up(make: Make) -> None:
    cell = make(lambda slot: None)
    time.sleep(0.1)
    cell.call(NULL, PATIENCE_S)


def test_an_error_is_told_and_the_cell_goes_on(make: Make) -> None:
    cell = make(lambda slot: 1 / slot)
    with pytest.raises(CellFailed, match="ZeroDivisionError") as e:
        cell.call(RUN, PATIENCE_S)
    assert e.value.status == "runtime_error"
    cell.call(RUN, PATIENCE_S, 1)


def test_a_hang_ends_at_its_time(make: Make) -> None:
    cell = make(lambda slot: time.sleep(PATIENCE_S))
    start = time.monotonic()
    with pytest.raises(CellFailed) as e:
        cell.call(RUN, 0.2)
    assert e.value.status == "timeout"
    assert time.monotonic() - start < PATIENCE_S / 2


def test_a_death_is_noticed_although_a_child_holds_the_channel(make: Make) -> None:
    def leave(slot: int) -> None:
        if os.fork():
            os._exit(7)
        time.sleep(PATIENCE_S)

    with pytest.raises(CellFailed, match="exit status 7") as e:
        make(leave).call(RUN, PATIENCE_S)
    assert e.value.status == "crashed"


def state_of(pid: int) -> str:
    """Return the letter that the kernel has for what a process does: T once it is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_stopped_cell_uses_no_processor_time_and_goes_on(make: Make) -> None:
    cell = make(lambda slot: None)
    cell.settle()
    cell.pause()
    deadline = time.monotonic() + PATIENCE_S
    while state_of(cell.pid) != "T" and time.monotonic() < deadline:
        time.sleep(0.01)
    before = cell.processor_s()
    assert before > 0
    time.sleep(0.05)
    # The kernel may write down the last microseconds late.
    assert cell.processor_s() < before + 1e-3
    cell.resume()
    cell.call(NULL, PATIENCE_S)


def test_what_a_stopped_cell_has_started_stops_with_it(make: Make) -> None:
    def start(slot: int) -> None:
        if os.fork() == 0:
            while True:
                time.sleep(0.001)

    cell = make(start)
    cell.call(RUN, PATIENCE_S)
    family = [p.pid for p in watch.family({cell.pid})]
    assert len(family) == 2
    cell.pause()
    deadline = time.monotonic() + PATIENCE_S
    while {state_of(pid) for pid in family} != {"T"}:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    cell.resume()
    cell.call(NULL, PATIENCE_S)


def test_output_is_bounded_with_beginning_and_end(make: Make, capfd: pytest.CaptureFixture[str]) -> None:
    def chatter(slot: int) -> None:
        print("begin")
        for _ in range(100):
            print("x" * 100_000)
        print("end")

    cell = make(chatter)
    cell.call(RUN, PATIENCE_S)
    cell.close()
    written = capfd.readouterr().err
    assert written.startswith("begin\n")
    assert written.endswith("end\n")
    assert "bytes of output left out" in written
    assert len(written) < 200_000


def test_a_candidate_finds_no_descriptor_but_its_own(make: Make) -> None:
    secret = os.open("/dev/null", os.O_RDONLY)

    def look(slot: int) -> None:
        kept: list[str] = []
        for descriptor in range(3, 200):
            with contextlib.suppress(OSError):
                kept.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        raise ValueError(kept)

    with pytest.raises(CellFailed) as e:
        make(look).call(RUN, PATIENCE_S)
    os.close(secret)
    kept = e.value.log.rpartition("ValueError: ")[2]
    assert "/dev/null" not in kept
    assert ".log" not in kept
    assert kept.count("socket:") == 1
