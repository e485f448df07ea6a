"""One executor for all checks: its worker takes seconds to start."""

from __future__ import annotations

import pytest

from forewarp.gpu_runner.executors.local import LocalExecutor


@pytest.fixture(scope="session")
def executor(h200_executor: LocalExecutor) -> LocalExecutor:
    pytest.importorskip("triton")
    return h200_executor
