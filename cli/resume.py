"""`forewarp resume`: go on with a run that was interrupted, failed or killed."""

from __future__ import annotations

from pathlib import Path

from forewarp.cli.options import HERE, NO_MODEL, PLAIN, Model, Output, Where


def resume(
    run: str,
    /,
    *,
    model: Model = NO_MODEL,
    out: Path | None = None,
    where: Where = HERE,
    output: Output = PLAIN,
) -> int:
    """Go on with a run where it was, under the same budget.

    Args:
        run: The run's id or a unique beginning of it; see `forewarp runs`.
        out: Folder for its files; ./forewarp-runs/RUN if left out.
        model: The language model, if any.
        where: Device and archive.
        output: How results are shown.
    """
    from forewarp.cli.running import drive
    from forewarp.tools.search import ResumeRequest, resume_search

    request = ResumeRequest(run_id=run, place=where.place(), model=model.model, base_url=model.base_url)
    with resume_search(request) as job:
        return drive(job, "resume", out=out, output=output)
