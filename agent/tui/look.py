"""The colours."""

from __future__ import annotations

from collections.abc import Iterable

from textual.theme import Theme

DARK = Theme(
    name="forewarp-dark",
    primary="#7aa2c8",
    secondary="#8a94a6",
    accent="#82b4d9",
    success="#8fbf7f",
    warning="#d9a45b",
    error="#dd7a73",
    foreground="#d3d7de",
    background="#101318",
    surface="#14181e",
    panel="#1e242c",
    dark=True,
)
LIGHT = Theme(
    name="forewarp-light",
    primary="#2f6690",
    secondary="#5b6470",
    accent="#22689c",
    success="#2e7d32",
    warning="#8f5a00",
    error="#b3261e",
    foreground="#24292f",
    background="#fbfbf9",
    surface="#f5f5f2",
    panel="#e8e8e4",
    dark=False,
)
THEMES = (DARK, LIGHT)
SHORT = {"dark": DARK.name, "light": LIGHT.name, "ansi": "ansi-dark"}


def named(name: str, themes: Iterable[str]) -> str | None:
    """Return the full name of a theme; dark, light and ansi mean one each. None for an unknown one."""
    full = SHORT.get(name, name)
    return full if full in set(themes) else None
