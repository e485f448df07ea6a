"""Doctor's verdict on what it found."""

from __future__ import annotations

import pytest

from forewarp.cli.doctor import _verdict  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("found", "able", "said"),
    [
        (set[str](), False, "without torch"),
        ({"torch"}, False, "neither a CUDA device nor a C++ compiler"),
        ({"torch"}, True, "neither a CUDA device nor a C++ compiler"),
        ({"torch", "C++ compiler"}, False, "cannot be confined enough"),
        ({"torch", "C++ compiler"}, True, "the CPU"),
        ({"torch", "C++ compiler", "CUDA device"}, True, "the CUDA device"),
    ],
)
def test_the_first_thing_that_is_missing_is_named(found: set[str], able: bool, said: str) -> None:
    assert said in _verdict(found, able=able)
