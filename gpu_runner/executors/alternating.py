"""Time one kernel in two Python environments at once: a process of each, which take turns on the device.

Each process times the kernel against itself, in a few stretches of blocks. At the end of a stretch it asks how to go
on, and is not answered before its next turn. So the stretches of the two come in the order A BB AA BB … A: a slow drift
of the device cancels within each ABBA block. What a process does before its first stretch, such as checking, falls into
its turn on a CPU; on a GPU both do it at once, and the clock runs from when both have.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean, median
from typing import Final, TypeVar

from forewarp.core.errors import CandidateError, TaskError
from forewarp.core.protocols import Subject
from forewarp.core.values import Build, Candidate, DeviceKind, Measurement, Target, Task
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor
from forewarp.gpu_runner.worker.channel import LookAnswer
from forewarp.gpu_runner.worker.requests import TimingLook

T = TypeVar("T")
STRETCHES: Final = 8
"""Stretches of each process; a whole number of ABBA blocks."""
STRETCH_BLOCKS: Final = 1
"""Blocks of a stretch, of four samples each; native code and graphs get several times as many (`worker/timing.py`)."""
MEASURE_S: Final = 600.0
"""Time limit of a measurement, in which the other's turns count."""


def limits() -> Limits:
    """Return the limits of a process that takes turns: both share the memory, and each stretch ends with a look."""
    # Nobody is asked at the last look, so that there is one more than stretches.
    looks = tuple(STRETCH_BLOCKS * n for n in range(1, STRETCHES + 2))
    return Limits(measure_s=MEASURE_S, looks=looks, controls=False, memory_share=0.5)  # both arms are one kernel


class _Baton:
    """The right to use the device, which one of two sides has; a side that has left never gets it again."""

    def __init__(self, first: int) -> None:
        self.first, self._holder = first, first
        self._ready, self._left = set[int](), set[int]()
        self._changed = threading.Condition()

    def start(self, side: int) -> None:
        """Wait until both sides are ready, or the other has left, and for this side's turn."""
        with self._changed:
            self._ready.add(side)
            self._changed.notify_all()
            self._changed.wait_for(lambda: len(self._ready | self._left) == 2)
        self.take(side)

    def take(self, side: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._holder == side)

    def pass_on(self, side: int, *, leaving: bool = False) -> None:
        with self._changed:
            self._left |= {side} if leaving else set()
            if self._holder == side and 1 - side not in self._left:
                self._holder = 1 - side
            self._changed.notify_all()

    def is_alone(self, side: int) -> bool:
        with self._changed:
            return 1 - side in self._left


class _Side:
    """One process's turns; `counts` are the samples at the end of each stretch, by workload.

    The side that begins ends its turns after odd stretches, the other one after even ones.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.begin(_Baton(0))

    def begin(self, baton: _Baton) -> None:
        self.baton, self.ends_on = baton, int(baton.first == self.number)
        self.counts: dict[str, list[int]] = {}

    def __call__(self, look: TimingLook | None) -> LookAnswer:
        """End a turn where it is time to; say that a workload is done by an answer that leaves out what follows."""
        if look is None:
            self.baton.start(self.number)
            return "on"
        counts, taken = self.counts.setdefault(look.samples.workload, []), len(look.samples.candidate_s)
        if counts and taken <= counts[-1]:  # begun anew, such as a module that is no program after all
            counts.clear()
        counts.append(taken)
        if len(counts) % 2 == self.ends_on:
            self.baton.pass_on(self.number)
            self.baton.take(self.number)
        elif len(counts) >= STRETCHES and look.index + 1 == look.of:
            self.baton.pass_on(self.number)  # nothing is left to time: both compare once more, and end, at once
        return "beaten" if len(counts) >= STRETCHES or self.baton.is_alone(self.number) else "on"


@dataclass(frozen=True, slots=True)
class PairedMeasurement:
    """One kernel as measured in both environments; `log_ratios` are log(new / old), empty where one failed."""

    old: Measurement
    new: Measurement
    log_ratios: Mapping[str, float]


class AlternatingExecutors:
    """A server in each of two environments, for rounds of measurements, each begun by `renew`.

    On a GPU each has one process for all device-only kernels of a round.
    """

    def __init__(self, target: Target, pythons: tuple[str, str], *, cache: Path | None = None, index: int = 0) -> None:
        """`pythons` are the interpreters, the old one first; for `cache` and `index` see `LocalExecutor`."""
        self._sides = [_Side(number) for number in range(2)]
        self._checked = set[tuple[int, str, str]]()

        def executors() -> list[LocalExecutor]:
            most = limits()
            return [
                LocalExecutor(target, limits=most, python=python, cache=cache, index=index, turn=side)
                for python, side in zip(pythons, self._sides, strict=True)
            ]

        self._make, self._executors = executors, executors()

    def renew(self) -> None:
        """Have the next measurements made by new processes, on a CPU of new servers, whose memory a fork shares."""
        if self._executors[0].target.kind == "cuda":
            self._both(lambda number: self._executors[number].end_process())
        else:
            self.close()
            self._executors = self._make()

    def probe(self) -> list[dict[str, str]]:
        """Return the versions in both environments, starting their servers; raises `DeviceError` for lack of torch."""
        return self._both(lambda number: self._executors[number].probe())

    def compile_all(self, kernels: Sequence[tuple[Task, Candidate]]) -> None:
        """Compile kernels side by side into the cache, where `compile` finds them; it tells what fails."""

        def compiled(task: Task, candidate: Candidate) -> None:
            with contextlib.suppress(TaskError, CandidateError):
                self.compile(task, candidate)

        with ThreadPoolExecutor(len(os.sched_getaffinity(0)), thread_name_prefix="compile") as threads:
            for ended in [threads.submit(compiled, *kernel) for kernel in kernels]:
                ended.result()

    def compile(self, task: Task, candidate: Candidate) -> list[Build]:
        return [executor.compile(task, candidate) for executor in self._executors]

    def measure(self, task: Task, subjects: Sequence[Subject], first: int, *, alone: bool = False) -> PairedMeasurement:
        """Time one kernel in each environment; `first` (0 or 1) begins. Raises `TaskError` and `WorkerError`.

        Perturbed inputs are tried until a side has been right once. If `alone`, no other kernel has the processes.
        """
        cuda = self._executors[0].target.kind == "cuda"
        if alone and cuda:
            self.renew()
        try:
            return self._measure(task, subjects, first)
        finally:
            if alone and cuda:
                self.renew()

    def _measure(self, task: Task, subjects: Sequence[Subject], first: int) -> PairedMeasurement:
        baton = _Baton(first)
        for side, executor in zip(self._sides, self._executors, strict=True):
            side.begin(baton)
            executor.describe(task)  # outside of the turns: it runs the reference, or reads the cache

        def measured(number: int) -> Measurement:
            try:
                subject = subjects[number]
                key = number, task.sha256, subject.candidate.sha256
                found = self._executors[number].measure(
                    task, subject.candidate, subject.build, subject, checked=key in self._checked
                )
                self._checked |= {key} if found.status == "ok" else set()
                return found
            finally:
                baton.pass_on(number, leaving=True)  # also where it never took its turn

        with self._executors[0].held():
            self._both(lambda number: self._executors[number].open(task))  # at once: nothing is timed yet
            old, new = self._both(measured)
        kind, counts = self._executors[0].target.kind, [side.counts for side in self._sides]
        return PairedMeasurement(old, new, log_ratios(kind, (old, new), counts))

    def _both(self, act: Callable[[int], T]) -> list[T]:
        """Do something with each executor at the same time; raises the first one's error once both have ended."""
        with ThreadPoolExecutor(2, thread_name_prefix="side") as threads:
            begun = [threads.submit(act, number) for number in range(2)]
            try:
                wait(begun)
            except BaseException:  # Ctrl-C: the threads end once their processes do
                self.close()
                raise
        return [one.result() for one in begun]

    def close(self) -> None:
        for executor in self._executors:
            executor.close()


def log_ratios(
    kind: DeviceKind, measured: Sequence[Measurement], counts: Sequence[Mapping[str, Sequence[int]]]
) -> dict[str, float]:
    """Return log(new / old) by workload, of the stretches that both sides have.

    On a GPU it is the median over ABBA blocks. On a CPU others only ever add to a call's time, so that it is of the
    shortest calls of each side. `counts` are the samples at the end of each stretch.
    """
    old, new = (
        {w.workload: _stretches(w.candidate_s, w.anchor_s, ends.get(w.workload, ())) for w in m.workloads}
        for m, ends in zip(measured, counts, strict=True)
    )
    found: dict[str, float] = {}
    for workload in old.keys() & new.keys():
        pairs = list(zip(old[workload], new[workload], strict=False))
        if kind == "cpu":
            olds, news = zip(*pairs, strict=True)
            found[workload] = _least(chain(*news)) - _least(chain(*olds))
            continue
        ratios = [_level(n) - _level(o) for o, n in pairs]
        blocks = [fmean(pair) for pair in zip(ratios[::2], ratios[1::2], strict=False)]
        found[workload] = median(blocks or ratios)
    return found


def _stretches(candidate_s: Sequence[float], anchor_s: Sequence[float], ends: Sequence[int]) -> list[list[float]]:
    """Return the log times of each stretch; both arms are the same kernel."""
    ends = [*ends] if ends and ends[-1] == len(candidate_s) else [*ends, len(candidate_s)]
    starts = [0, *ends]
    return [
        [math.log(s) for s in (*candidate_s[start:end], *anchor_s[start:end])]
        for start, end in zip(starts, ends, strict=False)
    ]


def _level(values: Sequence[float]) -> float:
    cut = (len(values) + 1) // 5  # of a block of four the middle two
    return fmean(sorted(values)[cut : len(values) - cut])


def _least(values: Iterable[float]) -> float:
    """Return the mean of the lowest fiftieth, of one at least."""
    ordered = sorted(values)
    return fmean(ordered[: max(1, len(ordered) // 50)])
