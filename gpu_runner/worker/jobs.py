"""Jobs of forked children: probe the machine, compile, measure. Other rooms have more, see `requests`."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from forewarp.core import serde
from forewarp.core.errors import CandidateError
from forewarp.gpu_runner.worker import activity, environment, memory, protections, toolchain
from forewarp.gpu_runner.worker.channel import LACKING, MACHINE, Channel, ChannelClosed, ChannelTimeout, LookAnswer
from forewarp.gpu_runner.worker.conditions import driver
from forewarp.gpu_runner.worker.requests import (
    CompileJob,
    ConfinedFolder,
    JobEnding,
    JudgedStatus,
    Judgement,
    LauncherJob,
    LaunchRequest,
    MeasureJob,
    ObserveRequest,
    ObserverJob,
    ProbeJob,
    SeedsJob,
    TimingLook,
    ValidateJob,
)
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

if TYPE_CHECKING:
    from forewarp.gpu_runner.worker.bench_cells import CellBench
    from forewarp.gpu_runner.worker.bench_launcher import Launcher

LAUNCHER_IDLE_S = 120.0
OBSERVER_IDLE_S = 600.0
LOOK_S = 600.0
"""For an answer, which may wait until another process has prepared its own measurement and had its turn."""


def probe(job: ProbeJob, answer: Channel) -> None:
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


def validate(job: ValidateJob, answer: Channel) -> None:
    from forewarp.gpu_runner.worker import nulls

    answer.send(run_confined(job, job.device, lambda: nulls.validate(job)))


def make_seeds(job: SeedsJob, answer: Channel) -> None:
    from forewarp.gpu_runner.worker import inductor

    answer.send(run_confined(job, job.device, lambda: inductor.make_seeds(job)))


def compile_job(job: CompileJob, answer: Channel) -> None:
    watched(job.folder, answer, lambda: _compile(job), "candidate")


def watched(folder: ConfinedFolder, answer: Channel, work: Callable[[], object], who: str) -> None:
    """Answer with what `work` returns in a child that is watched, and confined to a folder where its caches are too."""
    cache = Path(folder.path) / "cache"
    cache.mkdir()
    environment.use_folder(str(cache))
    # What it writes must belong to the controller's user, so this child keeps that.
    how = protections.Confinement(
        folder.path,
        memory=folder.memory,
        drop_user=False,
        reads_only=[*toolchain.readable("cpu"), *folder.reads],
        cpu_s=folder.cpu_s,
    )

    def act(contained: bool) -> None:
        with refusing(answer):
            protections.confine(replace(how, own_processes=contained))
            answer.send(serde.to_data(work()))

    stopped = run_watched(act, folder.memory, host=HostWatch(), cpu_s=folder.cpu_s)
    if stopped is not None:
        status, log = stopped
        answer.send(serde.to_data(JobEnding(status, log if status == MACHINE else f"the {who} {log}")))


def _compile(job: CompileJob) -> JobEnding:
    from forewarp.gpu_runner.compilers import compile_candidate
    from forewarp.gpu_runner.compilers.extension import capture
    from forewarp.gpu_runner.compilers.process import CompileError, CompilerKilled, CompilerMissing

    folder = Path(job.folder.path)
    try:
        if job.candidate.language == "python":
            capture.compile_candidate(job.candidate, job.target, folder)
        else:
            compile_candidate(job.candidate, job.signatures, job.target, folder)
        return JobEnding("ok")
    except MemoryError:
        return JobEnding("out_of_memory", "compiling took more memory than allowed")
    except CompilerKilled as e:
        return JobEnding(MACHINE, str(e))
    except CompilerMissing as e:
        return JobEnding(LACKING, str(e))
    except (CompileError, CandidateError) as e:
        return JobEnding("compile_error", str(e))


def measure(job: MeasureJob, answer: Channel) -> None:
    """Judge one candidate in cells; the answer is a result in every case that is the candidate's own doing."""
    if job.device == "cuda":
        # Memory is lent within one process namespace only.
        _judge(job, answer, contained=False)
        return
    memory.bound_host()
    stopped = run_watched(
        lambda contained: _judge(job, answer, contained=contained), None, host=HostWatch(_arms_and_judge)
    )
    if stopped is not None:
        status, log = stopped
        answer.send(serde.to_data(Judgement(status=cast("JudgedStatus", status), log=log)))


def _arms_and_judge(judge: int) -> list[Suspect]:
    """Return who may take memory while a candidate is measured, on the CPU device."""
    cells = sorted((p for p in processes().values() if p.parent == judge), key=lambda p: (p.started, p.pid))
    candidate = [p.pid for p in cells[1:]]  # the anchor's cell is the first, see `CellBench`
    return [
        Suspect("the candidate ", "out_of_memory", candidate),
        Suspect("the reference ", "reference_failed", [judge]),  # with its cell, and the candidate's little
    ]


def _judge(job: MeasureJob, answer: Channel, *, contained: bool) -> None:
    """Judge one candidate in this process, which is confined once its cells are there: it runs the task's code."""
    from forewarp.gpu_runner.worker.bench_cells import CellBench
    from forewarp.gpu_runner.worker.judge import Judge

    protections.close_descriptors({answer.descriptor})
    activity.begin(job.log)
    folder = job_folder(job)
    if not contained:
        if job.device == "cpu":
            protections.hide_files(str(folder), [k.artefact for k in (job.anchor, job.candidate) if k and k.artefact])
        protections.keep_signals_inside()
    tempfile.tempdir = str(folder)  # where cells get their folders, which go with the job's

    def confine() -> list[str]:
        return confine_task(folder, device_of(job.device), contained=contained, signals=True)

    def bench() -> CellBench:
        return CellBench(job, confine, cautious=needs_caution(folder, device_of(job.device)))

    answer.send({"started": True})
    with refusing(answer):
        answer.send(serde.to_data(Judge(job, bench, _asking(answer)).run()))


def observe(job: ObserverJob, answer: Channel) -> None:
    """Open the device, confined, ahead of any module; answer with the device programs that the one that comes is."""
    guards = confine_task(job_folder(job), "cuda", keep={answer.descriptor}, reads=[job.builds])
    import torch

    from forewarp.gpu_runner.lifting.graph import NotLiftable
    from forewarp.gpu_runner.lifting.observe import Observer, WrongResult

    observer = Observer(job.base)
    answer.send({"ready": True})
    wanted = serde.from_data(ObserveRequest, answer.receive(OBSERVER_IDLE_S))
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


def launcher(job: LauncherJob, answer: Channel) -> None:
    """Judge one device-only candidate of a task after another until none comes for a while, or the device is broken.

    No host code of a candidate ever runs here, but the task's does: it is confined from the start. Each request begins
    with a canary, a kernel whose result is known.
    """
    activity.begin(job.log)
    guards = confine_task(job_folder(job), "cuda", keep={answer.descriptor}, reads=[job.builds])
    from forewarp.gpu_runner.lifting.replay import Refused
    from forewarp.gpu_runner.worker import numerics
    from forewarp.gpu_runner.worker.bench_launcher import Launcher, LauncherBench
    from forewarp.gpu_runner.worker.judge import Judge

    host = Launcher()
    answer.send({"ready": True})
    while True:
        try:
            request = serde.from_data(LaunchRequest, answer.receive(LAUNCHER_IDLE_S))
        except (ChannelClosed, ChannelTimeout):
            return
        answer.send({"started": True})
        if not host.canary():
            answer.send(serde.to_data(Judgement(status="canary_wrong", broken=True)))
            return
        try:
            host.receive(request, answer.descriptors())
        except Refused as e:
            answer.send(serde.to_data(Judgement(status="refused", log=str(e))))
            continue
        with numerics.restored():  # a reference's own settings are not the next one's
            bench = partial(LauncherBench, host, request)
            result = Judge(request.job, bench, _asking(answer)).run()
        broken = result.status == "timeout" or not _sound(host)
        if not broken:
            host.release("candidate")
        guarded = (*result.protections, around_task(guards))
        answer.send(serde.to_data(replace(result, protections=guarded, broken=broken)))
        if broken:
            return


def _sound(host: Launcher) -> bool:
    """Tell whether the device still does as it is told; an error that sticks ends the process that has it."""
    try:
        return host.canary()
    except RuntimeError:
        return False


def _asking(answer: Channel) -> Callable[[TimingLook | None], LookAnswer]:
    def ask(look: TimingLook | None) -> LookAnswer:
        answer.send({"look": serde.to_data(look)})
        return answer.receive(LOOK_S)["answer"]

    return ask
