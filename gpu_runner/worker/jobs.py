"""The jobs a forked child can do: probe the machine, describe a task, compile, trace, measure."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from forewarp.core import serde
from forewarp.core.errors import CandidateError
from forewarp.core.values import Candidate, Signature, Target, Workload
from forewarp.gpu_runner.worker import protections
from forewarp.gpu_runner.worker.channel import Answer, Channel, ChannelClosed, ChannelTimeout
from forewarp.gpu_runner.worker.conditions import driver
from forewarp.gpu_runner.worker.tracebacks import told
from forewarp.gpu_runner.worker.watched import run_watched

LAUNCHER_IDLE_S = 120.0
LOOK_S = 60.0


def probe(job: dict[str, Any], answer: Channel) -> None:
    """Say what this Python has: versions, and whether its torch sees a GPU."""
    del job
    found: dict[str, str] = {"python": platform.python_version()}
    for name in ("torch", "triton"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    import torch

    found["cuda"] = str(torch.version.cuda or "")
    found["torch_sees_gpu"] = str(torch.cuda.is_available())
    if version := driver():
        found["driver"] = version
    answer.send(found)


def describe(job: dict[str, Any], answer: Channel) -> None:
    """Answer with one signature per workload, or with the reference's error."""
    from forewarp.gpu_runner.worker import problem

    try:
        workloads = [serde.from_data(Workload, w) for w in job["workloads"]]
        signatures = [problem.describe_job(job, w) for w in workloads]
    except Exception as e:
        answer.send({"error": f"{type(e).__name__}: {e}", "log": told(e, 4)})
        return
    answer.send({"signatures": serde.to_data(signatures)})


def compile_job(job: dict[str, Any], answer: Channel) -> None:
    """Compile into `job["folder"]`, confined: a Triton source is Python and runs here."""
    _watched(job, answer, _compile, "candidate")


def _watched(
    job: dict[str, Any], answer: Channel, work: Callable[[dict[str, Any], Path, Channel, bool], None], who: str
) -> None:
    """Have `work` done in a watched child, with caches of its own in the job's folder; answer where it is stopped."""
    folder = Path(job["folder"])
    cache = folder / "cache"
    cache.mkdir()
    _private_caches(cache)
    stopped = run_watched(lambda contained: work(job, folder, answer, contained), job["memory"])
    if stopped is not None:
        answer.send({"status": stopped[0], "log": f"the {who} {stopped[1]}", "protections": []})


def _confine(job: dict[str, Any], folder: Path, contained: bool) -> list[str]:
    """Confine this child to the folder; return the protections in force."""
    # What it writes must belong to the controller's user, so this child keeps that.
    how = protections.Confinement(
        str(folder), memory=job["memory"], own_processes=contained, drop_user=False, cpu_s=job["cpu_s"]
    )
    return [*protections.confine(how), *(["own process namespace"] if contained else [])]


def _compile(job: dict[str, Any], folder: Path, answer: Channel, contained: bool) -> None:
    from forewarp.gpu_runner.compilers import CompileError, compile_candidate, extension

    guards = _confine(job, folder, contained)
    try:
        candidate, target = serde.from_data(Candidate, job["candidate"]), serde.from_data(Target, job["target"])
        if candidate.language == "python":
            manifest = extension.compile_candidate(candidate, target, folder)
        else:
            signatures = [serde.from_data(Signature, s) for s in job["signatures"]]
            manifest = compile_candidate(candidate, signatures, target, folder)
    except MemoryError:
        answer.send(
            {"status": "out_of_memory", "log": "compiling took more memory than allowed", "protections": guards}
        )
    except (CompileError, CandidateError) as e:
        answer.send({"status": "compile_error", "log": str(e), "protections": guards})
    else:
        answer.send({"status": "ok", "manifest": manifest, "protections": guards})


def trace(job: dict[str, Any], answer: Channel) -> None:
    """Trace a module's launches into `job["folder"]`, confined: the module and the reference run here."""
    _watched(job, answer, _trace, "module")


def _trace(job: dict[str, Any], folder: Path, answer: Channel, contained: bool) -> None:
    # Imported before the child is confined, so that the module's limits are not spent on it.
    from forewarp.gpu_runner.tracing import job as tracing

    guards = _confine(job, folder, contained)
    tracing.trace(job, folder)
    answer.send({"status": "ok", "log": "", "protections": guards})


def _private_caches(folder: Path) -> None:
    import os

    os.environ |= {"TMPDIR": str(folder), "TRITON_CACHE_DIR": str(folder / "triton"), "HOME": str(folder)}


def interpret(job: dict[str, Any], answer: Channel) -> None:
    """Answer with the check of a Triton or Python candidate, run in Triton's interpreter in a confined child."""
    from forewarp.gpu_runner.interpreter import job as interpreter

    answer.send(serde.to_data(interpreter.interpret(job)))


def emulate(job: dict[str, Any], answer: Channel) -> None:
    """Answer with the check of a CUDA candidate, run on the CPU in confined children."""
    from forewarp.gpu_runner.emulator import job as emulator

    answer.send(serde.to_data(emulator.emulate(job)))


def measure(job: dict[str, Any], answer: Channel) -> None:
    """Judge one candidate in cells; the answer is a result in every case that is the candidate's own doing."""
    from forewarp.gpu_runner.worker.bench_cells import CellBench
    from forewarp.gpu_runner.worker.judge import Judge

    answer.send({"started": True})
    answer.send(Judge(job, lambda w, s: CellBench(job, w, s), _asking(answer)).run())


def launcher(job: dict[str, Any], answer: Channel) -> None:
    """Judge one device-only candidate after another until none came for a while, or the device is broken.

    No host code of a candidate ever runs here. Each job begins with a canary, a kernel whose result is known.
    """
    del job
    from forewarp.gpu_runner.worker.bench_launcher import Launcher, LauncherBench
    from forewarp.gpu_runner.worker.judge import Judge

    host = Launcher()
    while True:
        try:
            wanted: dict[str, Any] = answer.receive(LAUNCHER_IDLE_S)
        except (ChannelClosed, ChannelTimeout):
            return
        answer.send({"started": True})
        if not host.canary():
            answer.send({"canary": "wrong", "broken": True})
            return
        result = Judge(wanted, partial(LauncherBench, host, wanted), _asking(answer)).run()
        broken = result["status"] == "timeout" or not _sound(host)
        answer.send(result | {"broken": broken})
        if broken:
            return


def _sound(host: Any) -> bool:
    """Tell whether the device still does as it is told; an error that sticks ends the process that has it."""
    try:
        return bool(host.canary())
    except RuntimeError:
        return False


def _asking(answer: Channel) -> Callable[[dict[str, Any]], Answer]:
    """Return the question to the controller after a look: how to go on."""

    def ask(look: dict[str, Any]) -> Answer:
        answer.send({"look": look})
        return answer.receive(LOOK_S)["answer"]

    return ask
