"""The time that a task needs at least on a target (Williams et al., "Roofline", 2009)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from forewarp.core.inspection import Bound
from forewarp.core.values import Signature, Target

_ITEM_BYTES = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2}

_LEAST_WORK = 1e-3
"""Operations a byte of a workload in which none are counted."""

_BYTE_SPEED = 2.0
"""Speed of int8 and fp8 on tensor cores over bf16: twice on every card in `devices` that has them."""


def floor_s(signature: Signature, target: Target) -> float:
    """Return the least seconds that a call can take on `target`: the larger of its bytes and its operations at peak.

    Inputs and weights must come from memory, because the cache is flushed; outputs may still lie in the L2 cache when
    the clock stops. Only operations that no kernel can do without count, at the rate of the fastest unit there is,
    which is twice as fast where an input is of single bytes. Zero where the target's rates are not known.
    """
    return max(_moving_s(signature, target), _computing_s(signature, target, signature.needed_flops))


def flops_per_byte(signatures: Sequence[Signature]) -> float:
    """Return the counted operations for each byte that has to move, as the geometric mean over a task's workloads."""
    logs = [math.log(max(_LEAST_WORK, (s.flops or 0.0) / max(1, s.bytes_moved))) for s in signatures]
    return math.exp(sum(logs) / len(logs))


def bound(signature: Signature, target: Target) -> Bound | None:
    """Return what bounds a kernel with all of the reference's work: memory or arithmetic; None if rates are unknown."""
    if not floor_s(signature, target):
        return None
    computing = _computing_s(signature, target, signature.flops or 0.0)
    return "memory" if _moving_s(signature, target) >= computing else "arithmetic"


def _moving_s(signature: Signature, target: Target) -> float:
    if target.memory_bandwidth is None:
        return 0.0
    written = sum(math.prod(s.shape) * _ITEM_BYTES.get(s.dtype, 1) for s in signature.outputs)
    staying = min(written, target.l2_bytes or 0)
    return (signature.bytes_moved - staying) / target.memory_bandwidth


def _computing_s(signature: Signature, target: Target, flops: float) -> float:
    rate = max(target.tensor_flops or 0.0, target.fp32_flops or 0.0)
    if target.memory_bandwidth is None or not rate:
        return 0.0
    bytewise = any(s.dtype not in _ITEM_BYTES for s in (*signature.inputs, *signature.params))
    return flops / (rate * (_BYTE_SPEED if bytewise else 1.0))
