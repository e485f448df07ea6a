"""Arguments and calls as users write them."""

from __future__ import annotations

import re

import pytest

from forewarp.core.errors import UsageError
from forewarp.inspection.tracing.files.arguments import Tensor, parse, parse_call, value


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


def test_a_call_is_read() -> None:
    assert parse_call("run").args == []
    call = parse_call("Layer(64, eps=1e-5)(float16[3, 1024], n=2)")
    assert [value("", a) for a in call.args] == [Tensor("float16", (3, 1024))]
    assert value("", parse_call("f(float32[])").args[0]) == Tensor("float32", ())
    assert parse_call("Scale.apply(float32[8])").args


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f(", "the call 'f(' cannot be read"),
        ("3", "the call '3' cannot be read"),
        ("f(float31[4])", "'float31' is no dtype"),
        ("f(g(1))", "neither a tensor nor a value"),
        ("Layer(open('f'))(1)", "neither a tensor nor a value"),
    ],
)
def test_a_call_that_cannot_be_read_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        parse_call(text)
