"""Frames over a pair of byte streams: one line of JSON, then the bytes that it announces.

Each request is `{"id", "verb", "body"}`, and each answer `{"id", "ok"}` or `{"id", "error"}`.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO

from forewarp.core.errors import ForewarpError

MAX_LINE = 64 << 20
MAX_BLOBS = 1 << 30
READY = b"forewarp-agent ready\n"
"""Line that the far end writes once frames follow; whatever a login shell printed before it is no frame."""

WireAnswer = tuple[dict[str, Any], tuple[bytes, ...]]
"""Head of an answer without its "id", and its blobs."""


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
        """Send one frame; raises `WireClosed` if nobody listens any more."""
        line = json.dumps({**head, "blobs": [len(b) for b in blobs]}).encode() + b"\n"
        with self._lock:
            try:
                self._write.write(b"".join((line, *blobs)))
                self._write.flush()
            except (OSError, ValueError):
                raise WireClosed from None

    def receive(self) -> Frame:
        """Wait for the next frame; raises `WireClosed`."""
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


def frames_on_stdout() -> BinaryIO:
    """Keep standard output for frames, and return it: whatever else is printed goes to standard error from now on."""
    frames = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return frames


def ready(frames: BinaryIO) -> Wire:
    """Say that frames follow, and return the wire on the standard streams."""
    frames.write(READY)
    frames.flush()
    return Wire(sys.stdin.buffer, frames)


def serve(
    wire: Wire, answer: Callable[[Frame], WireAnswer], start: Callable[[str, Callable[[], None]], object]
) -> None:
    """Answer requests until the stream ends. `start` gets a request's verb and what answers it, to run in a thread."""
    while True:
        try:
            frame = wire.receive()
        except WireClosed:
            return
        start(frame.head.get("verb", ""), partial(_respond, wire, answer, frame))


def _respond(wire: Wire, answer: Callable[[Frame], WireAnswer], frame: Frame) -> None:
    blobs: tuple[bytes, ...] = ()
    try:
        head, blobs = answer(frame)
    except ForewarpError as e:
        head = {"error": {"code": e.code, "message": e.message, "hint": e.hint}}
    except Exception as e:
        head = {"error": {"code": "internal", "message": f"{type(e).__name__}: {e}", "hint": ""}}
    with contextlib.suppress(WireClosed):  # the end of the stream, which comes as well, ends everything
        wire.send({**head, "id": frame.head.get("id")}, blobs)
