"""Live table of a conversation's candidates, drawn line by line: rows out of sight cost nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from forewarp.agent.candidates import CandidateRow, Candidates
from forewarp.agent.tui.columns import BY_NAME, COLUMNS, GAP, Column, Tone, arranged, fit, times
from forewarp.core.untrusted_text import one_line

MARGIN = 2
"""Columns left of the first one: where the best candidates have their star."""

EMPTY = ("No candidates yet:", "ask for a faster kernel, or type", "/forecast TASK FILE")


class Table(ScrollView, can_focus=True):
    """Rows below a header that stays, with a cursor. `CandidatesPane` says which rows and in what order."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "table--header",
        "table--cursor",
        "table--won",
        "table--lost",
        "table--doubt",
        "table--odd",
        "table--faint",
    }
    DEFAULT_CSS = """
    Table {
        background: $surface;
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        scrollbar-background: $surface;
        scrollbar-color: $secondary 50%;
        & > .table--header { text-style: bold dim; }
        & > .table--cursor { background: $block-cursor-blurred-background; text-style: bold; }
        &:focus > .table--cursor {
            background: $block-cursor-background; color: $block-cursor-foreground; text-style: bold;
        }
        & > .table--won { color: $text-success; }
        & > .table--lost { color: $text-error; }
        & > .table--doubt { color: $text-warning; }
        & > .table--odd { color: $text-accent; text-style: bold; }
        & > .table--faint { text-style: dim; }
        &:ansi > .table--won { color: ansi_green; }
        &:ansi > .table--lost { color: ansi_red; }
        &:ansi > .table--doubt { color: ansi_yellow; }
        &:ansi > .table--odd { color: ansi_magenta; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
        Binding("home,g", "move(-1000000)", "first", show=False),
        Binding("end,G", "move(1000000)", "last", show=False),
        Binding("enter", "choose", "source"),
    ]
    ALLOW_SELECT = False

    class Moved(Message):
        """The cursor went to a row; `chosen` where the user asked for it by Enter or a click."""

        def __init__(self, row: CandidateRow, *, chosen: bool) -> None:
            super().__init__()
            self.row = row
            self.chosen = chosen

    class Heading(Message):
        """The head of a column was clicked."""

        def __init__(self, column: Column) -> None:
            super().__init__()
            self.column = column

    def __init__(self) -> None:
        super().__init__()
        self.rows: Sequence[CandidateRow] = ()
        self.best: frozenset[int] = frozenset()
        self.left_out: Sequence[str] = ()
        self.sorted_by: tuple[str, bool] = ("number", False)
        self.cursor = 0

    @property
    def row(self) -> CandidateRow | None:
        """The row under the cursor."""
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    def fill(self, rows: Sequence[CandidateRow]) -> None:
        """Show these rows; the cursor stays on its row, unless it follows what comes at the end."""
        before, last = self.row, self.cursor >= len(self.rows) - 1
        follows = last and not self.has_focus and self.sorted_by == ("number", False)
        places = {r.number: i for i, r in enumerate(rows)}
        self.rows = rows
        self.cursor = max(0, len(rows) - 1) if follows else places.get(before.number, 0) if before else 0
        self.virtual_size = Size(0, len(rows) + 1)
        if follows:
            self.call_after_refresh(self.scroll_end, animate=False, immediate=True, x_axis=False)
        self.refresh()

    def columns(self) -> list[tuple[Column, int]]:
        """Return the columns in sight with their widths."""
        return fit(self.scrollable_content_region.width - MARGIN, self.left_out)

    def render_line(self, y: int) -> Strip:
        """Return one line of the screen; the first is the header."""
        width = self.size.width
        if not self.rows:
            text = EMPTY[y - 1] if 0 < y <= len(EMPTY) else ""
            style = self.rich_style + self._style("faint")
            return Strip([Segment(" " * MARGIN + text, style)]).adjust_cell_length(width, style)
        if y == 0:
            return self._header(width)
        place = y - 1 + self.scroll_offset.y
        if place >= len(self.rows):
            return Strip.blank(width, self.rich_style)
        return self._line(place, width)

    def _header(self, width: int) -> Strip:
        style = self.rich_style + self.get_component_rich_style("table--header", partial=True)
        segments = [Segment(" " * MARGIN, style)]
        name, falling = self.sorted_by
        for column, wide in self.columns():
            arrow = ("↓" if falling else "↑") * (column.name == name)
            title = " " * max(0, wide - len(column.title)) * column.right + column.title + arrow
            segments.append(Segment(_sized(title, wide + GAP), style))
        return Strip(segments).adjust_cell_length(width, style)

    def _line(self, place: int, width: int) -> Strip:
        row = self.rows[place]
        under = place == self.cursor
        base = self.rich_style
        if under:
            base += self.get_component_rich_style("table--cursor", partial=True)
        # The cursor's own colours are made to be read on it; those of the tones are not.
        toned = not (under and self.has_focus)
        star = self._style("won") if toned else Style.null()
        segments = [Segment("★ " if row.number in self.best else "  ", base + star)]
        for column, wide in self.columns():
            text, tone = column.cell(row, wide)
            style = base + self._style(tone) if toned and tone else base
            segments += [Segment(_sized(text, wide, right=column.right), style), Segment(" " * GAP, base)]
        return Strip(segments).adjust_cell_length(width, base)

    def _style(self, tone: Tone) -> Style:
        return self.get_component_rich_style(f"table--{tone}", partial=True)

    def action_move(self, by: int) -> None:
        """Move the cursor by so many rows, as far as there are any."""
        self._go(self.cursor + by, chosen=False)

    def action_page(self, way: int) -> None:
        """Move the cursor by a page."""
        self._go(self.cursor + way * max(1, self.size.height - 2), chosen=False)

    def action_choose(self) -> None:
        """Choose the row under the cursor."""
        self._go(self.cursor, chosen=True)

    def _go(self, place: int, *, chosen: bool) -> None:
        if not self.rows:
            return
        self.cursor = min(max(place, 0), len(self.rows) - 1)
        self._reveal()
        self.refresh()
        self.post_message(self.Moved(self.rows[self.cursor], chosen=chosen))

    def _reveal(self) -> None:
        # One line more at the top: the header covers it.
        self.scroll_to_region(Region(0, self.cursor, 1, 2), animate=False, immediate=True, x_axis=False)

    def on_show(self) -> None:
        """Bring the cursor into sight: a hidden table does not scroll."""
        self._reveal()

    def on_click(self, event: events.Click) -> None:
        """Choose the row that was clicked, or sort by the column whose head was."""
        at = event.get_content_offset(self)
        if at is None or not self.rows:
            return
        if at.y > 0:
            self._go(at.y - 1 + self.scroll_offset.y, chosen=True)
            return
        start = MARGIN
        for column, wide in self.columns():
            if start <= at.x < start + wide + GAP:
                self.post_message(self.Heading(column))
            start += wide + GAP


class CandidatesPane(Widget):
    """The table of candidates with a line above it that sums up the visible rows.

    `load` shows a board, `refresh_row` what changed of it since.
    """

    DEFAULT_CSS = """
    CandidatesPane { layout: vertical; height: 1fr; }
    CandidatesPane > #candidates-summary {
        height: 1; padding: 0 1 0 2; color: $text-muted; text-wrap: nowrap; text-overflow: ellipsis;
    }
    CandidatesPane > Table { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "sort", "sort"),
        Binding("S", "reverse", "reverse", show=False),
        Binding("m", "measured", "measured only"),
        Binding("t", "task", "task"),
    ]

    class Selected(Message):
        """The user chose a candidate, by Enter or a click."""

        def __init__(self, row: CandidateRow) -> None:
            super().__init__()
            self.row = row

    class Highlighted(Message):
        """The cursor moved to a candidate."""

        def __init__(self, row: CandidateRow) -> None:
            super().__init__()
            self.row = row

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._all: list[CandidateRow] = []
        self._column = COLUMNS[0]
        self._falling = False
        self._only_measured = False
        self._only_task = ""
        self._stale = False

    def compose(self) -> ComposeResult:
        """Yield the summary and the table."""
        yield Static("", id="candidates-summary", markup=False)
        yield Table()

    @property
    def rows(self) -> Sequence[CandidateRow]:
        """The rows in sight, in order."""
        return self.query_one(Table).rows

    @property
    def selected(self) -> CandidateRow | None:
        """The row under the cursor."""
        return self.query_one(Table).row

    def load(self, board: Candidates) -> None:
        """Show all candidates of a board instead of those shown so far."""
        self._all = list(board)
        self._settle()

    def refresh_row(self, row: CandidateRow) -> None:
        """Show a row that is new or has changed; several changes are drawn together."""
        if row.number > len(self._all):
            self._all.append(row)
        else:
            self._all[row.number - 1] = row
        if not self._stale:
            self._stale = True
            self.call_later(self._settle)

    def select(self, row: CandidateRow) -> None:
        """Put the cursor on a row, if it is in sight."""
        table = self.query_one(Table)
        for place, other in enumerate(table.rows):
            if other.number == row.number:
                table.action_move(place - table.cursor)

    def action_sort(self) -> None:
        """Sort by the next column in sight."""
        names = [c.name for c, _ in self.query_one(Table).columns()] or [COLUMNS[0].name]
        place = names.index(self._column.name) + 1 if self._column.name in names else 0
        self._sort(BY_NAME[names[place % len(names)]])

    def action_reverse(self) -> None:
        """Turn the order round."""
        self._falling = not self._falling
        self._settle()

    def action_measured(self) -> None:
        """Toggle between measured candidates and all."""
        self._only_measured = not self._only_measured
        self._settle()

    def action_task(self) -> None:
        """Show the candidates of the next task only; after the last one, all."""
        tasks = ["", *dict.fromkeys(r.forecast.task for r in self._all)]
        self._only_task = tasks[(tasks.index(self._only_task) + 1) % len(tasks)] if len(tasks) > 2 else ""
        self._settle()

    @on(Table.Heading)
    def _heading(self, message: Table.Heading) -> None:
        message.stop()
        if message.column is self._column:
            self.action_reverse()
        else:
            self._sort(message.column)

    @on(Table.Moved)
    def _moved(self, message: Table.Moved) -> None:
        message.stop()
        self.post_message(self.Selected(message.row) if message.chosen else self.Highlighted(message.row))

    def _sort(self, column: Column) -> None:
        self._column, self._falling = column, column.falling
        self._settle()

    def _settle(self) -> None:
        """Update the table to the candidates, the filters and the sort order."""
        self._stale = False
        if not self.is_mounted:
            return
        seen = [
            r
            for r in self._all
            if (not self._only_measured or r.measured) and (not self._only_task or r.forecast.task == self._only_task)
        ]
        table = self.query_one(Table)
        best = _best(self._all)
        table.best = frozenset(row.number for row in best.values())
        table.left_out = ("task",) if len({r.forecast.task for r in seen}) < 2 else ()
        table.sorted_by = (self._column.name, self._falling)
        table.fill(arranged(seen, self._column, falling=self._falling))
        self.query_one("#candidates-summary", Static).update(self._summary(seen, best))

    def _summary(self, seen: Sequence[CandidateRow], best: Mapping[str, CandidateRow]) -> str:
        if not self._all:
            return ""
        tasks = dict.fromkeys(r.forecast.task for r in seen)
        all_of_them = f"{len(seen)} candidate{'s' * (len(seen) != 1)}"
        parts = [
            f"{len(seen)} of {len(self._all)} candidates" if len(seen) < len(self._all) else all_of_them,
            "measured only" if self._only_measured else f"{sum(r.measured is not None for r in seen)} measured",
        ]
        if len(tasks) == 1 and (leader := best.get(next(iter(tasks)))):
            parts.append(f"★ #{leader.number} {times(_speedup(leader))}")
        if self._column is not COLUMNS[0] or self._falling:
            parts.append(f"by {self._column.name} {'↓' if self._falling else '↑'}")
        parts.append(next(iter(tasks)) if len(tasks) == 1 else f"{len(tasks)} tasks")
        return " · ".join(parts)


def _best(rows: Sequence[CandidateRow]) -> dict[str, CandidateRow]:
    """Return the fastest correct candidate of each task."""
    best: dict[str, CandidateRow] = {}
    for row in rows:
        if row.is_valid and _speedup(row) > (_speedup(best[row.forecast.task]) if row.forecast.task in best else 0.0):
            best[row.forecast.task] = row
    return best


def _speedup(row: CandidateRow) -> float:
    return (row.measured.speedup if row.measured else None) or 0.0


def _sized(text: str, width: int, *, right: bool = False) -> str:
    """Return a text in so many columns, whatever characters it is made of."""
    text = one_line(text, "?") if not text.isprintable() else text
    length = cell_len(text)
    if length > width:
        return set_cell_size(text, width - 1) + "…"
    return " " * (width - length) + text if right else text + " " * (width - length)
