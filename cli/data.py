"""`forewarp data`: pools as datasets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from forewarp.cli import printing
from forewarp.cli.options import PLAIN, Output

if TYPE_CHECKING:
    from rich.console import Console

    from forewarp.archive.pools.counts import DataGroup, PoolCounts, TaskGroup
    from forewarp.tools.data import DataResult, Destination, Placing

_SHOWN = 20


@Parameter(name="*")
@dataclass(frozen=True)
class SplitOptions:
    """Families and splits.

    Attributes:
        splits: File of families with their splits; forewarp's own, as in pool/splits.toml, if left out.
        family: TASK=FAMILY; may be given several times.
        tasks: Folder of task folders, whose task.toml names a family and lineage.toml the parents of kernels.
    """

    splits: Path | None = None
    family: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = ()
    tasks: Path | None = None

    def placing(self) -> Placing:
        """Return the same for the engine; raises `UsageError`."""
        from forewarp.core.errors import UsageError
        from forewarp.tools.data import Placing

        pairs = [pair.partition("=") for pair in self.family]
        wrong = next((f"{name}{sign}{family}" for name, sign, family in pairs if not (name and family)), None)
        if wrong is not None:
            raise UsageError(f"{wrong!r} says no family", hint="write it as TASK=FAMILY")
        families = {name: family for name, _, family in pairs}
        return Placing(splits=_text(self.splits), families=families, tasks=_text(self.tasks))


Out = Annotated[Path, Parameter(name="--out")]
Overwrite = Annotated[bool, Parameter(negative="", show_default=False)]
BY_TASK = SplitOptions()


def export(
    *pool: Path,
    out: Out,
    overwrite: Overwrite = False,
    archive: Path | None = None,
    task: str | None = None,
    target: str | None = None,
    run: str | None = None,
    split: Literal["train", "validation", "test"] | None = None,
    samples: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    pairs: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    features: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    place: SplitOptions = BY_TASK,
    output: Output = PLAIN,
) -> int:
    """Write the archive's measurements, or those of other pools, as one pool.

    Args:
        pool: Pools to take the rows from; the archive if none is named.
        out: Parquet file to write.
        overwrite: Replace the file if it is there already.
        archive: Archive file; $FOREWARP_ARCHIVE, else one in your data folder.
        task: Only this task, by name.
        target: Only this device, by name.
        run: Only this run of the archive.
        split: Only this split.
        samples: Keep every raw sample, which makes the file some ten times as large.
        pairs: Also what was measured against another kernel than the reference.
        features: Fill in the vector of features that forecasters learn from, with its version.
        place: Families and splits.
        output: How results are shown.
    """
    from forewarp.tools.data import ExportRequest, export_data

    request = ExportRequest(
        out=_destination(out, overwrite),
        pools=_texts(pool),
        archive=_text(archive),
        placing=place.placing(),
        task=task,
        target=target,
        run=run,
        split=split,
        samples=samples,
        pairs=pairs,
        features=features,
    )
    result = export_data(request)
    return _show(result, f"Exported {result.rows} rows to {result.files[0]}.", output)


def merge(
    pool: Path,
    /,
    *more: Path,
    out: Out,
    overwrite: Overwrite = False,
    place: SplitOptions = BY_TASK,
    output: Output = PLAIN,
) -> int:
    """Write several pools as one; refuses a merger in which two splits share a kernel.

    Args:
        pool: Parquet file, or folder of them.
        more: More of them.
        out: Parquet file to write.
        overwrite: Replace the file if it is there already.
        place: Families and splits.
        output: How results are shown.
    """
    from forewarp.tools.data import merge_pools

    result = merge_pools(_texts([pool, *more]), _destination(out, overwrite), place.placing())
    return _show(result, f"Merged {result.rows} rows to {result.files[0]}.", output)


def deduplicate(pool: Path, /, *more: Path, out: Out, overwrite: Overwrite = False, output: Output = PLAIN) -> int:
    """Leave out what was measured twice, by text without comments and by compiled code.

    Of rows that are one candidate on one task, device and anchor, the one with the narrowest interval stays.

    Args:
        pool: Parquet file, or folder of them.
        more: More of them, deduplicated together.
        out: Parquet file to write.
        overwrite: Replace the file if it is there already.
        output: How results are shown.
    """
    from forewarp.tools.data import deduplicate as run

    result = run(_texts([pool, *more]), _destination(out, overwrite))
    return _show(result, f"Kept {result.rows} rows in {result.files[0]}.", output)


def stats(pool: Path, /, *more: Path, output: Output = PLAIN) -> int:
    """Count what pools hold: by operation, language, bin, failure and split.

    Args:
        pool: Parquet file, or folder of them.
        more: More of them, counted together.
        output: How results are shown.
    """
    from forewarp.tools.data import count_pools

    result = count_pools(_texts([pool, *more]))
    counts = result.counts
    summary = f"{result.rows} rows"
    if counts is not None:
        summary += f" of {counts.total.programs} programs on {len(counts.tasks)} tasks."
    return _show(result, summary, output)


def check(pool: Path, /, *more: Path, splits: Path | None = None, output: Output = PLAIN) -> int:
    """Check schema, hashes, splits, and that no text speaks of speed. Exit code 3 where something is wrong.

    Args:
        pool: Parquet file, or folder of them.
        more: More of them, checked together: a leak may lie between two files.
        splits: File of families with their splits; forewarp's own, as in pool/splits.toml, if left out.
        output: How results are shown.
    """
    from forewarp.tools.data import check_pools

    result = check_pools(_texts([pool, *more]), _text(splits))
    kinds = ", ".join(f"{n} of {kind}" for kind, n in result.problem_counts.items())
    summary = f"Checked {result.rows} rows: " + (f"problems: {kinds}." if kinds else "nothing is wrong.")
    return _show(result, summary, output)


def _show(result: DataResult, summary: str, output: Output) -> int:
    from forewarp.cli import exits
    from forewarp.report import display

    wrong = bool(result.problem_counts)
    exit_code = exits.NO_KERNEL if wrong else exits.OK
    if output.json:
        from forewarp.report.documents import DataDocument

        document = DataDocument(command="data", status="problems" if wrong else "ok", summary=summary, **dict(result))
        printing.document(document)
        return exit_code
    console = display.stdout()
    if result.counts is not None:
        _tables(console, result.counts)
    for problem in result.problems if output.verbose else result.problems[:_SHOWN]:
        console.print(f"{problem.kind}: {problem.where}: {problem.message}", soft_wrap=True)
    if len(result.problems) > _SHOWN and not output.verbose:
        console.print(f"… and {sum(result.problem_counts.values()) - _SHOWN} more; -v shows more of them", style="dim")
    for what, number in result.left_out.items():
        console.print(f"left out: {number} {what}", style="dim")
    console.print(summary, style="dim")
    return exit_code


def _tables(console: Console, counts: PoolCounts) -> None:
    from rich.table import Table

    heads = ("rows", "programs", "worked", "speed-up: 5 %", "median", "95 %")
    for title, places in (("family", counts.families), ("task", counts.tasks)):
        extra = ("split",) if title == "family" else ("split", "family")
        table = Table(title, *extra, *heads, box=None)
        for place in places:
            table.add_row(place.counts.name, place.split, *_family(place, title), *_numbers(place.counts))
        console.print(table)
    for title, groups in (("split", counts.splits), ("language", counts.languages)):
        table = Table(title, *heads, box=None)
        for group in groups:
            table.add_row(group.name, *_numbers(group))
        console.print(table)
    for title, named in (
        ("bin", counts.bins),
        ("failure", counts.failures.items()),
        ("device", counts.targets.items()),
        ("from", counts.datasets.items()),
    ):
        table = Table(title, "rows", box=None)
        for name, number in named:
            table.add_row(name, str(number))
        if table.row_count:
            console.print(table)
    if counts.pairs:
        console.print(f"{counts.pairs} rows are against another kernel than the reference.")


def _family(place: TaskGroup, title: str) -> tuple[str, ...]:
    return () if title == "family" else (place.family,)


def _numbers(group: DataGroup) -> tuple[str, ...]:
    quantiles = (f"{v:.3g}" if v is not None else "–" for v in (group.low, group.median, group.high))
    return str(group.rows), str(group.programs), str(group.worked), *quantiles


def _destination(out: Path, overwrite: bool) -> Destination:
    from forewarp.tools.data import Destination

    return Destination(path=str(out), overwrite=overwrite)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _texts(paths: Sequence[Path]) -> list[str]:
    return [str(path) for path in paths]
