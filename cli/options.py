"""Flags that several verbs share. Light: read for `forewarp --help`; `flags` makes the others from requests."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console

    from forewarp.tools.parts import Place


def positive(_: object, value: float | None) -> None:
    """Raise `ValueError` for a value that is not positive and finite."""
    if value is not None and not 0 < value < math.inf:
        raise ValueError("It must be above 0 and finite.")


Switch = Annotated[bool, Parameter(negative="", show_default=False)]
"""A flag without a value, which has no opposite."""
ArchiveOption = Annotated[Path | None, Parameter(help="Archive file; $FOREWARP_ARCHIVE, else one in your data folder.")]
OutputFormat = Literal["text", "json", "stream-json"]
"""Forms of the answer of a chat without a terminal."""


@Parameter(name="*")
@dataclass(frozen=True)
class PlaceOptions:
    """Device and archive.

    Attributes:
        device: auto (cuda, else cpu), cuda, cuda:N, cuda:all (several kernels at once), cpu; replay looks up a pool.
        executor: Machines to measure on: local, or ssh:HOST.
        pool: Parquet file or folder of recorded measurements, for --device replay; left out, those of forewarp.
        archive: Archive file; $FOREWARP_ARCHIVE, else one in your data folder.
        python: Python that has the torch to measure with; the one that runs forewarp if left out, python3 over ssh.
        unprotected: Run the code of tasks and kernels on this machine even where it cannot be confined.
    """

    device: str = "auto"
    executor: str = "local"
    pool: Path | None = None
    archive: Path | None = None
    python: Path | None = None
    unprotected: Switch = False

    def place(self) -> Place:
        """Convert the flags into a `Place`; paths on this machine become absolute.

        Processes that are started from here on learn from a variable that the user insists. Raises `UsageError`.
        """
        from forewarp.core.errors import UsageError
        from forewarp.gpu_runner.worker.least import INSIST
        from forewarp.tools.parts import Place

        if self.unprotected and self.executor != "local":
            raise UsageError(
                f"--unprotected is about this machine, and --executor {self.executor} measures elsewhere",
                hint=f"leave it out, and set {INSIST}=1 on the machines that measure",
            )
        if self.unprotected:
            os.environ[INSIST] = "1"
        here = self.executor == "local"
        return Place(
            device=self.device,
            executor=self.executor,
            pool=absolute(self.pool),
            archive=absolute(self.archive),
            python=absolute(self.python) if here else self.python and str(self.python),
        )


@Parameter(name="*")
@dataclass(frozen=True)
class Output:
    """Flags that choose how results are shown.

    Attributes:
        json: Print exactly one JSON document on stdout, also on failure.
        quiet: Show no progress.
        verbose: Show tracebacks and logs in full.
    """

    json: Switch = False
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], negative="", show_default=False)] = False
    verbose: Annotated[bool, Parameter(name=["--verbose", "-v"], negative="", show_default=False)] = False

    @contextmanager
    def waiting(self, text: str) -> Generator[Callable[[str], None]]:
        """Show on a terminal that something is being done; yields the function that says what comes next."""
        from forewarp.report import display

        console = display.stderr()
        console.quiet = self.quiet or not console.is_terminal
        with display.waiting(console, f"{text} …") as tell:
            yield lambda stage: tell(f"{stage} …")

    @contextmanager
    def telling(self, text: str) -> Generator[Callable[[str], None]]:
        """Show how far long work is: one line that changes on a terminal, a line for each step elsewhere."""
        from forewarp.core.untrusted_text import one_line
        from forewarp.report import display

        console = display.stderr()
        if self.quiet or (self.json and not console.is_terminal):
            yield lambda _: None
        elif console.is_terminal and not console.is_dumb_terminal:
            with display.waiting(console, f"{text} …") as tell:
                yield tell
        else:
            yield lambda said: console.print(one_line(said), soft_wrap=True)

    def show(self, document: BaseModel, render: Callable[[Console], None]) -> None:
        """Print a result on stdout: the document with --json, else what `render` prints."""
        from forewarp.cli import printing
        from forewarp.report import display

        if self.json:
            printing.document(document)
        else:
            render(display.stdout())

    def tell(
        self,
        result: BaseModel,
        command: str,
        render: Callable[..., None],
        *,
        files: Iterable[tuple[Any, str]] = (),
        **fields: Any,
    ) -> None:
        """Print what a verb came to: its document, with more `fields`, or what `render` prints, all of it with -v.

        `files` are those that it wrote, each with its kind.
        """
        from forewarp.report.documents import Artifact, document

        made = document(result, command, artifacts=[Artifact(kind=kind, path=path) for kind, path in files], **fields)
        self.show(made, lambda console: render(result, console, full=self.verbose))


HERE, PLAIN = PlaceOptions(), Output()


def absolute(path: Path | None) -> str | None:
    """Return a path without `~` and relative parts; links, such as a virtual environment's Python, are kept."""
    return str(path.expanduser().absolute()) if path else None
