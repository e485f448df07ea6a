"""Redirection of extensions' launches to the stream under capture, without waits, while a forward is captured.

Much CUDA code launches on the default stream, and waits for the device at the end of a call. Neither can be captured.
For as long as a capture lasts, those calls of the CUDA runtime are led elsewhere in libraries that a module brought.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import platform
import struct
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from forewarp.gpu_runner.lifting.driver import Handle

_SLOTS = {"x86_64": (6, 7), "aarch64": (1025, 1026)}
"""Kinds of relocation that are a function's address in a table: R_*_GLOB_DAT and R_*_JUMP_SLOT."""
_DEFAULT = (None, 0, 1)
"""Handles of the default stream."""
_SYMBOLS, _RELOCATIONS = 11, 4
_READ_WRITE = 3


class _Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]


_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "__cudaPopCallConfiguration": (Handle, Handle, Handle, ctypes.POINTER(Handle)),
    "cudaLaunchKernel": (Handle, _Dim3, _Dim3, Handle, ctypes.c_size_t, Handle),
    "cudaLaunchCooperativeKernel": (Handle, _Dim3, _Dim3, Handle, ctypes.c_size_t, Handle),
    "cudaMemsetAsync": (Handle, ctypes.c_int, ctypes.c_size_t, Handle),
    "cudaMemset": (Handle, ctypes.c_int, ctypes.c_size_t),
    "cudaMemcpyAsync": (Handle, Handle, ctypes.c_size_t, ctypes.c_int, Handle),
    "cudaDeviceSynchronize": (),
    "cudaStreamSynchronize": (Handle,),
}
_WAITS = ("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaMemset")


def _libraries() -> set[str]:
    paths = {line.split(maxsplit=5)[-1] for line in Path("/proc/self/maps").read_text().splitlines() if ".so" in line}
    return {p for p in paths if p.startswith("/") and not p.endswith("(deleted)")}


def foreign() -> list[str]:
    """Return the libraries in this process that a module brought: neither the system's nor installed in Python."""
    known = ("/usr/", "/lib", f"{sys.prefix}/", f"{sys.base_prefix}/", f"{Path(torch.__file__).parents[1]}/")
    return sorted(path for path in _libraries() if not path.startswith(known))


@contextlib.contextmanager
def redirected(paths: Sequence[str], stream: int, *, waiting: bool = False) -> Generator[None]:
    """Redirect the libraries' work on the default stream to `stream`; unless `waiting`, waits return at once."""
    runtime = next((p for p in _libraries() if "libcudart.so" in p), None)
    hooks = dict(_hooks(ctypes.CDLL(runtime), stream)) if runtime else {}
    left = _WAITS if waiting else ()
    with contextlib.ExitStack() as stack:
        for place in (place for path in paths for place in _places(path) if place.name in hooks.keys() - left):
            before = place.swap(ctypes.cast(hooks[place.name], Handle).value or 0)
            stack.callback(place.swap, before)
        for home in () if waiting else (torch.cuda, torch.cuda.Stream, torch.cuda.Event):
            stack.enter_context(mock.patch.object(home, "synchronize", _succeed))
        yield


def _hooks(runtime: ctypes.CDLL, stream: int) -> Iterator[tuple[str, Any]]:
    """Yield the functions of the CUDA runtime that are replaced, by name, with their replacements."""

    def led(name: str) -> Callable[..., int]:
        original = getattr(runtime, name)
        original.argtypes = _SIGNATURES[name]

        def call(*arguments: Any) -> int:
            *most, last = arguments
            return original(*most, stream if last in _DEFAULT else last)

        return call

    pop = getattr(runtime, "__cudaPopCallConfiguration")

    def popped(grid: Any, block: Any, shared: Any, where: Any) -> int:
        code = pop(Handle(grid), Handle(block), Handle(shared), where)
        if where[0] in _DEFAULT:
            where[0] = stream
        return code

    def memset(address: Any, value: int, size: int) -> int:
        return runtime.cudaMemsetAsync(Handle(address), value, ctypes.c_size_t(size), Handle(stream))

    calls: dict[str, Callable[..., int]] = {
        "__cudaPopCallConfiguration": popped,
        "cudaMemset": memset,
        "cudaDeviceSynchronize": _succeed,
        "cudaStreamSynchronize": _succeed,
    }
    for name, types in _SIGNATURES.items():
        yield name, ctypes.CFUNCTYPE(ctypes.c_int, *types)(calls[name] if name in calls else led(name))


def _succeed(*_: object, **__: object) -> int:
    return 0


@dataclass(frozen=True, slots=True)
class _Place:
    """Slot in which a library keeps the address of a function that it calls."""

    name: str
    address: int

    def swap(self, function: int) -> int:
        """Write another function's address, and return the one that was there."""
        page = self.address & ~(mmap.PAGESIZE - 1)
        libc = ctypes.CDLL(None)
        libc.mprotect(Handle(page), ctypes.c_size_t(2 * mmap.PAGESIZE), _READ_WRITE)
        slot = ctypes.c_uint64.from_address(self.address)
        before, slot.value = slot.value, function
        return before


def _places(path: str) -> Iterator[_Place]:
    """Yield the slots in which a loaded library keeps the addresses of the functions to redirect."""
    begin = _loaded_at(path)
    kinds = _SLOTS.get(platform.machine())
    try:
        image = Path(path).read_bytes()
    except OSError:
        return
    if begin is None or kinds is None or image[:5] != b"\x7fELF\x02":
        return
    offset, size, count = struct.unpack_from("<Q", image, 0x28)[0], *struct.unpack_from("<HH", image, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, offset + i * size) for i in range(count)]
    symbols = next((s for s in sections if s[1] == _SYMBOLS), None)
    if symbols is None:
        return
    names = sections[symbols[6]][4]
    for section in sections:
        if section[1] != _RELOCATIONS:
            continue
        for position in range(section[4], section[4] + section[5], 24):
            where, info, _ = struct.unpack_from("<QQq", image, position)
            if info & 0xFFFFFFFF not in kinds:
                continue
            start = names + struct.unpack_from("<I", image, symbols[4] + 24 * (info >> 32))[0]
            name = image[start : image.index(b"\0", start)].decode(errors="replace")
            if name in _SIGNATURES:
                yield _Place(name, begin + where)


def _loaded_at(path: str) -> int | None:
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith(path):
            fields = line.split()
            if int(fields[2], 16) == 0:
                return int(fields[0].partition("-")[0], 16)
    return None
