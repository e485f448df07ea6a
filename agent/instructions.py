"""Instructions of the model, for one conversation."""

from __future__ import annotations

import contextlib
from pathlib import Path

from forewarp.agent.files import read_whole, readable_file
from forewarp.agent.settings import Settings
from forewarp.core.errors import ForewarpError, UsageError
from forewarp.prompts.render import render
from forewarp.tools import describe, session

NOTES = ("AGENTS.md", "CLAUDE.md")
MOST_NOTED = 20_000
"""Bytes of the largest file of notes that is read."""

LANGUAGES = ("triton", "cuda", "cpp")


def instructions(settings: Settings) -> str:
    """Return the system prompt of a conversation; a device that is not there, or that only replays, is left out."""
    try:
        device = describe.device_of(settings.place)
    except ForewarpError:
        device = None
    languages = [name for name in (device.languages if device else LANGUAGES) if name != "python"]
    tasks, notes = session.bundled_tasks(), notes_of(settings.folder)
    return render("agent_system.j2", tasks=tasks, device=device, languages=languages, notes=notes)


def notes_of(folder: Path) -> dict[str, str]:
    """Return the notes for agents that lie in a folder, by file name; files that are no text are left out."""
    found: dict[str, str] = {}
    for name in NOTES:
        with contextlib.suppress(UsageError):
            text = read_whole(readable_file(folder, name), MOST_NOTED).strip()
            if text and text not in found.values():
                found[name] = text
    return found
