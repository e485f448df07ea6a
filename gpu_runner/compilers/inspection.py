"""Facts of compiled kernels and their launches before they run, and diagnoses of what is wrong or slow in them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from forewarp.core import serde
from forewarp.core.inspection import Code, Inspection, Launch, WorkloadInspection
from forewarp.core.roofline import bound, floor_s
from forewarp.core.values import Language, Signature, Target
from forewarp.gpu_runner.compilers.occupancy import RESERVED_SHARED, launch, limits
from forewarp.gpu_runner.compilers.process import CompileError
from forewarp.gpu_runner.formats.plan import MOST_BLOCKS, ResolvedPlan

_NARROW = (8, 16)
_MANY_FLOPS_PER_BYTE = 20.0
_FEW_WARPS = 0.2


def misfit(launch: Launch, target: Target) -> str:
    """Say why `target` cannot run a launch at all; "" where it can."""
    code = launch.code
    shared = code.static_shared_bytes + launch.dynamic_shared_bytes
    most = target.shared_bytes or limits(target.arch).shared_bytes - RESERVED_SHARED
    if shared > most:
        return f"{code.kernel} needs {shared} bytes of shared memory; a block may have {most} on {target.name}"
    if launch.grid is not None and max(launch.grid[1:], default=1) > MOST_BLOCKS:
        return f"{code.kernel} launches {launch.grid[1]} × {launch.grid[2]} blocks along y and z; {MOST_BLOCKS} may be"
    if launch.occupancy is not None and launch.occupancy.blocks == 0 and launch.block is not None:
        return f"{code.kernel} does not fit: {code.registers} registers × {math.prod(launch.block)} threads"
    return ""


def problems(workloads: Sequence[WorkloadInspection], target: Target) -> tuple[str, ...]:
    """Name the problems of all launches, each once, with the workload where only some have it."""
    found: dict[str, list[str]] = {}
    for workload in workloads:
        texts = [text for launch in workload.launches for text in _of_launch(launch, target)]
        if (text := _scalar_arithmetic(workload)) is not None:
            texts.append(text)
        for text in dict.fromkeys(texts):
            found.setdefault(text, []).append(workload.workload)
    return tuple(
        text if len(names) == len(workloads) else f"{text} ({', '.join(names)})" for text, names in found.items()
    )


def _of_launch(launch: Launch, target: Target) -> list[str]:
    if text := misfit(launch, target):
        return [text]
    code = launch.code
    found: list[str] = []
    if code.stack_bytes:
        how = code.mix.get("local_load", 0) + code.mix.get("local_store", 0)
        found.append(
            f"{code.kernel} spills or indexes local arrays: {code.stack_bytes} bytes of local memory a thread, "
            f"{how} instructions for it"
        )
    if launch.grid is not None:
        blocks = math.prod(launch.grid)
        if blocks < target.processors:
            what = f"{blocks} block{'s' * (blocks != 1)}"
            found.append(f"{code.kernel} launches {what} for {target.processors} multiprocessors")
    held = launch.occupancy
    # Tensor-core kernels keep their tiles in registers and live with few warps.
    if held is not None and held.share < _FEW_WARPS and not code.mix.get("tensor"):
        found.append(f"{code.kernel} keeps only {held.warps} warps on a multiprocessor, limited by {held.limiter}")
    found += [
        f"{code.kernel}: {count} of {code.mix[kind]} {kind.replace('_', ' ')}s are only {bits} bits wide"
        for kind in ("global_load", "global_store")
        for bits in _NARROW
        if (count := code.widths.get(f"{kind}.{bits}", 0)) * 2 > code.mix.get(kind, 0)
    ]
    if code.mix.get("fp64", 0) > code.mix.get("fp32", 0) and not code.mix.get("tensor"):
        found.append(f"{code.kernel} computes in fp64: {code.mix['fp64']} instructions")
    return found


def _scalar_arithmetic(workload: WorkloadInspection) -> str | None:
    if not workload.flops or workload.flops < _MANY_FLOPS_PER_BYTE * workload.bytes_moved or workload.calls:
        return None
    if not workload.launches or any(e.code.mix.get("tensor") for e in workload.launches):
        return None
    ratio = workload.flops / workload.bytes_moved
    return f"no tensor-core instruction, although the task has {ratio:.0f} operations per byte"


def inspection(
    target: Target,
    language: Language,
    how: str,
    signatures: Sequence[Signature],
    launches: Mapping[str, Sequence[Launch]],
    calls: Mapping[str, Sequence[str]] | None = None,
    more_problems: Sequence[str] = (),
) -> Inspection:
    """Return the inspection of a candidate; `launches` and `calls` are by workload."""
    workloads = tuple(
        WorkloadInspection(
            workload=s.workload,
            launches=tuple(launches.get(s.workload, ())),
            bytes_moved=s.bytes_moved,
            flops=s.flops,
            floor_s=floor_s(s, target) or None,
            bound=bound(s, target),
            calls=tuple((calls or {}).get(s.workload, ())),
        )
        for s in signatures
    )
    found = dict.fromkeys((*problems(workloads, target), *more_problems))
    return Inspection(target, language, how, workloads, tuple(found))


def launches_of(plan: ResolvedPlan, kernels: Mapping[str, Any], target: Target) -> tuple[Launch, ...]:
    found: list[Launch] = []
    for index, step in enumerate(plan.launches):
        entry = kernels[str(index)]
        x, y, z = entry["block"]
        found.append(launch(serde.from_data(Code, entry["code"]), step.grid, (x, y, z), entry["shared"], target))
    return tuple(found)


def kernels_of(
    plan: ResolvedPlan, target: Target, codes: Sequence[Code], entries: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Return a manifest's entries by launch, with their code; raises `CompileError` for what the target cannot hold."""
    for step, code, entry in zip(plan.launches, codes, entries, strict=True):
        if text := misfit(launch(code, step.grid, tuple(entry["block"]), entry["shared"], target), target):
            raise CompileError(text)
    return {
        str(index): entry | {"code": serde.to_data(code)}
        for index, (code, entry) in enumerate(zip(codes, entries, strict=True))
    }
