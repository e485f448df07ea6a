"""`forewarp forecast`: how fast kernels will be, which is best, and what is worth a measurement."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from forewarp.cli import printing
from forewarp.cli.options import HERE, NO_MODEL, PLAIN, Model, Output, Where, tunables_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from forewarp.tools.forecasted import ForecastResult


def forecast(
    task: str,
    candidate: Path,
    /,
    *more: Path,
    against: Path | None = None,
    target: str | None = None,
    tunable: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    forecaster: Literal["learned", "llm", "cascade"] | None = None,
    inputs: Path | None = None,
    model: Model = NO_MODEL,
    where: Where = HERE,
    output: Output = PLAIN,
) -> int:
    """Forecast kernels' speed-ups, rank them, and say whether to measure them. Runs no kernel.

    Args:
        task: Bundled task, task folder or KernelBench file.
        candidate: File that holds the kernel.
        more: More kernels, which are ranked together with it.
        against: File of a kernel to forecast against, instead of the reference.
        target: Forecast for a device that need not be here: a100, h100, h200, b200, l40s, rtx4090; instead of --device.
        tunable: NAME=VALUE of a declared tunable, for every kernel given; may be given several times.
        forecaster: learned is embedded and free; llm asks --model; cascade asks --model only where that could change
            what to do. Left out: cascade with --model, else learned.
        inputs: File of captured calls (torch.save), which become the task's shapes, weighted by how often they occur.
        model: The language model, if any.
        where: Device and archive.
        output: How results are shown.
    """
    from forewarp.cli import exits
    from forewarp.report import display
    from forewarp.tools.forecast_kernel import ForecastRequest, forecast_kernel
    from forewarp.tools.parts import Kernel
    from forewarp.tools.session import with_inputs

    place = where.place()
    chosen = tunables_of(tunable)
    kernels = [Kernel(path=str(path), tunables=chosen) for path in (candidate, *more)]
    request = ForecastRequest(
        task=with_inputs(task, inputs and str(inputs), place),
        kernel=None if more else kernels[0],
        kernels=kernels if more else [],
        against=None if against is None else Kernel(path=str(against)),
        place=place,
        target=target,
        forecaster=forecaster,
        model=model.model,
        base_url=model.base_url,
    )
    console = display.stderr()
    console.quiet = output.quiet or not console.is_terminal
    with display.waiting(console, "compiling and forecasting …"):
        result = forecast_kernel(request)
    if output.json:
        from forewarp.report.documents import ForecastDocument

        printing.document(ForecastDocument(command="forecast", **dict(result)))
    else:
        render(result, display.stdout())
    return exits.OK if result.forecast is not None else exits.NO_KERNEL


def render(result: ForecastResult, console: Console) -> None:
    """Print a forecast: what to do, the ranking if there is one, the distribution, and what it rests on."""
    from rich.table import Table

    from forewarp.report import display
    from forewarp.surrogate.evidence_text import lines
    from forewarp.tools import wording

    console.print(result.summary, style=display.colour(result.recommendation))
    if result.ranking:
        console.print(_ranking(result))
        for line in result.ranking:
            if line.problem:
                console.print(f"{line.position}. {line.path}: {line.problem}", style="yellow")
    if result.forecast is None:
        console.print(result.log.rstrip())
        return
    f = result.forecast
    table = Table("speed-up S", "", "probability", "", box=None)
    for b in f.distribution:
        table.add_row(b.range, b.label, f"{b.probability:6.1%}", "█" * round(b.probability * 50))
    console.print(table)
    console.print(
        f"median {wording.speedup(f.median)} (80 %) · correct {f.p_valid:.0%} · correct and faster {f.p_faster:.0%}"
        f" · confidence {f.confidence:.0%}"
    )
    if result.best_so_far:
        better = f" · beaten with {result.p_better:.0%}" if result.p_better is not None else ""
        against = "" if result.anchor == "reference" else " over the reference"
        console.print(f"best so far {wording.speedup(result.best_so_far)} (95 %){against}{'' if against else better}")
    console.print("\n".join((f"{f.forecaster}: {f.rationale}", *lines(result.evidence.facts))), style="dim")
    for problem in result.evidence.problems:
        console.print(f"problem: {problem}", style="yellow")
    console.print(f"rests on: {'; '.join(result.evidence_used)}", style="dim")
    asked = ", ".join(f"{t.tier} {t.candidates}{wording.price(t.cost)}" for t in result.tiers)
    console.print(f"asked: {asked} · {result.cost.seconds:.1f} s", style="dim")


def _ranking(result: ForecastResult) -> Table:
    from rich.table import Table

    from forewarp.report import display
    from forewarp.tools import wording

    table = Table(box=None, title="the most promising first", title_justify="left")
    table.add_column("kernel", overflow="fold")
    table.add_column("forecast [80 %]", no_wrap=True)
    for head in ("correct", "faster", "best of\nthese", "beats\nnext"):
        table.add_column(head, justify="right")
    table.add_column("do", no_wrap=True)
    ranked = [line for line in result.ranking if line.forecast is not None]
    for place, line in enumerate(ranked):
        f = line.forecast
        if f is None:
            continue
        following = line.p_faster_than[place + 1 : place + 2]
        table.add_row(
            Path(line.path).name or (line.kernel.short if line.kernel else ""),
            wording.speedup(f.median),
            f"{f.p_valid:.0%}",
            f"{f.p_faster:.0%}",
            f"{line.p_best or 0:.0%}",
            f"{following[0]:.0%}" if following else "–",
            line.recommendation or "",
            style=display.colour(line.recommendation or ""),
        )
    return table
