"""Torch's device memory of this process, taken from a window; needed before torch allocates for the first time."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Generator
from typing import Any

import torch

from forewarp.gpu_runner.lifting import driver
from forewarp.gpu_runner.lifting.program import GAP
from forewarp.gpu_runner.lifting.window import Window

ALIGN = 512
SMALL = 64 << 10
LARGE = 8 << 20
"""Bytes from which a block has memory to itself."""
FIRST, MOST = 16 << 20, 256 << 20
"""Bytes that the window grows by for smaller blocks, at first and at most; each step is a call of the driver."""

_Allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)
_Free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)


class WindowAllocator:
    """Best fit among freed blocks of the same stream, else new memory from the window.

    A large block has chunks of the window to itself, so that the launcher can put other memory in its place.
    """

    def __init__(self, window: Window) -> None:
        self.window = window
        self._alone_left, self._alone_from, self._sealed = 0, 0, False
        self._used: set[int] = set()
        self._chunks: set[int] = set()
        self.exhausted = False
        self._lock = threading.Lock()
        self._late: deque[int] = deque()
        self._sizes: dict[int, tuple[int, int]] = {}
        self._largest: dict[int, int] = {}
        self._taken: set[int] = set()
        self._free: dict[int, list[tuple[int, bool, int]]] = {}
        self._next = self._end = 0
        self._step = FIRST
        # Torch keeps the addresses of these for as long as the process lives.
        self._callbacks = _Allocate(self._allocate), _Free(self._release)

    def install(self) -> None:
        """Have torch allocate here from now on; raises RuntimeError where it has allocated already."""
        pointers = [ctypes.cast(c, ctypes.c_void_p).value for c in self._callbacks]
        make: Any = torch._C._cuda_customAllocator  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
        change: Any = torch._C._cuda_changeCurrentAllocator  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
        change(make(*pointers))

    @contextlib.contextmanager
    def each_alone(self, most: int, least: int = 0) -> Generator[None]:
        """Give new blocks of `least` bytes or more memory to themselves within this context; at most `most` of them."""
        self._alone_left, self._alone_from = most, least
        try:
            yield
        finally:
            self._alone_left = 0

    @property
    def blocks(self) -> set[int]:
        return set(self._sizes)

    def mark(self, stream: int) -> set[int]:
        """Record allocations from now on; return the blocks in use. Free ones go to `stream`; nothing may run."""
        with self._lock:
            if not self._sealed:
                self._used = self.blocks
                self._largest.clear()
            self._taken.clear()
            self._free = {stream: sorted(block for free in self._free.values() for block in free)}
            return self.blocks

    def largest(self, address: int) -> int:
        """Return the most bytes that were asked for in the block at an address since the first `mark`."""
        return self._largest.get(address, 0)

    def taken(self) -> list[int]:
        """Return the blocks with memory to themselves that were given out since the last `mark`, in order."""
        return sorted(self._taken & self._chunks)

    def seal(self) -> None:
        """Never reuse the blocks that are free now: a captured graph uses them as scratch."""
        with self._lock:
            self._sealed = True
            self._free.clear()

    def idle(self) -> set[int]:
        """Return the offsets of chunks without a block in use now, at the first `mark`, or since."""
        idle = self._chunks - self._used - self.blocks
        return {address - self.window.base for address in idle}

    def _allocate(self, size: int, device: int, stream: int | None) -> int:
        with self._lock:
            while self._late:
                self._give_back(self._late.popleft())
            try:
                address = self._take(-(-(size + GAP) // ALIGN) * ALIGN, stream or 0)
                self._largest[address] = max(size, self._largest.get(address, 0))
                return address
            except driver.CudaError:
                self.exhausted = True  # torch takes the zero for an address: what fails next is not the module's fault
                return 0

    def _take(self, size: int, stream: int) -> int:
        free = self._free.setdefault(stream, [])
        alone = self._alone_left > 0 and self._alone_from <= size < LARGE
        position = bisect_left(free, (size, False, 0))
        # A block much larger than what is asked for is kept for what it was made for.
        if not alone and position < len(free) and free[position][0] <= 2 * size + SMALL:
            length, _, address = free.pop(position)
        elif alone or size >= LARGE:
            length, address = size, self._grow(size)
            self._chunks.add(address)
            self._alone_left -= alone
        else:
            if self._end - self._next < size:
                self._next = self._grow(max(size, self._step))
                self._end = self.window.base + self.window.mapped
                self._step = min(MOST, 2 * self._step)
            length, address, self._next = size, self._next, self._next + size
        self._sizes[address] = length, stream
        self._used.add(address)
        self._taken.add(address)
        return address

    def _grow(self, size: int) -> int:
        return self.window.base + self.window.grow(size).offset

    def _release(self, address: int | None, size: int, device: int, stream: int | None) -> None:
        # The garbage collector may free a tensor while this thread holds the lock.
        if not self._lock.acquire(blocking=False):
            self._late.append(address or 0)
            return
        try:
            self._give_back(address or 0)
        finally:
            self._lock.release()

    def _give_back(self, address: int) -> None:
        known = self._sizes.pop(address, None)
        if known is not None:
            length, stream = known
            # Of equal blocks, those that have memory to themselves are given out first.
            insort(self._free.setdefault(stream, []), (length, address not in self._chunks, address))
