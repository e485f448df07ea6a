"""A device program: the work of a module on the device in one call, as plain values, and its transport."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from forewarp.core import serde
from forewarp.gpu_runner.lifting.graph import Edge, GraphNode
from forewarp.gpu_runner.lifting.window import Chunk

GAP = 512
"""Bytes behind every block of a window that belong to nobody; a write past a buffer's end shows there."""


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """A tensor in a window, `stride` in elements; `last` if nothing in its block lies behind or is written there."""

    address: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    last: bool = False

    @classmethod
    def of(cls, tensor: torch.Tensor) -> TensorPlace:
        dtype = str(tensor.dtype).removeprefix("torch.")
        place = cls(tensor.data_ptr(), tuple(tensor.shape), tuple(tensor.stride()), dtype)
        block = tensor.untyped_storage()
        return replace(place, last=place.address + place.size == block.data_ptr() + block.nbytes())

    @property
    def size(self) -> int:
        """Bytes from the first element to the end of the last one."""
        if 0 in self.shape:
            return 0
        reach = sum((n - 1) * step for n, step in zip(self.shape, self.stride, strict=True))
        return (reach + 1) * getattr(torch, self.dtype).itemsize

    def tensor(self) -> torch.Tensor:
        if not self.size:
            return torch.empty_strided(self.shape, self.stride, dtype=getattr(torch, self.dtype), device="cuda")
        return bytes_at(self.address, self.size).view(getattr(torch, self.dtype)).as_strided(self.shape, self.stride)


@dataclass(frozen=True, slots=True)
class Program:
    """One call of a module for one workload.

    By key of the `state_dict`, `state` are its buffers that a call may change, `weights` its other large tensors.
    `scratch` are addresses of chunks that hold nothing before a call; outputs may be among them.
    """

    workload: str
    nodes: tuple[GraphNode, ...]
    edges: tuple[Edge, ...]
    inputs: tuple[TensorPlace, ...]
    outputs: tuple[TensorPlace, ...]
    state: tuple[tuple[str, TensorPlace], ...] = ()
    weights: tuple[tuple[str, TensorPlace], ...] = ()
    scratch: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Programs:
    """The programs of a task's workloads with their memory; `images` are the sizes of the compiled codes in bytes.

    With it go descriptors: a file of the images, one after another, and then the memory of each chunk.
    """

    programs: tuple[Program, ...]
    chunks: tuple[Chunk, ...]
    images: tuple[int, ...]


def pack(images: Sequence[bytes]) -> int:
    """Return the descriptor of a file in memory that holds images one after another."""
    descriptor = os.memfd_create("images", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        for image in images:
            file.write(image)
    return descriptor


def unpack(descriptor: int, sizes: Sequence[int]) -> list[bytes]:
    """Return the images in a file and close it; raises ValueError where it is not of the size that `sizes` tell."""
    with os.fdopen(descriptor, "rb") as file:
        file.seek(0)
        if any(s < 0 for s in sizes) or os.fstat(file.fileno()).st_size != sum(sizes):
            raise ValueError("the compiled code is not of the size that was told")
        return [file.read(size) for size in sizes]


def from_data(data: Any) -> Programs:
    """Read programs from data that an untrusted process wrote; raises ValueError."""
    try:
        return serde.from_data(Programs, data)
    except (TypeError, KeyError, AttributeError, ValueError) as e:
        raise ValueError(f"the program cannot be read: {type(e).__name__}: {e}") from None


class _Bytes:
    """Device memory of which torch makes a tensor without a copy."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, False),
            "strides": None,
            "version": 3,
        }


def bytes_at(address: int, size: int) -> torch.Tensor:
    """Return device memory as a tensor of bytes; whoever mapped it must keep it mapped."""
    return torch.as_tensor(_Bytes(address, size), device="cuda")
