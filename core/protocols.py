"""The seams of the engine. Every implementation passes the contract tests of its protocol (`tests/contracts/`)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from forewarp.core.values import Build, Candidate, Cost, Forecast, Measurement, Signature, Target, Task


@dataclass(frozen=True, slots=True)
class Subject:
    """A candidate that passed the gate, as forecasters see it."""

    candidate: Candidate
    build: Build


@dataclass(frozen=True, slots=True)
class Trial:
    """A subject with what was measured of it: what forecasters and proposers learn from."""

    subject: Subject
    measurement: Measurement


@dataclass(frozen=True, slots=True)
class Proposal:
    """A candidate with where it came from. `parent` is the identity of the candidate it was made from, or ""."""

    candidate: Candidate
    proposer: str
    parent: str = ""
    note: str = ""
    cost: Cost = field(default_factory=Cost)


@runtime_checkable
class Executor(Protocol):
    """Compiles and measures candidates on one target.

    Calls may come from several threads; measurements are serialised per device. A candidate's failure is a value with a
    status. Raises `WorkerError` when the measuring process is lost for a reason that is not the candidate's.
    """

    @property
    def target(self) -> Target:
        """The device that this executor measures on."""
        ...

    @property
    def devices(self) -> int:
        """How many candidates can be measured at once."""
        ...

    def candidates(self, task: Task) -> tuple[Candidate, ...] | None:
        """Return the only candidates that there are answers for, where answers are looked up; None where any will do.

        What is looked up is neither compiled nor run: it needs no launch plan, and asking again confirms nothing.
        """
        ...

    def describe(self, task: Task) -> tuple[Signature, ...]:
        """Return one signature per workload of the target's kind; raises `TaskError` if the reference fails."""
        ...

    def compile(self, task: Task, candidate: Candidate) -> Build:
        """Compile for the target; needs no free device. Raises `CandidateError` for what is no candidate at all."""
        ...

    def measure(self, task: Task, candidate: Candidate, build: Build, against: Subject | None = None) -> Measurement:
        """Check and time the candidate in one session, against the task's reference or against another kernel.

        Raises `UsageError` where this executor cannot time the two against each other.
        """
        ...

    def close(self) -> None:
        """End every process of this executor; safe to call twice."""
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
class Proposer(Protocol):
    """Makes new candidates."""

    @property
    def name(self) -> str:
        """Short name that proposals carry."""
        ...

    def propose(
        self, task: Task, target: Target, history: Sequence[Trial], seen: frozenset[str], count: int, rng: random.Random
    ) -> list[Proposal]:
        """Return up to `count` candidates whose identities are not in `seen`; fewer, or none, when ideas run out."""
        ...
