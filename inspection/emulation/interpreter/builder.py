"""The operations of Triton's interpreter, with bf16 and TF32 as on a GPU and memory that is watched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from forewarp.inspection.emulation.interpreter import libdevice, numerics
from forewarp.inspection.emulation.interpreter.memory import Memory
from forewarp.inspection.emulation.interpreter.numerics import AnyArray


class Unsupported(Exception):
    """Something that cannot be interpreted here, although it may be right on a GPU."""


def builder_class(interpreter: Any) -> type:
    """Return a subclass of the interpreter's builder; needs `memory` set on its instance."""
    import triton.language as tl
    from triton._C.libtriton import ir

    handle = interpreter.TensorHandle
    numpy_type: Callable[[Any], np.dtype[Any]] = interpreter._get_np_dtype
    bf16 = tl.bfloat16
    fp8 = ("fp8e5", "fp8e4nv", "fp8e4b8", "fp8e5b16", "fp8e4b15")

    def fit(data: AnyArray, kind: Any) -> Any:
        """Return a result as a handle, rounded to its type."""
        scalar = kind.scalar
        if scalar == bf16:
            return handle(data if data.dtype == np.bool_ else numerics.round_bf16(data), scalar)
        wanted = numpy_type(scalar)
        return handle(data if data.dtype.itemsize <= wanted.itemsize else data.astype(wanted), scalar)

    def plain(mask: Any) -> AnyArray:
        """Return a mask as truth values; for block pointers it comes without a handle, after a splat as integers."""
        found: AnyArray = mask if isinstance(mask, np.ndarray) else mask.data
        return found.astype(np.bool_, copy=False)

    def in_memory(kind: Any) -> np.dtype[Any]:
        return np.dtype(np.uint16) if kind == bf16 else numpy_type(kind)

    def to_memory(data: AnyArray, kind: Any) -> AnyArray:
        return numerics.bf16_to_bits(data) if kind == bf16 else data.astype(numpy_type(kind), copy=False)

    def from_memory(data: AnyArray, kind: Any) -> AnyArray:
        return numerics.bf16_from_bits(data) if kind == bf16 else data

    def converted(data: AnyArray, source: Any, goal: Any) -> AnyArray:
        if source.name in fp8:
            data = numerics.fp8_values(data, source.name)
        if goal == bf16:
            return numerics.round_bf16(data.astype(np.float32))
        if goal.name in fp8:
            return numerics.fp8_bits(data.astype(np.float32), goal.name)
        if goal.is_int() and goal != tl.int1 and np.issubdtype(data.dtype, np.floating) and goal.int_bitwidth >= 32:
            return numerics.to_integers(data, numpy_type(goal))
        return data.astype(numpy_type(goal))

    class Builder(interpreter.InterpreterBuilder):
        """The interpreter's operations, with bf16 and TF32 as on a GPU and memory that is watched."""

        memory: Memory

        def get_bf16(self, value: float) -> Any:
            return handle(numerics.round_bf16(np.array([value], np.float32)), bf16)

        # Memory

        def create_masked_load(self, ptrs: Any, mask: Any, other: Any, *how: Any, **more: Any) -> Any:
            kind = ptrs.get_element_ty()
            rest = np.zeros(1, in_memory(kind)) if other is None else to_memory(other.data, kind)
            volatile = bool(how[2] if len(how) > 2 else more.get("is_volatile", False))
            found = self.memory.load(ptrs.data, plain(mask), rest, volatile=volatile)
            return handle(from_memory(found, kind), kind)

        def create_masked_store(self, ptrs: Any, value: Any, mask: Any, *_: Any, **__: Any) -> None:
            self.memory.store(ptrs.data, to_memory(value.data, ptrs.get_element_ty()), plain(mask))

        def create_atomic_rmw(self, rmwOp: Any, ptr: Any, val: Any, mask: Any, sem: Any, scope: Any) -> Any:
            kind = val.dtype.scalar
            function = _atomic(rmwOp.name)

            def apply(old: AnyArray, new: AnyArray) -> AnyArray:
                return to_memory(function(from_memory(old, kind), from_memory(new, kind)), kind)

            return self._change(ptr, plain(mask), to_memory(val.data, kind), apply, sem, kind)

        def create_atomic_cas(self, ptr: Any, cmp: Any, val: Any, sem: Any, scope: Any) -> Any:
            kind = cmp.dtype.scalar
            wanted = np.broadcast_to(to_memory(cmp.data, kind), ptr.data.shape)
            if wanted.size > 1:
                raise Unsupported("tl.atomic_cas on more than one element")

            def apply(old: AnyArray, new: AnyArray) -> AnyArray:
                return np.where(old == wanted.reshape(-1), new, old)

            return self._change(ptr, np.ones(ptr.data.shape, np.bool_), to_memory(val.data, kind), apply, sem, kind)

        def _change(self, ptr: Any, mask: AnyArray, values: AnyArray, apply: Any, sem: Any, kind: Any) -> Any:
            both = sem.name == "ACQUIRE_RELEASE"
            order = both or sem.name == "ACQUIRE", both or sem.name == "RELEASE"
            old = self.memory.change(ptr.data, mask, values, apply, order)
            return handle(from_memory(old, kind), kind)

        # Conversions

        def cast_impl(self, src: Any, dst_type: Any) -> Any:
            goal = dst_type.scalar
            return handle(converted(src.data, src.dtype.scalar, goal), goal)

        def create_fp_to_fp(self, src: Any, dst_type: Any, rounding_mode: Any) -> Any:
            goal = dst_type.scalar
            if rounding_mode == ir.ROUNDING_MODE.RTZ and goal.name in ("bf16", "fp16"):
                return handle(numerics.towards_zero(src.data, goal.name), goal)
            return handle(converted(src.data, src.dtype.scalar, goal), goal)

        def create_bitcast(self, src: Any, dst_type: Any) -> Any:
            goal = dst_type.scalar
            bits = np.ascontiguousarray(to_memory(src.data, src.dtype.scalar))
            return handle(from_memory(bits.view(in_memory(goal)), goal), goal)

        create_int_to_ptr = create_bitcast
        create_ptr_to_int = create_bitcast

        # Arithmetic

        def binary_op(self, lhs: Any, rhs: Any, op: Any) -> Any:
            return fit(op(lhs.data, rhs.data), lhs.dtype)

        def unary_op(self, arg: Any, op: Any) -> Any:
            return fit(op(arg.data), arg.dtype)

        def ternary_op(self, lhs: Any, rhs: Any, other: Any, op: Any) -> Any:
            return fit(op(lhs.data, rhs.data, other.data), other.dtype)

        def create_fma(self, x: Any, y: Any, z: Any) -> Any:
            return fit(x.data * y.data + z.data, z.dtype)

        def create_fabs(self, arg: Any) -> Any:
            return handle(np.abs(arg.data), arg.dtype.scalar)

        def create_erf(self, arg: Any) -> Any:
            return handle(numerics.through_torch(torch.special.erf, arg.data), arg.dtype.scalar)

        def create_rsqrt(self, arg: Any) -> Any:
            return fit(1 / np.sqrt(arg.data), arg.dtype)

        def create_extern_elementwise(
            self, libName: str, libPath: str, symbol: str, argList: Sequence[Any], retType: Any, isPure: bool
        ) -> Any:
            function = libdevice.find(symbol)
            if function is None:
                raise Unsupported(f"the math library's {symbol}")
            kind = retType.scalar
            return handle(np.asarray(function(*(a.data for a in argList))).astype(numpy_type(kind)), kind)

        def create_inline_asm(self, inlineAsm: str, *_: Any) -> Any:
            raise Unsupported(f"inline assembly ({inlineAsm.strip().splitlines()[0][:60]})")

        def create_dot(self, a: Any, b: Any, d: Any, input_precision: Any, max_num_imprecise_acc: Any) -> Any:
            left, right = (
                numerics.fp8_values(x.data, x.dtype.scalar.name) if x.dtype.scalar.name in fp8 else x.data
                for x in (a, b)
            )
            if np.issubdtype(left.dtype, np.integer):
                # Exact: products of bytes fit a double's 53 bits in any number that a block holds.
                product = np.matmul(left.astype(np.float64), right.astype(np.float64))
                return handle(product.astype(d.data.dtype) + d.data, d.dtype.scalar)
            if left.dtype == np.float64:
                return handle(np.matmul(left, right) + d.data, d.dtype.scalar)
            if a.dtype.scalar == tl.float32 and input_precision.name == "TF32":
                left, right = numerics.as_tf32(left), numerics.as_tf32(right)
            # Tensor cores add up in fp32, whatever the operands are.
            product = np.matmul(left.astype(np.float32), right.astype(np.float32)) + d.data.astype(np.float32)
            goal = d.dtype.scalar
            return fit(product, bf16) if goal == bf16 else handle(product.astype(d.data.dtype), goal)

        def create_dot_scaled(self, *_: Any) -> Any:
            raise Unsupported("tl.dot_scaled")

        def create_assert(self, condition: Any, message: str) -> None:
            """Say nothing: a kernel is compiled without its device_assert, unless TRITON_DEBUG is set."""

    return Builder


def _atomic(name: str) -> Callable[[AnyArray, AnyArray], AnyArray]:
    functions: dict[str, Callable[[AnyArray, AnyArray], AnyArray]] = {
        "ADD": np.add,
        "FADD": np.add,
        "MIN": np.minimum,
        "UMIN": np.minimum,
        "MAX": np.maximum,
        "UMAX": np.maximum,
        "AND": np.bitwise_and,
        "OR": np.bitwise_or,
        "XOR": np.bitwise_xor,
        "XCHG": lambda old, new: new,
    }
    return functions[name]
