"""Estimate of each configuration's time: a roofline with tiles, occupancy and waves.

Nothing has to be compiled. Where it was, `CompilerFacts` take the place of what is reckoned of registers and shared
memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forewarp.core.values import Target
from forewarp.tuning import counting
from forewarp.tuning.counting import Numbers, ProgramWork, item_bytes, mean, spread
from forewarp.tuning.space import Space, TensorArgument

UNIT_RATES: Mapping[str, float] = {"fp16": 1.0, "fp8": 2.0, "int8": 2.0, "tf32": 0.5, "fp64": 0.07}
"""Peak rates of tensor cores over that for 16-bit floats, by what they multiply."""
THREADS, BLOCKS, REGISTERS = 2048, 32, 65536
"""Threads, thread blocks and registers that a multiprocessor holds at most."""
MOST_REGISTERS = 255
RESERVED_SHARED = 1024
"""Bytes of shared memory that each block costs beside its own."""
WARP_GROUP_ARCHS = ("sm_90", "sm_100")
"""Architectures on which four warps multiply 64 rows together; a stage more waits in shared memory meanwhile."""
LAUNCH_S = 1.5e-6
DRAM_SHARE = 0.92
"""Share of the data sheet's memory bandwidth that large copies reach."""
REFUSED = 100.0
"""Factor on the time of a configuration that asks for more shared memory than there is."""

TENSOR = 0.75
TILE = 0.3
DEPTH = 0.3
NARROW = 1.5
ALU = 0.5
SPECIAL = 4.0
INTEGER = 0.5
MOVED = 1.0
EXCHANGED = 40.0
CACHE = 1.7
FLIGHT_BYTES = 24e3
LATENCY_S = 0.8e-6
BLOCK_S = 0.5e-6
BARRIER_S = 0.06e-6
BARRIER_WARPS = 0.15
DOT_S = 0.1e-6
NORM, MOST_ORDER = 3.0, 4.0
SPILL = 0.5
BASE_REGISTERS = 28.0
POINTER_REGISTERS = 2.0
ATOMIC = 0.25
WARPS, DOT_WARPS = 16.0, 10.0
"""Rates set by hand, `TENSOR` to `DOT_WARPS`: seconds, shares of peak rates, and exponents.

`TENSOR`, `ALU` and `CACHE` are over the card's; `SPILL` and `ATOMIC` over its memory's. `WARPS` keep a multiprocessor's
arithmetic busy, `DOT_WARPS` beside products. Where there are products, the norm's order grows with the blocks that a
multiprocessor holds, up to `MOST_ORDER`: one alone waits while nothing else runs.
"""


@dataclass(frozen=True, slots=True)
class CompilerFacts:
    """The compiler's facts about each configuration; `shared` in bytes, infinite where it was refused."""

    registers: Sequence[float]
    spills: Sequence[float]
    shared: Sequence[float]


@dataclass(frozen=True, slots=True)
class LaunchTotals:
    """Totals of a launch per configuration: bytes, operations, and what one program holds."""

    programs: Numbers
    warps: Numbers
    stages: Numbers
    register_cap: Numbers
    unique_bytes: Numbers
    sector_bytes: Numbers
    moved_bytes: Numbers
    atomic_bytes: Numbers
    tensor_flops: Numbers
    elementwise: Numbers
    special: Numbers
    integer: Numbers
    rearranged: Numbers
    exchanged: Numbers
    barriers: Numbers
    iterations: Numbers
    iteration_bytes: Numbers
    dots: Numbers
    dot_m: Numbers
    dot_n: Numbers
    dot_k: Numbers
    staged_bytes: Numbers
    kept_bytes: Numbers
    held_bytes: Numbers
    tile: Numbers
    held: Numbers
    scattered_bytes: Numbers
    imbalance: Numbers


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds per configuration, the parts that they are made of, and what decides how many programs run at once.

    `registers` are those of a thread, `spills` what does not fit into them, `shared` bytes of a program, `blocks` the
    programs that a multiprocessor holds, `waves` how often all of them are filled. `fits` is false where a program asks
    for more shared memory than there is.
    """

    seconds: Numbers
    parts: Mapping[str, Numbers]
    registers: Numbers
    spills: Numbers
    shared: Numbers
    blocks: Numbers
    waves: Numbers
    fits: NDArray[np.bool_]


def fastest_first(seconds: Numbers, labels: Sequence[str] = ()) -> list[int]:
    """Return the places of configurations, the fastest first; equal ones by their labels, or as listed.

    Of those that are forecast alike, as where stages do nothing, the first stands for all: the others come last.
    """
    rounded = np.round(np.log2(seconds), 4)
    names = labels or [""] * len(rounded)
    ordered = sorted(range(len(rounded)), key=lambda i: (rounded[i], names[i], i))
    seen: set[float] = set()
    first = [i for i in ordered if not (rounded[i] in seen or seen.add(rounded[i]))]
    kept = set(first)
    return [*first, *(i for i in ordered if i not in kept)]


def amounts(space: Space) -> LaunchTotals:
    """Count what a launch of each configuration does; raises `NotCounted`."""
    work = counting.count(space)
    configurations = space.configurations
    zero = np.zeros(len(configurations))
    programs = np.array([float(np.prod(g)) for g in space.grids])
    sizes = {
        name: float(value.elements * item_bytes(value.dtype))
        for name, value in space.arguments.items()
        if isinstance(value, TensorArgument)
    }
    share = _walked(work, programs, sizes)

    def total(values: Numbers) -> Numbers:
        return mean(values) * programs * share

    def amount(name: str) -> Numbers:
        return mean(work.get(name))

    # Triton pipelines loops with products: elsewhere stages do nothing.
    stages = np.where(amount("dot_count") > 0, [float(c.stages) for c in configurations], 1.0)
    moved = [(name, total(v)) for name, v in (*work.loads.items(), *work.stores.items())]
    return LaunchTotals(
        programs=programs,
        warps=np.array([float(c.warps) for c in configurations]),
        stages=stages,
        register_cap=np.array([float(c.registers or MOST_REGISTERS) for c in configurations]),
        unique_bytes=sum((np.minimum(v, sizes.get(name, np.inf)) for name, v in moved), zero),
        sector_bytes=total(work.get("sectors")) + total(work.get("stored_sectors")),
        moved_bytes=sum((v for _, v in moved), zero),
        atomic_bytes=sum((total(v) for v in work.atomics.values()), zero),
        tensor_flops=sum((total(v) / UNIT_RATES.get(name, 1.0) for name, v in work.dots.items()), zero),
        elementwise=total(work.get("elementwise")),
        special=total(work.get("special")),
        integer=total(work.get("integer")),
        rearranged=total(work.get("converted") + 2 * work.get("reduced") + 6 * work.get("scanned")),
        exchanged=total(work.get("exchanged")),
        barriers=amount("barriers") * share,
        iterations=amount("iterations") * share,
        iteration_bytes=amount("iteration_loads"),
        dots=amount("dot_count") * share,
        dot_m=amount("dot_m"),
        dot_n=amount("dot_n"),
        dot_k=amount("dot_k"),
        staged_bytes=amount("staged"),
        kept_bytes=amount("kept"),
        held_bytes=amount("carried"),
        tile=amount("tile"),
        held=amount("held"),
        scattered_bytes=total(work.get("scattered")),
        imbalance=spread(sum(work.loads.values(), np.zeros(work.count))),
    )


def _walked(work: ProgramWork, programs: Numbers, sizes: Mapping[str, float]) -> Numbers:
    """Return how much more than was walked through happens, where loops have unknown lengths.

    Each element of the output that most is written to is taken to be written once.
    """
    written = max(work.stores, key=lambda name: mean(work.stores[name])[0], default="")
    if not work.unknown or written not in sizes:
        return np.ones(len(programs))
    return np.clip(sizes[written] / np.maximum(mean(work.stores[written]) * programs, 1.0), 1 / 64, 1e4)


def times(a: LaunchTotals, target: Target, facts: CompilerFacts | None = None) -> Times:
    """Return the time that counted amounts take on a card.

    Each resource gets the time that it needs at its rate and at the share of the card that works; the whole is their
    norm of an order between their sum and the largest.
    """
    processors = float(target.processors or 1)
    bandwidth, tensor_rate = float(target.memory_bandwidth or 1e12), float(target.tensor_flops or 1e14)
    vector_rate, available = float(target.fp32_flops or 2e13) / 2, float(target.shared_bytes or 101376)
    threads = 32 * a.warps
    multiplies, in_groups = a.tensor_flops > 0, (a.dot_m >= 64) & (a.warps >= 4)
    cap = np.minimum(np.minimum(a.register_cap, MOST_REGISTERS), REGISTERS / threads)
    if facts is None:
        registers = BASE_REGISTERS + (a.held + POINTER_REGISTERS * a.staged_bytes / 16) / threads
        spills = np.maximum(0.0, registers - cap)
        registers = np.minimum(registers, cap)
        buffers = np.maximum(1.0, np.where(in_groups & (target.arch in WARP_GROUP_ARCHS), a.stages, a.stages - 1))
        shared = np.where(multiplies, a.staged_bytes * buffers + a.kept_bytes, 0.0)
    else:
        registers = np.maximum(np.asarray(facts.registers, dtype=np.float64), 16.0)
        spills = np.asarray(facts.spills, dtype=np.float64)
        shared = np.asarray(facts.shared, dtype=np.float64)
    by_shared = np.where(shared > 0, (available + RESERVED_SHARED) // np.maximum(shared + RESERVED_SHARED, 1.0), BLOCKS)
    by_threads = np.minimum(THREADS // threads, REGISTERS // (registers * threads))
    blocks = np.maximum(1.0, np.minimum(np.minimum(by_threads, by_shared), BLOCKS))
    each = a.programs / processors
    waves = each / blocks
    rounds = np.ceil(waves)
    uneven = np.ceil(each) / np.maximum(each, 1e-9)
    resident = np.minimum(blocks, np.maximum(1.0, np.ceil(each)))
    pipelined = np.where(multiplies, np.maximum(1.0, a.stages - 1), 1.0)

    shape = np.minimum(1.0, (a.dot_m * a.dot_n / 128**2 + 1e-9) ** TILE)
    shape = shape * np.minimum(1.0, (a.dot_k / 64 + 1e-9) ** DEPTH)
    shape = shape * np.where(in_groups, 1.0, 1 / NARROW)
    busy = np.minimum(1.0, resident * a.warps / np.where(multiplies, DOT_WARPS, WARPS))
    operations = a.elementwise + SPECIAL * a.special + INTEGER * a.integer + MOVED * a.rearranged
    operations = operations + EXCHANGED * a.exchanged
    per_iteration = np.where(a.iterations > 0.5, np.maximum(a.iteration_bytes, 1.0), a.moved_bytes / a.programs)
    flight = np.clip(resident * per_iteration * pipelined / FLIGHT_BYTES, 0.02, 1.0)
    barrier = BARRIER_S * (1 + BARRIER_WARPS * a.warps)
    parts = {
        "tensor": a.tensor_flops / tensor_rate / TENSOR / np.maximum(shape, 1e-3) * uneven,
        "arithmetic": operations / (vector_rate * ALU) * uneven / busy,
        "memory": a.unique_bytes / (bandwidth * DRAM_SHARE) * np.maximum(1.0, uneven / 4) / np.sqrt(flight),
        "cache": a.scattered_bytes / (bandwidth * CACHE) * uneven,
        "waiting": rounds * (BLOCK_S + a.iterations * LATENCY_S / pipelined + a.barriers * barrier + a.dots * DOT_S),
        "spilling": spills * 8 * threads * a.programs * np.maximum(1.0, a.iterations) / (bandwidth * SPILL),
    }
    order = np.where(multiplies, np.minimum(1 + resident, MOST_ORDER), NORM)
    seconds = sum((v**order for v in parts.values()), np.zeros(len(a.programs))) ** (1 / order)
    seconds = seconds + a.atomic_bytes / (bandwidth * ATOMIC) + LAUNCH_S
    fits = shared <= available
    seconds = np.where(fits, seconds, seconds * REFUSED)
    return Times(seconds, parts, registers, spills, shared, blocks, waves, fits)
