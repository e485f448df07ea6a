"""Cells: processes in which untrusted code (or the anchor beside it, for symmetry) runs on the judge's command.

A cell shares only its own arena and a page for commands with the judge. Expected values, seeds, clock and statistics
stay with the judge. On the CPU device both sides wait in the kernel, so that a candidate has all cores; on CUDA they
spin on the page, so that the round trip, which both arms pay, takes a microsecond or two.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import shutil
import signal
import socket
import struct
import tempfile
import time
from collections.abc import Collection
from dataclasses import replace
from functools import partial

from forewarp.core.errors import tells_of_memory
from forewarp.gpu_runner.worker import activity, arena, watch
from forewarp.gpu_runner.worker import cell_process as inside
from forewarp.gpu_runner.worker.cell_process import Loader, Mailbox
from forewarp.gpu_runner.worker.linux import children_in_own_pid_namespace, end_of
from forewarp.gpu_runner.worker.protections import OWN_PROCESSES, Confinement
from forewarp.gpu_runner.worker.runners import LAST
from forewarp.gpu_runner.worker.tracebacks import ended
from forewarp.gpu_runner.worker.watch import Watch

LOOK_S = 0.05
"""How often a waiting judge looks whether the cell is alive and within its bounds."""
_LOOKS = 1000
_SPINNERS = 4
"""Cores that must be there for judge and cells to spin."""
KEPT_BYTES = 64 << 10
"""Of what a candidate prints, kept of the beginning, and of the end."""
_PIPE_BYTES, _PIPES_AT_ONCE = 1 << 20, 16


class CellFailed(Exception):
    """The code in the cell called `cell` raised, died, hung or took too much memory; `status` is the measurement's."""

    def __init__(self, status: str, log: str) -> None:
        super().__init__(log)
        self.status, self.log = status, log
        self.cell = ""


def may_spin() -> bool:
    return len(os.sched_getaffinity(0)) >= _SPINNERS


class _Output:
    """The reading end of a candidate's output: beginning and end go to this process's own standard error."""

    def __init__(self) -> None:
        self.descriptor, self.theirs = os.pipe()
        with contextlib.suppress(OSError):
            fcntl.fcntl(self.descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        os.set_blocking(self.descriptor, False)
        self._written = self._dropped = 0
        self._tail = bytearray()

    def drain(self) -> bool:
        """Take what is there, up to 16 MiB; return whether more may come."""
        for _ in range(_PIPES_AT_ONCE):
            try:
                data = os.read(self.descriptor, _PIPE_BYTES)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not data:
                return False
            head = data[: max(0, KEPT_BYTES - self._written)]
            self._written += len(head)
            self._dropped += len(data) - len(head)
            self._tail = (self._tail + data[len(head) :])[-KEPT_BYTES:]
            with contextlib.suppress(OSError):
                os.write(2, head)
        return True

    def close(self) -> None:
        self.drain()
        os.close(self.descriptor)
        left_out = self._dropped - len(self._tail)
        words = f"\n… {left_out} bytes of output left out …\n".encode() if left_out else b""
        with contextlib.suppress(OSError):
            os.write(2, words + bytes(self._tail))


class Cell:
    """The judge's handle on one cell."""

    def __init__(
        self,
        loader: Loader,
        confinement: Confinement,
        *,
        name: str = "candidate",
        memory: int,
        spins: bool = False,
        cores: frozenset[int] = frozenset(),
        runs_reference: bool = False,
        siblings: Collection[int] = (),
    ) -> None:
        """Fork the cell.

        `confinement` gets a folder, a cell's descriptors, and a process namespace if that is asked for and to be had.
        `memory` bounds the resident bytes of the cell and all it starts. `siblings` are this process's other children.
        """
        self.name, self.spins, self._runs_reference = name, spins, runs_reference
        ours, theirs = socket.socketpair()
        told, telling = os.pipe()
        page, bell = arena.memfd("mailbox", inside.PAGE), os.eventfd(0)
        self.output = _Output()
        self.folder = tempfile.mkdtemp(prefix="cell-")
        with children_in_own_pid_namespace(wanted=confinement.own_processes) as self.contained:
            self.pid = os.fork()
            if self.pid == 0:
                activity.end()
                ours.close()
                os.close(told)
                keep = {theirs.fileno(), telling, page, bell, *(confinement.keep or ())}
                how = replace(confinement, folder=self.folder, keep=keep, own_processes=self.contained)
                line = partial(inside.Spinning, theirs, page, bell) if spins else partial(inside.Blocking, theirs)
                inside.live(line, loader, how, cores, output=self.output.theirs, telling=telling)
        theirs.close()
        os.close(telling)
        os.close(self.output.theirs)
        self.socket, self._page, self._bell = ours, page, bell
        self._box: Mailbox | None = None
        self._sequence = 0
        self._status: int | None = None
        self._closed = False
        self._pidfd = end_of(self.pid)
        self.watch = Watch(self.pid, memory, siblings)
        self._members = [self.pid]
        with os.fdopen(told) as told_file:
            self.protections = [p for p in told_file.read().split("\n") if p]
        if self.contained:
            self.protections.append(OWN_PROCESSES)
        self._poll = select.poll()
        for descriptor in (ours.fileno(), self._pidfd, self.output.descriptor):
            self._poll.register(descriptor, select.POLLIN)

    def load(self, workload: int, timeout: float, message: bytes = b"") -> None:
        self.call(inside.LOAD, timeout, workload, message)

    def ready(self, timeout: float, seed: int | None) -> None:
        """Have a module made ready for a call: its state put back, torch seeded if there is a seed."""
        self.call(inside.READY, timeout, message=b"" if seed is None else inside.SEED.pack(seed))

    def deliver(self, timeout: float, slot: int = LAST, offset: int = 0) -> float:
        """Have the result of a slot put where the judge looks, at an offset; return the seconds that it took."""
        return self.call(inside.DELIVER, timeout, offset * (LAST + 1) + slot)

    def call(self, command: int, timeout: float, slot: int = 0, message: bytes = b"") -> float:
        """Send a command of `cell_process`; return the seconds until its answer. Raises `CellFailed`."""
        noted = activity.running_reference() if self._runs_reference else contextlib.nullcontext()
        try:
            with noted:
                return self._call(command, timeout, slot, message)
        except CellFailed as e:
            e.cell = self.name
            raise

    def _call(self, command: int, timeout: float, slot: int, message: bytes) -> float:
        # Mapped at first use: a cell forked meanwhile must not inherit it.
        box = self._box = self._box or Mailbox(self._page)
        self._refuse_uncalled()
        self._sequence += 1
        header = inside.HEADER.pack(self._sequence, command, slot, len(message))
        try:
            start = time.perf_counter()
            if self.spins:
                if command in inside.WITH_MESSAGE:
                    self.socket.sendall(header + message)
                box.post(self._sequence, command, slot)
                if box.asleep():
                    os.eventfd_write(self._bell, 1)
                answer = self._spin(box, start + timeout)
            else:
                self.socket.sendall(header + message)
                answer = self._wait(start + timeout)
            elapsed = time.perf_counter() - start
        except OSError:
            raise self._death() from None
        if answer == inside.OK:
            return elapsed
        raise self._error() if answer == inside.FAILED else self._meddled()

    def _spin(self, box: Mailbox, deadline: float) -> int:
        next_look = time.perf_counter() + LOOK_S
        while True:
            status = box.answered(self._sequence, _LOOKS)
            if status:
                return status
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
            if self.output.descriptor in ready and not self.output.drain():
                self._poll.unregister(self.output.descriptor)
            now = time.perf_counter()
            if now > next_look:
                next_look = now + LOOK_S
                self._look(now, deadline)

    def _take_answer(self) -> int:
        answer = self.socket.recv(inside.ANSWER.size)
        if not answer:
            raise self._death()
        sequence, status = inside.ANSWER.unpack(answer) if len(answer) == inside.ANSWER.size else (None, 0)
        if sequence != self._sequence:
            raise self._meddled()
        return status

    def _look(self, now: float, deadline: float) -> None:
        """Raise `CellFailed`, having killed the cell, if its time is up or it has gone too far."""
        violation = self.watch.violation()
        if violation is not None:
            self.kill()
            status, log = violation
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
            (size,) = inside.SIZE.unpack(self.socket.recv(inside.SIZE.size, socket.MSG_WAITALL))
            text = self.socket.recv(min(size, 1 << 16), socket.MSG_WAITALL).decode(errors="replace")
            return CellFailed("out_of_memory" if tells_of_memory(text) else "runtime_error", text)
        return self._death()

    def _death(self) -> CellFailed:
        status = self.wait()
        if status is None:
            return CellFailed("crashed", f"the {self.name} closed its channel")
        if status == -signal.SIGXCPU:
            return CellFailed("timeout", f"the {self.name} {ended(status)} (out of processor time)")
        return CellFailed("crashed", f"the {self.name} {ended(status)} before it had finished")

    def settle(self) -> None:
        """Take note of the processes that the cell consists of by now, for `pause` and `processor_s`."""
        self._members = [p.pid for p in self.watch.family()]

    def pause(self) -> None:
        """Stop the cell, so that it takes nothing from whoever runs meanwhile, and leaves its results as they are."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)  # those that it has started since
        for pid in self._members:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)

    def processor_s(self) -> float:
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
        self.output.close()
        shutil.rmtree(self.folder, ignore_errors=True)
