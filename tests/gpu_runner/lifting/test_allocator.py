"""Where an observed module's memory lies: which blocks are reused, which have memory to themselves, what travels."""

from __future__ import annotations

from itertools import pairwise
from typing import cast

import pytest

from forewarp.gpu_runner.lifting.allocator import LARGE, WindowAllocator
from forewarp.gpu_runner.lifting.program import GAP
from forewarp.gpu_runner.lifting.window import Chunk, Window

GRAIN = 2 << 20


class Memory:
    """Grows by whole grains, as a window does."""

    base = 1 << 40

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []

    @property
    def mapped(self) -> int:
        return sum(c.size for c in self.chunks)

    def grow(self, size: int) -> Chunk:
        self.chunks.append(Chunk(self.mapped, -(-size // GRAIN) * GRAIN))
        return self.chunks[-1]


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def allocator(memory: Memory) -> WindowAllocator:
    return WindowAllocator(cast("Window", memory))


def take(allocator: WindowAllocator, size: int, stream: int = 0) -> int:
    return allocator._allocate(size, 0, stream)


def give(allocator: WindowAllocator, address: int) -> None:
    allocator._release(address, 0, 0, 0)


def test_blocks_do_not_overlap_and_leave_a_gap(allocator: WindowAllocator) -> None:
    sizes = [1, 700, 513, LARGE, 100 << 20, 5]
    blocks = sorted((take(allocator, size), size) for size in sizes)
    for (address, size), (following, _) in pairwise(blocks):
        assert address + size + GAP <= following


def test_a_freed_block_is_reused_on_its_own_stream_only(allocator: WindowAllocator) -> None:
    first = take(allocator, 1000, stream=7)
    give(allocator, first)
    assert take(allocator, 1000, stream=8) != first
    assert take(allocator, 1000, stream=7) == first


def test_a_large_free_block_is_kept_for_what_it_was_made_for(allocator: WindowAllocator) -> None:
    large = take(allocator, 64 << 20)
    give(allocator, large)
    assert take(allocator, 1000) != large
    assert take(allocator, 64 << 20) == large


def test_large_blocks_begin_a_chunk(allocator: WindowAllocator, memory: Memory) -> None:
    take(allocator, 1000)
    address = take(allocator, LARGE)
    assert address - memory.base in {c.offset for c in memory.chunks}


def test_small_blocks_have_chunks_to_themselves_when_asked_for_up_to_a_number(
    allocator: WindowAllocator, memory: Memory
) -> None:
    with allocator.each_alone(2):
        blocks = [take(allocator, 1000) for _ in range(4)]
    starts = {memory.base + c.offset for c in memory.chunks}
    assert [b in starts for b in blocks[:2]] == [True, True]
    assert blocks[3] - blocks[2] < GRAIN
    # Of free blocks of one size, those are given out first.
    for block in blocks:
        give(allocator, block)
    assert {take(allocator, 1000), take(allocator, 1000)} == set(blocks[:2])


def test_blocks_below_a_size_have_no_chunks_to_themselves(allocator: WindowAllocator, memory: Memory) -> None:
    with allocator.each_alone(1, 100_000):
        small, large = take(allocator, 1000), take(allocator, 200_000)
    assert large - memory.base in {c.offset for c in memory.chunks}
    assert take(allocator, 1000) - small < GRAIN


def test_what_was_used_by_no_capture_does_not_travel(allocator: WindowAllocator, memory: Memory) -> None:
    idle, kept = take(allocator, LARGE), take(allocator, 2 * LARGE)
    give(allocator, idle)
    allocator.mark(stream=5)
    scratch = take(allocator, 3 * LARGE, stream=5)
    give(allocator, scratch)
    assert allocator.idle() == {idle - memory.base}
    assert kept - memory.base not in allocator.idle()


def test_the_scratch_of_a_captured_graph_is_given_to_nobody_else(allocator: WindowAllocator) -> None:
    allocator.mark(stream=5)
    scratch = take(allocator, 1000, stream=5)
    give(allocator, scratch)
    allocator.seal()
    assert take(allocator, 1000, stream=5) != scratch
    allocator.mark(stream=5)
    assert scratch not in allocator.idle()


def test_what_is_free_goes_to_the_stream_that_is_captured(allocator: WindowAllocator) -> None:
    block = take(allocator, 1000, stream=0)
    give(allocator, block)
    allocator.mark(stream=9)
    assert take(allocator, 1000, stream=9) == block


def test_the_largest_of_a_blocks_users_since_the_mark_is_known(allocator: WindowAllocator) -> None:
    give(allocator, take(allocator, 200_000, stream=9))
    allocator.mark(stream=9)
    block = take(allocator, 150_000, stream=9)
    assert allocator.largest(block) == 150_000
    give(allocator, block)
    assert take(allocator, 180_000, stream=9) == block
    assert allocator.largest(block) == 180_000
    give(allocator, block)
    assert take(allocator, 120_000, stream=9) == block
    assert allocator.largest(block) == 180_000


def test_what_a_capture_takes_with_memory_to_itself_is_known(allocator: WindowAllocator) -> None:
    kept, free = take(allocator, LARGE), take(allocator, 2 * LARGE)
    give(allocator, free)
    allocator.mark(stream=9)
    new, small, again = (take(allocator, size, stream=9) for size in (3 * LARGE, 1000, 2 * LARGE))
    assert allocator.taken() == sorted([new, again])
    assert again == free
    assert not {kept, small} & set(allocator.taken())
    allocator.mark(stream=9)
    assert allocator.taken() == []
