"""Numbers in few characters."""

from __future__ import annotations

import re
from typing import Literal

from forewarp.agent.candidates import ListedCandidate
from forewarp.tools.wording import chance

SURPRISING = 2.0
"""Standard deviations from which on a measurement counts as surprising."""

NONE = "–"

Tone = Literal["", "success", "error", "warning", "accent", "dim"]
"""What a verdict means, as the name of a colour of the theme; nothing is told by colour alone."""

_TONES: dict[str, Tone] = {
    "faster": "success",
    "slower": "error",
    "failed": "error",
    "incorrect": "error",
    "suspicious": "accent",
    "impossible": "accent",
    "ambiguous": "warning",
    "inconclusive": "warning",
}


def seconds(s: float) -> str:
    """Return a duration in at most six characters."""
    if s < 10:
        return f"{s:.1f} s"
    if s < 100:
        return f"{s:.0f} s"
    minutes, rest = divmod(round(s), 60)
    return f"{minutes}m{rest:02d}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}m"


def amount(n: int) -> str:
    """Return a count of tokens in at most five characters."""
    if n < 1000:
        return str(n)
    return f"{n / 1000:.1f}k" if n < 99_950 else f"{n / 1000:.0f}k" if n < 999_500 else f"{n / 1e6:.1f}M"


def cut(text: str, most: int) -> str:
    """Return the text without line ends, cut to `most` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def fitting(label: str, most: int) -> str:
    """Return what a candidate is in at most so many characters; names of tunables are shortened before it is cut."""
    names = re.compile(r"\w+(?==)")
    for letters in range(max(map(len, names.findall(label)), default=0) - 1, 1, -1):
        short = re.sub(rf"([^\W_]{{{letters}}})[^\W_]+(?=\w*=)", r"\1", label)  # of each part of a name
        if len(label) <= most or len(set(names.findall(short))) < len(names.findall(label)):
            break
        label = short
    return cut(label, most)


def times(ratio: float | None) -> str:
    """Return a speed-up in at most six characters."""
    if ratio is None:
        return NONE
    digits = 2 if ratio < 9.995 else 1 if ratio < 99.95 else 0
    return f"{ratio:.{digits}f}×" if ratio >= 0.005 else f"{ratio:.0e}×"


def within(ratio: float | None, low: float | None, high: float | None) -> str:
    if ratio is None or low is None or high is None:
        return times(ratio)
    return f"{times(ratio)} [{times(low)[:-1]}, {times(high)[:-1]}]"


def share(p: float | None) -> str:
    """Return a probability in per cent; none is a certainty."""
    return NONE if p is None else chance(p)


def sigmas(surprise: float | None) -> str:
    return NONE if surprise is None else f"{surprise:+z.1f}σ"


def verdict(row: ListedCandidate) -> str:
    """Return the verdict of a measurement, the status where it failed; "" before it."""
    m = row.measured
    return "" if m is None else m.status if m.verdict == "failed" else m.verdict


def tone(row: ListedCandidate) -> Tone:
    return _TONES.get(row.measured.verdict, "") if row.measured else "dim"
