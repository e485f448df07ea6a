"""Slash commands for the settings of the conversation, and for what it has spent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from forewarp.agent import arguments
from forewarp.agent.arguments import amount, at_most, one_of, whole
from forewarp.agent.commanded import Commanded
from forewarp.agent.events import Noted
from forewarp.agent.settings import Approval, Settings
from forewarp.core.errors import UsageError
from forewarp.tools.parts import Amounts, Place

if TYPE_CHECKING:
    from pydantic_ai.models import Model

BUDGET_USAGE = "/budget [N | gpu SECONDS | usd X | tokens N]"
_CURRENCIES = {"gpu": "device_s", "usd": "dollars", "tokens": "tokens", "measurements": "measurements"}
_NO_CAP = "none"


async def model(on: Commanded, given: Sequence[str]) -> None:
    """`/model`: say which model answers, or choose another one."""
    found = arguments.read(given, options=("--base-url",))
    at_most(found.words, 1, "/model [NAME [--base-url URL]]")
    if not found.words:
        if found.options:
            raise UsageError("a base URL needs a model", hint="such as /model openai:NAME --base-url URL")
        on.emit(Noted(await asyncio.to_thread(_current_model, on.settings)))
        return
    name, base_url = found.words[0], found.option("--base-url") or None
    await asyncio.to_thread(_check_model, name, base_url, on.settings.budget)
    on.change(name, model=name, base_url=base_url)
    on.emit(Noted(f"The model is `{name}`{f' at {base_url}' if base_url else ''}."))


async def budget(on: Commanded, given: Sequence[str]) -> None:
    """`/budget`: show the caps of the conversation, or set one."""
    at_most(given, 2, BUDGET_USAGE)
    if not given:
        on.emit(Noted(_spending(on)))
        return
    currency, text = given if len(given) == 2 else ("measurements", given[0])
    one_of(currency, tuple(_CURRENCIES), "what a budget caps")
    caps = on.settings.budget.model_copy(update={_CURRENCIES[currency]: _cap(currency, text)})
    if caps.dollars is not None and on.settings.model is not None:
        await asyncio.to_thread(_check_model, on.settings.model, on.settings.base_url, caps)
    on.change(in_words(caps), budget=caps)
    on.emit(Noted(_spending(on)))


async def device(on: Commanded, given: Sequence[str]) -> None:
    """`/device`: show what is known of the device, or choose another one."""
    at_most(given, 2, "/device [auto|cpu|cuda|cuda:N|replay [POOL]]")
    if given:
        pool = str((on.settings.folder / Path(given[1]).expanduser()).resolve()) if len(given) == 2 else None
        kept = on.settings.place.model_dump(exclude={"device", "pool"})
        place = Place(**kept, device=given[0], pool=pool)
    else:
        place = on.settings.place
    said = await asyncio.to_thread(_described, place)
    if given:
        on.change(given[0], place=place)
    on.emit(Noted(said))


async def approve(on: Commanded, given: Sequence[str]) -> None:
    """`/approve`: say when measuring needs the user's word, or change that."""
    at_most(given, 1, "/approve each|budget|never")
    if given:
        on.change(given[0], approval=one_of(given[0], get_args(Approval), "approval"))
    meanings = {
        "each": "each measurement needs your word",
        "budget": "only what goes beyond the budget needs your word",
        "never": "nothing needs your word, and the budget ends it",
    }
    on.emit(Noted(f"Approval `{on.settings.approval}`: {meanings[on.settings.approval]}."))


async def cost(on: Commanded, given: Sequence[str]) -> None:
    """`/cost`: say what the conversation has spent."""
    at_most(given, 0, "/cost")
    on.emit(Noted(_spending(on)))


def in_words(caps: Amounts) -> str:
    """Return caps in a few words."""
    parts = [f"{caps.measurements} measurements"] if caps.measurements is not None else []
    parts += [f"{caps.device_s:g} s of device"] if caps.device_s is not None else []
    parts += [f"${caps.dollars:g}"] if caps.dollars is not None else []
    parts += [f"{caps.tokens:,} tokens"] if caps.tokens is not None else []
    return ", ".join(parts) or "no caps"


def _cap(currency: str, text: str) -> float | int | None:
    if text == _NO_CAP:
        return None
    if currency in ("gpu", "usd"):
        return amount(text, f"a cap on {currency}")
    count = whole(text.replace("_", "").replace(",", ""), f"a cap on {currency}")
    if count < 0:
        raise UsageError(f"a cap on {currency} is not below 0", hint=f"it is {BUDGET_USAGE}; none takes the cap away")
    return count


def _spending(on: Commanded) -> str:
    spent, caps = on.spent, on.settings.budget
    tokens = spent.input_tokens + spent.output_tokens
    dollars = "unknown" if spent.dollars is None else f"${spent.dollars:.4f}"
    return "\n".join(
        [
            "| | spent | cap |",
            "|---|---|---|",
            f"| measurements | {spent.measurements} | {_shown(caps.measurements, '{:d}')} |",
            f"| device | {spent.device_s:.1f} s | {_shown(caps.device_s, '{:g} s')} |",
            f"| tokens | {tokens:,} ({spent.input_tokens:,} + {spent.output_tokens:,}) | "
            f"{_shown(caps.tokens, '{:,}')} |",
            f"| dollars | {dollars} | {_shown(caps.dollars, '${:g}')} |",
            f"| context | {spent.context_tokens:,} tokens | summarised at {on.settings.compact_at:,} |",
        ]
    )


def _shown(cap: float | None, form: str) -> str:
    return "none" if cap is None else form.format(cap)


def _current_model(settings: Settings) -> str:
    from forewarp.tools import session

    made = session.make_model(settings.model, settings.base_url)
    if made is None:
        return "There is no model; `/model anthropic:NAME` or `/model openai:NAME --base-url URL` sets one."
    return f"The model is `{made.label}`{f' at {settings.base_url}' if settings.base_url else ''}."


def _check_model(name: str | Model, base_url: str | None, caps: Amounts) -> None:
    """Raise `ModelError` for a model that cannot be asked, `UsageError` where its dollars cannot be capped."""
    from forewarp.tools import session

    made = session.make_model(name, base_url)
    if made is not None and caps.dollars is not None:
        session.check_price(made)


def _described(place: Place) -> str:
    """Say what a place measures on; raises `ForewarpError` where it cannot."""
    if place.device == "replay":
        if place.pool is not None and not Path(place.pool).exists():
            raise UsageError(f"there is no pool at {place.pool}", hint="name a Parquet file or a folder of them")
        return f"Measurements are looked up in the pool `{place.pool}`; every such number says replay."
    if place.pool is not None:
        raise UsageError(f"a pool is only for replay, not for device {place.device}", hint="/device replay POOL")
    from forewarp.tools.describe import device_of

    d = device_of(place)
    rates = [
        f"{d.processors} processors",
        *([f"{d.memory_bandwidth / 1e9:,.0f} GB/s"] if d.memory_bandwidth else []),
        *([f"{d.fp32_flops / 1e12:,.1f} TFLOP/s in float32"] if d.fp32_flops else []),
    ]
    named = f"**{d.device.name}** ({d.device.kind}, {d.device.arch})"
    return f"The device is {named}: {', '.join(rates)}. It runs {', '.join(d.languages)}."
