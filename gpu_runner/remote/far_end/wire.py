"""Frames over a pair of byte streams: one line of JSON, then the bytes that it announces.

Each request is `{"id", "verb", "body"}`, and each answer `{"id", "ok"}` or `{"id", "error"}`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

MAX_LINE = 64 << 20
MAX_BLOBS = 1 << 30
READY = b"forewarp-agent ready\n"
"""Line that the far end writes once frames follow; whatever a login shell printed before it is no frame."""


class WireClosed(Exception):
    """The other end went away, or sent what is no frame."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One message: `head` is any JSON object, `blobs` are bytes that go with it."""

    head: dict[str, Any]
    blobs: tuple[bytes, ...] = ()


class Wire:
    """One end of the connection. Any thread may send; only one may receive."""

    def __init__(self, read: BinaryIO, write: BinaryIO) -> None:
        self._read, self._write = read, write
        self._lock = threading.Lock()

    def send(self, head: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> None:
        line = json.dumps({**head, "blobs": [len(b) for b in blobs]}).encode() + b"\n"
        with self._lock:
            try:
                self._write.write(b"".join((line, *blobs)))
                self._write.flush()
            except (OSError, ValueError):
                raise WireClosed from None

    def receive(self) -> Frame:
        try:
            line = self._read.readline(MAX_LINE)
            head: dict[str, Any] = json.loads(line)
            sizes: list[int] = head.pop("blobs")
            if sum(sizes) > MAX_BLOBS:
                raise WireClosed
            return Frame(head, tuple(self._exactly(n) for n in sizes))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            raise WireClosed from None

    def _exactly(self, size: int) -> bytes:
        data = self._read.read(size)
        if len(data) < size:
            raise WireClosed
        return data
