"""Compiled candidates, kept by what went into them: source, tunables, shapes, target, compiler versions."""

from __future__ import annotations

import hashlib
import json
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from forewarp.core import serde
from forewarp.core.errors import WorkerError
from forewarp.core.values import Build, Candidate, Evidence, Signature, Status, Target
from forewarp.gpu_runner.compilers.extension import settings
from forewarp.gpu_runner.compilers.process import MANIFEST
from forewarp.gpu_runner.executors.client import Reply, WorkerClient, readable
from forewarp.gpu_runner.executors.headers import Headers
from forewarp.gpu_runner.executors.shelf import Shelf, need_room
from forewarp.gpu_runner.worker.channel import MACHINE

CACHE_VERSION = "5"
RUNS_CODE = ("python", "triton")
"""Languages of which code of the candidate runs while it is compiled, and may end that itself."""


class Builds:
    """The cache of one target. Safe to use from several threads and processes: a build appears whole or not at all."""

    def __init__(self, worker: WorkerClient, target: Target, folder: Path, *, compile_s: float, memory: int) -> None:
        self._worker, self._target, self._shelf = worker, target, Shelf(folder, "compiled candidates")
        self._compile_s, self._memory = compile_s, memory
        self._headers = Headers(worker.python, target, folder.parent / "headers")

    @property
    def folder(self) -> Path:
        """Folder of compiled candidates."""
        return self._shelf.folder

    def get(
        self, candidate: Candidate, signatures: Sequence[Signature], versions: Callable[[], dict[str, str]]
    ) -> Build:
        """Return the candidate compiled, from the cache where it is there; raises `WorkerError` on a full disk."""
        start = time.perf_counter()
        key = self._key(candidate, signatures, versions())
        folder = self._shelf.folder / key
        if (folder / MANIFEST).exists():
            return _build(folder, time.perf_counter() - start, cached=True)
        for last in (False, True):
            build = self._compiled(candidate, signatures, versions, key, last=last)
            if build is not None:
                break
        assert build is not None, "the last attempt gives a build or raises"
        return build

    def _compiled(
        self,
        candidate: Candidate,
        signatures: Sequence[Signature],
        versions: Callable[[], dict[str, str]],
        key: str,
        *,
        last: bool,
    ) -> Build | None:
        """Compile; return None where the compiler was killed, unless this is the `last` attempt.

        Then it raises `WorkerError`, or where code of the candidate runs while it is compiled, that has crashed.
        """
        start = time.perf_counter()
        with self._shelf.scratch("build-") as scratch:
            job = self._job(candidate, signatures, scratch)
            if candidate.language == "python" and (headers := self._headers.get(versions())):
                (scratch / settings.PRECOMPILED).symlink_to(headers)
                job["reads"] = [str(headers)]
            reply = self._worker.run(job, job["cpu_s"])
            if killed := _killed(reply):
                if not last:
                    return None
                if candidate.language not in RUNS_CODE:
                    raise WorkerError(
                        f"compiling was ended by something else than forewarp, twice; the candidate is not to blame: "
                        f"{killed}",
                        hint="look whether this machine runs out of memory (`dmesg`), then run the command again",
                    )
            failed = _failure(reply)
            if failed is not None:
                need_room(scratch)
                return failed
            self._shelf.keep(scratch, key)
        return _build(self._shelf.folder / key, time.perf_counter() - start, cached=False)

    def _key(self, candidate: Candidate, signatures: Sequence[Signature], versions: dict[str, str]) -> str:
        parts = [CACHE_VERSION, candidate.sha256, serde.to_data(signatures), serde.to_data(self._target), versions]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def _job(self, candidate: Candidate, signatures: Sequence[Signature], folder: Path) -> dict[str, Any]:
        return {
            "kind": "compile_job",
            "candidate": serde.to_data(candidate),
            "signatures": serde.to_data(signatures),
            "target": serde.to_data(self._target),
            "folder": str(folder),
            "memory": self._memory,
            # A torch extension that torch has to build its own way takes most of a minute.
            "cpu_s": int(self._compile_s) * (4 if candidate.language == "python" else 1),
        }


def manifest_of(build: Build) -> dict[str, Any]:
    """Return a build's manifest; empty for a build without an artefact."""
    return json.loads((Path(build.artefact) / MANIFEST).read_text()) if build.artefact else {}


def ending(reply: Reply, limit_s: float) -> tuple[Status, str]:
    """Name how a child that gave no answer ended."""
    if reply.timed_out:
        return "timeout", f"stopped after {limit_s:.0f} s\n{reply.log}".strip()
    if reply.exit_status is not None and reply.exit_status < 0:
        return "crashed", f"ended by {signal.Signals(-reply.exit_status).name}\n{reply.log}".strip()
    return "crashed", f"left with exit status {reply.exit_status} and no result\n{reply.log}".strip()


def _build(folder: Path, seconds: float, *, cached: bool) -> Build:
    manifest = json.loads((folder / MANIFEST).read_text())
    if "extensions" in manifest:
        evidence = Evidence(manifest["facts"])
        log = settings.summary(manifest)
        return Build("ok", seconds, log, str(folder), manifest["binary_sha256"], cached, evidence)
    evidence = Evidence(manifest["facts"], tuple(manifest["problems"]))
    return Build("ok", seconds, "", str(folder), manifest["binary_sha256"], cached, evidence)


def _killed(reply: Reply) -> str:
    """Say how a compile was ended by something else than its own doing; "" where it was not."""
    if reply.answer is not None:
        return readable(reply.answer["log"]) if reply.answer["status"] == MACHINE else ""
    return ending(reply, 0.0)[1] if reply.exit_status == -signal.SIGKILL and not reply.timed_out else ""


def _failure(reply: Reply) -> Build | None:
    """Return the failed build, or None where compiling went well."""
    if reply.answer is not None:
        status = reply.answer["status"]
        if status == "ok":
            return None
        return Build("crashed" if status == MACHINE else status, reply.seconds, readable(reply.answer["log"]))
    status, log = ending(reply, reply.seconds)
    return Build(status, reply.seconds, f"compiling ended early: {log}")
