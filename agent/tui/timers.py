"""A timer that fires once, without fail."""

from __future__ import annotations

import asyncio

from textual.message_pump import MessagePump
from textual.types import CallbackType


def after(pump: MessagePump, delay_s: float, callback: CallbackType) -> asyncio.TimerHandle:
    """Have a widget or the app call back after so many seconds; the handle cancels it.

    Textual's `set_timer` never fires where the thread gets no time for as long as the delay right after it is set: a
    repeated timer skips the ticks that it is late for, and one that fires once skips its only one.
    """
    return asyncio.get_running_loop().call_later(delay_s, pump.call_later, callback)
