"""Check locked kernels: against their lock, or in a new environment against an old one, timed in turns."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import Field

from forewarp.core.errors import CandidateError, TaskError
from forewarp.core.languages import languages_on
from forewarp.core.untrusted_text import clip
from forewarp.core.values import Target
from forewarp.gpu_runner import devices
from forewarp.tools import gate_verdicts as verdicts
from forewarp.tools import session as sessions
from forewarp.tools import wording
from forewarp.tools.gate_lock import KernelAtHand, LockedKernel, launches_of, locked_measurement, read_lock
from forewarp.tools.gate_rounds import PairedRounds, TimedKernel
from forewarp.tools.gate_verdicts import OPEN, WORSE, GateVerdict
from forewarp.tools.inspect_kernel import KernelInspection
from forewarp.tools.parts import SCHEMA_VERSION, Device, Interval, OnStage, Part, Place, unwatched
from forewarp.tools.requests import GateCheckRequest
from forewarp.tools.session import Executors

_TELLING = 20.0
"""Most percent within which that a kernel is the same is worth saying."""
GateStatus = Literal["passed", "worse", "open", "interrupted"]


class GateShape(Part):
    """One shape that was timed in both environments."""

    name: str
    verdict: GateVerdict
    ratio: Interval | None = Field(description="New time / old time with its 95 % interval; null after one round.")
    rounds: int


class GateRow(Part):
    """One locked kernel."""

    path: str
    tunables: dict[str, int]
    task: str
    verdict: GateVerdict
    reasons: list[str] = Field(description="What the verdict rests on.")
    shapes: list[GateShape] = Field(default_factory=list[GateShape])
    changes: list[str] = Field(default_factory=list[str], description="What differs otherwise; it decides nothing.")
    log: str = ""


class GateResult(Part):
    """Result of a check: a row for each locked kernel."""

    summary: str
    schema_version: int = SCHEMA_VERSION
    status: GateStatus
    lock: str
    against: Literal["lock", "environment"]
    device: Device | None = Field(description="Null where nothing was timed.")
    threshold: float
    alarm_error: float | None = Field(
        description="Bound on the chance that any kernel is called slower or faster whose median round differs by the "
        "threshold at most; null against the lock."
    )
    versions: list[dict[str, str]] = Field(description="Of each Python that was named; empty where none was started.")
    measurements: int
    device_s: float
    rows: list[GateRow]


@dataclass(slots=True)
class _State:
    """Knowledge of one kernel so far; the verdict is the worst of what was found."""

    files: KernelAtHand
    reasons: dict[GateVerdict, list[str]] = field(default_factory=dict[GateVerdict, list[str]])
    shapes: list[GateShape] = field(default_factory=list[GateShape])
    changes: list[str] = field(default_factory=list[str])
    log: str = ""

    @property
    def kernel(self) -> LockedKernel:
        return self.files.locked

    def say(self, verdict: GateVerdict, reason: str, log: str = "") -> None:
        self.reasons.setdefault(verdict, []).append(reason)
        self.log = self.log or clip(log)

    @property
    def verdict(self) -> GateVerdict:
        return next(v for v in ORDER if v in self.reasons or (v == "not compared" and not self.reasons))

    @property
    def failed(self) -> bool:
        """True if there is nothing to time."""
        return bool({"does not compile", "wrong", "not compared"} & self.reasons.keys())

    def row(self) -> GateRow:
        reasons = self.reasons.get(self.verdict, ["nothing of it can be compared here: it runs on another device"])
        kernel = self.kernel
        found = {"shapes": self.shapes, "changes": self.changes, "log": self.log}
        return GateRow.of(kernel, verdict=self.verdict, reasons=reasons, **found)


ORDER: tuple[GateVerdict, ...] = (
    "does not compile",
    "wrong",
    "slower",
    "likely slower",
    "not compared",
    "too noisy",
    "faster",
    "same",
)
"""Verdicts of a kernel, the one that goes before others first."""


def check_gate(
    request: GateCheckRequest, *, stage: OnStage = unwatched, stopped: Callable[[], bool] = lambda: False
) -> GateResult:
    """Check every kernel of a lock; once `stopped` says so, the rest is left for the next call.

    Raises `UsageError` for a lock that cannot be read, `DeviceError` where the device asked for, a Python or its torch
    is missing, and `WorkerError`.
    """
    path = Path(request.lock).expanduser().absolute()
    lock = read_lock(path)
    target = None if request.device == "none" else devices.choose(request.device)
    with Executors() as executors:
        states = [_State(KernelAtHand(k, path.parent, executors)) for k in lock.kernels]
        for state in states:
            _note_source(state)
        check = _Check(request, states, target, stage, stopped)
        if len(request.python) == 2:
            check.compare_environments(request.python[0], request.python[1])
        else:
            check.compare_with_lock(request.python[0] if request.python else None)
        return check.result(path)


def _note_source(state: _State) -> None:
    locked, files = state.kernel, state.files
    try:
        if files.candidate.sha256 != locked.sha256:
            state.changes.append("the source has changed since the lock")
        if files.task.sha256 != locked.task_sha256:
            state.changes.append("the task has changed since the lock")
    except CandidateError as e:
        state.say("does not compile", e.message)
    except TaskError as e:
        state.say("not compared", e.message)


@dataclass(slots=True)
class _Check:
    """One check in progress."""

    request: GateCheckRequest
    states: list[_State]
    target: Target | None
    stage: OnStage
    stopped: Callable[[], bool]
    timed: bool = False
    interrupted: bool = False
    measurements: int = 0
    device_s: float = 0.0
    versions: list[dict[str, str]] = field(default_factory=list[dict[str, str]])

    def compare_with_lock(self, python: str | None) -> None:
        """Compare machine code, forecasts, outputs, and times where the lock has some of this device."""
        place = Place(device=self.request.device, archive=self.request.archive, python=python)
        for state in self._open():
            if self._spend(0, 0.0):
                self.interrupted = True
                state.say("not compared", "it is left")
                continue
            self.stage(f"checking {state.kernel.path}")
            self._compare_code(state, python, None)
            if self._runs(state.kernel) and not state.failed:
                self._measure_again(state, place)

    def _compare_code(self, state: _State, python: str | None, old: str | None) -> None:
        """Compare machine code with that of the `old` environment, or with the lock; what is timed needs no check.

        Where times are taken in turns, they decide, and not the code.
        """
        kernel, margin, runs = state.kernel, self.request.margin, self._runs(state.kernel)
        for number, (target, before) in enumerate(kernel.compiled.items()):
            try:
                check = self.request.check and not runs and not number
                past = None if old is None else state.files.inspect(target, old)
                found = state.files.inspect(target, python, check=check)
            except TaskError as e:
                state.say("not compared", e.message)
                return
            if found is None or not _compiles(state, found, target):
                return
            if past is not None and past.status != "ok":
                why = past.log.partition("\n")[0]
                state.say("not compared", f"{target}: it does not compile in the old environment: {why}", past.log)
                return
            codes = (launches_of(past) if past else before), launches_of(found)
            signs = [] if past and runs else verdicts.signs_of_slower(*codes)
            if old is None:
                now = state.files.forecast(target, python)
                signs.append(verdicts.forecast_sign(kernel.forecasts.get(target), now, margin))
            changes = verdicts.differences(*codes)
            _heed_code(state, target, [s for s in signs if s], changes, launched=any(codes))
            _heed_check(state, found)

    def _measure_again(self, state: _State, place: Place) -> None:
        kernel, start = state.kernel, time.monotonic()
        try:
            result = state.files.measure(place)
        except TaskError as e:
            state.say("not compared", e.message)
            return
        self.measurements, self.timed = self.measurements + 1, True
        self.device_s += result.cost.device_s or time.monotonic() - start
        if result.status == "compile_error":
            state.say("does not compile", f"on {result.device.name}", result.log)
        elif result.status != "ok":
            # A module may need a GPU; that this one does not is known from times only.
            needs_gpu = kernel.language == "python" and result.device.kind == "cpu" and not kernel.measured
            state.say("not compared" if needs_gpu else "wrong", result.summary, result.log)
        elif not result.trusted or result.speedup is None:
            state.say("not compared", result.summary, result.log)
        elif (before := kernel.measured.get(result.device.name)) is None:
            state.say("same", f"outputs; times of {result.device.name} are not in the lock")
        elif before.versions.get("torch") != (now := locked_measurement(result, place)).versions.get("torch"):
            torch = f"{before.versions.get('torch')} → {now.versions.get('torch')}"
            state.say("same", f"outputs; times are not compared: with torch {torch} the reference may be another")
        elif sign := verdicts.times_sign(before, now, self.request.margin):
            disturbed = verdicts.disturbed_words(before, now)
            verdict: GateVerdict = "too noisy" if disturbed else "likely slower"
            state.say(verdict, f"{result.device.name}: {sign}{disturbed}")
        else:
            state.say("same", f"{result.device.name}: outputs and times, as far as another day can tell")

    def compare_environments(self, old: str, new: str) -> None:
        """Compare machine code in two environments, then times; without a device, outputs by a run on the CPU."""
        for state in self._open():
            self.stage(f"compiling {state.kernel.path}")
            self._compare_code(state, new, old)
        states = [s for s in self._open() if self._runs(s.kernel)]
        if self.target is None or not states:
            return
        self.timed = True
        kernels: list[TimedKernel] = []
        for state in states:
            # What the locked tasks' code does in the process that they share was seen when they were locked.
            alone = self.target.kind == "cuda" and state.files.task.sha256 != state.kernel.task_sha256
            state.changes += ["it was timed in processes of its own, because its task is not the locked one"] * alone
            kernels.append(TimedKernel(state.kernel.path, state.files.task, state.files.candidate, self.target, alone))
        archive = sessions.archive_path(Place(archive=self.request.archive))
        rounds = PairedRounds(kernels, (old, new), archive, self.request.margin, self.stage, self._spend)
        try:
            self.versions = rounds.run(devices.indices(self.request.device)[0] if self.target.kind == "cuda" else 0)
            self.interrupted = rounds.left
        finally:
            for state, kernel in zip(states, kernels, strict=True):
                _heed_times(state, kernel)

    def _open(self) -> list[_State]:
        return [s for s in self.states if not s.failed]

    def _runs(self, kernel: LockedKernel) -> bool:
        """Return whether a kernel is run: a module on a CPU where the lock has its times there, or no GPU kernels."""
        target = self.target
        if target is None or kernel.language not in languages_on(target.kind):
            return False
        if target.kind == "cuda" or kernel.language != "python":
            return True
        return target.name in kernel.measured or (bool(kernel.compiled) and not any(kernel.compiled.values()))

    def _spend(self, measurements: int, device_s: float) -> bool:
        """Book what was measured; return whether nothing more may be."""
        self.measurements, self.device_s = self.measurements + measurements, self.device_s + device_s
        most_s, most = self.request.max_gpu_seconds, self.request.budget
        over = (most is not None and self.measurements >= most) or (most_s is not None and self.device_s >= most_s)
        return over or self.stopped()

    def result(self, lock: Path) -> GateResult:
        rows = [s.row() for s in self.states]
        two = len(self.request.python) == 2
        worse, open_ = (sum(r.verdict in group for r in rows) for group in (WORSE, OPEN))
        left: GateStatus = "interrupted" if self.interrupted else "open" if open_ else "passed"
        return GateResult(
            summary=_summary(rows, interrupted=self.interrupted),
            status="worse" if worse else left,
            lock=str(lock),
            against="environment" if two else "lock",
            device=Device.of(self.target) if self.target and self.timed else None,
            threshold=self.request.margin,
            alarm_error=verdicts.ALARM_ERROR if two and self.timed else None,
            versions=self.versions,
            measurements=self.measurements,
            device_s=self.device_s,
            rows=rows,
        )


def _compiles(state: _State, found: KernelInspection, target: str) -> bool:
    if found.status is None:
        state.say("not compared", found.log.partition("\n")[0], found.log)
    elif found.status != "ok":
        state.say("does not compile", f"for {target}", found.log)
    return found.status == "ok"


def _heed_code(state: _State, target: str, signs: Sequence[str], changes: Sequence[str], *, launched: bool) -> None:
    """Take over what machine code tells; where nothing is launched, before or after, it tells nothing."""
    for sign in signs:
        state.say("likely slower", f"{target}: {sign}")
    state.changes += [f"{target}: {text}" for text in changes]
    if launched:
        state.say(
            "same", f"{target}: {'other machine code, without a sign of being slower' if changes else 'machine code'}"
        )


def _heed_check(state: _State, found: KernelInspection) -> None:
    if found.check is not None and not found.check.sound:
        faults = "; ".join(f"{f.kind} at {f.where}" for f in found.check.findings)
        state.say("wrong", f"{found.check.how}, {found.check.status}: {found.check.message or faults}")


def _heed_times(state: _State, timed: TimedKernel) -> None:
    if timed.failure is not None and timed.failure.verdict is not None:
        state.say(timed.failure.verdict, timed.failure.reason, timed.failure.log)
        return
    for name, found in timed.shapes().items():
        verdict: GateVerdict = (found and found.verdict) or "too noisy"
        interval = found and Interval(ratio=found.ratio, low=found.low, high=found.high)
        ratios = timed.log_ratios(name)
        state.shapes.append(GateShape(name=name, verdict=verdict, ratio=interval, rounds=len(ratios)))
        said = f"{wording.slower(interval)} " if interval else ""
        said += f"after {wording.counted(len(ratios), 'round')}"
        if interval and verdict == "too noisy":
            least, most = (wording.change(math.exp(end(ratios))) for end in (min, max))
            said += (
                f", single ones from {least} to {most} %: new processes run it at other speeds, or other "
                "work disturbs them"
            )
            if (within := math.ceil(1000 * verdicts.decided_within(ratios)) / 10) <= _TELLING:
                error = f"at an error rate of {verdicts.ALARM_ERROR:.0%}"
                said += f". It is the same within {within:g} %, {error}: that is what --threshold {within:g}% would say"
        state.say(verdict, f"{name}: {said}")


def _summary(rows: Sequence[GateRow], *, interrupted: bool) -> str:
    counts = Counter(r.verdict for r in rows)
    said = ", ".join(f"{counts[v]} {v}" for v in ORDER if counts[v])
    left = " Something is left: run the same command again to go on." if interrupted else ""
    return f"{wording.counted(len(rows), 'locked kernel')}: {said or 'nothing to check'}.{left}"
