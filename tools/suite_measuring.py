"""Measurements of a suite: those that its record lacks, on all devices, recorded one by one.

The record is one line of JSON for each measurement, written as soon as it is there.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from forewarp.archive.store import Archive
from forewarp.core.errors import TaskError, UsageError, WorkerError
from forewarp.core.files import writing
from forewarp.core.protocols import Executor
from forewarp.core.untrusted_text import model_json
from forewarp.core.values import Candidate, Target, Task
from forewarp.gpu_runner.executors.client import readable
from forewarp.gpu_runner.pipeline import FinishedJob, Job, compile_threads, measure_jobs
from forewarp.tools.measured import MeasureResult, result_of
from forewarp.tools.parts import SCHEMA_VERSION, Part

NAME = "results.jsonl"
_ELSEWHERE = "pass another folder with --output DIR"


class Entry(Part):
    """One line: what was measured, under which versions, and what came of it.

    Where there is no `result`, `error` says why: the reference cannot be run (`of_problem`), or the kernel is none.
    """

    key: str
    schema_version: int = SCHEMA_VERSION
    problem: str
    problem_sha256: str
    kernel_sha256: str
    device: str
    versions: dict[str, str]
    result: MeasureResult | None = None
    error: str = ""
    of_problem: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """The lines of a suite's folder by key, the last one of each; new ones are appended."""

    path: Path
    target: Target
    versions: Mapping[str, str]
    entries: dict[str, Entry] = field(default_factory=dict[str, Entry])

    def key(self, task: Task, candidate: Candidate) -> str:
        """Return the identity of a measurement: problem, kernel, device and versions."""
        parts = [task.sha256, candidate.sha256, self.target.name, self.target.arch, dict(self.versions)]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def get(self, task: Task, candidate: Candidate) -> Entry | None:
        return self.entries.get(self.key(task, candidate))

    def add(self, task: Task, candidate: Candidate, result: MeasureResult | None, **why: Any) -> None:
        """Record a measurement, or `error` and `of_problem`; it is on disk when this returns. Raises `UsageError`."""
        entry = Entry(
            key=self.key(task, candidate),
            problem=task.name,
            problem_sha256=task.sha256,
            kernel_sha256=candidate.sha256,
            device=self.target.name,
            versions=dict(self.versions),
            result=result,
            **why,
        )
        with writing(self.path, _ELSEWHERE), self.path.open("a", encoding="utf-8") as file:
            file.write(model_json(entry) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.entries[entry.key] = entry


@contextmanager
def opened(folder: Path, target: Target, versions: Mapping[str, str]) -> Generator[Record]:
    """Open the record of a folder, which is made where there is none, against every other process.

    A line that a kill left unfinished is cut off; lines of other versions of the format are kept and not used. Raises
    `UsageError` where the folder cannot be written, or another suite is at work in it.
    """
    path = folder / NAME
    with writing(path, _ELSEWHERE):
        folder.mkdir(parents=True, exist_ok=True)
        lock = path.open("a+b")
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another suite is at work in {folder}", hint="wait for it, or pass another folder with --output DIR"
            ) from None
        lock.seek(0)
        text = lock.read()
        whole = text[: text.rfind(b"\n") + 1]
        lock.truncate(len(whole))
        yield Record(path, target, versions, {e.key: e for line in whole.splitlines() if (e := _read(line))})


def _read(line: bytes) -> Entry | None:
    with contextlib.suppress(ValueError, ValidationError):
        data: Any = json.loads(line)
        entry = Entry.model_validate(data)
        return entry if entry.schema_version == SCHEMA_VERSION else None
    return None


COMPILED = "torch.compile"
"""Name of the reference under torch.compile in progress reports."""

MOST_LOST = 3
"""Measurements lost in a row with their process after which the suite ends: the device seems to be gone."""

_THREADS_PER_DEVICE = 8


@dataclass(frozen=True, slots=True)
class SuiteProblem:
    """A problem with its kernels by name; a kernel that cannot be measured is a text that says why."""

    name: str
    task: Task
    kernels: dict[str, Candidate | str]
    compiled: Candidate | None = None

    def candidates(self) -> Iterator[tuple[str, Candidate]]:
        """Yield what is to be measured with its name, the reference under torch.compile first."""
        kernels = [(name, kernel) for name, kernel in self.kernels.items() if isinstance(kernel, Candidate)]
        if self.compiled is not None and kernels:
            yield COMPILED, self.compiled
        yield from kernels


@dataclass(frozen=True, slots=True)
class SuiteProgress:
    """Progress of a suite: `done` of `total` measurements, the last one of them being this kernel's.

    `recorded` of them were there before. `said` is the verdict, or how the kernel failed; `left_s` is how long the rest
    will take at the pace so far.
    """

    done: int
    total: int
    recorded: int
    left_s: float
    problem: str
    kernel: str
    said: str


@dataclass(slots=True)
class SuiteMeasuring:
    """One process's part of a suite. `retry_failed` measures again what is recorded and did not work."""

    executor: Executor
    archive: Archive
    record: Record
    retry_failed: bool = False
    progress: Callable[[SuiteProgress], None] = lambda _: None
    stopped: Callable[[], bool] = lambda: False
    lost: dict[str, str] = field(default_factory=dict[str, str])
    """Errors of measurements that were lost with their process, by key; the next call repeats these."""
    _numbers: dict[str, int] = field(default_factory=dict[str, int])
    _in_a_row: int = 0

    def run(self, problems: Sequence[SuiteProblem]) -> None:
        """Measure until all is recorded or `stopped` says so.

        Equal kernels are measured once. Raises `DeviceError`, and `WorkerError` where the device seems to be gone.
        """
        names = {
            self.record.key(p.task, candidate): (p, name, candidate)
            for p in reversed(problems)
            for name, candidate in reversed(list(p.candidates()))
        }
        jobs = [Job(p.task, candidate) for key, (p, _, candidate) in reversed(names.items()) if self._is_wanted(key)]
        here = max(1, min(_THREADS_PER_DEVICE * self.executor.devices, (os.cpu_count() or 1) - 1))
        outcomes = measure_jobs(
            self.executor,
            jobs,
            threads=compile_threads(self.executor, here),
            devices=self.executor.devices,
            describe=True,
            started=self._announce,
            stopped=self.stopped,
        )
        recorded, begun = len(names) - len(jobs), time.monotonic()
        try:
            for done, outcome in enumerate(outcomes, 1):
                key = self._key(outcome.job)
                said = self._keep(key, outcome)
                left_s = (time.monotonic() - begun) / done * (len(jobs) - done)
                problem, name, _ = names[key]
                self.progress(SuiteProgress(recorded + done, len(names), recorded, left_s, problem.name, name, said))
        finally:
            outcomes.close()

    def _is_wanted(self, key: str) -> bool:
        entry = self.record.entries.get(key)
        return entry is None or (self.retry_failed and (entry.result is None or entry.result.status != "ok"))

    def _key(self, job: Job) -> str:
        return self.record.key(job.task, job.candidate)

    def _announce(self, job: Job) -> None:
        number = self.archive.begin_measurement(job.task, self.executor.target, job.candidate)
        self._numbers[self._key(job)] = number

    def _keep(self, key: str, outcome: FinishedJob) -> str:
        """Record the outcome of a job, and return it in a word or two."""
        job, error = outcome.job, outcome.error
        if isinstance(error, WorkerError):
            self.archive.add_lost(None, error.lost_s, "measurement of a suite")
            self.lost[key] = readable(str(error))
            self._in_a_row += 1
            if self._in_a_row >= MOST_LOST:
                raise error
            return "lost"
        self._in_a_row = 0
        if outcome.build is None or outcome.measurement is None:
            why = readable(str(error))
            of_problem = isinstance(error, TaskError)
            self.record.add(job.task, job.candidate, None, error=why, of_problem=of_problem)
            return "the reference fails" if of_problem else "cannot be measured"
        number = self._numbers.get(key)
        if number is not None:
            self.archive.finish_measurement(number, outcome.measurement, outcome.build)
        result = result_of(
            job.task.name, self.executor.target, job.candidate, outcome.build, outcome.measurement, number
        )
        self.record.add(job.task, job.candidate, result)
        return f"{result.verdict} {result.speedup}" if result.status == "ok" else result.status
