"""The reading half of the archive."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, TypeVar, cast

from forewarp.archive import samples
from forewarp.archive.connection import Connection
from forewarp.archive.rows import (
    CandidateRow,
    DecisionRow,
    EventRow,
    MeasurementRow,
    Origin,
    RecordedRow,
    RunRow,
    RunStatus,
)
from forewarp.core import serde
from forewarp.core.budget import Spend
from forewarp.core.errors import UsageError
from forewarp.core.protocols import Subject, Trial
from forewarp.core.values import Build, Candidate, Cost, Decision, Forecast, Measurement, Signature, Target, Task

T = TypeVar("T")

REFERENCE = "reference"
"""The anchor of every measurement that is not against another kernel."""

_KERNEL = "k.source, k.language, k.tunables"
_MEASUREMENT = f"SELECT m.*, {_KERNEL} FROM measurement m JOIN kernel k ON k.sha256 = m.kernel"
_CANDIDATES = f"""
SELECT p.*, {_KERNEL}, f.data AS forecast, f.round AS forecast_round,
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
SELECT m.*, {_KERNEL}, t.data AS task_data, g.data AS target_data, s.data AS signatures,
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


class Reader(Connection):
    """Reads of the archive; `Archive` adds the writes."""

    def run(self, run: str) -> RunRow:
        """Return one run by id; a unique beginning of the id will do. Raises `UsageError`."""
        found = self._rows("SELECT * FROM run WHERE id = ?", (run,)) or self._rows(
            "SELECT * FROM run WHERE substr(id, 1, length(?)) = ? LIMIT 2", (run, run)
        )
        if len(found) == 1 and run:
            return self._run(found[0])
        problem = f"several runs begin with {run!r}" if run and found else f"there is no run {run!r} in {self.path}"
        latest = ", ".join(r.id for r in self.runs(limit=5)) or "none"
        raise UsageError(problem, hint=f"latest runs: {latest}")

    def runs(self, *, status: RunStatus | None = None, limit: int = 50) -> list[RunRow]:
        """Return the latest runs, the newest first."""
        rows = self._rows(
            "SELECT * FROM run WHERE status = coalesce(?, status) ORDER BY created DESC, rowid DESC LIMIT ?",
            (status, limit),
        )
        return [self._run(r) for r in rows]

    def group(self, name: str) -> list[RunRow]:
        """Return the runs that search for several targets together under this name, in the order begun.

        A unique beginning of the name will do; raises `UsageError`.
        """
        group = "json_extract(settings, '$.group')"
        rows = self._rows(
            f"SELECT * FROM run WHERE {group} <> '' AND substr({group}, 1, length(?)) = ? ORDER BY rowid", (name, name)
        )
        found = [self._run(r) for r in rows]
        names = sorted({str(r.settings["group"]) for r in found})
        if len(names) == 1:
            return found
        problem = f"several searches begin with {name!r}" if names else f"there is no search {name!r} in {self.path}"
        raise UsageError(problem, hint="`forewarp runs` lists the runs with the searches that they belong to")

    def latest_group(self) -> str | None:
        """Return the name of the latest search for several targets; None where there was none."""
        group = "json_extract(settings, '$.group')"
        found = self._rows(f"SELECT {group} FROM run WHERE {group} <> '' ORDER BY created DESC, rowid DESC LIMIT 1", ())
        return str(found[0][0]) if found else None

    def candidates(self, run: str) -> list[CandidateRow]:
        """Return every proposal of the run in order, joined with forecast, decision and measurement."""
        return [self._built(_candidate_row, r, "proposal") for r in self._rows(_CANDIDATES, (run,))]

    def forecasts(self, run: str) -> list[tuple[int, Forecast]]:
        """Return every forecast of the run with its proposal's id, in the order made."""
        rows = self._rows("SELECT proposal, data FROM forecast WHERE run = ? ORDER BY round, proposal", (run,))
        with self.whole(f"a forecast of run {run}"):
            return [(int(r["proposal"]), _forecast(r["data"])) for r in rows]

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
            return [EventRow(r["run"], r["seq"], r["time"], r["type"], dict(json.loads(r["data"]))) for r in rows]

    def holdouts(self, run: str) -> dict[str, dict[str, Any]]:
        """Return the run's holdout results, on shapes that nobody tuned for, by the kernel's identity."""
        rows = self._rows("SELECT kernel, data FROM holdout WHERE run = ?", (run,))
        with self.whole(f"what run {run} found on shapes that nobody tuned for"):
            return {str(r["kernel"]): dict(json.loads(r["data"])) for r in rows}

    def signatures(self, task_sha256: str, target_name: str) -> tuple[Signature, ...]:
        """Return a task's signatures on a target, one per workload; empty if nothing was compiled for it."""
        row = self._one("SELECT data FROM signature WHERE task = ? AND target = ?", (task_sha256, target_name))
        with self.whole(f"the signatures of task {task_sha256[:10]}"):
            return tuple(serde.from_data(Signature, s) for s in json.loads(row["data"])) if row else ()

    def spend(self, run: str) -> Spend:
        """Return the totals of the run's ledger."""
        return self.spend_since(run, 0)[0]

    def spend_since(self, run: str, entry: int) -> tuple[Spend, int]:
        """Return the totals of the run's entries after number `entry` of the ledger, and the ledger's last number."""
        rows = self._rows(
            "SELECT kind, sum(amount) AS total, max(id) AS last FROM spend WHERE id > ? AND +run = ? GROUP BY kind"
            if entry
            else "SELECT kind, sum(amount) AS total, max(id) AS last FROM spend WHERE id > ? AND run = ? GROUP BY kind",
            (entry, run),
        )
        with self.whole(f"the ledger of run {run}"):
            totals = {str(r["kind"]): float(r["total"]) for r in rows}
            last = max([entry, *(int(r["last"]) for r in rows)])
        return Spend(
            measurements=round(totals.get("measurement", 0)),
            device_s=totals.get("device_s", 0.0),
            dollars=totals.get("dollars", 0.0),
            tokens=round(totals.get("tokens", 0)),
            wall_s=totals.get("wall_s", 0.0),
        ), last

    def measurement(self, measurement_id: int, *, whole: bool = True) -> MeasurementRow:
        """Return one measurement, `whole` with every raw sample; raises `UsageError` if there is none."""
        row = self._one(f"{_MEASUREMENT} WHERE m.id = ?", (measurement_id,))
        if row is None:
            raise UsageError(f"there is no measurement {measurement_id} in {self.path}")
        return self._measurement(row, whole=whole)

    def measurements(
        self,
        *,
        task_sha256: str | None = None,
        target_name: str | None = None,
        run: str | None = None,
        kernel: str | None = None,
    ) -> list[MeasurementRow]:
        """Return measurements that match, against whatever anchor, in the order in which they started.

        Raw samples are left out, as in `candidates` and `trials`: `measurement` has them.
        """
        where, parameters = _where({"task": task_sha256, "target": target_name, "run": run, "kernel": kernel})
        return [self._measurement(r) for r in self._rows(f"{_MEASUREMENT} WHERE {where} ORDER BY m.id", parameters)]

    def trials(self, task_sha256: str, target_name: str, run: str | None = None) -> list[Trial]:
        """Return the trials of a task on a target against the reference, in order; of one run, or of all."""
        rows = self.measurements(task_sha256=task_sha256, target_name=target_name, run=run)
        return [
            Trial(Subject(r.candidate, r.build), r.measurement)
            for r in rows
            if r.build is not None and r.measurement is not None and r.anchor == REFERENCE
        ]

    def best(self, run: str) -> MeasurementRow | None:
        """Return the run's trusted measurement with the highest speed-up that has an interval.

        An ambiguous one is returned only where there is no other.
        """
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
        """Return finished measurements with their task and target, as pools hold them.

        Those against the reference only, unless `pairs` asks for those against another kernel too.
        """
        anchor = None if pairs else REFERENCE
        where, parameters = _where({"task": task_sha256, "target": target_name, "run": run, "anchor": anchor})
        rows = self._rows(f"{_RECORDED} AND {where} ORDER BY m.id", parameters)
        return [self._built(_recorded_row, r, "measurement") for r in rows]

    def _run(self, row: sqlite3.Row) -> RunRow:
        return self._built(_run, row, "run")

    def _measurement(self, row: sqlite3.Row, *, whole: bool = False) -> MeasurementRow:
        return self._built(partial(_measurement_row, whole=whole), row, "measurement")

    def _built(self, make: Callable[[sqlite3.Row], T], row: sqlite3.Row, table: str, key: str = "id") -> T:
        """Build the value of a row; raises `ArchiveError` that names the row if it is damaged."""
        with self.whole(f"{table} {row[key]}"):
            return make(row)


def _where(columns: dict[str, str | None]) -> tuple[str, tuple[str, ...]]:
    given = {column: value for column, value in columns.items() if value is not None}
    return " AND ".join([f"m.{column} = ?" for column in given] or ["1"]), tuple(given.values())


def _load(kind: type[T], text: str) -> T:
    return serde.from_data(kind, json.loads(text))


# A run reads its candidates several times per round, and most of them are as they were.
@lru_cache(maxsize=4096)
def _build(text: str) -> Build:
    return _load(Build, text)


@lru_cache(maxsize=4096)
def _forecast(text: str) -> Forecast:
    return _load(Forecast, text)


def whole_candidate(row: Mapping[str, Any], sha256: str) -> Candidate:
    """Build a kernel and compare it with its identity; raises one of `connection.DAMAGED_ROW`."""
    made = Candidate(row["source"], row["language"], json.loads(row["tunables"]))
    if made.sha256 != sha256:
        raise ValueError("the kernel's text is not the one that was stored")
    return made


def whole_task(data: str, sha256: str) -> Task:
    """Build a task and compare it with its identity; raises one of `connection.DAMAGED_ROW`."""
    task = _load(Task, data)
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


def _candidate(row: sqlite3.Row) -> Candidate:
    return whole_candidate(cast("Mapping[str, Any]", row), row["kernel"])


def _run(row: sqlite3.Row) -> RunRow:
    return RunRow(
        id=row["id"],
        task=whole_task(row["task_data"], row["task"]),
        target=_load(Target, row["target_data"]),
        settings=dict(json.loads(row["settings"])),
        status=row["status"],
        reason=row["reason"],
        created=row["created"],
        finished=row["finished"],
        version=row["version"],
        environment=dict(json.loads(row["environment"])),
        owner=row["owner"],
    )


def _measurement_row(row: sqlite3.Row, *, whole: bool = False) -> MeasurementRow:
    return MeasurementRow(
        id=row["id"],
        run=row["run"],
        proposal=row["proposal"],
        purpose=row["purpose"],
        task_sha256=row["task"],
        target_name=row["target"],
        candidate=_candidate(row),
        anchor=row["anchor"],
        state=row["state"],
        started=row["started"],
        finished=row["finished"],
        build=None if row["build"] is None else _load(Build, row["build"]),
        measurement=whole_measurement(cast("Mapping[str, Any]", row), row["samples"] if whole else None),
    )


def _decision(row: sqlite3.Row) -> Decision:
    numbers: dict[str, float] = json.loads(row["numbers"])
    return Decision(row["action"], row["decision_reason"], row["score"], numbers)


def _candidate_row(row: sqlite3.Row) -> CandidateRow:
    return CandidateRow(
        proposal=row["id"],
        round=row["round"],
        position=row["position"],
        candidate=_candidate(row),
        proposer=row["proposer"],
        parent=row["parent"],
        mate=row["mate"],
        operator=row["operator"],
        note=row["note"],
        cost=_load(Cost, row["cost"]),
        outcome=row["outcome"],
        reason=row["reason"],
        build=_build(row["build"]) if row["build"] else None,
        forecast=_forecast(row["forecast"]) if row["forecast"] else None,
        forecast_round=row["forecast_round"],
        decision=None if row["action"] is None else _decision(row),
        decided_round=row["decided_round"],
        measurement_id=row["measurement_id"],
        measurement=None if row["measurement"] is None else samples.join(row["measurement"], None),
    )


def _recorded_row(row: sqlite3.Row) -> RecordedRow:
    shapes: list[Any] = json.loads(row["signatures"] or "[]")
    task = whole_task(row["task_data"], row["task"])
    measurement = whole_measurement(cast("Mapping[str, Any]", row), row["samples"])
    if measurement is None:
        raise ValueError("a finished measurement without a result")
    against = None
    if row["anchor_source"] is not None:
        against = Candidate(row["anchor_source"], row["anchor_language"], json.loads(row["anchor_tunables"]))
    return RecordedRow(
        task=task,
        target=_load(Target, row["target_data"]),
        signatures=tuple(serde.from_data(Signature, s) for s in shapes),
        candidate=_candidate(row),
        build=_load(Build, row["build"]),
        measurement=measurement,
        run=row["run"],
        finished=row["finished"],
        version=row["version"],
        against=against,
        origin=Origin(family=task.family, parent=row["parent"] or "", proposer=row["proposer"] or ""),
    )
