"""The verbs that search, as functions of plain arguments, and those that take up and read what they came to."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

from forewarp.api.arguments import AnyKernel, AnyTask, Options, Where, place_of, request_of, search_request
from forewarp.api.run import JointRun, Run
from forewarp.api.watching import Watcher, follow
from forewarp.core.budget import DEFAULT_MEASUREMENTS
from forewarp.core.errors import ForewarpError, UsageError
from forewarp.core.protocols import Forecaster, Proposer
from forewarp.tools import session as sessions
from forewarp.tools.requests import ResumeRequest

if TYPE_CHECKING:
    from forewarp.tools.estimate import Estimate
    from forewarp.tools.joint_search import JointJob
    from forewarp.tools.search import Own, SearchJob

Named = Literal["learned", "llm", "cascade", "none"]


def optimize(
    task: AnyTask,
    *,
    budget: int | None = DEFAULT_MEASUREMENTS,
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
            policy (confirm, holdout, audit, explore, proposals, measure_per_round, patience, plans,
            learn_across_runs), and where (pool, archive, python, executor, card, executors); see `forewarp.Options`.

    Raises `UsageError` for what makes no sense, `DeviceError` where the device is missing, and the error of whatever
    ended the run; such a run can be resumed.
    """
    from forewarp.tools.search import open_search

    given = {"task": task, "budget": budget, "device": device, "model": model, "forecaster": forecaster}
    request = search_request(optimize, options, seeds=seeds, seed=seed, **given)
    with open_search(request, _own(proposer, forecaster, options)) as job:
        _work(job, on_event, progress)
        return Run.recorded(job.result(), job.archive.path)


def estimate(
    task: AnyTask,
    *,
    budget: int | None = DEFAULT_MEASUREMENTS,
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

    given = {"task": task, "budget": budget, "device": device, "model": model, "forecaster": forecaster}
    request = search_request(estimate, options, seeds=seeds, seed=seed, **given)
    return estimate_search(request, _own(proposer, forecaster, options))


def optimize_together(
    task: AnyTask,
    targets: Sequence[str],
    *,
    budget: int | None = DEFAULT_MEASUREMENTS,
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

    A target whose machine is lost ends alone: its run has the status "failed", and `resume_together` goes on. Raises as
    `optimize` does; where every run failed, the error that ended the first one.
    """
    from forewarp.tools.joint_search import open_joint

    _check_named(forecaster)
    given = {"task": task, "budget": budget, "device": device, "model": model, "forecaster": forecaster}
    request = search_request(optimize_together, options, seeds=seeds, seed=seed, **given)
    with open_joint(request, _names(targets), options.get("executors")) as job:
        _work(job, on_event)
        return JointRun.recorded(job.result(), job.archive.path)


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

    `run` is its id or a unique beginning of it. A run that was given a proposer or a forecaster needs them again. For a
    search for several targets there is `resume_together`.
    """
    from forewarp.tools.search import resume_search

    _check_name(run, resume, resume_together, several=False)
    request = request_of(resume, ResumeRequest, device, where, run_id=run, model=model, base_url=base_url)
    with resume_search(request, _own(proposer, forecaster, where)) as job:
        _work(job, on_event, progress)
        return Run.recorded(job.result(), job.archive.path)


def resume_together(
    group: str,
    targets: Sequence[str] = (),
    *,
    device: str = "auto",
    model: str | Sequence[str] | None = None,
    base_url: str | None = None,
    on_event: Watcher | None = None,
    **where: Unpack[Where],
) -> JointRun:
    """Go on with those runs of a search for several targets that were interrupted, failed or killed.

    `group` is its name, such as "g-4f1a2c", or a unique beginning of it. `targets` says where each goes on, as in
    `optimize_together`, where that changed; left out, where it began. Ends and raises as `optimize_together` does.
    """
    from forewarp.tools.joint_search import resume_joint

    _check_name(group, resume_together, resume, several=True)
    given = {"run_id": group, "model": model, "base_url": base_url}
    request = request_of(resume_together, ResumeRequest, device, where, **given)
    with resume_joint(request, _names(targets), where.get("executors")) as job:
        _work(job, on_event)
        return JointRun.recorded(job.result(), job.archive.path)


def load(run: str | None = None, *, archive: str | Path | None = None) -> Run:
    """Return what a run came to so far, from the archive: the latest one, or that of this id.

    For a search for several targets there is `load_together`; each of its runs is also one that this loads.
    """
    from forewarp.tools.run_report import report

    _check_name(run or "", load, load_together, several=False)
    with sessions.existing_archive(place_of("auto", {"archive": archive}), run or "") as opened:
        if run is None:
            latest = opened.runs(limit=1)
            if not latest:
                raise UsageError(f"there are no runs in {opened.path} yet", hint="begin one with forewarp.optimize()")
            run = latest[0].id
        return Run.recorded(report(opened, run), opened.path)


def load_together(group: str | None = None, *, archive: str | Path | None = None) -> JointRun:
    """Return what a search for several targets came to so far, from the archive: the latest one, or that of this name.

    A unique beginning of the name, such as "g-4f", will do.
    """
    from forewarp.tools.joint_report import joint_report

    if group is not None:
        _check_name(group, load_together, load, several=True)
    with sessions.existing_archive(place_of("auto", {"archive": archive}), group or "") as opened:
        if group is None:
            group = opened.latest_group()
            if group is None:
                raise UsageError(
                    f"there are no searches for several targets in {opened.path} yet",
                    hint="begin one with forewarp.optimize_together()",
                )
        return JointRun.recorded(joint_report(opened, group), opened.path)


def _check_named(forecaster: object) -> None:
    """Raise `UsageError` for an object: the runs' threads would ask it at once, each for a target of its own."""
    if not isinstance(forecaster, str):
        raise UsageError(
            "a search for several targets makes a forecaster per target, so that it takes none of one's own",
            hint="name one: learned, llm, cascade or none",
        )


def _check_name(name: str, verb: Callable[..., object], other: Callable[..., object], *, several: bool) -> None:
    """Raise `UsageError` for the name of a run where one of several is wanted, or the other way round."""
    from forewarp.tools.targets import GROUP, is_group

    if is_group(name) == several:
        return
    if several:
        raise UsageError(
            f"{verb.__name__} is for searches for several targets, and {name!r} is not one of them",
            hint=f"their names begin with {GROUP}; of one run there is forewarp.{other.__name__}({name!r})",
        )
    raise UsageError(
        f"{name} is a search for several targets, and {verb.__name__} is for one run",
        hint=f"use forewarp.{other.__name__}({name!r})",
    )


def _names(targets: Sequence[str]) -> Sequence[str]:
    return [targets] if isinstance(targets, str) else targets


def _own(proposer: Proposer | None, forecaster: str | Forecaster | None, where: Where) -> Own:
    from forewarp.tools.search import Own

    made = None if isinstance(forecaster, str) else forecaster
    return Own(proposer, made, where.get("executors"))


def _work(job: SearchJob | JointJob, on_event: Watcher | None, progress: bool | None = False) -> None:
    """Do the work of a run, or of those for several targets; Ctrl-C ends it with the best so far.

    What another signal means is for the program that this runs in.
    """
    from forewarp.report.display import stderr
    from forewarp.tools.joint_search import JointJob
    from forewarp.tools.signals import stopping

    try:
        with stopping(job, stderr().print, (signal.SIGINT,)):
            follow(job, on_event, progress)
    except ForewarpError as e:
        joint = isinstance(job, JointJob)
        name, loads, resumes = (job.group, load_together, resume_together) if joint else (job.run_id, load, resume)
        e.add_note(
            f"forewarp.{loads.__name__}({name!r}) holds what it came to; forewarp.{resumes.__name__}({name!r}) goes on"
        )
        raise
