"""System prompt of the model: how to work, on which device, and in which format to write kernels."""

from __future__ import annotations

from forewarp.core.errors import ForewarpError
from forewarp.prompts.render import render
from forewarp.tools import describe, session
from forewarp.tools.parts import Place

ALL = ("triton", "cuda", "cpp")


def instructions(place: Place) -> str:
    """Return the system prompt for a place; a device that is not there, or that only replays, is left out."""
    try:
        device = describe.device_of(place)
    except ForewarpError:
        device = None
    languages = device.languages if device else ALL
    return render("agent_system.j2", tasks=session.bundled_tasks(), device=device, languages=languages)
