"""A stand-in for ssh: it takes ssh's options, ignores the host, and runs the command in a shell of this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from forewarp.gpu_runner.executors.local import Limits

_SSH = """#!/bin/sh
while [ $# -gt 0 ]; do case "$1" in -o) shift 2;; -*) shift;; *) break;; esac; done
[ "$1" = nobody-there ] && { echo "ssh: Could not resolve hostname nobody-there" >&2; exit 255; }
shift
echo "Welcome to this machine"
exec sh -c "$*"
"""

LIMITS = Limits(compile_s=60, measure_s=60, call_s=1.5, memory=2 << 30, time_s=0.05, looks=(4, 8))
"""Quick ones, for tests that look at what happens and not at how long a kernel takes."""


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the stand-in first on the path; returns it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    command = folder / "ssh"
    command.write_text(_SSH)
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return command
