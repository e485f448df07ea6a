"""Seeing a run while it goes: a panel in a terminal or a notebook, and the caller's own function."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from forewarp.report import display, progress
from forewarp.report.tally import Tally, so_far
from forewarp.search.events import Event

if TYPE_CHECKING:
    from forewarp.tools.search import SearchJob

Watcher: TypeAlias = Callable[[Event], object]
"""Sees each event; raising `StopIteration` ends the run with the best so far."""

Show: TypeAlias = Callable[..., Any]
"""`IPython.display.display`: shows a dictionary of texts by MIME type, and returns a handle that replaces them."""

WIDTH = 100
EVERY_S = 0.25


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
    console, notebook = display.stderr(), in_notebook()
    if shown is False or not (shown or notebook or console.is_terminal):
        yield lambda _: None
        return
    tally = so_far(job)
    if notebook:
        view = NotebookView(tally, import_module("IPython.display").display)
        try:
            yield view.see
        finally:
            view.end()
    else:
        with progress.shown_live(console, tally=tally, spend=job.spend) as see:
            yield see


def in_notebook() -> bool:
    """Return whether this is a notebook's kernel, which can show things and replace them."""
    held = sys.modules.get("IPython")
    shell = held.get_ipython() if held else None
    return getattr(shell, "kernel", None) is not None


class NotebookView:
    """The live panel as the output of a cell, replaced in place at most four times a second."""

    def __init__(self, tally: Tally, show: Show) -> None:
        self._tally, self._show = tally, show
        self._handle: Any = None
        self._drawn = 0.0
        self._last = ""

    def see(self, event: Event) -> None:
        """Take note of an event, and draw where it is time to."""
        self._last = self._tally.see(event) or self._last
        if time.monotonic() - self._drawn > EVERY_S:
            self._draw(drawn(self._tally))

    def end(self) -> None:
        """Leave one line where the panel was."""
        self._draw({"text/plain": self._last})

    def _draw(self, texts: dict[str, str]) -> None:
        self._drawn = time.monotonic()
        if self._handle is None:
            self._handle = self._show(texts, raw=True, display_id=True)
        else:
            self._handle.update(texts, raw=True)


def drawn(tally: Tally) -> dict[str, str]:
    """Return the panel as text and as HTML."""
    from rich.console import Console

    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_jupyter=False, markup=False, highlight=False)
    console.print(progress.panel(tally, WIDTH))
    page = console.export_html(
        inline_styles=True, clear=False, code_format='<pre style="line-height:normal">{code}</pre>'
    )
    return {"text/html": page, "text/plain": console.export_text()}
