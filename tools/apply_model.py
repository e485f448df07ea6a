"""Put kernels into a whole model, judge the whole each time, and keep what helps it."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import Field

from forewarp.core.budget import Spend
from forewarp.core.errors import CandidateError, TaskError, UsageError
from forewarp.core.untrusted_text import clip
from forewarp.core.values import UNTRUSTED, Task
from forewarp.gpu_runner.formats import task as tasks
from forewarp.models.jobs import Subgraph
from forewarp.models.patching import Replacement, compiled, patched
from forewarp.models.profiler import peak_of
from forewarp.tools import sources
from forewarp.tools.measure_kernel import measure_kernel
from forewarp.tools.measured import MeasureResult, Micros, decided_words, loud_words, noise_of
from forewarp.tools.parts import SCHEMA_VERSION, Device, Interval, Kernel, OnStage, Part, Place, unwatched
from forewarp.tools.profile_model import ProfiledModel, mode_problems, open_model
from forewarp.tools.requests import ApplyRequest, MeasureRequest
from forewarp.tools.session import Executors, closing_executors

T = TypeVar("T")
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
    over_eager: Interval | None = Field(
        description="All that helped in place, over the model as it is; null with none."
    )
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
    measurements: int
    device_s: float
    module: str = Field(default="", description="File that the model was written to; empty where none was.")


@dataclass(frozen=True, slots=True)
class LineKernel:
    """Module of a kernel for a line of a model's profile, and the file that it is known by."""

    path: str
    line: int
    replacement: Replacement

    def judged(self, verdict: str, speedup: Interval | None, why: str) -> AppliedKernel:
        """Return what came of it; it is kept where there is no reason `why` not."""
        subgraph = self.replacement.subgraph
        return AppliedKernel(
            path=self.path,
            line=self.line,
            operations=subgraph.title,
            places=len(subgraph.places),
            kept=not why,
            verdict=verdict,
            speedup=speedup,
            why=why,
        )


def apply_model(
    request: ApplyRequest, *, stage: OnStage = unwatched, executors: Executors | None = None
) -> ApplyResult:
    """Try the kernels one by one, the most promising line first; the model's file is never changed.

    Raises `UsageError` where a module belongs to no line of the model's profile, `TaskError` with the model's error.
    """
    seconds = request.deadline or math.inf
    end = time.monotonic() + seconds
    with closing_executors(executors) as opened:
        stage("looking for the model's profile")
        model = open_model(
            *(request.model, request.call, request.place, opened), most_s=seconds, compile=request.compile
        )
        patched_model = PatchedModel(model, request.place, opened, under_compile=request.compile, end=end)
        winners = _winners(request.winners, model)
        found: list[AppliedKernel] = []
        for number, winner in enumerate(winners, 1):
            stage(f"judging the model with {Path(winner.path).name} ({number} of {len(winners)})")
            found.append(patched_model.judge(winner))
        return patched_model.result(found, request.write, stage)


class PatchedModel:
    """A model that kernels are tried in, one after the other, and the kernels that it keeps.

    `spent` is what judging has spent, `dearest` the most of it for one judgement. No judgement goes on after `end`, by
    `time.monotonic`.
    """

    def __init__(
        self, model: ProfiledModel, place: Place, executors: Executors, *, under_compile: bool, end: float = math.inf
    ) -> None:
        self._model, self._task, self._end = model, model.task, end
        self._place, self._executors, self._plain = place, executors, not under_compile
        self._kept: list[Replacement] = []
        self.spent = self.dearest = Spend()

    def keep(self, winner: LineKernel) -> None:
        """Keep a kernel that was judged before."""
        self._kept.append(winner.replacement)

    def judge_alone(self) -> None:
        """Judge the model against itself, so that it is known what a judgement takes."""
        alone = f"{self._task.reference}\n\nModelNew = Model\n" if self._plain else self._compiled_model()
        self._measure(alone, None if self._plain else alone)

    def judge(self, winner: LineKernel) -> AppliedKernel:
        """Judge a kernel together with those kept before it, and keep it where the whole is faster."""
        try:
            text = self._text([*self._kept, winner.replacement], plain=self._plain)
            result = self._measure(text, self._against())
        except CandidateError as e:
            verdict, speedup, why = "failed", None, e.message
        else:
            verdict, speedup, why = "not judged", None, _LATE
            if result is not None:
                verdict, speedup, why = result.verdict, result.speedup, _why(result)
        if not why:
            self.keep(winner)
        return winner.judged(verdict, speedup, why)

    def result(
        self,
        kernels: list[AppliedKernel],
        write: str | None,
        stage: OnStage,
        compile_too: Callable[[], bool] = lambda: True,
    ) -> ApplyResult:
        """Judge what was kept against the model as it is, eager and compiled, and write it.

        Nothing is kept of what this judgement does not confirm. `compile_too` says whether the compiled one is
        affordable, where kernels were not judged by it.
        """
        over: MeasureResult | None = None
        under: MeasureResult | None = None
        peaks: tuple[int | None, int | None] = None, None
        problems = mode_problems(self._model.profile)
        written = ""
        if self._kept:
            stage("judging what was kept against the model as it is")
            module = self._text(self._kept, plain=True)
            over = self._measure(module, None)
            whole = tasks.from_source(f"{module}\n\nModel = ModelNew\n", self._task.name)
            peaks = self._peak(whole), self._peak(self._task)
            under, why_not = self._under_compile(stage, compile_too)
            if why_not:
                problems.append(f"not compared under torch.compile: {why_not}")
            deciding = over if self._plain else under
            kernels = _confirmed(kernels, _LATE if deciding is None else _why(deciding))
            if write and any(k.kept for k in kernels):
                path = Path(write).expanduser()
                path.write_text(self._text(self._kept, plain=True, under_compile=_helps(under)))
                written = str(path)
        shape = over.workloads[0] if over is not None and over.workloads else None
        return ApplyResult(
            summary=self._summary(kernels, over, under),
            model=self._task.name,
            device=Device.of(self._model.target),
            compiled=not self._plain,
            kernels=kernels,
            over_eager=over and over.speedup,
            over_compile=under and under.speedup,
            throughput=shape and shape.warm,
            latency_us=shape and shape.candidate_us,
            model_latency_us=shape and shape.reference_us,
            peak_bytes=peaks[0],
            model_peak_bytes=peaks[1],
            checks=over.checks if over else [],
            problems=problems,
            measurements=self.spent.measurements,
            device_s=self.spent.device_s,
            module=written,
        )

    def _under_compile(self, stage: OnStage, compile_too: Callable[[], bool]) -> tuple[MeasureResult | None, str]:
        """Judge what was kept under torch.compile; return why there is no judgement, or ""."""
        if self._plain and not compile_too():
            return None, "the budget leaves too little for it"
        stage("judging both under torch.compile")
        try:
            under = self._measure(self._text(self._kept, plain=False), self._compiled_model())
        except (CandidateError, TaskError) as e:
            return None, clip(e.message, 300)
        return under, "" if under is not None else _LATE

    def _summary(
        self, kernels: Sequence[AppliedKernel], over: MeasureResult | None, under: MeasureResult | None
    ) -> str:
        if not kernels:
            return f"{self._task.name} stays as it is."
        said = f"{sum(k.kept for k in kernels)} of {len(kernels)} kernels help {self._task.name} as a whole"
        if over is None:
            return f"{said}."
        compiled_too = f", {under.speedup} under torch.compile" if under is not None and under.speedup else ""
        said += f": {over.speedup or over.status} (95 % interval) over the model as it is{compiled_too}."
        if under is None or not (over.workloads and under.workloads) or not any(k.kept for k in kernels):
            return said
        eager, alone = over.workloads[0].candidate_us.median, under.workloads[0].reference_us.median
        return f"{said}{_advice(under, eager, alone)}"

    def _text(self, replacements: Sequence[Replacement], *, plain: bool, under_compile: bool = True) -> str:
        text = patched(self._task.reference, self._model.profile.graph, replacements, under_compile=under_compile)
        return text if plain else compiled(text, "ModelNew")

    def _compiled_model(self) -> str:
        return compiled(self._task.reference, "Model")

    def _against(self) -> str | None:
        """Return the module to be faster than: the model with what was kept; None for the model itself."""
        if self._kept:
            return self._text(self._kept, plain=self._plain)
        return None if self._plain else self._compiled_model()

    def _peak(self, task: Task) -> int | None:
        return self._in_time(lambda: peak_of(self._model.executor, task))

    def _in_time(self, work: Callable[[], T]) -> T | None:
        """Return what `work` makes on the device, None where the deadline comes first."""
        try:
            with self._model.executor.until(self._end):
                return work()
        except TaskError:
            if time.monotonic() < self._end:
                raise
            return None

    def _measure(self, text: str, against: str | None) -> MeasureResult | None:
        """Measure a module against another, or the model; return None where the deadline comes first."""
        if time.monotonic() >= self._end:
            return None
        other = Kernel(source=against, language="python") if against is not None else None
        kernel = Kernel(source=text, language="python")
        request = MeasureRequest(task=self._task, kernel=kernel, against=other, place=self._place)
        begun, device_s = time.monotonic(), 0.0
        try:
            result = self._in_time(lambda: measure_kernel(request, executors=self._executors))
            device_s = result.cost.device_s if result else 0.0
            return result
        finally:
            spent = Spend(1, device_s, wall_s=time.monotonic() - begun)
            self.spent, self.dearest = self.spent + spent, self.dearest | spent


def _confirmed(kernels: Sequence[AppliedKernel], why: str) -> list[AppliedKernel]:
    """Return the kernels, none of them kept where there is a reason `why` the model with all that were is not."""
    if not why:
        return list(kernels)
    dropped = {"kept": False, "why": f"judged once more with all that were kept: {why}"}
    return [k.model_copy(update=dropped) if k.kept else k for k in kernels]


def _helps(under: MeasureResult | None) -> bool:
    """Return whether kernels were shown to help the model under torch.compile."""
    return under is not None and not _why(under)


def _advice(under: MeasureResult, kernels_us: float, compiled_us: float) -> str:
    """Return what to know before the kernels are put in beside torch.compile, "" where there is nothing.

    `under` is what they do for the compiled model; `kernels_us` is a call of the model with them, not compiled, and
    `compiled_us` one of the compiled model without them.
    """
    said = "" if _helps(under) else " Under torch.compile the model that is written is the one without them."
    if compiled_us < kernels_us:
        said += (
            f" torch.compile alone is faster: {compiled_us / 1e3:.3g} ms a call instead of {kernels_us / 1e3:.3g} ms."
        )
    return said


_LATE = "the deadline came first"
_WHY = {
    "slower": "the whole model is slower with it",
    "tie": "the whole model is as fast without it, within 1 %",
    "inconclusive": "not shown to be faster: {decided}",
    "ambiguous": "not shown to be faster: equal models came out unequal, or seconds and clock cycles disagree",
}


def _why(result: MeasureResult) -> str:
    """Return by which rule a kernel is dropped, "" where the whole is faster with it."""
    if result.status == "incorrect":
        return f"the whole model's outputs are wrong with it: {clip(result.log, 400)}"
    if result.status != "ok":
        return f"the whole model does not run with it ({result.status}): {clip(result.log, 400)}"
    if result.verdict in UNTRUSTED:
        return f"its time is {result.verdict}, and not believed: {'; '.join(result.flags)}"
    if loud := loud_words(noise_of(result.workloads)):
        return f"too noisy to tell: {loud}"
    return "" if result.verdict == "faster" else _WHY[result.verdict].format(decided=decided_words(result.deciding))


def _winners(given: Sequence[str], model: ProfiledModel) -> list[LineKernel]:
    """Return the modules with the subgraphs that they are for, the most promising line first; raises `UsageError`."""
    lines = {line.number: s for s, line in model.lines}
    found: list[LineKernel] = []
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
        found.append(LineKernel(path, number, Replacement(lines[number], text)))
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
