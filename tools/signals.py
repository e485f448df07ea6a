"""Ctrl-C and a closed terminal: both end work with what there is so far; to a closed terminal nothing is written."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Protocol

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


class Stoppable(Protocol):
    """Work that can be asked to end with the best so far."""

    def stop(self) -> None: ...


class StopFlag:
    """Remembers that Ctrl-C was pressed once."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def stop(self) -> None:
        self.asked.set()


@contextmanager
def stopping(
    job: Stoppable,
    say: Callable[[str], object],
    numbers: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP),
) -> Generator[None]:
    """Let the first Ctrl-C end the run after the measurement in progress, the second one at once.

    `say` tells the user so. `numbers` are the signals that count as one: a closed terminal too, except under `nohup`.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGHUP:
            leave_terminal()
        job.stop()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with suppress(OSError):  # nothing that stderr leads to may keep the run from ending
            say("\nstopping with the best so far; press Ctrl-C again to stop at once")

    before = {}
    # Handlers can only be set in the main thread; elsewhere the caller has its own way to stop.
    with suppress(ValueError):
        heeded = [n for n in numbers if n != signal.SIGHUP or heeds_hangup()]
        before = {number: signal.signal(number, stop) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
