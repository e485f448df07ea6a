"""Measurements of a run's candidates: announced, carried out on as many devices as there are, and recorded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial

from forewarp.archive.rows import CandidateRow, Purpose
from forewarp.core.errors import ForewarpError, WorkerError
from forewarp.core.protocols import with_evidence
from forewarp.core.values import Build, Measurement
from forewarp.gpu_runner.pipeline import compile_threads, twice
from forewarp.search import policy
from forewarp.search.events import Accepted, Alarmed, Event, Measured, Measuring, Rejected
from forewarp.search.gate import Gate, GateAnswer
from forewarp.search.run import BudgetSpent, SearchRun, Stopped


@dataclass(frozen=True, slots=True)
class _Announced:
    """A measurement that was announced under `number`, and whose result is to be written."""

    row: CandidateRow
    purpose: Purpose
    number: int
    build: Build
    beat: float | None


def measure(run: SearchRun, rows: Sequence[CandidateRow], purpose: Purpose = "candidate") -> Generator[Event]:
    """Measure candidates, as many at once as there are devices; each result is written as soon as it is there."""
    if run.executor.devices > 1:
        yield from _measure_at_once(run, deque(rows), purpose)
        return
    for row in rows:
        built = yield from _built(run, row)
        if built is not None:
            announced = yield from _announce(run, built, purpose)
            yield from _record(run, announced, partial(_result, run, announced))


def _measure_at_once(run: SearchRun, waiting: deque[CandidateRow], purpose: Purpose) -> Generator[Event]:
    running: dict[Future[Measurement], _Announced] = {}
    over: Exception | None = None
    pool = ThreadPoolExecutor(run.executor.devices, thread_name_prefix="measure")
    try:
        while running or (waiting and over is None):
            while waiting and over is None and len(running) < run.executor.devices:
                try:
                    built = yield from _built(run, waiting.popleft())
                    if built is not None:
                        announced = yield from _announce(run, built, purpose)
                        running[pool.submit(_result, run, announced)] = announced
                except (Stopped, BudgetSpent) as e:
                    over = e
            ended = wait(running, return_when=FIRST_COMPLETED).done if running else set[Future[Measurement]]()
            for done in sorted(ended, key=lambda f: running[f].number):
                try:
                    yield from _record(run, running.pop(done), done.result)
                except ForewarpError as e:
                    # Measurements in progress on the other devices are paid for: wait for their results.
                    over = over if isinstance(over, ForewarpError) else e
        if over is not None:
            raise over
    finally:
        # A caller that closed this iterator does not wait: it closes the executor next, which ends what still runs.
        pool.shutdown(wait=False, cancel_futures=True)


def record_gated(run: SearchRun, row: CandidateRow, gated: GateAnswer) -> Generator[Event]:
    with run.step() as happened:
        kept = run.archive.set_outcome(row.proposal, gated.outcome, gated.reason, gated.build)
        where = run.id, run.round, row.candidate.sha256
        if gated.outcome == "passed" and gated.build is not None:
            if not gated.build.pending:
                run.builds[row.proposal] = gated.build
            if row.outcome == "pending":
                happened.append(Accepted(*where, gated.build.seconds))
        else:
            happened.append(Rejected(*where, gated.outcome, gated.reason))
    run.state.put(replace(row, outcome=gated.outcome, reason=gated.reason, build=kept))
    yield from happened


def ready_gate(run: SearchRun) -> Gate:
    if run.gate is None:
        run.signatures = run.executor.describe(run.task)
        run.archive.add_signatures(run.task, run.target, run.signatures)
        threads = compile_threads(run.executor, run.settings.compile_threads)
        forecasting = run.forecaster is not None
        run.gate = Gate(run.executor, run.task, run.signatures, threads, forecasting=forecasting)
        for row in run.state.rows.values():
            run.gate.remember(row.candidate, row.outcome, row.build)
    return run.gate


def _built(run: SearchRun, row: CandidateRow) -> Generator[Event, None, CandidateRow | None]:
    """Build a candidate whose build is pending, and record that; return it, or None where it cannot be built."""
    if row.build is None or not row.build.pending:
        return row
    run.check_may_begin()
    gated = ready_gate(run).build(row.candidate)
    yield from record_gated(run, row, gated)
    return run.state.rows[row.proposal] if gated.outcome == "passed" else None


def _announce(run: SearchRun, row: CandidateRow, purpose: Purpose) -> Generator[Event, None, _Announced]:
    """Book a measurement before it begins; raises `Stopped` or `BudgetSpent` where it may not."""
    # One that was announced before a kill is booked already, whatever the budget says by now. What confirms has a
    # budget of its own.
    if row.measurement_id is None and purpose == "candidate":
        run.check_may_begin()
    # After a resume the artefact may be gone; the executor's cache makes this free where it is not.
    build = run.builds.get(row.proposal) or with_evidence(
        run.executor, run.task, row.candidate, run.executor.compile(run.task, row.candidate)
    )
    with run.step(warn=False) as happened:
        number = run.archive.begin_measurement(
            run.task, run.target, row.candidate, run=run.id, proposal=row.proposal, purpose=purpose
        )
        happened.append(Measuring(run.id, run.round, row.candidate.sha256, number, purpose))
    yield from happened
    beat = _beat(run, row) if purpose == "candidate" and run.settings.early_stop else None
    return _Announced(row, purpose, number, build, beat)


def _record(run: SearchRun, announced: _Announced, result: Callable[[], Measurement]) -> Generator[Event]:
    """Write a result; if there is none, book the time that its attempts took before the error is raised."""
    row, number, purpose = announced.row, announced.number, announced.purpose
    try:
        m = result()
    except WorkerError as e:
        run.archive.add_lost(run.id, e.lost_s, f"measurement {number}")
        raise
    watch = run.state.watch
    alarms = watch.alarms
    with run.step() as happened:
        run.archive.finish_measurement(number, m, announced.build)
        kept = run.archive.measurement(number, whole=False)
        if purpose == "candidate":
            run.state.put(replace(row, measurement_id=number, measurement=kept.measurement))
        run.state.add(kept)
        measured = Measured(
            *(run.id, run.round, row.candidate.sha256, number, purpose),
            *(m.status, m.verdict, m.speedup, m.low, m.high),
            best=run.state.incumbent,
            spend=run.spend(),
        )
        happened.append(measured)
        if watch.alarms > alarms:
            happened.append(Alarmed(run.id, run.round, watch.alarms, watch.waiting))
    yield from happened


def _result(run: SearchRun, announced: _Announced) -> Measurement:
    """Measure, and once again if the measuring process was lost: a flicker should not end a long run."""
    candidate, build = announced.row.candidate, announced.build
    return twice(lambda: run.executor.measure(run.task, candidate, build, beat=announced.beat))


def _beat(run: SearchRun, row: CandidateRow) -> float | None:
    """Return the speed-up that the candidate must reach to be of use; None where its time is wanted in any case."""
    best = run.state.best
    if row.decision is None or not policy.may_stop_early(row.decision) or best is None or best.measurement is None:
        return None
    # An ambiguous best leads only until there is another: it must not stop the timing of another one early.
    return None if best.measurement.verdict == "ambiguous" else best.measurement.speedup
