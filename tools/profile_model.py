"""Profile a whole model: where its device time goes, and what a kernel for each of its subgraphs could gain."""

from __future__ import annotations

import ast
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from pydantic import Field

from forewarp.core.errors import TaskError, UsageError
from forewarp.core.values import Target, Task
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.gpu_runner.formats import task as tasks
from forewarp.gpu_runner.formats.beside import with_modules
from forewarp.gpu_runner.formats.task import KERNELBENCH_NAMES
from forewarp.gpu_runner.statistics import student_quantile
from forewarp.models.jobs import ModelProfile, Subgraph
from forewarp.models.profiler import profile_of
from forewarp.surrogate import headroom
from forewarp.tools import sources
from forewarp.tools.parts import SCHEMA_VERSION, Device, Interval, OnStage, Part, Place, unwatched
from forewarp.tools.requests import COMPILED_PROFILE_S, PROFILE_S, ProfileRequest
from forewarp.tools.session import Executors, closing_executors


class Share(Part):
    """A share of a model's device time, 0 to 1, with an interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1%} [{self.low:.1%}, {self.high:.1%}]"


class ProfiledLine(Part):
    """A subgraph that occurs once or several times in a model, with what a kernel for it could gain."""

    number: int = Field(description="What --task takes.")
    subgraph: str = Field(description="Identity of the subgraph: operations, shapes, strides, dtypes.")
    operations: str
    places: int = Field(description="How often it occurs.")
    share: Share = Field(description="Of the device time of all subgraphs, all places together, with a 95 % interval.")
    time_us: float = Field(description="Median device time of one place.")
    roofline_us: float = Field(description="Least time for its inputs, weights and outputs once, and its arithmetic.")
    headroom: Interval = Field(description="Forecast speed-up of the best kernel for it, with its 80 % interval.")
    gain: Share = Field(description="Forecast share of the device time that it would save, with its 80 % interval.")
    compiled_alone: float | None = Field(
        description="Speed-up over the line that torch.compile alone gives, where the model was profiled under it."
    )
    why_no_task: str = Field(description="Why it cannot be made a task; empty where it can.")


class ProfiledKernel(Part):
    """A kernel (an operation of torch on a CPU) that calls of the model as it is launch."""

    name: str
    share: float
    launches: float = Field(description="In one call.")


class ProfileResult(Part):
    """Shares of a model's device time by subgraph, the most promising first."""

    summary: str
    schema_version: int = SCHEMA_VERSION
    model: str
    device: Device
    call_us: float = Field(description="Median time of a call by the host's clock.")
    device_us: float = Field(description="Median time of its kernels.")
    graph_us: float = Field(description="Median time of the kernels of its exported graph, which the lines divide up.")
    lines: list[ProfiledLine]
    kernels: list[ProfiledKernel]
    forecasts: str = Field(description="What the forecasts rest on.")
    problems: list[str]
    task: str = Field(default="", description="File that a line was written to as a task; empty where none was.")


@dataclass(frozen=True, slots=True)
class ProfiledModel:
    """A model as a task, with its profile and the device that made it.

    `lines` are the subgraphs that take time, the most promising first. What nobody knows of the target was measured.
    """

    task: Task
    executor: LocalExecutor
    target: Target
    profile: ModelProfile
    lines: tuple[tuple[Subgraph, ProfiledLine], ...]


def profile_model(
    request: ProfileRequest, *, stage: OnStage = unwatched, executors: Executors | None = None
) -> ProfileResult:
    """Profile a model, or with `task` write a line of the last profile as a task.

    Raises `UsageError` for what the request has wrong, `TaskError` with the model's own error.
    """
    if (request.task is None) != (request.out is None):
        raise UsageError("a line becomes a task in a file", hint="pass --task NUMBER with --out FILE")
    with closing_executors(executors) as kept:
        stage("exporting and timing the model")
        given = {name: getattr(request, name) for name in ("model", "call", "place", "deadline", "graphs", "compile")}
        model = open_model(**given, executors=kept, kept=request.task is not None)
    result = _result(model)
    if request.task is None or request.out is None:
        return result
    if request.task > len(model.lines):
        raise UsageError(f"there is no line {request.task}", hint=f"the profile has {len(model.lines)} lines")
    subgraph = model.lines[request.task - 1][0]
    if not subgraph.problem:
        raise UsageError(f"line {request.task} cannot be made a task: {subgraph.why_not}", hint="choose another line")
    path = Path(request.out).expanduser()
    path.write_text(subgraph.problem)
    said = f"{path}: {subgraph.title}, ×{len(subgraph.places)}."
    return result.model_copy(update={"task": str(path), "summary": said})


def open_model(
    model: str,
    call: str,
    place: Place,
    executors: Executors,
    *,
    deadline: float | None = None,
    most_s: float = math.inf,
    graphs: bool = False,
    compile: bool = False,
    kept: bool = True,
) -> ProfiledModel:
    """Profile a model, under torch.compile if `compile`, or take the last profile of it if `kept`.

    It takes `deadline` seconds at most, or as many as usual, and never more than `most_s`.

    Raises as `profile_model` does.
    """
    if graphs and compile:
        raise UsageError("graphs are replayed of the model as it is", hint="leave --graphs or --compile out")
    if place.executor != "local" or place.device in ("replay", "cuda:all"):
        raise UsageError("a model is profiled on one device of this machine", hint="run forewarp where the device is")
    task = model_task(model, call)
    executor = cast("LocalExecutor", executors.get(place, task))
    seconds = min(most_s, deadline or (COMPILED_PROFILE_S if compile else PROFILE_S))
    profile = profile_of(executor, task, seconds, graphs=graphs, compiled=compile, kept=kept)
    known = executor.target
    target = replace(known, **{name: rate for name, rate in profile.rates.items() if getattr(known, name) is None})
    return ProfiledModel(task, executor, target, profile, _ranked(profile, target))


def model_task(path: str, call: str = "") -> Task:
    """Return a model's file as a task: a KernelBench file, or one whose function `call` returns module and inputs.

    What it imports from its folder becomes a part of its text.
    """
    file = Path(path).expanduser()
    sources.check_file(file, "the file")
    if file.suffix == ".py" and not file.exists():
        raise UsageError(f"there is no file {path}", hint="pass the Python file of a model")
    if not call:
        try:
            task = tasks.load(path)
            return replace(task, reference=with_modules(task.reference, file)) if file.is_file() else task
        except TaskError as e:
            if e.hint:
                e.hint += "\n\nor pass --call NAME: a function of the file that returns the model and its inputs"
            raise
    try:
        source = with_modules(file.read_text(encoding="utf-8-sig"), file)
        names = {getattr(n, "name", "") for n in ast.parse(source).body}
    except (OSError, ValueError, SyntaxError) as e:
        raise TaskError(f"{path} cannot be read: {e}") from None
    if call not in names:
        raise UsageError(f"{path} defines no function {call}", hint="name one that returns (module, inputs)")
    if taken := names & set(KERNELBENCH_NAMES):
        raise UsageError(f"{path} defines {', '.join(sorted(taken))} already", hint="leave --call out, or rename them")
    return tasks.from_source(source.rstrip() + _CALLED.format(call=call), Path(path).stem)


_CALLED = """


import torch as _torch


def _tensors(made):
    # What a package's model returns beside tensors, such as a cache of keys and values, is left out.
    if isinstance(made, dict):
        return {{name: kept for name, value in made.items() if (kept := _tensors(value)) is not None}}
    if isinstance(made, (list, tuple)):
        return [kept for value in made if (kept := _tensors(value)) is not None]
    return made if isinstance(made, _torch.Tensor) else None


class Model(_torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.module, _ = {call}()
        self.training = self.module.training

    def forward(self, *inputs):
        named = len(inputs) == 1 and isinstance(inputs[0], dict)
        return _tensors(self.module(**inputs[0]) if named else self.module(*inputs))


def get_inputs():
    _, inputs = {call}()
    return [inputs] if isinstance(inputs, dict) else list(inputs) if isinstance(inputs, (tuple, list)) else [inputs]


def get_init_inputs():
    return []
"""


def mode_problems(profile: ModelProfile) -> list[str]:
    if not profile.graph.training:
        return []
    return [
        "the model is in training mode, in which it computes something else than in evaluation mode: after .eval() it "
        "uses no kernels; call .eval() where the model is made, if that is how it serves"
    ]


def _ranked(profile: ModelProfile, target: Target) -> tuple[tuple[Subgraph, ProfiledLine], ...]:
    timed = [(s, _line(s, profile.graph_s, target)) for s in profile.subgraphs if any(s.samples_s)]
    timed.sort(key=lambda pair: -pair[1].gain.value)
    return tuple((s, line.model_copy(update={"number": n})) for n, (s, line) in enumerate(timed, 1))


def _line(s: Subgraph, total: Sequence[float], target: Target) -> ProfiledLine:
    share = _share([a / b for a, b in zip(s.samples_s, total, strict=False)])
    one_s = statistics.median(s.samples_s) / len(s.places)
    least_s = headroom.roofline_s(s.moved, s.operations, target)
    best = headroom.forecast(one_s, least_s)
    low, high = best.quantile(0.1), best.quantile(0.9)
    saved = [share.value * max(0.0, 1 - 1 / speedup) for speedup in (low, high)]
    return ProfiledLine(
        number=0,
        subgraph=s.sha256,
        operations=s.title,
        places=len(s.places),
        share=share,
        time_us=one_s * 1e6,
        roofline_us=least_s * 1e6,
        headroom=Interval(ratio=best.quantile(0.5), low=low, high=high, level=0.8),
        gain=Share(value=share.value * best.saving(), low=saved[0], high=saved[1]),
        compiled_alone=statistics.median(s.eager_s) / statistics.median(s.samples_s) if s.eager_s else None,
        why_no_task=s.why_not,
    )


def _share(shares: Sequence[float]) -> Share:
    """Return the mean with its 95 % interval by Student's t."""
    mean = statistics.fmean(shares)
    if len(shares) < 2:
        return Share(value=mean, low=mean, high=mean)
    half = student_quantile(0.975, len(shares) - 1) * statistics.stdev(shares) / math.sqrt(len(shares))
    return Share(value=mean, low=max(0.0, mean - half), high=min(1.0, mean + half))


def _result(model: ProfiledModel) -> ProfileResult:
    task, target, profile = model.task, model.target, model.profile
    lines = [line for _, line in model.lines]
    fit = headroom.shipped()
    samples = (profile.calls_s, profile.device_s, profile.graph_s)
    call_s, device_s, graph_s = (statistics.median(s or (0.0,)) for s in samples)
    listed = sum(k.seconds for k in profile.kernels)
    problems = list(profile.problems)
    if device_s and abs(graph_s / device_s - 1) > 0.2:
        times = f"{graph_s / device_s:.2f} times"
        problems.append(
            f"compiled one by one, the lines take {times} the compiled model's device time: what it fuses across them "
            "is lost around a kernel"
            if any(s.eager_s for s in profile.subgraphs)
            else f"the exported graph takes {times} the device time of the model's own calls"
        )
    if target.kind == "cuda" and device_s < 0.7 * call_s:
        problems.append(f"the device works in {device_s / call_s:.0%} of a call: try CUDA graphs before kernels")
    problems += mode_problems(profile)
    best = sum(line.gain.value for line in lines[:3])
    return ProfileResult(
        summary=f"{task.name} on {target.name}: {call_s * 1e3:.3g} ms a call, {len(lines)} subgraphs; kernels for the "
        f"first three should save {best:.0%} of its device time.",
        model=task.name,
        device=Device.of(target),
        call_us=call_s * 1e6,
        device_us=device_s * 1e6,
        graph_us=graph_s * 1e6,
        lines=lines,
        kernels=[
            ProfiledKernel(name=k.name, share=k.seconds / listed, launches=k.launches / max(1, len(profile.device_s)))
            for k in profile.kernels
        ],
        forecasts=f"roofline and {fit.origin}" + ("" if target.kind == "cuda" else "; on a CPU a guess"),
        problems=problems,
    )
