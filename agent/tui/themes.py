"""Colour themes of the terminal."""

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
    variables={
        "block-cursor-background": "#2c4257",
        "block-cursor-foreground": "#e6e9ee",
        "block-cursor-blurred-background": "#222b36",
    },
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
    variables={
        "block-cursor-background": "#cadded",
        "block-cursor-foreground": "#1c2126",
        "block-cursor-blurred-background": "#e2e8ec",
    },
)
THEMES = (DARK, LIGHT)
SHORT = {"dark": DARK.name, "light": LIGHT.name, "ansi": "ansi-dark"}


def named(name: str, themes: Iterable[str]) -> str | None:
    """Return the full name of a theme; dark, light and ansi mean one each. None for an unknown one."""
    full = SHORT.get(name, name)
    return full if full in set(themes) else None
