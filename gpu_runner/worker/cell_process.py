"""The inside of a cell: confine oneself, then serve the judge's commands."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import torch

from forewarp.gpu_runner.worker import cores, environment, protections
from forewarp.gpu_runner.worker.mailbox import Mailbox
from forewarp.gpu_runner.worker.protections import Confinement
from forewarp.gpu_runner.worker.runners import LAST, ModuleRunner, Runner
from forewarp.gpu_runner.worker.tracebacks import told

NULL, WORKLOAD, RUN, DELIVER, REPORT, WAKE, REST, READY, CAPTURE, BURST = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
WITH_MESSAGE = (WORKLOAD, READY)
"""Commands whose messages come over the socket, also where the commands themselves do not."""
OK, FAILED = 1, 2
HEADER = struct.Struct("<QBBI")
"""Sequence number, command, slot or workload (of `DELIVER`: offset and slot), bytes that follow."""
ANSWER = struct.Struct("<QB")
SIZE = struct.Struct("<I")
SEED = struct.Struct("<Q")

SPIN_S = 0.02
"""For how long a spinning cell waits for the next command before it lets go of its core."""
_LOOKS = 2000
_NAP_MS = 50

Loader = Callable[[int, bytes], Runner]
"""Given a workload's index and the judge's message, build the runner for it. Called in the cell."""


@dataclass(frozen=True, slots=True)
class Inside:
    """What a cell is born with: descriptors, its folder, and how it is to be confined (None: not at all).

    `output` replaces standard output and error; -1 leaves them. `cores` are those to run on, none for any.
    """

    channel: socket.socket
    telling: int
    mailbox: int
    bell: int
    output: int
    folder: str
    spins: bool
    cores: frozenset[int]
    loader: Loader
    confinement: Confinement | None


def live(born: Inside) -> None:
    """Serve commands in the forked cell; never returns."""
    with contextlib.suppress(OSError):
        os.setsid()
    try:
        in_force: list[str] = []
        if born.cores:
            os.sched_setaffinity(0, born.cores)
        box = Mailbox(born.mailbox)
        if born.output >= 0:
            os.dup2(born.output, 1)
            os.dup2(born.output, 2)
            os.close(born.output)
            sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False, errors="replace")
        if born.confinement is not None:
            folder = born.folder
            os.chdir(folder)
            environment.use_folder(folder)
            in_force = protections.take(born.confinement)  # which the judge may find too little
        else:
            protections.die_with_parent()
        os.write(born.telling, "\n".join(in_force).encode())
        os.close(born.telling)
        serve(born.channel, _Spinning(born.channel, box, born.bell) if born.spins else _Blocking(born.channel), born)
    finally:
        os._exit(0)


class Command(NamedTuple):
    """A command as the cell sees it; `word` is what its answer must refer to."""

    word: int
    kind: int
    slot: int
    message: bytes


class _Blocking:
    """Commands and answers over the socket: nobody spins, so that a candidate has all cores."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def receive(self) -> Command | None:
        header = self._channel.recv(HEADER.size, socket.MSG_WAITALL)
        return _command(self._channel, header) if len(header) == HEADER.size else None

    def answer(self, command: Command, status: int) -> None:
        self._channel.sendall(ANSWER.pack(command.word, status))

    def rest(self) -> None:
        """Do nothing: it sleeps while it waits."""

    def fail(self, command: Command, text: bytes) -> None:
        self._channel.sendall(ANSWER.pack(command.word, FAILED) + SIZE.pack(len(text)) + text)


class _Spinning:
    """Commands and answers through the mailbox; messages and errors over the socket."""

    def __init__(self, channel: socket.socket, box: Mailbox, bell: int) -> None:
        self._channel, self._box, self._bell = channel, box, bell
        self._last = 0
        self._patience = SPIN_S

    def receive(self) -> Command | None:
        word = self._wait()
        self._last = word
        kind, slot = word >> 8 & 0xFF, word & 0xFF
        if kind not in WITH_MESSAGE:
            return Command(word, kind, slot, b"")
        header = self._channel.recv(HEADER.size, socket.MSG_WAITALL)
        return _command(self._channel, header)._replace(word=word) if len(header) == HEADER.size else None

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

    def rest(self) -> None:
        """Let go of the core until the next command."""
        self._patience = 0.0

    def answer(self, command: Command, status: int) -> None:
        self._box.answer(command.word, status)

    def fail(self, command: Command, text: bytes) -> None:
        self._channel.sendall(SIZE.pack(len(text)) + text)
        self._box.answer(command.word, FAILED)


def _command(channel: socket.socket, header: bytes) -> Command:
    sequence, kind, slot, size = HEADER.unpack(header)
    return Command(sequence, kind, slot, channel.recv(size, socket.MSG_WAITALL) if size else b"")


def serve(channel: socket.socket, line: _Blocking | _Spinning, born: Inside) -> None:
    """Do what the judge asks for until it goes away."""
    runner: Runner | None = None
    report = Mailbox(born.mailbox).report
    spread = wake = cores.spreading()
    while (command := line.receive()) is not None:
        try:
            if command.kind == WORKLOAD:
                runner = born.loader(command.slot, command.message)
                wake = _waker() or spread
            elif command.kind == WAKE:
                wake()
            elif command.kind == REST:
                line.rest()
            elif command.kind == READY:
                if isinstance(runner, ModuleRunner):
                    runner.ready(SEED.unpack(command.message)[0] if command.message else None)
            elif runner is None or command.kind == NULL:
                if isinstance(runner, ModuleRunner):
                    runner.null()
            elif command.kind == RUN:
                runner.run(command.slot)
            elif command.kind == DELIVER:
                offset, slot = divmod(command.slot, LAST + 1)
                if isinstance(runner, ModuleRunner):
                    runner.offset = offset
                runner.deliver(slot)
            elif not isinstance(runner, ModuleRunner):
                pass
            elif command.kind == CAPTURE:
                runner.capture()
            elif command.kind == BURST:
                runner.burst(calls=bool(command.slot))
            else:
                report(runner.seconds())
        except BaseException as e:  # whatever the candidate raises, SystemExit included, is its result
            line.fail(command, _report(e).encode())
            continue
        line.answer(command, OK)


def _waker() -> Callable[[], None] | None:
    """Return a function that has the GPU do a little for this process; None where it uses none.

    The first work of a process after another's costs tens of microseconds: its context has to be switched in.
    """
    if not torch.cuda.is_initialized():
        return None
    scratch, synchronize = torch.zeros(1, device="cuda"), torch.cuda.synchronize

    def wake() -> None:
        scratch.zero_()
        synchronize()

    return wake


def _report(error: BaseException) -> str:
    return told(error, 6)[-8000:]
