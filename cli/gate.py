"""`forewarp gate`: lock kernels, and check that none got worse."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from forewarp.cli import exits, printing
from forewarp.cli.flags import takes
from forewarp.cli.options import PLAIN, Output, absolute
from forewarp.tools.requests import GateCheckRequest, GateLockRequest


@takes(
    GateLockRequest,
    "kernels",
    kernels=Parameter(name="FILE"),
    task=Parameter(name=["--task", "--problem"]),
    targets=Parameter(name=["--target"]),
)
def lock(request: GateLockRequest, *, output: Output = PLAIN) -> int:
    """Write what kernels compile to, their forecasts and their times into a file to commit."""
    from forewarp.report.gate_tables import render_lock
    from forewarp.tools.gate_lock import lock_kernels

    with output.waiting("reading the kernels") as stage:
        result = lock_kernels(request, stage=stage)
    output.tell(result, "gate lock", render_lock, status="failed" if result.problems else "ok")
    return exits.NO_KERNEL if result.problems else exits.OK


@takes(GateCheckRequest, "lock", lock=Parameter(name="LOCK"))
def check(
    request: GateCheckRequest,
    *,
    junit: Annotated[Path | None, Parameter(help="File to write JUnit XML to, for a CI system.")] = None,
    markdown: Annotated[Path | None, Parameter(help="File to write a comment for a pull request to.")] = None,
    output: Output = PLAIN,
) -> int:
    """Say which locked kernels are wrong, do not compile or are slower, in this environment or in a new one.

    Exit code 3 where a kernel got worse, 75 where one is too noisy or left.
    """
    from forewarp.report import gate_tables
    from forewarp.tools.gate_check import check_gate
    from forewarp.tools.signals import StopFlag, stopping
    from forewarp.tools.suite_tables import keep

    pythons = [absolute(Path(python)) for python in request.python]
    request = request.model_copy(update={"python": pythons})
    stop = StopFlag()
    with stopping(stop, printing.err), output.telling("reading the lock") as stage:
        result = check_gate(request, stage=stage, stopped=stop.asked.is_set)
    files: list[tuple[str, str]] = []
    for path, write in ((junit, gate_tables.as_junit), (markdown, gate_tables.as_markdown)):
        if path is not None:
            keep(path.expanduser(), write(result))
            files.append(("report", str(path.expanduser().absolute())))
    output.tell(result, "gate check", gate_tables.render, files=files)
    if result.status == "worse":
        return exits.NO_KERNEL
    if result.status == "interrupted" and stop.asked.is_set():
        return exits.INTERRUPTED
    return exits.OK if result.status == "passed" else exits.TRY_LATER
