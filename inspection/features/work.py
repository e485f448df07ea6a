"""Work of a launch, estimated from static facts: instructions issued, bytes in flight, latency, operations.

Loops hide how often their instructions run. It is guessed: often enough for the loads inside to fetch the task's bytes
once. The columns are `work.…` of `vector`; all are ratios or log2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from forewarp.core.values import Target

COLUMNS = {
    "work.bytes": "log2 of the time to move the task's bytes, over the floor",
    "work.once": "log2 of bytes loaded and stored if each instruction runs once, over the task's",
    "work.stored": "log2 of bytes stored if each store runs once, over the task's",
    "work.trips": "log2 of the guessed passes through the loops",
    "work.issue": "log2 of the time to issue the instructions with those passes, over the floor",
    "work.per_byte": "log2 of the instructions a thread runs, over its share of the bytes",
    "work.spread": "log2 of the share of multiprocessors that get a block, at most 0",
    "work.threads": "log2 of the threads resident on a multiprocessor",
    "work.in_flight": "log2 of 1 + bytes that the threads of a multiprocessor can have on their way",
    "work.latency": "log2 of the waves' passes at 600 ns each, over the floor",
    "work.block_registers": "log2 of the registers of a block",
    "work.tensor": "log2 of the task's operations over those that tensor instructions do if each runs once",
    "work.operations": "log2 of 1 + operations per byte",
    "work.scalar": "log2 of the time for the operations without tensor cores, over the floor; least if there are some",
    "work.barriers": "barriers for each global load",
    "work.loads": "global loads for each instruction of arithmetic",
    "work.addressing": "log2 of integer instructions for each access to global memory",
}
COUNTED = (
    *("tensor", "shared_load", "shared_store", "special", "fp32", "atomic", "integer", "shuffle", "barrier"),
    *("global_load", "global_store", "local_load"),
)
"""Classes of instructions whose number a thread counts too, not only their share."""

_FP32_PER_CYCLE = 256
_SCHEDULERS = 4
_WARP = 32
_MOST_THREADS = 2048
_LATENCY_S = 600e-9
_OPERATIONS_OF_AN_MMA = 4096
_FEW = 0.02
_NONE = -12.0

_NEEDED = ("instructions", "blocks", "threads", "floor_s", "bytes_per_thread")


def columns() -> dict[str, str]:
    return COLUMNS | {f"count.{n}": f"log2 of 1 + {n.replace('_', ' ')} instructions of a thread" for n in COUNTED}


def work(facts: Mapping[str, float], target: Target) -> dict[str, float]:
    """Return the columns by name, none where the launch or the target's rates are not known."""
    if not all(facts.get(n, 0.0) > 0 for n in _NEEDED) or not target.fp32_flops or not target.memory_bandwidth:
        return {}
    get, total = facts.get, facts["instructions"]
    share = {name: get(f"mix.{name}", 0.0) for name in (*COUNTED, "fp16", "async_copy")}
    threads = facts["blocks"] * facts["threads"]
    warps = facts["blocks"] * -(-facts["threads"] // _WARP)
    floor, moved = facts["floor_s"], facts["bytes_per_thread"] * threads
    loaded = total / 8 * sum(get(f"width.{n}", 0.0) * share[n] for n in ("global_load", "async_copy"))
    stored = total / 8 * get("width.global_store", 0.0) * share["global_store"]
    looping = get("loop_share", 0.0)
    trips = max(1.0, moved / max(loaded * warps * _WARP, 1.0)) if looping > _FEW else 1.0
    run = total * (1 - looping + looping * trips)
    hertz = target.fp32_flops / (target.processors * _FP32_PER_CYCLE)
    per_processor = facts["blocks"] / target.processors
    resident = facts["threads"] * min(
        per_processor, max(get("occupancy", 0.1) * _MOST_THREADS / facts["threads"], 1e-3)
    )
    operations = get("flops_per_byte", 0.0) * moved
    accesses = share["global_load"] + share["async_copy"] + share["global_store"]
    scalar = math.log2(operations / target.fp32_flops / floor) if operations and not share["tensor"] else _NONE
    found = {
        "work.bytes": math.log2(moved / target.memory_bandwidth / floor),
        "work.once": math.log2((loaded + stored + 1e-3) * warps * _WARP / moved),
        "work.stored": math.log2((stored + 1e-3) * warps * _WARP / moved),
        "work.trips": math.log2(trips),
        "work.issue": math.log2(run * warps / (target.processors * _SCHEDULERS * hertz) / floor),
        "work.per_byte": math.log2(run / facts["bytes_per_thread"]),
        "work.spread": min(0.0, math.log2(per_processor)),
        "work.threads": math.log2(resident),
        "work.in_flight": math.log2(
            1 + resident * get("width.global_load", 0.0) / 8 * max(1.0, share["global_load"] * total)
        ),
        "work.latency": math.log2(trips * _LATENCY_S * max(1.0, get("waves", 1.0)) / floor),
        "work.block_registers": math.log2(max(1.0, get("registers", 1.0)) * facts["threads"]),
        "work.operations": math.log2(1 + get("flops_per_byte", 0.0)),
        "work.scalar": scalar,
        "work.barriers": share["barrier"] / max(1e-3, share["global_load"] + share["async_copy"]),
        "work.loads": share["global_load"] / max(1e-3, share["fp32"] + share["fp16"] + share["integer"]),
        "work.addressing": math.log2((share["integer"] + 1e-3) / (accesses + 1e-3)),
    }
    if share["tensor"] and operations:
        found["work.tensor"] = math.log2(operations / (share["tensor"] * total * warps * _OPERATIONS_OF_AN_MMA))
    return found | {f"count.{name}": math.log2(1 + share[name] * total) for name in COUNTED}
