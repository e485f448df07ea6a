"""Job folders beside the archive: servers and measuring processes communicate through them, and they outlive both.

A job's folder holds `job.json`, written once; `claim`, made by whoever takes the job first, the measuring process or
one that cancels it; `stage`; `cancelled`; `log.txt`, the whole log; and in the end `result.json`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import secrets
import shutil
import threading
import time
from collections.abc import Generator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from forewarp.core import processes, serde
from forewarp.core.budget import OPEN, Budget
from forewarp.core.errors import ForewarpError, UsageError

JobKind = Literal["measure", "search", "forecast", "verb"]
JobState = Literal["queued", "running", "finished", "failed", "cancelled", "lost"]

KEEP_S = 30 * 86_400.0
"""Seconds for which a job's folder is kept; its measurement stays in the archive."""
_PREFIX: dict[JobKind, str] = {"measure": "m", "search": "s", "forecast": "f", "verb": "v"}
_CANCELLED = "cancelled"
_CLAIM = "claim"
_DEVICES = "devices.json"
LIVE = ("queued", "running")
GONE_S = 5.0
"""Longest wait for a process that was killed."""
LATEST = 200
"""Number of latest measurements that are searched for unfinished ones."""


def error_of(error: Exception) -> dict[str, Any]:
    """Return an error as a job's `result.json` keeps it."""
    if not isinstance(error, ForewarpError):
        error = ForewarpError(f"internal error of forewarp, not of the kernel: {type(error).__name__}: {error}")
    return {"code": error.code, "message": error.message, "hint": error.hint, "retryable": error.retryable}


@dataclass(frozen=True, slots=True)
class SpooledJob:
    """One job: who asked for what, and the part of the budget that is reserved for it."""

    id: str
    kind: JobKind
    session: str
    task: str
    created: float
    request: dict[str, Any] = field(default_factory=dict[str, Any])
    reserved: Budget = OPEN


class Spool:
    """The folder of jobs of one archive."""

    def __init__(self, home: Path) -> None:
        """`home` is the archive's folder; nothing is made before the first job."""
        self.folder = home / "mcp-jobs"

    def at(self, job_id: str) -> Path:
        return self.folder / job_id

    def add(
        self, kind: JobKind, session: str, task: str, request: dict[str, Any], reserved: Budget = OPEN
    ) -> SpooledJob:
        """Write a job's folder, which puts it into the queue."""
        job = SpooledJob(f"{_PREFIX[kind]}-{secrets.token_hex(4)}", kind, session, task, time.time(), request, reserved)
        self.at(job.id).mkdir(parents=True)
        self.write(job.id, "job.json", json.dumps(asdict(job)))
        return job

    def write(self, job_id: str, name: str, text: str) -> None:
        """Write a file of a job so that a reader sees all of it or nothing."""
        path = self.at(job_id) / name
        draft = path.with_name(f".{name}.{os.getpid()}.{threading.get_ident()}")
        draft.write_text(text)
        draft.replace(path)

    def read(self, job_id: str, name: str) -> str | None:
        """Return a file of a job; None where there is none yet."""
        try:
            return (self.at(job_id) / name).read_text()
        except OSError:
            return None

    def run(self, job_id: str) -> str | None:
        """Return the id of the run that a job became; None while there is none."""
        return (self.read(job_id, "run") or "").strip() or None

    def document(self, job_id: str, name: str) -> dict[str, Any] | None:
        """Return a file of a job as the object that it holds; None where there is none, or nothing to read in it."""
        text = self.read(job_id, name)
        with contextlib.suppress(ValueError):
            return json.loads(text) if text else None
        return None

    def job(self, job_id: str) -> SpooledJob:
        """Return a job by its handle; raises `UsageError`."""
        found = None
        if job_id.replace("-", "").isalnum():
            found = self.document(job_id, "job.json")
        if found is None:
            latest = ", ".join(j.id for j in self.jobs()[-5:]) or "none"
            raise UsageError(
                f"there is no job {job_id!r}; the latest are {latest}",
                hint="pass the run_id that search or measure_kernel returned; describe with recent lists runs",
            )
        return serde.from_data(SpooledJob, found)

    def jobs(self, since: float = 0.0) -> list[SpooledJob]:
        """Return the jobs that were made after a time, the oldest first."""
        found: list[SpooledJob] = []
        if self.folder.is_dir():
            for path in self.folder.glob("*-*/job.json"):
                with contextlib.suppress(OSError, ValueError, TypeError):
                    job = serde.from_data(SpooledJob, json.loads(path.read_text()))
                    if job.created >= since:
                        found.append(job)
        return sorted(found, key=lambda j: (j.created, j.id))

    def claim(self, job_id: str, by: str) -> bool:
        """Take a job; false if somebody else has it."""
        try:
            handle = os.open(self.at(job_id) / _CLAIM, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return False
        with os.fdopen(handle, "w") as stream:
            stream.write(by)
        return True

    def worker(self, job_id: str) -> int | None:
        """Return the living process that works on a job."""
        return _living(self.read(job_id, _CLAIM) or "")

    def state(self, job_id: str) -> JobState:
        """Return the state of a job of a measuring process."""
        # A worker may write its result and end between two looks; a job is lost only if the second finds none either.
        return self._state(job_id) or self._state(job_id) or "lost"

    def _state(self, job_id: str) -> JobState | None:
        """Return a job's state; None if its worker is gone and left no result."""
        if (result := self.document(job_id, "result.json")) is not None:
            return "failed" if "error" in result else "finished"
        if (self.at(job_id) / _CANCELLED).exists():
            return "cancelled"
        claim = self.read(job_id, _CLAIM)
        if claim is None:
            return "queued"
        if claim == _CANCELLED:
            return "cancelled"
        # A worker first creates the file, then writes its process id into it.
        return "running" if not claim or _living(claim) is not None else None

    def held_s(self, job_id: str) -> float | None:
        """Return for how long a measurement that did not end by itself held the device; None if it never did."""
        if self.read(job_id, "stage") != "measuring":
            return None
        ends = [self.at(job_id) / name for name in ("result.json", _CANCELLED)]
        ended = [p.stat().st_mtime for p in ends if p.exists()]
        return max(0.0, min(ended, default=0.0) - (self.at(job_id) / "stage").stat().st_mtime)

    def waiting(self) -> list[SpooledJob]:
        """Return the measurements that nobody has taken, in their order."""
        return [j for j in self.jobs() if j.kind == "measure" and not (self.at(j.id) / _CLAIM).exists()]

    def ahead(self, job: SpooledJob) -> int:
        """Return how many measurements have to end before one that waits begins."""
        before = [j for j in self.jobs() if j.kind == "measure" and (j.created, j.id) < (job.created, job.id)]
        live = sum(self.state(j.id) in LIVE for j in before[-LATEST:])
        return max(0, live - (self.devices(job) - 1))

    def has(self, place: Mapping[str, Any], devices: int) -> None:
        """Record a place's number of devices, as found by this process; valid for as long as it lives."""
        known, me = self.document("", _DEVICES) or {}, owner(os.getpid())
        places = known.get("places", {}) if known.get("by") == me else {}
        self.write("", _DEVICES, json.dumps({"by": me, "places": {**places, _name(place): devices}}))

    def devices(self, job: SpooledJob) -> int:
        """Return the number of devices that can do measurements like this one at once; 1 if unknown."""
        known = self.document("", _DEVICES) or {}
        if _living(str(known.get("by", ""))) is None:
            return 1
        return int(known["places"].get(_name(job.request.get("place", {})), 1))

    def cancel(self, job_id: str) -> bool:
        """End a measurement, waiting or in progress; false where it had ended. The device is free on return."""
        if self.claim(job_id, _CANCELLED):
            self.write(job_id, _CANCELLED, "")
            return True
        deadline = time.monotonic() + GONE_S
        while not self.read(job_id, _CLAIM) and time.monotonic() < deadline:
            time.sleep(0.01)  # who took it has yet to write itself down
        pid = self.worker(job_id)
        if pid is None:
            return False
        # Pause the worker before looking for its result: it might otherwise take the next job before it is killed.
        processes.pause(pid)
        if self.read(job_id, "result.json") is not None:
            processes.go_on(pid)
            return False
        self.write(job_id, _CANCELLED, "")
        processes.kill_tree(pid)
        # The next worker cannot start while this one holds its lock.
        deadline = time.monotonic() + GONE_S
        while not processes.over(pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        return True

    def reopen(self, job_id: str) -> None:
        """Let a job that was cancelled or lost be taken again."""
        for name in (_CANCELLED, _CLAIM):
            (self.at(job_id) / name).unlink(missing_ok=True)

    @contextlib.contextmanager
    def alone(self, name: str, *, within_s: float = math.inf) -> Generator[bool]:
        """Hold one of the spool's locks against other processes; yields False if it is not free within this time."""
        self.folder.mkdir(parents=True, exist_ok=True)
        deadline = time.monotonic() + within_s
        with (self.folder / f"{name}.lock").open("w") as handle:
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | (0 if math.isinf(within_s) else fcntl.LOCK_NB))
                    break
                except BlockingIOError:
                    if time.monotonic() >= deadline:
                        yield False
                        return
                    time.sleep(0.01)
            yield True

    def prune(self) -> None:
        """Remove the folders of jobs that are older than `KEEP_S`."""
        before = time.time() - KEEP_S
        for job in self.jobs():
            if job.created < before and self.state(job.id) not in LIVE:
                shutil.rmtree(self.at(job.id), ignore_errors=True)


def owner(pid: int) -> str:
    """Return what stands for a process in a claim: its id, and when it began, because ids are used again."""
    return f"{pid}:{processes.began(pid)}"


def _living(claim: str) -> int | None:
    """Return the process id from "PID:START" if that process is alive."""
    pid, _, began = claim.partition(":")
    return int(pid) if began and processes.began(int(pid)) == began else None


def slot_name(number: int) -> str:
    """Return the name of the lock that the measuring process of a slot holds."""
    return f"worker-{number}" if number else "worker"


def _name(place: Mapping[str, Any]) -> str:
    """Return the name under which a place's devices are counted."""
    return " ".join(str(place.get(name) or "") for name in ("executor", "device", "card", "python"))
