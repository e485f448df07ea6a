"""Landlock: which files a process and all that it starts may write to and read, and whom it may reach."""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct
from collections.abc import Sequence

from forewarp.gpu_runner.worker.privileges import libc

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
# All rights but executing, reading files and reading folders.
_WRITES_BY_ABI = {1: 0x1FF2, 2: 0x3FF2, 3: 0x7FF2, 4: 0x7FF2, 5: 0xFFF2}
_READS = 0x000D
_MOVES = 0x2000
"""Moving a file to another folder: what says nothing of it refuses it."""
_OF_FILES = 0xC007
"""Rights that a rule on a file may name: execute, write, read, truncate, device control."""
_TCP = 3
"""Bind and connect."""
_SOCKETS, _SIGNALS = 1, 2
"""Abstract sockets, and signals, that reach outside."""
SIGNALS_SINCE = 6
"""The version that knows signals."""


def restrict(writable: Sequence[str], readable: Sequence[str] | None = None, *, signals: bool = False) -> None:
    """Leave writable, and also readable, only `writable`; where `readable` is given, readable only that beside it.

    Also refuses TCP, abstract sockets and, unless `signals`, signals that reach outside, where the kernel knows how.
    Raises OSError.
    """
    abi = version()
    writes = _WRITES_BY_ABI[min(abi, 5)]
    reads = _READS if readable is not None else 0
    ruleset = _create(abi, writes | reads, _TCP, _SOCKETS if signals else _SOCKETS | _SIGNALS)
    try:
        for path in writable:
            _allow(ruleset, path, writes | reads)
        for path in readable or ():
            with contextlib.suppress(OSError):  # it is gone, or was never this user's to read
                _allow(ruleset, path, reads)
        _enter(ruleset)
    finally:
        os.close(ruleset)


def keep_signals_inside() -> None:
    """Refuse signals to processes that are not started from here on; raises OSError where the kernel cannot."""
    abi = version()
    if abi < SIGNALS_SINCE:
        raise OSError("this kernel's Landlock does not know signals")
    ruleset = _create(abi, _MOVES, 0, _SIGNALS)
    try:
        _allow(ruleset, "/", _MOVES)
        _enter(ruleset)
    finally:
        os.close(ruleset)


def version() -> int:
    """Return the version of this kernel's Landlock; raises OSError where there is none."""
    abi: int = libc.syscall(_CREATE, None, 0, 1)
    if abi < 1:
        raise OSError(ctypes.get_errno(), "landlock")
    return abi


def _create(abi: int, files: int, network: int, scopes: int) -> int:
    attributes = struct.pack("<QQQ", files, network, scopes)[: 8 if abi < 4 else 16 if abi < 6 else 24]
    ruleset: int = libc.syscall(_CREATE, attributes, len(attributes), 0)
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "landlock ruleset")
    return ruleset


def _allow(ruleset: int, path: str, rights: int) -> None:
    handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        allowed = rights if stat.S_ISDIR(os.fstat(handle).st_mode) else rights & _OF_FILES
        rule = struct.pack("<Qi", allowed, handle)
        if allowed and libc.syscall(_ADD_RULE, ruleset, 1, rule, 0) < 0:
            raise OSError(ctypes.get_errno(), "landlock rule")
    finally:
        os.close(handle)


def _enter(ruleset: int) -> None:
    if libc.syscall(_RESTRICT, ruleset, 0) < 0:
        raise OSError(ctypes.get_errno(), "landlock restrict")
