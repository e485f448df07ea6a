"""`forewarp show`: what a run came to, from the archive."""

from __future__ import annotations

from pathlib import Path

from forewarp.cli.options import PLAIN, Output


def show(
    run: str,
    /,
    *,
    archive: Path | None = None,
    out: Path | None = None,
    output: Output = PLAIN,
) -> int:
    """Show what a run came to so far; works while it runs, too.

    Args:
        run: The run's id or a unique beginning of it, or that of a search for several targets; see `forewarp runs`.
        archive: Archive file; $FOREWARP_ARCHIVE, else one in your data folder.
        out: Also write the run's files into this folder.
        output: How results are shown.
    """
    from forewarp.cli import exits, running
    from forewarp.report import artifacts
    from forewarp.report.documents import SearchDocument
    from forewarp.tools import session
    from forewarp.tools.parts import Place
    from forewarp.tools.run_report import RunRecord, report, standing
    from forewarp.tools.targets import is_group

    place = Place(archive=str(archive) if archive else None)
    if is_group(run):
        from forewarp.cli import joint
        from forewarp.tools.joint_report import joint_report

        with session.existing_archive(place, run) as opened:
            whole = artifacts.joint_document(joint_report(opened, run), "show")
            whole = artifacts.write_joint(whole, opened, out) if out is not None else whole
        joint.show(whole, output)
        return exits.OK
    with session.existing_archive(place, run) as opened:
        status, reason = standing(opened.run(run))
        told = report(opened, run).model_copy(update={"status": status, "reason": reason})
        document = SearchDocument(command="show", **dict(told))
        record = RunRecord.read(opened, run)
        document = artifacts.write(document, out, opened, record) if out is not None else document
    running.show(document, output, record)
    return exits.OK
