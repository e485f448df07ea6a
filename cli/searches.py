"""Verbs on searches: `optimize`, `resume`, `runs`, `show`, `report` and `export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Console

from forewarp.cli import exits, printing
from forewarp.cli.flags import takes
from forewarp.cli.options import PLAIN, ArchiveOption, Output, Switch, positive
from forewarp.core.errors import UsageError
from forewarp.tools.parts import Place
from forewarp.tools.requests import ExportKernelRequest, OptimizeModelRequest, ResumeRequest, SearchRequest

if TYPE_CHECKING:
    from forewarp.report.documents import RunLine
    from forewarp.tools.export import ExportResult

Events = Annotated[
    str | None,
    Parameter(
        allow_leading_hyphen=True,
        help="File that receives each event as one JSON line, after those of the run that it holds already; - is "
        "stdout, with the result as the last line.",
    ),
]
RunName = Annotated[str | None, Parameter(help="The run's id or a unique beginning of it; the latest run if left out.")]
POLICY, MODEL = Parameter(group="Policy"), "Whole models"


def _something(_: object, value: int) -> None:
    if value < 1:
        raise ValueError("Nothing would be measured; pass at least 1.")


@takes(
    SearchRequest,
    "task",
    seed_kernels=Parameter(name="--seed-kernel"),
    budget=Parameter(validator=_something),
    **dict.fromkeys(("confirm", "holdout", "audit", "explore", "proposals"), POLICY),
    **dict.fromkeys(("measure_per_round", "patience", "plans"), POLICY),
)
def optimize(
    request: SearchRequest,
    *,
    out: Annotated[
        Path | None, Parameter(help="Folder for the run's files, best kernel first; ./forewarp-runs/RUN if left out.")
    ] = None,
    events: Events = None,
    target: Annotated[
        str,
        Parameter(
            show_default=False, help="Card that the device has to be, such as h200; of a pool, the one to look up."
        ),
    ] = "",
    top: Annotated[
        int | None,
        Parameter(
            group=MODEL,
            validator=positive,
            help="Take TASK as a whole model: profile it, search for so many of its most promising lines within one "
            "budget, and keep the kernels that make the whole faster. With --call or --compile alone it is 3.",
        ),
    ] = None,
    call: Annotated[
        str, Parameter(group=MODEL, show_default=False, help="Function of the file that returns a module and inputs.")
    ] = "",
    compile_: Annotated[
        Switch, Parameter(name="--compile", group=MODEL, help="Judge the model as torch.compile compiles it.")
    ] = False,
    output: Output = PLAIN,
) -> int:
    """Find a faster kernel for a task, or for each of a model's slowest parts, on as few measurements as possible."""
    from forewarp.cli import running
    from forewarp.tools.search import open_search

    running.check(events)
    if top is not None or call or compile_:
        from forewarp.cli.models import optimize_model

        if target:
            raise UsageError(
                "--target is not for a whole model", hint="leave it out; --device says where it is measured"
            )
        whole = OptimizeModelRequest(search=request, top=top or 3, call=call, compile=compile_)
        return optimize_model(whole, out, events, output)
    request = request.model_copy(update={"place": request.place.model_copy(update={"card": target})})
    with open_search(request) as job:
        return running.drive(job, "optimize", out, output, events)


@takes(ResumeRequest, "run_id")
def resume(
    request: ResumeRequest,
    *,
    out: Annotated[Path | None, Parameter(help="Folder for its files; ./forewarp-runs/RUN if left out.")] = None,
    events: Events = None,
    output: Output = PLAIN,
) -> int:
    """Go on with a run where it was, under the same budget."""
    from forewarp.cli import running
    from forewarp.tools.optimize_model import is_model_search
    from forewarp.tools.search import resume_search

    running.check(events)
    if is_model_search(request.run_id):
        from forewarp.cli.models import resume_model

        return resume_model(request.run_id, events, output)
    with resume_search(request) as job:
        return running.drive(job, "resume", out, output, events)


def show(
    run: RunName = None,
    /,
    *,
    archive: ArchiveOption = None,
    out: Annotated[Path | None, Parameter(help="Also write the run's files into this folder.")] = None,
    output: Output = PLAIN,
) -> int:
    """Show what a run, or a model's search, came to so far; works while it runs, too."""
    from forewarp.archive.store import LATEST
    from forewarp.cli import running
    from forewarp.report import artifacts
    from forewarp.report.documents import SearchDocument
    from forewarp.tools import session
    from forewarp.tools.optimize_model import is_model_search
    from forewarp.tools.run_report import RunRecord, report, standing

    run = run or LATEST
    if is_model_search(run):
        from forewarp.cli.models import show_model

        return show_model(run, output)
    with session.existing_archive(Place(archive=archive and str(archive)), run) as opened:
        status, reason = standing(opened.run(run))
        told = report(opened, run).model_copy(update={"status": status, "reason": reason})
        document = SearchDocument(command="show", **dict(told))
        record = RunRecord.read(opened, run)
        document = artifacts.write(document, out, opened, record) if out is not None else document
    output.show(document, running.rendering(document, output, record))
    return exits.OK


def report(
    run: RunName = None,
    /,
    *,
    archive: ArchiveOption = None,
    out: Annotated[
        Path | None, Parameter(help="File, or folder for report.html; ./forewarp-runs/RUN/report.html if left out.")
    ] = None,
    open_: Annotated[Switch, Parameter(name="--open", help="Also open the page in the browser.")] = False,
    output: Output = PLAIN,
) -> int:
    """Write a run as one HTML page, also while it runs or after it was killed."""
    from forewarp.report.artifacts import write_page
    from forewarp.report.documents import Artifact, ReportDocument

    path, found = write_page(Place(archive=archive and str(archive)), run, out)
    document = ReportDocument(
        command="report",
        status=found.status,
        reason=found.reason,
        run_id=found.run_id,
        summary=found.summary,
        path=str(path),
        bytes=path.stat().st_size,
        artifacts=[Artifact(kind="report", path=str(path))],
    )

    def render(console: Console) -> None:
        console.print(found.summary, style="bold")
        console.print(f"{path} ({document.bytes / 1e3:,.0f} kB)", soft_wrap=True)

    output.show(document, render)
    if open_:
        _open(path)
    return exits.OK


@takes(ExportKernelRequest, "subject", tunables=Parameter(name="--tunable"))
def export(request: ExportKernelRequest, *, output: Output = PLAIN) -> int:
    """Write a winner or a measured kernel as a torch package, a module, or a file for vLLM."""
    from forewarp.tools.export import export_kernel

    result = export_kernel(request)

    def render(result: ExportResult, console: Console, *, full: bool) -> None:
        for path in result.files:
            console.print(path, soft_wrap=True)
        console.print(result.summary, style="bold")
        if result.format == "package":
            test = f"pip install '{result.folder}[test]' && pytest {result.folder}"
            console.print(f"Install and test it: {test}", soft_wrap=True)

    files = [("module", path) for path in result.files]
    output.tell(result, "export", render, run_id=result.evidence.run_id or None, files=files)
    return exits.OK


def _open(path: Path) -> None:
    """Open a page in the browser, and say so where there is none: the page was written all the same."""
    import webbrowser

    try:
        opened = webbrowser.open(path.as_uri())
    except webbrowser.Error:
        opened = False
    if not opened:
        printing.err(f"forewarp: no browser was found; open {path}")


def runs(
    *,
    limit: Annotated[int, Parameter(validator=positive, help="How many runs to list.")] = 20,
    archive: ArchiveOption = None,
    output: Output = PLAIN,
) -> int:
    """List the latest runs, the newest first."""
    from forewarp.report import display
    from forewarp.report.documents import RunLine, RunsDocument
    from forewarp.tools import session, wording
    from forewarp.tools.parts import Device
    from forewarp.tools.run_report import standing, winner

    place = Place(archive=archive and str(archive))
    lines: list[RunLine] = []
    where = session.archive_path(place)
    # That one's own archive is not there yet is no mistake; a path that is given is.
    if archive is not None or where.exists():
        with session.existing_archive(place) as opened:
            for row in opened.runs(limit=limit):
                status, reason = standing(row)
                line = RunLine(
                    run_id=row.id,
                    task=row.task.name,
                    device=Device.of(row.target),
                    status=status,
                    reason=reason,
                    created=row.created,
                    finished=row.finished,
                    best=winner(opened, row.id),
                )
                lines.append(line)
    summary = f"{wording.counted(len(lines), 'run')} in {where}."
    if not lines:
        summary = f"No runs in {where} yet; start one with `forewarp optimize softmax`."

    def render(console: Console) -> None:
        heads = ("run", "task", "device", "best [95 %]", "verdict", "noise", "status", "started (UTC)")
        full = output.verbose
        rows = [(*_row(line), line.reason) if full else _row(line) for line in lines]
        if lines:
            console.print(display.table((*heads, "why it ended") if full else heads, rows, whole=2))
        console.print(summary, style="dim")

    output.show(RunsDocument(command="runs", status="ok", summary=summary, runs=lines), render)
    return exits.OK


def _row(line: RunLine) -> tuple[str, ...]:
    from forewarp.tools import wording

    best = line.best
    return (
        line.run_id,
        line.task,
        line.device.name,
        wording.speedup(best.speedup if best else None),
        best.verdict if best else "",
        wording.noise(best.noise_percent if best else None),
        line.status,
        line.created[:16].replace("T", " "),
    )
