"""Waiting for what a screen shows: for time, since turns of the loop say nothing on a busy machine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from textual.pilot import Pilot

WAIT_S = 60.0
"""For what takes a moment here, and on a busy machine much longer."""

HOPS = 8
"""Most widgets that a message passes until what it set off is done."""


async def until(pilot: Pilot[Any], true: Callable[[], object], why: str = "it did not happen") -> None:
    """Wait for what happens soon."""
    end = time.monotonic() + WAIT_S
    while True:
        await pilot.pause()
        if true():
            return
        assert time.monotonic() < end, why
        await asyncio.sleep(0.005)


class Patient:
    """Textual's pilot, one that goes on only when all that a key or a pause set off was done.

    Its own ends a wait when the process has used no time for a moment, which is also so when it was given none.
    """

    _screen, _keys = Pilot._wait_for_screen, Pilot.press

    @staticmethod
    async def wait_for_screen(pilot: Pilot[Any], timeout: float = WAIT_S) -> bool:
        """Wait until every widget has taken what came to it, as often as a message can be handed on."""
        for _ in range(HOPS):
            if not await Patient._screen(pilot, timeout) or pilot.app._exit:
                return False
        return True

    @staticmethod
    async def press(pilot: Pilot[Any], *keys: str) -> None:
        """Press the keys, each when the one before has done its work."""
        for key in keys:
            await Patient._keys(pilot, key)
