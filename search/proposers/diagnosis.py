"""Diagnosis of a measured program in plain sentences, with what usually helps: roofline, occupancy, waves, accesses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from forewarp.core.inspection import Code
from forewarp.core.values import Candidate, Target
from forewarp.gpu_runner.compilers.occupancy import occupancy
from forewarp.inspection.features import access

_FAR, _TAIL, _LOW, _WASTE, _CONFLICT = 1.5, 0.2, 0.25, 1.5, 2.0
"""Times the floor, share of the tail, occupancy, sectors per sector needed, and ways of a conflict worth a word."""
_HELP = {
    "registers": "smaller tiles a thread, or `__launch_bounds__`, leave room for more warps",
    "shared memory": "fewer stages or smaller tiles leave room for more blocks",
    "threads": "",
    "blocks": "larger blocks fill a multiprocessor with fewer of them",
}


def sentences(candidate: Candidate, facts: Mapping[str, float], seconds: float | None, target: Target) -> list[str]:
    """Return what is seen of a compiled GPU program, its measured seconds included; empty on a CPU."""
    if target.kind != "cuda" or "registers" not in facts:
        return []
    return [*_roofline(facts, seconds, target), *_residency(facts, target), *_accesses(candidate)]


def _roofline(facts: Mapping[str, float], seconds: float | None, target: Target) -> Iterator[str]:
    floor, work = facts.get("floor_s"), facts.get("flops_per_byte", 0.0)
    if not floor or not seconds or not target.tensor_flops or not target.memory_bandwidth:
        return
    times, ridge = seconds / floor, target.tensor_flops / target.memory_bandwidth
    if work > ridge:
        help_ = ". Keep them fed: wider instructions, copies that run ahead" if times > _FAR else ""
        yield (
            f"Bound by arithmetic ({work:.0f} operations a byte; memory sets the pace below {ridge:.0f}): it reaches "
            f"{1 / times:.0%} of the tensor cores' rate{help_}"
        )
    elif times > _FAR:
        yield (
            f"Bound by memory, and {times:.1f} times the time that its inputs and outputs take: look for passes over "
            "the same data, narrow or scattered accesses, too few bytes in flight, or fixed costs of launches"
        )


def _residency(facts: Mapping[str, float], target: Target) -> Iterator[str]:
    threads = round(facts.get("threads", 0))
    if threads:
        code = Code("", round(facts["registers"]), 0, 0, 0)
        held = occupancy(code, threads, round(facts.get("shared_bytes", 0)), target)
        help_ = _HELP[held.limiter]
        # A kernel on the tensor cores keeps its tiles in registers, and lives with few warps.
        if held.share <= _LOW and help_ and not facts.get("mix.tensor"):
            yield f"A multiprocessor holds {held.warps} warps ({held.share:.0%}), limited by {held.limiter}: {help_}"
    waves, tail = facts.get("waves", 0.0), facts.get("tail", 0.0)
    if 0 < waves < 1:
        yield f"The grid fills {waves:.0%} of the device: split the work further (a reduction over several blocks)"
    elif tail > _TAIL:
        yield f"{tail:.0%} of {waves:.1f} waves idle at the end: other tile sizes, or a persistent grid, even that out"


def _accesses(candidate: Candidate) -> Iterator[str]:
    seen = access.columns(candidate)
    for key, verb in (("access.load_worst", "load"), ("access.store_worst", "store")):
        times = 2 ** seen.get(key, 0.0)
        if times >= _WASTE:
            yield (
                f"A global {verb} touches {times:.0f} times the sectors of 32 bytes that it needs: let neighbouring "
                "threads take neighbouring elements, or go through shared memory"
            )
    ways = 2 ** seen.get("access.shared", 0.0)
    if ways >= _CONFLICT:
        yield f"Shared memory is accessed with conflicts of {ways:.0f} ways: pad each row by one access, or swizzle"
