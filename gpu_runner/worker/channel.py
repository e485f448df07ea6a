"""JSON lines over a socket pair, with a deadline on every read, and what the controller says to a judge's question."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import time
from collections.abc import Sequence
from typing import Any, Literal

MAX_LINE = 64 << 20
MOST_DESCRIPTORS = 250
"""File descriptors in one message; the kernel passes on 253."""
LookAnswer = Literal["on", "enough", "leave", "beaten"]
"""What is said to a look at one workload's samples.

Time on; this workload is done; leave it for now, since the candidate does not seem to reach what it has to beat; all
workloads were seen, and it can hardly reach that.
"""

MACHINE = "machine"
"""Status of a job that failed for what this machine lacks or did: neither candidate nor task is to blame."""
KILLED = "the process that runs it was killed by something else than forewarp"
LACKING = "lacking"
"""Status of a job for which this machine lacks a program."""


class ChannelClosed(Exception):
    """The other end went away before a whole line came."""


class ChannelTimeout(Exception):
    """No whole line came in time."""


def close_all(descriptors: Sequence[int]) -> None:
    """Close file descriptors, those that are closed already included."""
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)


class Channel:
    """One end of a stream of JSON documents, one a line."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._buffer = bytearray()
        self._descriptors: list[int] = []

    @property
    def descriptor(self) -> int:
        return self._socket.fileno()

    def send(self, document: Any, descriptors: Sequence[int] = ()) -> None:
        """Send one document, and file descriptors with it; raises `ChannelClosed` if nobody listens any more."""
        line = json.dumps(document).encode() + b"\n"
        try:
            sent = socket.send_fds(self._socket, [line], descriptors) if descriptors else 0
            self._socket.sendall(line[sent:])
        except OSError:
            raise ChannelClosed from None

    def descriptors(self) -> list[int]:
        """Return the file descriptors that have come since the last call; they are the caller's to close."""
        taken, self._descriptors = self._descriptors, []
        return taken

    def receive(self, timeout: float) -> Any:
        """Return the next document; raises `ChannelTimeout`, `ChannelClosed`, or ValueError if it is no JSON."""
        deadline = time.monotonic() + timeout
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._socket], [], [], left)[0]:
                raise ChannelTimeout
            try:
                chunk = self._take()
            except OSError:
                raise ChannelClosed from None
            if not chunk:
                raise ChannelClosed
            self._buffer += chunk
            if len(self._buffer) > MAX_LINE:
                raise ValueError("the document is too long")
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        return json.loads(line)

    def _take(self) -> bytes:
        data, descriptors, _, _ = socket.recv_fds(self._socket, 1 << 20, MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
        self._descriptors += descriptors
        if len(self._descriptors) > MOST_DESCRIPTORS:
            raise ValueError("too many file descriptors came with a document")
        return data

    def close(self) -> None:
        """Close this end, and the descriptors that nobody took."""
        for descriptor in self.descriptors():
            os.close(descriptor)
        self._socket.close()
