"""Memory access patterns of a candidate, read off its text: sectors touched over the bytes that were asked for.

Nothing of the candidate is run. A small evaluator works out the addresses of one warp (CUDA) or one tile (Triton) from
the expressions in the text, with a made-up size for every dimension, and gives up on what it does not know. A loop's
body is read once. What is found are the columns `access.…` of `vector`.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from forewarp.core.errors import ForewarpError
from forewarp.core.values import Candidate
from forewarp.gpu_runner.formats import plan as plans
from forewarp.gpu_runner.formats.plan import LaunchPlan
from forewarp.inspection.features import access_cuda, access_triton
from forewarp.inspection.features.addresses import SIZE, Access, Found, Ints, number

COLUMNS = {
    "access.load": "log2 of sectors loaded over bytes asked for, mean of the loads",
    "access.load_worst": "the same of the worst load",
    "access.store": "log2 of sectors stored over bytes given, mean of the stores",
    "access.store_worst": "the same of the worst store",
    "access.run": "log2 of neighbouring elements that one instruction touches together, mean",
    "access.tile": "log2 of the elements of the largest tile of a Triton kernel",
    "access.shared": "log2 of ways of the worst bank conflict seen in shared memory",
    "access.same": "share of the accesses at which all lanes read one address",
    "access.random": "share of the accesses at addresses that were loaded",
    "access.seen": "log2 of 1 + accesses that were understood",
    "access.blind": "share of the accesses that were not",
}

_LANES = 32
_SECTOR = 32
_MOST = 1 << 15
_BANKS = 32


def columns(candidate: Candidate) -> dict[str, float]:
    """Return the columns of `COLUMNS` by name; unknown ones are missing."""
    return dict(_columns(candidate.language, candidate.source, tuple(sorted(candidate.tunables.items()))))


@lru_cache(maxsize=4096)
def _columns(language: str, source: str, tunables: tuple[tuple[str, int], ...]) -> tuple[tuple[str, float], ...]:
    found = Found()
    try:
        plan = plans.parse(Candidate(source, language, dict(tunables)))  # pyright: ignore[reportArgumentType]
        names = sizes(plan, dict(tunables))
    except (ForewarpError, ValueError, ArithmeticError):
        return ()
    text = plans.without_block(source)
    if language == "cuda":
        access_cuda.read(text, plan, names, found)
    elif language == "triton":
        access_triton.read(text, plan, names, found)
    return tuple(_summary(found).items())


def sizes(plan: LaunchPlan, tunables: dict[str, int]) -> dict[str, int]:
    """Return a number for every name of the plan: the tunables' own, for the rest one that fits the made-up shapes."""
    buffers = (*plan.inputs, *plan.outputs, *(s.name for s in plan.scratch))
    shapes: dict[str, object] = dict.fromkeys(buffers, (SIZE,) * 6)
    shapes |= {f"init{i}": 8 for i in range(8)} | plan.defaults() | tunables
    for name, expression in (*plan.let.items(), *plan.constants.items()):
        shapes[name] = number(expression, shapes)
    return {n: v for n, v in shapes.items() if isinstance(v, int)}


def _summary(found: Found) -> dict[str, float]:
    kept = [a for a in found.accesses if not a.shared]
    total = len(kept) + found.blind
    said: dict[str, float] = {"access.seen": math.log2(1 + len(kept))}
    if total:
        said["access.blind"] = found.blind / total
    loads = [_waste(a) for a in kept if not a.store and a.offsets.size > 1]
    stores = [_waste(a) for a in kept if a.store and a.offsets.size > 1]
    for name, values in (("load", loads), ("store", stores)):
        if values:
            said |= {f"access.{name}": float(np.mean(values)), f"access.{name}_worst": max(values)}
    if kept:
        said["access.run"] = float(np.mean([math.log2(_run(a)) for a in kept]))
        said["access.tile"] = math.log2(max(a.offsets.size for a in kept))
        said["access.same"] = sum(int(a.offsets.min() == a.offsets.max()) for a in kept) / len(kept)
        said["access.random"] = sum(a.random for a in kept) / len(kept)
    conflicts = [_ways(a) for a in found.accesses if a.shared]
    if conflicts:
        said["access.shared"] = math.log2(max(conflicts))
    return said


def _waste(access: Access) -> float:
    """Return log2 of bytes of the sectors that a warp touches, over the bytes that it asks for."""
    lanes = _in_order(access)
    groups = lanes[: len(lanes) // _LANES * _LANES].reshape(-1, _LANES) if len(lanes) >= _LANES else lanes[None, :]
    first = groups * access.bytes // _SECTOR
    last = (groups * access.bytes + access.bytes - 1) // _SECTOR
    touched = [
        len(np.union1d(a, b))
        for a, b in zip(first[:: max(1, len(first) // 8)], last[:: max(1, len(first) // 8)], strict=True)
    ]
    return math.log2(float(np.mean(touched)) * _SECTOR / (groups.shape[1] * access.bytes))


def _run(access: Access) -> float:
    """Return how many neighbouring elements lie together, on average, in the order that suits the hardware best."""
    lanes = np.unique(_in_order(access))
    return len(lanes) / (1 + int((np.diff(lanes) != 1).sum()))


def _ways(access: Access) -> int:
    words = np.unique(access.offsets.ravel()[:_LANES] * access.bytes // 4)
    return int(np.bincount(words % _BANKS).max())


def _in_order(access: Access) -> Ints:
    """Return the offsets of a tile with its closest neighbours next to each other, as a compiler would lay them out."""
    tile = access.offsets
    if tile.ndim > 1:
        steps = [_step(tile, axis) for axis in range(tile.ndim)]
        tile = np.moveaxis(tile, int(np.argmin(steps)), -1)
    return tile.ravel()[:_MOST]


def _step(tile: Ints, axis: int) -> float:
    if tile.shape[axis] < 2:
        return math.inf
    step = abs(int(np.take(tile, 1, axis).flat[0]) - int(np.take(tile, 0, axis).flat[0]))
    return step if step else math.inf
