"""Put kernels into a whole model, judge the whole each time, and keep what helps it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import Field

from forewarp.core.errors import CandidateError, TaskError, UsageError
from forewarp.core.values import Task
from forewarp.gpu_runner.formats import task as tasks
from forewarp.models.jobs import ModelProfile, Subgraph
from forewarp.models.patching import Replacement, compiled, patched
from forewarp.models.profiler import ModelWorker
from forewarp.tools import sources
from forewarp.tools.measure_kernel import measure_kernel
from forewarp.tools.measured import MeasureResult, Micros
from forewarp.tools.parts import SCHEMA_VERSION, Device, Interval, Kernel, Part, trim
from forewarp.tools.profile_model import model_task, rank, with_rates, worker_at
from forewarp.tools.requests import ApplyRequest, MeasureRequest
from forewarp.tools.session import Executors, closing_executors

_MARK = re.compile(r'^SUBGRAPH = "(\w+)"', re.MULTILINE)


class AppliedKernel(Part):
    """A kernel with what the whole model gained by it, over the model with those kept before it."""

    path: str
    line: int = Field(description="Of the model's profile.")
    operations: str
    places: int
    kept: bool
    verdict: str
    speedup: Interval | None = Field(description="Of the whole model; null where it was not timed.")
    why: str = Field(description="Why it was dropped; empty where it was kept.")


class ApplyResult(Part):
    """A model with kernels in the places of subgraphs, judged as a whole."""

    summary: str
    schema_version: int = SCHEMA_VERSION
    model: str
    device: Device
    compiled: bool = Field(description="Whether kernels were kept by what they do for the model under torch.compile.")
    kernels: list[AppliedKernel]
    over_eager: Interval | None = Field(description="Kept kernels in place, over the model as it is; null with none.")
    over_compile: Interval | None = Field(
        description="The same under torch.compile, over the model under torch.compile; null where it was not timed."
    )
    throughput: Interval | None = Field(description="Over the model as it is, caches as the last call left them.")
    latency_us: Micros | None
    model_latency_us: Micros | None
    peak_bytes: int | None = Field(description="Most memory of a call; on a CPU of the whole process.")
    model_peak_bytes: int | None
    checks: list[str]
    problems: list[str]
    module: str = Field(default="", description="File that the model was written to; empty where none was.")


@dataclass(frozen=True, slots=True)
class _Winner:
    path: str
    line: int
    replacement: Replacement


def apply_model(
    request: ApplyRequest,
    *,
    stage: Callable[[str], None] = lambda _: None,
    executors: Executors | None = None,
) -> ApplyResult:
    """Try the kernels one by one, the most promising line first; the model's file is never changed.

    Raises `UsageError` where a module belongs to no line of the model's profile, `TaskError` with the model's error.
    """
    task = model_task(request.model, request.call)
    with worker_at(request.place) as worker, closing_executors(executors) as opened:
        stage("looking for the model's profile")
        profile = worker.profile(task, request.max_seconds, kept=True)
        job = _Application(request, task, profile, opened, stage)
        kernels = job.choose(_winners(request.winners, profile, worker))
        return job.result(kernels, worker)


class _Application:
    def __init__(
        self,
        request: ApplyRequest,
        task: Task,
        profile: ModelProfile,
        executors: Executors,
        stage: Callable[[str], None],
    ) -> None:
        self._request, self._task, self._profile = request, task, profile
        self._executors, self._stage = executors, stage
        self._kept: list[Replacement] = []
        self._problems: list[str] = []

    def choose(self, winners: Sequence[_Winner]) -> list[AppliedKernel]:
        """Judge each kernel together with those kept before it."""
        found: list[AppliedKernel] = []
        for number, winner in enumerate(winners, 1):
            self._stage(f"judging the model with {Path(winner.path).name} ({number} of {len(winners)})")
            subgraph = winner.replacement.subgraph
            try:
                result = self._measure(
                    self._text([*self._kept, winner.replacement], plain=not self._request.compile),
                    self._against(plain=not self._request.compile),
                )
            except CandidateError as e:
                verdict, speedup, why = "failed", None, e.message
            else:
                verdict, speedup, why = result.verdict, result.speedup, _why(result)
            if not why:
                self._kept.append(winner.replacement)
            found.append(
                AppliedKernel(
                    path=winner.path,
                    line=winner.line,
                    operations=subgraph.title,
                    places=len(subgraph.places),
                    kept=not why,
                    verdict=verdict,
                    speedup=speedup,
                    why=why,
                )
            )
        return found

    def result(self, kernels: list[AppliedKernel], worker: ModelWorker) -> ApplyResult:
        """Judge what was kept against the model as it is, eager and compiled, and write it."""
        over: MeasureResult | None = None
        under: MeasureResult | None = None
        peaks: tuple[int | None, int | None] = None, None
        written = ""
        if self._kept:
            self._stage("judging what was kept against the model as it is")
            module = self._text(self._kept, plain=True)
            over = self._measure(module, None)
            self._stage("judging both under torch.compile")
            try:
                under = self._measure(self._text(self._kept, plain=False), self._compiled_model())
            except (CandidateError, TaskError) as e:
                self._problems.append(f"not compared under torch.compile: {trim(e.message, 300)}")
            whole = tasks.from_source(f"{module}\n\nModel = ModelNew\n", self._task.name)
            peaks = worker.peak(whole), worker.peak(self._task)
            if self._request.write:
                path = Path(self._request.write).expanduser()
                path.write_text(module)
                written = str(path)
        shape = over.workloads[0] if over is not None and over.workloads else None
        return ApplyResult(
            summary=self._summary(kernels, over, under),
            model=self._task.name,
            device=Device.of(worker.target),
            compiled=self._request.compile,
            kernels=kernels,
            over_eager=over and over.speedup,
            over_compile=under and under.speedup,
            throughput=shape and shape.warm,
            latency_us=shape and shape.candidate_us,
            model_latency_us=shape and shape.reference_us,
            peak_bytes=peaks[0],
            model_peak_bytes=peaks[1],
            checks=over.checks if over else [],
            problems=self._problems,
            module=written,
        )

    def _summary(
        self, kernels: Sequence[AppliedKernel], over: MeasureResult | None, under: MeasureResult | None
    ) -> str:
        kept = sum(k.kept for k in kernels)
        said = f"{kept} of {len(kernels)} kernels help {self._task.name} as a whole"
        if over is None:
            return f"{said}."
        compiled_too = f", {under.speedup} under torch.compile" if under is not None and under.speedup else ""
        return f"{said}: {over.speedup or over.status} (95 % interval) over the model as it is{compiled_too}."

    def _text(self, replacements: Sequence[Replacement], *, plain: bool) -> str:
        text = patched(self._task.reference, self._profile.graph, replacements)
        return text if plain else compiled(text, "ModelNew")

    def _compiled_model(self) -> str:
        return compiled(self._task.reference, "Model")

    def _against(self, *, plain: bool) -> str | None:
        """Return the module to be faster than: the model with what was kept; None for the model itself."""
        if self._kept:
            return self._text(self._kept, plain=plain)
        return None if plain else self._compiled_model()

    def _measure(self, text: str, against: str | None) -> MeasureResult:
        other = Kernel(source=against, language="python") if against is not None else None
        kernel = Kernel(source=text, language="python")
        request = MeasureRequest(task=self._task, kernel=kernel, against=other, place=self._request.place)
        return measure_kernel(request, executors=self._executors)


def _why(result: MeasureResult) -> str:
    """Return why a kernel is dropped, "" where the whole is faster with it."""
    if result.status != "ok":
        return f"{result.status}: {trim(result.log, 400)}"
    if not result.trusted:
        return f"its time is not to be believed: {'; '.join(result.flags) or result.verdict}"
    return "" if result.verdict == "faster" else f"the whole model is no faster with it ({result.verdict})"


def _winners(given: Sequence[str], profile: ModelProfile, worker: ModelWorker) -> list[_Winner]:
    """Return the modules with the subgraphs that they are for, the most promising line first; raises `UsageError`."""
    lines = {line.number: s for s, line in rank(profile, with_rates(worker.target, profile))}
    found: list[_Winner] = []
    for name in given:
        path, number = name, None
        if not Path(name).expanduser().exists() and (m := re.fullmatch(r"(.+):(\d+)", name)):
            path, number = m[1], int(m[2])
        file = Path(path).expanduser()
        sources.check_file(file, "the module")
        text = file.read_text(encoding="utf-8")
        number = number or _line_of(file, text, lines)
        if number is None or number not in lines or not lines[number].problem:
            raise UsageError(
                f"{name} belongs to no line of the model's profile",
                hint="name the line, as in FILE:2; `forewarp profile` lists them",
            )
        found.append(_Winner(path, number, Replacement(lines[number], text)))
    return sorted(found, key=lambda w: w.line)


def _line_of(path: Path, text: str, lines: Mapping[int, Subgraph]) -> int | None:
    """Return the line that a module is for, by the mark in its text, or by the task that its evidence names."""
    mark, task = _MARK.search(text), ""
    if mark is None:
        try:
            evidence = cast("dict[str, Any]", json.loads(path.with_name("evidence.json").read_text(encoding="utf-8")))
            task = str(evidence.get("task_sha256", ""))
        except (OSError, ValueError):
            return None
    for number, s in lines.items():
        if mark is not None and mark[1] == s.sha256:
            return number
        if task and s.problem and tasks.from_source(s.problem, "line").sha256 == task:
            return number
    return None
