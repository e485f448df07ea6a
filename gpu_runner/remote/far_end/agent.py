"""Server that answers frames, `open` first: an executor of this machine, errors as values, artefacts by content."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from forewarp.core import serde
from forewarp.core.errors import ForewarpError, UsageError, WorkerError
from forewarp.core.protocols import Executor, SeedMaker, Subject
from forewarp.core.validation import Validator
from forewarp.core.values import Build, Candidate, Task
from forewarp.gpu_runner.cache import default_cache
from forewarp.gpu_runner.executors.several import open_local
from forewarp.gpu_runner.remote.far_end.artefacts import Artefacts, digest, pack
from forewarp.gpu_runner.remote.far_end.wire import Frame, Wire, WireClosed

WireAnswer = tuple[dict[str, Any], tuple[bytes, ...]]
"""Body of an answer, and its blobs."""


class Agent:
    """Serves one executor. Compiles and measurements wait in separate queues, so that neither holds up the other."""

    def __init__(
        self, wire: Wire, opener: Callable[[dict[str, Any]], Executor] = lambda body: open_local(body["device"])
    ) -> None:
        self._wire, self._opener = wire, opener
        self._cores = len(os.sched_getaffinity(0))
        self._executor: Executor | None = None
        self._artefacts = Artefacts(default_cache())
        self._threads = {
            verb: ThreadPoolExecutor(count, thread_name_prefix=verb)
            for verb, count in {"open": 1, "describe": 1, "compile": self._cores}.items()
        }
        self._verbs: dict[str, Callable[[dict[str, Any], tuple[bytes, ...]], WireAnswer]] = {
            "open": self._open,
            "describe": self._describe,
            "make_seeds": self._make_seeds,
            "compile": self._compile,
            "measure": self._measure,
            "validate": self._validate,
        }

    def serve(self) -> None:
        while True:
            try:
                frame = self._wire.receive()
            except WireClosed:
                return
            self._threads.get(frame.head.get("verb", ""), self._threads["describe"]).submit(self._respond, frame)

    def close(self) -> None:
        if self._executor is not None:
            self._executor.close()

    def _respond(self, frame: Frame) -> None:
        blobs: tuple[bytes, ...] = ()
        try:
            answer, blobs = self._verbs[frame.head["verb"]](frame.head["body"], frame.blobs)
            head = {"ok": answer}
        except ForewarpError as e:
            head = {"error": {"code": e.code, "message": e.message, "hint": e.hint}}
        except Exception as e:
            head = {"error": {"code": "internal", "message": f"{type(e).__name__}: {e}", "hint": ""}}
        with contextlib.suppress(WireClosed):  # the end of the stream, which comes as well, ends everything
            self._wire.send({**head, "id": frame.head.get("id")}, blobs)

    def _open(self, body: dict[str, Any], _: tuple[bytes, ...]) -> WireAnswer:
        if self._executor is None:
            self._executor = self._opener(body)
            devices = ThreadPoolExecutor(self._executor.devices, thread_name_prefix="measure")
            self._threads |= {"measure": devices, "validate": devices}
        target = serde.to_data(self._executor.target)
        return {"target": target, "devices": self._executor.devices, "cores": self._cores}, ()

    def _opened(self) -> Executor:
        if self._executor is None:
            raise UsageError("nothing was opened yet")
        return self._executor

    def _make_seeds(self, body: dict[str, Any], _: tuple[bytes, ...]) -> WireAnswer:
        executor = self._opened()
        if not isinstance(executor, SeedMaker):
            raise UsageError("this device makes no seed kernels")
        return {"candidates": serde.to_data(executor.make_seeds(serde.from_data(Task, body["task"])))}, ()

    def _describe(self, body: dict[str, Any], _: tuple[bytes, ...]) -> WireAnswer:
        signatures = self._opened().describe(serde.from_data(Task, body["task"]))
        return {"signatures": serde.to_data(signatures)}, ()

    def _compile(self, body: dict[str, Any], _: tuple[bytes, ...]) -> WireAnswer:
        candidate = serde.from_data(Candidate, body["candidate"])
        build = self._opened().compile(serde.from_data(Task, body["task"]), candidate)
        if not build.artefact:
            return {"build": serde.to_data(build)}, ()
        data = pack(Path(build.artefact))
        return {"build": serde.to_data(replace(build, artefact=digest(data)))}, (data,)

    def _measure(self, body: dict[str, Any], blobs: tuple[bytes, ...]) -> WireAnswer:
        """Measure, or say which artefacts are missing here."""
        for data in blobs:
            self._artefacts.keep(data)
        against = body["against"]
        subjects = [body["subject"], *([against] if against else [])]
        wanted = {s["build"]["artefact"] for s in subjects} - {""}
        missing = sorted(name for name in wanted if self._artefacts.path(name) is None)
        if missing and blobs:
            raise WorkerError("compiled candidates changed on their way", hint="run the command again")
        if missing:
            return {"needs": missing}, ()
        subject, anchor = self._subject(body["subject"]), self._subject(against) if against else None
        task = serde.from_data(Task, body["task"])
        m = self._opened().measure(task, subject.candidate, subject.build, anchor, body["beat"])
        return {"measurement": serde.to_data(m)}, ()

    def _validate(self, body: dict[str, Any], _: tuple[bytes, ...]) -> WireAnswer:
        executor = self._opened()
        if not isinstance(executor, Validator):
            raise UsageError("this device cannot validate a task")
        return {"reports": serde.to_data(executor.validate(serde.from_data(Task, body["task"])))}, ()

    def _subject(self, data: dict[str, Any]) -> Subject:
        build = serde.from_data(Build, data["build"])
        folder = self._artefacts.path(build.artefact) if build.artefact else None
        return Subject(
            serde.from_data(Candidate, data["candidate"]), replace(build, artefact=str(folder) if folder else "")
        )
