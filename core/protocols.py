"""Protocols between the parts of the engine. Each implementation passes its contract tests (`tests/contracts/`)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

from forewarp.core.values import (
    Build,
    Candidate,
    Cost,
    Evidence,
    Forecast,
    GateOutcome,
    Measurement,
    RatedPlan,
    Signature,
    Target,
    Task,
)


@dataclass(frozen=True, slots=True)
class Subject:
    """A candidate that passed the gate, as forecasters see it."""

    candidate: Candidate
    build: Build


@dataclass(frozen=True, slots=True)
class Trial:
    """A subject with its measurement: the data that forecasters and proposers learn from."""

    subject: Subject
    measurement: Measurement


@dataclass(frozen=True, slots=True)
class Proposal:
    """A candidate with the identities of what it was made from, the kind of change, and the plan if there was one."""

    candidate: Candidate
    proposer: str
    parent: str = ""
    note: str = ""
    cost: Cost = field(default_factory=Cost)
    mate: str = ""
    operator: str = ""
    plan: RatedPlan | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """A proposal of the run with its results so far: `outcome` and `reason` are the gate's."""

    proposal: Proposal
    outcome: GateOutcome = "pending"
    reason: str = ""
    build: Build | None = None
    forecast: Forecast | None = None
    measurement: Measurement | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """History that a proposer may learn from: this run's attempts in order, and all trials of task and target.

    `seen` are identities of attempts. `signatures` are the task's on the target, empty while they are not known.
    """

    attempts: Sequence[Attempt] = ()
    trials: Sequence[Trial] = ()
    seen: AbstractSet[str] = frozenset()
    signatures: Sequence[Signature] = ()


@runtime_checkable
class Executor(Protocol):
    """Compiles and measures candidates on one target, from several threads; measurements are serialised per device.

    A candidate's failure is a value. Raises `WorkerError` when the measuring process is lost.
    """

    @property
    def target(self) -> Target:
        """The device that this executor measures on."""
        ...

    @property
    def devices(self) -> int:
        """Number of candidates that can be measured at once."""
        ...

    def candidates(self, task: Task) -> tuple[Candidate, ...] | None:
        """Return the candidates with recorded answers, where these are looked up, not measured; None for any."""
        ...

    def describe(self, task: Task) -> tuple[Signature, ...]:
        """Return one signature per workload of the target's kind; raises `TaskError` if the reference fails."""
        ...

    def compile(self, task: Task, candidate: Candidate) -> Build:
        """Compile for the target; needs no free device. Raises `CandidateError` for what is no candidate at all."""
        ...

    def measure(
        self,
        task: Task,
        candidate: Candidate,
        build: Build,
        against: Subject | None = None,
        beat: float | None = None,
    ) -> Measurement:
        """Check and time the candidate in one session, against the task's reference or another kernel.

        Timing ends (`stopped_early`) as soon as it can hardly reach the speed-up `beat`. Raises `UsageError` where this
        executor cannot time the two against each other.
        """
        ...

    def close(self) -> None:
        """End every process of this executor; safe to call twice."""
        ...


@runtime_checkable
class Tracer(Protocol):
    """An executor that finds out what a Python module launches without running it on a device."""

    def evidence(self, task: Task, candidate: Candidate) -> Evidence | None:
        """Return the facts about a module before it runs; None for a candidate whose build has them."""
        ...


def with_evidence(executor: Executor, task: Task, candidate: Candidate, build: Build) -> Build:
    """Return the build of a module with the evidence of its trace, if the executor is a `Tracer`."""
    known = build.evidence
    if build.status != "ok" or known.facts or known.problems or candidate.language != "python":
        return build
    evidence = executor.evidence(task, candidate) if isinstance(executor, Tracer) else None
    return build if evidence is None else replace(build, evidence=evidence)


@runtime_checkable
class SeedMaker(Protocol):
    """An executor that makes candidates of a task's reference by itself."""

    def make_seeds(self, task: Task) -> tuple[Candidate, ...]:
        """Return modules by torch's Inductor, the first of which ran; raises `TaskError`."""
        ...


@runtime_checkable
class ParallelCompiler(Protocol):
    """An executor that compiles on more than this machine's processor."""

    @property
    def compilers(self) -> int:
        """Number of candidates that it compiles at once."""
        ...


@runtime_checkable
class BoundedCompiler(Protocol):
    """An executor that can give a source less time to compile than usual."""

    def compile_within(self, task: Task, candidate: Candidate, cpu_s: int) -> Build:
        """Compile as `Executor.compile` in `cpu_s` seconds of processor time; status "timeout" where they do not do."""
        ...


@runtime_checkable
class VersionProbe(Protocol):
    """An executor that knows the versions of what it measures with."""

    def probe(self) -> dict[str, str]:
        """Return versions by name, such as torch's; raises `DeviceError` where they cannot be told."""
        ...


@runtime_checkable
class Forecaster(Protocol):
    """Forecasts the speed-up of candidates over the task's reference on a target."""

    @property
    def name(self) -> str:
        """Short name that results carry."""
        ...

    def forecast(
        self, task: Task, target: Target, subjects: Sequence[Subject], history: Sequence[Trial]
    ) -> list[Forecast]:
        """Return one forecast per subject, in order. `history` holds all trials of this task and target so far."""
        ...


@runtime_checkable
class ForecastMemory(Protocol):
    """A forecaster that learns from its own forecasts, or paid for them, and can be given them back after a resume."""

    def recall(self, task: Task, target: Target, forecasts: Mapping[str, Forecast]) -> None:
        """Take over the latest forecasts of an earlier process, by the candidate's identity."""
        ...


@runtime_checkable
class Proposer(Protocol):
    """Makes new candidates."""

    @property
    def name(self) -> str:
        """Short name that proposals carry."""
        ...

    def propose(self, task: Task, target: Target, known: Known, count: int, rng: random.Random) -> list[Proposal]:
        """Return up to `count` candidates that were not seen.

        Equal arguments give equal proposals, but for what a language model samples: memory of a run is `known` alone.
        """
        ...
