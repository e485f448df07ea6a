"""Record of a traced module: launches and library calls in order, problems, and cubin files."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import traceback
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from forewarp.core import serde
from forewarp.core.untrusted_text import clip
from forewarp.inspection.tracing.values import LibraryCall, Strategy, TracedLaunch, WorkloadTrace

MOST_EVENTS = 200_000
"""Launches and calls of one call of a module that are kept; a module that makes more is stopped."""

TracedEvent = TracedLaunch | LibraryCall


class TooMuch(Exception):
    """The module does more than is recorded."""


class Recorder:
    """Recorder of one run of one workload. Cubins go to `folder`, named by their contents."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.events: list[TracedEvent] = []
        self.doing = "importing the module"
        self.trying = False
        """True while an autotuner tries a configuration, which handles failures itself."""

    def keep(self, image: bytes) -> str:
        name = f"{hashlib.sha256(image).hexdigest()[:24]}.cubin"
        path = self.folder / name
        if not path.exists():
            path.write_bytes(image)
        return name

    def add(self, event: TracedEvent) -> None:
        if len(self.events) >= MOST_EVENTS:
            raise TooMuch(f"more than {MOST_EVENTS} launches and calls")
        self.events.append(event)

    def problem(self, text: str) -> None:
        if text not in self.problems:
            self.problems.append(text)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    @contextlib.contextmanager
    def aside(self, sink: list[TracedEvent]) -> Generator[None]:
        """Put events into `sink` within this context: a graph's capture, a trial of an autotuner."""
        kept, self.events = self.events, sink
        try:
            yield
        finally:
            self.events = kept

    def result(self, strategy: Strategy) -> WorkloadTrace:
        """Return the trace so far, equal events merged."""
        merged = merge(self.events)
        return WorkloadTrace(
            strategy,
            tuple(e for e in merged if isinstance(e, TracedLaunch)),
            tuple(e for e in merged if isinstance(e, LibraryCall)),
            tuple(self.problems),
            tuple(self.notes),
        )


def merge(events: Sequence[TracedEvent]) -> list[TracedEvent]:
    """Return the events without repetition, each with how often it came, in the order in which they first came."""
    found: dict[str, list[Any]] = {}
    for event in events:
        key = f"{type(event).__name__} {json.dumps(serde.to_data(event), sort_keys=True, default=str)}"
        found.setdefault(key, [event, 0])[1] += event.times
    return [replace(event, times=times) for event, times in found.values()]


def words(error: BaseException) -> str:
    """Return kind, place in the module and message of an error, without the frames of torch and Triton."""
    lines = [f for f in traceback.extract_tb(error.__traceback__) if os.path.basename(f.filename).startswith("tmp")]
    where = f" (line {lines[-1].lineno})" if lines else ""
    return f"{type(error).__name__}{where}: {clip(str(error).strip(), 1500) or 'no message'}"
