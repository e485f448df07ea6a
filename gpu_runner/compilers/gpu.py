"""Helpers of Triton and NVRTC builds: the exact architecture, and the manifest's entry of each launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from forewarp.core import serde
from forewarp.core.inspection import Code
from forewarp.core.values import Target
from forewarp.gpu_runner.compilers.occupancy import launch
from forewarp.gpu_runner.compilers.problems import misfit
from forewarp.gpu_runner.compilers.process import CompileError
from forewarp.gpu_runner.formats.plan import ResolvedPlan


def exact_architecture(arch: str) -> str:
    """Return "sm_90a" for "sm_90": from 90 on, only the "a" has the instructions of that very chip, such as wgmma."""
    return f"{arch}a" if int(arch.removeprefix("sm_")) >= 90 else arch


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
