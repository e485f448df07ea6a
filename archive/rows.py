"""Frozen rows that reads of the archive return, with their values already built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from forewarp.core.protocols import Proposal
from forewarp.core.values import (
    Build,
    Candidate,
    Cost,
    Decision,
    Forecast,
    GateOutcome,
    Measurement,
    RatedPlan,
    Signature,
    Target,
    Task,
)

RunStatus = Literal["running", "finished", "interrupted", "failed"]
Purpose = Literal["candidate", "confirm", "direct"]
SpendKind = Literal["measurement", "device_s", "dollars", "tokens", "wall_s"]

REJECTED: tuple[GateOutcome, ...] = ("malformed", "duplicate", "same_code", "compile_error")
"""Outcomes of the gate that reject a candidate."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """One search run; times are UTC in ISO form. `owner` names the process at work on it (`search.lease`), or is ""."""

    id: str
    task: Task
    target: Target
    settings: Mapping[str, Any]
    status: RunStatus
    reason: str
    created: str
    finished: str
    version: str
    environment: Mapping[str, str]
    owner: str


@dataclass(frozen=True, slots=True)
class MeasurementRow:
    """One measurement: `measurement` is None while it is announced only, `run` and `proposal` if made directly."""

    id: int
    run: str | None
    proposal: int | None
    purpose: Purpose
    task_sha256: str
    target_name: str
    candidate: Candidate
    anchor: str
    state: Literal["started", "done"]
    started: str
    finished: str
    build: Build | None
    measurement: Measurement | None


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """One proposal of a run with all that happened to it.

    `forecast` and `decision` are the latest ones; both are made before the candidate is measured, never after.
    `measurement` is the candidate's own, not the confirmation. `decided_round` is the round of `decision`, or None.
    """

    proposal: int
    round: int
    position: int
    candidate: Candidate
    proposer: str
    parent: str
    mate: str
    operator: str
    note: str
    cost: Cost
    plan: RatedPlan | None
    outcome: GateOutcome
    reason: str
    build: Build | None
    forecast: Forecast | None
    forecast_round: int | None
    decision: Decision | None
    decided_round: int | None
    measurement_id: int | None
    measurement: Measurement | None

    @classmethod
    def proposed(cls, number: int, round: int, position: int, proposal: Proposal) -> Self:
        p = proposal
        return cls(
            *(number, round, position, p.candidate, p.proposer, p.parent, p.mate, p.operator, p.note, p.cost, p.plan),
            *("pending", "", None, None, None, None, None, None, None),
        )


@dataclass(frozen=True, slots=True)
class DecisionRow:
    """One decision: a candidate that was skipped may be decided on again in a later round."""

    proposal: int
    round: int
    decision: Decision


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event of a run: `type` is the class name in `search.events`, `data` its fields."""

    run: str
    seq: int
    time: str
    type: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Origin:
    """Provenance of a pool's row: its parent's identity, or program's key, and the published set that it is from.

    `source_id` is its name in that set, `raw_sha256` the hash of its text there, with comments. `features` is JSON.
    """

    family: str = ""
    split: str = ""
    parent: str = ""
    proposer: str = ""
    source_dataset: str = ""
    source_id: str = ""
    raw_sha256: str = ""
    tags: tuple[str, ...] = ()
    features: str = ""


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """A rated plan with the measurement of the kernel that was written from it."""

    task: str
    family: str
    target: str
    candidate: Candidate
    rated: RatedPlan
    measurement: Measurement


@dataclass(frozen=True, slots=True)
class RecordedRow:
    """A finished measurement with its task and target; `against` is None where its anchor is the reference."""

    task: Task
    target: Target
    signatures: tuple[Signature, ...]
    candidate: Candidate
    build: Build
    measurement: Measurement
    run: str | None
    finished: str
    version: str
    against: Candidate | None = None
    origin: Origin = Origin()
