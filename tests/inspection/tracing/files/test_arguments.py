"""Values that are given, and values that are guessed."""

from __future__ import annotations

import re

import pytest

from forewarp.core.errors import UsageError
from forewarp.inspection.tracing.files import arguments
from forewarp.inspection.tracing.files.arguments import ArgumentGuess, Tensor, parse


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
    first = ArgumentGuess()
    assert arguments.scalar("eps", "", first) == 0.5
    assert arguments.scalar("stride_xm", "", first) == 1024
    assert arguments.scalar("is_causal", "", first) is False
    assert arguments.scalar("scale_rows", "tl.int32", first) == 1024
    assert arguments.pointer("block_table", first, index=False) == "int64"
    assert arguments.pointer("x_ptr", first, index=True) == "int64"
    assert arguments.pointer("x_ptr", ArgumentGuess("float16"), index=False) == "float16"
    assert arguments.constant("BLOCK_SIZE", first, tiles=False, blocks=1) == 1024
    assert arguments.constant("BLOCK_K", first, tiles=True, blocks=3) == 32
    assert arguments.constant("HAS_BIAS", ArgumentGuess(flag=True), tiles=False, blocks=0) is True
    assert arguments.constant("OUT_DTYPE", first, tiles=False, blocks=0) == "dtype:float32"
