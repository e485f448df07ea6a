"""Help texts of benchmarks: argparse formats them by %, and fails only where somebody asks for help."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[2] / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_help_texts_can_be_formatted(script: Path) -> None:
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            for text in [k.value.value for k in node.keywords if k.arg == "help" and isinstance(k.value, ast.Constant)]:
                assert text % {"prog": "", "default": ""}
