"""An inspection as named numbers, for forecasters."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from forewarp.core.inspection import Inspection, Launch, WorkloadInspection


def facts(inspection: Inspection) -> dict[str, float]:
    """Return the numbers of an inspection, geometric means over the workloads where these differ.

    Registers, occupancy and the like are those of each workload's launch with most threads, instructions those of all.
    """
    rows = [_of_workload(w) for w in inspection.workloads if w.launches]
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: _mean([row[name] for row in rows if name in row]) for name in names}


KERNEL = "kernel."
"""Prefix of the names of facts about one of several kernels, as in `kernel.rows.registers`."""
MOST_KERNELS = 8
"""Kernels of a module that have facts of their own: those with most work, counted in instructions of all threads."""


def facts_of_kernels(inspection: Inspection) -> dict[str, float]:
    """Return the numbers of each kernel of a module that has several, for reading: means over its launches."""
    rows: dict[str, list[dict[str, float]]] = {}
    work: Counter[str] = Counter()
    for launch in (e for w in inspection.workloads for e in w.launches):
        name = launch.code.kernel.replace(".", "_")
        rows.setdefault(name, []).append(_of_kernel(launch))
        work[name] += round(launch.times * _threads(launch) * max(1, sum(launch.code.mix.values())))
    if len(rows) < 2:
        return {}
    found: dict[str, float] = {}
    for name, _ in work.most_common(MOST_KERNELS):
        keys = dict.fromkeys(key for row in rows[name] for key in row)
        found |= {f"{KERNEL}{name}.{key}": _mean([r[key] for r in rows[name] if key in r]) for key in keys}
    return found


def _of_launch(launch: Launch) -> dict[str, float]:
    code = launch.code
    found: dict[str, float] = {
        "registers": code.registers,
        "stack_bytes": code.stack_bytes,
        "shared_bytes": code.static_shared_bytes + launch.dynamic_shared_bytes,
    }
    if launch.block is not None:
        found["threads"] = math.prod(launch.block)
    if launch.grid is not None:
        found["blocks"] = math.prod(launch.grid)
    if launch.occupancy is not None:
        found["occupancy"] = launch.occupancy.share
    return {k: float(v) for k, v in found.items()}


def _of_kernel(launch: Launch) -> dict[str, float]:
    found = _of_launch(launch) | {"times": float(launch.times), "instructions": float(sum(launch.code.mix.values()))}
    return found | ({"argument_bytes": float(launch.argument_bytes)} if launch.argument_bytes else {})


def _of_workload(workload: WorkloadInspection) -> dict[str, float]:
    main = max(workload.launches, key=_threads)
    found: dict[str, float] = {
        "launches": sum(e.times for e in workload.launches),
        "code_bytes": sum(e.code.code_bytes for e in workload.launches),
        "calls": len(workload.calls),
    }
    if moved := sum(e.argument_bytes * e.times for e in workload.launches):
        found["argument_bytes"] = moved
    if main.waves is not None and main.tail is not None:
        found |= {"waves": main.waves, "tail": main.tail}
    if main.grid is not None and main.block is not None and workload.bytes_moved and all(main.grid):
        found["bytes_per_thread"] = workload.bytes_moved / (math.prod(main.grid) * math.prod(main.block))
    if workload.floor_s and workload.bytes_moved:
        found |= {"floor_s": workload.floor_s, "flops_per_byte": (workload.flops or 0.0) / workload.bytes_moved}
    return _of_launch(main) | {k: float(v) for k, v in found.items()} | _instructions(workload.launches)


def _instructions(launches: Sequence[Launch]) -> dict[str, float]:
    mix = _total(e.code.mix for e in launches)
    loops = _total(e.code.loops for e in launches)
    widths = _total(e.code.widths for e in launches)
    total = sum(mix.values())
    if not total:
        return {}
    found = {"instructions": float(total), "loop_share": sum(loops.values()) / total}
    found |= {f"mix.{name}": count / total for name, count in mix.items()}
    for kind in ("global_load", "global_store", "async_copy"):
        bits = {int(k.partition(".")[2]): n for k, n in widths.items() if k.startswith(f"{kind}.")}
        if bits:
            found[f"width.{kind}"] = sum(b * n for b, n in bits.items()) / sum(bits.values())
    return found


def _total(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return total


def _threads(launch: Launch) -> float:
    return math.prod(launch.grid or (1,)) * math.prod(launch.block or (1,))


def _mean(values: Sequence[float]) -> float:
    """Return the geometric mean of positive numbers, else the ordinary one; equal numbers stay exact."""
    if len(set(values)) == 1:
        return values[0]
    if all(v > 0 for v in values):
        return math.exp(fmean(map(math.log, values)))
    return fmean(values)
