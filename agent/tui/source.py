"""Pane with one candidate's text, or its diff against the parent or the best, and with what is known of it."""

from __future__ import annotations

from typing import ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, ScrollableContainer
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from forewarp.agent.candidates import CandidateRow
from forewarp.agent.tui import code
from forewarp.agent.tui.columns import SURPRISING, share, sigmas, tone, verdict, within
from forewarp.agent.tui.printable import assemble, styled
from forewarp.tools.steps import CandidateForecast

Shown = Literal["text", "parent", "best"]

EMPTY = "No candidate is chosen: choose one in the table by Enter."
_COLOURS = {"won": "$text-success", "lost": "$text-error", "doubt": "$text-warning", "odd": "$text-accent"}


class _Lines(ScrollableContainer):
    """Scrolling part: line numbers beside the text."""

    DEFAULT_CSS = """
    _Lines {
        background: $surface;
        scrollbar-size: 1 1;
        scrollbar-background: $surface;
        scrollbar-color: $secondary 50%;
        scrollbar-corner-color: $surface;
    }
    _Lines > Horizontal { width: auto; height: auto; }
    _Lines #source-numbers { width: auto; padding: 0 1 0 2; text-style: dim; text-align: right; }
    _Lines #source-text { width: auto; text-wrap: nowrap; padding: 0 2 0 0; }
    """


class _Numbers(Static):
    ALLOW_SELECT = False


class Source(Widget):
    """A pane with the candidate that `show` was given last. `text` is what is in it, for copying."""

    DEFAULT_CSS = """
    Source { layout: vertical; height: 1fr; }
    Source > #source-head { height: auto; max-height: 8; padding: 0 1 0 2; }
    Source > _Lines { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "diff('parent')", "diff to parent"),
        Binding("b", "diff('best')", "diff to best"),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._row: CandidateRow | None = None
        self._others: dict[Shown, CandidateRow | None] = {}
        self._shown: Shown = "text"
        self.text = ""

    def compose(self) -> ComposeResult:
        """Yield the head and the lines."""
        yield Static(styled(EMPTY, "dim"), id="source-head", markup=False)
        with _Lines(), Horizontal():
            yield _Numbers("", id="source-numbers", markup=False)
            yield Static("", id="source-text", markup=False)

    def show(
        self, row: CandidateRow | None, parent: CandidateRow | None = None, best: CandidateRow | None = None
    ) -> None:
        """Show a candidate; `parent` is what it was made from and `best` the fastest of its task, if known."""
        if row is None or self._row is None or row.number != self._row.number:
            self.query_one(_Lines).scroll_home(animate=False)
        self._row, self._others = row, {"parent": parent, "best": best}
        self._fill()

    def action_diff(self, against: Shown) -> None:
        """Show the difference to the parent or the best, or the text again."""
        self._shown = "text" if self._shown == against else against
        self.query_one(_Lines).scroll_home(animate=False)
        self._fill()

    def focus(self, scroll_visible: bool = True) -> Source:
        """Focus the part that scrolls."""
        self.query_one(_Lines).focus(scroll_visible)
        return self

    def _fill(self) -> None:
        head, numbers = self.query_one("#source-head", Static), self.query_one("#source-numbers", Static)
        body = self.query_one("#source-text", Static)
        row = self._row
        if row is None:
            self.text = ""
            head.update(styled(EMPTY, "dim"))
            numbers.update("")
            body.update("")
            return
        head.update(self._head(row))
        if self._shown == "text":
            self.text = row.forecast.source
            numbers.update("\n".join(str(n) for n in range(1, len(self.text.splitlines()) + 1)))
            body.update(code.highlighted(self.text, row.forecast.language))
        else:
            self.text = self._difference(row)
            numbers.update("")
            body.update(code.coloured(self.text))

    def _difference(self, row: CandidateRow) -> str:
        other = self._others[self._shown]
        if other is None:
            missing = "nobody knows what this was made from" if self._shown == "parent" else "nothing is the best yet"
            return f"No difference to show: {missing}."
        if other.number == row.number:
            return "This is the best so far."
        return code.changes(row, other) or f"The same text and tunables as #{other.number}."

    def _head(self, row: CandidateRow) -> Content:
        f, m = row.forecast, row.measured
        parent, best = self._others["parent"], self._others["best"]
        names = [f.kernel[:10], f.task, f.language, *(f"{k}={v}" for k, v in f.tunables.items())]
        names += [f"from #{parent.number}"] if parent else []
        names.append(f"by {f.origin}")
        leads = best is not None and best.number == row.number
        lines = [
            assemble((f"{'★ ' * leads}#{row.number}", "bold"), " ", (" · ".join(names), "dim")),
            *self._forecasts(row.expected, f),
        ]
        if m is not None:
            lines.append(assemble(("measured ", "dim"), *self._measured(row)))
        if m is not None and m.flags:
            lines.append(styled(f"flags    {', '.join(m.flags)}", "$text-accent"))
        if f.reason:
            lines.append(styled(f.reason, "dim"))
        return Content("\n").join(lines)

    def _forecasts(self, expected: CandidateForecast, latest: CandidateForecast) -> list[Content]:
        """Return lines for the expected forecast and, if it differs, for the latest one, each labelled."""
        if latest.median is None or _numbers(latest) == _numbers(expected):
            return [assemble(("forecast ", "dim"), *self._forecast(expected))]
        return [
            assemble((title, "dim"), *self._forecast(f), (_basis(f), "dim"))
            for title, f in (("forecast ", expected), ("latest   ", latest))
        ]

    def _forecast(self, f: CandidateForecast) -> list[str | tuple[str, str]]:
        if f.median is None:
            return [f.advice or "none"]
        chances = {"P(ok)": f.p_valid, "P(better)": f.p_better, "conf": f.confidence}
        said = [*(f"{name} {share(p)}" for name, p in chances.items() if p is not None), f.advice]
        return [within(f.median, f.low, f.high), (" 80 %", "dim"), " · " + " · ".join(s for s in said if s)]

    def _measured(self, row: CandidateRow) -> list[str | tuple[str, str]]:
        m = row.measured
        if m is None:
            return []
        parts: list[str | tuple[str, str]] = []
        if m.speedup is not None:
            parts += [within(m.speedup, m.low, m.high), (" 95 %", "dim"), " · "]
        parts.append((verdict(row), _COLOURS.get(tone(row), "")))
        if m.surprise is not None:
            parts += [" · ", (sigmas(m.surprise), "bold $text-accent" if abs(m.surprise) > SURPRISING else "")]
        if m.provenance == "replay":
            parts.append((" · replay", "dim"))
        return parts


def _numbers(f: CandidateForecast) -> tuple[float | None, ...]:
    return f.median, f.low, f.high, f.p_valid


def _basis(f: CandidateForecast) -> str:
    return f" · {f.origin}" if f.trials is None else f" · {f.origin}, trials known: {f.trials}"
