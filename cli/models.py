"""Verbs on whole models: `profile`, `apply`, and `optimize` with `--top`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import Parameter
from rich.console import Console

from forewarp.cli import exits, printing
from forewarp.cli.flags import takes
from forewarp.cli.options import PLAIN, Output
from forewarp.tools.requests import ApplyRequest, OptimizeModelRequest, ProfileRequest

if TYPE_CHECKING:
    from forewarp.tools.optimize_model import ModelSearch


@takes(ProfileRequest, "model")
def profile(request: ProfileRequest, *, output: Output = PLAIN) -> int:
    """Say where a model's device time goes, and what kernels for its subgraphs could gain; write one as a task."""
    from forewarp.report.model_tables import render_profile
    from forewarp.tools.profile_model import profile_model

    with output.waiting("starting the device") as stage:
        result = profile_model(request, stage=stage)
    output.tell(result, "profile", render_profile, files=[("task", result.task)] if result.task else [])
    return exits.OK


@takes(ApplyRequest, "model", winners=Parameter(name="--with"))
def apply(request: ApplyRequest, *, output: Output = PLAIN) -> int:
    """Put exported kernels into a model, judge the whole, and keep what helps it."""
    from forewarp.report.model_tables import render_apply
    from forewarp.tools.apply_model import apply_model

    with output.waiting("starting the device") as stage:
        result = apply_model(request, stage=stage)
    kept = any(k.kept for k in result.kernels)
    files = [("module", result.module)] if result.module else []
    output.tell(result, "apply", render_apply, status="ok" if kept else "failed", files=files)
    return exits.OK if kept else exits.NO_KERNEL


def optimize_model(request: OptimizeModelRequest, out: Path | None, events: str | None, output: Output) -> int:
    """Search for kernels of a model's lines, and put those that help into it."""
    from forewarp.tools.optimize_model import open_model_search

    return _drive(lambda stage: open_model_search(request, out, stage=stage), "optimize", events, output)


def resume_model(name: str, events: str | None, output: Output) -> int:
    """Go on with a model's search."""
    from forewarp.tools.optimize_model import resume_model_search

    return _drive(lambda _: resume_model_search(name), "resume", events, output)


def show_model(name: str, output: Output) -> int:
    """Show what a model's search came to so far."""
    from forewarp.report.documents import OptimizeModelDocument
    from forewarp.report.model_tables import render_optimize
    from forewarp.tools.optimize_model import resume_model_search

    with resume_model_search(name) as search:
        document = OptimizeModelDocument(command="show", **dict(search.result()))
    output.show(document, lambda console: render_optimize(document, console, full=output.verbose))
    return exits.OK


def _drive(
    opened: Callable[[Callable[[str], None]], AbstractContextManager[ModelSearch]],
    command: str,
    events: str | None,
    output: Output,
) -> int:
    """Do the work of a model's search, write its files, and print it; whatever ends it, what it came to is shown."""
    from forewarp.cli.running import STDOUT, ended, streamed
    from forewarp.report.artifacts import leave_model
    from forewarp.report.model_tables import render_optimize
    from forewarp.tools.signals import stopping

    output = replace(output, json=True) if events == STDOUT else output  # the result is the stream's last line
    error: BaseException | None = None
    with output.telling("starting the device") as stage, opened(stage) as search:
        try:
            with streamed(search.archive, search.runs, events) as catch_up, stopping(search, printing.err):
                search.work(stage, lambda _: catch_up())
        except (Exception, KeyboardInterrupt) as e:
            error = e
        document = leave_model(search, command, error)
    kept = document.applied is not None and any(k.kept for k in document.applied.kernels)

    def render(console: Console) -> None:
        render_optimize(document, console, full=output.verbose)

    return ended(document, error, output, render, kept=kept)
