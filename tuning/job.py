"""What `tuner.py` has done in confined children of the worker: observe calls, compile configurations, time them.

The file's own code runs here. Observing and compiling need no device: `inspection.tracing` has stand-ins for one.
"""

from __future__ import annotations

import ast
import contextlib
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from forewarp.core.values import Target
from forewarp.gpu_runner.compilers.cubin import codes, digest
from forewarp.gpu_runner.worker.channel import Channel
from forewarp.gpu_runner.worker.jobs import watched
from forewarp.gpu_runner.worker.requests import ConfinedFolder, WorkerJob
from forewarp.gpu_runner.worker.task_confinement import confine_task, job_folder
from forewarp.gpu_runner.worker.tracebacks import format_error
from forewarp.inspection.tracing.files import calls, loading
from forewarp.inspection.tracing.program import OutOfTime, pretend, use_no_device, within
from forewarp.inspection.tracing.recorder import Recorder
from forewarp.inspection.tracing.values import SourceFile
from forewarp.tuning.catching import TunedLaunch, catching, space_of
from forewarp.tuning.measuring import Timer, differing_results
from forewarp.tuning.space import as_data

CALL_S = 60.0
"""Most seconds of processor time for one call, its inputs included."""
TRITON_CACHE = "cache/triton"
"""Where a compiling child leaves its kernels, within its folder."""
_MAIN = "__main__"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserveCallsJob(WorkerJob):
    """Find the configuration spaces of the autotuned kernels that some calls of a file launch, its own if none."""

    run = f"{__name__}:observe"
    file: SourceFile
    target: Target
    folder: ConfinedFolder
    calls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileShareJob(ObserveCallsJob):
    """Compile the configurations at `places` of the kernel of a call into a folder."""

    run = f"{__name__}:compile_share"
    kernel: str
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeJob(WorkerJob):
    """Time the configurations at `places` of a kernel, and check the results of the `checked` fastest.

    `compiled` are the folders of Triton caches that they were compiled into.
    """

    run = f"{__name__}:measure"
    file: SourceFile
    call: str
    kernel: str
    places: tuple[int, ...]
    compiled: tuple[str, ...]
    checked: int
    seed: int
    reads: tuple[str, ...] = ()


class NoCall(Exception):
    """The file has no call that launches an autotuned kernel, or none of the name that was given."""


def observe(job: ObserveCallsJob, answer: Channel) -> None:
    """Answer with the configuration spaces of the autotuned kernels that the job's calls launch."""
    watched(job.folder, answer, lambda: _observe(job), "file")


def compile_share(job: CompileShareJob, answer: Channel) -> None:
    """Compile configurations of one kernel into the job's folder; answer with what the compiler says of each."""
    watched(job.folder, answer, lambda: _compile(job), "file")


def measure(job: TimeJob, answer: Channel) -> None:
    """Time configurations on the GPU; answer with the samples of each, and which change the call's results."""
    guards = confine_task(job_folder(job), "cuda", keep={answer.descriptor}, reads=[*job.reads, *job.compiled])
    for folder in job.compiled:
        with contextlib.suppress(OSError):
            shutil.copytree(folder, os.environ["TRITON_CACHE_DIR"], dirs_exist_ok=True)
    answer.send({"started": True})
    try:
        answer.send(_measured(job) | {"protections": guards})
    except Exception as e:
        answer.send({"status": "failed", "log": format_error(e, 6)[-4000:], "protections": guards})


def _observe(job: ObserveCallsJob) -> dict[str, Any]:
    found: list[dict[str, Any]] = []
    problems: list[str] = []
    with contextlib.ExitStack() as stack:
        chosen, problems = _calls(job, stack)
        for name, call in chosen:
            launches, problem = _caught(name, call)
            problems += [problem] if problem else []
            found += [{"call": name, **_described(launch)} for launch in launches]
    return {"status": "ok", "log": "", "spaces": found, "problems": problems}


def _compile(job: CompileShareJob) -> dict[str, Any]:
    facts: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        chosen, _ = _calls(job, stack)
        launch = _of_kernel(_caught(*chosen[0])[0], job.kernel)
        for place in job.places:
            facts[str(place)] = _compiled(launch, place, job.target)
    return {"status": "ok", "log": "", "facts": facts}


def _compiled(launch: TunedLaunch, place: int, target: Target) -> dict[str, Any]:
    """Compile a configuration into Triton's cache, and return its registers, spilled registers and shared memory."""
    keywords = {k: v for k, v in launch.keywords.items() if k != "warmup"}
    try:
        kernel = launch.tuner.fn.warmup(*launch.positional, **keywords, **launch.tuner.configs[place].all_kwargs())
        image = kernel.asm["cubin"]
        code = next(iter(codes(image, target.arch).values()))
    except Exception as e:
        return {"problem": f"{type(e).__name__}: {e}"[:300]}
    facts = {"registers": code.registers, "spills": code.stack_bytes / 4, "shared": int(kernel.metadata.shared)}
    return facts | {"code": digest(image).hex()}


def _measured(job: TimeJob) -> dict[str, Any]:
    name, call = _named(loading.load(job.file, _bounded), job.call)
    launch = _of_kernel(_caught(name, call)[0], job.kernel)
    timer = Timer(launch, seed=job.seed)
    timings = [timer.check(place, compare=False) for place in job.places]
    timer.time(timings)
    best = sorted((t for t in timings if not t.problem), key=lambda t: t.seconds)
    checked = [t.place for t in best[: job.checked]]
    differing = differing_results(call, job.kernel, checked)
    return {
        "status": "ok",
        "log": "",
        "timings": [
            {"place": t.place, "samples": t.samples, "problem": differing.get(t.place, t.problem)} for t in timings
        ],
        "checked": checked,
    }


def _calls(
    job: ObserveCallsJob, stack: contextlib.ExitStack
) -> tuple[list[tuple[str, Callable[[], object]]], list[str]]:
    """Load the job's file where no device is; return the calls that the job names, or the file's own."""
    folder = Path(job.folder.path)
    use_no_device(folder)
    loading.pretend_programs(folder / "cache" / "bin")
    loading.pretend_locks()
    pretend(stack, job.target, Recorder(folder), 1)
    loaded = loading.load(job.file, _bounded)
    if job.calls:
        return [_named(loaded, text) for text in job.calls], loaded.problems
    own = calls.of_model(loaded.module)
    if own is not None:
        return [("ModelNew" if hasattr(loaded.module, "ModelNew") else "Model", own)], loaded.problems
    found = list(calls.own_calls(loaded.module, loaded.tree).items())
    for name in ("run", "main"):
        function = getattr(loaded.module, name, None)
        if callable(function) and all(name != n.partition("(")[0] for n, _ in found):
            found.insert(0, (f"{name}()", function))
    if loading.has_main(loaded):
        found.append((_MAIN, lambda: loading.run_main(loaded, _bounded)))
    if not found:
        raise NoCall("the file has no function that calls its kernels by itself")
    return found, loaded.problems


def _named(loaded: loading.LoadedFile, text: str) -> tuple[str, Callable[[], object]]:
    """Return the call that a text means: a function, perhaps with literal arguments, a model, or the main block."""
    if text == _MAIN:
        return text, lambda: loading.run_main(loaded, _bounded)
    if text in ("Model", "ModelNew") and (own := calls.of_model(loaded.module)) is not None:
        return text, own
    try:
        node = ast.parse(text, mode="eval").body
        given = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
        function = getattr(loaded.module, ast.unparse(given.func), None)
        positional = [ast.literal_eval(a) for a in given.args]
        named = {str(k.arg): ast.literal_eval(k.value) for k in given.keywords}
    except (SyntaxError, ValueError) as e:
        raise NoCall(f"{text} is no call with plain values: {e}") from e
    if not callable(function):
        raise NoCall(f"the file has no function {ast.unparse(given.func)}")
    return text, lambda: function(*positional, **named)


def _caught(name: str, call: Callable[[], object]) -> tuple[list[TunedLaunch], str]:
    """Do a call and return the autotuned launches in it, with what went wrong."""
    found: list[TunedLaunch] = []
    launching = torch.cuda.is_initialized() or os.environ.get("CUDA_VISIBLE_DEVICES") != ""
    with catching(found, launch=launching):
        problem = _bounded(name, call)
    return [c for c in found if len(c.tuner.configs) > 1], problem


def _of_kernel(launches: Sequence[TunedLaunch], kernel: str) -> TunedLaunch:
    found = next((c for c in launches if c.tuner.base_fn.__name__ == kernel), None)
    if found is None:
        raise NoCall(f"the call does not launch {kernel}")
    return found


def _described(launch: TunedLaunch) -> dict[str, Any]:
    space = space_of(launch.tuner, launch.arguments, launch.keywords, launch.tuner.configs)
    keys = [k for k in getattr(launch.tuner, "keys", ()) if k in space.arguments]
    return {"space": as_data(space), "key": {k: space.arguments[k] for k in keys}}


def _bounded(doing: str, work: Callable[[], object]) -> str:
    """Run `work` within its time; return what went wrong."""
    start = time.monotonic()
    try:
        with within(CALL_S):
            work()
    except OutOfTime:
        return f"{doing} did not finish within {time.monotonic() - start:.0f} s"
    except (Exception, SystemExit) as e:
        return loading.said(doing, e)
    return ""
