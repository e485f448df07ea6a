"""Runs that outlive the server: each is a process of its own whose state is in the archive."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

import forewarp
from forewarp.core.errors import ForewarpError, UsageError
from forewarp.tools import runs
from forewarp.tools.parts import Part, Place
from forewarp.tools.run_report import BestKernel, Budget, Counts, SearchResult

START_S = 90.0
POLL_S = 0.5
WRITE_S = 15.0
SOURCE_LIMIT = 20_000


class SearchState(Part):
    """Where a run stands. Call `search` again with `run_id` until the status is no longer running."""

    summary: str
    run_id: str
    status: Literal["running", "finished", "interrupted", "failed", "lost"]
    reason: str
    poll_after_s: float | None = Field(description="When to call again; null when there is nothing to wait for.")
    task: str
    device: str
    source: Literal["measured", "replay"]
    best: BestKernel | None
    near_shapes: str | None = Field(description="How best does on shapes that nobody tuned for; null if not tried.")
    counts: Counts
    alarms: int = Field(description="How often outcomes did not fit the forecasts.")
    budget: Budget
    folder: str | None = Field(description="Folder with the best kernel, result.json, candidates.csv, report.html.")


class Jobs:
    """Starts runs and looks them up; any server with the same archive sees the same runs."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, arguments: Sequence[str]) -> str:
        """Start `forewarp optimize` with these arguments, apart from this process, and return the run's id.

        Raises the run's own error if it ends before it has an id.
        """
        home = runs.home(self._place)
        jobs = home / "jobs"
        jobs.mkdir(parents=True, exist_ok=True)
        stem = jobs / secrets.token_hex(6)
        announced = stem.with_suffix(".run")
        command = [sys.executable, "-m", "forewarp.cli.main", "optimize", *arguments]
        command += ["--archive", str(runs.archive_path(self._place)), "--json", "--announce", str(announced)]
        source = str(Path(forewarp.__file__).resolve().parents[1])
        path = os.pathsep.join(p for p in (source, os.environ.get("PYTHONPATH", "")) if p)
        with stem.with_suffix(".json").open("wb") as out, stem.with_suffix(".log").open("wb") as log:
            child = subprocess.Popen(
                command,
                cwd=home,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                env=os.environ | {"PYTHONPATH": path},
                start_new_session=True,
            )
        run_id = _wait_for_id(child, announced, stem)
        self._children[run_id] = child
        return run_id

    def state(self, run_id: str, wait_s: float = 0.0, watch: Callable[[str], None] = lambda _: None) -> SearchState:
        """Return where a run stands, after up to `wait_s` seconds if it is running; `watch` is told meanwhile."""
        deadline = time.monotonic() + wait_s
        while True:
            found = _state(runs.look(self._place, run_id), runs.home(self._place))
            if found.status != "running":
                self._collect(found.run_id)
            if found.status != "running" or time.monotonic() >= deadline:
                return found
            watch(found.summary)
            time.sleep(min(POLL_S, max(0.0, deadline - time.monotonic())))

    def _collect(self, run_id: str) -> None:
        """Let the process of a run that has ended write its files, and keep it from staying a zombie."""
        child = self._children.pop(run_id, None)
        if child is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(WRITE_S)

    def stop(self, run_id: str) -> None:
        """Ask the run's process to end after the measurement in progress; raises `UsageError` if none works on it."""
        runs.stop(self._place, run_id)


def _wait_for_id(child: subprocess.Popen[bytes], announced: Path, stem: Path) -> str:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if announced.exists() and (run_id := announced.read_text().strip()):
            return run_id
        if child.poll() is not None:
            raise _error_of(stem)
        time.sleep(0.05)
    child.terminate()
    raise ForewarpError(f"the run did not start within {START_S:.0f} s", hint=f"its log is {stem.with_suffix('.log')}")


def _error_of(stem: Path) -> ForewarpError:
    """Return the error that a process printed as its result document."""
    try:
        told = json.loads(stem.with_suffix(".json").read_text())["error"]
    except (OSError, ValueError, KeyError):
        told = None
    if not told:
        log = stem.with_suffix(".log").read_text(errors="replace").strip()
        return ForewarpError(f"the run ended before it began: {log[-1000:]}", hint="`forewarp doctor` says more")
    error = UsageError(told["message"], hint=told["hint"])
    error.code, error.retryable = told["code"], told["retryable"]
    return error


def _state(found: runs.Look, home: Path) -> SearchState:
    result: SearchResult = found.result
    running = result.status == "running"
    status = "lost" if found.lost else result.status
    summary = result.summary
    if found.lost:
        summary += f" Its process is gone; `forewarp resume {result.run_id}` goes on with it."
    elif running:
        summary += f" Call search with run_id {result.run_id} again."
    # Where `forewarp optimize` writes by itself, seen from the folder that it is started in.
    folder = home / "forewarp-runs" / result.run_id
    best = result.best
    if best is not None and (running or len(best.source) > SOURCE_LIMIT):
        where = "the text comes with the final result" if running else f"see {folder}"
        best = best.model_copy(update={"source": f"({len(best.source)} characters; {where})"})
    return SearchState(
        summary=summary,
        run_id=result.run_id,
        status=status,
        reason=result.reason,
        poll_after_s=5.0 if status == "running" else None,
        task=result.task,
        device=result.device.name,
        source=result.source,
        best=best,
        near_shapes=result.holdout.said if result.holdout else None,
        counts=result.counts,
        alarms=result.alarms,
        budget=result.budget,
        folder=str(folder) if status in ("finished", "interrupted", "failed") else None,
    )
