"""Screens as text, compared with what they looked like: `pytest --update-snapshots` writes them anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.app import App

SNAPSHOTS = Path(__file__).parent / "snapshots"
_SCROLLBAR = " ▁▂▃▄▅▆▇█▉▊▋▌▍▎▏▕"


def screen_text(app: App[Any]) -> str:
    """Return the characters on the screen without colours and scrollbars, which change with Textual's versions."""
    strips = app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip(_SCROLLBAR) for strip in strips).rstrip() + "\n"


@pytest.fixture
def snapshot(request: pytest.FixtureRequest) -> Callable[[App[Any], str], None]:
    """A function that compares the screen of an app with the one recorded under a name."""

    def compare(app: App[Any], name: str) -> None:
        path, shown = SNAPSHOTS / f"{name}.txt", screen_text(app)
        if request.config.getoption("--update-snapshots"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(shown)
        assert path.exists(), f"{path.name} is missing: run with --update-snapshots and look at it"
        assert shown == path.read_text()

    return compare


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test depends on the colours of the terminal that it runs in."""
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    monkeypatch.delenv("NO_COLOR", raising=False)
