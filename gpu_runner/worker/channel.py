"""JSON lines over a socket pair, with a deadline on every read, and what the controller says to a judge's question."""

from __future__ import annotations

import json
import select
import socket
import time
from typing import Any, Literal

MAX_LINE = 64 << 20
Answer = Literal["on", "enough", "leave", "beaten"]
"""What is said to a look at one workload's samples.

Time on; this workload is done; leave it for now, since the candidate does not seem to reach what it has to beat; all
workloads were seen, and it can hardly reach that.
"""


class ChannelClosed(Exception):
    """The other end went away before a whole line came."""


class ChannelTimeout(Exception):
    """No whole line came in time."""


class Channel:
    """One end of a stream of JSON documents, one a line."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._buffer = bytearray()

    def send(self, document: Any) -> None:
        """Send one document; raises `ChannelClosed` if nobody listens any more."""
        try:
            self._socket.sendall(json.dumps(document).encode() + b"\n")
        except OSError:
            raise ChannelClosed from None

    def receive(self, timeout: float) -> Any:
        """Return the next document; raises `ChannelTimeout`, `ChannelClosed`, or ValueError if it is no JSON."""
        deadline = time.monotonic() + timeout
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._socket], [], [], left)[0]:
                raise ChannelTimeout
            try:
                chunk = self._socket.recv(1 << 20)
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

    def close(self) -> None:
        """Close this end."""
        self._socket.close()
