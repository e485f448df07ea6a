"""The expected outputs of a reference: in fp64 where it can, as a whole or some rows at a time."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch

from forewarp.core.values import TensorSpec, Tolerance
from forewarp.gpu_runner.worker import memory, numerics
from forewarp.gpu_runner.worker.check import Exact, Expected, Shaken, repeated, stretches
from forewarp.gpu_runner.worker.operations import run_in_tf32
from forewarp.gpu_runner.worker.problem import (
    Problem,
    ReferenceFailed,
    copies,
    dtype_name,
    outputs_of,
    running_reference,
    tensors_of,
)
from forewarp.gpu_runner.worker.state import State

_PROBED = 4
"""Rows on which it is seen whether each depends on itself alone."""
_KEPT_SHARE = 0.15
"""Of the free device memory, what results in fp64 may take that are kept; there are two sets of them at times."""
_ALIKE = 1e-9
"""By how much, of their root mean square, fp64 results may differ between two ways of cutting."""


def oracle(model: torch.nn.Module, inputs: Sequence[Any]) -> tuple[list[torch.Tensor], str]:
    """Return the expected outputs, and how they were made: in fp64, else in fp32 without TF32. Inputs stay."""
    with numerics.without_tf32():
        try:
            return outputs_of(copy.deepcopy(model).double()(*copies(inputs, torch.float64))), "fp64"
        except Exception:  # a reference may refuse fp64 in any way; what is really wrong with it shows in the next line
            return outputs_of(model(*copies(inputs))), "fp32 highest"


class WithWritten(torch.nn.Module):
    """A reference that also returns the inputs that it writes to, as they are after the call."""

    def __init__(self, model: torch.nn.Module, written: Sequence[int]) -> None:
        super().__init__()
        self.model, self.written = model, tuple(written)

    def forward(self, *values: Any) -> list[torch.Tensor]:
        outputs, tensors = outputs_of(self.model(*values)), tensors_of(values)
        return [*outputs, *(tensors[i] for i in self.written)]


class AlikeCalls(torch.nn.Module):
    """A reference that does the same at each call: its state is put back, and torch seeded if there is a seed.

    It returns the outputs, then the state's tensors in `compared`. With `own_precision` it refuses to be converted to
    fp64, in which its random numbers would be others.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        state: State,
        seed: int | None,
        compared: Sequence[str] = (),
        *,
        own_precision: bool = False,
    ) -> None:
        super().__init__()
        self.model, self.state, self.compared, self.seed = model, state, tuple(compared), seed
        self.own_precision = own_precision

    def _apply(self, fn: Any, recurse: bool = True) -> AlikeCalls:
        """Convert all tensors; raises TypeError where the reference has to stay in its own precision."""
        if self.own_precision:
            raise TypeError("in another precision, the reference would draw other random numbers")
        return super()._apply(fn, recurse)

    def forward(self, *values: Any) -> list[torch.Tensor]:
        self.state.put_back()
        if self.seed is not None:
            torch.manual_seed(self.seed)
        outputs, now = outputs_of(self.model(*values)), self.state.now()
        return [*outputs, *(now[name] for name in self.compared)]


def expect(
    model: torch.nn.Module,
    values: Sequence[Any],
    tolerance: Tolerance | None,
    written: Sequence[int] = (),
    scales: Sequence[float] | None = None,
    *,
    described: Sequence[TensorSpec] | None = None,
    allow_tf32: bool = False,
    pieces: bool = False,
) -> tuple[Expected, str]:
    """Return what inputs call for and how the oracle was made; outputs first, then written inputs.

    Raises `ReferenceFailed` where the reference's outputs are not as `described`, or differ between two calls in shape.
    It runs after the oracle, in its own numerics. With `pieces`, the oracle works on some rows of the inputs at a time,
    each time that something is compared, where rows do not depend on each other.
    """
    whole = WithWritten(model, written) if written else model
    inputs = tensors_of(values)
    state = [*model.parameters(), *model.buffers()]

    def in_tf32(truncate: bool) -> list[torch.Tensor] | None:
        made = run_in_tf32(whole, copies(values) if written else values, truncate=truncate)
        return None if made is None else outputs_of(made)

    def run() -> list[torch.Tensor]:
        given = {t.untyped_storage().data_ptr() for t in (*inputs, *state)}
        results = outputs_of(whole(*(copies(values) if written else values)))
        _check_described(results, described)
        # What is part of an input or a weight would change with it.
        return [r.clone() if r.untyped_storage().data_ptr() in given else r for r in results]

    def shaken(share: float) -> list[torch.Tensor]:
        off = copies(values, torch.float64)
        for tensor in tensors_of(off):
            if tensor.is_floating_point():
                tensor.mul_(torch.randn_like(tensor).mul_(share).add_(1.0))
        return oracle(whole, off)[0]

    def expected(
        exact: Sequence[torch.Tensor | Exact], reference: Sequence[torch.Tensor], shaken: Shaken | None = None
    ) -> Expected:
        # Of a norm over rows, groups or channels, which are along the first two dimensions.
        longest = max((t.numel() // max(1, min(t.shape[:2])) for t in inputs if t.dim() > 1), default=1)
        terms = [t.numel() for t in (*inputs, *state)], repeated(inputs), longest
        return Expected(exact, reference, tolerance, scales, *terms, tf32=in_tf32, shaken=shaken, allow_tf32=allow_tf32)

    reference: list[torch.Tensor] | None = None
    if pieces:
        reference = run()
        cut = exact_in_pieces(whole, values, reference, memory.PIECE_BYTES[reference[0].device.type])
        if cut is not None and not (made := expected(cut, reference)).far_off:
            return made, "fp64"
    exact, how = oracle(whole, values)
    reference = reference or run()
    if (one := [_shape(e) for e in exact]) != (two := [_shape(r) for r in reference]):
        raise _differing(one, two)
    return expected(exact, reference, shaken if how == "fp64" else None), how


def _check_described(results: Sequence[torch.Tensor], described: Sequence[TensorSpec] | None) -> None:
    if described is None:
        return
    now = [f"{dtype_name(r)} {_shape(r)}" for r in results[: len(described)]]
    before = [f"{s.dtype} {list(s.shape)}" for s in described]
    if now != before:
        raise _differing(before, now)


def _shape(tensor: torch.Tensor) -> str:
    return str(list(tensor.shape))


def _differing(one: Sequence[str], other: Sequence[str]) -> ReferenceFailed:
    return ReferenceFailed(
        f"the reference returned {', '.join(one)} at one call and {', '.join(other)} at another; the number, "
        "shapes and dtypes of outputs must follow from the shapes of the inputs alone"
    )


def expect_alike(
    problem: Problem,
    model: torch.nn.Module,
    state: State,
    values: Sequence[Any],
    tolerance: Tolerance | None,
    written: Sequence[int] = (),
    scales: Sequence[float] | None = None,
    *,
    compared: Sequence[str] = (),
    seed: int = 0,
    allow_tf32: bool = False,
    pieces: bool = False,
) -> tuple[Expected, str]:
    """Return what `expect` does, of a call with the state put back and torch seeded: of outputs, state, written inputs.

    Where the reference draws random numbers, and in fp64 would draw others, it is its own oracle. With a state or
    random numbers it is never run in `pieces`, which would change them. Raises `ReferenceFailed`.
    """
    given, plain = (values, tolerance, written, scales), not problem.state and not problem.random
    calls, once = model, seed if problem.random else None
    with running_reference("the reference, run for its expected outputs,"):
        if not plain:
            calls = AlikeCalls(model, state, once, compared)
        expect_as_described = partial(expect, described=problem.outputs, allow_tf32=allow_tf32)
        expected, how = expect_as_described(calls, *given, pieces=pieces and plain)
        if problem.random and not expected.reference_agrees():
            calls = AlikeCalls(model, state, once, compared, own_precision=True)
            expected, how = expect_as_described(calls, *given)
    return expected, how


def exact_in_pieces(
    model: torch.nn.Module, values: Sequence[Any], reference: Sequence[torch.Tensor], piece_bytes: int
) -> list[Exact] | None:
    """Return the oracle's outputs as `Expected` takes them, or None where rows depend on each other or fp64 fails."""
    for cut in _cuts(values, reference):
        rows = values[cut[0]].shape[0]
        wide = sum(v.numel() * max(8, v.element_size()) for v in (*(values[i] for i in cut), *reference))
        step = max(1, piece_bytes * rows // max(1, wide))
        try:
            pieces = _Pieces(model, values, cut, rows)
            if pieces.independent():
                kept = _may_be_kept(reference)
                return [pieces.exact(i, _elements(r), step, kept=kept) for i, r in enumerate(reference)]
        except torch.OutOfMemoryError:
            raise
        except Exception:  # a reference may refuse fp64, or fewer rows, in any way; then it is run as a whole
            continue
    return None


class _Pieces:
    """A reference in fp64 that is run on some rows at a time; `rows` are those of the inputs at positions `cut`."""

    def __init__(self, model: torch.nn.Module, values: Sequence[Any], cut: Sequence[int], rows: int) -> None:
        self._model, self._cut, self.rows = copy.deepcopy(model).double(), frozenset(cut), rows
        # What is not cut is the same for all pieces.
        wide = copies([v if i not in self._cut else None for i, v in enumerate(values)], torch.float64)
        self._values = [v if i in self._cut else wide[i] for i, v in enumerate(values)]

    def run(self, start: int, end: int) -> list[torch.Tensor]:
        values = [v[start:end] if i in self._cut else v for i, v in enumerate(self._values)]
        return outputs_of(self._model(*copies(values, torch.float64)))

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

    def exact(self, output: int, size: int, step: int, *, kept: bool) -> Exact:
        """Return the elements of one output of this `size`: made anew each time, or `kept` from the first on."""
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


def _may_be_kept(outputs: Sequence[torch.Tensor]) -> bool:
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


def _alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if not one.is_floating_point():
        return torch.equal(one, other)
    scale = float(one.nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt())
    return torch.allclose(one, other, rtol=_ALIKE, atol=_ALIKE * scale, equal_nan=True)
