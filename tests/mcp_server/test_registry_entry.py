"""The registry's entry says the same as the package."""

from __future__ import annotations

import json
import tomllib
import urllib.request
from pathlib import Path

import jsonschema
import pytest

ROOT = Path(__file__).parents[2]


def test_the_entry_names_this_package_in_this_version() -> None:
    entry = json.loads((ROOT / "server.json").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert len(entry["description"]) <= 100
    assert entry["version"] == project["version"]
    assert [(p["identifier"], p["version"]) for p in entry["packages"]] == [(project["name"], project["version"])]
    # How the registry knows that who publishes the package publishes the entry.
    assert f"mcp-name: {entry['name']} " in (ROOT / project["readme"]).read_text()


@pytest.mark.slow
def test_the_entry_is_what_its_schema_asks_for() -> None:
    """The schema is read from where the entry names it; in CI, where the network is."""
    entry = json.loads((ROOT / "server.json").read_text())
    try:
        with urllib.request.urlopen(entry["$schema"], timeout=30) as reply:
            schema = json.load(reply)
    except OSError as e:
        pytest.skip(f"the schema cannot be read: {e}")
    assert schema["$id"] == entry["$schema"]
    jsonschema.validate(entry, schema)
