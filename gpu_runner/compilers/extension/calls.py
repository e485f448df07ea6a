"""Calls of compilers, several at a time."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path


class Refused(Exception):
    """A compiler refused; the text is its log."""


@dataclass(frozen=True, slots=True)
class CompilerCall:
    """One compiler's command line, and the object it writes."""

    command: tuple[str, ...]
    output: Path = field(compare=False)


def run_all(jobs: Sequence[CompilerCall], folder: Path) -> None:
    """Run all jobs at once in `folder`; the first failure ends the others. Raises `Refused` with its log."""
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
                    raise Refused(text or f"the compiler exited with status {entry[0].returncode}")
    except OSError as e:
        raise Refused(f"a compiler could not be started: {e}") from None
    finally:
        for process, _ in running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
