"""The inside of a cell: confine oneself, then serve the judge's commands."""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import socket
import struct
import sys
from collections.abc import Callable, Collection
from time import perf_counter
from typing import NamedTuple

import torch

from forewarp.gpu_runner.worker import environment, protections
from forewarp.gpu_runner.worker.cores import spreading
from forewarp.gpu_runner.worker.protections import Confinement
from forewarp.gpu_runner.worker.runners import LAST, ModuleRunner, Runner
from forewarp.gpu_runner.worker.tracebacks import format_error

NULL, LOAD, RUN, DELIVER, WAKE, REST, READY, CAPTURE, BURST = range(1, 10)
"""Commands.

Do nothing (a bare round trip); build the runner of a workload; run a slot; put a result where the judge looks; have the
device do a little, so that it is on this cell's side, or, without one, give each thread a processor; let go of the core
until the next command; make a module ready for a call; capture a call of each slot as a CUDA graph; run every slot once
(slot 1) or nothing (slot 0), each behind a flush of the L2 cache, and wait.
"""
WITH_MESSAGE = (LOAD, READY)
"""Commands whose messages come over the socket, also where the commands themselves do not."""
OK, FAILED = 1, 2
HEADER = struct.Struct("<QBBI")
"""Sequence number, command, slot or workload (of `DELIVER`: offset and slot), bytes that follow."""
ANSWER = struct.Struct("<QB")
SIZE = struct.Struct("<I")
SEED = struct.Struct("<Q")
PAGE = 4096
_GO, _DONE, _ASLEEP = 0, 8, 16
"""Words of eight bytes, each on a cache line of its own."""

SPIN_S = 0.02
"""For how long a spinning cell waits for the next command before it lets go of its core."""
_LOOKS = 2000
_NAP_MS = 50

Loader = Callable[[int, bytes], Runner]
"""Given a workload's index and the judge's message, build the runner for it. Called in the cell."""


class Mailbox:
    """One page of memory that judge and cell share: for commands that must not wait for the kernel to wake somebody.

    Each side maps it after the fork, writes words of its own, as a whole, and reads the other's. The judge believes
    nothing in it but that its command was answered.
    """

    def __init__(self, descriptor: int) -> None:
        self._page = mmap.mmap(descriptor, PAGE)
        self._words = memoryview(self._page).cast("Q")

    def post(self, sequence: int, command: int, slot: int) -> None:
        self._words[_GO] = sequence << 16 | command << 8 | slot

    def asleep(self) -> bool:
        """Judge: say whether the cell may have stopped spinning, and must be woken."""
        return self._words[_ASLEEP] != 0

    def answered(self, sequence: int, looks: int) -> int:
        """Judge: look for the answer up to `looks` times; return its status, or 0."""
        words, wanted = self._words, sequence & 0xFFFFFFFF
        for _ in range(looks):
            word = words[_DONE]
            if word >> 8 == wanted:
                return word & 0xFF
        return 0

    def posted(self, last: int, looks: int) -> int:
        """Cell: look for a word other than `last` up to `looks` times; return what is there in the end."""
        words = self._words
        for _ in range(looks):
            if words[_GO] != last:
                break
        return words[_GO]

    def sleep(self, asleep: bool) -> None:
        """Cell: say that it has stopped spinning, or has begun again."""
        self._words[_ASLEEP] = int(asleep)

    def answer(self, word: int, status: int) -> None:
        self._words[_DONE] = (word >> 16 & 0xFFFFFFFF) << 8 | status

    def close(self) -> None:
        self._words.release()
        self._page.close()


def live(
    make_line: Callable[[], Blocking],
    loader: Loader,
    how: Confinement,
    cores: Collection[int],
    *,
    output: int,
    telling: int,
) -> None:
    """Confine the forked cell, with `output` as its own, tell of it, and serve commands; never returns."""
    with contextlib.suppress(OSError):
        os.setsid()
    try:
        if cores:
            os.sched_setaffinity(0, cores)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False, errors="replace")
        line = make_line()
        os.chdir(how.folder)
        environment.use_folder(how.folder)
        in_force = protections.take(how)  # which the judge may find too little
        environment.begin_script()
        os.write(telling, "\n".join(in_force).encode())
        os.close(telling)
        _serve(line, loader)
    finally:
        os._exit(0)


class _Command(NamedTuple):
    """A command as the cell sees it; `word` is what its answer must refer to."""

    word: int
    kind: int
    slot: int
    message: bytes


class Blocking:
    """Commands and answers over the socket: nobody spins, so that a candidate has all cores."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def receive(self) -> _Command | None:
        header = self._channel.recv(HEADER.size, socket.MSG_WAITALL)
        if len(header) < HEADER.size:
            return None
        sequence, kind, slot, size = HEADER.unpack(header)
        return _Command(sequence, kind, slot, self._channel.recv(size, socket.MSG_WAITALL) if size else b"")

    def answer(self, command: _Command, status: int, error: bytes = b"") -> None:
        self._channel.sendall(ANSWER.pack(command.word, status) + (SIZE.pack(len(error)) + error if error else b""))

    def rest(self) -> None:
        """Do nothing: it sleeps while it waits."""


class Spinning(Blocking):
    """Commands and answers through the mailbox; messages and errors over the socket."""

    def __init__(self, channel: socket.socket, page: int, bell: int) -> None:
        super().__init__(channel)
        self._box, self._bell = Mailbox(page), bell
        self._last = 0
        self._patience = SPIN_S

    def receive(self) -> _Command | None:
        """Return the next command; None once the judge has gone away while a message was to come."""
        word = self._last = self._wait()
        kind, slot = word >> 8 & 0xFF, word & 0xFF
        if kind not in WITH_MESSAGE:
            return _Command(word, kind, slot, b"")
        command = super().receive()
        return command and command._replace(word=word)

    def _wait(self) -> int:
        box, last = self._box, self._last
        deadline = perf_counter() + self._patience
        self._patience = SPIN_S
        while (word := box.posted(last, _LOOKS)) == last:
            if perf_counter() < deadline:
                continue
            box.sleep(True)
            # The judge posts before it looks whether to ring; should both have looked too early, the nap ends anyway.
            if box.posted(last, 1) == last and select.select([self._bell], [], [], _NAP_MS / 1e3)[0]:
                os.read(self._bell, 8)
                deadline = perf_counter() + SPIN_S
                box.sleep(False)
        box.sleep(False)
        return word

    def answer(self, command: _Command, status: int, error: bytes = b"") -> None:
        """Answer a command, once the text of an error is on its way."""
        if error:
            self._channel.sendall(SIZE.pack(len(error)) + error)
        self._box.answer(command.word, status)

    def rest(self) -> None:
        """Let go of the core until the next command."""
        self._patience = 0.0


def _serve(line: Blocking, loader: Loader) -> None:
    runner: Runner | None = None
    module: ModuleRunner | None = None
    spread = wake = spreading()
    while (command := line.receive()) is not None:
        kind, slot = command.kind, command.slot
        try:
            if kind == LOAD:
                runner = loader(slot, command.message)
                module = runner if isinstance(runner, ModuleRunner) else None
                wake = _waker() or spread
            elif kind == WAKE:
                wake()
            elif kind == REST:
                line.rest()
            elif runner is None:
                pass
            elif kind == RUN:
                runner.run(slot)
            elif kind == NULL or module is None:  # native code writes to the judge's buffers itself, and has no state
                runner.wait()
            elif kind == READY:
                module.ready(SEED.unpack(command.message)[0] if command.message else None)
            elif kind == DELIVER:
                module.offset, slot = divmod(slot, LAST + 1)
                module.deliver(slot)
            elif kind == CAPTURE:
                module.capture()
            else:
                module.burst(calls=bool(slot))
        except BaseException as e:  # whatever the candidate raises, SystemExit included, is its result
            line.answer(command, FAILED, format_error(e, 6)[-8000:].encode())
            continue
        line.answer(command, OK)


def _waker() -> Callable[[], None] | None:
    """Return a function that has the GPU switch to this process's context, before its call; None where it uses none."""
    if not torch.cuda.is_initialized():
        return None
    scratch, synchronize = torch.zeros(1, device="cuda"), torch.cuda.synchronize

    def wake() -> None:
        scratch.zero_()
        synchronize()

    return wake
