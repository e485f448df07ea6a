"""The operations of Triton's interpreter, with bf16 and TF32 as on a GPU and memory that is watched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from forewarp.inspection.emulation.interpreter import libdevice, numerics
from forewarp.inspection.emulation.interpreter.memory import Memory
from forewarp.inspection.emulation.interpreter.numerics import AnyArray

_FP8 = ("fp8e5", "fp8e4nv", "fp8e4b8", "fp8e5b16", "fp8e4b15")


class Unsupported(Exception):
    """Something that cannot be interpreted here, although it may be right on a GPU."""


def builder_class(interpreter: Any) -> type:
    """Return a subclass of the interpreter's builder; needs `memory` set on its instance."""
    types = _Types(interpreter.TensorHandle, interpreter._get_np_dtype)
    return type("Builder", (_Operations, interpreter.InterpreterBuilder), {"types": types})


class _Types:
    """The interpreter's handles, and the arrays in them: bf16 is kept as fp32, and as words in memory."""

    def __init__(self, handle: Callable[[Any, Any], Any], numpy_type: Callable[[Any], np.dtype[Any]]) -> None:
        import triton.language as tl

        self.handle, self.numpy_type, self.bf16 = handle, numpy_type, tl.bfloat16
        self._truth = tl.int1

    def fit(self, data: AnyArray, kind: Any) -> Any:
        """Return a result as a handle, rounded to its type."""
        scalar = kind.scalar
        if scalar == self.bf16:
            return self.handle(data if data.dtype == np.bool_ else numerics.round_bf16(data), scalar)
        wanted = self.numpy_type(scalar)
        return self.handle(data if data.dtype.itemsize <= wanted.itemsize else data.astype(wanted), scalar)

    def in_memory(self, kind: Any) -> np.dtype[Any]:
        return np.dtype(np.uint16) if kind == self.bf16 else self.numpy_type(kind)

    def to_memory(self, data: AnyArray, kind: Any) -> AnyArray:
        return numerics.bf16_to_bits(data) if kind == self.bf16 else data.astype(self.numpy_type(kind), copy=False)

    def from_memory(self, data: AnyArray, kind: Any) -> AnyArray:
        return numerics.bf16_from_bits(data) if kind == self.bf16 else data

    def converted(self, data: AnyArray, source: Any, goal: Any) -> Any:
        """Return an array of one type as a handle of another."""
        data = _values(data, source)
        if goal == self.bf16:
            return self.handle(numerics.round_bf16(data.astype(np.float32)), goal)
        if goal.name in _FP8:
            return self.handle(numerics.fp8_bits(data.astype(np.float32), goal.name), goal)
        wide = goal.is_int() and goal != self._truth and goal.int_bitwidth >= 32
        if wide and np.issubdtype(data.dtype, np.floating):
            return self.handle(numerics.to_integers(data, self.numpy_type(goal)), goal)
        return self.handle(data.astype(self.numpy_type(goal)), goal)


class _Operations:
    """The operations that are done in another way than the interpreter does them; names are the interpreter's."""

    types: _Types
    memory: Memory

    def get_bf16(self, value: float) -> Any:
        return self.types.handle(numerics.round_bf16(np.array([value], np.float32)), self.types.bf16)

    # Memory

    def create_masked_load(self, ptrs: Any, mask: Any, other: Any, *how: Any, **more: Any) -> Any:
        kind, types = ptrs.get_element_ty(), self.types
        rest = np.zeros(1, types.in_memory(kind)) if other is None else types.to_memory(other.data, kind)
        volatile = bool(how[2] if len(how) > 2 else more.get("is_volatile", False))
        found = self.memory.load(ptrs.data, _truths(mask), rest, volatile=volatile)
        return types.handle(types.from_memory(found, kind), kind)

    def create_masked_store(self, ptrs: Any, value: Any, mask: Any, *_: Any, **__: Any) -> None:
        self.memory.store(ptrs.data, self.types.to_memory(value.data, ptrs.get_element_ty()), _truths(mask))

    def create_atomic_rmw(self, rmwOp: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:
        kind, types = val.dtype.scalar, self.types
        function = _ATOMIC[rmwOp.name]

        def apply(old: AnyArray, new: AnyArray) -> AnyArray:
            return types.to_memory(function(types.from_memory(old, kind), types.from_memory(new, kind)), kind)

        return self._change(ptr, _truths(mask), val, apply, sem)

    def create_atomic_cas(self, ptr: Any, cmp: Any, val: Any, sem: Any, scope: Any) -> Any:
        wanted = np.broadcast_to(self.types.to_memory(cmp.data, cmp.dtype.scalar), ptr.data.shape)
        if wanted.size > 1:
            raise Unsupported("tl.atomic_cas on more than one element")

        def apply(old: AnyArray, new: AnyArray) -> AnyArray:
            return np.where(old == wanted.reshape(-1), new, old)

        return self._change(ptr, np.ones(ptr.data.shape, np.bool_), val, apply, sem)

    def _change(self, ptr: Any, mask: AnyArray, val: Any, apply: Any, sem: Any) -> Any:
        both, kind = sem.name == "ACQUIRE_RELEASE", val.dtype.scalar
        order = both or sem.name == "ACQUIRE", both or sem.name == "RELEASE"
        old = self.memory.change(ptr.data, mask, self.types.to_memory(val.data, kind), apply, order)
        return self.types.handle(self.types.from_memory(old, kind), kind)

    # Conversions

    def cast_impl(self, src: Any, dst_type: Any) -> Any:
        return self.types.converted(src.data, src.dtype.scalar, dst_type.scalar)

    def create_fp_to_fp(self, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
        from triton._C.libtriton import ir

        goal = dst_type.scalar
        if rounding_mode == ir.ROUNDING_MODE.RTZ and goal.name in ("bf16", "fp16"):
            return self.types.handle(numerics.towards_zero(src.data, goal.name), goal)
        return self.types.converted(src.data, src.dtype.scalar, goal)

    def create_bitcast(self, src: Any, dst_type: Any) -> Any:
        goal, types = dst_type.scalar, self.types
        bits = np.ascontiguousarray(types.to_memory(src.data, src.dtype.scalar))
        return types.handle(types.from_memory(bits.view(types.in_memory(goal)), goal), goal)

    create_int_to_ptr = create_bitcast
    create_ptr_to_int = create_bitcast

    # Arithmetic

    def binary_op(self, lhs: Any, rhs: Any, op: Any) -> Any:
        return self.types.fit(op(lhs.data, rhs.data), lhs.dtype)

    def unary_op(self, arg: Any, op: Any) -> Any:
        return self.types.fit(op(arg.data), arg.dtype)

    def ternary_op(self, lhs: Any, rhs: Any, other: Any, op: Any) -> Any:
        return self.types.fit(op(lhs.data, rhs.data, other.data), other.dtype)

    def create_fma(self, x: Any, y: Any, z: Any) -> Any:
        return self.types.fit(x.data * y.data + z.data, z.dtype)

    def create_fabs(self, arg: Any) -> Any:
        return self.types.handle(np.abs(arg.data), arg.dtype.scalar)

    def create_erf(self, arg: Any) -> Any:
        return self.types.handle(numerics.through_torch(torch.special.erf, arg.data), arg.dtype.scalar)

    def create_rsqrt(self, arg: Any) -> Any:
        return self.types.fit(1 / np.sqrt(arg.data), arg.dtype)

    def create_extern_elementwise(
        self, libName: str, libPath: str, symbol: str, argList: Sequence[Any], retType: Any, isPure: bool
    ) -> Any:
        function = libdevice.find(symbol)
        if function is None:
            raise Unsupported(f"the math library's {symbol}")
        kind = retType.scalar
        found = np.asarray(function(*(a.data for a in argList)))
        return self.types.handle(found.astype(self.types.numpy_type(kind)), kind)

    def create_inline_asm(self, inlineAsm: str, *_: Any) -> Any:
        raise Unsupported(f"inline assembly ({inlineAsm.strip().splitlines()[0][:60]})")

    def create_dot(self, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any) -> Any:
        left, right = (_values(x.data, x.dtype.scalar) for x in (a, b))
        goal = d.dtype.scalar
        if np.issubdtype(left.dtype, np.integer):
            # Exact: products of bytes fit a double's 53 bits in any number that a block holds.
            product = np.matmul(left.astype(np.float64), right.astype(np.float64))
            return self.types.handle(product.astype(d.data.dtype) + d.data, goal)
        if left.dtype == np.float64:
            return self.types.handle(np.matmul(left, right) + d.data, goal)
        if a.dtype.scalar.name == "fp32" and input_precision.name == "TF32":
            left, right = numerics.as_tf32(left), numerics.as_tf32(right)
        # Tensor cores add up in fp32, whatever the operands are.
        product = np.matmul(left.astype(np.float32), right.astype(np.float32)) + d.data.astype(np.float32)
        return self.types.fit(product if goal == self.types.bf16 else product.astype(d.data.dtype), goal)

    def create_dot_scaled(self, *_: Any) -> Any:
        raise Unsupported("tl.dot_scaled")

    def create_assert(self, condition: Any, message: str) -> None:
        """Say nothing: a kernel is compiled without its device_assert, unless TRITON_DEBUG is set."""


def _values(data: AnyArray, kind: Any) -> AnyArray:
    """Return an array with fp8 as the values that its bytes stand for."""
    return numerics.fp8_values(data, kind.name) if kind.name in _FP8 else data


def _truths(mask: Any) -> AnyArray:
    """Return a mask as truth values; for block pointers it comes without a handle, after a splat as integers."""
    found: AnyArray = mask if isinstance(mask, np.ndarray) else mask.data
    return found.astype(np.bool_, copy=False)


_ATOMIC: dict[str, Callable[[AnyArray, AnyArray], AnyArray]] = {
    **{"ADD": np.add, "FADD": np.add, "AND": np.bitwise_and, "OR": np.bitwise_or, "XOR": np.bitwise_xor},
    **{"MIN": np.minimum, "UMIN": np.minimum, "MAX": np.maximum, "UMAX": np.maximum},
    "XCHG": lambda old, new: new,
}
