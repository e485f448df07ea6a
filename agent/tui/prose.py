"""Markdown as text that can be selected: drawn once per width, in pieces where it is long."""

from __future__ import annotations

import io
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement, TableElement
from rich.padding import Padding
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget

if TYPE_CHECKING:
    from textual.geometry import Size

PIECE = 1500
"""Characters from which on a text is drawn in pieces."""

_STYLES = {
    "markdown.h1": "bold underline",
    "markdown.h2": "bold",
    "markdown.h3": "bold",
    "markdown.h4": "italic",
    "markdown.code": "cyan",
    "markdown.code_block": "default",
    "markdown.item.bullet": "dim",
    "markdown.item.number": "dim",
    "markdown.block_quote": "italic dim",
    "markdown.hr": "dim",
    "markdown.link": "underline",
    "markdown.link_url": "underline",
}


class _Heading(Heading):
    """A heading in the line of the text, not in its middle."""

    LEVEL_ALIGN: ClassVar = {f"h{n}": "left" for n in range(1, 7)}


class _Code(CodeBlock):
    """A code block on the background of the terminal."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        syntax = Syntax(code, self.lexer_name, theme=self.theme, word_wrap=True)
        yield Padding(syntax, (0, 0, 0, 2))


class _Table(TableElement):
    """A table without edges."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, border_style="dim")
        heads = self.header.row.cells if self.header and self.header.row else []
        for cell in heads:
            table.add_column(cell.content, header_style="bold")
        for row in self.body.rows if self.body else []:
            table.add_row(*(cell.content for cell in row.cells))
        yield table


class _Markdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
        "table_open": _Table,
    }


@lru_cache(maxsize=1)
def _console() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, color_system="standard", theme=Theme(_STYLES))


def draw(markdown: str, width: int, *, dark: bool = True) -> Content:
    """Return Markdown as lines of at most `width` cells, in the terminal's own sixteen colours."""
    console = _console()
    # A link shows its address: under other words it could lead anywhere.
    renderable = _Markdown(markdown.strip(), code_theme="ansi_dark" if dark else "ansi_light", hyperlinks=False)
    options = console.options.update(width=max(width, 10), height=None)
    text = Text(no_wrap=True)
    for number, line in enumerate(_stripped(console.render_lines(renderable, options, pad=False))):
        if number:
            text.append("\n")
        drawn = Text()
        for segment in line:
            drawn.append(segment.text, segment.style)
        drawn.rstrip()
        text.append_text(drawn)
    return Content.from_rich_text(text, console)


def _stripped(lines: list[list[Segment]]) -> list[list[Segment]]:
    """Leave out empty lines at both ends."""
    full = [n for n, line in enumerate(lines) if any(s.text.strip() for s in line)]
    return lines[full[0] : full[-1] + 1] if full else []


def settled(markdown: str, start: int = 0, least: int = 0) -> int:
    """Return the offset, at `least`, before which no later text can change how the text is drawn.

    That is the first blank line from there on, outside of a code block, that neither an indented line nor a list
    follows. `start` is where a piece begins; returned as it is where there is no such line.
    """
    fenced, at, blank = False, start, False
    for line in markdown[start:].splitlines(keepends=True):
        bare = line.lstrip()
        begins = line[:1].strip() and not bare.startswith(("-", "*", "+", "|", ">")) and not bare[:1].isdigit()
        if at >= least and blank and not fenced and begins:
            return at
        if bare.startswith(("```", "~~~")):
            fenced = not fenced
        blank = not bare
        at += len(line)
    return start


def pieces(markdown: str, start: int = 0) -> list[int]:
    """Return the offsets that split a finished text into pieces, each quickly drawn by itself."""
    ends: list[int] = []
    while len(markdown) - start > PIECE and (end := settled(markdown, start, start + PIECE)) > start:
        ends.append(end)
        start = end
    return ends


class Prose(Widget):
    """A piece of Markdown."""

    DEFAULT_CSS = "Prose { height: auto; }"

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self._text = text
        self._drawn: tuple[object, Content] | None = None

    def write(self, text: str) -> None:
        """Replace the text."""
        if text != self._text:
            self._text = text
            self.redraw()

    def redraw(self) -> None:
        """Draw the text again, for other colours or another text."""
        self._drawn = None
        self.refresh(layout=True)

    def render(self) -> Content:
        """Return the text at the present width."""
        return self._at(self.content_size.width)

    def get_content_width(self, container: Size, viewport: Size) -> int:
        """Take all of the width."""
        return container.width

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines."""
        return max(1, self._at(width).plain.count("\n") + 1)

    def _at(self, width: int) -> Content:
        dark = self.app.current_theme.dark
        if self._drawn is None or self._drawn[0] != (width, dark):
            self._drawn = ((width, dark), draw(self._text, width, dark=dark))
        return self._drawn[1]


class Pages(Vertical):
    """Markdown of any length that may grow: only its last piece is drawn anew with every word."""

    DEFAULT_CSS = """
    Pages { height: auto; }
    Pages > Prose { margin: 0 0 1 0; }
    Pages > Prose:last-child { margin: 0; }
    """

    def __init__(self, text: str = "", *, classes: str | None = None) -> None:
        super().__init__(classes=classes)
        self._text = text
        self._start = 0

    def compose(self) -> ComposeResult:
        """Yield the pieces there are."""
        for end in pieces(self._text):
            yield Prose(self._text[self._start : end])
            self._start = end
        yield Prose(self._text[self._start :])

    def on_mount(self) -> None:
        """Add the text written since the pieces were made."""
        self.query(Prose).last().write(self._text[self._start :])

    def write(self, text: str) -> None:
        """Replace the text by one that begins with it."""
        if text == self._text or not self.is_mounted:
            self._text = text
            return
        self._text = text
        last = self.query(Prose).last()
        new: list[Prose] = []
        for end in pieces(text, self._start):
            last.write(text[self._start : end])
            self._start = end
            new.append(last := Prose(text[end:]))
        last.write(text[self._start :])
        if new:
            self.mount_all(new)

    def redraw(self) -> None:
        """Draw all pieces again."""
        for piece in self.query(Prose):
            piece.redraw()
