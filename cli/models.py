"""Verbs on whole models: `profile` and `apply`."""

from __future__ import annotations

from cyclopts import Parameter

from forewarp.cli import exits
from forewarp.cli.flags import takes
from forewarp.cli.options import PLAIN, Output
from forewarp.tools.requests import ApplyRequest, ProfileRequest


@takes(ProfileRequest, "model")
def profile(request: ProfileRequest, *, output: Output = PLAIN) -> int:
    """Say where a model's device time goes, and what kernels for its subgraphs could gain; write one as a task."""
    from forewarp.report.documents import Artifact, ProfileDocument
    from forewarp.report.model_tables import render_profile
    from forewarp.tools.profile_model import profile_model

    with output.waiting("starting the device") as stage:
        result = profile_model(request, stage=stage)
    made = [Artifact(kind="task", path=result.task)] if result.task else []
    document = ProfileDocument(command="profile", status="ok", artifacts=made, **dict(result))
    if result.task:
        output.show(document, lambda console: console.print(result.summary))
    else:
        output.show(document, lambda console: render_profile(result, console, full=output.verbose))
    return exits.OK


@takes(ApplyRequest, "model", winners=Parameter(name="--with"))
def apply(request: ApplyRequest, *, output: Output = PLAIN) -> int:
    """Put exported kernels into a model, judge the whole, and keep what helps it."""
    from forewarp.report.documents import ApplyDocument, Artifact
    from forewarp.report.model_tables import render_apply
    from forewarp.tools.apply_model import apply_model

    with output.waiting("starting the device") as stage:
        result = apply_model(request, stage=stage)
    kept = any(k.kept for k in result.kernels)
    made = [Artifact(kind="module", path=result.module)] if result.module else []
    document = ApplyDocument(command="apply", status="ok" if kept else "failed", artifacts=made, **dict(result))
    output.show(document, lambda console: render_apply(result, console, full=output.verbose))
    return exits.OK if kept else exits.NO_KERNEL
