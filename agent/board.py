"""Table of a conversation's candidates, built from its events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from forewarp.agent.events import Event
from forewarp.tools.steps import CandidateForecast, CandidateMeasured


@dataclass(slots=True)
class BoardRow:
    """One candidate of one task. `number` is its place in the order of appearance, from 1.

    `forecast` is its latest forecast. `expected` is the best informed one of those before its first measurement, since
    later ones know the outcome. A search begins without the measurements before it, so that its forecast of a candidate
    may be worse than one that the user has seen by then.
    """

    number: int
    forecast: CandidateForecast
    expected: CandidateForecast
    measured: CandidateMeasured | None = None

    @property
    def won(self) -> bool:
        """True if it was measured as correct, with a trusted time and a clear verdict."""
        m = self.measured
        return m is not None and m.trusted and m.speedup is not None and m.verdict != "ambiguous"


class Board:
    """All candidates so far, in the order of appearance."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], BoardRow] = {}
        self._measured: dict[tuple[str, str], BoardRow] = {}

    def __iter__(self) -> Iterator[BoardRow]:
        return iter(self._rows.values())

    def __len__(self) -> int:
        return len(self._rows)

    def apply(self, event: Event) -> BoardRow | None:
        """Update the table from an event; return the row that changed, if any."""
        match event:
            case CandidateForecast():
                key = (event.task, event.kernel)
                row = self._rows.get(key)
                if row is None:
                    row = self._rows[key] = BoardRow(len(self._rows) + 1, event, event)
                else:
                    row.forecast = event
                    if row.measured is None and event.outweighs(row.expected):
                        row.expected = event
                return row
            case CandidateMeasured():
                key = (event.task, event.kernel)
                row = self._rows.get(key)
                if row is not None:
                    if row.expected.device != row.forecast.device:
                        row.expected = row.forecast
                    row.measured = event.against(row.expected)
                    self._measured.pop(key, None)
                    self._measured[key] = row
                return row
            case _:
                return None

    def of(self, event: CandidateForecast | CandidateMeasured) -> BoardRow | None:
        """Return the row of the candidate that an event is about."""
        return self._rows.get((event.task, event.kernel))

    def row(self, number: int) -> BoardRow | None:
        """Return the row with this number."""
        return next((r for r in self if r.number == number), None)

    def parent(self, row: BoardRow) -> BoardRow | None:
        """Return the row that a candidate was made from, if it is known."""
        return self._rows.get((row.forecast.task, row.forecast.parent)) if row.forecast.parent else None

    def measured(self, task: str = "") -> list[BoardRow]:
        """Return the measured rows, of one task or of all, in the order of measuring."""
        return [r for r in self._measured.values() if not task or r.forecast.task == task]

    def best(self, task: str = "") -> BoardRow | None:
        """Return the fastest correct candidate of a task; without a name, of the latest task."""
        rows = self.measured(task)
        if not rows:
            return None
        latest = rows[-1].forecast.task
        able = [r for r in rows if r.won and r.forecast.task == (task or latest)]
        return max(able, key=lambda r: (r.measured.speedup if r.measured else None) or 0.0, default=None)
