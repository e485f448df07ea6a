"""From a device's name to the executor of this machine that measures on it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from forewarp.core.protocols import Executor
from forewarp.gpu_runner import devices
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor
from forewarp.gpu_runner.executors.several import SeveralExecutor


def open_local(
    device: str,
    *,
    python: str | None = None,
    cache: Path | None = None,
    limits: Limits | None = None,
    begun: Callable[[Executor], None] = lambda _: None,
) -> Executor:
    """Return a probed executor for "auto", "cuda", "cuda:N", "cuda:all" or "cpu".

    `begun` gets each card's executor before it starts a process; closing it ends the probing, with a `WorkerError`.
    Raises `UsageError` for another name and `DeviceError` that says what is missing.
    """
    target = devices.choose(device)
    which = devices.indices(device) if target.kind == "cuda" else [0]
    local = [LocalExecutor(target, python=python or sys.executable, cache=cache, limits=limits, index=i) for i in which]
    try:
        for executor in local:
            begun(executor)
        local[0].probe()
    except BaseException:
        for executor in local:
            executor.close()
        raise
    return local[0] if len(local) == 1 else SeveralExecutor(local)
