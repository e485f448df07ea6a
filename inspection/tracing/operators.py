"""Operators of libraries between a module's own launches, recorded at torch's dispatcher."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from forewarp.gpu_runner.worker.operations import OperationMode, flop_formulas
from forewarp.inspection.tracing.recorder import Recorder
from forewarp.inspection.tracing.values import LibraryCall

MOST_FLOPS = 2e8
"""Matrix products, convolutions and attention beyond this many operations are not computed: zeros stand for the result.

A trace needs their shapes only, and a kernel's results are not there either.
"""
_REPEATED = 1_000_003
"""Larger tensors of random numbers are made of this many, over and over: drawing them would take most of the time."""
_RANDOM = (torch.ops.aten.randn.default, torch.ops.aten.rand.default)
_FRESH_BYTES = 64 << 20
"""Bytes from which on memory is mapped anew for each allocation."""
_ZEROS = (torch.ops.aten.zeros.default, torch.ops.aten.zeros_like.default, torch.ops.aten.new_zeros.default)
# No kernel runs for these: views are told by their schema.
_FREE = {
    *("empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided", "empty_permuted", "set_", "resize_"),
    *("detach", "detach_", "alias", "lift", "lift_fresh", "is_pinned", "is_same_size", "sym_size", "sym_numel"),
    *("sym_stride", "sym_storage_offset", "size", "stride", "_unsafe_view", "_reshape_alias", "unsafe_split", "t_"),
    *("transpose_", "squeeze_", "unsqueeze_", "is_contiguous", "dim", "device", "layout", "_assert_async"),
    *("_has_compatible_shallow_copy_type", "equal_meta", "_assert_tensor_metadata"),
}
# Common names of operators that have names of their own for CPU tensors.
_NAMES = {
    "_scaled_dot_product_flash_attention_for_cpu": "scaled_dot_product_attention",
    "_scaled_dot_product_attention_math": "scaled_dot_product_attention",
    "_scaled_dot_product_fused_attention_overrideable": "scaled_dot_product_attention",
    "_native_batch_norm_legit_no_training": "batch_norm",
    "mkldnn_rnn_layer": "rnn_layer",
    "_local_scalar_dense": "item",
}


class Operators(OperationMode):
    """Records every operator that would start work on the device."""

    def __init__(self, recorder: Recorder, *, values: bool) -> None:
        """Record to `recorder`; `values` says that tensors have values, so that costly operators are passed over."""
        super().__init__()
        self.recorder, self.values = recorder, values
        self.costly = flop_formulas() if values else {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        result = self._result(func, args, named)
        name = _name(func)
        if name:
            tensors = _tensors([*args, *named.values()]) or _tensors([result])
            self.recorder.add(LibraryCall(name, tuple(_text(t) for t in tensors)))
        return result

    def _result(self, func: Any, args: Sequence[Any], named: dict[str, Any]) -> Any:
        if self.values and func in _RANDOM and math.prod(args[0]) > 4 * _REPEATED:
            return _repeated(func, args[0], named)
        if self.values and func in _ZEROS:
            return _zeros(func(*tree_map_only(torch.Tensor, _meta, tuple(args)), **{**named, "device": "meta"}))
        formula = self.costly.get(func.overloadpacket)
        like = self._shapes_of(func, args, named, formula) if formula is not None else None
        return func(*args, **named) if like is None else tree_map_only(torch.Tensor, _zeros, like)

    def _shapes_of(self, func: Any, args: Sequence[Any], named: dict[str, Any], formula: Any) -> Any:
        """Return the result on meta tensors if computing it would take long, else None."""
        try:
            shapes = tree_map_only(torch.Tensor, _meta, (tuple(args), named))
            result = func(*shapes[0], **shapes[1])
            return result if formula(*shapes[0], **shapes[1], out_val=result) > MOST_FLOPS else None
        except (NotImplementedError, RuntimeError, TypeError):
            return None


def _repeated(func: Any, size: Sequence[int], named: Mapping[str, Any]) -> torch.Tensor:
    block: torch.Tensor = func([_REPEATED], **named)
    result = torch.empty(list(size), dtype=block.dtype)
    flat = result.view(-1)
    whole = flat.numel() // _REPEATED * _REPEATED
    flat[:whole].view(-1, _REPEATED).copy_(block)
    flat[whole:].copy_(block[: flat.numel() - whole])
    return result


def _meta(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def _zeros(like: torch.Tensor) -> torch.Tensor:
    result = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype)
    # Fresh memory is zero already, and costs nothing until it is read.
    return result if result.untyped_storage().nbytes() > _FRESH_BYTES else result.zero_()


def _name(func: Any) -> str:
    """Return an operator's name; "" if it starts no work."""
    namespace, _, name = str(func.overloadpacket._qualified_op_name).partition("::")
    if namespace not in ("aten", "prim", "prims"):
        return f"{namespace}::{name}"
    return "" if name in _FREE or _is_view(func) else _NAMES.get(name, name).lstrip("_")


def _is_view(func: Any) -> bool:
    aliases = [r.alias_info for r in func._schema.returns]
    return any(a is not None and not a.is_write for a in aliases)


def _tensors(values: Sequence[Any]) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += [v for v in value if isinstance(v, torch.Tensor)]
    return found


def _text(tensor: torch.Tensor) -> str:
    shape = "×".join(str(n) for n in tensor.shape) or "scalar"
    return f"{shape} {str(tensor.dtype).removeprefix('torch.')}"
