"""Executor for devices at the far end of a link: it keeps artefacts here and repeats requests that were lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from forewarp.core import errors, serde
from forewarp.core.errors import DeviceError, ForewarpError, WorkerError
from forewarp.core.protocols import Subject
from forewarp.core.validation import WorkloadReport
from forewarp.core.values import Build, Candidate, Measurement, Signature, Target, Task
from forewarp.gpu_runner.cache import default_cache
from forewarp.gpu_runner.remote.far_end.artefacts import Artefacts, pack
from forewarp.gpu_runner.remote.far_end.link import Link, LinkLost
from forewarp.gpu_runner.remote.far_end.wire import Frame

TRIES: Final = 4
"""Most attempts at one request when its machine is lost each time."""
PAUSE_S: Final = 1.0
"""Pause before the second attempt to connect; doubled each time after that."""
MOST_PAUSE_S: Final = 5.0
"""Longest pause between attempts to reach a machine that does not answer."""
_HINT = "check that the machine is up; `forewarp doctor --executor …` says what can be reached"

_ERRORS: dict[str, type[ForewarpError]] = {
    kind.code: kind
    for kind in (
        *(errors.UsageError, errors.TaskError, errors.CandidateError, errors.ModelError, errors.UnprotectedError),
        *(errors.DeviceError, errors.WorkerError, errors.ArchiveError),
    )
}


class RemoteExecutor:
    """Implements `protocols.Executor` over a link; a job whose machine is lost is done again, up to `TRIES` times."""

    def __init__(
        self,
        connect: Callable[[], Link],
        opening: Mapping[str, Any],
        *,
        where: str,
        cache: Path | None = None,
        patience_s: float = 0.0,
        advise: Callable[[str], str] = lambda _: "",
    ) -> None:
        """Connect and open the device at once; raises `DeviceError` where that fails.

        `opening` is the body of the request `open`, `where` names the far end in messages. One that is lost is looked
        for during `patience_s` seconds. `advise` turns what went wrong into what to do about it, or "".
        """
        self._connect, self._opening, self._where = connect, dict(opening), where
        self._patience_s, self._advise = patience_s, advise
        self._artefacts = Artefacts(cache or default_cache())
        self._lock = threading.Lock()
        self._link: Link | None = None
        self._closed = threading.Event()
        self._lost_at: float | None = None
        self._signatures: dict[str, tuple[Signature, ...]] = {}
        self._opened: dict[str, Any] = {}
        try:
            self._linked()
        except LinkLost as e:
            raise DeviceError(f"{where} cannot be reached: {e}", hint=self._advise(str(e)) or _HINT) from None
        except BaseException:
            self.close()
            raise
        self._target = serde.from_data(Target, self._opened["target"])

    @property
    def target(self) -> Target:
        return self._target

    @property
    def devices(self) -> int:
        return int(self._opened["devices"])

    @property
    def compilers(self) -> int:
        """Number of candidates that can be compiled at once: the processor cores of all machines."""
        return int(self._opened["cores"])

    def candidates(self, task: Task) -> None:
        """Return None: any candidate can be compiled."""

    def describe(self, task: Task) -> tuple[Signature, ...]:
        known = self._signatures.get(task.sha256)
        if known is None:
            answer = self._ask("describe", {"task": _bare(task)}).head["ok"]
            known = tuple(serde.from_data(Signature, s) for s in answer["signatures"])
            self._signatures[task.sha256] = known
        return known

    def make_seeds(self, task: Task) -> tuple[Candidate, ...]:
        answer = self._ask("make_seeds", {"task": _bare(task)}).head["ok"]
        return tuple(serde.from_data(Candidate, c) for c in answer["candidates"])

    def compile(self, task: Task, candidate: Candidate) -> Build:
        frame = self._ask("compile", {"task": _bare(task), "candidate": serde.to_data(candidate)})
        build = serde.from_data(Build, frame.head["ok"]["build"])
        return replace(build, artefact=str(self._artefacts.keep(frame.blobs[0]))) if frame.blobs else build

    def measure(
        self, task: Task, candidate: Candidate, build: Build, against: Subject | None = None, beat: float | None = None
    ) -> Measurement:
        begun = time.monotonic()
        body = {
            "task": _bare(task),
            "subject": _subject(candidate, build),
            "against": _subject(against.candidate, against.build) if against else None,
            "beat": beat,
        }
        lost: list[float] = []
        try:
            frame = self._ask("measure", body, lost=lost)
            if "needs" in frame.head["ok"]:
                folders = {Path(b.artefact) for b in (build, *((against.build,) if against else ())) if b.artefact}
                # All artefacts go along: the next free device need not be the one that asked for them.
                frame = self._ask("measure", body, [pack(f) for f in sorted(folders)], lost=lost)
            m = serde.from_data(Measurement, frame.head["ok"]["measurement"])
            if m.device != self._target.name:
                raise WorkerError(
                    f"an answer came from {m.device}, not from {self._target.name}: such results do not mix",
                    hint=f"look at the machines of {self._where}; `forewarp doctor` lists them",
                )
        except WorkerError as e:
            e.lost_s = sum(lost)
            raise
        own = m.phases.get("total", 0.0) - build.seconds + sum(lost)
        phases = {**m.phases, "waited": max(0.0, time.monotonic() - begun - own)}
        return replace(m, phases=phases | ({"lost": sum(lost)} if lost else {}))

    def validate(self, task: Task, started: Callable[[str], None] = lambda _: None) -> tuple[WorkloadReport, ...]:
        started(", ".join(w.name for w in task.workloads[self._target.kind]))
        answer = self._ask("validate", {"task": _bare(task)}).head["ok"]
        return tuple(serde.from_data(WorkloadReport, r) for r in answer["reports"])

    def close(self) -> None:
        """Close the link to the far end; safe to call twice, and while others wait: they get a `WorkerError`."""
        self._closed.set()
        link, self._link = self._link, None
        if link is not None:
            link.close(patience_s=5.0)

    def _ask(
        self, verb: str, body: Mapping[str, Any], blobs: Sequence[bytes] = (), *, lost: list[float] | None = None
    ) -> Frame:
        """Return the answer to a request, repeated after each loss, the seconds of which are added to `lost`."""
        lost = [] if lost is None else lost
        pause, why = 0.0, ""
        for _ in range(TRIES):
            if self._closed.wait(pause):
                break
            sent: float | None = None
            try:
                link = self._linked()
                sent = time.monotonic()
                frame = link.submit(verb, body, blobs).result()
            except LinkLost as e:
                if sent is not None:
                    lost.append(time.monotonic() - sent)
                why, pause = str(e), max(PAUSE_S, 2 * pause)
                continue
            if "error" in frame.head:
                raise self._error(frame.head["error"])
            return frame
        if self._closed.is_set():
            message, hint = "the executor was closed while it worked", "nothing is lost: ask for the same again"
        else:
            message, hint = f"{self._where} was lost {TRIES} times in a row: {why}", self._advise(why) or _HINT
        raise WorkerError(message, hint=hint)

    def _linked(self) -> Link:
        """Return a living link with the device open, made anew if the last one was lost."""
        with self._lock:
            if self._link is not None and self._link.alive:
                return self._link
            if self._link is not None:
                self._link.close()
                self._link, self._lost_at = None, time.monotonic()
            link = self._reached()
            try:
                self._opened = self._open(link)
            except BaseException:
                link.close()
                raise
            self._link = link
            if self._closed.is_set():
                self.close()
                raise LinkLost("closed")
            return link

    def _reached(self) -> Link:
        """Return a new connection; one that was lost is tried for as long as patience lasts. Raises `LinkLost`."""
        pause = PAUSE_S
        while not self._closed.is_set():
            try:
                return self._connect()
            except LinkLost:
                if self._lost_at is None or time.monotonic() + pause > self._lost_at + self._patience_s:
                    raise
            self._closed.wait(pause)
            pause = min(2 * pause, MOST_PAUSE_S)
        raise LinkLost("closed")

    def _open(self, link: Link) -> dict[str, Any]:
        answer = link.submit("open", self._opening).result().head
        if "error" in answer:
            raise self._error(answer["error"])
        opened: dict[str, Any] = answer["ok"]
        before = self._opened.get("target", opened["target"])
        if opened["target"]["name"] != before["name"]:
            raise DeviceError(
                f"{self._where} had {before['name']} and now has {opened['target']['name']}",
                hint="start again: results of different cards do not mix",
            )
        return opened

    def _error(self, error: Mapping[str, str]) -> ForewarpError:
        hint = self._advise(error["message"]) or error["hint"]
        return _ERRORS.get(error["code"], WorkerError)(error["message"], hint=hint)


def _bare(task: Task) -> dict[str, Any]:
    return serde.to_data(task.without_seeds())


def _subject(candidate: Candidate, build: Build) -> dict[str, Any]:
    name = Path(build.artefact).name if build.artefact else ""
    return {"candidate": serde.to_data(candidate), "build": serde.to_data(replace(build, artefact=name))}
