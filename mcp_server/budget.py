"""Budgets of clients, computed from the jobs themselves, so that a restart forgets nothing."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator
from dataclasses import dataclass, fields

from forewarp.core.errors import UsageError
from forewarp.mcp_server.options import Caps, ServerOptions
from forewarp.mcp_server.spool import LIVE, Spool, SpooledJob
from forewarp.tools import runs
from forewarp.tools.parts import Place


@dataclass(frozen=True, slots=True)
class ClientSpending:
    """Amounts spent or reserved, by the names of `Caps`."""

    measurements: float = 0.0
    gpu_seconds: float = 0.0
    usd: float = 0.0
    tokens: float = 0.0

    def __add__(self, other: ClientSpending) -> ClientSpending:
        return ClientSpending(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(ClientSpending)))

    def largest(self, other: ClientSpending) -> ClientSpending:
        """Return the larger amount of each currency."""
        return ClientSpending(*(max(getattr(self, f.name), getattr(other, f.name)) for f in fields(ClientSpending)))


@dataclass(frozen=True, slots=True)
class CurrencyLine:
    """One currency of one cap."""

    scope: str
    currency: str
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
        options = self._options
        if options.server == Caps() and options.session == Caps():
            return []
        spent = [(j.session, self._of(j)) for j in self._spool.jobs(time.time() - options.window_s)]
        found: list[CurrencyLine] = []
        for scope, caps, amounts in (
            ("server", options.server, [s for _, s in spent]),
            ("session", options.session, [s for owner, s in spent if owner == session]),
        ):
            total = sum(amounts, ClientSpending())
            for f in fields(Caps):
                cap = getattr(caps, f.name)
                if cap is not None:
                    found.append(CurrencyLine(scope, f.name, getattr(total, f.name), float(cap)))
        return found

    def left(self, session: str, currency: str) -> float | None:
        """Return what a session may still spend of a currency; None where nothing caps it."""
        found = [line.left for line in self.lines(session) if line.currency == currency]
        return min(found, default=None)

    @contextlib.contextmanager
    def deciding(self) -> Generator[None]:
        """Hold a lock while a budget is checked and a job added, so that no other server spends the same rest."""
        with self._spool.alone("budget"):
            yield

    def grant(self, session: str, currency: str, wanted: float | None, default: float | None = None) -> float | None:
        """Return how much of a currency a job may spend: what it wants, else `default`, else all that is left.

        Raises `UsageError` where nothing is left, or less than what it wants.
        """
        capped = [line for line in self.lines(session) if line.currency == currency]
        if not capped:
            return wanted if wanted is not None else default
        tight = min(capped, key=lambda line: line.left)
        name = currency.replace("_", " ")
        if tight.left <= 0 or (currency in ("measurements", "tokens") and tight.left < 1):
            raise UsageError(
                f"the {tight.scope}'s budget of {tight.cap:g} {name} is spent ({tight.spent:g} used or set aside)",
                hint="forecast_kernel costs nothing without model; search_status shows what is known. Only the operator"
                f" can raise --{'session' if tight.scope == 'session' else 'max'}-{currency.replace('_', '-')}",
            )
        if wanted is not None and wanted > tight.left:
            raise UsageError(
                f"{wanted:g} {name} are more than the {tight.left:g} left of the {tight.scope}'s {tight.cap:g}",
                hint=f"call again with at most {tight.left:g}",
            )
        return min(tight.left, wanted if wanted is not None else default if default is not None else tight.left)

    def _of(self, job: SpooledJob) -> ClientSpending:
        """Return what a job has spent; while it may go on, at least what was set aside for it."""
        aside = ClientSpending(
            job.reserved.get("measurements", 0.0),
            job.reserved.get("device_s", 0.0),
            job.reserved.get("usd", 0.0),
            job.reserved.get("tokens", 0.0),
        )
        if job.kind == "search":
            return self._of_search(job, aside)
        state = self._spool.state(job.id)
        if state in LIVE:
            return aside
        told = self._spool.document(job.id, "result.json") or {}
        if job.kind == "forecast":
            return ClientSpending(usd=float(told.get("usd") or 0.0), tokens=float(told.get("tokens") or 0.0))
        if (result := told.get("result")) is not None:
            measured = result["measurement_id"] is not None
            return ClientSpending(measurements=float(measured), gpu_seconds=float(result["cost"]["device_s"]))
        held_s = self._spool.held_s(job.id)
        return ClientSpending(
            measurements=float(held_s is not None), gpu_seconds=float(told.get("device_s", held_s or 0.0))
        )

    def _of_search(self, job: SpooledJob, aside: ClientSpending) -> ClientSpending:
        run_id = self._spool.read(job.id, "run")
        if not run_id:
            return aside if self._spool.worker(job.id) is not None else ClientSpending()
        spent, ended = runs.spent(Place(archive=job.request["place"]["archive"]), run_id.strip())
        total = ClientSpending(spent.measurements or 0, spent.device_s or 0.0, spent.dollars or 0.0, spent.tokens or 0)
        return total if ended else total.largest(aside)
