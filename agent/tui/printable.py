"""The border to the terminal: every line that the application draws passes this filter."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from forewarp.core.untrusted_text import printable


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
