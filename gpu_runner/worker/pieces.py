"""The oracle in pieces along the first dimension, for workloads of which fp64 copies would not fit into memory."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from forewarp.gpu_runner.worker.check import Exact, stretches
from forewarp.gpu_runner.worker.problem import outputs_of

_PROBED = 4
"""Rows on which it is seen whether each depends on itself alone."""
_KEPT_SHARE = 0.15
"""Of the free device memory, what results in fp64 may take that are kept; there are two sets of them at times."""
_ALIKE = 1e-9
"""By how much, of their root mean square, fp64 results may differ between two ways of cutting."""


class Pieces:
    """A reference in fp64 that is run on some rows at a time; `rows` are those of the inputs at positions `cut`."""

    def __init__(self, model: torch.nn.Module, values: Sequence[Any], cut: Sequence[int], rows: int) -> None:
        self._model, self._values = copy.deepcopy(model).double(), values
        self._cut, self.rows = frozenset(cut), rows
        # What is not cut is the same for all pieces.
        self._whole = {i: _wide(v) for i, v in enumerate(values) if i not in self._cut}

    def run(self, start: int, end: int) -> list[torch.Tensor]:
        """Return the outputs for some rows."""
        values: list[Any] = []
        for i, value in enumerate(self._values):
            # Copies, because a reference may write to its inputs.
            values.append(_wide(value[start:end] if i in self._cut else self._whole[i]))
        return outputs_of(self._model(*values))

    def independent(self) -> bool:
        """Return whether, on a few rows, results are the same however the rows are cut."""
        some = min(_PROBED, self.rows)
        half = some // 2
        whole = self.run(0, some)
        parts = zip(self.run(0, half), self.run(half, some), strict=True)
        return all(
            one.shape[:1] == (some,) and a.shape[:1] == (half,) and _alike(one, torch.cat([a, b]))
            for one, (a, b) in zip(whole, parts, strict=True)
        )

    def exact(self, output: int, size: int, step: int, *, kept: bool = False) -> Exact:
        """Return the elements of one output, which has `size` of them.

        They are worked out anew each time they are asked for, or `kept` from the first time on.
        """
        row = size // self.rows
        known: list[torch.Tensor] = []

        def elements() -> Iterator[tuple[slice, torch.Tensor]]:
            for number, start in enumerate(range(0, self.rows, step)):
                if number < len(known):
                    piece = known[number]
                else:
                    piece = self.run(start, min(start + step, self.rows))[output]
                    if kept:
                        known.append(piece)
                for part, stretch in stretches(piece)():
                    yield slice(part.start + start * row, part.start + start * row + len(stretch)), stretch

        return elements


def exact_in_pieces(
    model: torch.nn.Module, values: Sequence[Any], reference: Sequence[torch.Tensor], piece_bytes: int
) -> list[Exact] | None:
    """Return the oracle's outputs as `Expected` takes them, or None where rows depend on each other or fp64 fails.

    `reference` are the outputs of the reference, the first dimension of each that of the largest input.
    """
    for cut in _cuts(values, reference):
        rows = values[cut[0]].shape[0]
        wide = sum(v.numel() * max(8, v.element_size()) for v in (*(values[i] for i in cut), *reference))
        step = max(1, piece_bytes * rows // max(1, wide))
        try:
            pieces = Pieces(model, values, cut, rows)
            if pieces.independent():
                kept = _may_be_kept(reference)
                return [pieces.exact(i, _elements(r), step, kept=kept) for i, r in enumerate(reference)]
        except torch.OutOfMemoryError:
            raise
        except Exception:  # a reference may refuse fp64, or fewer rows, in any way; then it is run as a whole
            continue
    return None


def _may_be_kept(outputs: Sequence[torch.Tensor]) -> bool:
    """Return whether there is so much memory that these outputs in fp64 take little of what is free."""
    if not outputs[0].is_cuda:
        return False
    free, _ = torch.cuda.mem_get_info()
    return _KEPT_SHARE * free > 8 * sum(_elements(r) for r in outputs)


def _cuts(values: Sequence[Any], reference: Sequence[torch.Tensor]) -> list[list[int]]:
    """Return which inputs may be cut: all that have as many rows as the largest, or the largest alone."""
    tensors = [i for i, v in enumerate(values) if isinstance(v, torch.Tensor) and v.dim()]
    if not tensors:
        return []
    largest = max(tensors, key=lambda i: values[i].numel())
    rows = values[largest].shape[0]
    if rows < 2 or any(r.dim() == 0 or r.shape[0] != rows for r in reference):
        return []
    others = [i for i in tensors if i != largest and values[i].shape[0] == rows]
    return [[largest, *others], [largest]] if others else [[largest]]


def _elements(tensor: torch.Tensor) -> int:
    return tensor.numel() * (2 if tensor.is_complex() else 1)


def _wide(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.to(torch.float64 if value.is_floating_point() else value.dtype, copy=True)


def _alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if not one.is_floating_point():
        return torch.equal(one, other)
    scale = float(one.nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt())
    return torch.allclose(one, other, rtol=_ALIKE, atol=_ALIKE * scale, equal_nan=True)
