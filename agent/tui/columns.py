"""The columns of the candidates' table: what each shows, how it sorts, and which give way where it is narrow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from forewarp.agent.candidates import CandidateRow

Tone = Literal["", "won", "lost", "doubt", "odd", "faint"]
"""Colour class of a cell; nothing is told by colour alone."""

SURPRISING = 2.0
"""Standard deviations from which on a measurement counts as surprising."""

GAP = 2
NONE = "–"
_TONES: Mapping[str, Tone] = {
    "faster": "won",
    "slower": "lost",
    "failed": "lost",
    "incorrect": "lost",
    "suspicious": "odd",
    "impossible": "odd",
    "ambiguous": "doubt",
    "inconclusive": "doubt",
}

Key = str | float | None
Cell = Callable[[CandidateRow, int], tuple[str, Tone]]


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `widths` are those it can have, in characters, the narrowest first; `cell` knows which it was given.

    `key` is what it sorts by, None for what stands last either way; `falling` whether the largest comes first.
    """

    name: str
    title: str
    widths: tuple[int, ...]
    cell: Cell
    key: Callable[[CandidateRow], Key]
    falling: bool = False
    right: bool = False


def verdict(row: CandidateRow) -> str:
    """Return the verdict of a measurement, the status where it failed; "" before it."""
    m = row.measured
    if m is None:
        return ""
    return m.status if m.verdict == "failed" else m.verdict


def times(ratio: float | None) -> str:
    """Return a speed-up in at most six characters."""
    if ratio is None:
        return NONE
    digits = 2 if ratio < 9.995 else 1 if ratio < 99.95 else 0
    return f"{ratio:.{digits}f}×" if ratio >= 0.005 else f"{ratio:.0e}×"


def within(ratio: float | None, low: float | None, high: float | None) -> str:
    """Return a speed-up with its interval."""
    if ratio is None or low is None or high is None:
        return times(ratio)
    return f"{times(ratio)} [{times(low)[:-1]}, {times(high)[:-1]}]"


def share(p: float | None) -> str:
    """Return a probability in per cent."""
    return NONE if p is None else f"{p:.0%}"


def sigmas(surprise: float | None) -> str:
    """Return how many standard deviations a measurement lies from its forecast."""
    return NONE if surprise is None else f"{surprise:+.1f}σ"


def tone(row: CandidateRow) -> Tone:
    """Return the tone of a row's verdict."""
    return _TONES.get(row.measured.verdict, "") if row.measured else "faint"


def _forecast(row: CandidateRow, width: int) -> tuple[str, Tone]:
    f = row.expected
    text = within(f.median, f.low, f.high) if width > _SHORT else times(f.median)
    return text, "" if f.median is not None else "faint"


def _measured(row: CandidateRow, width: int) -> tuple[str, Tone]:
    m = row.measured
    if m is None or m.speedup is None:
        return NONE, "faint"
    return (within(m.speedup, m.low, m.high) if width > _SHORT else times(m.speedup)), tone(row)


def _surprise(row: CandidateRow, _: int) -> tuple[str, Tone]:
    found = row.measured.surprise if row.measured else None
    if found is None:
        return "", ""
    return sigmas(found), "odd" if abs(found) > SURPRISING else ""


def _device(row: CandidateRow, _: int) -> tuple[str, Tone]:
    m = row.measured
    return f"{m.device_s:.1f}" if m else "", "faint"


def _advice(row: CandidateRow, _: int) -> tuple[str, Tone]:
    advice = row.forecast.advice
    return advice or NONE, "faint" if advice in ("skip", "reject", "") else ""


def _off(row: CandidateRow) -> Key:
    found = row.measured.surprise if row.measured else None
    return None if found is None else abs(found)


def _words(name: str, title: str, widths: tuple[int, ...], of: Callable[[CandidateRow], str]) -> Column:
    return Column(name, title, widths, lambda row, _: (of(row) or NONE, "faint"), lambda row: of(row) or None)


def _probability(name: str, title: str, of: Callable[[CandidateRow], float | None]) -> Column:
    def cell(row: CandidateRow, _: int) -> tuple[str, Tone]:
        p = of(row)
        return share(p), "faint" if p is None else ""

    return _number(name, title, (5,), cell, of)


def _number(name: str, title: str, widths: tuple[int, ...], cell: Cell, key: Callable[[CandidateRow], Key]) -> Column:
    return Column(name, title, widths, cell, key, falling=True, right=True)


_SHORT, _WIDE = 8, 18

COLUMNS: tuple[Column, ...] = (
    Column("number", "#", (4,), lambda r, _: (str(r.number), ""), lambda r: r.number, right=True),
    _words("kernel", "kernel", (7,), lambda r: r.forecast.kernel[:7]),
    _words("task", "task", (12, 20), lambda r: r.forecast.task),
    _words("language", "lang", (6,), lambda r: r.forecast.language),
    _words("origin", "origin", (8,), lambda r: r.forecast.origin),
    _number("forecast", "forecast", (_SHORT, _WIDE), _forecast, lambda r: r.expected.median),
    _probability("correct", "P(ok)", lambda r: r.expected.p_valid),
    _probability("confidence", "conf", lambda r: r.expected.confidence),
    Column("advice", "advice", (7,), _advice, lambda r: r.forecast.advice or None),
    _number("measured", "measured", (_SHORT, _WIDE), _measured, lambda r: r.measured.speedup if r.measured else None),
    Column("verdict", "verdict", (9, 13), lambda r, _: (verdict(r), tone(r)), lambda r: verdict(r) or None),
    _number("surprise", "off by", (6,), _surprise, _off),
    _number("device", "dev s", (6,), _device, lambda r: r.measured.device_s if r.measured else None),
)
BY_NAME: Mapping[str, Column] = {c.name: c for c in COLUMNS}

_WANTED = (
    ("number", 0),
    ("measured", 0),
    ("forecast", 0),
    ("verdict", 0),
    ("surprise", 0),
    ("measured", 1),
    ("forecast", 1),
    ("verdict", 1),
    ("correct", 0),
    ("advice", 0),
    ("kernel", 0),
    ("task", 0),
    ("origin", 0),
    ("confidence", 0),
    ("language", 0),
    ("device", 0),
    ("task", 1),
)
"""Columns by priority, the most wanted first, each with the index of its width."""


def fit(width: int, left_out: Sequence[str] = ()) -> list[tuple[Column, int]]:
    """Return the columns that fit into so many characters, in order, with the width of each."""
    taken: dict[str, int] = {}
    used = -GAP
    for name, place in _WANTED:
        if name in left_out or (place and name not in taken):
            continue
        wanted = BY_NAME[name].widths[place]
        more = wanted - taken[name] if name in taken else wanted + GAP
        if used + more > width:
            if name not in taken:
                break
            continue
        taken[name] = wanted
        used += more
    return [(c, taken[c.name]) for c in COLUMNS if c.name in taken]


def arranged(rows: Sequence[CandidateRow], column: Column, *, falling: bool) -> list[CandidateRow]:
    """Return rows sorted by a column; those without a value stand last, equal ones in the order of appearance."""
    known = [r for r in rows if column.key(r) is not None]
    unknown = [r for r in rows if column.key(r) is None]

    def key(row: CandidateRow) -> tuple[float, str]:
        found = column.key(row)
        return (0.0, found) if isinstance(found, str) else (found or 0.0, "")

    return sorted(known, key=key, reverse=falling) + unknown
