"""`forewarp data` and `forewarp archive`: pools as datasets, and damage of the archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyclopts import Parameter

from forewarp.cli import exits
from forewarp.cli.flags import takes
from forewarp.cli.options import PLAIN, ArchiveOption, Output
from forewarp.tools.parts import Place
from forewarp.tools.requests import (
    CheckRequest,
    DeduplicateRequest,
    ExportRequest,
    MergeRequest,
    PoolsRequest,
)

if TYPE_CHECKING:
    from rich.console import Console

    from forewarp.archive.pools.counts import DataGroup, PoolCounts
    from forewarp.tools.archive_repair import ArchiveState
    from forewarp.tools.data import DataResult

_SHOWN = 20
FAMILY = Parameter(name="--family")


@takes(ExportRequest, "pools", families=FAMILY)
def export(request: ExportRequest, *, output: Output = PLAIN) -> int:
    """Write the archive's measurements, or those of other pools, as one pool."""
    from forewarp.tools.data import export_data

    result = export_data(request)
    return _show(result, f"Exported {result.rows} rows to {result.files[0]}.", output)


@takes(MergeRequest, "pools", families=FAMILY)
def merge(request: MergeRequest, *, output: Output = PLAIN) -> int:
    """Write several pools as one; refuses a merger in which two splits share a kernel."""
    from forewarp.tools.data import merge_pools

    result = merge_pools(request)
    return _show(result, f"Merged {result.rows} rows to {result.files[0]}.", output)


@takes(DeduplicateRequest, "pools")
def deduplicate(request: DeduplicateRequest, *, output: Output = PLAIN) -> int:
    """Leave out what was measured twice, by text without comments and by compiled code.

    Of rows that are one candidate on one task, device and anchor, the one with the narrowest interval stays.
    """
    from forewarp.tools.data import deduplicate as run

    result = run(request)
    return _show(result, f"Kept {result.rows} rows in {result.files[0]}.", output)


@takes(PoolsRequest, "pools")
def stats(request: PoolsRequest, *, output: Output = PLAIN) -> int:
    """Count what pools hold: by operation, language, bin, failure and split."""
    from forewarp.tools.data import count_pools

    result = count_pools(request)
    counts = result.counts
    summary = f"{result.rows} rows"
    if counts is not None:
        summary += f" of {counts.total.programs} programs on {len(counts.tasks)} tasks."
    return _show(result, summary, output)


@takes(CheckRequest, "pools")
def check(request: CheckRequest, *, output: Output = PLAIN) -> int:
    """Check schema, hashes, splits, and that no text speaks of speed. Exit code 3 where something is wrong."""
    from forewarp.tools.data import check_pools

    result = check_pools(request)
    kinds = ", ".join(f"{n} of {kind}" for kind, n in result.problem_counts.items())
    summary = f"Checked {result.rows} rows: " + (f"problems: {kinds}." if kinds else "nothing is wrong.")
    return _show(result, summary, output)


def _show(result: DataResult, summary: str, output: Output) -> int:
    from forewarp.report.documents import DataDocument

    def render(console: Console) -> None:
        if result.counts is not None:
            _tables(console, result.counts)
        for problem in result.problems if output.verbose else result.problems[:_SHOWN]:
            console.print(f"{problem.kind}: {problem.where}: {problem.message}", soft_wrap=True)
        if len(result.problems) > _SHOWN and not output.verbose:
            more = sum(result.problem_counts.values()) - _SHOWN
            console.print(f"… and {more} more; -v shows more of them", style="dim")
        for what, number in result.left_out.items():
            console.print(f"left out: {number} {what}", style="dim")
        console.print(summary, style="dim")

    wrong = bool(result.problem_counts)
    status = "problems" if wrong else "ok"
    output.show(DataDocument(command="data", status=status, summary=summary, **dict(result)), render)
    return exits.NO_KERNEL if wrong else exits.OK


def _tables(console: Console, counts: PoolCounts) -> None:
    from forewarp.report.display import table

    heads = ("rows", "programs", "worked", "speed-up: 5 %", "median", "95 %")
    families = [(g.counts.name, g.split, *_numbers(g.counts)) for g in counts.families]
    tasks = [(g.counts.name, g.split, g.family, *_numbers(g.counts)) for g in counts.tasks]
    console.print(table(("family", "split", *heads), families))
    console.print(table(("task", "split", "family", *heads), tasks))
    for title, groups in (("split", counts.splits), ("language", counts.languages)):
        console.print(table((title, *heads), [(g.name, *_numbers(g)) for g in groups]))
    for title, named in (
        ("bin", counts.bins),
        ("failure", counts.failures.items()),
        ("device", counts.targets.items()),
        ("from", counts.datasets.items()),
    ):
        if named:
            console.print(table((title, "rows"), [(name, str(number)) for name, number in named]))
    if counts.pairs:
        console.print(f"{counts.pairs} rows are against another kernel than the reference.")


def _numbers(group: DataGroup) -> tuple[str, ...]:
    quantiles = (f"{v:.3g}" if v is not None else "–" for v in (group.low, group.median, group.high))
    return str(group.rows), str(group.programs), str(group.worked), *quantiles


def check_archive(*, archive: ArchiveOption = None, output: Output = PLAIN) -> int:
    """Read every row of the archive and say what is damaged. Changes nothing; exit code 73 if something is."""
    from forewarp.tools import archive_repair

    found = archive_repair.check_archive(Place(archive=archive and str(archive)))
    return _show_archive(found, "archive check", output)


def repair_archive(*, archive: ArchiveOption = None, output: Output = PLAIN) -> int:
    """Keep what can be read of a damaged archive. The damaged file stays beside it; a sound one is left alone."""
    from forewarp.tools import archive_repair

    found = archive_repair.repair_archive(Place(archive=archive and str(archive)))
    return _show_archive(found, "archive repair", output)


def _show_archive(found: ArchiveState, command: str, output: Output) -> int:
    from forewarp.report.documents import ArchiveDocument

    def render(console: Console) -> None:
        console.print(found.summary, soft_wrap=True)
        for line in found.lost:
            console.print(f"  lost: {line}", soft_wrap=True)

    damaged = found.state == "damaged"
    output.show(ArchiveDocument(command=command, status="error" if damaged else "ok", **dict(found)), render)
    return exits.NO_ARCHIVE if damaged else exits.OK
