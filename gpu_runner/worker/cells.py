"""Cells: processes in which untrusted code (or the anchor beside it, for symmetry) runs on the judge's command.

A cell shares only its own arena and a page for commands with the judge. Expected values, seeds, clock and statistics
stay with the judge. On the CPU device both sides wait in the kernel, so that a candidate has all cores; on CUDA they
spin on the page, so that the round trip, which both arms pay, takes a microsecond or two.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import struct
import tempfile
import time
from collections.abc import Collection
from dataclasses import dataclass, replace

from forewarp.gpu_runner.worker import activity, arena, watch
from forewarp.gpu_runner.worker.candidate_output import CandidateOutput
from forewarp.gpu_runner.worker.cell_process import (
    ANSWER,
    BURST,
    CAPTURE,
    DELIVER,
    FAILED,
    HEADER,
    NULL,
    OK,
    READY,
    REPORT,
    REST,
    RUN,
    SEED,
    SIZE,
    WAKE,
    WITH_MESSAGE,
    WORKLOAD,
    Inside,
    Loader,
    live,
)
from forewarp.gpu_runner.worker.mailbox import PAGE, Mailbox
from forewarp.gpu_runner.worker.protections import OWN_PROCESSES, Confinement, children_in_own_pid_namespace
from forewarp.gpu_runner.worker.runners import LAST
from forewarp.gpu_runner.worker.watch import Watch

LOOK_S = 0.05
"""How often a waiting judge looks whether the cell is alive and within its bounds."""
_LOOKS = 1000
_SPINNERS = 4
"""Cores that must be there for judge and cells to spin."""


class CellFailed(Exception):
    """The code in the cell raised, died, hung or took too much memory; `status` is the measurement's.

    `cell` is the name of the cell where a call of it ended so.
    """

    def __init__(self, status: str, log: str) -> None:
        super().__init__(log)
        self.status, self.log = status, log
        self.cell = ""


@dataclass(frozen=True, slots=True)
class Order:
    """A command to a cell: what to do, on which slot or workload, with what message."""

    kind: int
    slot: int = 0
    message: bytes = b""


NOTHING, FETCH, TELL, STIR, SLEEP = Order(NULL), Order(DELIVER, LAST), Order(REPORT), Order(WAKE), Order(REST)
"""Do nothing (a bare round trip); put the last result where the judge looks; report one's own time for it; have the
device do a little, so that it is on this cell's side, or, without a device, give each thread a processor; let go of the
core until the next command."""
GRAPHS, CALLS, FLUSHES = Order(CAPTURE), Order(BURST, 1), Order(BURST, 0)
"""Capture a call of each slot as a CUDA graph; run every slot once, each behind a flush of the L2 cache, and wait; do
the flushes alone."""


def fetch_order(slot: int = LAST, offset: int = 0) -> Order:
    """Return the command that makes a cell put the result of a slot where the judge looks: at which offset."""
    return Order(DELIVER, offset * (LAST + 1) + slot)


def load_order(workload: int, message: bytes = b"") -> Order:
    """Return the command that makes a cell load a workload."""
    return Order(WORKLOAD, workload, message)


def ready_order(seed: int | None) -> Order:
    """Return the command that makes a module ready for a call: its state put back, torch seeded if there is a seed."""
    return Order(READY, 0, b"" if seed is None else SEED.pack(seed))


def run_order(slot: int) -> Order:
    """Return the command that makes a cell run a slot."""
    return Order(RUN, slot)


def may_spin() -> bool:
    """Return whether there are cores to spare for waiting without sleep."""
    return len(os.sched_getaffinity(0)) >= _SPINNERS


class Cell:
    """The judge's handle on one cell."""

    def __init__(
        self,
        loader: Loader,
        *,
        name: str = "candidate",
        memory: int,
        confinement: Confinement | None = None,
        own_processes: bool = False,
        spins: bool = False,
        cores: frozenset[int] = frozenset(),
        runs_reference: bool = False,
        keep: Collection[int] = (),
        siblings: Collection[int] = (),
    ) -> None:
        """Fork the cell.

        `confinement` says how it is confined, its folder and descriptors apart; None for trusted code. `own_processes`
        asks for a process namespace. `keep` are descriptors that it needs; `siblings` this process's other children.
        `cores` are those to run on, none for any. What its calls take counts as the reference's with `runs_reference`.
        `memory` bounds the resident bytes of the cell and all it starts.
        """
        self.name, self.spins, self._runs_reference = name, spins, runs_reference
        ours, theirs = socket.socketpair()
        told, telling = os.pipe()
        page, bell = arena.memfd("mailbox", PAGE), os.eventfd(0)
        self.output = CandidateOutput() if confinement is not None else None
        self.folder = tempfile.mkdtemp(prefix="cell-")
        with children_in_own_pid_namespace(wanted=own_processes) as self.contained:
            self.pid = os.fork()
            if self.pid == 0:
                activity.end()
                ours.close()
                os.close(told)
                if confinement is not None:
                    confinement = replace(
                        confinement,
                        folder=self.folder,
                        keep={theirs.fileno(), telling, page, bell, *keep},
                        own_processes=self.contained,
                    )
                output = self.output.theirs if self.output else -1
                live(Inside(theirs, telling, page, bell, output, self.folder, spins, cores, loader, confinement))
        theirs.close()
        os.close(telling)
        if self.output is not None:
            self.output.forked()
        self.socket, self._page, self._bell = ours, page, bell
        self._box: Mailbox | None = None
        self._sequence = 0
        self._status: int | None = None
        self._closed = False
        self._pidfd = os.pidfd_open(self.pid)
        self.watch = Watch(self.pid, memory, siblings)
        self._members = [self.pid]
        with os.fdopen(told) as told_file:
            self.protections = [p for p in told_file.read().split("\n") if p]
        if self.contained:
            self.protections.append(OWN_PROCESSES)
        self._poll = select.poll()
        for descriptor in (ours.fileno(), self._pidfd, *([self.output.descriptor] if self.output else [])):
            self._poll.register(descriptor, select.POLLIN)

    def box(self) -> Mailbox:
        """Return the judge's mapping of the page, made at first use: a cell forked meanwhile must not inherit it."""
        if self._box is None:
            self._box = Mailbox(self._page)
        return self._box

    def call(self, order: Order, timeout: float) -> float:
        """Send a command and return the seconds until its answer, by this process's clock.

        Raises `CellFailed`.
        """
        noted = activity.running_reference() if self._runs_reference else contextlib.nullcontext()
        try:
            with noted:
                return self._call(order, timeout)
        except CellFailed as e:
            e.cell = self.name
            raise

    def _call(self, order: Order, timeout: float) -> float:
        box = self.box()
        self._refuse_uncalled()
        self._sequence += 1
        header = HEADER.pack(self._sequence, order.kind, order.slot, len(order.message))
        try:
            start = time.perf_counter()
            if self.spins:
                if order.kind in WITH_MESSAGE:
                    self.socket.sendall(header + order.message)
                box.post(self._sequence, order.kind, order.slot)
                if box.asleep():
                    os.eventfd_write(self._bell, 1)
                answer = self._spin(box, start + timeout)
            else:
                self.socket.sendall(header + order.message)
                answer = self._wait(start + timeout)
            elapsed = time.perf_counter() - start
        except OSError:
            raise self._death() from None
        if answer == OK:
            return elapsed
        if answer == FAILED:
            raise self._error()
        raise self._meddled()

    def reported(self, timeout: float) -> float | None:
        """Return the seconds that the cell says its last run took on the device: hearsay."""
        self.call(TELL, timeout)
        return self.box().reported()

    def _spin(self, box: Mailbox, deadline: float) -> int:
        next_look = time.perf_counter() + LOOK_S
        while True:
            status = box.answered(self._sequence, _LOOKS)
            if status:
                return status
            if self.output is not None:
                self.output.drain()
            now = time.perf_counter()
            if now > next_look:
                next_look = now + LOOK_S
                if select.select([self._pidfd], [], [], 0)[0] and not box.answered(self._sequence, 1):
                    raise self._death()
                self._look(now, deadline)

    def _wait(self, deadline: float) -> int:
        mine = self.socket.fileno()
        next_look = time.perf_counter() + LOOK_S
        while True:
            ready = {descriptor for descriptor, _ in self._poll.poll(LOOK_S * 1e3)}
            if mine in ready:
                return self._take_answer()
            if self._pidfd in ready:
                raise self._death()
            if self.output is not None and self.output.descriptor in ready and not self.output.drain():
                self._poll.unregister(self.output.descriptor)
            now = time.perf_counter()
            if now > next_look:
                next_look = now + LOOK_S
                self._look(now, deadline)

    def _take_answer(self) -> int:
        answer = self.socket.recv(ANSWER.size)
        if not answer:
            raise self._death()
        if len(answer) != ANSWER.size:
            raise self._meddled()
        sequence, status = ANSWER.unpack(answer)
        if sequence != self._sequence:
            raise self._meddled()
        return status

    def _look(self, now: float, deadline: float) -> None:
        """Raise `CellFailed`, having killed the cell, if its time is up or it has gone too far."""
        complaint = self.watch.complaint()
        if complaint is not None:
            self.kill()
            status, log = complaint
            raise CellFailed(status, f"the {self.name} {log}")
        if now > deadline:
            self.kill()
            raise CellFailed("timeout", f"the {self.name} did not finish in time and was killed")

    def _refuse_uncalled(self) -> None:
        if self._poll.poll(0) and select.select([self.socket], [], [], 0)[0]:
            raise self._death() if not self.socket.recv(1) else self._meddled()

    def _meddled(self) -> CellFailed:
        self.kill()
        return CellFailed("crashed", f"the {self.name} wrote to the channel between its cell and the judge")

    def _error(self) -> CellFailed:
        self.socket.settimeout(5.0)
        with contextlib.suppress(OSError, struct.error):
            (size,) = SIZE.unpack(self.socket.recv(SIZE.size, socket.MSG_WAITALL))
            text = self.socket.recv(min(size, 1 << 16), socket.MSG_WAITALL).decode(errors="replace")
            memory = "MemoryError" in text or "OutOfMemoryError" in text or "can't allocate memory" in text
            return CellFailed("out_of_memory" if memory else "runtime_error", text)
        return self._death()

    def _death(self) -> CellFailed:
        status = self.wait()
        if status is None:
            return CellFailed("crashed", f"the {self.name} closed its channel")
        if status < 0:
            name = signal.Signals(-status).name
            hint = " (out of processor time)" if name == "SIGXCPU" else ""
            return CellFailed("timeout" if hint else "crashed", f"the {self.name} was ended by {name}{hint}")
        return CellFailed("crashed", f"the {self.name} left with exit status {status} before it had finished")

    def settle(self) -> None:
        """Take note of the processes that the cell consists of by now, for `pause` and `processor_s`."""
        self._members = [p.pid for p in self.watch.family()]

    def pause(self) -> None:
        """Stop the cell, so that it takes nothing from whoever runs meanwhile, and leaves its results as they are."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let the cell go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)  # those that it has started since
        for pid in self._members:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def processor_s(self) -> float:
        """Return the processor time that the cell's processes have used."""
        return sum(watch.processor_s(pid) for pid in self._members)

    def wait(self) -> int | None:
        """Return the exit status, killing the cell if it is still there after a moment."""
        for _ in range(20):
            if self._reap():
                return self._status
            time.sleep(0.01)
        self.kill()
        return None

    def _reap(self) -> bool:
        if self._status is None:
            with contextlib.suppress(ChildProcessError):
                pid, code = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self._status = os.waitstatus_to_exitcode(code)
        return self._status is not None

    def kill(self) -> None:
        """End the cell and what it started."""
        if self._status is not None:
            return
        # With the first process of a namespace all others go; elsewhere they must be found.
        members = [] if self.contained else [p.pid for p in self.watch.family()]
        for pid in (self.pid, *members):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """End the cell and remove its folder; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self.kill()
        deadline = time.monotonic() + 5.0  # a process that waits for a broken device may not die
        while not self._reap() and time.monotonic() < deadline:
            select.select([self._pidfd], [], [], 0.1)
        if self._box is not None:
            self._box.close()
        self.socket.close()
        for descriptor in (self._page, self._bell, self._pidfd):
            os.close(descriptor)
        if self.output is not None:
            self.output.close()
        shutil.rmtree(self.folder, ignore_errors=True)
