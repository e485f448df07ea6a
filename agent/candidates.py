"""Candidates of a conversation, each with its forecasts and its measurement, built from the events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from forewarp.tools.parts import shown
from forewarp.tools.steps import CandidateForecast, CandidateMeasured

if TYPE_CHECKING:
    from forewarp.agent.events import ConversationEvent
    from forewarp.core.values import Language


@dataclass(slots=True)
class ListedCandidate:
    """One candidate of one task. `number` is its place in the order of appearance, from 1; `label` what it is in words.

    `forecast` is its latest forecast. `expected` is the best informed one of those before its first measurement, since
    later ones know the outcome. A search begins without the measurements before it, so that its forecast of a candidate
    may be worse than one that the user has seen by then.
    """

    number: int
    forecast: CandidateForecast
    expected: CandidateForecast
    measured: CandidateMeasured | None = None
    before: tuple[CandidateMeasured, ...] = ()
    """Measurements before the latest one."""
    label: str = ""

    @property
    def speedup(self) -> float | None:
        return self.measured.speedup if self.measured else None

    @property
    def surprise(self) -> float | None:
        """Standard deviations from the forecast to the measurement, if both are known."""
        return self.measured.surprise if self.measured else None

    @property
    def is_valid(self) -> bool:
        """True if it was measured as correct, with a trusted time and a clear verdict."""
        m = self.measured
        return m is not None and m.trusted and m.speedup is not None and m.verdict != "ambiguous"

    @property
    def text(self) -> str:
        """Source with its tunables as the plan's defaults."""
        from forewarp.core.values import Candidate
        from forewarp.export.bake import bake

        f = self.forecast
        return bake(Candidate(f.source, cast("Language", f.language), f.tunables))


class Candidates:
    """All candidates so far, in the order of appearance."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], ListedCandidate] = {}
        self._measured: dict[tuple[str, str], ListedCandidate] = {}
        self._first: dict[tuple[str, str], ListedCandidate] = {}

    def __iter__(self) -> Iterator[ListedCandidate]:
        return iter(self._rows.values())

    def __len__(self) -> int:
        return len(self._rows)

    def apply(self, event: ConversationEvent) -> ListedCandidate | None:
        """Update the candidates from an event; return the row that changed, if any."""
        if not isinstance(event, CandidateForecast | CandidateMeasured):
            return None
        key = (event.task, event.kernel)
        row = self._rows.get(key)
        if isinstance(event, CandidateForecast):
            if row is None:
                row = self._rows[key] = ListedCandidate(len(self._rows) + 1, event, event)
                first = self._first.setdefault((event.task, event.source), row)
                row.label = _label(event, self.parent(row), first if first is not row else None)
            row.forecast = event
            if row.measured is None and event.outweighs(row.expected):
                row.expected = event
        elif row is not None:
            if row.expected.device != row.forecast.device:
                row.expected = row.forecast
            row.before += (row.measured,) if row.measured else ()
            row.measured = event.against(row.expected)
            self._measured.pop(key, None)
            self._measured[key] = row
        return row

    def of(self, event: CandidateForecast | CandidateMeasured) -> ListedCandidate | None:
        """Return the row of the candidate that an event is about."""
        return self._rows.get((event.task, event.kernel))

    def row(self, number: int) -> ListedCandidate | None:
        """Return the row with this number."""
        return next((r for r in self if r.number == number), None)

    def parent(self, row: ListedCandidate) -> ListedCandidate | None:
        """Return the row that a candidate was made from, if it is known."""
        return self._rows.get((row.forecast.task, row.forecast.parent)) if row.forecast.parent else None

    def measured(self, task: str = "") -> list[ListedCandidate]:
        """Return the measured rows, of one task or of all, in the order of measuring."""
        return [r for r in self._measured.values() if not task or r.forecast.task == task]

    def best(self, task: str = "") -> ListedCandidate | None:
        """Return the fastest correct candidate of a task; without a name, of the task measured last."""
        rows = self.measured(task)
        task = task or (rows[-1].forecast.task if rows else "")
        valid = (r for r in rows if r.is_valid and r.forecast.task == task)
        return max(valid, key=lambda r: r.speedup or 0.0, default=None)


def _label(f: CandidateForecast, parent: ListedCandidate | None, same_text: ListedCandidate | None) -> str:
    """Return what a candidate changes in its parent, else in the first one of the same text, else its language.

    The language stands there, too, where it is another one.
    """
    base = parent or same_text
    before = base.forecast if base is not None else None
    changed = {
        name: value for name, value in f.tunables.items() if before is None or before.tunables.get(name) != value
    }
    edited = before is not None and before.source != f.source
    words = ", ".join(filter(None, [f.note or ("new text" if edited else ""), shown(changed)]))
    language = "" if before is not None and before.language == f.language else f.language
    start = " ".join(filter(None, [language, f"#{base.number}:" if base is not None else ""]))
    return f"{start} {words or ('same text' if base is not None else '')}".strip()
