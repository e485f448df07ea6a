"""Arguments of Triton kernels as the bytes that a kernel takes."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from forewarp.gpu_runner.lifting import triton_launch


class Tensor:
    """Has an address, as Triton asks for it."""

    is_cuda = True

    def data_ptr(self) -> int:
        return 1 << 40


@pytest.mark.parametrize(
    ("kind", "argument", "raw"),
    [
        ("i32", -2, struct.pack("<i", -2)),
        ("i64", 1 << 40, struct.pack("<q", 1 << 40)),
        ("i1", True, b"\x01"),
        ("u8", 255, b"\xff"),
        ("fp32", 0.1, struct.pack("<f", 0.1)),
        ("fp64", 0.1, struct.pack("<d", 0.1)),
        ("fp16", 0.5, struct.pack("<e", 0.5)),
        ("bf16", 1.0, b"\x80\x3f"),
        ("*fp32", Tensor(), struct.pack("<Q", 1 << 40)),
        ("*fp32", None, bytes(8)),
        ("*i8", 64, struct.pack("<Q", 64)),
    ],
)
def test_arguments_have_the_bytes_that_their_type_has(kind: str, argument: Any, raw: bytes) -> None:
    assert bytes(triton_launch._value(kind, argument)) == raw


def test_constants_are_no_arguments() -> None:
    assert triton_launch._value("constexpr", 128) is None


def test_a_tensor_in_main_memory_is_refused_as_triton_refuses_it() -> None:
    tensor = Tensor()
    tensor.is_cuda = False
    with pytest.raises(ValueError, match="cannot be accessed from Triton"):
        triton_launch._value("*fp32", tensor)
