"""Cache on the disk of what takes long to make: folders and texts by key, and compiled candidates by their sources."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from forewarp.core import serde
from forewarp.core.errors import DeviceError, WorkerError
from forewarp.core.files import write_whole
from forewarp.core.values import Build, Candidate, Evidence, Signature, Status, Target
from forewarp.gpu_runner.compilers.extension import settings
from forewarp.gpu_runner.compilers.process import MANIFEST
from forewarp.gpu_runner.executors.client import Reply, WorkerClient, readable
from forewarp.gpu_runner.worker.channel import LACKING, MACHINE
from forewarp.gpu_runner.worker.requests import CompileJob, ConfinedFolder, JobEnding

T = TypeVar("T")
CACHE_VERSION = "7"
"""Raised when compiling makes something else of a source, or refuses one: what is kept is not checked again."""
RUNS_CODE = ("python", "triton")
"""Languages of which code of the candidate runs while it is compiled, and may end that itself."""
_OUT_OF_TIME = "CPU time limit exceeded"
"""Words of compilers of which a program was ended for its processor time."""
_ENDLESS = (
    "The source took all the processor time that compiling may take. It is to blame, not this machine: look for "
    "includes, templates, constant expressions or unrolled loops that multiply, and for code that runs at its import."
)
_PART, _ABANDONED_S = "part-", 86400.0
"""Beginning of the name of a folder that is being written to, and the age from which on nobody does any more."""
_ROOM = 1 << 20
"""Bytes that must be free for a failure to be the candidate's fault."""


def key_of(*parts: Any) -> str:
    """Return the name under which something that depends on these values is kept; they must be JSON."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def cached(path: Path, parse: Callable[[str], T], make: Callable[[], str]) -> T:
    """Return what `parse` makes of a file's text; where it cannot be read, of new text, which is kept if it can be."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        return parse(path.read_text())
    text = make()
    with contextlib.suppress(OSError):
        write_whole(path, text)
    return parse(text)


class ArtifactCache:
    """Folders by key, each of which appears whole or not at all; safe to use from several threads and processes."""

    def __init__(self, folder: Path, contents: str) -> None:
        """`contents` names what is kept here, in the plural, for errors; the folder is made when it is needed."""
        self.folder, self._contents = folder, contents

    @contextlib.contextmanager
    def scratch(self) -> Generator[Path]:
        """Give a folder to write to, gone afterwards unless it was kept; what the disk refuses raises `WorkerError`."""
        scratch: Path | None = None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._remove_abandoned()
            scratch = Path(tempfile.mkdtemp(prefix=_PART, dir=self.folder))
            yield scratch
        except OSError as e:
            raise WorkerError(
                f"{self._contents} cannot be kept under {self.folder}: {e.strerror or e}",
                hint="free some space, or set FOREWARP_CACHE to another folder",
            ) from None
        finally:
            if scratch:
                shutil.rmtree(scratch, ignore_errors=True)

    def _remove_abandoned(self) -> None:
        """Remove what a killed process was writing to; its age tells, because other machines may write here, too."""
        for part in self.folder.glob(f"{_PART}*"):
            with contextlib.suppress(OSError):
                if time.time() - part.stat().st_mtime > _ABANDONED_S:
                    shutil.rmtree(part, ignore_errors=True)

    def keep(self, scratch: Path, key: str) -> Path:
        """Keep a scratch folder, without its `cache`, and return its place; what has the key already stays instead."""
        folder = self.folder / key
        shutil.rmtree(scratch / "cache", ignore_errors=True)
        scratch.chmod(0o755)  # a cell may run as another user
        if not folder.exists():
            try:
                scratch.rename(folder)
            except OSError:
                # Another process was first; the system then says that the folder is not empty.
                if not folder.exists():
                    raise
        return folder


def need_room(scratch: Path) -> None:
    """Raise `OSError` where a disk is so full that nothing could have been written to it."""
    if shutil.disk_usage(scratch).free < _ROOM:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Builds:
    """Compiled candidates of one target, by source, tunables, shapes, target and compiler versions."""

    def __init__(self, worker: WorkerClient, target: Target, cache: Path, *, compile_s: float, memory: int) -> None:
        self._worker, self._target = worker, target
        self._cache = ArtifactCache(cache / "builds", "compiled candidates")
        self._compile_s, self._memory = compile_s, memory

    @property
    def folder(self) -> Path:
        return self._cache.folder

    def get(
        self,
        candidate: Candidate,
        signatures: Sequence[Signature],
        versions: Callable[[], dict[str, str]],
        cpu_s: int | None = None,
    ) -> Build:
        """Return the candidate compiled, from the cache if it is there; in `cpu_s` seconds of processor time, if given.

        A compile that somebody else killed is tried once more. Raises `WorkerError` on a full disk, and where the
        second attempt was killed, too; a candidate whose own code runs while it is compiled has crashed then.
        """
        start = time.perf_counter()
        key = key_of(
            CACHE_VERSION, candidate.sha256, serde.to_data(signatures), serde.to_data(self._target), versions()
        )
        if (self.folder / key / MANIFEST).exists():
            return _build(self.folder / key, time.perf_counter() - start, cached=True)
        killed = ""
        for attempt in (1, 2):
            start = time.perf_counter()
            with self._cache.scratch() as scratch:
                reply = self._compile(candidate, signatures, scratch, cpu_s)
                if (killed := _killed(reply)) and (attempt == 1 or candidate.language not in RUNS_CODE):
                    continue
                if (failed := _failure(reply, cpu_s)) is not None:
                    need_room(scratch)
                    return failed
                return _build(self._cache.keep(scratch, key), time.perf_counter() - start, cached=False)
        raise WorkerError(
            f"compiling was ended by something else than forewarp, twice; the candidate is not to blame: {killed}",
            hint="look whether this machine runs out of memory (`dmesg`), then run the command again",
        )

    def _compile(self, candidate: Candidate, signatures: Sequence[Signature], folder: Path, cpu_s: int | None) -> Reply:
        # A torch extension that torch has to build its own way takes most of a minute.
        limit_s = int(self._compile_s) * (4 if candidate.language == "python" else 1)
        if cpu_s is not None:
            limit_s = min(limit_s, 2 * cpu_s)
        confined = ConfinedFolder(str(folder), self._memory, min(limit_s, cpu_s or limit_s))
        job = CompileJob(
            candidate=candidate,
            signatures=tuple(signatures),
            target=self._target,
            folder=confined,
            triton=candidate.language == "triton",
        )
        return self._worker.run(job, limit_s)


def manifest_of(build: Build) -> dict[str, Any]:
    """Return a build's manifest; empty for a build without an artefact."""
    return json.loads((Path(build.artefact) / MANIFEST).read_text()) if build.artefact else {}


def _build(folder: Path, seconds: float, *, cached: bool) -> Build:
    manifest = json.loads((folder / MANIFEST).read_text())
    log = settings.summary(manifest) if "extensions" in manifest else ""
    evidence = Evidence(manifest["facts"], tuple(manifest.get("problems", ())))
    return Build("ok", seconds, log, str(folder), manifest["binary_sha256"], cached, evidence)


def _killed(reply: Reply) -> str:
    """Say how a compile was ended by something else than its own doing; "" where it was not."""
    if (ended := reply.read(JobEnding)) is not None:
        return readable(ended.log) if ended.status == MACHINE else ""
    return reply.ending(0.0)[1] if reply.exit_status == -signal.SIGKILL and not reply.timed_out else ""


def _failure(reply: Reply, cpu_s: int | None = None) -> Build | None:
    """Return the failed build, or None where compiling went well; raises `DeviceError` for lack of a compiler."""
    ended = reply.read(JobEnding)
    late = cpu_s is not None and reply.timed_out
    if late or (ended is not None and (ended.status == "timeout" or _OUT_OF_TIME in ended.log)):
        return Build("timeout", reply.seconds, _ENDLESS)
    if ended is None:
        status, log = reply.ending(reply.seconds)
        return Build(status, reply.seconds, f"compiling ended early: {log}")
    if ended.status == "ok":
        return None
    if ended.status == LACKING:
        raise DeviceError(readable(ended.log), hint="install g++ or clang++, or set CXX to the path of one")
    status = "crashed" if ended.status == MACHINE else cast("Status", ended.status)
    return Build(status, reply.seconds, readable(ended.log))
