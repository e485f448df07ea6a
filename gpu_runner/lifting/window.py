"""A range of device addresses that several processes reserve alike, and the memory mapped into it.

What an observed process allocates lies in such a window. The launcher maps the same memory at the same addresses, so
arguments of kernels, structures and descriptors that hold addresses mean the same there, byte by byte.
"""

from __future__ import annotations

import ctypes
import os
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from forewarp.gpu_runner.lifting import driver

SPAN = 256 << 30
"""Bytes of addresses in a window; more than any card has memory."""
BASES = (0x2000_0000_0000, 0x2800_0000_0000)
"""Start addresses of windows, for candidate and anchor: far from those that driver and system choose themselves."""

_RELAXED = 2


class WindowTaken(RuntimeError):
    """The addresses of a window are in use in this process."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Memory mapped at `offset` bytes from the window's start."""

    offset: int
    size: int


class Window:
    """A reserved range of addresses; needs a current CUDA context."""

    def __init__(self, base: int) -> None:
        """Reserve the range; raises `WindowTaken` where the driver does not give these addresses."""
        self.base = base
        found = ctypes.c_uint64()
        driver.call(
            "cuMemAddressReserve",
            *(ctypes.byref(found), ctypes.c_size_t(SPAN), ctypes.c_size_t(0), ctypes.c_uint64(base)),
            ctypes.c_uint64(0),
        )
        if found.value != base:
            driver.call("cuMemAddressFree", found, ctypes.c_size_t(SPAN))
            raise WindowTaken(f"the driver gives {found.value:#x} for a window at {base:#x}")
        self.chunks: list[Chunk] = []
        self._handles: list[driver.Handle] = []
        self._properties = driver.pinned()
        grain = ctypes.c_size_t()
        driver.call("cuMemGetAllocationGranularity", ctypes.byref(grain), ctypes.byref(self._properties), 0)
        self.grain = grain.value

    def __contains__(self, address: int) -> bool:
        return any(c.offset <= address - self.base < c.offset + c.size for c in self.chunks)

    @property
    def mapped(self) -> int:
        """Bytes of memory in the window; the next chunk begins behind them."""
        return self.chunks[-1].offset + self.chunks[-1].size if self.chunks else 0

    def grow(self, size: int) -> Chunk:
        """Map at least `size` more bytes; raises `CudaError` where the device has no more."""
        size = -(-size // self.grain) * self.grain
        handle, mode = driver.Handle(), ctypes.c_int(_RELAXED)
        # While a stream is being captured, the driver allows this only to a thread that says that it is safe.
        driver.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        try:
            driver.call(
                "cuMemCreate",
                *(ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(self._properties), ctypes.c_uint64(0)),
            )
            return self._map(Chunk(self.mapped, size), handle)
        finally:
            driver.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))

    def adopt(self, chunks: list[Chunk], descriptors: list[int]) -> None:
        """Map another process's memory, closing its descriptors; raises `CudaError`, or ValueError for disorder."""
        try:
            for chunk, descriptor in zip(chunks, descriptors, strict=True):
                if chunk.offset < self.mapped or chunk.size <= 0 or chunk.offset + chunk.size > SPAN:
                    raise ValueError(f"a chunk of {chunk.size} bytes at {chunk.offset} does not belong into the window")
                handle = driver.Handle()
                driver.call(
                    "cuMemImportFromShareableHandle",
                    *(ctypes.byref(handle), driver.Handle(descriptor), driver.FILE_DESCRIPTOR),
                )
                self._map(chunk, handle)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _map(self, chunk: Chunk, handle: driver.Handle) -> Chunk:
        try:
            self._place(chunk, handle)
        except driver.CudaError:
            driver.status("cuMemRelease", handle)
            raise
        self.chunks.append(chunk)
        self._handles.append(handle)
        return chunk

    def _place(self, chunk: Chunk, handle: driver.Handle) -> None:
        address, size = ctypes.c_uint64(self.base + chunk.offset), ctypes.c_size_t(chunk.size)
        driver.call("cuMemMap", address, size, ctypes.c_size_t(0), handle, ctypes.c_uint64(0))
        access = driver.read_write()
        driver.call("cuMemSetAccess", address, size, ctypes.byref(access), ctypes.c_size_t(1))

    def chunk_at(self, address: int) -> int | None:
        offset = address - self.base
        position = bisect_left(self.chunks, offset, key=lambda c: c.offset)
        return position if position < len(self.chunks) and self.chunks[position].offset == offset else None

    def chunk_of(self, address: int) -> int | None:
        offset = address - self.base
        position = bisect_right(self.chunks, offset, key=lambda c: c.offset) - 1
        inside = position >= 0 and offset < self.chunks[position].offset + self.chunks[position].size
        return position if inside else None

    def share(self, number: int, other: Window, its: int) -> bool:
        """Put another window's memory in the place of a chunk, whose contents are lost; False where sizes differ."""
        chunk = self.chunks[number]
        if other.chunks[its].size != chunk.size:
            return False
        handle = driver.Handle()
        address = ctypes.c_uint64(other.base + other.chunks[its].offset)
        driver.call("cuMemRetainAllocationHandle", ctypes.byref(handle), address)
        driver.call("cuMemUnmap", ctypes.c_uint64(self.base + chunk.offset), ctypes.c_size_t(chunk.size))
        driver.call("cuMemRelease", self._handles[number])
        self._handles[number] = handle
        self._place(chunk, handle)
        return True

    def export(self, chunks: Sequence[Chunk]) -> list[int]:
        """Return a descriptor for each of these chunks, which another process can `adopt`; the caller closes them."""
        found: list[int] = []
        for chunk in chunks:
            handle = self._handles[self.chunks.index(chunk)]
            descriptor = ctypes.c_int()
            driver.call(
                "cuMemExportToShareableHandle",
                *(ctypes.byref(descriptor), handle, driver.FILE_DESCRIPTOR, ctypes.c_uint64(0)),
            )
            found.append(descriptor.value)
        return found

    def clear(self) -> None:
        """Unmap everything, whether or not a broken context still can; no kernel that uses it may be running."""
        for chunk, handle in zip(self.chunks, self._handles, strict=True):
            driver.status("cuMemUnmap", ctypes.c_uint64(self.base + chunk.offset), ctypes.c_size_t(chunk.size))
            driver.status("cuMemRelease", handle)
        self.chunks, self._handles = [], []
