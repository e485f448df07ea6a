"""Executors that the tests share: to start one takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from forewarp.gpu_runner.devices import detect_cpu, known_targets
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor


@pytest.fixture(scope="session")
def cpu_executor() -> Iterator[LocalExecutor]:
    """One on the CPU device; `support.shared_executors.limited` gives it the limits of a module for a while."""
    made = LocalExecutor(detect_cpu(), limits=Limits(compile_s=60, memory=2 << 30))
    yield made
    # Closing twice is fine for one that has worked, too.
    made.close()
    made.close()


@pytest.fixture(scope="session")
def h200_executor() -> Iterator[LocalExecutor]:
    """One for a GPU that need not be there: it compiles, traces and checks, and measures nothing."""
    made = LocalExecutor(known_targets()["h200"])
    yield made
    made.close()
