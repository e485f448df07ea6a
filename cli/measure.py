"""`forewarp measure`: check and time kernels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from forewarp.cli import printing
from forewarp.cli.options import HERE, PLAIN, Output, Where, tunables_of

if TYPE_CHECKING:
    from forewarp.tools.measure_kernel import MeasureManyRequest, MeasureRequest


def measure(
    task: str,
    candidate: Path,
    /,
    *more: Path,
    against: Path | None = None,
    tunable: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    allow_tf32: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    inputs: Path | None = None,
    where: Where = HERE,
    output: Output = PLAIN,
) -> int:
    """Check and time kernels against the task's reference, or against another kernel.

    Args:
        task: Bundled task, task folder or KernelBench file.
        candidate: File that holds the kernel.
        more: More kernels, measured one after the other; one that fails stops no other.
        against: File of a kernel to time against, instead of the reference.
        tunable: NAME=VALUE of a declared tunable; may be given several times.
        allow_tf32: Accept products in TF32 where the reference computes them in fp32; results are kept apart.
        inputs: File of captured calls (torch.save), which become the task's shapes, weighted by how often they occur.
        where: Device and archive.
        output: How results are shown.
    """
    from forewarp.tools.measure_kernel import MeasureManyRequest, MeasureRequest
    from forewarp.tools.parts import Kernel
    from forewarp.tools.session import with_inputs

    place = where.place()
    wanted = with_inputs(task, inputs and str(inputs), place)
    chosen = tunables_of(tunable)
    kernels = [Kernel(path=str(path), tunables=chosen) for path in (candidate, *more)]
    other = None if against is None else Kernel(path=str(against))
    if more:
        request = MeasureManyRequest(task=wanted, kernels=kernels, against=other, allow_tf32=allow_tf32, place=place)
        return _many(request, output)
    return _one(
        MeasureRequest(task=wanted, kernel=kernels[0], against=other, allow_tf32=allow_tf32, place=place), output
    )


def _one(request: MeasureRequest, output: Output) -> int:
    from forewarp.cli import exits
    from forewarp.report import display
    from forewarp.tools.measure_kernel import measure_kernel

    console = display.stderr()
    console.quiet = output.quiet or not console.is_terminal
    with display.waiting(console, "starting the device …") as tell:
        result = measure_kernel(request, stage=lambda stage: tell(f"{stage} …"))
    if output.json:
        from forewarp.report.documents import MeasureDocument

        printing.document(MeasureDocument(command="measure", reason=result.verdict, **dict(result)))
    else:
        from forewarp.report.measure_tables import render

        render(result, display.stdout(), full=output.verbose)
    return exits.OK if result.trusted else exits.NO_KERNEL


def _many(request: MeasureManyRequest, output: Output) -> int:
    from forewarp.cli import exits
    from forewarp.report import display
    from forewarp.tools.measure_kernel import measure_kernels

    console = display.stderr()
    console.quiet = output.quiet or not console.is_terminal
    with display.waiting(console, "starting the device …") as tell:
        found = measure_kernels(request, stage=lambda stage: tell(f"{stage} …"))
    trusted = any(a.result is not None and a.result.trusted for a in found.kernels)
    if output.json:
        from forewarp.report.documents import MeasureManyDocument

        state = "ok" if trusted else "failed"
        printing.document(MeasureManyDocument(command="measure", status=state, **dict(found)))
    else:
        from forewarp.report.measure_tables import render_many

        render_many(found, display.stdout(), full=output.verbose)
    return exits.OK if trusted else exits.NO_KERNEL
