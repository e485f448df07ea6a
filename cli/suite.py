"""`forewarp suite`: folders of problems and kernels in, a table out."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from forewarp.cli import printing
from forewarp.cli.options import HERE, PLAIN, Output, Where

if TYPE_CHECKING:
    from rich.console import Console

    from forewarp.tools.suite_measuring import SuiteProgress
    from forewarp.tools.suite_results import Baseline, SuiteResult


def suite(
    problems: str,
    kernels: str | None = None,
    /,
    *,
    identical: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    only: str | None = None,
    limit: Annotated[int | None, Parameter(validator=Number(gte=1))] = None,
    baselines: str = "eager,compile",
    out: Annotated[Path | None, Parameter(name=["--output", "--out"])] = None,
    csv: Path | None = None,
    retry_failed: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    where: Where = HERE,
    output: Output = PLAIN,
) -> int:
    """Measure a folder of kernels on a folder of problems: correctness, verdicts, fast_1, fast_1.5 and fast_2.

    Args:
        problems: Folder, file or quoted glob of KernelBench problems, or of GPU MODE task folders. NAME.inputs.pt
            beside NAME.py holds captured calls, which become its shapes.
        kernels: Folder of kernels; each belongs to the problem that its name, or its folder's name, tells.
        identical: Measure each reference against itself, renamed to ModelNew, instead of kernels: a check of the
            harness, in which every verdict should be tie.
        only: Quoted glob for the names of problems.
        limit: Most problems.
        baselines: What to compare with: eager, or eager,compile (torch.compile, measured once for each problem).
        out: Folder of the record, in which the same command goes on where it was; forewarp-suites/NAME if left out.
        csv: File to write the table to, besides table.csv in the folder of the record.
        retry_failed: Measure again what is recorded and did not work.
        where: Device and archive; --device cuda:all measures on all GPUs at once.
        output: How results are shown.
    """
    from forewarp.cli import exits
    from forewarp.report import display
    from forewarp.tools import suite_tables
    from forewarp.tools.signals import stopping
    from forewarp.tools.suite import SuiteRequest, run_suite

    request = SuiteRequest(
        problems=problems,
        kernels=kernels,
        identical=identical,
        only=only,
        limit=limit,
        baselines=_baselines(baselines),
        output=None if out is None else str(out),
        retry_failed=retry_failed,
        place=where.place(),
    )
    console, stop = display.stderr(), _Stop()
    quiet = output.quiet or (output.json and not console.is_terminal)
    with stopping(stop, printing.err), _shown(console, quiet=quiet) as progress:
        result = run_suite(request, progress=progress, stopped=stop.asked)
    if csv is not None:
        suite_tables.keep(csv.expanduser().absolute(), suite_tables.as_csv(result))
    _print(result, csv, output)
    if result.status == "interrupted" and stop.asked():
        return exits.INTERRUPTED
    if result.status == "interrupted":
        return exits.TRY_LATER
    return exits.OK if any(row.trusted for row in result.rows) else exits.NO_KERNEL


class _Stop:
    """Remembers that Ctrl-C was pressed once."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def stop(self) -> None:
        self._event.set()

    def asked(self) -> bool:
        return self._event.is_set()


def _baselines(given: str) -> list[Baseline]:
    """Read a list such as eager,compile; raises `UsageError`."""
    from forewarp.core.errors import UsageError

    known: dict[str, Baseline] = {"eager": "eager", "compile": "compile"}
    names = [name.strip() for name in given.split(",") if name.strip()]
    if not names or not set(names) <= known.keys():
        raise UsageError(f"{given!r} are no baselines", hint="pass --baselines eager, or --baselines eager,compile")
    return [known[name] for name in names]


@contextmanager
def _shown(console: Console, *, quiet: bool) -> Generator[Callable[[SuiteProgress], None]]:
    """Show how far a suite is: one line that changes on a terminal, a line for each measurement elsewhere."""
    from forewarp.core.untrusted_text import one_line
    from forewarp.report import display
    from forewarp.tools.estimate import clock

    def line(p: SuiteProgress) -> str:
        left = f"{clock(p.left_s)} to go" if p.done < p.total else "done"
        return f"{p.done}/{p.total}, {left}: {p.problem} {p.kernel}: {p.said}"

    if quiet:
        yield lambda _: None
    elif console.is_terminal and not console.is_dumb_terminal:
        with display.waiting(console, "reading problems and starting the device …") as tell:
            yield lambda p: tell(line(p))
    else:
        yield lambda p: console.print(one_line(line(p)), soft_wrap=True)


def _print(result: SuiteResult, csv: Path | None, output: Output) -> None:
    from forewarp.report import display
    from forewarp.report.documents import Artifact, SuiteDocument

    files = [("result", "result.json"), ("candidates", "table.csv"), ("report", "table.md")]
    made = [Artifact.model_validate({"kind": kind, "path": f"{result.output}/{name}"}) for kind, name in files]
    if csv is not None:
        made.append(Artifact(kind="candidates", path=str(csv.expanduser().absolute())))
    if output.json:
        printing.document(SuiteDocument(command="suite", artifacts=made, **dict(result)))
        return
    from forewarp.report.suite_tables import render

    render(result, display.stdout(), full=output.verbose)
