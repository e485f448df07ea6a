"""Buffers that judge and cell share: input slots, parameters and outputs, laid out the same on both sides."""

from __future__ import annotations

import fcntl
import math
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from forewarp.core.values import Signature, TensorSpec

ALIGN = 256
GAP = 256
"""Bytes at least that lie before, between and behind the buffers, so that a write past the end of one is seen."""
SLOTS = 3
"""Input sets that the timed calls rotate among, each drawn afresh for this measurement."""
OFFSETS = 64
"""Places that an output may be copied to, `ALIGN` bytes apart; a cell is told which once a module's call has ended."""


def byte_size(spec: TensorSpec) -> int:
    return math.prod(spec.shape) * getattr(torch, spec.dtype).itemsize


@dataclass(frozen=True, slots=True)
class Layout:
    """Offsets of every buffer of one workload, and the bytes that belong to none: `gaps` as (start, end) pairs."""

    slots: tuple[tuple[int, ...], ...]
    params: tuple[int, ...]
    outputs: tuple[int, ...]
    gaps: tuple[tuple[int, int], ...]
    size: int

    @classmethod
    def of(cls, signature: Signature, slots: int = SLOTS, offsets: int = 1) -> Layout:
        """Lay out a workload's buffers with gaps; outputs may begin at any of `offsets` places, `ALIGN` bytes apart."""
        position = GAP
        gaps: list[tuple[int, int]] = [(0, GAP)]

        def place(specs: Sequence[TensorSpec], room: int = 0) -> tuple[int, ...]:
            nonlocal position
            starts: list[int] = []
            for spec in specs:
                starts.append(position)
                end = position + byte_size(spec) + room
                position = -(-(end + GAP) // ALIGN) * ALIGN
                gaps.append((end, position))
            return tuple(starts)

        inputs = tuple(place(signature.inputs) for _ in range(slots))
        params, outputs = place(signature.params), place(signature.outputs, (offsets - 1) * ALIGN)
        return cls(inputs, params, outputs, tuple(gaps), position)


def views(block: torch.Tensor, offsets: Sequence[int], specs: Sequence[TensorSpec]) -> list[torch.Tensor]:
    return [
        block[o : o + byte_size(s)].view(getattr(torch, s.dtype)).view(s.shape)
        for o, s in zip(offsets, specs, strict=True)
    ]


def mapped(descriptor: int, size: int) -> torch.Tensor:
    return torch.frombuffer(mmap.mmap(descriptor, size), dtype=torch.uint8)


def memfd(name: str, size: int) -> int:
    """Make a shared-memory file of `size` bytes, which nobody can change in size, and return its descriptor."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(descriptor, size)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return descriptor
