"""Inspection of compiled kernels and their launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from forewarp.core import serde
from forewarp.core.inspection import Code, Inspection, Launch, WorkloadInspection
from forewarp.core.values import Language, Signature, Target
from forewarp.gpu_runner.compilers.occupancy import launch
from forewarp.gpu_runner.compilers.problems import problems
from forewarp.gpu_runner.formats.plan import ResolvedPlan
from forewarp.gpu_runner.roofline import bound, floor_s


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
    """Describe the launches of one workload, from its plan and its compiled kernels' entries in the manifest."""
    found: list[Launch] = []
    for index, step in enumerate(plan.launches):
        entry = kernels[str(index)]
        x, y, z = entry["block"]
        found.append(launch(serde.from_data(Code, entry["code"]), step.grid, (x, y, z), entry["shared"], target))
    return tuple(found)
