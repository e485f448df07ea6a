"""The live view of a run on stderr: one panel on a terminal, a line per measurement elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from forewarp.archive.rows import REJECTED
from forewarp.core.budget import CURRENCIES, Spend
from forewarp.report.tally import Tally
from forewarp.search import events
from forewarp.tools import wording
from forewarp.tools.parts import Price
from forewarp.tools.wording import clock

REFRESHES_PER_S = 4
NARROWEST = 60
_SPEND_EVERY_S = 0.5
_LEVELS = "▁▂▃▄▅▆▇█"
_NAMES = {
    "measurements": "measured",
    "device_s": "device",
    "dollars": "dollars",
    "tokens": "tokens",
    "wall_s": "wall time",
}


@contextmanager
def shown_live(
    console: Console,
    *,
    quiet: bool = False,
    plain: bool = False,
    tally: Tally | None = None,
    spend: Callable[[], Spend] | None = None,
) -> Generator[Callable[[events.Event], None]]:
    """Show a run while it goes; yields what takes the events.

    A terminal shows one panel, at most four times a second; `plain`, a terminal that cannot move its cursor, one that
    is too narrow, and anything that is no terminal get lines. `quiet` shows nothing. `spend` reads what is spent.
    """
    tally = tally or Tally()
    if quiet or not drawable(console, plain=plain):

        def log(event: events.Event) -> None:
            line = tally.see(event)
            if line and not quiet:
                console.print(line, soft_wrap=True)

        yield log
        return
    asked = 0.0

    def see(event: events.Event) -> None:
        nonlocal asked
        tally.see(event)
        if spend is not None and time.monotonic() - asked > _SPEND_EVERY_S:
            tally.spend, asked = spend(), time.monotonic()

    with redrawn(console, lambda: panel(tally, console.width)):
        yield see


def drawable(console: Console, *, plain: bool) -> bool:
    """Return whether a view can be drawn in place; elsewhere, and where `plain` is asked for, there are lines."""
    return console.is_terminal and not console.is_dumb_terminal and console.width >= NARROWEST and not plain


def redrawn(console: Console, view: Callable[[], RenderableType]) -> Live:
    """Return the context in which a view is drawn again and again, and gone after it."""
    # Standard output is the caller's: rich would send it to this console.
    return Live(
        get_renderable=view, console=console, refresh_per_second=REFRESHES_PER_S, transient=True, redirect_stdout=False
    )


def panel(tally: Tally, width: int = 80) -> RenderableType:
    """Return the live view for a terminal of so many columns."""
    inner = max(20, width - 4)
    lines = [
        _incumbent(tally),
        _curve(tally, inner),
        Text(f"now   {tally.doing()}"),
        _counts(tally),
        _tiers(tally),
        *_caps(tally, inner),
        *(Text(f"{'last  ' if not i else '      '}{said}") for i, said in enumerate((*tally.chosen, *tally.skipped))),
        *(Text(f"!     {said}", style="yellow") for said in tally.warnings),
    ]
    body = Text("\n").join(lines)
    body.no_wrap, body.overflow = True, "ellipsis"
    return Panel(
        body,
        title=Text(tally.title or "starting", overflow="ellipsis"),
        title_align="left",
        subtitle=Text(tally.run),
        subtitle_align="right",
        width=width,
    )


def _incumbent(tally: Tally) -> Text:
    text = Text("best  ")
    text.append(wording.speedup(tally.best), style="bold green" if tally.best and tally.best.low > 1 else "bold")
    return text.append(f"  {tally.best_kernel[:10]} {tally.tunables.get(tally.best_kernel, '')}".rstrip())


def _curve(tally: Tally, width: int) -> Text:
    """Return the best so far over the budget, as one line of bars; what is still to come are dots."""
    text = Text("      ")
    share = tally.share()
    ends = f"  {share:.0%} of the budget"
    room = max(10, width - len(text) - len(ends))
    done = round(share * room)
    text.append(sparkline(tally.curve, done, share), style="green")
    return text.append("·" * (room - done), style="dim").append(ends, style="dim")


def sparkline(curve: Sequence[tuple[float, float]], width: int, until: float) -> str:
    """Return the last value at each of `width` places from 0 to `until`, as bars; blanks before the first value."""
    values = [v for _, v in curve]
    low, high = min(values, default=0.0), max(values, default=0.0)
    found: list[str] = []
    for place in range(width):
        here = (place + 1) / width * until
        seen = [v for at, v in curve if at <= here + 1e-9]
        if not seen:
            found.append(" ")
        elif high == low:
            found.append(_LEVELS[3])
        else:
            found.append(_LEVELS[round((seen[-1] - low) / (high - low) * (len(_LEVELS) - 1))])
    return "".join(found)


def _counts(tally: Tally) -> Text:
    c = tally.counts
    dropped = sum(c[outcome] for outcome in REJECTED)
    parts = [f"{c['proposed']} proposed", f"{c['passed']} passed the gate" + (f", {dropped} not" if dropped else "")]
    parts.append(f"{c['measured'] + c['failed']} measured" + (f", {c['failed']} failed" if c["failed"] else ""))
    return Text("      " + " → ".join(parts))


def _tiers(tally: Tally) -> Text:
    """Return who answered for how many candidates, the cheapest first, the device last."""
    parts = [f"{name} {count}{wording.price(Price.of(cost))}" for name, (count, cost) in tally.tiers.items()]
    return Text("tiers " + " · ".join([*parts, f"device {tally.counts['measured'] + tally.counts['failed']}"]))


def _caps(tally: Tally, width: int) -> list[Text]:
    """Return one line per cap, with a bar and the time until it is reached, and one for what is spent besides."""
    room = min(30, width - 54)
    lines: list[Text] = []
    free: list[str] = []
    for currency in CURRENCIES:
        cap, spent = getattr(tally.budget, currency), tally.spent(currency)
        if cap is None:
            if spent:
                free.append(f"{_NAMES[currency]} {_amount(currency, spent)}")
            continue
        share = min(1.0, spent / cap)
        full = round(share * room)
        left = tally.left(currency)
        line = Text("spend " if not lines else "      ").append(f"{_NAMES[currency]:<9} ")
        line.append("━" * full, style="red" if share >= 0.8 else "cyan").append("╌" * (room - full), style="dim")
        line.append(f" {_amount(currency, spent)} of {_amount(currency, cap)} {share:.0%}")
        lines.append(line.append(f", {clock(left)} to go" if left is not None else ""))
    if free:
        lines.append(Text("spend " if not lines else "      ").append(" · ".join(free), style="dim"))
    return lines


def _amount(currency: str, value: float) -> str:
    if currency == "dollars":
        return f"${value:.3f}" if value < 1 else f"${value:.2f}"
    return clock(value) if currency in ("device_s", "wall_s") else f"{value:,.0f}"
