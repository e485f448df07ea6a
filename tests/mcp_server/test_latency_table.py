"""docs/mcp.md shows what the committed results of benchmarks/mcp_latency.py say."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest


def test_the_page_shows_the_committed_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    latency = importlib.import_module("mcp_latency")
    shown = latency.table(latency.committed())
    assert shown in latency.PAGE.read_text(), "put it there: python benchmarks/mcp_latency.py --table"
