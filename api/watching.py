"""Seeing a run while it goes: a panel in a terminal, lines in a notebook, and the caller's own function."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, TypeAlias

from forewarp.report import display, progress
from forewarp.report.tally import so_far
from forewarp.search.events import Event

if TYPE_CHECKING:
    from forewarp.tools.search import SearchJob

Watcher: TypeAlias = Callable[[Event], object]
"""Sees each event; raising `StopIteration` ends the run with the best so far."""


def follow(job: SearchJob, on_event: Watcher | None, shown: bool | None) -> None:
    """Do the work of a run. `shown` is None for a view where somebody looks: in a notebook or on a terminal."""
    # An error of the caller's ends the run here, while there is an archive to note it in.
    with closing(job.events()) as events, _view(job, shown) as see:
        for event in events:
            see(event)
            try:
                if on_event is not None:
                    on_event(event)
            except StopIteration:
                job.stop()


@contextmanager
def _view(job: SearchJob, shown: bool | None) -> Generator[Callable[[Event], object]]:
    console = display.stderr()
    if shown is False or not (shown or in_notebook() or console.is_terminal):
        yield lambda _: None
        return
    with progress.shown_live(console, tally=so_far(job), spend=job.spend) as see:
        yield see


def in_notebook() -> bool:
    """Return whether this is a notebook's kernel, which shows what is written to stderr."""
    held = sys.modules.get("IPython")
    shell = held.get_ipython() if held else None
    return getattr(shell, "kernel", None) is not None
