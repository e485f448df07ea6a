"""State of a run, as a fold over what its archive holds, and the one next action that follows from it.

`RunState.load` builds the state from the archive alone; a run that is going on keeps it up to date with the same two
methods, `put` and `add`, in step with what it writes. So resuming is replaying, and `pending` need not know whether a
run was ever interrupted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

from forewarp.archive.rows import CandidateRow, MeasurementRow
from forewarp.archive.store import Archive
from forewarp.core.protocols import Attempt, Known, Proposal, Subject, Trial
from forewarp.core.values import Measurement
from forewarp.search import policy
from forewarp.search.settings import SearchSettings
from forewarp.surrogate.drift import DriftWatch

MAX_FRUITLESS_ROUNDS = 10


@dataclass(frozen=True, slots=True)
class NextAction:
    """Next action of a run, with its proposals in order; `reason` says why a run is to finish.

    Those to measure that have a measurement's id were announced, and so booked, before the run was interrupted.
    """

    kind: Literal["propose", "check", "forecast", "decide", "measure", "finish"]
    proposals: tuple[int, ...] = ()
    reason: str = ""


class RunState:
    """A run's candidates and trials, indexed by all that the next action depends on; `round` is −1 at first.

    `best` is the fastest candidate to be believed; an ambiguous one leads only until there is another.
    """

    def __init__(self, *, forecasting: bool) -> None:
        self.rows: dict[int, CandidateRow] = {}
        self.trials: list[Trial] = []
        self.watch = DriftWatch()
        self.round = -1
        self.best: CandidateRow | None = None
        self.forecasting = forecasting
        self._seen: set[str] = set()
        self._attempts: dict[int, Attempt] = {}
        self._fresh: list[int] = []
        self._chosen: dict[int, float] = {}
        self._skipped: dict[int, float] = {}
        self._passed = self._decided = self._picked = -1

    @classmethod
    def load(cls, archive: Archive, run: str, *, forecasting: bool) -> Self:
        state = cls(forecasting=forecasting)
        rows = archive.candidates(run)
        for row in rows:
            state.begin(max(state.round, row.round, row.forecast_round or 0, row.decided_round or 0))
        for row in rows:
            state.put(row)
        # In the order finished, in which the run itself added them when it measured several at once.
        for measured in sorted(archive.measurements(run=run), key=lambda m: (m.finished, m.id)):
            state.add(measured)
        return state

    def begin(self, number: int) -> None:
        if number > self.round:
            self.round, self._fresh, self._chosen = number, [], {}

    def put(self, row: CandidateRow) -> None:
        number, decision = row.proposal, row.decision
        if number not in self.rows:
            self._seen.add(row.candidate.sha256)
            if row.round == self.round:
                self._fresh.append(number)
        self.rows[number], self._attempts[number] = row, _attempt(row)
        self._skipped.pop(number, None)
        if decision is not None and decision.action == "skip" and row.measurement_id is None:
            self._skipped[number] = decision.score
        if row.outcome == "passed":
            self._passed = max(self._passed, row.round)
        if row.decided_round is not None:
            self._decided = max(self._decided, row.decided_round)
        if row.decided_round is not None and decision is not None and decision.action == "measure":
            self._passed = max(self._passed, row.decided_round)
            if row.decided_round == self.round:
                self._chosen[number] = decision.numbers.get("order", 0.0)
            if not policy.is_audit(decision):
                self._picked = max(self._picked, row.decided_round)
        if _leads(row, self.best):
            self.best = row

    def add(self, measured: MeasurementRow) -> None:
        """Add a finished measurement, after `put` had the candidate's row; one without a result is ignored."""
        if measured.measurement is None or measured.build is None:
            return
        self.trials.append(Trial(Subject(measured.candidate, measured.build), measured.measurement))
        row = self.rows.get(measured.proposal or -1)
        if row is not None and row.forecast is not None and measured.purpose == "candidate":
            self.watch.add(row.candidate.sha256, row.forecast, measured.measurement)

    @property
    def barren(self) -> int:
        """Number of decided rounds since a forecast last spoke for a measurement."""
        return self._decided - self._picked

    @property
    def is_decided(self) -> bool:
        return self._decided == self.round

    @property
    def known(self) -> Known:
        """History that proposers may learn from. `trials` and `seen` grow with the run; they are not copied."""
        return Known(list(self._attempts.values()), self.trials, self._seen)

    @property
    def incumbent(self) -> float | None:
        return self.best.measurement.speedup if self.best and self.best.measurement else None

    def leaders(self, share: float) -> list[CandidateRow]:
        """Return the candidates that reach a share of the best speed-up, of each program the fastest, in order."""
        able = [(s, r) for r in self.rows.values() if (s := standing(r.measurement, r.measurement_id or 0)) is not None]
        fastest: dict[str, CandidateRow] = {}
        for (_, speedup, _), row in sorted(able, key=lambda pair: pair[0], reverse=True):
            if speedup >= share * (self.incumbent or 0.0):
                fastest.setdefault(row.candidate.source, row)
        return list(fastest.values())

    @property
    def fresh(self) -> list[CandidateRow]:
        return [self.rows[p] for p in self._fresh]

    @property
    def chosen(self) -> list[CandidateRow]:
        return [self.rows[p] for p in sorted(self._chosen, key=lambda p: (self._chosen[p], p))]

    @property
    def fruitless(self) -> int:
        """Number of rounds since something new passed the gate, or something old was measured."""
        return self.round - self._passed

    def open(self, reconsider: int) -> list[CandidateRow]:
        """Return the round's passed candidates and the best skipped earlier; all of these without forecasts."""
        fresh = [r.proposal for r in self.fresh if r.outcome == "passed" and r.measurement_id is None]
        skipped = sorted(self._skipped, key=lambda p: (-self._skipped[p], p))
        return [self.rows[p] for p in sorted(fresh + skipped[: reconsider if self.forecasting else None])]


def standing(m: Measurement | None, number: int) -> tuple[bool, float, int] | None:
    """Return a measurement's sort key, higher is better, as in the view `best`; None if it cannot win."""
    if m is None or m.speedup is None or m.low is None or not m.trusted or m.stopped_early:
        return None
    return m.verdict != "ambiguous", m.speedup, -number


def pending(state: RunState, settings: SearchSettings, floor: float | None = None) -> NextAction:
    """Return the next thing to do, the same for equal states; nothing goes faster than `floor`."""
    if state.round < 0:
        return NextAction("propose")
    unchecked = tuple(r.proposal for r in state.fresh if r.outcome == "pending")
    if unchecked:
        return NextAction("check", unchecked)
    if not state.is_decided:
        ready = _before_deciding(state, settings)
        if ready is not None:
            return ready
    # One that was chosen before it was built may have turned out not to compile.
    unmeasured = tuple(r.proposal for r in state.chosen if r.measurement is None and r.outcome == "passed")
    if unmeasured:
        return NextAction("measure", unmeasured)
    end = _enough(state, settings, floor)
    return NextAction("finish", reason=end) if end else NextAction("propose")


def _before_deciding(state: RunState, settings: SearchSettings) -> NextAction | None:
    """Return the next action before the round's decisions; None where there is nothing to decide, but may be later."""
    ready = state.open(settings.reconsider)
    if not state.fresh and not ready:
        return NextAction("finish", reason="there are no more candidates")
    if state.fruitless >= MAX_FRUITLESS_ROUNDS:
        return NextAction("finish", reason=f"nothing passed the gate in {MAX_FRUITLESS_ROUNDS} rounds")
    unforecast = tuple(r.proposal for r in ready if state.forecasting and _to_forecast(r, state.round))
    if unforecast:
        return NextAction("forecast", unforecast)
    return NextAction("decide", tuple(r.proposal for r in ready)) if ready else None


def _enough(state: RunState, settings: SearchSettings, floor: float | None) -> str:
    """Return why going on is not expected to pay; "" where it is."""
    best = state.incumbent
    if floor is not None and best is not None and best >= settings.reach * floor:
        return f"the best kernel is within {1 - best / floor:.0%} of what the device allows at most"
    if settings.patience and state.barren >= settings.patience:
        return f"for {state.barren} rounds no candidate promised to be worth a measurement"
    return ""


def _to_forecast(row: CandidateRow, number: int) -> bool:
    """Return whether a candidate needs a forecast in this round; one paid for is not bought again."""
    if row.forecast_round == number:
        return False
    if row.forecast is None or row.forecast.tiers:
        return True
    cost = row.forecast.cost
    return cost.dollars == 0 and cost.input_tokens + cost.output_tokens == 0


def _attempt(row: CandidateRow) -> Attempt:
    proposal = Proposal(row.candidate, row.proposer, row.parent, row.note, row.cost, row.mate, row.operator, row.plan)
    return Attempt(proposal, row.outcome, row.reason, row.build, row.forecast, row.measurement)


def _leads(row: CandidateRow, best: CandidateRow | None) -> bool:
    own = standing(row.measurement, row.measurement_id or 0)
    if own is None or best is None:
        return own is not None
    return own > (standing(best.measurement, best.measurement_id or 0) or own)
