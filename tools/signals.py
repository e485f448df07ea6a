"""Ctrl-C, SIGTERM and a closed terminal: they end work with what there is, and a closed one is not written to."""

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
def ends_as_interrupts() -> Generator[None]:
    """Raise `KeyboardInterrupt` on SIGHUP and SIGTERM, unless they are ignored, as SIGHUP is under `nohup`."""
    before = {}
    # Handlers can only be set in the main thread; elsewhere the caller has its own way to stop.
    with suppress(ValueError):
        for number in (signal.SIGHUP, signal.SIGTERM):
            if signal.getsignal(number) == signal.SIG_DFL:
                before[number] = signal.signal(number, _interrupt)
        _terminals[:] = [n for n in (1, 2) if signal.SIGHUP in before and _is_terminal(n)]
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_at_once(*numbers: signal.Signals) -> None:
    """Let signals end this process, where an interrupt would wait for a thread that reads; ignored ones stay so."""
    for number in numbers:
        with suppress(ValueError):  # as above
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)


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
    if number == signal.SIGHUP:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the shell and the kernel may both send one
        leave_terminal()
    else:
        signal.signal(number, signal.SIG_DFL)  # a second one ends it at once
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
