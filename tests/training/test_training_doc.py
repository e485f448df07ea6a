"""docs/forecasting.md shows what the scripts make of the committed results."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_tables_are_those_of_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    figures = importlib.import_module("train_figures")
    data = json.loads((ROOT / "benchmarks/results/train_figures.json").read_text())
    text = (ROOT / "docs/forecasting.md").read_text()
    parts = {"figures": figures.table(data)}
    assert figures.filled(text, parts) == text, "run benchmarks/train_figures.py with --document docs/forecasting.md"
