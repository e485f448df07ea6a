"""`forewarp resume`: go on with a run that was interrupted, failed or killed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from forewarp.cli.options import HERE, NO_MODELS, PLAIN, Models, Output, Where


def resume(
    run: str,
    /,
    *,
    model: Models = NO_MODELS,
    out: Path | None = None,
    events: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    target: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    dry_run: Annotated[bool, Parameter(negative="", show=False)] = False,
    where: Where = HERE,
    output: Output = PLAIN,
) -> int:
    """Go on with a run where it was, under the same budget.

    Args:
        run: The run's id or a unique beginning of it, or that of a search for several targets; see `forewarp runs`.
        out: Folder for its files; ./forewarp-runs/RUN if left out.
        events: File that receives each event as one JSON line; it continues where the file ends. - is stdout, with the
            result as the last line.
        target: Of a search for several targets: where each of them goes on, as in h200,a100 or h200@ssh:HOST, where
            that changed.
        dry_run: Refused with what to do instead.
        model: The language models, if any.
        where: Device and archive.
        output: How results are shown.
    """
    from forewarp.cli import running, stream
    from forewarp.core.errors import UsageError
    from forewarp.tools.resume import ResumeRequest, resume_search
    from forewarp.tools.targets import is_group

    if dry_run:
        raise UsageError(
            "--dry-run estimates a run before it begins; this one has begun",
            hint=f"`forewarp show {run}` says what it spent of its budget",
        )
    stream.check(events)
    request = ResumeRequest(run_id=run, place=where.place(), model=list(model.model), base_url=model.base_url)
    if is_group(run):
        from forewarp.cli import joint
        from forewarp.tools.joint_search import resume_joint

        with resume_joint(request, target) as search:
            return joint.drive(search, "resume", out=out, output=output, events=events)
    if target:
        raise UsageError("--target is for searches for several targets", hint="a run goes on with the card it began on")
    with resume_search(request) as job:
        return running.drive(job, "resume", out=out, output=output, events=events)
