"""The archive: every write is a transaction, every read returns frozen rows."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import forewarp
from forewarp.archive import samples
from forewarp.archive.connection import default_path
from forewarp.archive.reader import REFERENCE, Reader
from forewarp.archive.rows import Purpose, RunStatus, SpendKind
from forewarp.core import serde
from forewarp.core.errors import ArchiveError
from forewarp.core.protocols import Proposal
from forewarp.core.values import (
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

__all__ = ["Archive", "default_path"]

MAX_LOG_CHARS = 8000


class Archive(Reader):
    """The record of all runs in one SQLite file: `with Archive(default_path()) as archive: …`.

    Group writes with `with archive.transaction():`. Reads of what does not exist raise `UsageError`.
    """

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
            self._add_task(task)
            self._add_target(target)
            run = f"r-{secrets.token_hex(3)}"
            while self._one("SELECT 1 FROM run WHERE id = ?", (run,)) is not None:
                run = f"r-{secrets.token_hex(3)}"
            self._write(
                "INSERT INTO run (id, task, target, task_data, target_data, settings, status, created, version,"
                " environment, owner) VALUES (?, ?, ?, ?, ?, ?, 'running', ?, ?, ?, ?)",
                (
                    *(run, task.sha256, target.name, _json(task), _json(target), _json(settings)),
                    *(_now(), forewarp.__version__, _json(environment), owner),
                ),
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
                ids.append(
                    self._write(
                        "INSERT INTO proposal (run, round, position, kernel, proposer, parent, mate, operator, note,"
                        " cost) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                        (
                            *(run, round, position, p.candidate.sha256, p.proposer, p.parent),
                            *(p.mate, p.operator, p.note, _json(p.cost)),
                        ),
                    )
                )
                self.add_cost(run, p.cost, f"proposal {ids[-1]}")
        return ids

    def set_outcome(
        self, proposal: int, outcome: GateOutcome, reason: str = "", build: Build | None = None
    ) -> Build | None:
        """Record the gate's outcome; returns the build as it is kept, with its log cut to `MAX_LOG_CHARS`."""
        kept = _trimmed(build) if build else None
        self._write(
            "UPDATE proposal SET outcome = ?, reason = ?, build = ? WHERE id = ?",
            (outcome, reason, _json(kept) if kept else None, proposal),
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
                self._write(
                    "INSERT INTO forecast (run, round, proposal, forecaster, p_valid, p_faster, median, data)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (run, round, proposal, f.forecaster, f.p_valid, f.p_faster, f.median, _json(f)),
                )
                self.add_cost(run, f.cost, f"forecast {proposal} in round {round}")

    def add_decisions(self, run: str, round: int, decisions: Mapping[int, Decision]) -> None:
        """Record decisions by proposal id; of each candidate the first and the latest one are kept."""
        with self.transaction():
            for proposal, d in decisions.items():
                self._forget_between("decision", proposal)
                self._write(
                    "INSERT INTO decision (run, round, proposal, action, reason, score, numbers)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (run, round, proposal, d.action, d.reason, d.score, _json(d.numbers)),
                )

    def add_event(self, run: str, type: str, data: Mapping[str, Any]) -> int:
        """Append an event and return its number in the run, from 1."""
        with self.transaction():
            row = self._one("SELECT coalesce(max(seq), 0) + 1 AS next FROM event WHERE run = ?", (run,))
            number = int(row["next"]) if row else 1
            self._write("INSERT INTO event VALUES (?, ?, ?, ?, ?)", (run, number, _now(), type, _json(data)))
        return number

    def add_holdout(self, run: str, kernel: str, data: Mapping[str, Any]) -> None:
        """Record the holdout result of a run's kernel, on shapes that nobody tuned for; it replaces an earlier one."""
        self._write(
            "INSERT INTO holdout VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET data = excluded.data",
            (run, kernel, _json(data)),
        )

    def add_spend(self, run: str | None, kind: SpendKind, amount: float, ref: str = "") -> None:
        """Append one entry to the ledger."""
        self._write(
            "INSERT INTO spend (run, kind, amount, ref, time) VALUES (?, ?, ?, ?, ?)",
            (run, kind, float(amount), ref, _now()),
        )

    def add_lost(self, run: str | None, seconds: float, ref: str) -> None:
        """Append an upper bound of the device seconds that attempts took before their machine was lost."""
        if seconds > 0:
            self.add_spend(run, "device_s", seconds, f"{ref}, lost attempts, at most")

    def add_cost(self, run: str | None, cost: Cost, ref: str = "") -> None:
        """Append a model call's dollars and tokens to the ledger; an unknown price adds tokens only."""
        with self.transaction():
            if cost.dollars:
                self.add_spend(run, "dollars", cost.dollars, ref)
            tokens = cost.input_tokens + cost.output_tokens
            if tokens:
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
            self._add_task(task)
            self._add_target(target)
            for kernel in filter(None, (candidate, against)):
                self._add_kernel(kernel)
            anchor = against.sha256 if against else REFERENCE
            new = self._write(
                "INSERT INTO measurement (run, proposal, purpose, task, target, kernel, anchor, state, started,"
                " version) VALUES (?, ?, ?, ?, ?, ?, ?, 'started', ?, ?)",
                (
                    *(run, proposal, purpose, task.sha256, target.name, candidate.sha256, anchor),
                    *(_now(), forewarp.__version__),
                ),
            )
            self.add_spend(run, "measurement", 1, f"measurement {new}")
        return new

    def finish_measurement(self, measurement_id: int, measurement: Measurement, build: Build) -> None:
        """Record the result together with the device seconds that it took; a result is never changed afterwards.

        What lost attempts at it can have taken at most is an entry of its own.
        """
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
                    *(_json(_trimmed(build)), data, packed, measurement_id),
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
            self._add_task(task)
            self._add_target(target)
            self._write(
                "INSERT INTO signature VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET data = excluded.data",
                (task.sha256, target.name, _json(list(signatures))),
            )

    def _forget_between(self, table: str, proposal: int, only: str = "1") -> None:
        first = f"SELECT min(round) FROM {table} WHERE proposal = ?"
        self._write(f"DELETE FROM {table} WHERE proposal = ? AND round > ({first}) AND {only}", (proposal, proposal))

    def _add_task(self, task: Task) -> None:
        self._write("INSERT OR IGNORE INTO task VALUES (?, ?, ?)", (task.sha256, task.name, _json(task)))

    def _add_target(self, target: Target) -> None:
        self._write("INSERT OR IGNORE INTO target VALUES (?, ?)", (target.name, _json(target)))

    def _add_kernel(self, candidate: Candidate) -> None:
        self._write(
            "INSERT OR IGNORE INTO kernel VALUES (?, ?, ?, ?)",
            (candidate.sha256, candidate.language, candidate.source, _json(candidate.tunables)),
        )


def _json(value: Any) -> str:
    return json.dumps(serde.to_data(value), separators=(",", ":"))


def _now(resolution: str = "milliseconds") -> str:
    return datetime.now(UTC).isoformat(timespec=resolution)


def _trimmed(build: Build) -> Build:
    return replace(build, log=build.log[:MAX_LOG_CHARS])
