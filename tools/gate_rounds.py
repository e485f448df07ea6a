"""Rounds of a gate: kernels timed in two environments in turns, until each is decided; a killed check goes on."""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import Field, ValidationError

import forewarp
from forewarp.archive.store import Archive
from forewarp.core.errors import TaskError
from forewarp.core.files import writing
from forewarp.core.protocols import Subject
from forewarp.core.untrusted_text import clip
from forewarp.core.values import Build, Candidate, Measurement, Target, Task
from forewarp.gpu_runner.executors.alternating import AlternatingExecutors, PairedMeasurement
from forewarp.tools.gate_verdicts import ROUNDS, GateVerdict, PairedRatio, first_verdict
from forewarp.tools.parts import Part


class GateRound(Part):
    """One round of one kernel: its log-ratios of times (new / old) by shape, or, for good, how it failed."""

    kernel: str
    round: int
    log_ratios: dict[str, float] = Field(default_factory=dict[str, float])
    measurements: int = 0
    device_s: float = 0.0
    verdict: GateVerdict | None = None
    reason: str = ""
    log: str = ""


@dataclass(slots=True)
class TimedKernel:
    """A kernel to time, `alone` in its processes, and its rounds so far; `tests` shapes are judged together."""

    name: str
    task: Task
    candidate: Candidate
    target: Target
    alone: bool = False
    rounds: dict[int, GateRound] = field(default_factory=dict[int, GateRound])
    threshold: float = 0.0
    tests: int = 1

    @property
    def key(self) -> str:
        return f"{self.task.sha256} {self.candidate.sha256}"

    @property
    def workloads(self) -> list[str]:
        return [w.name for w in self.task.workloads[self.target.kind]]

    @property
    def failure(self) -> GateRound | None:
        return next((r for r in self.rounds.values() if r.verdict is not None), None)

    def log_ratios(self, workload: str) -> list[float]:
        """Return a shape's log-ratios in the order of rounds."""
        return [r.log_ratios[workload] for _, r in sorted(self.rounds.items()) if workload in r.log_ratios]

    def shapes(self) -> dict[str, PairedRatio | None]:
        """Judge each shape by the rounds so far; None where there are too few."""
        found = {name: self.log_ratios(name) for name in self.workloads}
        return {n: first_verdict(r, self.threshold, self.tests) if len(r) > 1 else None for n, r in found.items()}

    def is_open(self) -> bool:
        """Return whether another round may tell more."""
        if self.failure is not None:
            return False
        return any(found is None or found.verdict is None for found in self.shapes().values())


def read_rounds(journal: Path) -> Iterator[GateRound]:
    """Yield the rounds of a check in progress, a line of JSON each; one that a kill left unfinished is passed over."""
    for line in journal.read_bytes().splitlines() if journal.exists() else ():
        with suppress(ValidationError):
            yield GateRound.model_validate_json(line)


def keep_round(journal: Path, done: GateRound) -> None:
    """Add a round to the journal; raises `UsageError` where that cannot be written."""
    with writing(journal, "pass another --archive"):
        journal.parent.mkdir(parents=True, exist_ok=True)
        with journal.open("a", encoding="utf-8") as file:
            file.write(f"\n{done.model_dump_json()}\n")  # behind what a kill may have left of a line


class PairedRounds:
    """Times kernels in two environments. Each round has new servers, and times every kernel that is still open."""

    def __init__(
        self,
        kernels: Sequence[TimedKernel],
        pythons: tuple[str, str],
        archive: Path,
        threshold: float,
        stage: Callable[[str], None],
        spend: Callable[[int, float], bool],
    ) -> None:
        """`spend` books measurements and device seconds, and returns whether nothing more may be measured.

        If so, and something was to be, it is `left`.
        """
        self.kernels, self.pythons, self.archive = kernels, pythons, archive
        self.stage, self.spend, self.left = stage, spend, False
        for kernel in kernels:
            kernel.threshold, kernel.tests = threshold, sum(len(k.workloads) for k in kernels)

    def run(self, index: int = 0) -> list[dict[str, str]]:
        """Time until all is decided, or rounds or budget run out; return the versions of both environments.

        `index` chooses among several GPUs. Raises `DeviceError` for a missing Python or torch, and `WorkerError`; what
        was measured until then is kept for the next call.
        """
        target = self.kernels[0].target
        pair = AlternatingExecutors(target, self.pythons, index=index)
        try:
            versions = pair.probe()
            journal = self.archive.parent / "gate" / f"{self._key(target, versions)}.jsonl"
            over = False
            for done in read_rounds(journal):
                over = self._take(done) or over
            self.stage(f"compiling for {target.name}")
            pair.compile_all([(kernel.task, kernel.candidate) for kernel in self.kernels if kernel.is_open()])
            with Archive(self.archive) as archive:
                for number in range(1, ROUNDS[-1] + 1):
                    left = [k for k in self.kernels if k.is_open() and number not in k.rounds]
                    if left and number > 1:
                        pair.renew()
                    order = random.Random(f"{journal.name} {number}")
                    for place, kernel in enumerate(order.sample(left, len(left)), 1):
                        self.left = over or self.spend(0, 0.0)
                        if self.left:
                            return versions
                        self.stage(f"round {number}, {place} of {len(left)}: {kernel.name}")
                        done = _round(pair, archive, kernel, number, first=(number + order.randrange(2)) % 2)
                        keep_round(journal, done)
                        over = self._take(done)
            journal.unlink(missing_ok=True)  # the check has ended, and the next one begins anew
            return versions
        finally:
            pair.close()

    def _take(self, done: GateRound) -> bool:
        """Add a round to its kernel's; return whether nothing more may be measured."""
        for kernel in self.kernels:
            if kernel.key == done.kernel:
                kernel.rounds[done.round] = done
        return self.spend(done.measurements, done.device_s)

    def _key(self, target: Target, versions: list[dict[str, str]]) -> str:
        parts = [sorted(k.key for k in self.kernels), self.pythons, versions, target.name, forewarp.__version__]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]


def _round(pair: AlternatingExecutors, archive: Archive, kernel: TimedKernel, number: int, *, first: int) -> GateRound:
    """Measure a kernel in both environments, and record both."""
    task, candidate = kernel.task, kernel.candidate
    bare = GateRound(kernel=kernel.key, round=number)
    try:
        old, new = pair.compile(task, candidate)
        if failed := _uncompiled(old, new):
            return bare.model_copy(update=failed)
        measured = [archive.begin_measurement(task, kernel.target, candidate, against=candidate) for _ in range(2)]
        begun = time.monotonic()
        subjects = [Subject(candidate, build) for build in (old, new)]
        found = pair.measure(task, subjects, first, alone=kernel.alone)
    except TaskError as e:
        return bare.model_copy(update={"verdict": "not compared", "reason": e.message})
    for id_, measurement, build in zip(measured, (found.old, found.new), (old, new), strict=True):
        archive.finish_measurement(id_, measurement, build)
    spent = {"measurements": 2, "device_s": time.monotonic() - begun, "log_ratios": dict(found.log_ratios)}
    return bare.model_copy(update=spent | _failed(found))


def _uncompiled(old: Build, new: Build) -> dict[str, str]:
    """Return how a kernel failed that does not compile; empty for one that does."""
    if new.status != "ok":
        return {"verdict": "does not compile", "reason": _too(old.status), "log": clip(new.log)}
    if old.status != "ok":
        return {"verdict": "not compared", "reason": "it does not compile in the old environment", "log": clip(old.log)}
    return {}


def _failed(found: PairedMeasurement) -> dict[str, str]:
    """Return how a measured kernel failed; empty for one that was right, and timed, in both environments."""
    old, new = found.old, found.new
    if new.status not in ("ok", "out_of_memory"):
        return {"verdict": "wrong", "reason": f"{_said(new)}{_too(old.status)}", "log": clip(new.log)}
    for where, one in (("old", old), ("new", new)):
        if not one.trusted:
            return {
                "verdict": "not compared",
                "reason": f"{_said(one)} in the {where} environment",
                "log": clip(one.log),
            }
    return {}


def _said(measurement: Measurement) -> str:
    return (measurement.status if measurement.status != "ok" else measurement.verdict).replace("_", " ")


def _too(status: str) -> str:
    return "" if status == "ok" else f" (in the old environment, too: {status.replace('_', ' ')})"
