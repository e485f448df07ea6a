"""Limits of one test module for an executor that several modules share."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import pytest

from forewarp.gpu_runner.executors.local import Limits, LocalExecutor


@contextmanager
def limited(executor: LocalExecutor, limits: Limits) -> Generator[LocalExecutor]:
    """Let `executor` measure within `limits` for a while; those of compiling stay as they were made."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executor, "_limits", limits)
        yield executor
