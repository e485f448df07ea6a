"""Numbers and consoles, as people see them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from forewarp.tools.measured import Micros
    from forewarp.tools.parts import Amounts, Interval, Price

_COLOURS = {
    "faster": "green",
    "ok": "green",
    "finished": "green",
    "measure": "green",
    "accept": "green",
    "slower": "red",
    "failed": "red",
    "incorrect": "red",
    "ambiguous": "yellow",
    "suspicious": "magenta",
    "impossible": "magenta",
    "interrupted": "yellow",
    "running": "cyan",
}


def stdout() -> Console:
    """Return the console for results; wide enough for tables where the output is a file."""
    return _console(stderr=False)


def stderr() -> Console:
    """Return the console for everything else."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    # Kernel names, logs and intervals hold brackets, which are no markup.
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else 120
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False, width=width)


def colour(word: str) -> str:
    """Return the colour of a status or verdict."""
    return _COLOURS.get(word, "")


def speedup(value: Interval | None) -> str:
    """Return a speed-up with its interval."""
    return "–" if value is None else f"{value.ratio:.3g}× [{value.low:.3g}, {value.high:.3g}]"


def micros(value: Micros) -> str:
    """Return a time with its interval."""
    if value.low is None or value.high is None:
        return f"{_number(value.median)} µs [too few samples]"
    return f"{_number(value.median)} µs [{_number(value.low)}, {_number(value.high)}]"


def microseconds(value: Micros) -> str:
    """Return a time with its interval, for a column whose head names the unit."""
    return micros(value).replace(" µs", "")


def _number(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"


def price(cost: Price) -> str:
    """Return what an answer of a language model cost, in brackets; "" where none was asked."""
    if not cost.input_tokens + cost.output_tokens:
        return ""
    return " ($ unknown)" if cost.dollars is None else f" (${cost.dollars:.2f})"


def amounts(spent: Amounts, limit: Amounts) -> str:
    """Return what was spent of what, leaving out what is neither spent nor capped."""
    parts = [
        _amount("{} measurements", spent.measurements or 0, limit.measurements),
        _amount("{:.1f} s of device", spent.device_s or 0.0, limit.device_s),
        _amount("${:.3f}", spent.dollars or 0.0, limit.dollars),
        _amount("{} tokens", spent.tokens or 0, limit.tokens),
        _amount("{:.0f} s", spent.wall_s or 0.0, limit.wall_s),
    ]
    return " · ".join(p for p in parts if p)


def _amount(form: str, spent: float, limit: float | None) -> str:
    if not spent and limit is None:
        return ""
    said = form.format(spent)
    return said if limit is None else f"{said} of {limit:g}"
