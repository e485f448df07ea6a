"""Budgets of clients, computed from the jobs themselves, so that a restart forgets nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

from forewarp.core.budget import Currency, Spend
from forewarp.core.errors import UsageError
from forewarp.mcp_server.options import ServerOptions
from forewarp.mcp_server.spool import LIVE, Spool, SpooledJob
from forewarp.tools import runs
from forewarp.tools.parts import Place

PUBLIC: Mapping[Currency, str] = {
    "measurements": "measurements",
    "device_s": "gpu_seconds",
    "dollars": "usd",
    "tokens": "tokens",
}
"""Names of the capped currencies in flags and answers."""


@dataclass(frozen=True, slots=True)
class CurrencyLine:
    """One currency of one cap."""

    scope: str
    currency: Currency
    spent: float
    cap: float

    @property
    def left(self) -> float:
        """Amount left, never below zero."""
        return max(0.0, self.cap - self.spent)


class ClientBudget:
    """The caps of the server and of each session against what was spent."""

    def __init__(self, options: ServerOptions, spool: Spool) -> None:
        self._options, self._spool = options, spool

    def lines(self, session: str) -> list[CurrencyLine]:
        """Return every cap that holds for a session, with what was spent of it."""
        budgets = self._options.budgets()
        if not any(budget.caps for budget in budgets.values()):
            return []
        jobs = self._spool.jobs(time.time() - 3600 * self._options.window)
        # A run that was taken up again belongs to the job that did so last.
        latest = {run: job.id for job in jobs if job.kind == "search" and (run := self._spool.run(job.id))}
        jobs = [job for job in jobs if latest.get(self._spool.run(job.id) or "", job.id) == job.id]
        spent = [(job.session, self._of(job)) for job in jobs]
        found: list[CurrencyLine] = []
        for scope, budget in budgets.items():
            total = sum((s for owner, s in spent if scope == "server" or owner == session), Spend())
            found += [CurrencyLine(scope, c, total.of(c), float(cap)) for c, cap in budget.caps.items()]
        return found

    def left(self, session: str, currency: Currency) -> float | None:
        """Return what a session may still spend of a currency; None where nothing caps it."""
        return min((line.left for line in self.lines(session) if line.currency == currency), default=None)

    def deciding(self) -> AbstractContextManager[bool]:
        """Hold a lock while a budget is checked and a job added, so that no other server spends the same rest."""
        return self._spool.alone("budget")

    def grant(
        self, session: str, currency: Currency, wanted: float | None, default: float | None = None
    ) -> float | None:
        """Return how much of a currency a job may spend: what it wants, else `default`, else all that is left.

        Raises `UsageError` where nothing is left, or less than what it wants.
        """
        capped = [line for line in self.lines(session) if line.currency == currency]
        if not capped:
            return wanted if wanted is not None else default
        tight = min(capped, key=lambda line: line.left)
        name = PUBLIC[currency].replace("_", " ")
        if tight.left <= 0 or (currency in ("measurements", "tokens") and tight.left < 1):
            raise UsageError(
                f"the {tight.scope}'s budget of {tight.cap:g} {name} is spent ({tight.spent:g} used or set aside)",
                hint="forecast_kernel costs nothing without model; search_status shows what is known. Only the operator"
                " of the server can raise it",
            )
        if wanted is not None and wanted > tight.left:
            raise UsageError(
                f"{wanted:g} {name} are more than the {tight.left:g} left of the {tight.scope}'s {tight.cap:g}",
                hint=f"call again with at most {tight.left:g}",
            )
        return min(tight.left, wanted if wanted is not None else default if default is not None else tight.left)

    def _of(self, job: SpooledJob) -> Spend:
        """Return what a job has spent; while it may go on, at least what was set aside for it."""
        if job.kind == "search":
            return self._of_search(job)
        if self._spool.state(job.id) in LIVE:
            return job.reserved.whole()
        told = self._spool.document(job.id, "result.json") or {}
        if job.kind == "forecast":
            return Spend(dollars=float(told.get("usd") or 0.0), tokens=int(told.get("tokens") or 0))
        if job.kind == "verb":  # one that was ended says nothing of what it spent
            return Spend(**told["spent"]) if "spent" in told else job.reserved.whole() if not told else Spend()
        if (result := told.get("result")) is not None:
            measured = result["measurement_id"] is not None
            return Spend(int(measured), float(result["cost"]["device_s"]))
        held_s = self._spool.held_s(job.id)
        return Spend(int(held_s is not None), float(told.get("device_s", held_s or 0.0)))

    def _of_search(self, job: SpooledJob) -> Spend:
        run_id = self._spool.run(job.id)
        if run_id is None:
            return job.reserved.whole() if self._spool.worker(job.id) is not None else Spend()
        seen = runs.glance(Place(archive=job.request["place"]["archive"]), run_id)
        total, ended = seen.spent, seen.ended
        return total if ended else total | job.reserved.whole()
