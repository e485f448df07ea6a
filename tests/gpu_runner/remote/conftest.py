"""A stand-in for ssh: it takes ssh's options, ignores the host, and runs the command in a shell of this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

_SSH = """#!/bin/sh
while [ $# -gt 0 ]; do case "$1" in -o) shift 2;; -*) shift;; *) break;; esac; done
[ "$1" = nobody-there ] && { echo "ssh: Could not resolve hostname nobody-there" >&2; exit 255; }
shift
echo "Welcome to this machine"
exec sh -c "$*"
"""


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
