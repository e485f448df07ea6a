"""Texts as literals in written modules."""

from __future__ import annotations

import ast

import pytest

from forewarp.core.files import literal


@pytest.mark.parametrize(
    "text",
    [
        "",
        "one line's",
        "a\nb",
        "a\n'",
        "a\n''",
        "a\n'''b''''",
        "a\n\\",
        "a\n\\'",
        "a\n\\'''",
        "\\0\n\tb\n",
        "a\r\nb",
        "a\0\nb",
        "a\n\u2028b",
    ],
)
def test_a_literal_is_the_text(text: str) -> None:
    assert ast.literal_eval(literal(text)) == text


def test_lines_stay_lines() -> None:
    """A module that `apply` writes holds modules with backslashes, which were one line of 10,000 characters."""
    assert literal('x = "a\\n"\ny = 1\n') == "'''\\\nx = \"a\\\\n\"\ny = 1\n'''"
