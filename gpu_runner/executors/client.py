"""The controller's end of the fork server: start it, send jobs, keep deadlines, tell how a child ended."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from weakref import WeakSet

from forewarp.core import serde
from forewarp.core.errors import DeviceError, UnprotectedError, WorkerError
from forewarp.core.scratch import Scratch
from forewarp.core.untrusted_text import clip, printable
from forewarp.core.values import Status
from forewarp.gpu_runner import child
from forewarp.gpu_runner.worker import activity, requests
from forewarp.gpu_runner.worker.activity import Activity
from forewarp.gpu_runner.worker.channel import Channel, ChannelClosed, ChannelTimeout, LookAnswer
from forewarp.gpu_runner.worker.environment import allowed
from forewarp.gpu_runner.worker.least import INSIST, LEAST, UNPROTECTED
from forewarp.gpu_runner.worker.requests import LaunchRequest, ObserveRequest, TimingLook, WorkerJob
from forewarp.gpu_runner.worker.tracebacks import ended

T = TypeVar("T")
START_S = 120.0
_LOOK_S = 0.1
"""How often a thread that waits for the server to start looks whether it is still wanted."""
LOG_BYTES = 4000
_WARNING = re.compile(r"^\S+:\d+: \w*Warning: .*\n?(?:  .*\n?)?", re.MULTILINE)
"""A warning of Python's with the line that gave it: torch has many, none of which tells why a process ended."""
OnLook = Callable[[TimingLook | None], LookAnswer]
"""Given a look, say how to go on; given None, when timing may begin."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Outcome of a job: its answer with the file descriptors that came along, or how its process ended.

    Without an answer, `activity` says what it was doing, and `lost` whether the server was gone, which ends all jobs.
    """

    answer: dict[str, Any] | None
    log: str
    seconds: float
    started_s: float
    timed_out: bool = False
    exit_status: int | None = None
    descriptors: tuple[int, ...] = ()
    activity: Activity = field(default_factory=Activity)
    lost: bool = False

    def read(self, kind: type[T]) -> T | None:
        return None if self.answer is None else serde.from_data(kind, self.answer)

    def ending(self, limit_s: float) -> tuple[Status, str]:
        """Return how a child ended that gave no answer within `limit_s` seconds: a status, and what is known of it."""
        log = _WARNING.sub("", self.log)
        if self.timed_out:
            return "timeout", f"stopped after {limit_s:.0f} s\n{log}".strip()
        return "crashed", f"{ended(self.exit_status)}\n{log}".strip()


def readable(text: str, limit: int = LOG_BYTES) -> str:
    """Trim a log to its head and tail, and drop control characters: a candidate's output is data."""
    return clip(printable(text).strip(), limit)


def _unprotected(missing: object) -> UnprotectedError:
    """Return the error of a job that was refused, with those of the protections it names that are known."""
    lacks = ", ".join(name for name in LEAST if isinstance(missing, list) and name in missing)
    return UnprotectedError(
        f"code of tasks and kernels is not run here, because these protections are missing: {lacks}",
        hint="`forewarp doctor` says what to change; to run the code all the same, pass --unprotected, or set "
        f"{INSIST}=1 on the machine that runs it",
    )


def closed_error() -> WorkerError:
    return WorkerError("the executor was closed while it worked", hint="nothing is lost: ask for the same again")


def lost_error(seconds: float) -> WorkerError:
    """Return the error of a job whose server was ended by something else than forewarp, after so many seconds."""
    return WorkerError(
        "the measuring server was killed while it worked, by something else than forewarp; the candidate is not to "
        "blame, and nothing is recorded of it",
        hint="run the command again; if it happens again, look whether this machine runs out of memory (`dmesg`)",
        lost_s=seconds,
    )


def _read_ends(path: Path, start: int) -> str:
    """Read a log from `start` on, at most its first and last few kilobytes: a candidate may print gigabytes."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        size = file.seek(0, os.SEEK_END) - start
        file.seek(start)
        if size <= 2 * LOG_BYTES:
            return file.read().decode(errors="replace")
        head = file.read(LOG_BYTES)
        file.seek(-LOG_BYTES, os.SEEK_END)
        left_out = f"\n… {size - 2 * LOG_BYTES} bytes left out …\n"
        return head.decode(errors="replace") + left_out + file.read().decode(errors="replace")
    return ""


class ChildSession:
    """One forked child, for one thread: `wait` for its answer, or `request` one answer after another."""

    def __init__(self, answers: Channel, status: Channel, log: Path, pid: int) -> None:
        self.pid = pid
        self._answers, self._status, self._log = answers, status, log
        self._read = 0
        self._ready = self._ended = self._reaped = self._lost = False

    def request(
        self,
        request: ObserveRequest | LaunchRequest,
        timeout: float,
        on_look: OnLook | None = None,
        descriptors: Sequence[int] = (),
    ) -> Reply:
        """Send a request and wait for what becomes of it; the child is lost if no answer came (`alive`)."""
        with contextlib.suppress(ChannelClosed):
            self._answers.send(serde.to_data(request), descriptors)
        return self.wait(timeout, on_look)

    def wait_until_ready(self, timeout: float) -> None:
        """Wait until a child that serves can take its first request, or has ended; at once where it was waited for."""
        with contextlib.suppress(ChannelClosed, ChannelTimeout):
            if not self._ready:
                self._answers.receive(timeout)
                self._ready = True

    def wait(self, timeout: float, on_look: OnLook | None = None) -> Reply:
        """Wait for one answer; without one, the child is killed. Raises `UnprotectedError`."""
        start = time.perf_counter()
        answer, timed_out, exit_status, started = None, False, None, 0.0
        try:
            while answer is None:
                document = self._answers.receive(max(0.0, start + timeout - time.perf_counter()))
                if "look" in document:
                    look = document["look"] and serde.from_data(TimingLook, document["look"])
                    self._answers.send({"answer": on_look(look) if on_look is not None else "enough"})
                elif document.get("started"):
                    started = time.perf_counter() - start
                elif document.get("ready"):
                    self._ready = True
                else:
                    answer = document
        except ChannelTimeout:
            timed_out = True
        except (ChannelClosed, ValueError, TypeError, AttributeError, KeyError):
            pass
        last_activity = activity.read(self._log) if answer is None else Activity()
        if answer is None:
            exit_status = self._end()
        elif UNPROTECTED in answer:
            raise _unprotected(answer[UNPROTECTED])
        text = _read_ends(self._log, self._read)
        with contextlib.suppress(OSError):
            self._read = self._log.stat().st_size
        log, seconds = readable(text), time.perf_counter() - start
        descriptors, lost = tuple(self._answers.descriptors()), answer is None and self._lost
        return Reply(answer, log, seconds, started, timed_out, exit_status, descriptors, last_activity, lost)

    @property
    def alive(self) -> bool:
        return not self._ended

    def kill(self) -> None:
        """Kill the child without waiting for its end, as `close` does: to leave a GPU takes a tenth of a second."""
        self._ended = True
        # A child that was forked just now leads no group yet: killed as one of its own, it has nobody with it.
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(self.pid, signal.SIGKILL)

    def _end(self) -> int | None:
        """Kill what is left of the child and return its exit status, if the server could tell."""
        self.kill()
        self._reaped = True
        try:
            return self._status.receive(10.0)["exit"]
        except ChannelClosed:
            self._lost = True
        except ChannelTimeout:  # a process that waits for a broken device may not end
            pass
        return None

    def close(self) -> None:
        if not self._reaped:
            self._end()
        self._answers.close()
        self._status.close()
        self._log.unlink(missing_ok=True)
        activity.path_of(self._log).unlink(missing_ok=True)


class ServerProcess:
    """A fork server and the folder of its jobs, started when needed; safe to use from several threads."""

    _running: ClassVar[dict[str, ServerProcess]] = {}
    """Servers that clients share, by the process that has them and how they are started."""
    _registry = threading.Lock()

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command, self._environment = command, environment
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._scratch: Scratch | None = None
        self._jobs = self._clients = 0

    @classmethod
    def shared(cls, command: Sequence[str], environment: Mapping[str, str]) -> ServerProcess:
        """Return the server that is started so, for one more client, which is to `release` it."""
        # A process that was forked has its parent's servers here, and none of its own.
        key = json.dumps([os.getpid(), command, environment], sort_keys=True)
        with cls._registry:
            server = cls._running.setdefault(key, cls(command, environment))
            server._clients += 1
            return server

    def release(self) -> None:
        with self._registry:
            self._clients -= 1
            if self._clients > 0:
                return
            for key in [key for key, server in self._running.items() if server is self]:
                del self._running[key]
        with self._lock:
            self._forget()
            if self._scratch is not None:
                self._scratch.close()

    def submit(
        self, job: WorkerJob, descriptors: list[int], abandoned: Callable[[], bool]
    ) -> tuple[socket.socket, Path]:
        """Send a job; return the connection and its log's path. Raises `WorkerError`, also once it is `abandoned`."""
        with self._lock:
            control = self._start(abandoned)
            self._jobs += 1
            log = self._folder().path / f"job{self._jobs}.log"
            line = json.dumps(requests.to_document(replace(job, log=str(log)))).encode() + b"\n"
            try:
                sent = socket.send_fds(control, [line], descriptors)
                if sent < len(line):
                    control.sendall(line[sent:])
            except OSError:
                self._forget()
                raise WorkerError("the measuring server stopped", hint="run the command again") from None
            return control, log

    def _folder(self) -> Scratch:
        self._scratch = self._scratch or Scratch()
        return self._scratch

    def lost(self, connection: socket.socket) -> None:
        """Have the next job start another server, unless that has happened already since this connection was made."""
        with self._lock:
            if self._control is connection:
                self._forget()

    def _start(self, abandoned: Callable[[], bool]) -> socket.socket:
        if abandoned():
            raise closed_error()
        if self._control is not None and self._process is not None and self._process.poll() is None:
            return self._control
        if sys.platform != "linux":
            raise DeviceError(
                "kernels are compiled and measured on Linux only",
                hint="pass --executor ssh:HOST for a machine that has it, or --device replay for recorded measurements",
            )
        if not Path("/proc/self").exists():
            raise DeviceError("/proc is not mounted here, by which measured processes are watched", hint="mount it")
        self._forget()
        ours, theirs = socket.socketpair()
        errors = self._folder().path / "server.log"
        errors.touch(mode=0o600)
        # Folders of cells too go with ours, whatever ends them.
        environment = {**self._environment, "TMPDIR": str(self._folder().temporary)}
        with theirs, errors.open("wb") as log:
            try:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=theirs.fileno(),
                    stdout=log,
                    stderr=log,
                    env=environment,
                    start_new_session=True,
                )
            except OSError as e:
                ours.close()
                raise DeviceError(
                    f"the Python to measure with, {self._command[0]}, cannot be started: {e.strerror}",
                    hint="pass --python PATH of one that has torch",
                ) from None
        if self._first_words(ours, abandoned) != b"ready\n":
            ours.close()
            self._fail_to_start(errors.read_text(errors="replace"))
        ours.settimeout(None)
        self._control = ours
        return ours

    def _first_words(self, control: socket.socket, abandoned: Callable[[], bool]) -> bytes:
        """Return the server's first words; b"" if there are none in time. Raises `WorkerError` once abandoned."""
        control.settimeout(_LOOK_S)
        for _ in range(round(START_S / _LOOK_S)):
            if abandoned():
                control.close()
                self._forget()
                raise closed_error()
            try:
                return control.recv(64)
            except TimeoutError:
                continue
            except OSError:
                break
        return b""

    def _fail_to_start(self, log: str) -> None:
        self._forget()
        python, lines = self._command[0], readable(log).splitlines()
        if "No module named 'torch'" in log:
            raise DeviceError(
                f"{python} has no torch, so nothing can be measured",
                hint='pip install "forewarp[gpu]", or pass --python PATH of an environment that has torch',
            )
        if "in preload" in log:
            raise DeviceError(
                f"torch of {python} cannot be loaded: {lines[-1]}",
                hint="install it anew, or pass --python PATH of an environment whose torch works",
            )
        if python != sys.executable:
            raise DeviceError(
                f"{python} cannot measure: {lines[-1] if lines else 'it ended without a word'}",
                hint="pass --python PATH of a Python of version 3.11 or later that has torch and numpy",
            )
        raise WorkerError(f"the measuring server did not start:\n{readable(log)}", hint="`forewarp doctor` says more")

    def _forget(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()
            self._process = None


class WorkerClient:
    """Runs jobs in children of a fork server; safe to use from several threads.

    Clients of this process whose servers would be started alike share one, but for those that need one of their `own`.
    """

    def __init__(
        self,
        python: str = sys.executable,
        environment: Mapping[str, str] | None = None,
        *,
        cpu_only: bool = False,
        own: bool = False,
    ) -> None:
        """`environment` is added to the server's, such as CUDA_VISIBLE_DEVICES; `cpu_only` does without Triton."""
        command = child.command(python, "forewarp.gpu_runner.worker.server", *(["--cpu"] if cpu_only else []))
        variables = child.environment(
            # Inductor would keep processes to compile in, which go on working between calls.
            {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
            | allowed(os.environ)
            | dict(environment or {})
            | {
                # Idle threads of one arm must not spin while the other is timed.
                "OMP_WAIT_POLICY": "PASSIVE",
                "CUDA_MODULE_LOADING": "LAZY",
            }
        )
        self._server = ServerProcess(command, variables) if own else ServerProcess.shared(command, variables)
        self._sessions: WeakSet[ChildSession] = WeakSet()
        self._closing = threading.Lock()
        self._closed = False

    def run(self, job: WorkerJob, timeout: float, on_look: OnLook | None = None) -> Reply:
        """Run a job to its end or deadline; raises `DeviceError` (no torch), `WorkerError`, `UnprotectedError`."""
        start = time.perf_counter()
        session = self.open(job)
        opened = time.perf_counter() - start
        try:
            reply = session.wait(timeout - opened, on_look)
        finally:
            session.close()
        if reply.answer is None and self._closed:
            raise closed_error()
        if reply.lost:
            raise lost_error(reply.seconds)
        return replace(reply, seconds=reply.seconds + opened, started_s=reply.started_s + opened)

    def open(self, job: WorkerJob) -> ChildSession:
        """Start a job and return the handle on its process; raises as `run` does."""
        ours, theirs = socket.socketpair()
        status, reported = socket.socketpair()
        with theirs, reported, contextlib.ExitStack() as unsent:
            unsent.enter_context(ours)
            unsent.enter_context(status)
            connection, log = self._server.submit(job, [theirs.fileno(), reported.fileno()], lambda: self._closed)
            unsent.pop_all()
        answers, exits = Channel(ours), Channel(status)
        try:
            pid: int = exits.receive(START_S)["pid"]
        except (ChannelClosed, ChannelTimeout):
            answers.close()
            exits.close()
            self._server.lost(connection)
            raise WorkerError("the measuring server stopped", hint="run the command again") from None
        session = ChildSession(answers, exits, log, pid)
        with self._closing:
            self._sessions.add(session)
            if self._closed:
                session.kill()
        return session

    @property
    def closed(self) -> bool:
        """True once `close` was called; jobs that ran then were ended by it, and are not to blame."""
        return self._closed

    def close(self) -> None:
        """End its children, while other threads may wait for them, and a server without other clients."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            for session in list(self._sessions):
                session.kill()
        self._server.release()
