"""Numbers, calls and candidates in few words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from textual.content import Content

from forewarp.agent.tui.columns import SURPRISING, sigmas, times, within
from forewarp.agent.tui.printable import assemble
from forewarp.tools.steps import CandidateForecast, CandidateMeasured

_SHORT = 60
_BODY_LINES = 400
_GOOD = {"faster": "$text-success", "slower": "$text-warning"}
_PATHS = ("task", "path", "kernel", "command", "query", "pattern")


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


def dollars(d: float) -> str:
    """Return a price; fractions of a cent only where there is no more than that."""
    return f"${d:.2f}" if d >= 0.1 or d == 0 else f"${d:.4f}"


def one_line(text: str, most: int = _SHORT) -> str:
    """Return the text without line ends, cut to `most` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def arguments(given: Mapping[str, Any]) -> str:
    """Return a call's arguments: what names something by its value, the rest by name, sources by their length."""
    words: list[str] = []
    for name, value in given.items():
        if value is None or value == {} or value == []:
            continue
        if isinstance(value, str) and ("\n" in value or len(value) > 2 * _SHORT):
            words.append(f"{name}: {value.count(chr(10)) + 1} lines")
        elif name in _PATHS:
            words.append(one_line(str(value)))
        else:
            words.append(f"{name}={one_line(value if isinstance(value, str) else json.dumps(value), 40)}")
    return ", ".join(words)


def body(given: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """Return a call and its result in full, up to some hundred lines each."""
    parts = [_block(f"{name}:", value) for name, value in given.items() if value is not None]
    if result:
        parts.append(_block("→", dict(result)))
    return "\n".join(parts)


def _block(name: str, value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)
    lines = text.splitlines() or [""]
    if len(lines) > _BODY_LINES:
        lines = [*lines[:_BODY_LINES], f"… {len(lines) - _BODY_LINES} more lines"]
    return f"{name} {lines[0]}" if len(lines) == 1 else "\n".join([name, *(f"  {line}" for line in lines)])


Pair = tuple[CandidateForecast | None, CandidateMeasured]


def candidates(rows: Sequence[Pair], width: int = 0) -> list[Content]:
    """Return measured candidates as one line each, their forecasts beside them; in fewer words if `width` is short."""
    forms = [[_candidate(f, m, words) for f, m in rows] for words in (2, 1, 0)]
    return next((form for form in forms if not width or all(c.cell_length <= width for c in form)), forms[-1])


def _candidate(f: CandidateForecast | None, m: CandidateMeasured, words: int) -> Content:
    """Return a measured candidate as one line: `words` 2 has labels, 1 has none, 0 has no intervals either."""
    expected = "no forecast"
    if f is not None and f.median is not None:
        expected = within(f.median, f.low, f.high) if words else times(f.median)
        expected = f"forecast {expected}" if words > 1 else expected
    came = "replayed " if m.provenance == "replay" else "measured " if words > 1 else ""
    name = ("kernel " if words > 1 else "", "dim")
    parts: list[str | tuple[str, str]] = [name, f"{m.kernel[:6]} ", (expected, "dim")]
    parts += [(" → ", "dim"), (came, "dim")]
    if m.speedup is None:
        parts.append((m.verdict, "$text-error"))
        if m.status and m.status != m.verdict:
            parts.append((f" ({m.status})", "dim"))
    else:
        reached = within(m.speedup, m.low, m.high) if words else times(m.speedup)
        parts += [(reached, "bold"), " ", (m.verdict, _GOOD.get(m.verdict, "dim"))]
    if m.surprise is not None:
        surprising = abs(m.surprise) > SURPRISING
        parts.append((f" ({sigmas(m.surprise)})", "$text-warning" if surprising else "dim"))
    if not m.trusted:
        parts.append((f" untrusted{': ' if m.flags else ''}{', '.join(m.flags)}", "$text-warning"))
    return assemble(*parts)
