"""Watched memory: bounds, races in and out of order, sectors."""

from __future__ import annotations

import numpy as np
import pytest

from forewarp.core.checking import Finding
from forewarp.inspection.emulation.interpreter.memory import Memory, MemoryFault, SourcePlace

YES = np.ones(1, np.bool_)


class Bench:
    """A memory with buffers x (filled) and y (not yet), 64 floats each, and programs that take turns."""

    def __init__(self) -> None:
        self.memory = Memory(lambda kernel: SourcePlace(kernel, 7))
        self.x = np.arange(64, dtype=np.float32)
        self.y = np.zeros(64, np.float32)
        self.lock = np.zeros(1, np.int32)
        self.at_x = self.memory.add("x", self.x.view(np.uint8), 4, watched=True)
        self.at_y = self.memory.add("y", self.y.view(np.uint8), 4, watched=True, filled=False)
        self.at_lock = self.memory.add("lock", self.lock.view(np.uint8), 4, watched=True)
        self.memory.begin_launch("k", (8, 1, 1))
        self.turn(0)

    def turn(self, program: int) -> None:
        self.memory.begin_program(program + 1, f"({program}, 0, 0)")

    def load(self, base: int, *elements: int) -> list[float]:
        at = np.array([base + 4 * e for e in elements], np.uint64)
        found = self.memory.load(at, np.ones(len(at), np.bool_), np.zeros(1, np.float32))
        return [float(v) for v in found]

    def store(self, base: int, element: int, value: float) -> None:
        self.memory.store(np.array([base + 4 * element], np.uint64), np.array([value], np.float32), YES)

    def swap_lock(self, value: int, *, acquires: bool, releases: bool) -> None:
        self.memory.change(
            np.array([self.at_lock], np.uint64),
            YES,
            np.array([value], np.int32),
            lambda old, new: new,
            (acquires, releases),
        )

    def found(self) -> list[Finding]:
        return list(self.memory.ledger.findings())

    def kinds(self) -> list[str]:
        return [f.kind for f in self.found()]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_what_is_out_of_bounds_reads_as_nan_and_writes_nowhere(bench: Bench) -> None:
    values = bench.load(bench.at_x, 63, 64, -1)
    assert values[0] == 63
    assert np.isnan(values[1:]).all()
    bench.store(bench.at_x, 64, 5.0)
    assert bench.y.tolist() == [0.0] * 64
    assert [(f.kind, f.count) for f in bench.found() if f.kind != "uncoalesced"] == [("out of bounds", 3)]
    assert bench.found()[0].where == "k, line 7"


def test_masked_lanes_and_far_offsets(bench: Bench) -> None:
    at = np.array([bench.at_x, bench.at_x + (1 << 40)], np.uint64)
    bench.memory.load(at, np.array([True, False]), np.zeros(1, np.float32))
    assert bench.found() == []
    bench.memory.load(at, np.array([True, True]), np.zeros(1, np.float32))
    assert "of x" in bench.found()[0].message
    with pytest.raises(MemoryFault, match="no buffer"):
        bench.load(64, 0)
    with pytest.raises(MemoryFault, match="no multiple of 4"):
        bench.load(bench.at_x + 2, 0)


def test_one_access_may_reach_two_buffers(bench: Bench) -> None:
    bench.store(bench.at_y, 1, 9.0)
    at = np.array([bench.at_x + 8, bench.at_y + 4], np.uint64)
    found = bench.memory.load(at, np.ones(2, np.bool_), np.zeros(1, np.float32))
    assert found.tolist() == [2.0, 9.0]


def test_two_programs_that_write_the_same_value_do_not_race(bench: Bench) -> None:
    bench.store(bench.at_y, 0, 1.0)
    bench.turn(1)
    bench.store(bench.at_y, 0, 1.0)
    assert bench.found() == []
    bench.turn(2)
    bench.store(bench.at_y, 0, 2.0)
    assert bench.kinds() == ["race"]


def test_to_read_what_another_writes_is_a_race_either_way_round(bench: Bench) -> None:
    bench.store(bench.at_x, 0, 1.0)
    bench.turn(1)
    bench.load(bench.at_x, 0)
    assert bench.kinds() == ["race"]
    other = Bench()
    other.load(other.at_x, 0)
    other.turn(1)
    other.store(other.at_x, 0, 5.0)
    assert other.kinds() == ["race"]


def test_launches_come_one_after_another(bench: Bench) -> None:
    bench.store(bench.at_y, 0, 1.0)
    bench.memory.begin_launch("k", (8, 1, 1))
    bench.turn(1)
    bench.load(bench.at_y, 0)
    assert bench.found() == []


@pytest.mark.parametrize(("releases", "acquires", "races"), [(True, True, 0), (False, True, 1), (True, False, 1)])
def test_a_lock_needs_a_release_and_an_acquire(bench: Bench, releases: bool, acquires: bool, races: int) -> None:
    bench.swap_lock(1, acquires=True, releases=False)
    bench.store(bench.at_x, 0, 1.0)
    bench.swap_lock(0, acquires=False, releases=releases)
    bench.turn(1)
    bench.swap_lock(1, acquires=acquires, releases=False)
    bench.load(bench.at_x, 0)
    assert bench.kinds() == ["race"] * races


def test_what_comes_after_a_release_is_not_covered_by_it(bench: Bench) -> None:
    bench.swap_lock(1, acquires=True, releases=True)
    bench.store(bench.at_x, 0, 1.0)
    bench.turn(1)
    bench.swap_lock(1, acquires=True, releases=True)
    bench.load(bench.at_x, 0)
    assert bench.kinds() == ["race"]


def test_atomics_of_several_lanes_on_one_element_all_count(bench: Bench) -> None:
    at = np.full(5, bench.at_x, np.uint64)
    old = bench.memory.change(at, np.ones(5, np.bool_), np.ones(1, np.float32), np.add, (False, False))
    assert bench.x[0] == 5
    assert old.tolist() == [0, 1, 2, 3, 4]


def test_lanes_of_one_store_must_agree(bench: Bench) -> None:
    at = np.full(2, bench.at_y, np.uint64)
    bench.memory.store(at, np.array([1, 1], np.float32), np.ones(2, np.bool_))
    assert bench.found() == []
    bench.memory.store(at, np.array([1, 2], np.float32), np.ones(2, np.bool_))
    assert "one store writes different values" in bench.found()[0].message


def test_to_read_before_anything_was_written_is_named(bench: Bench) -> None:
    bench.load(bench.at_y, 3)
    assert bench.kinds() == ["uninitialised"]


def test_sectors_are_counted_once_however_the_lanes_lie(bench: Bench) -> None:
    wide = np.zeros(64 * 64, np.float32)
    base = bench.memory.add("wide", wide.view(np.uint8), 4, watched=False)
    rows = np.arange(64)
    bench.load(base, *(rows[:, None] * 64 + rows[None, :]).T.reshape(-1).tolist())  # a transposed tile
    assert bench.found() == []
    bench.load(base, *(rows * 64).tolist())
    assert bench.found() == []  # too little of all traffic
    for _ in range(20):
        bench.load(base, *(rows * 64).tolist())
    assert bench.kinds() == ["uncoalesced"]


def test_smaller_elements_than_the_buffers_own_are_told_apart(bench: Bench) -> None:
    at = np.array([bench.at_y], np.uint64)
    bench.memory.store(at, np.array([1], np.int16), YES)
    bench.turn(1)
    bench.memory.store(at + np.uint64(2), np.array([2], np.int16), YES)
    assert bench.found() == []
