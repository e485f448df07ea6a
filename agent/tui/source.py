"""Pane with one candidate's text, or its diff against the parent or the best, and with what is known of it."""

from __future__ import annotations

from typing import ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, ScrollableContainer
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from forewarp.agent.candidates import ListedCandidate
from forewarp.agent.tui.markdown import candidate_difference, coloured, highlighted
from forewarp.agent.tui.printable import TextPart, assemble, styled
from forewarp.agent.tui.wording import SURPRISING, share, sigmas, tone, verdict, within
from forewarp.tools.parts import shown
from forewarp.tools.steps import CandidateForecast

SourceView = Literal["text", "parent", "best"]

EMPTY = "No candidate is chosen: choose one in the table by Enter."


class LineNumbers(Static):
    """Line numbers, which are not selected with the text."""

    ALLOW_SELECT = False


class SourcePane(Widget):
    """A pane with the candidate that `show` was given last. `text` is what is in it, for copying."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "diff('parent')", "diff to parent"),
        Binding("b", "diff('best')", "diff to best"),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._row: ListedCandidate | None = None
        self._others: dict[SourceView, ListedCandidate | None] = {}
        self._shown: SourceView = "text"
        self.text = ""

    def compose(self) -> ComposeResult:
        self._header = Static(styled(EMPTY, "dim"), id="source-head", markup=False)
        self._numbers = LineNumbers("", id="source-numbers", markup=False)
        self._body = Static("", id="source-text", markup=False)
        self._scroll = ScrollableContainer(Horizontal(self._numbers, self._body))
        yield from (self._header, self._scroll)

    def show(
        self, row: ListedCandidate, parent: ListedCandidate | None = None, best: ListedCandidate | None = None
    ) -> None:
        """Show a candidate; `parent` is what it was made from and `best` the fastest of its task, if known."""
        if self._row is None or row.number != self._row.number:
            self._scroll.scroll_home(animate=False)
        self._row, self._others = row, {"parent": parent, "best": best}
        self._draw(row)

    def action_diff(self, against: SourceView) -> None:
        self._shown = "text" if self._shown == against else against
        self._scroll.scroll_home(animate=False)
        if self._row is not None:
            self._draw(self._row)

    def focus(self, scroll_visible: bool = True) -> SourcePane:
        self._scroll.focus(scroll_visible)
        return self

    def _draw(self, row: ListedCandidate) -> None:
        is_text = self._shown == "text"
        self.text = row.forecast.source if is_text else self._difference(row)
        count = len(self.text.splitlines()) if is_text else 0
        self._header.update(self._head(row))
        self._numbers.update("\n".join(map(str, range(1, count + 1))))
        drawn = highlighted(self.text, row.forecast.language) if is_text else coloured(self.text)
        self._body.update(drawn)

    def _difference(self, row: ListedCandidate) -> str:
        other = self._others[self._shown]
        if other is None:
            missing = "nobody knows what this was made from" if self._shown == "parent" else "nothing is the best yet"
            return f"No difference to show: {missing}."
        if other.number == row.number:
            return "This is the best so far."
        return candidate_difference(row, other) or f"The same text and tunables as #{other.number}."

    def _head(self, row: ListedCandidate) -> Content:
        f, e, m = row.forecast, row.expected, row.measured
        parent, best = self._others["parent"], self._others["best"]
        star = "★ " if best is not None and best.number == row.number else ""
        names = [f.kernel[:10], f.task, f.language, shown(f.tunables), f"from #{parent.number}" if parent else ""]
        names.append(f"by {f.origin}")
        lines = [assemble((f"{star}#{row.number}", "bold"), " ", (" · ".join(filter(None, names)), "dim"))]
        if f.median is None or (f.median, f.low, f.high, f.p_valid) == (e.median, e.low, e.high, e.p_valid):
            lines.append(assemble(("forecast ", "dim"), *_forecast(e)))
        else:
            for title, each in (("forecast ", e), ("latest   ", f)):
                trials = "" if each.trials is None else f", trials known: {each.trials}"
                lines.append(assemble((title, "dim"), *_forecast(each), (f" · {each.origin}{trials}", "dim")))
        if m is not None:
            label = "replayed " if m.provenance == "replay" else "measured "
            lines.append(assemble((label, "dim"), *_measured(row)))
            lines += [styled(f"flags    {', '.join(m.flags)}", "$text-accent")] if m.flags else []
        if f.advice:
            lines.append(assemble(("advice   ", "dim"), f.advice, (f" · {f.reason}" if f.reason else "", "dim")))
        return Content("\n").join(lines)


def _forecast(f: CandidateForecast) -> list[TextPart]:
    if f.median is None:
        return ["none"]
    chances = {"P(ok)": f.p_valid, "P(better)": f.p_better, "conf": f.confidence}
    words = [f" · {name} {share(p)}" for name, p in chances.items() if p is not None]
    return [within(f.median, f.low, f.high), (" 80 %", "dim"), *words]


def _measured(row: ListedCandidate) -> list[TextPart]:
    m, mark = row.measured, tone(row)
    if m is None:
        return []
    parts: list[TextPart] = []
    if m.speedup is not None:
        parts += [within(m.speedup, m.low, m.high), (" 95 %", "dim"), " · "]
    parts.append((verdict(row), f"$text-{mark}" if mark not in ("", "dim") else mark))
    if m.surprise is not None:
        parts += [" · off by ", (sigmas(m.surprise), "bold $text-accent" if abs(m.surprise) > SURPRISING else "")]
    return parts
