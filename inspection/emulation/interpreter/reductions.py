"""Reductions and scans of whole arrays, in the order of a tree and rounded at each step where the type is narrow."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from forewarp.inspection.emulation.interpreter import numerics
from forewarp.inspection.emulation.interpreter.numerics import AnyArray

Combine = Callable[[Sequence[AnyArray], Sequence[AnyArray]], list[AnyArray]]
_BRANCHES = (ast.If, ast.IfExp, ast.While, ast.BoolOp)


def tree(arrays: Sequence[AnyArray], combine: Combine) -> list[AnyArray]:
    """Reduce the first axis, neighbours first."""
    left = list(arrays)
    while (count := len(left[0])) > 1:
        even = count // 2 * 2
        pairs = combine([a[0:even:2] for a in left], [a[1:even:2] for a in left])
        left = [np.concatenate([p, a[even:]]) for p, a in zip(pairs, left, strict=True)]
    return [a[0] for a in left]


def running(arrays: Sequence[AnyArray], combine: Combine) -> list[AnyArray]:
    """Scan the first axis: element i of the result is the combination of all up to i."""
    total, distance = list(arrays), 1
    while distance < len(total[0]):
        # Whole arrays, because Triton knows no shape that is not a power of two; the first elements are final.
        later = combine([np.roll(a, distance, axis=0) for a in total], total)
        total = [np.concatenate([a[:distance], b[distance:]]) for a, b in zip(total, later, strict=True)]
        distance *= 2
    return total


def sum_of(data: AnyArray, axis: int | None, *, keep_dims: bool, bf16: bool) -> AnyArray:
    """Add up along an axis; bf16 and fp16 are rounded after each addition, as the GPU's instructions do."""
    if not bf16 and data.dtype != np.float16:
        return np.sum(data, axis=axis, keepdims=keep_dims)

    def add(a: Sequence[AnyArray], b: Sequence[AnyArray]) -> list[AnyArray]:
        return [numerics.round_bf16(a[0] + b[0]) if bf16 else a[0] + b[0]]

    front = data.reshape(-1) if axis is None else np.moveaxis(data, axis, 0)
    total = np.asarray(tree([front], add)[0])
    if not keep_dims:
        return total
    return total.reshape((1,) * data.ndim) if axis is None else np.expand_dims(total, axis)


def install(interpreter: Any) -> None:
    """Have the interpreter reduce and scan this way."""
    import triton.language as tl

    def combination(operation: Any, kinds: Sequence[Any]) -> Combine:
        def combine(one: Sequence[AnyArray], other: Sequence[AnyArray]) -> list[AnyArray]:
            values = [operation.to_tensor(a, k) for a, k in zip([*one, *other], [*kinds, *kinds], strict=True)]
            result = operation.combine_fn.fn(*values)
            parts = result if isinstance(result, tuple) else (result,)
            return [np.broadcast_to(p.handle.data, one[0].shape) for p in parts]

        return combine

    slow_reduce, slow_scan = interpreter.ReduceOps.generic_reduce, interpreter.ScanOps.generic_scan

    def reduce(self: Any, inputs: Sequence[Any]) -> list[Any]:
        if _branches(self.combine_fn):
            return slow_reduce(self, inputs)
        kinds = [i.dtype for i in inputs]
        datas: list[AnyArray] = [i.handle.data for i in inputs]
        fronts = [d.reshape(-1) if self.axis is None else np.moveaxis(d, self.axis, 0) for d in datas]
        results = tree(fronts, combination(self, kinds))
        if self.keep_dims:
            shape = (1,) * datas[0].ndim
            results = [r.reshape(shape) if self.axis is None else np.expand_dims(r, self.axis) for r in results]
        return [self.to_tensor(r, k) for r, k in zip(results, kinds, strict=True)]

    def scan(self: Any, inputs: Sequence[Any]) -> list[Any]:
        if _branches(self.combine_fn):
            return slow_scan(self, inputs)
        kinds = [i.dtype for i in inputs]
        results = running([np.moveaxis(i.handle.data, self.axis, 0) for i in inputs], combination(self, kinds))
        return [self.to_tensor(np.moveaxis(r, 0, self.axis), k) for r, k in zip(results, kinds, strict=True)]

    def add_up(self: Any, value: Any) -> Any:
        bf16 = value.dtype == tl.bfloat16
        total = sum_of(value.handle.data, self.axis, keep_dims=self.keep_dims, bf16=bf16)
        return self.to_tensor(total, value.dtype)

    interpreter.ReduceOps.generic_reduce = reduce
    interpreter.ReduceOps.sum = add_up
    interpreter.ScanOps.generic_scan = scan


def _branches(function: Any) -> bool:
    """Return whether a combining function decides by single elements, which whole arrays cannot do."""
    try:
        tree_of = ast.parse(textwrap.dedent(inspect.getsource(function.fn)))
    except (OSError, SyntaxError):
        return True
    return any(isinstance(node, _BRANCHES) for node in ast.walk(tree_of))
