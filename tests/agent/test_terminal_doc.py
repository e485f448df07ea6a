"""docs/terminal.md says what the code does: commands, keys, limits."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.binding import Binding

from forewarp.agent import commands
from forewarp.agent.files import MOST_OF_ONE
from forewarp.agent.settings import COMPACT_AT
from forewarp.agent.tui.app import KEYS, VIEWS, WIDE, ForewarpApp
from forewarp.core.budget import DEFAULT_MEASUREMENTS

SHOWN = {"escape": "Esc"}


@pytest.fixture(scope="module")
def text() -> str:
    return (Path(__file__).parents[2] / "docs" / "terminal.md").read_text()


def test_every_command_is_listed_as_it_is(text: str) -> None:
    for command in commands.COMMANDS.values():
        usage = command.usage.replace("|", "\\|")
        assert f"| `{usage}` | {command.help} |" in text


def test_every_key_of_the_screen_is_listed(text: str) -> None:
    keys = [b.key if isinstance(b, Binding) else b[0] for b in ForewarpApp.BINDINGS]
    ranges = {f"{KEYS[view]},ctrl+{n}" for n, view in enumerate(VIEWS, 1)}
    assert f"{KEYS[VIEWS[0]].upper()} to {KEYS[VIEWS[-1]].upper()}, ctrl+1 to ctrl+{len(VIEWS)}" in text
    for key in set(keys) - ranges:
        assert SHOWN.get(key, key) in text


def test_limits_are_those_of_the_code(text: str) -> None:
    assert f"up to {MOST_OF_ONE:,} characters" in text
    assert f"grows beyond {COMPACT_AT:,} tokens" in text
    assert f"{DEFAULT_MEASUREMENTS} measurements unless" in text
    assert f"From {WIDE} columns on" in text
