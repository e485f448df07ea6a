"""Processes that outlive the servers that asked: one takes measurements from the spool, another does a search.

`python -m forewarp.mcp_server.worker HOME SECONDS SLOT` takes measurements, one at a time, and ends by itself after so
many seconds without work. Where there are several devices, there are as many of these: to end one measurement is to end
the process that does it. `python -m forewarp.mcp_server.worker HOME JOB` does one search: it reads the request from the
job's folder, writes the run's id there as `run`, and files of the run below HOME.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from forewarp.core import processes
from forewarp.core.errors import ForewarpError
from forewarp.core.protocols import Executor
from forewarp.core.values import Task
from forewarp.mcp_server.spool import Spool, SpooledJob, error_of, owner, slot_name
from forewarp.tools.measure_kernel import MeasureRequest, MeasureStage, measure_kernel
from forewarp.tools.parts import Place
from forewarp.tools.search import SearchJob
from forewarp.tools.session import Executors

POLL_S = 0.05
GLANCE_S = 1.0
"""Seconds to wait for this slot's lock: a server that only looks holds it for a moment, a worker for long."""


class SlotExecutors(Executors):
    """The executors of one of several processes that share a place's devices, and may be ended alone.

    The first process finds out how many there may be; the others are told.
    """

    def __init__(self, number: int, found: Callable[[Place, int], None]) -> None:
        """`number` counts from 0; `found` is called with each place that is opened, and its number of devices."""
        super().__init__()
        self._number, self._found = number, found

    def get(self, place: Place, task: Task) -> Executor:
        """Return an executor that measures on this slot's device of the place."""
        if self._number:
            device = f"cuda:{self._number}" if place.device == "cuda:all" else place.device
            return super().get(place.model_copy(update={"device": device}), task)
        # All of them, though one is used: those that are never asked are never started.
        executor = super().get(place, task)
        self._found(place, executor.devices)
        return executor


def measure(home: Path, keep_warm_s: float, number: int) -> int:
    """Take measurements until idle for `keep_warm_s` seconds; return soon if another process has this slot."""
    spool = Spool(home)

    def found(place: Place, devices: int) -> None:
        spool.has(place.model_dump(), devices)

    with spool.alone(slot_name(number), within_s=GLANCE_S) as ours:
        if not ours:
            return 0
        me = owner(os.getpid())
        with SlotExecutors(number, found) as executors:
            last = time.monotonic()
            while time.monotonic() - last < keep_warm_s and spool.folder.is_dir():
                mine = (j for j in spool.waiting() if number < spool.devices(j))
                taken = next((j for j in mine if spool.claim(j.id, me)), None)
                if taken is None:
                    time.sleep(POLL_S)
                    continue
                _measure(spool, taken, executors)
                last = time.monotonic()
    return 0


def _measure(spool: Spool, job: SpooledJob, executors: Executors) -> None:
    stop: list[threading.Timer] = []

    def stage(name: MeasureStage) -> None:
        spool.write(job.id, "stage", name)
        if name == "measuring" and (most := job.reserved.device_s) is not None:
            stop.append(threading.Timer(most, _out_of_budget, (spool, job, most)))
            stop[0].daemon = True
            stop[0].start()

    try:
        request = MeasureRequest.model_validate(job.request)
        result = measure_kernel(
            request, stage=stage, executors=executors, whole=lambda log: spool.write(job.id, "log.txt", log)
        )
        answer = {"result": result.model_dump(mode="json")}
    except Exception as e:
        answer = {"error": error_of(e)}
    finally:
        for timer in stop:
            timer.cancel()
    if spool.read(job.id, "result.json") is None:  # else it was ended meanwhile
        spool.write(job.id, "result.json", json.dumps(answer))


def _out_of_budget(spool: Spool, job: SpooledJob, seconds: float) -> None:
    """End this process with all that holds the device: the budget does not allow another second."""
    error = {
        "code": "budget",
        "message": f"the measurement was ended after {seconds:.1f} s of device time: no more was left of the budget",
        "hint": "call describe to see the budget; only the operator of the server can raise it",
        "retryable": False,
    }
    spool.write(job.id, "result.json", json.dumps({"error": error, "device_s": seconds}))
    processes.kill_tree(os.getpid())


def search(home: Path, job_id: str) -> int:
    """Do the search, or the verb, of one job; return 1 where it ended before its time."""
    from forewarp.report import artifacts
    from forewarp.tools.signals import stopping

    spool, error = Spool(home), None
    if (asked := spool.job(job_id)).kind == "verb":
        return verb(home, asked)
    try:
        with _opened(asked.request) as job:
            try:
                with stopping(job, logging.getLogger(__name__).warning, (signal.SIGTERM,)):
                    events = job.events()
                    try:
                        if "run_id" in asked.request:  # taken up, it counts as interrupted until its first event
                            next(events, None)
                    finally:
                        spool.write(job_id, "run", job.run_id)
                    for _ in events:
                        pass
            except Exception as e:
                error = e
            artifacts.leave(job, "optimize", error, home / "forewarp-runs" / job.run_id)
    except ForewarpError as e:
        spool.write(job_id, "result.json", json.dumps({"error": error_of(e)}))
        return 1
    return int(error is not None)


def verb(home: Path, job: SpooledJob) -> int:
    """Do the verb of one job and write its result; return 1 where it ended with an error."""
    from forewarp.mcp_server.verb_jobs import REQUESTS
    from forewarp.tools.long_verbs import run_verb, spent_by, told

    spool = Spool(home)
    try:
        request = REQUESTS[job.task].model_validate(job.request)
        folder = home / "forewarp-runs" / f"w-{job.id[2:]}"
        result = run_verb(request, folder=folder, stage=lambda said: spool.write(job.id, "stage", said))
        spent = {name: amount for name, amount in spent_by(result).model_dump().items() if amount is not None}
        whole = job.task == "tune"  # whose answer is made of all of it
        answer: dict[str, Any] = {"result": result.model_dump(mode="json") if whole else told(result), "spent": spent}
    except Exception as e:
        answer = {"error": error_of(e)}
    spool.write(job.id, "result.json", json.dumps(answer))
    return int("error" in answer)


def _opened(request: dict[str, Any]) -> AbstractContextManager[SearchJob]:
    """Begin a run, or take up the one that the request names."""
    from forewarp.tools.requests import ResumeRequest, SearchRequest
    from forewarp.tools.search import open_search, resume_search

    if "run_id" in request:
        return resume_search(ResumeRequest.model_validate(request))
    return open_search(SearchRequest.model_validate(request))


if __name__ == "__main__":
    folder, *rest = sys.argv[1:]
    sys.exit(search(Path(folder), rest[0]) if len(rest) == 1 else measure(Path(folder), float(rest[0]), int(rest[1])))
