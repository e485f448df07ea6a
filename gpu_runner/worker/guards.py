"""Guard bands: bytes of a random pattern around every buffer, looked at after the candidate has run."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import torch

from forewarp.gpu_runner.worker.arena import Layout
from forewarp.gpu_runner.worker.check import Mismatch

ALIGN = 256
BAND = 1024
"""Bytes on either side of a buffer."""


class Guards:
    """Stretches of bytes that nobody may write to, each beside a named buffer."""

    def __init__(self, device: str | torch.device) -> None:
        self.device = device
        # Random, so that no kernel can write over it what was there.
        self._pattern = torch.frombuffer(bytearray(os.urandom(BAND)), dtype=torch.uint8).to(device)
        self._bands: list[tuple[str, torch.Tensor]] = []

    def add(self, name: str, stretch: torch.Tensor) -> None:
        """Lay the pattern over a stretch of bytes; `name` says which buffer it lies beside."""
        for piece in stretch.split(BAND):
            piece.copy_(self._pattern[: piece.numel()])
            self._bands.append((name, piece))

    def tensor(self, shape: Sequence[int], dtype: torch.dtype, name: str = "a buffer") -> torch.Tensor:
        """Return an uninitialised contiguous tensor between two bands, aligned to 256 bytes."""
        size = math.prod(shape) * dtype.itemsize
        block = torch.empty(size + 2 * BAND + ALIGN, dtype=torch.uint8, device=self.device)
        start = BAND + -(block.data_ptr() + BAND) % ALIGN
        self.add(name, block[:start])
        self.add(name, block[start + size :])
        return block[start : start + size].view(dtype).view(tuple(shape))

    def check(self) -> None:
        """Raise `Mismatch` naming the first buffer beside which a byte was overwritten; waits for the device once."""
        if not self._bands:
            return
        seen = torch.cat([piece for _, piece in self._bands])
        if torch.equal(seen, torch.cat([self._pattern[: piece.numel()] for _, piece in self._bands])):
            return
        for name, piece in self._bands:
            wrong = int((piece != self._pattern[: piece.numel()]).sum())
            if wrong:
                raise Mismatch(f"the candidate wrote outside its buffers: {wrong} bytes beside {name}")


def layout_guards(block: torch.Tensor, layout: Layout) -> Guards:
    """Lay the pattern over the gaps of a layout in a block of bytes; written once, before any candidate runs in it."""
    names = ["the start"]
    for slot, offsets in enumerate(layout.slots):
        names += [f"input {i} of set {slot}" for i in range(len(offsets))]
    names += [f"weight {i}" for i in range(len(layout.params))]
    names += [f"output {i}" for i in range(len(layout.outputs))]
    guards = Guards(block.device)
    for name, (start, end) in zip(names, layout.gaps, strict=True):
        guards.add(name, block[start:end])
    return guards
