"""`forewarp validate`: whether measuring on a task means anything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from forewarp.cli import printing
from forewarp.cli.options import HERE, PLAIN, Output, Where

if TYPE_CHECKING:
    from rich.console import Console

    from forewarp.tools.validate_task import ValidateResult


def validate(
    task: str,
    /,
    *,
    allow_tf32: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    inputs: Path | None = None,
    where: Where = HERE,
    output: Output = PLAIN,
) -> int:
    """Try answers on a task that compute nothing, or too coarsely: all of them must be turned down.

    Args:
        task: Bundled task, task folder or KernelBench file.
        allow_tf32: Accept products in TF32 where the reference computes them in fp32.
        inputs: File of captured calls (torch.save), which become the task's shapes, weighted by how often they occur.
        where: Device, here or over ssh; the archive is not used.
        output: How results are shown.
    """
    from forewarp.cli import exits
    from forewarp.report import display
    from forewarp.tools.session import with_inputs
    from forewarp.tools.validate_task import ValidateRequest, validate_task

    place = where.place()
    wanted = with_inputs(task, inputs and str(inputs), place)
    console = display.stderr()
    console.quiet = output.quiet or not console.is_terminal
    with display.waiting(console, "starting the device …") as tell:
        request = ValidateRequest(task=wanted, allow_tf32=allow_tf32, place=place)
        result = validate_task(request, stage=lambda stage: tell(f"{stage} …"))
    if output.json:
        from forewarp.report.documents import ValidateDocument

        document = ValidateDocument(command="validate", status=result.verdict, **dict(result))
        printing.document(document)
    else:
        render(result, display.stdout(), full=output.verbose)
    return exits.OK if result.verdict == "sound" else exits.NO_KERNEL


def render(result: ValidateResult, console: Console, *, full: bool = False) -> None:
    """Print the verdict, the nulls that were let through (with -v all of them), problems and notes."""
    from rich.table import Table

    console.print(result.summary, style="green" if result.verdict == "sound" else "red")
    table = Table("workload", "null candidate", "output", "error/tolerance", "turned down on", "KernelBench", box=None)
    for w in result.workloads:
        for n in w.nulls:
            if full or n.passed:
                table.add_row(
                    w.name,
                    n.name,
                    "all" if n.output is None else str(n.output),
                    "not finite" if n.error is None else f"{n.error:.3g}",
                    "let through" if n.passed else n.turned_down_on,
                    "lets it through" if n.passes_kernelbench else "turns it down",
                )
    if table.rows:
        console.print(table)
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
