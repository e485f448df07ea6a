"""The verbs as functions of plain arguments."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

from forewarp.api.given import (
    AnyKernel,
    AnyTask,
    Options,
    Where,
    checked,
    kernel_of,
    known,
    place_of,
    search_request,
    task_of,
)
from forewarp.api.run import JointRun, Run
from forewarp.api.watching import Watcher, follow
from forewarp.core.errors import ForewarpError, UsageError
from forewarp.core.protocols import Forecaster, Proposer
from forewarp.tools import session as sessions
from forewarp.tools.parts import Place

if TYPE_CHECKING:
    from forewarp.tools.estimate import Estimate
    from forewarp.tools.forecasted import ForecastResult
    from forewarp.tools.inspect_kernel import InspectResult
    from forewarp.tools.joint_search import JointJob
    from forewarp.tools.measure_kernel import MeasureManyResult
    from forewarp.tools.measured import MeasureResult
    from forewarp.tools.search import Own, SearchJob
    from forewarp.tools.validate_task import ValidateResult

DEFAULT_BUDGET = 24

Named = Literal["learned", "llm", "cascade", "none"]


def optimize(
    task: AnyTask,
    *,
    budget: int | None = DEFAULT_BUDGET,
    device: str = "auto",
    model: str | Sequence[str] | None = None,
    forecaster: Named | Forecaster = "learned",
    proposer: Proposer | None = None,
    seeds: Sequence[AnyKernel] = (),
    seed: int = 0,
    on_event: Watcher | None = None,
    progress: bool | None = None,
    **options: Unpack[Options],
) -> Run:
    """Find a faster kernel for a task, on as few measurements as possible.

    The first Ctrl-C, or interrupt of a notebook's kernel, ends the run after the measurement in progress: what it came
    to so far is returned, with the status "interrupted". The second one ends it at once.

    Args:
        task: Bundled task, KernelBench file, task folder, or what `define_task` made.
        budget: Most measurements; None leaves them open, which takes another cap.
        device: auto (cuda, else cpu), cuda, cuda:N, cuda:all, cpu, or replay, which looks up recorded measurements.
        model: Language model that writes kernels, as anthropic:NAME or openai:NAME, or several of them.
        forecaster: learned is embedded and free; llm and cascade ask the model; none measures everything; or an
            object of your own, see `Forecaster`.
        proposer: An object of your own that makes the candidates, see `Proposer`.
        seeds: Kernels to start from, not the bundled ones: files, texts or candidates.
        seed: Two runs with the same seed make the same choices.
        on_event: Called with each event (`forewarp.events`); raising StopIteration ends the run with the best so far.
        progress: Show a live view on stderr or in the notebook; None is where somebody looks.
        options: Caps (max_gpu_seconds, max_usd, max_tokens, deadline), models (base_url, forecast_model, language),
            policy (confirm, holdout, audit, explore, proposals, measure_per_round, patience, learn_across_runs), and
            where (pool, archive, python, executors); see `forewarp.Options`.

    Raises `UsageError` for what makes no sense, `DeviceError` where the device is missing, and the error of whatever
    ended the run; such a run can be resumed.
    """
    from forewarp.tools.search import open_search

    request = search_request(
        task,
        budget=budget,
        device=device,
        model=model,
        forecaster=forecaster,
        seeds=seeds,
        seed=seed,
        options=options,
    )
    with open_search(request, _own(proposer, forecaster, options)) as job:
        return _done(job, on_event, progress)


def estimate(
    task: AnyTask,
    *,
    budget: int | None = DEFAULT_BUDGET,
    device: str = "auto",
    model: str | Sequence[str] | None = None,
    forecaster: Named | Forecaster = "learned",
    proposer: Proposer | None = None,
    seeds: Sequence[AnyKernel] = (),
    seed: int = 0,
    **options: Unpack[Options],
) -> Estimate:
    """Say what `optimize` with the same arguments will probably take; nothing is begun."""
    from forewarp.tools.search import estimate_search

    request = search_request(
        task,
        budget=budget,
        device=device,
        model=model,
        forecaster=forecaster,
        seeds=seeds,
        seed=seed,
        options=options,
    )
    return estimate_search(request, _own(proposer, forecaster, options))


def optimize_together(
    task: AnyTask,
    targets: Sequence[str],
    *,
    budget: int | None = DEFAULT_BUDGET,
    device: str = "auto",
    model: str | Sequence[str] | None = None,
    forecaster: Named = "learned",
    seeds: Sequence[AnyKernel] = (),
    seed: int = 0,
    on_event: Watcher | None = None,
    **options: Unpack[Options],
) -> JointRun:
    """Find the fastest kernel for each of several targets, and the best compromise, in one search.

    `targets` are two or more of TARGET, @EXECUTOR or TARGET@EXECUTOR, such as "h200" or "a100@ssh:box"; one text may
    hold them all, as in "h200,a100". The budget and all caps hold for each target. The other arguments are those of
    `optimize`; events of all runs go to `on_event`.

    A target whose machine is lost ends alone: its run has the status "failed", and `forewarp resume GROUP` goes on.
    Raises as `optimize` does; where every run failed, the error that ended the first one.
    """
    from forewarp.tools.joint_search import open_joint

    _check_named(forecaster)
    request = search_request(
        task,
        budget=budget,
        device=device,
        model=model,
        forecaster=forecaster,
        seeds=seeds,
        seed=seed,
        options=options,
    )
    names = [targets] if isinstance(targets, str) else targets
    with open_joint(request, names, options.get("executors")) as job:
        try:
            _follow_all(job, on_event)
        except ForewarpError as e:
            e.add_note(f"`forewarp show {job.group}` tells what it came to; `forewarp resume {job.group}` goes on")
            raise
        return JointRun.of(job.result(), job.archive.path)


def resume(
    run: str,
    *,
    device: str = "auto",
    model: str | Sequence[str] | None = None,
    base_url: str | None = None,
    forecaster: Forecaster | None = None,
    proposer: Proposer | None = None,
    on_event: Watcher | None = None,
    progress: bool | None = None,
    **where: Unpack[Where],
) -> Run:
    """Go on with a run that was interrupted, failed or killed, under its own budget.

    `run` is its id or a unique beginning of it. A run that was given a proposer or a forecaster needs them again.
    """
    from forewarp.tools.resume import ResumeRequest, resume_search

    _check_one(run)
    known(where, Where)
    names = model if model is None or isinstance(model, str) else list(model)
    request = checked(ResumeRequest, run_id=run, place=place_of(device, where), model=names, base_url=base_url)
    with resume_search(request, _own(proposer, forecaster, where)) as job:
        return _done(job, on_event, progress)


def load(run: str | None = None, *, archive: str | Path | None = None) -> Run:
    """Return what a run came to so far, from the archive: the latest one, or that of this id."""
    from forewarp.tools.run_report import report

    _check_one(run or "")
    with sessions.existing_archive(Place(archive=None if archive is None else str(archive)), run or "") as opened:
        if run is None:
            latest = opened.runs(limit=1)
            if not latest:
                raise UsageError(f"there are no runs in {opened.path} yet", hint="begin one with forewarp.optimize()")
            run = latest[0].id
        return Run.of(report(opened, run), opened.path)


def forecast(
    task: AnyTask,
    *kernels: AnyKernel,
    against: AnyKernel | None = None,
    target: str | None = None,
    tunables: Mapping[str, int] | None = None,
    forecaster: Literal["learned", "llm", "cascade"] | Forecaster | None = None,
    model: str | None = None,
    base_url: str | None = None,
    device: str = "auto",
    **where: Unpack[Where],
) -> ForecastResult:
    """Forecast kernels' speed-ups and say what is worth a measurement; runs none of them.

    Of several kernels `ranking` holds all, the most promising first, and the other fields are about that one. `target`
    is a GPU that need not be here (a100, h100, h200, b200, l40s, rtx4090), instead of `device`. `tunables` are for
    every kernel. The forecaster is cascade where a model is given, else learned.
    """
    from forewarp.tools.forecast_kernel import ForecastRequest, forecast_kernel

    known(where, Where)
    chosen = [kernel_of(k, tunables) for k in kernels]
    request = checked(
        ForecastRequest,
        task=task_of(task),
        kernel=chosen[0] if len(chosen) == 1 else None,
        kernels=chosen if len(chosen) > 1 else [],
        against=None if against is None else kernel_of(against),
        place=place_of(device, where),
        target=target,
        forecaster=forecaster if isinstance(forecaster, str) else None,
        model=model,
        base_url=base_url,
    )
    own = None if isinstance(forecaster, str) else forecaster
    return forecast_kernel(request, executors=where.get("executors"), forecaster=own)


def measure(
    task: AnyTask,
    kernel: AnyKernel,
    *,
    against: AnyKernel | None = None,
    tunables: Mapping[str, int] | None = None,
    device: str = "auto",
    **where: Unpack[Where],
) -> MeasureResult:
    """Check a kernel and time it against the task's reference, or against another kernel.

    A kernel that fails is a result with a status. It is recorded in the archive, where later forecasts learn from it.
    """
    from forewarp.tools.measure_kernel import MeasureRequest, measure_kernel

    known(where, Where)
    request = checked(
        MeasureRequest,
        task=task_of(task),
        kernel=kernel_of(kernel, tunables),
        against=None if against is None else kernel_of(against),
        place=place_of(device, where),
    )
    return measure_kernel(request, executors=where.get("executors"))


def measure_all(
    task: AnyTask,
    kernels: Sequence[AnyKernel],
    *,
    against: AnyKernel | None = None,
    tunables: Mapping[str, int] | None = None,
    device: str = "auto",
    **where: Unpack[Where],
) -> MeasureManyResult:
    """Measure several kernels, compiling them ahead; `kernels` of the result are in the order given."""
    from forewarp.tools.measure_kernel import MeasureManyRequest, measure_kernels

    known(where, Where)
    request = checked(
        MeasureManyRequest,
        task=task_of(task),
        kernels=[kernel_of(k, tunables) for k in kernels],
        against=None if against is None else kernel_of(against),
        place=place_of(device, where),
    )
    return measure_kernels(request, executors=where.get("executors"))


def inspect(
    task: AnyTask,
    *kernels: AnyKernel,
    target: str = "auto",
    check: bool = False,
    tunables: Mapping[str, int] | None = None,
    python: str | Path | None = None,
) -> InspectResult:
    """Say what kernels tell before they run: registers, occupancy, waves, instructions, floors, problems.

    `target` is a GPU that need not be here; auto is this machine's, else the H200. `check` also runs the kernels on the
    CPU at small shapes and compares the outputs.
    """
    from forewarp.tools.inspect_kernel import InspectRequest, inspect_kernels

    chosen = [kernel_of(k, tunables) for k in kernels]
    other = None if python is None else str(python)
    request = checked(InspectRequest, task=task_of(task), kernels=chosen, target=target, check=check, python=other)
    return inspect_kernels(request)


def validate(task: AnyTask, *, device: str = "auto", **where: Unpack[Where]) -> ValidateResult:
    """Try answers on a task that must be turned down, before anything is measured on it."""
    from forewarp.tools.validate_task import ValidateRequest, validate_task

    known(where, Where)
    request = checked(ValidateRequest, task=task_of(task), place=place_of(device, where))
    return validate_task(request, executors=where.get("executors"))


def _check_named(forecaster: object) -> None:
    """Raise `UsageError` for an object: the runs' threads would ask it at once, each for a target of its own."""
    if not isinstance(forecaster, str):
        raise UsageError(
            "a search for several targets makes a forecaster per target, so that it takes none of one's own",
            hint="name one: learned, llm, cascade or none",
        )


def _check_one(run: str) -> None:
    """Raise `UsageError` for the name of a search for several targets."""
    from forewarp.tools.targets import is_group

    if is_group(run):
        raise UsageError(
            f"{run} is a search for several targets, not one run",
            hint=f"on the command line `forewarp show {run}` tells of it and `forewarp resume {run}` goes on",
        )


def _own(proposer: Proposer | None, forecaster: str | Forecaster | None, where: Where) -> Own:
    from forewarp.tools.search import Own

    made = None if isinstance(forecaster, str) else forecaster
    return Own(proposer, made, where.get("executors"))


def _follow_all(job: JointJob, on_event: Watcher | None) -> None:
    """Do the work of all runs; `on_event` may raise StopIteration to end them with the best so far."""
    from forewarp.cli.running import stopping

    with stopping(job, (signal.SIGINT,)), closing(job.events()) as events:
        for event in events:
            try:
                if on_event is not None:
                    on_event(event)
            except StopIteration:
                job.stop()


def _done(job: SearchJob, on_event: Watcher | None, progress: bool | None) -> Run:
    from forewarp.cli.running import stopping

    try:
        # Only Ctrl-C: what another signal means is for the program that this runs in.
        with stopping(job, (signal.SIGINT,)):
            follow(job, on_event, progress)
    except ForewarpError as e:
        e.add_note(f"forewarp.load({job.run_id!r}) holds what the run came to; forewarp.resume({job.run_id!r}) goes on")
        raise
    return Run.of(job.result(), job.archive.path)
