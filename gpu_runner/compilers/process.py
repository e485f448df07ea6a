"""Compilers as processes: what they say when they refuse, or when somebody ended them; one, or several at a time."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

MANIFEST = "build.json"
"""Name of the file in a build's folder that says what was built."""


class CompileError(Exception):
    """The compiler refused the candidate; the text is its log."""


class CompilerMissing(CompileError):
    """The machine has no compiler for what was asked, whatever the candidate."""


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
    """Run a compiler; raises `CompileError` with what it printed, or `CompilerKilled` where somebody ended it."""
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


@dataclass(frozen=True, slots=True)
class CompilerCall:
    """One compiler's command line, and the object it writes."""

    command: tuple[str, ...]
    output: Path = field(compare=False)


def run_all(jobs: Sequence[CompilerCall], folder: Path) -> None:
    """Run all jobs at once in `folder`; the first failure ends the others. Raises `CompileError` with its log."""
    running: list[tuple[subprocess.Popen[bytes], Path]] = []
    try:
        for job in jobs:
            log = job.output.with_suffix(".log")
            with log.open("wb") as sink:
                process = subprocess.Popen(
                    job.command, cwd=folder, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True
                )
            running.append((process, log))
        waiting = list(running)
        while waiting:
            time.sleep(0.01)
            for entry in [e for e in waiting if e[0].poll() is not None]:
                waiting.remove(entry)
                if entry[0].returncode != 0:
                    text = entry[1].read_text(errors="replace").strip()
                    raise CompileError(text or f"the compiler exited with status {entry[0].returncode}")
    except OSError as e:
        raise CompileError(f"a compiler could not be started: {e}") from None
    finally:
        for process, _ in running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
