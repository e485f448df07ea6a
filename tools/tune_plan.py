"""Choose the tunables of a launch plan or a module by forecasts alone: a search is what measures them."""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from forewarp.core.errors import CandidateError, UsageError
from forewarp.core.untrusted_text import first_error
from forewarp.core.values import Candidate
from forewarp.export.bake import bake
from forewarp.gpu_runner.formats import plan as plans
from forewarp.surrogate import compare
from forewarp.tools import session as sessions
from forewarp.tools.forecast_kernel import forecast_builds
from forewarp.tools.inspect_kernel import choose_target
from forewarp.tools.parts import Device, Kernel, OnStage, Place, unwatched
from forewarp.tools.plan_proposal import planned_candidate
from forewarp.tools.requests import TuneRequest
from forewarp.tools.session import Session, closing_executors
from forewarp.tools.tune import TuneJob, TuneResult, command, summary, tuned_kernel
from forewarp.tools.tuned_tables import check_writable, own_table
from forewarp.tuning import forecasts
from forewarp.tuning.jobs import Observed
from forewarp.tuning.planned import MOST_PROPOSED, TunableForecaster, choices_of
from forewarp.tuning.space import Configuration, Space
from forewarp.tuning.tuner import Tried, Tuned

LEARNED = "learned"
"""Forecasts of compiled kernels, in the place of the version that those of configurations have."""


def tune_file(
    request: TuneRequest, *, stage: OnStage = unwatched, began: Callable[[TuneJob], None] = unwatched
) -> TuneResult:
    """Tune a file's kernels: those under @triton.autotune, or, with a task, what a launch plan or a module declares.

    `began` gets what can be stopped. Raises as `TuneJob` and `tune_plan`.
    """
    if request.task is not None:
        return tune_plan(request, stage=stage)
    began(job := TuneJob(request, stage=stage))
    return job.run()


def tune_plan(request: TuneRequest, *, stage: OnStage = unwatched) -> TuneResult:
    """Forecast the choices of a kernel's tunables on the task's workloads, the geometric mean over these.

    Those of Triton kernels are forecast from the text. Others are compiled first, and the result says what such
    forecasts are worth; only the former make a patch.

    Raises `UsageError` for what a launch plan has no use for, and `CandidateError` where it has nothing to choose.
    """
    assert request.task is not None
    _check(request)
    if request.table is not None:
        check_writable(Path(request.table).expanduser())
    place, target = Place(python=request.python), choose_target(request.target)
    with closing_executors(None) as kept, sessions.open_archive(place) as archive:
        task = sessions.load_task(request.task, place)
        candidate = planned_candidate(Kernel(path=request.file), task, place, kept)
        plan = plans.parse(candidate)
        choices, number = choices_of(plan, MOST_PROPOSED if request.compile is None else max(1, request.compile))
        if len(choices) < 2:
            raise CandidateError(
                f"{Path(request.file).name} declares nothing to choose from",
                hint="list values for its macros or template parameters under [tunables] in its launch plan, the "
                "default first: TILE = [64, 32, 128] (docs/tuning.md)",
            )
        opened = Session(task, kept.compiler(place, target), archive)
        found = TunableForecaster(target, opened.executor.describe).forecast(task, candidate)
        if found is None and request.table is not None:
            raise UsageError(
                "there is no best choice for --table: forecasts do not choose among those that have to be compiled",
                hint=f"leave it out, or measure them: {_search(request)}",
            )
        if found is None:
            looked_at = len(choices)
            stage(f"compiling {len(choices)} choices")
            tried = _compiled(opened, [Candidate(candidate.source, candidate.language, c) for c in choices])
        else:
            # Of Inductor's blocks the fastest by forecast are listed, of plans random ones.
            looked_at = number if candidate.language == "python" else min(number, MOST_PROPOSED)
            choices = [dict(c) for c in found.choices]
            tried = [Tried(i, "", float(2.0**octaves)) for i, octaves in enumerate(found.octaves)]
    if all(t.problem for t in tried):
        raise CandidateError(
            f"no choice compiles for {target.name}: {tried[0].problem}",
            hint="docs/tasks.md says what a launch plan may hold, and what NVRTC compiles: device code, without the "
            "standard library's headers",
        )
    configurations = [Configuration(c, warps=0, stages=0) for c in choices]
    fastest = min((t.forecast for t in tried if not t.problem), default=1.0)
    tried = [replace(t, label=configurations[t.place].label, forecast=t.forecast / fastest) for t in tried]
    tried.sort(key=lambda t: (bool(t.problem), t.forecast))
    name = " and ".join(dict.fromkeys(launch.kernel for launch in plan.launches)) or Path(request.file).name
    default = plan.defaults()
    space = Space(name, candidate.source, {}, configurations, [])
    tuned = Tuned(Observed(request.task, space, {}), tuple(tried), choices.index(default) if default in choices else 0)
    kernel = tuned_kernel(tuned, chosen=found is not None)
    if request.table is not None:
        table = own_table([tuned], target, command(request))
        Path(request.table).expanduser().write_text(json.dumps(table, indent=1) + "\n")
    return TuneResult(
        summary=summary([kernel], target, "the default")
        if found
        else f"{name}: {kernel.compiled} of {len(choices)} choices compile for {target.name}; forecasts tell "
        f"them apart hardly better than chance (docs/tuning.md), so measure them: {_search(request)}",
        target=Device.of(target),
        forecasts=forecasts.version() if found else LEARNED,
        kernels=[kernel],
        problems=[f"{looked_at:,} of {number:,} choices were looked at, drawn at random"] * (looked_at < number),
        device_s=0.0,
        table=request.table or "",
        patch=_patch(Path(request.file), replace(candidate, tunables=choices[tuned.best.place])) if found else "",
    )


def _check(request: TuneRequest) -> None:
    """Raise `UsageError` for what only kernels under @triton.autotune have, and for a measurement."""
    fields = ("calls", "space", "against", "budget", "deadline_s", "deterministic", "lock")
    if any(getattr(request, name) for name in fields) or request.format != "forewarp":
        raise UsageError(
            "--call, --space, --against, --budget, --deadline, --deterministic, --lock and --format are for kernels "
            "under @triton.autotune; the task says the calls, [tunables] of the launch plan the choices, and --compile "
            "how many are looked at",
            hint="leave them out, or --task",
        )
    if request.measure != 0:
        raise UsageError(
            "tunables of a launch plan are measured by a search, which checks outputs, too",
            hint=f"pass --measure 0 to rank them by forecasts alone, or run {_search(request)}",
        )


def _search(request: TuneRequest) -> str:
    return shlex.join(["forewarp", "optimize", request.task or "", "--seed-kernel", request.file])


def _compiled(opened: Session, candidates: Sequence[Candidate]) -> list[Tried]:
    """Compile and forecast candidates; `forecast` is one over the speed-up, each weighed by its chance to be valid."""
    tried: list[Tried] = []
    for place, (build, forecast) in enumerate(forecast_builds(opened, candidates)):
        if forecast is None:
            tried.append(Tried(place, "", 1.0, problem=first_error(build.log)))
            continue
        facts = build.evidence.facts
        registers, shared, stack = (round(facts.get(n, 0)) for n in ("registers", "shared_bytes", "stack_bytes"))
        seconds = 1 / max(compare.value(forecast), 1e-9)
        tried.append(Tried(place, "", seconds, registers=registers, shared=shared, spills=stack // 4))
    return tried


def _patch(path: Path, chosen: Candidate) -> str:
    """Return the change that makes the chosen values the defaults; "" where the plan is not in the file itself."""
    before = path.expanduser().read_text(encoding="utf-8-sig")
    if plans.without_block(before) == before:
        return ""
    after = bake(chosen).splitlines(keepends=True)
    return "".join(difflib.unified_diff(before.splitlines(keepends=True), after, f"a/{path.name}", f"b/{path.name}"))
