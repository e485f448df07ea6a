"""The controller's end of the fork server: start it, send jobs, keep deadlines, tell how a child ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forewarp.core.errors import DeviceError, WorkerError
from forewarp.gpu_runner.worker.channel import Channel, ChannelClosed, ChannelTimeout

START_S = 120.0
LOG_BYTES = 4000


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of a job: its answer, or how its process ended."""

    answer: dict[str, Any] | None
    log: str
    seconds: float
    started_s: float
    timed_out: bool = False
    exit_status: int | None = None


def readable(text: str, limit: int = LOG_BYTES) -> str:
    """Trim a log to its head and tail, and drop control characters: a candidate's output is data."""
    clean = "".join(c for c in text if c == "\n" or c == "\t" or c.isprintable()).strip()
    if len(clean) <= limit:
        return clean
    return f"{clean[: limit // 2]}\n… {len(clean) - limit} characters left out …\n{clean[-limit // 2 :]}"


class WorkerClient:
    """Runs jobs in children of one fork server; safe to use from several threads."""

    def __init__(self, python: str = sys.executable) -> None:
        self.python = python
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="forewarp-")
        self._jobs = 0
        self._closed = False

    def run(self, job: dict[str, Any], timeout: float) -> Reply:
        """Run one job to its end or its deadline.

        Raises `DeviceError` if the worker's Python lacks torch, `WorkerError` if the server was lost.
        """
        ours, theirs = socket.socketpair()
        status, reported = socket.socketpair()
        log = self._log_path()
        start = time.perf_counter()
        with ours, status:
            with theirs, reported:
                self._send(json.dumps(job | {"log": str(log)}).encode() + b"\n", [theirs.fileno(), reported.fileno()])
            return self._follow(Channel(ours), Channel(status), log, start, timeout)

    def _follow(self, answers: Channel, status: Channel, log: Path, start: float, timeout: float) -> Reply:
        deadline = start + timeout
        answer, timed_out, exit_status, started = None, False, None, 0.0
        try:
            pid = status.receive(START_S)["pid"]
        except (ChannelClosed, ChannelTimeout):
            self._forget()
            raise WorkerError("the measuring server stopped", hint="run the command again") from None
        started = time.perf_counter() - start
        try:
            while True:
                document = answers.receive(max(0.0, deadline - time.perf_counter()))
                if not document.get("started"):
                    answer = document
                    break
                started = time.perf_counter() - start
        except ChannelTimeout:
            timed_out = True
        except (ChannelClosed, ValueError, AttributeError):
            pass
        if answer is None or timed_out:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(ChannelClosed, ChannelTimeout):
            exit_status = status.receive(10.0)["exit"]
        text = readable(log.read_text(errors="replace")) if log.exists() else ""
        log.unlink(missing_ok=True)
        return Reply(answer, text, time.perf_counter() - start, started, timed_out, exit_status)

    def _log_path(self) -> Path:
        with self._lock:
            self._jobs += 1
            return Path(self._folder.name) / f"job{self._jobs}.log"

    def _send(self, line: bytes, descriptors: list[int]) -> None:
        with self._lock:
            if self._closed:
                raise WorkerError("the executor is closed")
            control = self._start()
            try:
                sent = socket.send_fds(control, [line], descriptors)
                if sent < len(line):
                    control.sendall(line[sent:])
            except OSError:
                self._forget()
                raise WorkerError("the measuring server stopped", hint="run the command again") from None

    def _start(self) -> socket.socket:
        """Return the control socket, starting the server at first use or after its loss."""
        if self._control is not None and self._process is not None and self._process.poll() is None:
            return self._control
        self._forget()
        ours, theirs = socket.socketpair()
        errors = Path(self._folder.name) / "server.log"
        source = Path(__file__).parents[3]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(p for p in (str(source), os.environ.get("PYTHONPATH", "")) if p),
            # Idle threads of one arm must not spin while the other is timed.
            "OMP_WAIT_POLICY": "PASSIVE",
            "CUDA_MODULE_LOADING": "LAZY",
        }
        with errors.open("wb") as log:
            self._process = subprocess.Popen(
                [self.python, "-m", "forewarp.gpu_runner.worker.server"],
                stdin=theirs.fileno(),
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        theirs.close()
        ours.settimeout(START_S)
        try:
            ready = ours.recv(64)
        except OSError:
            ready = b""
        if ready != b"ready\n":
            ours.close()
            self._fail_to_start(errors.read_text(errors="replace"))
        ours.settimeout(None)
        self._control = ours
        return ours

    def _fail_to_start(self, log: str) -> None:
        self._forget()
        if "No module named 'torch'" in log:
            raise DeviceError(
                f"{self.python} has no torch, so nothing can be measured",
                hint='pip install "forewarp[gpu]", or pass --python PATH of an environment that has torch',
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

    def close(self) -> None:
        """End the server and all its children; safe to call twice."""
        with self._lock:
            self._closed = True
            self._forget()
            self._folder.cleanup()
