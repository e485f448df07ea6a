"""One search for several targets: a run per target, side by side, each on the machines that have its card."""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace

from forewarp.archive.rows import RunRow
from forewarp.archive.store import Archive
from forewarp.core.errors import UsageError
from forewarp.gpu_runner import devices
from forewarp.search.events import Event
from forewarp.search.islands import Islands
from forewarp.tools import session as sessions
from forewarp.tools.estimate import Estimate
from forewarp.tools.joint_report import JointResult, joint_report
from forewarp.tools.parts import Place
from forewarp.tools.search import (
    Own,
    Ready,
    ResumeRequest,
    SearchJob,
    SearchRequest,
    estimate_search,
    prepare,
    resume_search,
)
from forewarp.tools.session import Executors
from forewarp.tools.targets import GROUP, name_of, places_of

JOIN_S = 10.0
"""Seconds that a search which is ended at once waits for each of its threads; their unfinished work is lost."""


@dataclass(slots=True)
class JointJob:
    """A search for several targets that is being worked on; `jobs` are its runs, without those that are finished."""

    group: str
    archive: Archive
    jobs: list[SearchJob]
    executors: Executors
    errors: dict[str, Exception] = field(default_factory=dict[str, Exception])
    """Errors that ended runs early, by run id."""

    def events(self) -> Generator[Event]:
        """Work on all runs, each in a thread, and yield their events; closing the generator interrupts all of them.

        An error ends its own run only, and is found in `errors`; if every run failed, the first error is raised.
        """
        said: queue.SimpleQueue[Event | _Ended] = queue.SimpleQueue()
        closed = threading.Event()
        threads = [threading.Thread(target=_work, args=(job, said, closed), daemon=True) for job in self.jobs]
        for thread in threads:
            thread.start()
        working = len(threads)
        try:
            while working:
                match said.get():
                    case _Ended(run, error):
                        working -= 1
                        if error is not None:
                            self.errors[run] = error
                    case event:
                        yield event
        finally:
            if working:
                self._end(threads, closed)
        if len(self.errors) == len(self.jobs) > 0:
            raise next(iter(self.errors.values()))

    def stop(self) -> None:
        """Ask every run to end with the best so far; may be called from a signal handler."""
        for job in self.jobs:
            job.stop()

    def result(self) -> JointResult:
        """Return the result so far, with the runs that were finished before."""
        return joint_report(self.archive, self.group)

    def _end(self, threads: Sequence[threading.Thread], closed: threading.Event) -> None:
        """End all runs at once; measurements in progress are lost, and repeated when the runs are resumed."""
        closed.set()
        self.stop()
        self.executors.close()
        for thread in threads:
            thread.join(JOIN_S)
        for job in self.jobs:
            if self.archive.run(job.run_id).status == "failed" and job.run_id not in self.errors:
                self.archive.set_status(job.run_id, "interrupted", "interrupted")


@dataclass(frozen=True, slots=True)
class _Ended:
    run: str
    error: Exception | None


def _work(job: SearchJob, said: queue.SimpleQueue[Event | _Ended], closed: threading.Event) -> None:
    error: Exception | None = None
    try:
        with closing(job.events()) as events:
            for event in events:
                said.put(event)
                if closed.is_set():
                    break
    except Exception as e:
        error = e
    finally:
        # Always sent, however the run ended: `events` waits for one of these from each thread.
        said.put(_Ended(job.run_id, error))


@contextmanager
def open_joint(
    request: SearchRequest, targets: Sequence[str], executors: Executors | None = None
) -> Generator[JointJob]:
    """Register a run for each target; `request` holds for every one, its budget too.

    `executors` are the devices to use, where the caller has some; closing the events ends them all the same. Nothing
    happens before the events are read. Raises `UsageError` where two names mean one device.
    """
    places = _several(request.place, targets)
    group = f"{GROUP}{secrets.token_hex(3)}"
    prepared = [prepare(request.model_copy(update={"place": place})) for place in places]
    with ExitStack() as stack:
        executors = executors or stack.enter_context(Executors())
        opened = [
            stack.enter_context(sessions.open_session(p, request.task, executors, **request.options)) for p in places
        ]
        names = [o.executor.target.name for o in opened]
        if len(set(names)) < len(names):
            raise UsageError(
                f"the targets are {', '.join(names)}: one device in two runs",
                hint="several machines with one card are one target: --executor ray",
            )
        fitted: list[Ready] = []
        for number, (made, session) in enumerate(zip(prepared, opened, strict=True)):
            # Different seeds: islands that draw the same candidates would have nothing to exchange.
            own = replace(made.settings, seed=made.settings.seed + number, group=group, visitors=len(names) - 1)
            own = replace(own, place=name_of(made.request.place))
            fitted.append(replace(made, settings=own).fitted(session))
        # Registered in quick succession: an error or a kill must not leave a search without some of its runs.
        islands = Islands(opened[0].archive)
        yield JointJob(group, opened[0].archive, [one.begin(islands) for one in fitted], executors)


@contextmanager
def resume_joint(
    request: ResumeRequest, targets: Sequence[str] = (), executors: Executors | None = None
) -> Generator[JointJob]:
    """Resume the unfinished runs of a search for several targets.

    `targets` says where they go on; left out, where they began. Raises as `resume_search` does.
    """
    with ExitStack() as stack:
        archive = stack.enter_context(sessions.existing_archive(request.place, request.run_id))
        rows = archive.group(request.run_id)
        group = str(rows[0].settings["group"])
        open_rows = [r for r in rows if r.status != "finished"]
        if not open_rows:
            raise UsageError(f"search {group} is finished", hint="start a new one instead")
        executors = executors or stack.enter_context(Executors())
        islands = Islands(archive)
        for row in rows:
            if row.status == "finished":
                islands.ended(row.target.name, row.id)
        own = Own(executors=executors)
        places = _places(request.place, open_rows, targets)
        resumed = [
            request.model_copy(update={"run_id": row.id, "place": place})
            for row, place in zip(open_rows, places, strict=True)
        ]
        jobs = [stack.enter_context(resume_search(one, own, islands)) for one in resumed]
        yield JointJob(group, archive, jobs, executors)


def estimate_joint(request: SearchRequest, targets: Sequence[str]) -> list[Estimate]:
    """Return one estimate per target; raises what `open_joint` would raise for the request."""
    return [estimate_search(request.model_copy(update={"place": place})) for place in _several(request.place, targets)]


def _several(place: Place, targets: Sequence[str]) -> list[Place]:
    places = places_of(place, targets)
    if len(places) < 2:
        raise UsageError("a search for several targets needs two of them", hint="write --target h200,a100")
    return places


def _places(place: Place, rows: Sequence[RunRow], targets: Sequence[str]) -> list[Place]:
    """Return the place at which each run is resumed: where it began, or the one of `targets` that has its card."""
    if not targets:
        return [places_of(place, [str(row.settings["place"])])[0] for row in rows]
    given = places_of(place, targets)
    return [_place_for(row, given) for row in rows]


def _place_for(row: RunRow, given: Sequence[Place]) -> Place:
    named = [p for p in given if p.card and devices.is_called(row.target, p.card)]
    found = named or [p for p in given if not p.card and sessions.target_of(p).name == row.target.name]
    if not found:
        raise UsageError(
            f"run {row.id} of {row.settings['group']} measures on {row.target.name}, which is not among the targets",
            hint="say where that is: --target TARGET@EXECUTOR, once for each target",
        )
    return found[0]
