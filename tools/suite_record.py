"""The record of a suite: one line of JSON for each measurement, written as soon as it is there."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from forewarp.core.errors import UsageError
from forewarp.core.untrusted_text import model_json
from forewarp.core.values import Candidate, Target, Task
from forewarp.tools.measured import MeasureResult
from forewarp.tools.parts import SCHEMA_VERSION, Part

NAME = "results.jsonl"


class Entry(Part):
    """One line: what was measured, under which versions, and what came of it.

    Where there is no `result`, `error` says why: the reference cannot be run (`of_problem`), or the kernel is none.
    """

    key: str
    schema_version: int = SCHEMA_VERSION
    problem: str
    problem_sha256: str
    kernel_sha256: str
    device: str
    versions: dict[str, str]
    result: MeasureResult | None = None
    error: str = ""
    of_problem: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """The lines of a suite's folder by key, the last one of each; new ones are appended."""

    path: Path
    target: Target
    versions: Mapping[str, str]
    entries: dict[str, Entry] = field(default_factory=dict[str, Entry])

    def key(self, task: Task, candidate: Candidate) -> str:
        """Return the identity of a measurement: problem, kernel, device and versions."""
        parts = [task.sha256, candidate.sha256, self.target.name, self.target.arch, dict(self.versions)]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def get(self, task: Task, candidate: Candidate) -> Entry | None:
        """Return what is recorded of a measurement."""
        return self.entries.get(self.key(task, candidate))

    def add(
        self,
        task: Task,
        candidate: Candidate,
        result: MeasureResult | None,
        *,
        error: str = "",
        of_problem: bool = False,
    ) -> None:
        """Record a measurement or an error; it is on disk when this returns. Raises `UsageError`."""
        entry = Entry(
            key=self.key(task, candidate),
            problem=task.name,
            problem_sha256=task.sha256,
            kernel_sha256=candidate.sha256,
            device=self.target.name,
            versions=dict(self.versions),
            result=result,
            error=error,
            of_problem=of_problem,
        )
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(model_json(entry) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as e:
            raise _unwritten(self.path, e) from None
        self.entries[entry.key] = entry


@contextmanager
def opened(folder: Path, target: Target, versions: Mapping[str, str]) -> Generator[Record]:
    """Open the record of a folder, which is made where there is none, against every other process.

    A line that a kill left unfinished is cut off; lines of other versions of the format are kept and not used. Raises
    `UsageError` where the folder cannot be written, or another suite is at work in it.
    """
    path = folder / NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = path.open("a+b")
    except OSError as e:
        raise _unwritten(path, e) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another suite is at work in {folder}", hint="wait for it, or pass another folder with --output DIR"
            ) from None
        lock.seek(0)
        text = lock.read()
        whole = text[: text.rfind(b"\n") + 1]
        lock.truncate(len(whole))
        yield Record(path, target, versions, {e.key: e for line in whole.splitlines() if (e := _read(line))})


def _read(line: bytes) -> Entry | None:
    with contextlib.suppress(ValueError, ValidationError):
        data: Any = json.loads(line)
        entry = Entry.model_validate(data)
        return entry if entry.schema_version == SCHEMA_VERSION else None
    return None


def _unwritten(path: Path, error: OSError) -> UsageError:
    return UsageError(f"{path} cannot be written: {error.strerror}", hint="pass another folder with --output DIR")
