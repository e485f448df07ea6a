"""Jobs of forked children: probe the machine, compile, measure. Other rooms have more, see `server.entry`."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from forewarp.core import serde
from forewarp.core.errors import CandidateError
from forewarp.core.values import Candidate, Signature, Target, Workload
from forewarp.gpu_runner.worker import activity, environment, memory, protections, toolchain
from forewarp.gpu_runner.worker.channel import MACHINE, Answer, Channel, ChannelClosed, ChannelTimeout
from forewarp.gpu_runner.worker.conditions import driver
from forewarp.gpu_runner.worker.task_confinement import (
    around_task,
    confine_task,
    device_of,
    job_folder,
    needs_caution,
    refusing,
    run_confined,
)
from forewarp.gpu_runner.worker.tracebacks import format_error
from forewarp.gpu_runner.worker.watch import HostWatch, Suspect, processes, run_watched

LAUNCHER_IDLE_S = 120.0
OBSERVER_IDLE_S = 600.0
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


def read_inputs(job: dict[str, Any], answer: Channel) -> None:
    """Answer with the text of a file of captured inputs, or with what is wrong with it; read confined."""
    from forewarp.gpu_runner.worker import captured

    answer.send(run_confined(job, captured.read, reads=[job["path"]]))


def validate(job: dict[str, Any], answer: Channel) -> None:
    """Answer with one report per workload, or with the reference's error; the task's code runs confined."""
    from forewarp.gpu_runner.worker import nulls

    answer.send(run_confined(job, nulls.validate))


def compile_job(job: dict[str, Any], answer: Channel) -> None:
    """Compile into `job["folder"]`, confined: a Triton source is Python and runs here."""
    watched(job, answer, _compile, "candidate")


def watched(
    job: dict[str, Any], answer: Channel, work: Callable[[dict[str, Any], Path, Channel, bool], None], who: str
) -> None:
    """Have `work` done in a watched child, with caches of its own in the job's folder; answer where it is stopped."""
    folder = Path(job["folder"])
    cache = folder / "cache"
    cache.mkdir()
    environment.use_folder(str(cache))

    def act(contained: bool) -> None:
        with refusing(answer):
            work(job, folder, answer, contained)

    stopped = run_watched(act, job["memory"], host=HostWatch())
    if stopped is not None:
        status, log = stopped
        answer.send({"status": status, "log": log if status == MACHINE else f"the {who} {log}", "protections": []})


def confine(job: dict[str, Any], folder: Path, contained: bool) -> list[str]:
    """Confine this child to the folder; return the protections in force."""
    # What it writes must belong to the controller's user, so this child keeps that.
    how = protections.Confinement(
        str(folder),
        memory=job["memory"],
        own_processes=contained,
        drop_user=False,
        reads_only=[*toolchain.readable("cpu"), *job.get("reads", ())],
        cpu_s=job["cpu_s"],
    )
    return [*protections.confine(how), *([protections.OWN_PROCESSES] if contained else [])]


def _compile(job: dict[str, Any], folder: Path, answer: Channel, contained: bool) -> None:
    from forewarp.gpu_runner.compilers import compile_candidate
    from forewarp.gpu_runner.compilers.extension import capture
    from forewarp.gpu_runner.compilers.process import CompileError, CompilerKilled

    guards = confine(job, folder, contained)
    try:
        candidate, target = serde.from_data(Candidate, job["candidate"]), serde.from_data(Target, job["target"])
        if candidate.language == "python":
            manifest = capture.compile_candidate(candidate, target, folder)
        else:
            signatures = [serde.from_data(Signature, s) for s in job["signatures"]]
            manifest = compile_candidate(candidate, signatures, target, folder)
        found = {"status": "ok", "manifest": manifest}
    except MemoryError:
        found = {"status": "out_of_memory", "log": "compiling took more memory than allowed"}
    except CompilerKilled as e:
        found = {"status": MACHINE, "log": str(e)}
    except (CompileError, CandidateError) as e:
        found = {"status": "compile_error", "log": str(e)}
    answer.send(found | {"protections": guards})


def measure(job: dict[str, Any], answer: Channel) -> None:
    """Judge one candidate in cells; the answer is a result in every case that is the candidate's own doing."""
    if job["target_kind"] == "cuda":
        # Memory is lent within one process namespace only.
        _judge(job, answer, contained=False)
        return
    memory.bound_host()
    stopped = run_watched(
        lambda contained: _judge(job, answer, contained=contained), None, host=HostWatch(_arms_and_judge)
    )
    if stopped is not None:
        status, log = stopped
        nothing: dict[str, Any] = {"timings": [], "phases": {}, "protections": [], "environment": {}, "conditions": {}}
        answer.send(nothing | {"status": status, "log": log, "tier": "T1", "checks": [], "flags": []})


def _arms_and_judge(judge: int) -> list[Suspect]:
    """Return who may take memory while a candidate is measured, on the CPU device."""
    cells = sorted((p for p in processes().values() if p.parent == judge), key=lambda p: (p.started, p.pid))
    candidate = [p.pid for p in cells[1:]]  # the anchor's cell is the first, see `CellBench`
    return [
        Suspect("the candidate ", "out_of_memory", candidate),
        Suspect("the reference ", "reference_failed", [judge]),  # with its cell, and the candidate's little
    ]


def _judge(job: dict[str, Any], answer: Channel, *, contained: bool) -> None:
    """Judge one candidate in this process, which is confined once its cells are there: it runs the task's code."""
    from forewarp.gpu_runner.worker.bench_cells import CellBench
    from forewarp.gpu_runner.worker.judge import Judge

    protections.close_descriptors({answer.descriptor})
    activity.begin(job)
    if not contained:
        protections.keep_signals_inside()
    folder = job_folder(job)
    tempfile.tempdir = str(folder)  # where cells get their folders, which go with the job's

    def confine() -> list[str]:
        return confine_task(folder, device_of(job), contained=contained, signals=True)

    def bench(workloads: list[Workload], signatures: list[Signature]) -> CellBench:
        return CellBench(job, workloads, signatures, confine, cautious=needs_caution(folder, device_of(job)))

    answer.send({"started": True})
    with refusing(answer):
        answer.send(Judge(job, bench, _asking(answer)).run())


def observe(job: dict[str, Any], answer: Channel) -> None:
    """Open the device, confined, and wait for a module; answer with the device programs that it comes to.

    This much is done before anything is known of the module, so that it is not paid for when one comes. `job` has
    the `base` of the process's window, and `reads`, the folder of compiled candidates.
    """
    guards = confine_task(job_folder(job), "cuda", keep={answer.descriptor}, reads=job["reads"])
    import torch

    from forewarp.gpu_runner.lifting.graph import NotLiftable
    from forewarp.gpu_runner.lifting.observe import Observer, WrongResult

    observer = Observer(job["base"])
    wanted: dict[str, Any] = answer.receive(OBSERVER_IDLE_S)
    answer.send({"started": True})
    told_of = {"protections": guards}
    try:
        programs, descriptors = observer.observe(wanted)
    except NotLiftable as e:
        answer.send(told_of | {"status": "unlifted", "log": str(e)})
    except WrongResult as e:
        answer.send(told_of | {"status": "incorrect", "log": str(e)})
    except Exception as e:
        memory_ran_out = isinstance(e, torch.OutOfMemoryError | MemoryError)
        status = "out_of_memory" if memory_ran_out else "runtime_error"
        status = "unlifted" if observer.allocator.exhausted else status
        answer.send(told_of | {"status": status, "log": format_error(e, 6)[-8000:]})
    else:
        found = {"status": "ok", "log": "", "programs": serde.to_data(programs), "seconds": observer.seconds}
        answer.send(told_of | found, descriptors)


def launcher(job: dict[str, Any], answer: Channel) -> None:
    """Judge one device-only candidate after another until none came for a while, or the device is broken.

    No host code of a candidate ever runs here, but the task's does: it is confined from the start, and all candidates
    are of one task. `job["reads"]` names the folder of compiled candidates. Each request begins with a canary, a kernel
    whose result is known.
    """
    activity.begin(job)
    guards = confine_task(job_folder(job), "cuda", keep={answer.descriptor}, reads=job["reads"])
    from forewarp.gpu_runner.lifting.replay import Refused
    from forewarp.gpu_runner.worker import numerics
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
        try:
            host.receive(wanted, answer.descriptors())
        except Refused as e:
            answer.send({"refused": str(e), "broken": False})
            continue
        with numerics.restored():  # a reference's own settings are not the next one's
            result = Judge(wanted, partial(LauncherBench, host, wanted), _asking(answer)).run()
        broken = result["status"] == "timeout" or not _sound(host)
        if not broken:
            host.release("candidate")
        result["protections"] = [*result["protections"], around_task(guards)]
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
