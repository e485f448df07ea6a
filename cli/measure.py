"""`forewarp measure`: check and time one kernel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from forewarp.cli.options import HERE, PLAIN, Output, Where, tunables_of

if TYPE_CHECKING:
    from rich.console import Console

    from forewarp.tools.measure_kernel import MeasureResult


def measure(
    task: str,
    candidate: Path,
    /,
    *,
    tunable: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    where: Where = HERE,
    output: Output = PLAIN,
) -> int:
    """Check and time one kernel against the task's reference.

    Args:
        task: Bundled task, task folder or KernelBench file.
        candidate: File that holds the kernel.
        tunable: NAME=VALUE of a declared tunable; may be given several times.
        where: Device and archive.
        output: How results are shown.
    """
    from forewarp.cli import display, exits
    from forewarp.tools.measure_kernel import MeasureRequest, measure_kernel
    from forewarp.tools.parts import Kernel

    kernel = Kernel(path=str(candidate), tunables=tunables_of(tunable))
    request = MeasureRequest(task=task, kernel=kernel, place=where.place())
    console = display.stderr()
    console.quiet = output.quiet or not console.is_terminal
    with console.status("starting the device …") as status:
        result = measure_kernel(request, stage=lambda stage: status.update(f"{stage} …"))
    if output.json:
        from forewarp.cli.documents import MeasureDocument

        print(MeasureDocument(command="measure", reason=result.verdict, **dict(result)).model_dump_json())
    else:
        render(result, display.stdout(), full=output.verbose)
    return exits.OK if result.speedup is not None and result.verdict != "suspicious" else exits.NO_KERNEL


def render(result: MeasureResult, console: Console, *, full: bool = False) -> None:
    """Print a measurement: what came of it, each workload, how it was made."""
    from rich.table import Table

    from forewarp.cli import display

    console.print(result.summary, style=display.colour(result.verdict))
    if result.workloads:
        table = Table("workload", "speed-up [95 %]", "kernel [95 %]", "reference [95 %]", "error/tolerance", box=None)
        for w in result.workloads:
            table.add_row(
                w.name,
                display.speedup(w.speedup),
                display.micros(w.candidate_us),
                display.micros(w.reference_us),
                f"{w.error:.2g}",
            )
        console.print(table)
    for problem in result.evidence.problems:
        console.print(f"note: {problem}")
    phases = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in result.phases.items())
    if result.measurement_id is None and result.source == "measured":
        console.print(phases, style="dim")  # it never ran, so there was nothing to protect from
    else:
        console.print(f"trust {result.tier} · {result.source} · {phases}", style="dim")
        console.print(f"protections: {', '.join(result.protections) or 'none'}", style="dim")
    if result.log and (full or result.speedup is None or result.verdict == "suspicious"):
        console.print(result.log.rstrip())
