"""Consoles and colours: tables and styled lines reach the terminal through here, without control characters."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from itertools import zip_longest

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from forewarp.core.untrusted_text import one_line, printable

_COLOURS = {
    **dict.fromkeys(("faster", "ok", "finished", "measure", "accept"), "green"),
    **dict.fromkeys(("slower", "failed", "incorrect"), "red"),
    **dict.fromkeys(("ambiguous", "interrupted"), "yellow"),
    **dict.fromkeys(("suspicious", "impossible"), "magenta"),
    "running": "cyan",
}


class SafeConsole(Console):
    """A console that writes no control characters and no links but its own, whatever it is given to print."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield what is drawn; rich's own cursor movements are control segments and stay."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else _safe(segment)


def _safe(segment: Segment) -> Segment:
    text, style = printable(segment.text), segment.style
    if text != segment.text:
        text = set_cell_size(text, cell_len(segment.text))
    return Segment(text, style.update_link(None) if style is not None and style.link else style)


def stdout() -> Console:
    """Return the console for results; wide enough for tables where the output is a file."""
    return _console(stderr=False)


def stderr() -> Console:
    return _console(stderr=True)


@contextmanager
def waiting(console: Console, text: str) -> Generator[Callable[[str], None]]:
    """Show on a terminal that something is being done; yields the function that says what."""

    def shown(said: str) -> Text:
        return Text(one_line(said)[: max(1, console.width - 3)])  # rich reads markup in a str here

    with console.status(shown(text)) as status:
        yield lambda said: status.update(shown(said))


def _console(*, stderr: bool) -> Console:
    # Kernel names, logs and intervals hold brackets, which are no markup.
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else 120
    return SafeConsole(stderr=stderr, markup=False, highlight=False, emoji=False, width=width)


def table(
    heads: Sequence[str | Column],
    rows: Iterable[Sequence[str]],
    *,
    title: str | None = None,
    styles: Iterable[str] = (),
    expand: bool = False,
    whole: int = 0,
) -> Table:
    """Return a table without lines; `styles` are those of its first rows.

    Its first `whole` columns hold what is named elsewhere, so that others are cut before them.
    """
    heads = [Column(h, no_wrap=True) if place < whole and isinstance(h, str) else h for place, h in enumerate(heads)]
    made = Table(*heads, box=None, title=title, title_justify="left", expand=expand)
    for row, style in zip_longest(rows, styles):
        made.add_row(*row, style=style)
    return made


def colour(word: str) -> str:
    """Return the colour of a status or verdict."""
    return _COLOURS.get(word, "")
