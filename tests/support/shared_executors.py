"""Limits of one test module for an executor that several modules share."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import pytest

from forewarp.gpu_runner.executors.local import Limits, LocalExecutor


@contextmanager
def limited(executor: LocalExecutor, limits: Limits, *, compiling: bool = False) -> Generator[LocalExecutor]:
    """Let `executor` measure within `limits` for a while; those of compiling stay as they were made, if not told."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executor, "_limits", limits)
        if compiling:
            builds = vars(executor)["_builds"]
            patch.setattr(builds, "_compile_s", limits.compile_s)
            patch.setattr(builds, "_memory", limits.memory)
        yield executor
