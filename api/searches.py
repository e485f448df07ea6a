"""The verbs that search, as functions of plain arguments, and those that take up and read what they came to."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal, TypeAlias, Unpack

from forewarp.api.arguments import AnyKernel, AnyTask, Options, Where, place_of, request_of, search_request
from forewarp.api.run import Run
from forewarp.core.budget import DEFAULT_MEASUREMENTS
from forewarp.core.errors import ForewarpError, UsageError
from forewarp.core.protocols import Forecaster, Proposer
from forewarp.report import display
from forewarp.report import progress as live
from forewarp.report.tally import so_far
from forewarp.search.events import Event
from forewarp.tools import session as sessions
from forewarp.tools.requests import ResumeRequest
from forewarp.tools.search import Own, SearchJob

Named = Literal["learned", "llm", "cascade", "none"]

Watcher: TypeAlias = Callable[[Event], object]
"""Sees each event; raising `StopIteration` ends the run with the best so far."""


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
        progress: Show a live view on stderr, lines in a notebook; None is where somebody looks.
        options: Caps (max_gpu_seconds, max_usd, max_tokens, deadline), models (base_url, forecast_model, language),
            policy (confirm, holdout, audit, explore, proposals, measure_per_round, patience, plans), and
            where (pool, archive, python, executor, card, executors); see `forewarp.Options`.

    Raises `UsageError` for what makes no sense, `DeviceError` where the device is missing, and the error of whatever
    ended the run; such a run can be resumed.
    """
    from forewarp.tools.search import open_search

    given = {"task": task, "budget": budget, "device": device, "model": model, "forecaster": forecaster}
    request = search_request(optimize, options, seeds=seeds, seed=seed, **given)
    with open_search(request, _own(proposer, forecaster, options)) as job:
        _work(job, on_event, progress)
        return Run.recorded(job.result(), job.archive.path)


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
    from forewarp.tools.search import resume_search

    request = request_of(resume, ResumeRequest, device, where, run_id=run, model=model, base_url=base_url)
    with resume_search(request, _own(proposer, forecaster, where)) as job:
        _work(job, on_event, progress)
        return Run.recorded(job.result(), job.archive.path)


def load(run: str | None = None, *, archive: str | Path | None = None) -> Run:
    """Return what a run came to so far, from the archive: the latest one, or that of this id."""
    from forewarp.tools.run_report import report

    with sessions.existing_archive(place_of("auto", {"archive": archive}), run or "") as opened:
        if run is None:
            latest = opened.runs(limit=1)
            if not latest:
                raise UsageError(f"there are no runs in {opened.path} yet", hint="begin one with forewarp.optimize()")
            run = latest[0].id
        return Run.recorded(report(opened, run), opened.path)


def _own(proposer: Proposer | None, forecaster: str | Forecaster | None, where: Where) -> Own:
    from forewarp.tools.search import Own

    made = None if isinstance(forecaster, str) else forecaster
    return Own(proposer, made, where.get("executors"))


def _work(job: SearchJob, on_event: Watcher | None, progress: bool | None) -> None:
    """Do the work of a run; Ctrl-C ends it with the best so far.

    What another signal means is for the program that this runs in. `progress` is None for a view where somebody looks:
    in a notebook or on a terminal.
    """
    from forewarp.tools.signals import stopping

    try:
        with (
            stopping(job, display.stderr().print, (signal.SIGINT,)),
            # An error of the caller's ends the run here, while there is an archive to note it in.
            closing(job.events()) as events,
            _view(job, progress) as see,
        ):
            for event in events:
                see(event)
                try:
                    if on_event is not None:
                        on_event(event)
                except StopIteration:
                    job.stop()
    except ForewarpError as e:
        run = job.run_id
        e.add_note(f"forewarp.load({run!r}) holds what it came to; forewarp.resume({run!r}) goes on")
        raise


@contextmanager
def _view(job: SearchJob, shown: bool | None) -> Generator[Callable[[Event], object]]:
    console = display.stderr()
    if shown is False or not (shown or in_notebook() or console.is_terminal):
        yield lambda _: None
        return
    with live.shown_live(console, tally=so_far(job), spend=job.spend) as see:
        yield see


def in_notebook() -> bool:
    """Return whether this is a notebook's kernel, which shows what is written to stderr."""
    held = sys.modules.get("IPython")
    shell = held.get_ipython() if held else None
    return getattr(shell, "kernel", None) is not None
