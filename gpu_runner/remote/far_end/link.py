"""The near end of a connection to an agent: start the command that leads there, send requests, await answers."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, BinaryIO, cast

from forewarp.gpu_runner.remote.far_end.bootstrap import NEED
from forewarp.gpu_runner.remote.far_end.wire import READY, Frame, Wire, WireClosed

_LINES = 400
"""Most lines that a login may print before the agent speaks."""
_OUTPUT = 4000
"""Characters kept of what the command wrote to standard error."""
_ENDING_S = 5.0
"""Seconds to wait for a command that is ending, and for the rest of its output; this machine may be busy."""
NO_AGENT = "no measuring process had started"
"""Beginning of the message about a command that neither ended nor started an agent."""


class LinkLost(Exception):
    """The command ended, or never came to an agent; says what it wrote."""


class Link:
    """One connection. Requests may come from any thread and are answered in any order."""

    def __init__(self, command: Sequence[str], package: bytes = b"", *, patience_s: float | None = None) -> None:
        """Start `command`, giving it the `package` if it asks; it has `patience_s` seconds to come to an agent."""
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
            )
        except OSError as e:
            raise LinkLost(f"{command[0]}: {e.strerror}") from None
        self._read, self._write = (cast("BinaryIO", s) for s in (self._process.stdout, self._process.stdin))
        self._wire = Wire(self._read, self._write)
        self._lock = threading.Lock()
        self._waiting: dict[int, Future[Frame]] = {}
        self._count, self._lost, self._output = 0, "", b""
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        late = threading.Timer(patience_s, self._give_up, (patience_s,)) if patience_s is not None else None
        try:
            if late is not None:
                late.daemon = True
                late.start()
            self._shake_hands(package)
        except BaseException:
            self.close()
            raise
        finally:
            if late is not None:
                late.cancel()
        self._receiver = threading.Thread(target=self._receive, daemon=True)
        self._receiver.start()

    def submit(self, verb: str, body: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> Future[Frame]:
        """Send a request; the future raises `LinkLost` where the connection ends before the answer."""
        future: Future[Frame] = Future()
        future.set_running_or_notify_cancel()  # who gives up waiting for it must not keep others from their answers
        with self._lock:
            if self._lost:
                raise LinkLost(self._lost)
            self._count += 1
            number = self._count
            self._waiting[number] = future
        try:
            self._wire.send({"id": number, "verb": verb, "body": body}, blobs)
        except WireClosed:
            self._end()
        return future

    @property
    def alive(self) -> bool:
        return not self._lost

    def close(self, patience_s: float = 0.0) -> None:
        """End the command, after `patience_s` seconds in which it may end by itself; safe to call twice."""
        with contextlib.suppress(OSError):
            self._write.close()
        if patience_s:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(patience_s)
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._end()
        for thread in (self._listener, getattr(self, "_receiver", None)):
            if thread is not None and thread is not threading.current_thread():
                thread.join(5.0)
        with contextlib.suppress(OSError):
            self._read.close()

    def _shake_hands(self, package: bytes) -> None:
        for _ in range(_LINES):
            line = self._read.readline(1 << 16)
            if line == READY:
                return
            if line == NEED:
                with contextlib.suppress(OSError):
                    self._write.write(b"%d\n" % len(package) + package)
                    self._write.flush()
            elif not line:
                break
            else:
                self._keep_output(line)
        raise LinkLost(self._last_output())

    def _give_up(self, after_s: float) -> None:
        self._keep_output(f"{NO_AGENT} after {after_s:.0f} s\n".encode())
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _last_output(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING_S)
        self._listener.join(_ENDING_S)
        text = self._output.decode(errors="replace").strip()
        status = self._process.poll()
        return text[-_OUTPUT:] or (f"it ended with status {status}" if status is not None else "it said nothing")

    def _listen(self) -> None:
        errors = cast("BinaryIO", self._process.stderr)
        with errors:
            for line in errors:
                self._keep_output(line)

    def _keep_output(self, line: bytes) -> None:
        with self._lock:  # both streams are read at once
            self._output = (self._output + line)[-_OUTPUT:]

    def _receive(self) -> None:
        try:
            while True:
                frame = self._wire.receive()
                with self._lock:
                    future = self._waiting.pop(frame.head.get("id", 0), None)
                if future is not None:
                    future.set_result(frame)
        except WireClosed:
            self._end()

    def _end(self) -> None:
        why = self._lost or self._last_output()
        with self._lock:
            self._lost = why
            waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            future.set_exception(LinkLost(why))
