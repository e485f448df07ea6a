"""Emulations in the worker that other checks use."""

from __future__ import annotations

import pytest

from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.inspection.emulation.emulator import build


@pytest.fixture(scope="session")
def checks(h200_executor: LocalExecutor) -> LocalExecutor:
    why = build.available()
    if why:
        pytest.skip(why)
    return h200_executor
