"""Signatures of tasks, kept by what went into them: to describe a task, torch has to start and run its reference."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from forewarp.core import serde
from forewarp.core.values import DeviceKind, Signature, Task
from forewarp.gpu_runner.executors.cached_text import cached

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
        return cached(
            path,
            lambda text: tuple(serde.from_data(Signature, s) for s in json.loads(text)),
            lambda: json.dumps(serde.to_data(describe())),
        )
