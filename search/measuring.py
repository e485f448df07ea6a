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
from forewarp.gpu_runner.pipeline import twice
from forewarp.search import policy
from forewarp.search.context import RunContext
from forewarp.search.ends import BudgetSpent, Stopped
from forewarp.search.events import Alarmed, Event, Measured, Measuring


@dataclass(frozen=True, slots=True)
class _Started:
    """A measurement that was announced under `number`, and whose result is to be written."""

    row: CandidateRow
    purpose: Purpose
    number: int
    build: Build
    beat: float | None


def measure(run: RunContext, rows: Sequence[CandidateRow]) -> Generator[Event]:
    """Measure candidates, as many at once as there are devices; each result is written as soon as it is there."""
    if run.executor.devices > 1:
        yield from _measure_at_once(run, deque(rows))
        return
    for row in rows:
        started = yield from _begin(run, row)
        yield from _record(run, started, _paid(run, started, partial(_result, run, started)))


def _measure_at_once(run: RunContext, waiting: deque[CandidateRow]) -> Generator[Event]:
    running: dict[Future[Measurement], _Started] = {}
    over: Exception | None = None
    pool = ThreadPoolExecutor(run.executor.devices, thread_name_prefix="measure")
    try:
        while running or (waiting and over is None):
            while waiting and over is None and len(running) < run.executor.devices:
                try:
                    started = yield from _begin(run, waiting.popleft())
                    running[pool.submit(_result, run, started)] = started
                except (Stopped, BudgetSpent) as e:
                    over = e
            ended = wait(running, return_when=FIRST_COMPLETED).done
            for done in sorted(ended, key=lambda f: running[f].number):
                started = running.pop(done)
                try:
                    yield from _record(run, started, _paid(run, started, done.result))
                except ForewarpError as e:
                    # Measurements in progress on the other devices are paid for: wait for their results.
                    over = over if isinstance(over, ForewarpError) else e
        if over is not None:
            raise over
    finally:
        # A caller that closed this iterator does not wait: it closes the executor next, which ends what still runs.
        pool.shutdown(wait=False, cancel_futures=True)


def confirm(run: RunContext, row: CandidateRow) -> Generator[Event]:
    """Measure a candidate once more."""
    started = yield from _announce(run, row, "confirm")
    yield from _record(run, started, _paid(run, started, partial(_result, run, started)))


def _begin(run: RunContext, row: CandidateRow) -> Generator[Event, None, _Started]:
    """Announce a candidate's measurement; raises `Stopped` or `BudgetSpent` where it may not begin."""
    # One that was announced before a kill is booked already, whatever the budget says by now.
    if row.measurement_id is None:
        run.check_may_begin()
    return (yield from _announce(run, row, "candidate"))


def _announce(run: RunContext, row: CandidateRow, purpose: Purpose) -> Generator[Event, None, _Started]:
    kernel = row.candidate.sha256
    # After a resume the artefact may be gone; the executor's cache makes this free where it is not.
    build = run.builds.get(row.proposal) or with_evidence(
        run.executor, run.task, row.candidate, run.executor.compile(run.task, row.candidate)
    )
    with run.archive.transaction():
        number = run.archive.begin_measurement(
            run.task, run.target, row.candidate, run=run.id, proposal=row.proposal, purpose=purpose
        )
        measuring = run.recorder.say(Measuring(run.id, run.round, kernel, number, purpose))
        run.recorder.tick()
    yield measuring
    beat = _beat(run, row) if purpose == "candidate" and run.settings.early_stop else None
    return _Started(row, purpose, number, build, beat)


def _record(run: RunContext, started: _Started, m: Measurement) -> Generator[Event]:
    row, number, purpose = started.row, started.number, started.purpose
    alarms = run.state.watch.alarms
    with run.archive.transaction():
        run.archive.finish_measurement(number, m, started.build)
        run.recorder.tick()
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
        said = [run.recorder.say(measured), *run.recorder.warn()]
        if run.state.watch.alarms > alarms:
            watch = run.state.watch
            said.append(run.recorder.say(Alarmed(run.id, run.round, watch.alarms, watch.waiting)))
    yield from said


def _result(run: RunContext, started: _Started) -> Measurement:
    """Measure, and once again if the measuring process was lost: a flicker should not end a long run."""
    candidate, build = started.row.candidate, started.build
    return twice(lambda: run.executor.measure(run.task, candidate, build, beat=started.beat))


def _paid(run: RunContext, started: _Started, result: Callable[[], Measurement]) -> Measurement:
    """Return a result; if there is none, book the time that its attempts took before the error is raised."""
    try:
        return result()
    except WorkerError as e:
        run.archive.add_lost(run.id, e.lost_s, f"measurement {started.number}")
        raise


def _beat(run: RunContext, row: CandidateRow) -> float | None:
    """Return the speed-up that the candidate must reach to be of use; None where its time is wanted in any case."""
    best = run.state.best
    if row.decision is None or not policy.may_stop_early(row.decision) or best is None or best.measurement is None:
        return None
    # An ambiguous best leads only until there is another: it must not stop the timing of another one early.
    return None if best.measurement.verdict == "ambiguous" else best.measurement.speedup
