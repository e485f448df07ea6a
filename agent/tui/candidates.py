"""Table of a conversation's candidates: its columns, of which as many are shown as fit, its order and its filters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget
from textual.widgets import DataTable, Static

from forewarp.agent.candidates import Candidates, ListedCandidate
from forewarp.agent.tui.wording import NONE, SURPRISING, Tone, fitting, share, sigmas, times, tone, verdict, within
from forewarp.core.untrusted_text import one_line
from forewarp.tools.wording import counted

GAP = 2
"""Blanks between columns."""

EMPTY = "No candidates yet:\nask for a faster kernel, or type\n/forecast TASK FILE"
OFF_BY = "off by: standard deviations (σ) from the forecast"
_SHORT, _LONG = 8, 18
MOST_CHANGE = 60
"""Characters that the column of what changed takes at most."""

SortKey = str | float | None


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `widths` are those it can have, in characters; `cell` gets the one it has, and returns text and tone.

    `key` is what it sorts by, None for what stands last either way. Columns of numbers stand right; all but the first
    are sorted from the largest on.
    """

    name: str
    title: str
    widths: tuple[int, ...]
    cell: Callable[[ListedCandidate, int], tuple[str, Tone]]
    key: Callable[[ListedCandidate], SortKey]
    number: bool = True

    @property
    def falling(self) -> bool:
        """True if the largest comes first."""
        return self.number and self.name != "number"


def _words(name: str, title: str, widths: tuple[int, ...], of: Callable[[ListedCandidate], str]) -> Column:
    return Column(name, title, widths, lambda r, _: (of(r) or NONE, "dim"), lambda r: of(r) or None, number=False)


def _share(name: str, title: str, of: Callable[[ListedCandidate], float | None]) -> Column:
    return Column(name, title, (5,), lambda r, _: (share(of(r)), "dim" if of(r) is None else ""), of)


def _interval(
    name: str, of: Callable[[ListedCandidate], tuple[float | None, ...]], mark: Callable[[ListedCandidate], Tone]
) -> Column:
    def cell(row: ListedCandidate, width: int) -> tuple[str, Tone]:
        ratio, low, high = of(row)
        text = within(ratio, low, high) if width > _SHORT else times(ratio)
        if ratio is None and name == "measured":
            text = verdict(row) or text  # the column of verdicts does not always fit
        return text, mark(row) if ratio is not None or text != NONE else "dim"

    return Column(name, name, (_SHORT, _LONG), cell, lambda r: of(r)[0])


def _measured(row: ListedCandidate) -> tuple[float | None, ...]:
    m = row.measured
    return (m.speedup, m.low, m.high) if m else (None, None, None)


def _surprise(row: ListedCandidate, _: int) -> tuple[str, Tone]:
    s = row.surprise
    return ("", "") if s is None else (sigmas(s), "accent" if abs(s) > SURPRISING else "")


def _advice(row: ListedCandidate, _: int) -> tuple[str, Tone]:
    advice = row.forecast.advice
    return advice or NONE, "dim" if advice in ("skip", "reject", "") else ""


def _device_s(row: ListedCandidate, _: int) -> tuple[str, Tone]:
    return f"{row.measured.device_s:.1f}" if row.measured else "", "dim"


COLUMNS = (
    Column("number", "#", (4,), lambda r, _: (str(r.number), ""), lambda r: r.number),
    Column("change", "what changed", (12, 24), lambda r, w: (fitting(r.label, w), ""), lambda r: r.label, False),
    _words("kernel", "kernel", (7,), lambda r: r.forecast.kernel[:7]),
    _words("task", "task", (12, 20), lambda r: r.forecast.task),
    _words("origin", "origin", (8,), lambda r: r.forecast.origin),
    _interval("forecast", lambda r: (r.expected.median, r.expected.low, r.expected.high), lambda _: ""),
    _share("correct", "P(ok)", lambda r: r.expected.p_valid),
    _share("confidence", "conf", lambda r: r.expected.confidence),
    Column("advice", "advice", (7,), _advice, lambda r: r.forecast.advice or None, number=False),
    _interval("measured", _measured, tone),
    Column("verdict", "verdict", (9, 13), lambda r, _: (verdict(r), tone(r)), lambda r: verdict(r) or None, False),
    Column("surprise", "off by", (6,), _surprise, lambda r: None if r.surprise is None else abs(r.surprise)),
    Column("device", "dev s", (6,), _device_s, lambda r: r.measured.device_s if r.measured else None),
)
BY_NAME = {column.name: column for column in COLUMNS}

_WANTED = (
    *(("number", 0), ("measured", 0), ("forecast", 0), ("change", 0), ("surprise", 0), ("change", 1)),
    *(("verdict", 0), ("measured", 1), ("forecast", 1), ("verdict", 1), ("correct", 0), ("advice", 0)),
    *(("task", 0), ("origin", 0), ("kernel", 0), ("confidence", 0), ("device", 0), ("task", 1)),
)
"""Columns by priority, the most wanted first, each with the index of its width."""


def fit(width: int, left_out: Sequence[str] = ()) -> list[tuple[Column, int]]:
    """Return the columns that fit into so many characters, in order, with the width of each.

    What is left over goes to the column of what changed.
    """
    taken: dict[str, int] = {}
    for name, place in _WANTED:
        if name in left_out or (place and name not in taken):
            continue
        wider = taken | {name: BY_NAME[name].widths[place]}
        if sum(wider.values()) + GAP * (len(wider) - 1) <= width:
            taken = wider
        elif not place:
            break
    if "change" in taken:
        spare = width - sum(taken.values()) - GAP * (len(taken) - 1)
        taken["change"] = min(taken["change"] + spare, MOST_CHANGE)
    return [(c, taken[c.name]) for c in COLUMNS if c.name in taken]


@dataclass(frozen=True, slots=True)
class _Cell:
    """A cell, drawn from its row when it comes into sight: rows out of sight cost nothing."""

    pane: CandidatesPane
    row: ListedCandidate
    column: Column
    width: int

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, 1)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        text, mark = self.column.cell(self.row, self.width)
        if self.column.name == "number" and self.row.number in self.pane.best:
            text = f"★{text}"
        yield _aligned(Text(one_line(text, "?"), self.pane.style(mark)), self.column, self.width)


class CandidateTable(DataTable[_Cell]):
    """Table with a cursor on rows, and the keys of a pager."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("k", "cursor_up", show=False),
        Binding("j", "cursor_down", show=False),
        Binding("home,g", "scroll_top", "first", show=False),
        Binding("end,G", "scroll_bottom", "last", show=False),
    ]

    def on_click(self, event: events.Click) -> None:
        """Choose the row that was clicked: the table itself chooses one that has the cursor."""
        meta = event.style.meta
        if meta.get("row", -1) >= 0:
            self.move_cursor(row=meta["row"], column=meta["column"])


class CandidatesPane(Widget):
    """The table of candidates with a line above it that sums up the visible rows.

    `load` shows candidates, `refresh_rows` what changed of them since.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "sort", "sort"),
        Binding("S", "reverse", "reverse", show=False),
        Binding("m", "measured", "measured only"),
        Binding("t", "task", "task"),
    ]

    @dataclass
    class Selected(Message):
        """The user chose a candidate, by Enter or a click; `moved` where only the cursor went there."""

        row: ListedCandidate
        moved: bool

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.best: set[int] = set()
        """Numbers of the fastest correct candidate of each task."""
        self._candidates = Candidates()
        self._columns: list[tuple[Column, int]] = []
        self._column, self._falling = COLUMNS[0], False
        self._only_measured, self._only_task = False, ""

    def compose(self) -> ComposeResult:
        self._summary = Static("", id="candidates-summary", markup=False)
        self._table = CandidateTable(cursor_type="row", cell_padding=0)
        yield from (self._summary, self._table)

    def on_mount(self) -> None:
        """Draw cells anew when the colours change."""
        self.app.theme_changed_signal.subscribe(self, lambda _: self._rebuild())

    @property
    def rows(self) -> list[ListedCandidate]:
        return [self._table.get_row_at(n)[0].row for n in range(self._table.row_count)] if self._columns else []

    @property
    def selected(self) -> ListedCandidate | None:
        table = self._table
        return table.get_row_at(table.cursor_row)[0].row if table.is_valid_row_index(table.cursor_row) else None

    def style(self, mark: Tone) -> str:
        """Return the style of a tone, for Rich."""
        if mark in ("", "dim"):
            return mark
        colour = self.app.theme_variables.get(f"text-{mark}", "").removeprefix("ansi_")
        return f"bold {colour}" if mark == "accent" else colour

    def load(self, candidates: Candidates) -> None:
        """Show all candidates of a conversation instead of those shown so far."""
        self._candidates = candidates
        self._rebuild()

    def refresh_rows(self, *rows: ListedCandidate) -> None:
        """Show rows that are new or have changed."""
        table, under = self._table, self.selected
        self._summarise()
        if self._fitting() != self._columns:
            self._rebuild()
            return
        follows = table.cursor_row >= table.row_count - 1 and not table.has_focus and self._in_order
        for row in rows:
            key = str(row.number)
            if key in table.rows:
                for cell in table.get_row(key):
                    table.update_cell(key, cell.column.name, cell)
            elif self._shows(row):
                self._add(row)
        self._sort()
        if follows:
            table.move_cursor(row=table.row_count - 1)
        elif under is not None:
            self.select(under)

    def select(self, row: ListedCandidate) -> None:
        """Put the cursor on a row, if it is in sight."""
        if str(row.number) in self._table.rows:
            self._table.move_cursor(row=self._table.get_row_index(str(row.number)))

    def focus(self, scroll_visible: bool = True) -> CandidatesPane:
        self._table.focus(scroll_visible)
        return self

    def on_resize(self) -> None:
        if self._fitting() != self._columns:
            self._rebuild()

    def action_sort(self) -> None:
        columns = [c for c, _ in self._columns] or [COLUMNS[0]]
        place = columns.index(self._column) + 1 if self._column in columns else 0
        self._sort_by(columns[place % len(columns)])

    def action_reverse(self) -> None:
        self._falling = not self._falling
        self._rebuild()

    def action_measured(self) -> None:
        self._only_measured = not self._only_measured
        self._rebuild()

    def action_task(self) -> None:
        tasks = ["", *dict.fromkeys(r.forecast.task for r in self._candidates)]
        self._only_task = tasks[(tasks.index(self._only_task) + 1) % len(tasks)] if len(tasks) > 2 else ""
        self._rebuild()

    @on(DataTable.HeaderSelected)
    def _heading(self, message: DataTable.HeaderSelected) -> None:
        column = BY_NAME[str(message.column_key.value)]
        if column is self._column:
            self.action_reverse()
        else:
            self._sort_by(column)

    @on(DataTable.RowSelected)
    @on(DataTable.RowHighlighted)
    def _moved(self, message: DataTable.RowSelected | DataTable.RowHighlighted) -> None:
        message.stop()
        if (row := self.selected) is not None:
            self.post_message(self.Selected(row, moved=isinstance(message, DataTable.RowHighlighted)))

    def _sort_by(self, column: Column) -> None:
        self._column, self._falling = column, column.falling
        self._rebuild()

    @property
    def _in_order(self) -> bool:
        return self._column is COLUMNS[0] and not self._falling

    def _shows(self, row: ListedCandidate) -> bool:
        of_task = not self._only_task or row.forecast.task == self._only_task
        return of_task and (row.measured is not None or not self._only_measured)

    def _fitting(self) -> list[tuple[Column, int]]:
        tasks = {r.forecast.task for r in self._candidates if self._shows(r)}
        width = self.size.width - self._table.styles.scrollbar_size_vertical
        return fit(max(width, COLUMNS[0].widths[0]), ("task",) if len(tasks) < 2 else ())

    def _rebuild(self) -> None:
        """Fill the table anew; the cursor stays on its row, or at the end where rows come in order."""
        self._summarise()
        if not self.size.width:  # filled once it is in sight
            return
        table, under = self._table, self.selected
        self._columns = self._fitting()
        table.clear(columns=True)
        for column, width in self._columns:
            arrow = ("↓" if self._falling else "↑") * (column is self._column)
            title = Text(column.title + arrow)
            table.add_column(_aligned(title, column, width), width=width + GAP, key=column.name)
        for row in self._candidates:
            if self._shows(row):
                self._add(row)
        self._sort()
        if under is not None:
            self.select(under)
        elif self._in_order:
            table.move_cursor(row=table.row_count - 1)

    def _add(self, row: ListedCandidate) -> None:
        self._table.add_row(*(_Cell(self, row, c, w) for c, w in self._columns), key=str(row.number))

    def _sort(self) -> None:
        if self._in_order or not self._columns:
            return

        def key(cell: _Cell) -> Any:
            value = self._column.key(cell.row)
            return (value is None) != self._falling, value if value is not None else ""

        # A column that is out of sight sorts, too: any cell knows its row.
        self._table.sort(self._columns[0][0].name, key=key, reverse=self._falling)

    def _summarise(self) -> None:
        """Find the best candidates, and sum up the visible rows."""
        everything = list(self._candidates)
        rows = [r for r in everything if self._shows(r)]
        tasks = list(dict.fromkeys(r.forecast.task for r in everything))
        best = {task: row for task in tasks if (row := self._candidates.best(task)) is not None}
        self.best = {row.number for row in best.values()}
        shown = list(dict.fromkeys(r.forecast.task for r in rows))
        parts = [
            f"{len(rows)} {'measured ' * self._only_measured}of {counted(len(everything), 'candidate')}"
            if len(rows) < len(everything)
            else counted(len(rows), "candidate"),
            *([] if self._only_measured else [f"{sum(r.measured is not None for r in rows)} measured"]),
        ]
        if len(shown) == 1 and (leader := best.get(shown[0])):
            parts.append(f"★ #{leader.number} {times(leader.speedup)}")
        if not self._in_order:
            parts.append(f"by {self._column.name} {'↓' if self._falling else '↑'}")
        parts.append(shown[0] if len(shown) == 1 else f"{len(shown)} tasks")
        told = [" · ".join(parts), *([OFF_BY] if any(r.surprise is not None for r in rows) else [])]
        self._summary.update("\n".join(told) if everything else EMPTY)
        self._table.display = bool(everything)


def _aligned(text: Text, column: Column, width: int) -> Text:
    """Return a text in the width of its column, with blanks after it."""
    text.truncate(width, overflow="ellipsis")
    text.align("right" if column.number else "left", width)
    text.pad_right(GAP)
    return text
