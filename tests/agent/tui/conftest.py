"""Screens as text, compared with what they looked like: `pytest --update-snapshots` writes them anew."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from support.terminal import Patient, until
from textual.app import App
from textual.pilot import Pilot

SNAPSHOTS = Path(__file__).parent / "snapshots"
_SCROLLBAR = " ▁▂▃▄▅▆▇█▉▊▋▌▍▎▏▕"


def screen_text(app: App[Any]) -> str:
    """Return the characters on the screen without colours and scrollbars, which change with Textual's versions."""
    strips = app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip(_SCROLLBAR) for strip in strips).rstrip() + "\n"


@pytest.fixture
def snapshot(request: pytest.FixtureRequest) -> Callable[[Pilot[Any], str], Awaitable[None]]:
    """A function that compares the screen of an app, once it is drawn, with the one recorded under a name."""

    async def compare(pilot: Pilot[Any], name: str) -> None:
        path = SNAPSHOTS / f"{name}.txt"
        if request.config.getoption("--update-snapshots"):
            await pilot.pause(1.0)
            path.parent.mkdir(exist_ok=True)
            path.write_text(screen_text(pilot.app), encoding="utf-8")
        assert path.exists(), f"{path.name} is missing: run with --update-snapshots and look at it"
        recorded = path.read_text(encoding="utf-8")
        with contextlib.suppress(AssertionError):
            await until(pilot, lambda: screen_text(pilot.app) == recorded)
        assert screen_text(pilot.app) == recorded

    return compare


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pilot, "_wait_for_screen", Patient.wait_for_screen)
    monkeypatch.setattr(Pilot, "press", Patient.press)
    for home in ("pilot", "app"):
        monkeypatch.setattr(f"textual.{home}.wait_for_idle", Patient.wait_for_idle)


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test depends on the colours of the terminal that it runs in."""
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    monkeypatch.delenv("NO_COLOR", raising=False)
