"""Verbs that look at kernels and tasks: `measure`, `suite`, `inspect`, `forecast`, `validate` and `tasks`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table

from forewarp.cli import exits, printing
from forewarp.cli.flags import commas, takes
from forewarp.cli.options import PLAIN, Output, absolute
from forewarp.tools.parts import Kernel
from forewarp.tools.requests import (
    ForecastRequest,
    InspectRequest,
    MeasureManyRequest,
    MeasureRequest,
    SuiteRequest,
    TuneRequest,
    ValidateRequest,
)

if TYPE_CHECKING:
    from forewarp.tools.forecast_kernel import ForecastResult
    from forewarp.tools.suite_measuring import SuiteProgress
    from forewarp.tools.validate_task import ValidateResult

KINDS = ("cpu", "cuda")
CANDIDATE = Parameter(name="CANDIDATE")
RANKED = Parameter(name="CANDIDATE", help="Files that hold the kernels; several are ranked.")


@takes(MeasureManyRequest, "task kernels", kernels=CANDIDATE)
def measure(request: MeasureManyRequest, *, output: Output = PLAIN) -> int:
    """Check and time kernels against the task's reference, or against another kernel."""
    from forewarp.report.measure_tables import render, render_many
    from forewarp.tools.measure_kernel import measure_kernel, measure_kernels
    from forewarp.tools.measured import MeasureResult

    with output.waiting("starting the device") as stage:
        if len(request.kernels) > 1:
            found = measure_kernels(request, stage=stage)
        else:
            shared = {name: value for name, value in request if name != "kernels"}
            found = measure_kernel(MeasureRequest(kernel=request.kernels[0], **shared), stage=stage)
    if isinstance(found, MeasureResult):
        trusted = found.trusted
        output.tell(found, "measure", render, reason=found.verdict)
    else:
        trusted = any(a.result is not None and a.result.trusted for a in found.kernels)
        output.tell(found, "measure", render_many, status="ok" if trusted else "failed")
    return exits.OK if trusted else exits.NO_KERNEL


@takes(
    SuiteRequest,
    "problems kernels",
    baselines=Parameter(converter=commas),
    output=Parameter(name=["--output", "--out"]),
)
def suite(request: SuiteRequest, *, shown: Output = PLAIN) -> int:
    """Measure a folder of kernels on a folder of problems: correctness, verdicts, fast_1, fast_1.5 and fast_2."""
    from forewarp.report.suite_tables import render
    from forewarp.tools.signals import StopFlag, stopping
    from forewarp.tools.suite import run_suite
    from forewarp.tools.wording import clock

    def line(p: SuiteProgress) -> str:
        left = f"{clock(p.left_s)} to go" if p.done < p.total else "done"
        return f"{p.done}/{p.total}, {left}: {p.problem} {p.kernel}: {p.said}"

    stop = StopFlag()
    with stopping(stop, printing.err), shown.telling("reading problems and starting the device") as tell:
        result = run_suite(request, progress=lambda p: tell(line(p)), stopped=stop.asked.is_set)
    files = [("result", f"{result.output}/result.json"), ("report", f"{result.output}/table.md")]
    shown.tell(result, "suite", render, files=files)
    if result.status == "interrupted":
        return exits.INTERRUPTED if stop.asked.is_set() else exits.TRY_LATER
    return exits.OK if any(row.trusted for row in result.rows) else exits.NO_KERNEL


@takes(InspectRequest, "kernels", kernels=CANDIDATE)
def inspect(request: InspectRequest, *, output: Output = PLAIN) -> int:
    """Compile kernels for a GPU that need not be there, and say what their machine code and launches tell."""
    from forewarp.report.inspect_tables import render
    from forewarp.tools.inspect_kernel import inspect_kernels

    python = absolute(Path(request.python)) if request.python else None
    request = request.model_copy(update={"python": python})
    with output.waiting("compiling") as stage:
        result = inspect_kernels(request, stage=stage)
    output.tell(result, "inspect", render, status="ok" if all(k.sound for k in result.kernels) else "failed")
    return exits.OK if any(k.sound for k in result.kernels) else exits.NO_KERNEL


@takes(TuneRequest, "file", calls=Parameter(name=["--call"]), deadline_s=Parameter(name=["--deadline"]))
def tune(request: TuneRequest, *, output: Output = PLAIN) -> int:
    """Forecast every configuration of a file's kernels, compile the promising ones, and measure few."""
    from forewarp.report.tune_tables import render
    from forewarp.tools.session import task_of
    from forewarp.tools.tune_plan import tune_file

    path = Path(request.file).expanduser()
    if request.task is None and path.suffix != ".py" and path.is_file():
        request = request.model_copy(update={"task": task_of([Kernel(path=request.file)])})
    with output.waiting("reading the file") as stage:
        result = tune_file(request, stage=stage)
    output.tell(result, "tune", render, status="ok" if result.kernels else "failed")
    return exits.OK if result.kernels else exits.NO_KERNEL


@takes(ForecastRequest, "task kernels", kernels=RANKED)
def forecast(request: ForecastRequest, *, output: Output = PLAIN) -> int:
    """Forecast kernels' speed-ups, rank them, and say whether to measure them. Runs no kernel."""
    from forewarp.tools.forecast_kernel import forecast_kernel

    with output.waiting("compiling and forecasting"):
        result = forecast_kernel(request)
    output.tell(result, "forecast", _forecast)
    return exits.OK if result.forecast is not None else exits.NO_KERNEL


def _forecast(result: ForecastResult, console: Console, *, full: bool) -> None:
    """Print a forecast: what to do, the ranking if there is one, the distribution, and what it rests on."""
    from forewarp.report import display
    from forewarp.surrogate.evidence_text import lines
    from forewarp.tools import wording

    console.print(result.summary, style=display.colour(result.recommendation))
    if result.ranking:
        console.print(_ranking_table(result))
        for line in result.ranking:
            if line.problem:
                console.print(f"{line.position}. {line.path}: {line.problem}", style="yellow")
    if result.forecast is None:
        console.print(result.log.rstrip())
        return
    f = result.forecast
    bins = [(b.range, b.label, f"{b.probability:6.1%}", "█" * round(b.probability * 50)) for b in f.distribution]
    console.print(display.table(("speed-up S", "", "probability", ""), bins))
    console.print(
        f"median {wording.speedup(f.median)} (80 %) · correct {wording.chance(f.p_valid)} · correct and faster "
        f"{wording.chance(f.p_faster)} · confidence {wording.chance(f.confidence)}"
    )
    if result.best_so_far:
        better = f" · beaten with {wording.chance(result.p_better)}" if result.p_better is not None else ""
        against = "" if result.anchor == "reference" else " over the reference"
        console.print(f"best so far {wording.speedup(result.best_so_far)} (95 %){against}{'' if against else better}")
    console.print("\n".join((f"{f.forecaster}: {f.rationale}", *lines(result.evidence.facts))), style="dim")
    for problem in result.evidence.problems:
        console.print(f"problem: {problem}", style="yellow")
    console.print(f"rests on: {'; '.join(result.evidence_used)}", style="dim")
    asked = ", ".join(f"{t.tier} {t.candidates}{wording.price(t.cost)}" for t in result.tiers)
    console.print(f"asked: {asked} · {result.cost.seconds:.1f} s", style="dim")


def _ranking_table(result: ForecastResult) -> Table:
    from rich.table import Column

    from forewarp.report import display
    from forewarp.tools import wording

    ranked = [(line, line.forecast) for line in result.ranking if line.forecast is not None]
    following = [line.p_faster_than[place : place + 1] for place, (line, _) in enumerate(ranked, 1)]
    rows = [
        (
            Path(line.path).name or (line.kernel.short if line.kernel else ""),
            wording.speedup(f.median),
            *map(wording.chance, (f.p_valid, f.p_faster, line.p_best or 0.0)),
            wording.chance(after[0]) if after else "–",
            line.recommendation or "",
        )
        for (line, f), after in zip(ranked, following, strict=True)
    ]
    chances = [Column(head, justify="right") for head in ("correct", "faster", "best of\nthese", "beats\nnext")]
    heads = (Column("kernel", overflow="fold"), Column("forecast [80 %]", no_wrap=True), *chances)
    styles = [display.colour(row[-1]) for row in rows]
    return display.table((*heads, Column("do", no_wrap=True)), rows, title="the most promising first", styles=styles)


@takes(ValidateRequest, "task")
def validate(request: ValidateRequest, *, output: Output = PLAIN) -> int:
    """Try answers on a task that compute nothing, or too coarsely: all of them must be turned down."""
    from forewarp.tools.validate_task import validate_task

    with output.waiting("starting the device") as stage:
        result = validate_task(request, stage=stage)
    output.tell(result, "validate", _validation, status=result.verdict)
    return exits.OK if result.verdict == "sound" else exits.NO_KERNEL


def _validation(result: ValidateResult, console: Console, *, full: bool = False) -> None:
    """Print the verdict, the nulls that were let through (with -v all of them), problems and notes."""
    from forewarp.report.display import table

    console.print(result.summary, style="green" if result.verdict == "sound" else "red")
    rows = [
        (
            w.name,
            n.name,
            "all" if n.output is None else str(n.output),
            "not finite" if n.error is None else f"{n.error:.3g}",
            "let through" if n.passed else n.turned_down_on,
            "lets it through" if n.passes_kernelbench else "turns it down",
        )
        for w in result.workloads
        for n in w.nulls
        if full or n.passed
    ]
    if rows:
        heads = ("workload", "null candidate", "output", "error/tolerance", "turned down on", "KernelBench")
        console.print(table(heads, rows))
    for w in result.workloads:
        if w.random:
            console.print(f"{w.name}: the reference draws random numbers: {', '.join(w.random)}", style="red")
        for problem in w.problems:
            console.print(f"{w.name}: {problem}", style="red")
        for note in w.notes:
            console.print(f"note: {w.name}: {note}")
        fooled = [str(n) for n in w.nulls if n.passes_kernelbench and not n.passed]
        if fooled:
            console.print(f"note: {w.name}: KernelBench's own check would let through: {', '.join(fooled)}")


def tasks(*, output: Output = PLAIN) -> int:
    """List the bundled tasks. Any KernelBench file is a task, too: pass its path."""
    from forewarp.gpu_runner.formats import task as formats
    from forewarp.report import display
    from forewarp.report.documents import TaskLine, TasksDocument

    loaded = [formats.load(name) for name in formats.bundled()]
    lines = [
        TaskLine(
            name=t.name,
            title=t.title,
            languages=sorted({s.language for s in t.seeds}),
            workloads={kind: [w.name for w in workloads] for kind, workloads in t.workloads.items()},
        )
        for t in loaded
    ]
    summary = f"{len(lines)} bundled tasks; any KernelBench file is a task, too."

    def render(console: Console) -> None:
        rows = [
            (line.name, line.title, ", ".join(line.languages), *(", ".join(line.workloads.get(k, [])) for k in KINDS))
            for line in lines
        ]
        console.print(
            display.table(("task", "what it is", "seed kernels", *(f"shapes on {k}" for k in KINDS)), rows, whole=1)
        )
        console.print(summary, style="dim")

    output.show(TasksDocument(command="tasks", status="ok", summary=summary, tasks=lines), render)
    return exits.OK
