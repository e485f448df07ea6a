"""Numbers as people read them, the same in every face."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forewarp.search.account import Account, AccountLine
    from forewarp.tools.measured import DeviceState, Micros, WorkloadResult
    from forewarp.tools.parts import Amounts, Interval, Price

NOTICED = 0.15
"""Processors that something else keeps busy, from which on it is said: they are counted in hundredths of a second."""


def speedup(value: Interval | None) -> str:
    return "–" if value is None else str(value)


def spread(ratio: float | None, low: float | None, high: float | None) -> str:
    """Return a speed-up with its interval from their parts, as far as they are known."""
    from forewarp.tools.parts import Interval, rounded

    if ratio is None:
        return speedup(None)
    return f"{rounded(ratio)}×" if low is None or high is None else str(Interval(ratio=ratio, low=low, high=high))


def chance(p: float) -> str:
    """Return a forecast's probability in percent; what rounds to 0 or 100 % is no certainty."""
    return f"{p:.0%}" if 0.005 <= p <= 0.995 else "> 99%" if p > 0.5 else "< 1%"


def noise(percent: float | None) -> str:
    """Return how far apart equal kernels came out; "" where that is not known."""
    from forewarp.tools.parts import rounded

    return "" if percent is None else f"±{rounded(percent, 2)} %"


def slower(ratio: Interval) -> str:
    """Return a ratio of times as how much slower it is, with its interval, in percent."""
    centre, low, high = (change(v) for v in (ratio.ratio, ratio.low, ratio.high))
    return f"{centre} % [{low}, {high}]"


def change(ratio: float) -> str:
    """Return by how many percent something has changed, with its sign and two digits: -35, +0.12, +1,200."""
    from forewarp.tools.parts import rounded

    return f"{'+' * (ratio >= 1)}{rounded(100 * (ratio - 1), 2)}"


def counted(count: int, what: str) -> str:
    """Return "1 kernel", "2 kernels"."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def clock(seconds: float) -> str:
    if seconds < 99.5:
        return f"{seconds:.0f} s" if seconds >= 9.95 or not seconds else f"{seconds:.2g} s"
    return f"{seconds / 60:.1f} min" if seconds < 5970 else f"{seconds / 3600:.1f} h"


def microseconds(value: Micros) -> str:
    """Return a time with its interval, for a column whose head names the unit."""

    def number(us: float) -> str:
        return f"{us:.3g}" if us < 100 else f"{us:,.0f}"

    if value.low is None or value.high is None:
        return f"{number(value.median)} [too few samples]"
    return f"{number(value.median)} [{number(value.low)}, {number(value.high)}]"


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


def device_line(device: DeviceState | None, workloads: Sequence[WorkloadResult] = ()) -> str:
    """Return the state of the device beside a measurement; "" where nothing is known of it."""
    if device is None:
        return ""
    parts: list[str] = []
    if device.temperature_c is not None:
        before = device.temperature_before_c
        parts.append(f"{device.temperature_c:.0f} °C" + (f" ({before:.0f} before)" if before is not None else ""))
    clocks = [w.candidate_mhz for w in workloads if w.candidate_mhz is not None]
    if clocks:
        low, high = min(clocks), max(clocks)
        parts.append(f"SM {low:.0f} MHz" if low == high else f"SM {low:.0f} to {high:.0f} MHz")
    elif device.sm_mhz is not None:
        parts.append(f"SM {device.sm_mhz:.0f} MHz")
    parts += [f"memory {device.memory_mhz:.0f} MHz"] if device.memory_mhz is not None else []
    parts += [f"{device.power_w:.0f} W"] if device.power_w is not None else []
    if device.slowed_by is not None:
        parts.append(f"slowed by {', '.join(device.slowed_by)}" if device.slowed_by else "not slowed")
    if device.other_processes:
        parts.append(f"{device.other_processes} other process{'es' * (device.other_processes > 1)}")
    parts += [counted(device.processors, "processor")] if device.processors else []
    parts += [busy] if (busy := busy_words(device)) else []
    if device.round_trip_us is not None:
        parts.append(f"round trip to its process {device.round_trip_us:.0f} µs, taken off")
    return ", ".join(parts)


def busy_words(device: DeviceState | None) -> str:
    """Return how many processors did something else; "" where hardly any did, or nobody knows."""
    others = (device and device.other_processors) or 0.0
    return f"{others:.1f} processors busy with something else, which may favour one side" if others >= NOTICED else ""


def account(found: Account) -> str:
    """Return a run's account: what was asked, built and measured, and what that saved or cost by estimate."""
    parts = [f"asked for {counted(found.asked.count, 'forecast')} ({_taken(found.asked)})"] if found.asked.count else []
    if found.written.count:
        parts.append(f"had {counted(found.written.count, 'program')} written ({_taken(found.written)})")
    if found.built.count:
        parts.append(f"built {counted(found.built.count, 'kernel')} ({_taken(found.built)})")
    parts.append(f"made {counted(found.measured.count, 'measurement')} ({_taken(found.measured)})")
    text = f"account: {', '.join(parts)}"
    if found.spared is None or found.saved is None:
        return text
    if not found.spared.count:
        return f"{text}; every candidate was measured"
    text += f"; measuring the other {found.spared.count} as well would have taken about {_taken(found.spared)}"
    return f"{text}; so forecasts {_balance(found.saved)}, by estimate"


def _balance(saved: AccountLine) -> str:
    known = [] if saved.dollars is None else [(saved.dollars, dollars(abs(saved.dollars)))]
    sides = [(saved.seconds, clock(abs(saved.seconds))), *known]
    spared = " and ".join(text for value, text in sides if value >= 0)
    paid = " and ".join(text for value, text in sides if value < 0)
    if not paid:
        return f"saved about {spared}"
    return f"saved about {spared} and cost {paid} more" if spared else f"cost about {paid} more than they saved"


def _taken(item: AccountLine) -> str:
    known = [] if item.dollars is None else [dollars(item.dollars)]
    return ", ".join([clock(item.seconds), *known])


def dollars(value: float) -> str:
    """Return dollars with two digits that mean something."""
    return f"${value:.2f}" if value >= 0.1 or not value else f"${value:.2g}" if value >= 1e-4 else "under $0.0001"
