"""Signatures of tasks, kept by what went into them: to describe a task, torch has to start and run its reference."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from forewarp.core import serde
from forewarp.core.values import DeviceKind, Signature, Task

CACHE_VERSION = "3"


class Signatures:
    """A folder of signatures. Safe to use from several threads and processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(
        self,
        task: Task,
        kind: DeviceKind,
        versions: Mapping[str, str],
        describe: Callable[[], tuple[Signature, ...]],
    ) -> tuple[Signature, ...]:
        """Return the signatures of the task's workloads for a kind of device; `describe` works them out."""
        key = json.dumps([CACHE_VERSION, task.sha256, kind, dict(versions)])
        path = self._folder / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            return tuple(serde.from_data(Signature, s) for s in json.loads(path.read_text()))
        found = describe()
        # A cache that cannot be written costs seconds, not the answer.
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self._folder)
            with os.fdopen(handle, "w") as file:
                json.dump(serde.to_data(found), file)
            os.replace(name, path)
        return found
