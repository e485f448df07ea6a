"""Waiting for what a screen shows: for time, since turns of the loop say nothing on a busy machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from textual.message_pump import MessagePump
from textual.pilot import Pilot

WAIT_S = 60.0
"""For what takes a moment here, and on a busy machine much longer."""

TURNS = 8
"""Turns of the loop without work for a widget, after which none is expected: as many as a task takes to hand it on."""


async def until(
    pilot: Pilot[Any], true: Callable[[], object], why: Callable[[], str] = lambda: "it did not happen"
) -> None:
    """Wait for what happens soon; `why` says what there was instead."""
    end = time.monotonic() + WAIT_S
    while True:
        await pilot.pause()
        if true():
            return
        assert time.monotonic() < end, why()
        await asyncio.sleep(0.005)


class Patient:
    """Textual's pilot, one that goes on only when all that a key or a pause set off was done, and then at once.

    Its own ends a wait when the process has used no time for a moment, which is also so when it was given none.
    """

    _keys = Pilot.press

    @staticmethod
    async def wait_for_screen(pilot: Pilot[Any], timeout: float = WAIT_S) -> bool:
        """Wait until no widget has a message or a callback left."""
        app, end, quiet = pilot.app, time.monotonic() + timeout, 0
        while quiet < TURNS:
            if app._exit or app._exception:
                return False
            assert time.monotonic() < end, "widgets did not finish their messages"
            await asyncio.sleep(0)
            quiet = 0 if any(_busy(pump) for pump in (app, *app._registry)) else quiet + 1
        return True

    @staticmethod
    async def wait_for_idle(min_sleep: float = 0.0, max_sleep: float = 1.0) -> None:
        """Wait for nothing: `wait_for_screen` comes before or after."""

    @staticmethod
    async def press(pilot: Pilot[Any], *keys: str) -> None:
        """Press the keys, each when the one before has done its work and is to be seen."""
        for key in keys:
            await Patient._keys(pilot, key)
            await pilot.pause()


def _busy(pump: MessagePump) -> bool:
    """Return whether a widget has messages left or deals with one, so that it does not wait for the next."""
    ready = pump._message_queue.ready_event
    return pump._running and (ready.is_set() or not ready._waiters)
