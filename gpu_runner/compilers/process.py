"""A compiler as a process: what it says when it refuses, or when somebody ended it."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

MANIFEST = "build.json"
"""Name of the file in a build's folder that says what was built."""


class CompileError(Exception):
    """The compiler refused the candidate; the text is its log."""


class CompilerKilled(CompileError):
    """The compiler was killed, which says nothing of the candidate: no compiler ends itself so."""


_KILLED = re.compile(
    r"^\S+: fatal error: Killed signal terminated program \S+$"
    r"|^\S+: (?:error: )?(?:'\S+' died due to signal 9 \(Kill signal\)"
    r"|unable to execute command: Killed)$",
    re.MULTILINE,
)
"""Lines with which the drivers g++, nvcc and clang++ report that a program of theirs was killed."""


def run_compiler(command: Sequence[str], folder: Path, name: str, timeout_s: float) -> None:
    """Run a compiler in `folder`; raises `CompileError` with what it printed, or with how it ended.

    Raises `CompilerKilled` where somebody else ended it or a program that it runs.
    """
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise CompileError(f"{name} did not finish within {timeout_s} s") from None
    if done.returncode != 0:
        # nvcc's own passes print to both.
        log = f"{done.stderr.strip()}\n{done.stdout.strip()}".strip()
        if done.returncode == -signal.SIGKILL or _KILLED.search(done.stderr):
            raise CompilerKilled(f"{name} was killed: {log}")
        raise CompileError(log or f"{name} exited with status {done.returncode}")
