"""The reference's time: measured, or forecast from its own operations where nobody has measured it.

An operation takes a launch, and then the longer of what it moves and what it computes, at the rates that operations of
its kind reach as shares of the target's peaks. `benchmarks/fit_operations.py` makes the table of these shares from
references whose times were measured, and the spread of what it says about others.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from forewarp.core import serde
from forewarp.core.values import Operation, Signature, Target

SHIPPED = Path(__file__).with_name("operations.json")

_BYTE_SPEED, _TF32_SPEED = 2.0, 0.5
"""Speed of tensor cores for single bytes and for TF32, over that for 16 bits."""
_OTHER_L2 = 0.5
"""Share of the L2 cache that a tensor may take to be still there for the operation after the one that wrote it."""


@dataclass(frozen=True, slots=True)
class ReferenceTime:
    """Seconds of a task's reference by workload, forecast with a spread, or measured with none.

    A call consists of so many `operations`, 0 if not counted; `versions` are those of torch and Triton.
    """

    seconds: Mapping[str, float]
    sd_log2: float = 0.0
    operations: int = 0
    versions: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def mean_s(self) -> float:
        """The geometric mean over the workloads."""
        return statistics.geometric_mean(self.seconds.values())


def versions_of(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the versions of torch and Triton in an environment, as prompts name them."""
    shown = {"torch": "torch", "triton": "Triton"}
    return {name: environment[key] for key, name in shown.items() if key in environment}


@dataclass(frozen=True, slots=True)
class OperationRates:
    """Shares of the peaks of a `card` that operations reach by kind, fitted to measured references.

    `computing` is by kind and bits, such as `product.16`; `cached` is the time for bytes in the L2 cache over that for
    bytes from memory. `sd_log2` is the spread for other families, by the kind that takes most; other cards add theirs.
    """

    card: str
    launch_s: float
    moving: Mapping[str, float]
    computing: Mapping[str, float]
    cached: float
    sd_log2: Mapping[str, float] = field(default_factory=dict[str, float])
    elsewhere_sd_log2: float = 0.0
    origin: str = ""

    def seconds(self, operation: Operation, target: Target) -> float:
        """Return the seconds of all calls of an operation on a target whose rates are known."""
        bandwidth, cache = target.memory_bandwidth or math.inf, _OTHER_L2 * (target.l2_bytes or 0)
        near = min(operation.kept, cache) if operation.kept <= cache else 0.0
        moved = operation.read - near * (1 - self.cached) + operation.written
        moving = moved / (bandwidth * self.moving.get(operation.kind, self.moving["other"]))
        computing = 0.0
        if operation.flops:
            kind, peak = rate_of(operation, target)
            computing = operation.flops / (peak * self.computing[kind])
        return operation.times * (self.launch_s + max(moving, computing))


@lru_cache(maxsize=1)
def shipped() -> OperationRates:
    return serde.from_data(OperationRates, json.loads(SHIPPED.read_text(encoding="utf-8")))


def forecast(
    signatures: Sequence[Signature], target: Target, rates: OperationRates | None = None
) -> ReferenceTime | None:
    """Forecast a reference's time on a GPU; None where its operations or the target's rates are not known."""
    if not is_known(target) or not signatures or not all(s.operations for s in signatures):
        return None
    rates = rates or shipped()
    by_kind = [kinds(s, target, rates) for s in signatures]
    longest = [max(found, key=found.__getitem__) for found in by_kind]
    spreads = [rates.sd_log2.get(kind, rates.sd_log2["other"]) for kind in longest]
    away = 0.0 if target.name == rates.card else rates.elsewhere_sd_log2
    seconds = {s.workload: sum(found.values()) for s, found in zip(signatures, by_kind, strict=True)}
    # One reference errs alike on all its workloads.
    return ReferenceTime(seconds, math.hypot(statistics.fmean(spreads), away))


def is_known(target: Target) -> bool:
    """Return whether a target is a GPU whose peak rates are known."""
    return target.kind == "cuda" and None not in (target.memory_bandwidth, target.fp32_flops, target.tensor_flops)


def count(signatures: Sequence[Signature]) -> int:
    """Return how many operations a call of a reference consists of; the mean over the workloads."""
    return round(statistics.fmean(sum(o.times for o in s.operations) for s in signatures)) if signatures else 0


def kinds(signature: Signature, target: Target, rates: OperationRates) -> dict[str, float]:
    """Return the seconds of a reference by kind of operation."""
    found: dict[str, float] = {}
    for operation in signature.operations:
        found[operation.kind] = found.get(operation.kind, 0.0) + rates.seconds(operation, target)
    return found


def rate_of(operation: Operation, target: Target) -> tuple[str, float]:
    """Return the key of an operation's rate, and the peak that it is a share of."""
    tensor, scalar = target.tensor_flops or 0.0, target.fp32_flops or 0.0
    if operation.dtype in ("float16", "bfloat16"):
        return f"{operation.kind}.16", tensor
    if operation.dtype in ("float32", "float64"):
        # torch lets convolutions use TF32 unless told otherwise, and products not.
        return f"{operation.kind}.32", tensor * _TF32_SPEED if operation.kind == "convolution" else scalar
    return f"{operation.kind}.8", tensor * _BYTE_SPEED
