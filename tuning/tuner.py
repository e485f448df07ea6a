"""Tuning a file's kernels: observe, forecast, compile the promising configurations, forecast again, measure few."""

from __future__ import annotations

import contextlib
import math
import os
import random
import shutil
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from forewarp.core import serde
from forewarp.core.errors import CandidateError, WorkerError
from forewarp.core.scratch import temporary_folder
from forewarp.core.trees import Array
from forewarp.core.values import Target
from forewarp.gpu_runner.executors.client import Reply, WorkerClient, readable
from forewarp.gpu_runner.worker.channel import MACHINE
from forewarp.gpu_runner.worker.requests import ConfinedFolder, WorkerJob
from forewarp.inspection.tracing.values import SourceFile
from forewarp.tuning import feedback, forecasts, physics
from forewarp.tuning.jobs import (
    CALLS,
    MISSING,
    TRITON_CACHE,
    CompileShareJob,
    DevicelessJob,
    KeepTimingsJob,
    ObserveCallsJob,
    Observed,
    TimeJob,
)
from forewarp.tuning.space import Space

OBSERVE_S, COMPILE_S, MEASURE_S = 180.0, 600.0, 600.0
MEMORY = 16 << 30
"""Bytes that a child without a device may take."""
MOST_JOBS = 16
MOST_PROBLEMS = 5
"""Reasons that are told why no kernel was found."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One configuration: its forecast, what the compiler said of it, and what was measured.

    `forecast` is its time over that of the configuration forecast fastest. `speedup`, with a 95 % interval, is over the
    baseline. None where it was not compiled or measured. `problem` says why it does not run, or how
    its results differ. `proposed` says that the author did not list it.
    """

    place: int
    label: str
    forecast: float
    registers: int | None = None
    spills: int | None = None
    shared: int | None = None
    measured_us: float | None = None
    speedup: float | None = None
    low: float | None = None
    high: float | None = None
    checked: bool = False
    proposed: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Tuned:
    """A kernel in one call, its configurations ordered: measured ones first, the fastest first, then by forecast.

    `baseline` is the place of the configuration that speed-ups are over.
    """

    observed: Observed
    tried: tuple[Tried, ...]
    baseline: int = 0
    protections: tuple[str, ...] = ()

    @property
    def best(self) -> Tried:
        """The first one that nothing speaks against: its results were compared, or it is the author's own."""
        return next((t for t in self.tried if _may_be_chosen(t)), self.tried[0])

    @property
    def measured(self) -> tuple[Tried, ...]:
        """Those that were measured, and give the first one's results or were not compared."""
        return tuple(t for t in self.tried if t.measured_us is not None and not t.problem)

    @property
    def timings(self) -> tuple[tuple[int, float | None], ...]:
        """Milliseconds by place of those that may be chosen: None of the best alone, where nothing was measured."""
        timed = [t for t in self.measured if _may_be_chosen(t)] or [self.best]
        return tuple((t.place, None if t.measured_us is None else t.measured_us / 1e3) for t in timed)


def _may_be_chosen(t: Tried) -> bool:
    return not t.problem and (t.checked or not t.proposed)


class Exploration:
    """Knowledge of a space so far: `order` of its configurations, forecast octaves, the compiler's facts."""

    def __init__(self, space: Space, octaves: Array, tried: dict[int, Tried], order: list[int]) -> None:
        self.tried, self.order = tried, order
        self.facts: dict[int, Mapping[str, Any]] = {}
        self.folders: list[Path] = []
        self._space, self._cold, self._octaves = space, octaves, octaves

    def add(self, facts: Mapping[int, Mapping[str, Any]], target: Target) -> None:
        """Put the compiler's facts into `tried`, and the compiled ones in their new order before the others."""
        tried, order, space = self.tried, self.order, self._space
        self.facts |= facts
        places = [i for i in order if i in self.facts] + [i for i in self.facts if i not in order]
        right = [i for i in places if "problem" not in self.facts[i]]
        for i in places:
            if i not in right:
                tried[i] = replace(tried[i], problem=self.facts[i]["problem"])
        if right:
            said = physics.CompilerFacts(
                *([float(self.facts[i][n]) for i in right] for n in ("registers", "spills", "shared"))
            )
            part = replace(
                space, configurations=[space.configurations[i] for i in right], grids=[space.grids[i] for i in right]
            )
            seconds = forecasts.forecast(part, target, said).seconds
            for i, s in zip(right, seconds, strict=True):
                said_of = {name: int(self.facts[i][name]) for name in ("registers", "spills", "shared")}
                problem = _refused(self.facts[i], target)
                tried[i] = replace(tried[i], forecast=float(s / seconds.min()), problem=problem, **said_of)
            runs = {i: math.log2(s) for i, s in zip(right, seconds, strict=True) if not tried[i].problem}
            self._octaves = feedback.with_compiled(self._cold, runs)
        head = sorted(right, key=lambda i: (bool((t := tried[i]).problem), t.forecast, t.proposed, t.label))
        codes = [self.facts[i]["code"] for i in head]
        same = [i for place, i in enumerate(head) if codes[place] in codes[:place]]  # compiled to one that came before
        head = [i for i in head if i not in same]
        self.order = [*head, *(i for i in order if i not in {*head, *same}), *same]

    def promising(self, among: Sequence[int] = ()) -> list[int]:
        """Return the configurations to measure next, the best first: no two of the same code, none with a problem."""
        measured = {i: math.log2(t.measured_us / 1e6) for i, t in self.tried.items() if t.measured_us and not t.problem}
        following = feedback.following(self.order, self._octaves, self._space.configurations, measured)
        codes = {self.facts[i].get("code") for i in measured if i in self.facts}
        return [
            i
            for i in following
            if not self.tried[i].problem
            and (not among or i in among)
            and (i not in self.facts or self.facts[i]["code"] not in codes)
        ]

    def fastest(self) -> list[int]:
        """Return the place of the fastest measured configuration, if there is one."""
        measured = [i for i, t in self.tried.items() if t.measured_us and not t.problem]
        return sorted(measured, key=lambda i: self.tried[i].measured_us or math.inf)[:1]


class Tuner:
    """Tunes the kernels of one file for a card; a context manager, because its children need an end."""

    def __init__(
        self, file: SourceFile, target: Target, python: str, *, reads: Sequence[str] = (), space: bool = False
    ) -> None:
        """`reads` names what the file may read beside its tools, such as the folder that it imports from.

        With `space`, configurations beyond the author's are looked at, too.
        """
        self._space = space
        self._file, self._target, self._reads = file, target, tuple(reads)
        self._worker = WorkerClient(python)
        self._folders = contextlib.ExitStack()
        self.device_s = 0.0
        """Seconds for which the device was held."""
        self.measuring_s = 0.0
        """Those of them in which configurations were launched, timed and compared, processes being there."""

    def stop(self) -> None:
        """End what another thread has done here: it gets a `WorkerError`. Safe to call twice."""
        self._worker.close()

    def __enter__(self) -> Tuner:
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.close()
        self._folders.close()

    def observe(self, calls: Sequence[str]) -> tuple[list[Observed], list[str]]:
        """Return the autotuned kernels of the calls, or of the file's own calls, and what went wrong on the way.

        Raises `CandidateError` where nothing in the file launches one.
        """
        with temporary_folder() as made:
            answer = self._without_device(ObserveCallsJob, made, OBSERVE_S, calls=tuple(calls))
        found = [serde.from_data(Observed, data) for data in answer["observed"]]
        problems: list[str] = answer["problems"]
        if not found:
            raise _nothing_launched(calls, answer["tuners"], problems)
        unique: dict[tuple[str, str], Observed] = {}
        for one in found:
            unique.setdefault((one.space.kernel, repr(one.space.arguments)), one)
        return list(unique.values()), problems

    def tune(
        self,
        observed: Observed,
        *,
        compiled: int,
        measured: int,
        baseline: int = 0,
        until: float = math.inf,
        stage: Callable[[str], None] = lambda _: None,
    ) -> Tuned:
        """Forecast all, compile the `compiled` best, and measure `measured` promising ones and the author's first.

        The second half of them is chosen by forecasts that the first half has corrected. Speed-ups are over the
        configuration at `baseline`, which is measured with both. Once the monotonic clock says `until`, nothing more is
        compiled or measured.

        Raises `NotCounted` where the kernel's text cannot be followed.
        """
        space, name = observed.space, observed.space.kernel
        times = forecasts.forecast(space, self._target)
        order, seconds = physics.fastest_first(times.seconds, [c.label for c in space.configurations]), times.seconds
        order = [i for i in order if i < observed.listed or times.fits[i]]
        tried = {
            i: Tried(i, space.configurations[i].label, float(seconds[i] / seconds.min()), proposed=i >= observed.listed)
            for i in order
        }
        state = Exploration(space, np.log2(seconds), tried, order)
        if compiled and time.monotonic() < until:
            stage(f"compiling {min(compiled, len(order))} of {len(order)} configurations of {name}")
            own = [i for i in order if not tried[i].proposed]
            self._compile(observed, state, [*order[:compiled], *own[: compiled // 2], 0, baseline], until)
        protections: tuple[str, ...] = ()
        first = math.ceil(measured / 2)
        for count, beside in ((first, [0, baseline]), (measured - first, [baseline])):
            chosen = state.promising()[:count]
            if not chosen or time.monotonic() >= until:
                break
            if compiled and (missing := set(chosen) - state.facts.keys()):
                stage(f"compiling {len(missing)} more configurations of {name}")
                self._compile(observed, state, chosen, until)
                chosen = state.promising(chosen)
            chosen += [i for i in dict.fromkeys([*state.fastest(), *beside]) if i not in chosen]
            chosen = [i for i in chosen if not tried[i].problem]
            stage(f"measuring {len(chosen)} configurations of {name}")
            protections = self._measure(observed, chosen, baseline, state.folders, tried)
        ranked = sorted(state.order, key=lambda i: (bool(tried[i].problem), tried[i].measured_us or math.inf))
        return Tuned(observed, tuple(tried[i] for i in ranked), baseline, protections)

    def keep_timings(self, tuned: Tuned, path: Path) -> str:
        """Have the file's Triton write a kernel's timings into a folder, as its own cache; return why it does not."""
        with temporary_folder() as made:
            launch = tuned.observed.launch
            answer = self._without_device(KeepTimingsJob, made, COMPILE_S, launch=launch, timings=tuned.timings)
            for found in (made / TRITON_CACHE).glob("*/*.autotune.json"):
                (path / found.parent.name).mkdir(parents=True, exist_ok=True)
                shutil.copy(found, path / found.parent.name)
        return str(answer["problem"])

    def _compile(self, observed: Observed, state: Exploration, places: Sequence[int], until: float) -> None:
        """Compile configurations that were not yet, in several children, and take in what the compiler said."""
        places = [i for i in dict.fromkeys(places) if i not in state.facts]
        seconds = min(COMPILE_S, max(1.0, until - time.monotonic()))
        count = min(MOST_JOBS, os.cpu_count() or 1, len(places))
        shares = [tuple(places[k::count]) for k in range(count)]
        folders = [self._folders.enter_context(temporary_folder()) for _ in shares]

        def compiled(folder: Path, places: tuple[int, ...]) -> dict[str, Any]:
            how: dict[str, Any] = {"launch": observed.launch, "places": places, "compile_s": seconds}
            return self._without_device(CompileShareJob, folder, COMPILE_S, **how)["facts"]

        with ThreadPoolExecutor(count) as pool:
            answers = list(pool.map(compiled, folders, shares))
        state.folders += [folder / TRITON_CACHE for folder in folders]
        state.add({int(place): found for answer in answers for place, found in answer.items()}, self._target)

    def _measure(
        self,
        observed: Observed,
        places: Sequence[int],
        baseline: int,
        folders: Sequence[Path],
        tried: dict[int, Tried],
    ) -> tuple[str, ...]:
        job = TimeJob(
            file=self._file,
            launch=observed.launch,
            places=tuple(places),
            compiled=tuple(str(f) for f in folders),
            seed=random.SystemRandom().randrange(1 << 30),
            space=self._space,
            seconds=0.8 * MEASURE_S,
            reads=self._reads,
        )
        start = time.monotonic()
        try:
            answer = self._run(job, MEASURE_S)
        finally:
            self.device_s += time.monotonic() - start
        self.measuring_s += answer["seconds"]
        timings = {t["place"]: t for t in answer["timings"]}
        base = timings.get(baseline, {"samples": []})["samples"]
        for place, timing in timings.items():
            samples = timing["samples"] if not timing["problem"] else []
            speedup, low, high = (1.0, 1.0, 1.0) if place == baseline else paired_ratio(base, samples)
            tried[place] = replace(
                tried[place],
                measured_us=statistics.median(samples) * 1e6 if samples else None,
                speedup=speedup,
                low=low,
                high=high,
                checked=place in answer["checked"],
                problem=timing["problem"],
            )
        return tuple(answer["protections"])

    def _without_device(self, kind: type[DevicelessJob], folder: Path, limit_s: float, **more: Any) -> dict[str, Any]:
        """Have a job of this kind done in a folder; `more` are the fields that not all kinds have."""
        job = kind(
            file=self._file,
            target=self._target,
            folder=ConfinedFolder(str(folder), MEMORY, int(limit_s) * (os.cpu_count() or 1), self._reads),
            space=self._space,
            seconds=0.8 * limit_s,
            **more,
        )
        return self._run(job, limit_s)

    def _run(self, job: WorkerJob, limit_s: float) -> dict[str, Any]:
        """Have a job done; raises `CandidateError` with what the file did wrong."""
        return _answer(self._worker.run(job, limit_s), limit_s)


def _nothing_launched(calls: Sequence[str], tuners: Mapping[str, int], problems: Sequence[str]) -> CandidateError:
    """Return the error where no autotuned kernel was launched; `tuners` counts configurations by kernel."""
    listing = "@triton.autotune(configs=[triton.Config({…}), …], key=[…])"
    what, hint = "no call of the file launches an autotuned kernel with several configurations", ""
    if calls:
        what = f"no autotuned kernel with several configurations is launched by {', '.join(calls)}"
    elif not tuners and not problems:
        what, hint = "the file has no kernel under @triton.autotune", f"put {listing} above one"
    elif tuners and max(tuners.values()) < 2:
        what, hint = f"there is nothing to choose for {', '.join(tuners)}", f"list several configurations: {listing}"
    if any("ModuleNotFoundError" in p for p in problems):
        hint = MISSING
    said = "".join(f"\n- {p}" for p in problems[:MOST_PROBLEMS])
    return CandidateError(what + said, hint=hint or f"have the file call them itself, or {CALLS}")


def _answer(reply: Reply, limit_s: float) -> dict[str, Any]:
    if reply.answer is None:
        why = f"it did not finish within {limit_s:.0f} s" if reply.timed_out else readable(reply.log)
        raise CandidateError(f"the file's code ended its process: {why}", hint="run the file under Python first")
    if reply.answer.get("status") == MACHINE:
        raise WorkerError(reply.answer["log"], hint="free some memory, and run the command again")
    if reply.answer.get("status") != "ok":
        hint = reply.answer.get("hint", "run the file under Python first")
        raise CandidateError(readable(reply.answer["log"]), hint=hint)
    return reply.answer


def _refused(facts: Mapping[str, Any], target: Target) -> str:
    available = target.shared_bytes or math.inf
    if facts["shared"] <= available:
        return ""
    return f"it needs {facts['shared']} bytes of shared memory, and a block has {available:.0f}"


def paired_ratio(first: Sequence[float], own: Sequence[float]) -> tuple[float | None, float | None, float | None]:
    """Return the ratio of two times with its 95 % interval, from samples of the same rounds; None for too few."""
    count = min(len(first), len(own))
    if count < 2:
        return None, None, None
    from scipy.special import stdtrit  # slow to import

    logs = np.log(np.array(first[:count])) - np.log(np.array(own[:count]))
    half = float(stdtrit(count - 1, 0.975) * logs.std(ddof=1) / math.sqrt(count))
    middle = float(logs.mean())
    return math.exp(middle), math.exp(middle - half), math.exp(middle + half)
