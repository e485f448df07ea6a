"""Instructions of the model, for one conversation."""

from __future__ import annotations

from forewarp.agent.settings import Settings
from forewarp.core.errors import ForewarpError
from forewarp.prompts.render import render
from forewarp.tools import describe, session

LANGUAGES = ("triton", "cuda", "cpp")


def instructions(settings: Settings) -> str:
    """Return the system prompt of a conversation; a device that is not there, or that only replays, is left out."""
    try:
        device = describe.device_of(settings.place)
    except ForewarpError:
        device = None
    languages = device.languages if device else LANGUAGES
    return render("agent_system.j2", tasks=session.bundled_tasks(), device=device, languages=languages)
