"""A candidate as one vector of numbers that mean the same for every task, for forecasters that learn across tasks.

Sizes enter as ratios to what the target has or the task needs, counts as log2. `docs/inspecting.md` lists the columns
and is checked against this module. A number that is not known is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from forewarp.core.values import Candidate, Language, Target
from forewarp.inspection.features import access, work

VECTOR_VERSION = 2
"""Rises whenever the same candidate would give other numbers, or columns come or go."""

Array = NDArray[np.float64]
_Facts = Mapping[str, float]

_CLASSES = (
    *("global_load", "global_store", "shared_load", "shared_store", "local_load", "local_store", "async_copy"),
    *("bulk_copy", "matrix_move", "tensor", "special", "fp32", "fp64", "fp16", "convert", "atomic", "shuffle"),
    *("barrier", "branch", "integer"),
)
_LANGUAGES: tuple[Language, ...] = ("triton", "cuda", "python", "cpp")
_TEN_MICROSECONDS = 1e-5
_FP32_PER_CYCLE = 256
_SCHEDULERS = 4


def _log2(value: float | None) -> float:
    return math.log2(value) if value is not None and value > 0 else math.nan


def _log2_1p(value: float | None) -> float:
    return math.log2(1 + value) if value is not None and value >= 0 else math.nan


def _ratio(value: float | None, to: float | None) -> float:
    return value / to if value is not None and to else math.nan


def _balance(facts: _Facts, target: Target) -> float:
    rate = target.tensor_flops or target.fp32_flops
    if not rate or not target.memory_bandwidth:
        return math.nan
    return _log2_1p(facts.get("flops_per_byte", 0.0)) - math.log2(1 + rate / target.memory_bandwidth)


def _moved(facts: _Facts, target: Target) -> float:
    if "floor_s" not in facts or not target.memory_bandwidth or not target.l2_bytes:
        return math.nan
    return _log2(facts["floor_s"] * target.memory_bandwidth / target.l2_bytes)


def _issue(facts: _Facts, target: Target) -> float:
    """Return log2 of the time to issue each instruction once, over the floor; loops make the truth longer."""
    known = ("instructions", "blocks", "threads", "floor_s")
    if not target.fp32_flops or any(name not in facts for name in known):
        return math.nan
    hertz = target.fp32_flops / (target.processors * _FP32_PER_CYCLE)
    warps = facts["blocks"] * -(-facts["threads"] // 32)
    seconds = facts["instructions"] * warps / (target.processors * _SCHEDULERS * hertz)
    return _log2(seconds / facts["floor_s"])


def _loaded(facts: _Facts, _: Target) -> float:
    """Return log2 of the bytes that a thread loads if each load runs once, over its share of the task's bytes."""
    bits = sum(
        facts.get(f"width.{kind}", 0.0) * facts.get(f"mix.{kind}", 0.0) for kind in ("global_load", "async_copy")
    )
    return _log2(_ratio(bits / 8 * facts.get("instructions", 0.0), facts.get("bytes_per_thread")))


_COLUMNS: dict[str, tuple[str, Callable[[_Facts, Target], float]]] = {
    "waves": ("log2 of the waves of the main launch", lambda f, _: _log2(f.get("waves"))),
    "tail": ("share of the device that idles in the last wave, of all waves", lambda f, _: f.get("tail", math.nan)),
    "occupancy": ("resident warps as a share of the most", lambda f, _: f.get("occupancy", math.nan)),
    "registers": ("registers a thread, of 255", lambda f, _: _ratio(f.get("registers"), 255)),
    "local": ("log2 of 1 + bytes of local memory a thread", lambda f, _: _log2_1p(f.get("stack_bytes"))),
    "shared": (
        "shared memory of a block, as a share of the most",
        lambda f, t: _ratio(f.get("shared_bytes"), t.shared_bytes),
    ),
    "threads": ("log2 of the threads of a block", lambda f, _: _log2(f.get("threads"))),
    "blocks": ("log2 of blocks a multiprocessor", lambda f, t: _log2(_ratio(f.get("blocks"), t.processors))),
    "launches": ("log2 of the number of launches", lambda f, _: _log2(f.get("launches"))),
    "calls": ("log2 of 1 + library calls of a module", lambda f, _: _log2_1p(f.get("calls"))),
    "bytes_per_thread": ("log2 of the task's bytes a thread", lambda f, _: _log2(f.get("bytes_per_thread"))),
    "balance": ("log2 of operations per byte, less the target's own", _balance),
    "floor": ("log2 of the roofline floor, in tens of microseconds", lambda f, _: _log2(_in_tens(f))),
    "moved": ("log2 of the floor's bytes over the L2 cache", _moved),
    "instructions": ("log2 of the static instructions", lambda f, _: _log2(f.get("instructions"))),
    "loop_share": ("share of the instructions inside loops", lambda f, _: f.get("loop_share", math.nan)),
    "issue": ("log2 of the time to issue each instruction once, over the floor", _issue),
    "loaded": ("log2 of bytes a thread loads at one pass, over its share", _loaded),
    "load_width": ("log2 of the mean bits of a global load", lambda f, _: _log2(f.get("width.global_load"))),
    "store_width": ("log2 of the mean bits of a global store", lambda f, _: _log2(f.get("width.global_store"))),
}


def _in_tens(facts: _Facts) -> float | None:
    return facts["floor_s"] / _TEN_MICROSECONDS if "floor_s" in facts else None


_TUNABLES = {
    "tunables.count": "number of tunables",
    "tunables.product": "log2 of the product of the tunables",
    "tunables.largest": "log2 of the largest tunable",
    "tunables.second": "log2 of the second largest",
    "tunables.warps": "log2 of 1 + the tunable with WARPS in its name",
    "tunables.stages": "log2 of 1 + the tunable with STAGES in its name",
    "tunables.vector": "log2 of 1 + the tunable with VEC or WIDTH in its name",
    "tunables.items": "log2 of 1 + the largest tunable with PER, ITEMS, STEPS, UNROLL or ROWS in its name",
}
_ROLES = {
    "tunables.warps": ("WARPS",),
    "tunables.stages": ("STAGES",),
    "tunables.vector": ("VEC", "WIDTH"),
    "tunables.items": ("PER", "ITEMS", "STEPS", "UNROLL", "ROWS"),
}


def _tunables(candidate: Candidate) -> dict[str, float]:
    """Return features that tunables of any name have in common: their sizes, and the roles of usual names."""
    sizes = sorted((math.log2(v) for v in candidate.tunables.values() if v > 0), reverse=True)
    found = {"tunables.count": float(len(candidate.tunables)), "tunables.product": sum(sizes)}
    found |= dict(zip(("tunables.largest", "tunables.second"), sizes, strict=False))
    for column, words in _ROLES.items():
        values = [v for name, v in candidate.tunables.items() if any(w in name.upper() for w in words)]
        if values and max(values) >= 0:
            found[column] = math.log2(1 + max(values))
    return found


def columns() -> dict[str, str]:
    found = {name: text for name, (text, _) in _COLUMNS.items()}
    found |= {f"mix.{name}": f"share of {name.replace('_', ' ')} instructions" for name in _CLASSES}
    found["problems"] = "number of problems found by looking"
    found |= {f"language.{name}": f"1 for a {name} candidate" for name in _LANGUAGES}
    found |= work.columns() | access.COLUMNS | _TUNABLES
    found["anchor"] = "log2 of the anchor's measured time over the floor"
    return found


def vector(
    facts: _Facts, problems: int, candidate: Candidate, target: Target, anchor_s: float | None = None
) -> dict[str, float]:
    """Return the columns of one candidate by name, from `gpu_runner.evidence.facts` and the anchor's measured time."""
    found = {name: work(facts, target) for name, (_, work) in _COLUMNS.items()}
    compiled = "instructions" in facts
    found |= {f"mix.{name}": facts.get(f"mix.{name}", 0.0) if compiled else math.nan for name in _CLASSES}
    found["problems"] = float(problems)
    found |= {f"language.{name}": float(name == candidate.language) for name in _LANGUAGES}
    extra = work.work(facts, target) | access.columns(candidate) | _tunables(candidate)
    found |= {name: extra.get(name, math.nan) for name in (*work.columns(), *access.COLUMNS, *_TUNABLES)}
    found["anchor"] = _log2(_ratio(anchor_s, facts.get("floor_s")))
    return found


def matrix(rows: list[Mapping[str, float]]) -> Array:
    """Return rows of `vector` as one array, NaN where a number is not known."""
    names = tuple(columns())
    return np.array([[row.get(name, math.nan) for name in names] for row in rows]).reshape(len(rows), len(names))
