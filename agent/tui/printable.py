"""The border to the terminal: every line that the application draws passes the filter `Printable`.

Text with styles is put together by `assemble` and `styled`. Textual takes some control characters out of a text itself
but not out of the places of its styles, which ends the application with an error.
"""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.color import Color
from textual.content import Content
from textual.filter import LineFilter

from forewarp.core.untrusted_text import printable

TextPart = str | Content | tuple[str, str]
"""Text, with a style or without."""


class Printable(LineFilter):
    """Takes control characters and links out of a line, and keeps its width."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments without what a terminal would act upon."""
        return [_safe(segment) for segment in segments]


def _safe(segment: Segment) -> Segment:
    text, style, control = segment
    if control:
        return segment
    clean = printable(text).replace("\n", "").replace("\t", " ")
    if clean != text:
        clean = set_cell_size(clean, cell_len(text))
    return Segment(clean, style.update_link(None) if style is not None and style.link else style)


def assemble(*parts: TextPart) -> Content:
    """Return texts with their styles one after the other, without control characters."""

    def clean(part: TextPart) -> TextPart:
        if isinstance(part, str):
            return printable(part)
        return (printable(part[0]), part[1]) if isinstance(part, tuple) else part

    return Content.assemble(*map(clean, parts))


def styled(text: str, style: str) -> Content:
    """Return a text in one style, without control characters."""
    return Content.styled(printable(text), style)
