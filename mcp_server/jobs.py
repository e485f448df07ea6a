"""Work that outlives the server: measurements in the spool's process, runs in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import forewarp
from forewarp.core.budget import Budget
from forewarp.core.errors import ForewarpError, UsageError
from forewarp.mcp_server.answers import CallProgress, measurements_of
from forewarp.mcp_server.options import ServerOptions
from forewarp.mcp_server.spool import LATEST, LIVE, JobKind, JobState, Spool, SpooledJob, owner, slot_name
from forewarp.tools import runs
from forewarp.tools.measured import MeasureResult
from forewarp.tools.parts import Part

POLL_S = 0.1
GLANCE_S = 0.5
WRITE_S = 15.0


class Jobs:
    """Starts work and looks it up; any server with the same archive sees the same work."""

    def __init__(self, options: ServerOptions) -> None:
        self._options = options
        self.home = runs.home(options.place)
        self.spool = Spool(self.home)
        self._workers: dict[int, subprocess.Popen[bytes]] = {}
        self._starting = threading.Lock()
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def close(self) -> None:
        for child in (*self._children.values(), *self._workers.values()):
            if child.poll() is None:
                child.returncode = 0  # it is meant to go on, which would otherwise be warned of

    def submit(self, session: str, task: str, request: dict[str, Any], reserved: Budget) -> SpooledJob:
        """Put a measurement into the queue, and make sure that a process works on it."""
        job = self.spool.add("measure", session, task, request, reserved)
        self._keep_measuring()
        return job

    def await_measurement(self, job: SpooledJob, wait_s: float, say: CallProgress) -> None:
        """Wait until a measurement is over, at most `wait_s` seconds."""
        deadline = time.monotonic() + wait_s
        while (state := self.spool.state(job.id)) in LIVE:
            if state == "queued":
                self._keep_measuring()
                ahead = self.spool.ahead(job)
                say(f"waiting for the device: {ahead or 'next'}{' ahead' * bool(ahead)}")
            else:
                say(self.spool.read(job.id, "stage") or "starting the device")
            if time.monotonic() >= deadline:
                return
            time.sleep(min(POLL_S, max(0.0, deadline - time.monotonic())))

    def measured(self, job: SpooledJob) -> MeasureResult | None:
        """Return a measurement's result, None while it goes on; raises its error."""
        told = self.spool.document(job.id, "result.json")
        if told is None:
            return None
        if (error := told.get("error")) is not None:
            raise _error(error)
        return MeasureResult.model_validate(told["result"])

    def cancel_measurement(self, job: SpooledJob) -> bool:
        """End a measurement; false where it had ended by itself. Those that wait go on."""
        cancelled = self.spool.cancel(job.id)
        if self.spool.waiting():
            self._keep_measuring()
        return cancelled

    def _keep_measuring(self) -> None:
        """Start measuring processes, as many as there is work for and devices."""
        latest = [j for j in self.spool.jobs() if j.kind == "measure"][-LATEST:]
        live = [j for j in latest if self.spool.state(j.id) in LIVE]
        devices = max((self.spool.devices(j) for j in live), default=1)
        for number in range(min(devices, max(1, len(live)))):
            self._start(number)

    def _start(self, number: int) -> None:
        """Start a measuring process unless it is alive."""
        with self._starting:  # several calls may wait at once
            worker = self._workers.get(number)
            if worker is not None and worker.poll() is None:
                return
            # Another server may have started it.
            with self.spool.alone(slot_name(number), within_s=0) as free:
                pass
            if not free:
                return
            command = [sys.executable, "-P", "-m", "forewarp.mcp_server.worker"]
            command += [str(self.home), str(self._options.keep_warm), str(number)]
            with (self.spool.folder / "worker.log").open("ab") as log:
                self._workers[number] = _detached(command, self.home, log, log)

    def start(self, kind: JobKind, session: str, task: str, request: Part, reserved: Budget) -> SpooledJob:
        """Start a search of a task, or the verb that `task` names, in a process of its own."""
        job = self.spool.add(kind, session, task, request.model_dump(mode="json"), reserved)
        self._begin(job)
        return job

    def restart(self, job: SpooledJob) -> None:
        self.spool.reopen(job.id)
        self._begin(job)

    def await_verb(self, job: SpooledJob, wait_s: float, say: CallProgress) -> JobState:
        """Return the state of a verb's job, after up to `wait_s` seconds if it goes on; raises its error."""
        deadline = time.monotonic() + wait_s
        while (state := self.spool.state(job.id)) == "running" and time.monotonic() < deadline:
            say(self.spool.read(job.id, "stage") or "starting")
            time.sleep(POLL_S)
        self._collect()
        if state == "failed":
            raise _error((self.spool.document(job.id, "result.json") or {})["error"])
        return state

    def _begin(self, job: SpooledJob) -> None:
        command = [sys.executable, "-P", "-m", "forewarp.mcp_server.worker", str(self.home), job.id]
        with (self.spool.at(job.id) / "log.txt").open("wb") as log:
            child = _detached(command, self.home, log, log)
        self.spool.claim(job.id, owner(child.pid))
        self._children[job.id] = child

    def await_id(self, job: SpooledJob, wait_s: float) -> str | None:
        """Return the run that a job became; None if it still starts, or was cancelled before it began.

        Raises the error of one that ended before.
        """
        deadline = time.monotonic() + wait_s
        while True:
            if run_id := self.spool.run(job.id):
                return run_id
            child = self._children.get(job.id)
            gone = child.poll() is not None if child else self.spool.worker(job.id) is None
            if gone and self.spool.run(job.id) is None:
                if self.spool.state(job.id) == "cancelled":
                    return None
                raise self._ended(job)
            if time.monotonic() >= deadline:
                return None
            time.sleep(POLL_S / 2)

    def await_run(self, run_id: str, wait_s: float, say: CallProgress) -> None:
        """Wait until a run is over, at most `wait_s` seconds."""
        deadline = time.monotonic() + wait_s
        while True:
            seen = runs.glance(self._options.place, run_id)
            if seen.ended:
                return self._collect()
            if time.monotonic() >= deadline:
                return None
            best = f"best {seen.best:.3g}×" if seen.best else "nothing correct yet"
            spent, most = seen.spent.measurements, seen.budget.measurements
            say(f"{best} after {measurements_of(spent, most)} measurements", spent, most)
            time.sleep(min(GLANCE_S, max(0.0, deadline - time.monotonic())))

    def searching(self) -> list[SpooledJob]:
        """Return the jobs of runs and verbs that are being worked on; tuning by forecasts takes no device."""
        holding = (j for j in self.spool.jobs() if j.kind in ("search", "verb") and j.task != "tune")
        return [j for j in holding if self.spool.worker(j.id) is not None]

    def _collect(self) -> None:
        """Let processes of runs that have ended write their files, and keep them from staying zombies."""
        for job_id, child in list(self._children.items()):
            if child.poll() is not None:
                del self._children[job_id]

    def written(self, run_id: str) -> None:
        """Wait for the process of a run that is over to write its files, whichever server started it."""
        deadline = time.monotonic() + WRITE_S
        while time.monotonic() < deadline and any(self.spool.run(j.id) == run_id for j in self.searching()):
            time.sleep(POLL_S)

    def _ended(self, job: SpooledJob) -> ForewarpError:
        told = self.spool.document(job.id, "result.json") or {}
        if error := told.get("error"):
            return _error(error)
        log = (self.spool.read(job.id, "log.txt") or "").strip()
        return ForewarpError(
            f"the run ended before it began: {log[-1000:] or 'its process is gone'}",
            hint=f"`forewarp doctor` says more; search_resume with run_id {job.id} starts it again",
        )


def _detached(command: Sequence[str], folder: Path, out: Any, log: Any) -> subprocess.Popen[bytes]:
    """Start a process that no signal to this one reaches, and that has none of its streams."""
    folder.mkdir(parents=True, exist_ok=True)
    return subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=log,
        env=_environment(),
        start_new_session=True,
    )


def _environment() -> dict[str, str]:
    source = str(Path(forewarp.__file__).resolve().parents[1])
    path = os.pathsep.join(p for p in (source, os.environ.get("PYTHONPATH", "")) if p)
    return os.environ | {"PYTHONPATH": path}


def _error(told: dict[str, Any]) -> ForewarpError:
    error = UsageError(told["message"], hint=told.get("hint", ""))
    error.code, error.retryable = told["code"], bool(told.get("retryable"))
    return error
