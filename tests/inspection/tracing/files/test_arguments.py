"""Values that are given, and values that are guessed."""

from __future__ import annotations

import re

import pytest

from forewarp.core.errors import UsageError
from forewarp.inspection.tracing.files import arguments
from forewarp.inspection.tracing.files.arguments import Tensor, parse


def test_arguments_are_read() -> None:
    assert parse('x=float32[4096, 4096], n=4096,eps = 1e-5, mode="a, b", shape=(2, 3), causal=True, w=int64[8]') == {
        "x": Tensor("float32", (4096, 4096)),
        "n": 4096,
        "eps": 1e-5,
        "mode": "a, b",
        "shape": (2, 3),
        "causal": True,
        "w": Tensor("int64", (8,)),
    }
    assert parse("  ") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("4096", "cannot be read at '4096'"),
        ("x=float31[4]", "'float31' is no dtype"),
        ("x=open('f')", "neither a tensor nor a value"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        parse(text)


def test_guesses_go_by_name_and_annotation() -> None:
    assert arguments.scalar("eps", "", 1024) == 0.5
    assert arguments.scalar("stride_xm", "", 1024) == 1024
    assert arguments.scalar("is_causal", "", 1024) is False
    assert arguments.scalar("scale_rows", "tl.int32", 1024) == 1024
