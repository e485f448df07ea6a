"""Which pane is in sight: one line of names, and the panes beside the chat."""

from __future__ import annotations

from typing import Literal, cast, get_args

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widgets import ContentSwitcher, Static

from forewarp.agent.board import Board, Row
from forewarp.agent.tui.candidates import Candidates
from forewarp.agent.tui.plots import Plots
from forewarp.agent.tui.source import Source
from forewarp.tools.parts import Place

View = Literal["chat", "candidates", "source", "plots"]
VIEWS: tuple[View, ...] = get_args(View)
KEYS: dict[View, str] = {view: f"f{n}" for n, view in enumerate(VIEWS, 2)}


class _Name(Static):
    """The name of a view; a click shows it."""

    class Clicked(Message):
        """The user wants this view."""

        def __init__(self, view: View) -> None:
            super().__init__()
            self.view: View = view

    def __init__(self, view: View) -> None:
        super().__init__(
            Content.assemble(view.capitalize(), (f" {KEYS[view].upper()}", "dim")),
            id=f"name-{view}",
            classes="name",
            markup=False,
        )
        self._view: View = view

    def on_click(self) -> None:
        """Ask for the view."""
        self.post_message(self.Clicked(self._view))


class Names(Horizontal):
    """The names of all views, the one in sight marked."""

    Clicked = _Name.Clicked

    def __init__(self, title: str, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._title = title

    def compose(self) -> ComposeResult:
        """Yield the title and the names."""
        yield Static(self._title, id="title", markup=False)
        for view in VIEWS:
            yield _Name(view)

    def mark(self, view: View) -> None:
        """Mark the view in sight."""
        for name in self.query(_Name):
            name.set_class(name.id == f"name-{view}", "-current")


class Panes(ContentSwitcher):
    """The panes; one of them is in sight."""

    def __init__(self, place: Place, *, id: str | None = None) -> None:
        super().__init__(id=id, initial="candidates")
        self._place = place
        self._board = Board()

    def compose(self) -> ComposeResult:
        """Yield the panes."""
        yield Candidates(id="candidates")
        yield Source(id="source")
        yield Plots(self._place, id="plots")

    @property
    def shown(self) -> View:
        """The pane in sight."""
        return cast("View", self.current or "candidates")

    @property
    def text(self) -> str:
        """The text of the candidate that is chosen, in full."""
        if self.current == "source" and self.query_one(Source).text:
            return self.query_one(Source).text
        row = self.query_one(Candidates).selected
        return row.forecast.source if row else ""

    def load(self, board: Board) -> None:
        """Show this board."""
        self._board = board
        self.query_one(Candidates).load(board)
        self.query_one(Plots).load(board)

    def refresh_row(self, row: Row) -> None:
        """Show what changed of a candidate."""
        self.query_one(Candidates).refresh_row(row)
        self.query_one(Plots).refresh_row(row)

    def choose(self, row: Row) -> None:
        """Show the text of a candidate."""
        best = self._board.best(row.forecast.task)
        self.query_one(Source).show(row, parent=self._board.parent(row), best=best)

    def show(self, view: View) -> None:
        """Bring a pane into sight and make it answer to keys."""
        self.current = view
        match view:
            case "candidates":
                self.query_one("Candidates > Table").focus()
            case "source":
                self.query_one(Source).focus()
            case _:
                self.query_one(Plots).focus()
