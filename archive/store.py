"""The archive: every write is a transaction, every read returns frozen rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from forewarp.archive.connection import Connection, default_path
from forewarp.archive.rows import (
    CandidateRow,
    EventRow,
    GateOutcome,
    MeasurementRow,
    Purpose,
    RecordedRow,
    RunRow,
    RunStatus,
    SpendKind,
)
from forewarp.core.protocols import Proposal, Trial
from forewarp.core.values import (
    Build,
    Candidate,
    Cost,
    Decision,
    Forecast,
    Measurement,
    Signature,
    Spend,
    Target,
    Task,
)

__all__ = ["Archive", "default_path"]


class Archive(Connection):
    """The record of all runs in one SQLite file: `with Archive(default_path()) as archive: …`.

    Group writes with `with archive.transaction():`. Reads of a run that does not exist raise `UsageError`.
    """

    # Runs

    def create_run(self, task: Task, target: Target, settings: Mapping[str, Any], environment: Mapping[str, str]) -> str:
        """Register a run and return its id, such as "r-7f3a2c"."""
        raise NotImplementedError

    def set_status(self, run: str, status: RunStatus, reason: str = "", owner: str = "") -> None:
        """Set the run's status; any status but "running" also sets the time at which it finished."""
        raise NotImplementedError

    def run(self, run: str) -> RunRow:
        """Return one run by id; a unique beginning of the id will do."""
        raise NotImplementedError

    def runs(self, *, status: RunStatus | None = None, limit: int = 50) -> list[RunRow]:
        """Return the latest runs, the newest first."""
        raise NotImplementedError

    # What happens in a run

    def add_proposals(self, run: str, round: int, proposals: Sequence[Proposal]) -> list[int]:
        """Record proposals of one round in order, with their cost; returns their ids."""
        raise NotImplementedError

    def set_outcome(self, proposal: int, outcome: GateOutcome, reason: str = "", build: Build | None = None) -> None:
        """Record what the gate said."""
        raise NotImplementedError

    def add_forecasts(self, run: str, round: int, forecasts: Mapping[int, Forecast]) -> None:
        """Record forecasts by proposal id, with their cost."""
        raise NotImplementedError

    def add_decisions(self, run: str, round: int, decisions: Mapping[int, Decision]) -> None:
        """Record decisions by proposal id."""
        raise NotImplementedError

    def add_event(self, run: str, type: str, data: Mapping[str, Any]) -> int:
        """Append an event and return its number in the run, from 1."""
        raise NotImplementedError

    def candidates(self, run: str) -> list[CandidateRow]:
        """Return every proposal of the run in order, joined with forecast, decision and measurement."""
        raise NotImplementedError

    def events(self, run: str, after: int = 0) -> list[EventRow]:
        """Return the run's events with a number above `after`."""
        raise NotImplementedError

    # Spend

    def add_spend(self, run: str | None, kind: SpendKind, amount: float, ref: str = "") -> None:
        """Append one entry to the ledger."""
        raise NotImplementedError

    def add_cost(self, run: str | None, cost: Cost, ref: str = "") -> None:
        """Append a model call's dollars and tokens to the ledger."""
        raise NotImplementedError

    def spend(self, run: str) -> Spend:
        """Return the totals of the run's ledger."""
        raise NotImplementedError

    # Measurements

    def begin_measurement(
        self,
        task: Task,
        target: Target,
        candidate: Candidate,
        *,
        run: str | None = None,
        proposal: int | None = None,
        purpose: Purpose = "direct",
    ) -> int:
        """Announce a measurement before it starts and book it in the ledger; returns its id.

        Within a run, one that was announced before and never got a result is taken up under its old id and is not
        booked again.
        """
        raise NotImplementedError

    def finish_measurement(self, measurement_id: int, measurement: Measurement, build: Build) -> None:
        """Record the result together with the device seconds that it took; a result is never changed afterwards."""
        raise NotImplementedError

    def record(
        self, task: Task, target: Target, candidate: Candidate, build: Build, measurement: Measurement
    ) -> int:
        """Record a measurement that was made outside of a run; returns its id."""
        raise NotImplementedError

    def measurement(self, measurement_id: int) -> MeasurementRow:
        """Return one measurement; raises `UsageError` if there is none."""
        raise NotImplementedError

    def measurements(
        self,
        *,
        task_sha256: str | None = None,
        target_name: str | None = None,
        run: str | None = None,
        kernel: str | None = None,
    ) -> list[MeasurementRow]:
        """Return measurements that match, in the order in which they started."""
        raise NotImplementedError

    def trials(self, task_sha256: str, target_name: str, run: str | None = None) -> list[Trial]:
        """Return what was measured for a task on a target, in order; of one run, or of all."""
        raise NotImplementedError

    def best(self, run: str) -> MeasurementRow | None:
        """Return the run's measurement with the highest speed-up that has an interval and is not suspicious."""
        raise NotImplementedError

    # What measurements are about

    def candidate(self, sha256: str) -> Candidate:
        """Return a recorded kernel by identity; a unique beginning will do. Raises `UsageError`."""
        raise NotImplementedError

    def add_signatures(self, task: Task, target: Target, signatures: Sequence[Signature]) -> None:
        """Record what the task looks like on the target, so that a pool can be replayed without the device."""
        raise NotImplementedError

    def recorded(
        self, *, task_sha256: str | None = None, target_name: str | None = None, run: str | None = None
    ) -> list[RecordedRow]:
        """Return finished measurements that match with their task and target, as pools hold them."""
        raise NotImplementedError
