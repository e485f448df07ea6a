"""The archive: every write is a transaction, every read returns frozen values."""

from __future__ import annotations

import json
import math
import secrets
import sqlite3
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any, TypeVar, cast

import forewarp
from forewarp.archive import samples
from forewarp.archive.connection import Connection, default_path
from forewarp.archive.rows import (
    CandidateRow,
    DecisionRow,
    EventRow,
    MeasurementRow,
    Origin,
    PlanOutcome,
    Purpose,
    RecordedRow,
    RunRow,
    RunStatus,
    SpendKind,
)
from forewarp.core import serde
from forewarp.core.budget import Spend
from forewarp.core.errors import ArchiveError, UsageError
from forewarp.core.protocols import Proposal, Subject, Trial
from forewarp.core.values import (
    REFERENCE,
    Build,
    Candidate,
    Cost,
    Decision,
    Forecast,
    GateOutcome,
    Measurement,
    Signature,
    Target,
    Task,
)

__all__ = ["LATEST", "Archive", "default_path"]

T = TypeVar("T")

MAX_LOG_CHARS = 8000
LATEST = "latest"
"""Name of the latest run, in place of its id."""

_KERNEL = "k.source, k.language, k.tunables"
_MEASUREMENT = f"""
SELECT m.*, m.task AS task_sha256, m.target AS target_name, {_KERNEL}
FROM measurement m JOIN kernel k ON k.sha256 = m.kernel
"""
_CANDIDATES = f"""
SELECT p.*, p.id AS proposal, {_KERNEL}, f.data AS forecast, f.round AS forecast_round,
    d.action, d.reason AS decision_reason, d.score, d.numbers, d.round AS decided_round,
    m.id AS measurement_id, m.data AS measurement
FROM proposal p
JOIN kernel k ON k.sha256 = p.kernel
LEFT JOIN forecast f ON f.proposal = p.id AND f.round = (SELECT max(round) FROM forecast WHERE proposal = p.id)
LEFT JOIN decision d ON d.proposal = p.id AND d.round = (SELECT max(round) FROM decision WHERE proposal = p.id)
LEFT JOIN measurement m ON m.proposal = p.id AND m.purpose = 'candidate'
WHERE p.run = ? ORDER BY p.id
"""
_RECORDED = f"""
SELECT m.*, {_KERNEL}, t.data AS task_data, g.data AS target_data, coalesce(s.data, '[]') AS signatures,
    p.parent, p.proposer, a.source AS anchor_source, a.language AS anchor_language, a.tunables AS anchor_tunables
FROM measurement m
JOIN kernel k ON k.sha256 = m.kernel
JOIN task t ON t.sha256 = m.task
JOIN target g ON g.name = m.target
LEFT JOIN signature s ON s.task = m.task AND s.target = m.target
LEFT JOIN proposal p ON p.id = m.proposal
LEFT JOIN kernel a ON a.sha256 = m.anchor
WHERE m.state = 'done'
"""


class Archive(Connection):
    """The record of all runs in one SQLite file. Reads of what does not exist raise `UsageError`."""

    def run(self, run: str) -> RunRow:
        """Return one run by id, a unique beginning of the id, or `LATEST`. Raises `UsageError`."""
        if run == LATEST:
            for latest in self.runs(limit=1):
                return latest
            raise UsageError(
                f"there are no runs in {self.path} yet",
                hint="start one with `forewarp optimize softmax`, or pass --archive",
            )
        rows = self._rows("SELECT * FROM run WHERE id = ?", (run,)) or self._rows(
            "SELECT * FROM run WHERE substr(id, 1, length(?)) = ? LIMIT 2", (run, run)
        )
        if len(rows) == 1 and run:
            return self._built(_run, rows[0], "run")
        problem = f"several runs begin with {run!r}" if run and rows else f"there is no run {run!r} in {self.path}"
        latest = ", ".join(r.id for r in self.runs(limit=5)) or "none"
        raise UsageError(problem, hint=f"latest runs: {latest}")

    def runs(self, *, status: RunStatus | None = None, limit: int = 50) -> list[RunRow]:
        """Return the latest runs, the newest first."""
        rows = self._rows(
            "SELECT * FROM run WHERE status = coalesce(?, status) ORDER BY created DESC, rowid DESC LIMIT ?",
            (status, limit),
        )
        return [self._built(_run, r, "run") for r in rows]

    def candidates(self, run: str) -> list[CandidateRow]:
        """Return every proposal of the run in order, joined with forecast, decision and measurement."""
        return [self._built(_candidate_row, r, "proposal") for r in self._rows(_CANDIDATES, (run,))]

    def forecasts(self, run: str) -> list[tuple[int, Forecast]]:
        """Return every forecast of the run with its proposal's id, in the order made."""
        rows = self._rows("SELECT proposal, data FROM forecast WHERE run = ? ORDER BY round, proposal", (run,))
        with self.whole(f"a forecast of run {run}"):
            return [(int(r["proposal"]), _parsed(Forecast, r["data"])) for r in rows]

    def decisions(self, run: str) -> list[DecisionRow]:
        """Return every decision of the run, round by round, in the order of the proposals."""
        rows = self._rows(
            "SELECT *, reason AS decision_reason FROM decision WHERE run = ? ORDER BY round, proposal", (run,)
        )
        with self.whole(f"a decision of run {run}"):
            return [DecisionRow(r["proposal"], r["round"], _decision(r)) for r in rows]

    def events(self, run: str, after: int = 0) -> list[EventRow]:
        """Return the run's events with a number above `after`."""
        rows = self._rows("SELECT * FROM event WHERE run = ? AND seq > ? ORDER BY seq", (run, after))
        with self.whole(f"an event of run {run}"):
            return [_row(EventRow, r) for r in rows]

    def holdouts(self, run: str) -> dict[str, dict[str, Any]]:
        """Return the run's holdout results, on shapes that nobody tuned for, by the kernel's identity."""
        rows = self._rows("SELECT kernel, data FROM holdout WHERE run = ?", (run,))
        with self.whole(f"what run {run} found on shapes that nobody tuned for"):
            return {str(r["kernel"]): dict(json.loads(r["data"])) for r in rows}

    def signatures(self, task_sha256: str, target_name: str) -> tuple[Signature, ...]:
        """Return a task's signatures on a target, one per workload; empty if nothing was compiled for it."""
        row = self._one("SELECT data FROM signature WHERE task = ? AND target = ?", (task_sha256, target_name))
        with self.whole(f"the signatures of task {task_sha256[:10]}"):
            return _load(tuple[Signature, ...], row["data"]) if row else ()

    def spend(self, run: str, *, over: bool = False) -> Spend:
        """Return the totals of the run's ledger; what an ended run, or one that is `over`, did not measure is free."""
        total, _ = self.spend_since(run, 0)
        row = self._one(
            "SELECT count(*) AS open FROM measurement WHERE run = ? AND state = 'started'"
            " AND (? OR (SELECT status FROM run WHERE id = ?) != 'running')",
            (run, over, run),
        )
        return replace(total, measurements=total.measurements - (int(row["open"]) if row else 0))

    def spend_since(self, run: str, entry: int) -> tuple[Spend, int]:
        """Return the totals of the run's entries after number `entry` of the ledger, and the ledger's last number."""
        of = "+run" if entry else "run"  # + keeps SQLite from the index on runs: entries after the latest are few
        rows = self._rows(
            f"SELECT kind, sum(amount) AS total, max(id) AS last FROM spend WHERE id > ? AND {of} = ? GROUP BY kind",
            (entry, run),
        )
        with self.whole(f"the ledger of run {run}"):
            totals = {str(r["kind"]): float(r["total"]) for r in rows}
            last = max([entry, *(int(r["last"]) for r in rows)])
        spent = Spend(
            measurements=round(totals.get("measurement", 0)),
            device_s=totals.get("device_s", 0.0),
            dollars=totals.get("dollars", 0.0),
            tokens=round(totals.get("tokens", 0)),
            wall_s=totals.get("wall_s", 0.0),
        )
        return spent, last

    def measurement(self, measurement_id: int, *, whole: bool = True) -> MeasurementRow:
        """Return one measurement, `whole` with every raw sample; raises `UsageError` if there is none."""
        row = self._one(f"{_MEASUREMENT} WHERE m.id = ?", (measurement_id,))
        if row is None:
            raise UsageError(f"there is no measurement {measurement_id} in {self.path}")
        return self._built(lambda r: _measurement_row(r, whole=whole), row, "measurement")

    def measurements(
        self,
        *,
        task_sha256: str | None = None,
        target_name: str | None = None,
        run: str | None = None,
        kernel: str | None = None,
    ) -> list[MeasurementRow]:
        """Return measurements that match, in the order started, without their raw samples."""
        where, parameters = _where(task=task_sha256, target=target_name, run=run, kernel=kernel)
        rows = self._rows(f"{_MEASUREMENT} WHERE {where} ORDER BY m.id", parameters)
        return [self._built(_measurement_row, r, "measurement") for r in rows]

    def trials(self, task_sha256: str, target_name: str, run: str | None = None) -> list[Trial]:
        """Return the trials of a task on a target against the reference, in order; of one run, or of all."""
        rows = self.measurements(task_sha256=task_sha256, target_name=target_name, run=run)
        return [
            Trial(Subject(r.candidate, r.build), r.measurement)
            for r in rows
            if r.build is not None and r.measurement is not None and r.anchor == REFERENCE
        ]

    def best(self, run: str) -> MeasurementRow | None:
        """Return the run's fastest trusted measurement; an ambiguous one only where there is no other."""
        row = self._one("SELECT measurement FROM best WHERE run = ?", (run,))
        return self.measurement(row["measurement"]) if row else None

    def candidate(self, sha256: str) -> Candidate:
        """Return a recorded kernel by identity; a unique beginning will do. Raises `UsageError`."""
        rows = self._rows(
            "SELECT source, language, tunables, sha256 AS kernel FROM kernel"
            " WHERE substr(sha256, 1, length(?)) = ? LIMIT 2",
            (sha256, sha256),
        )
        if len(rows) == 1 and sha256:
            return self._built(_candidate, rows[0], "kernel", "kernel")
        problem = f"several kernels begin with {sha256!r}" if rows else f"there is no kernel {sha256!r} in {self.path}"
        raise UsageError(problem, hint="pass more digits of its identity")

    def recorded(
        self,
        *,
        task_sha256: str | None = None,
        target_name: str | None = None,
        run: str | None = None,
        pairs: bool = False,
    ) -> list[RecordedRow]:
        """Return finished measurements as pools hold them; `pairs` adds those against another kernel."""
        where, parameters = _where(task=task_sha256, target=target_name, run=run, anchor=None if pairs else REFERENCE)
        rows = self._rows(f"{_RECORDED} AND {where} ORDER BY m.id", parameters)
        return [self._built(_recorded_row, r, "measurement") for r in rows]

    def plans(self) -> list[PlanOutcome]:
        """Return the plans of all runs whose kernels were measured, in the order proposed."""
        found: list[PlanOutcome] = []
        for (run,) in self._rows("SELECT DISTINCT run FROM proposal WHERE plan IS NOT NULL ORDER BY run"):
            row = self.run(run)
            found += [
                PlanOutcome(row.task.name, row.task.family, row.target.name, c.candidate, c.plan, c.measurement)
                for c in self.candidates(run)
                if c.plan is not None and c.measurement is not None
            ]
        return found

    def create_run(
        self,
        task: Task,
        target: Target,
        settings: Mapping[str, Any],
        environment: Mapping[str, str],
        owner: str = "",
    ) -> str:
        """Register a run and return its id, such as "r-7f3a2c"; `owner` names the process that will work on it."""
        with self.transaction():
            self._add_subject(task, target)
            run = f"r-{secrets.token_hex(3)}"
            while self._one("SELECT 1 FROM run WHERE id = ?", (run,)) is not None:
                run = f"r-{secrets.token_hex(3)}"
            self._insert(
                "run",
                id=run,
                task=task.sha256,
                target=target.name,
                task_data=task,
                target_data=target,
                settings=settings,
                status="running",
                created=_now(),
                version=forewarp.__version__,
                environment=environment,
                owner=owner,
            )
        return run

    def set_status(self, run: str, status: RunStatus, reason: str = "", owner: str = "") -> None:
        """Set the run's status; any status but "running" also sets the time at which it finished."""
        finished = "" if status == "running" else _now()
        self._write(
            "UPDATE run SET status = ?, reason = ?, owner = ?, finished = ? WHERE id = ?",
            (status, reason, owner, finished, run),
        )

    def add_proposals(self, run: str, round: int, proposals: Sequence[Proposal]) -> list[int]:
        """Record proposals of one round in order, with their cost; returns their ids."""
        ids: list[int] = []
        with self.transaction():
            for position, p in enumerate(proposals):
                self._add_kernel(p.candidate)
                given = {f.name: getattr(p, f.name) for f in fields(Proposal) if f.name != "candidate"}
                kernel = p.candidate.sha256
                ids.append(self._insert("proposal", run=run, round=round, position=position, kernel=kernel, **given))
                self.add_cost(run, p.cost, f"proposal {ids[-1]}")
        return ids

    def set_outcome(
        self, proposal: int, outcome: GateOutcome, reason: str = "", build: Build | None = None
    ) -> Build | None:
        """Record the gate's outcome; returns the build as it is kept, with its log cut to `MAX_LOG_CHARS`."""
        kept = _trimmed(build) if build else None
        self._write(
            "UPDATE proposal SET outcome = ?, reason = ?, build = ? WHERE id = ?",
            (outcome, reason, _column(kept), proposal),
        )
        return kept

    def add_forecasts(self, run: str, round: int, forecasts: Mapping[int, Forecast]) -> None:
        """Record forecasts by proposal id, with their cost.

        Of each candidate the first, the latest and all that were paid for are kept: a long run forecasts what it skips
        again and again.
        """
        with self.transaction():
            for proposal, f in forecasts.items():
                self._forget_between("forecast", proposal, "json_extract(data, '$.cost.input_tokens') = 0")
                columns = {name: getattr(f, name) for name in ("forecaster", "p_valid", "p_faster", "median")}
                self._insert("forecast", run=run, round=round, proposal=proposal, **columns, data=f)
                self.add_cost(run, f.cost, f"forecast {proposal} in round {round}")

    def add_decisions(self, run: str, round: int, decisions: Mapping[int, Decision]) -> None:
        """Record decisions by proposal id; of each candidate the first and the latest one are kept."""
        with self.transaction():
            for proposal, d in decisions.items():
                self._forget_between("decision", proposal)
                columns = {f.name: getattr(d, f.name) for f in fields(Decision)}
                self._insert("decision", run=run, round=round, proposal=proposal, **columns)

    def add_event(self, run: str, type: str, data: Mapping[str, Any]) -> int:
        """Append an event and return its number in the run, from 1."""
        with self.transaction():
            row = self._one("SELECT coalesce(max(seq), 0) + 1 FROM event WHERE run = ?", (run,))
            number = int(row[0]) if row else 1
            self._insert("event", run=run, seq=number, time=_now(), type=type, data=data)
        return number

    def add_holdout(self, run: str, kernel: str, data: Mapping[str, Any]) -> None:
        """Record the holdout result of a run's kernel, on shapes that nobody tuned for; it replaces an earlier one."""
        self._insert("holdout", "OR REPLACE", run=run, kernel=kernel, data=data)

    def add_spend(self, run: str | None, kind: SpendKind, amount: float, ref: str = "") -> None:
        self._insert("spend", run=run, kind=kind, amount=float(amount), ref=ref, time=_now())

    def add_lost(self, run: str | None, seconds: float, ref: str) -> None:
        """Append an upper bound of the device seconds that attempts took before their machine was lost."""
        if seconds > 0:
            self.add_spend(run, "device_s", seconds, f"{ref}, lost attempts, at most")

    def add_cost(self, run: str | None, cost: Cost, ref: str = "") -> None:
        """Append a model call's dollars and tokens to the ledger; an unknown price adds tokens only."""
        with self.transaction():
            if cost.dollars:
                self.add_spend(run, "dollars", cost.dollars, ref)
            if tokens := cost.input_tokens + cost.output_tokens:
                self.add_spend(run, "tokens", tokens, ref)

    def begin_measurement(
        self,
        task: Task,
        target: Target,
        candidate: Candidate,
        *,
        run: str | None = None,
        proposal: int | None = None,
        purpose: Purpose = "direct",
        against: Candidate | None = None,
    ) -> int:
        """Announce a measurement before it starts and book it in the ledger; returns its id.

        `against` is the kernel that it is timed against, where that is not the reference: never in a run.

        One of the same proposal and purpose that was announced before and never got a result is taken up under its old
        id and is not booked again.
        """
        with self.transaction():
            old = self._one(
                "SELECT id FROM measurement WHERE proposal = ? AND purpose = ? AND state = 'started'",
                (proposal, purpose),
            )
            if old is not None:
                return int(old["id"])
            self._add_subject(task, target)
            for kernel in filter(None, (candidate, against)):
                self._add_kernel(kernel)
            new = self._insert(
                "measurement",
                run=run,
                proposal=proposal,
                purpose=purpose,
                task=task.sha256,
                target=target.name,
                kernel=candidate.sha256,
                anchor=against.sha256 if against else REFERENCE,
                state="started",
                started=_now(),
                version=forewarp.__version__,
            )
            self.add_spend(run, "measurement", 1, f"measurement {new}")
        return new

    def finish_measurement(self, measurement_id: int, measurement: Measurement, build: Build) -> None:
        """Record the result with its device seconds; what lost attempts took at most is an entry of its own."""
        m = replace(measurement, log=measurement.log[-MAX_LOG_CHARS:])
        data, packed = samples.split(m)
        with self.transaction():
            row = self._one("SELECT run, state, anchor FROM measurement WHERE id = ?", (measurement_id,))
            if row is None or row["state"] != "started":
                raise ArchiveError(f"measurement {measurement_id} is not waiting for a result")
            if row["anchor"] != m.anchor:
                raise ArchiveError(
                    f"measurement {measurement_id} was announced against {row['anchor']}, not {m.anchor}"
                )
            self._write(
                "UPDATE measurement SET state = 'done', finished = ?, status = ?, verdict = ?, speedup = ?, low = ?,"
                " high = ?, device_s = ?, build = ?, data = ?, samples = ? WHERE id = ?",
                (
                    # Several devices may finish within a millisecond, and their order counts.
                    *(_now("microseconds"), m.status, m.verdict, m.speedup, m.low, m.high, m.device_s),
                    *(_column(_trimmed(build)), data, packed, measurement_id),
                ),
            )
            if m.device_s:
                self.add_spend(row["run"], "device_s", m.device_s, f"measurement {measurement_id}")
            self.add_lost(row["run"], m.phases.get("lost", 0.0), f"measurement {measurement_id}")

    def record(self, task: Task, target: Target, candidate: Candidate, build: Build, measurement: Measurement) -> int:
        """Record a measurement against the reference that was made outside of a run; returns its id."""
        with self.transaction():
            new = self.begin_measurement(task, target, candidate)
            self.finish_measurement(new, measurement, build)
        return new

    def add_signatures(self, task: Task, target: Target, signatures: Sequence[Signature]) -> None:
        """Record the task's signatures on the target, so that a pool can be replayed without the device."""
        with self.transaction():
            self._add_subject(task, target)
            self._insert("signature", "OR REPLACE", task=task.sha256, target=target.name, data=list(signatures))

    def _insert(self, table: str, conflict: str = "", **columns: Any) -> int:
        """Insert a row and return its id; structured values become JSON."""
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        values = tuple(map(_column, columns.values()))
        return self._write(f"INSERT {conflict} INTO {table} ({names}) VALUES ({marks})", values)

    def _forget_between(self, table: str, proposal: int, only: str = "1") -> None:
        first = f"SELECT min(round) FROM {table} WHERE proposal = ?"
        self._write(f"DELETE FROM {table} WHERE proposal = ? AND round > ({first}) AND {only}", (proposal, proposal))

    def _add_subject(self, task: Task, target: Target) -> None:
        self._insert("task", "OR IGNORE", sha256=task.sha256, name=task.name, data=task)
        self._insert("target", "OR IGNORE", name=target.name, data=target)

    def _add_kernel(self, kernel: Candidate) -> None:
        columns = {"language": kernel.language, "source": kernel.source, "tunables": kernel.tunables}
        self._insert("kernel", "OR IGNORE", sha256=kernel.sha256, **columns)

    def _built(self, make: Callable[[sqlite3.Row], T], row: sqlite3.Row, table: str, key: str = "id") -> T:
        """Build the value of a row; raises `ArchiveError` that names the row if it is damaged."""
        with self.whole(f"{table} {row[key]}"):
            return make(row)


def whole_candidate(row: Mapping[str, Any], sha256: str) -> Candidate:
    """Build a kernel and compare it with its identity; raises one of `connection.DAMAGED_ROW`."""
    made = Candidate(row["source"], row["language"], json.loads(row["tunables"]))
    if made.sha256 != sha256:
        raise ValueError("the kernel's text is not the one that was stored")
    return made


def whole_task(data: str, sha256: str) -> Task:
    """Build a task and compare it with its identity; raises one of `connection.DAMAGED_ROW`."""
    task: Task = _load(Task, data)
    if task.sha256 != sha256:
        raise ValueError("the task is not the one that was stored")
    return task


def whole_measurement(row: Mapping[str, Any], packed: bytes | None = None) -> Measurement | None:
    """Build a measurement and compare it with the columns of its row; raises one of `connection.DAMAGED_ROW`."""
    if row["data"] is None:
        return None
    m = samples.join(row["data"], packed)
    # SQLite keeps NaN as NULL.
    numbers = [None if x is None or math.isnan(x) else x for x in (m.speedup, m.low, m.high)]
    if [m.status, m.verdict, *numbers] != [row[name] for name in ("status", "verdict", "speedup", "low", "high")]:
        raise ValueError("the measurement's columns contradict its data")
    return m


def _where(**columns: str | None) -> tuple[str, tuple[str, ...]]:
    given = {column: value for column, value in columns.items() if value is not None}
    return " AND ".join([f"m.{column} = ?" for column in given] or ["1"]), tuple(given.values())


def _load(kind: Any, text: str) -> Any:
    return serde.from_data(kind, json.loads(text))


# A run reads its candidates several times per round, and most of them are as they were.
_parsed = lru_cache(maxsize=8192)(_load)


@cache
def _structured(kind: type) -> dict[str, Any]:
    """Return the fields of a row's type, each with the type of the value that its column holds as JSON, else None."""
    kinds: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(kind).items():
        is_optional = typing.get_origin(hint) in (types.UnionType, typing.Union)
        inner = next((a for a in typing.get_args(hint) if is_dataclass(a)), hint) if is_optional else hint
        is_json = is_dataclass(inner) or typing.get_origin(inner) in (Mapping, tuple)
        kinds[name] = inner if is_json else None
    return kinds


def _row(kind: type[T], row: sqlite3.Row, **given: Any) -> T:
    """Build a value from the columns that its fields are named for; `given` holds those that take more than that."""
    values = dict(given)
    for name, inner in _structured(kind).items():
        if name not in given:
            value = row[name]
            read = _parsed if is_dataclass(inner) else _load
            values[name] = value if inner is None or value is None else read(inner, value)
    return kind(**values)


def _candidate(row: sqlite3.Row) -> Candidate:
    return whole_candidate(cast("Mapping[str, Any]", row), row["kernel"])


def _run(row: sqlite3.Row) -> RunRow:
    task = whole_task(row["task_data"], row["task"])
    return _row(RunRow, row, task=task, target=_load(Target, row["target_data"]))


def _measurement_row(row: sqlite3.Row, *, whole: bool = False) -> MeasurementRow:
    measurement = whole_measurement(cast("Mapping[str, Any]", row), row["samples"] if whole else None)
    return _row(MeasurementRow, row, candidate=_candidate(row), measurement=measurement)


def _decision(row: sqlite3.Row) -> Decision:
    return _row(Decision, row, reason=row["decision_reason"])


def _candidate_row(row: sqlite3.Row) -> CandidateRow:
    return _row(
        CandidateRow,
        row,
        candidate=_candidate(row),
        decision=None if row["action"] is None else _decision(row),
        measurement=None if row["measurement"] is None else samples.join(row["measurement"], None),
    )


def _recorded_row(row: sqlite3.Row) -> RecordedRow:
    task = whole_task(row["task_data"], row["task"])
    measurement = whole_measurement(cast("Mapping[str, Any]", row), row["samples"])
    if measurement is None:
        raise ValueError("a finished measurement without a result")
    against = None
    if row["anchor_source"] is not None:
        against = Candidate(row["anchor_source"], row["anchor_language"], json.loads(row["anchor_tunables"]))
    return _row(
        RecordedRow,
        row,
        task=task,
        target=_load(Target, row["target_data"]),
        candidate=_candidate(row),
        measurement=measurement,
        against=against,
        origin=Origin(family=task.family, parent=row["parent"] or "", proposer=row["proposer"] or ""),
    )


def _column(value: Any) -> Any:
    """Return a value as a column holds it: JSON, but for numbers and text."""
    if value is None or isinstance(value, str | int | float):
        return value
    return json.dumps(serde.to_data(value), separators=(",", ":"))


def _now(resolution: str = "milliseconds") -> str:
    return datetime.now(UTC).isoformat(timespec=resolution)


def _trimmed(build: Build) -> Build:
    return replace(build, log=build.log[:MAX_LOG_CHARS])
