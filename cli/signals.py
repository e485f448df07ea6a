"""Handling of a closed terminal (SIGHUP): the same as Ctrl-C, and nothing is written to the terminal."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager, suppress
from types import FrameType

_terminals: list[int] = []


@contextmanager
def hangup_as_interrupt() -> Generator[None]:
    """Raise `KeyboardInterrupt` on SIGHUP, unless SIGHUP is ignored, as under `nohup`."""
    before = None
    # Handlers can only be set in the main thread; elsewhere the caller has its own way to stop.
    with suppress(ValueError):
        if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
            _terminals[:] = [n for n in (1, 2) if _is_terminal(n)]
            before = signal.signal(signal.SIGHUP, _interrupt)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGHUP, before)


def heeds_hangup() -> bool:
    """Return whether a SIGHUP is to end the work: false under `nohup`."""
    return signal.getsignal(signal.SIGHUP) != signal.SIG_IGN


def leave_terminal() -> None:
    """Redirect output for the closed terminal to /dev/null, because writing to the terminal fails."""
    if _terminals:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for number in _terminals:
            os.dup2(nowhere, number)
        os.close(nowhere)


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the shell and the kernel may both send one
    leave_terminal()
    raise KeyboardInterrupt


def _is_terminal(number: int) -> bool:
    try:
        return os.isatty(number)
    except OSError:
        return False
