"""Verbs on whole models, locks, winners and tuned files by their requests, for faces that run them as jobs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from forewarp.tools.apply_model import apply_model
from forewarp.tools.digest import digest
from forewarp.tools.export import export_kernel
from forewarp.tools.gate_check import check_gate
from forewarp.tools.gate_lock import LockResult, lock_kernels
from forewarp.tools.optimize_model import OptimizeModelResult, is_model_search, open_model_search, resume_model_search
from forewarp.tools.parts import Amounts, OnStage, Part, unwatched
from forewarp.tools.profile_model import profile_model
from forewarp.tools.requests import (
    ApplyRequest,
    ExportKernelRequest,
    GateCheckRequest,
    GateLockRequest,
    OptimizeModelRequest,
    ProfileRequest,
    TuneRequest,
)
from forewarp.tools.session import Executors
from forewarp.tools.signals import StopFlag, Stoppable
from forewarp.tools.tune_plan import tune_file

LongRequest = (
    ProfileRequest
    | OptimizeModelRequest
    | ApplyRequest
    | GateLockRequest
    | GateCheckRequest
    | ExportKernelRequest
    | TuneRequest
)
MOST_ITEMS = 12


def run_verb(
    request: LongRequest,
    *,
    folder: Path | None = None,
    stage: OnStage = unwatched,
    began: Callable[[Stoppable], None] = unwatched,
    executors: Executors | None = None,
) -> Part:
    """Do what a request asks for, and return its verb's result; raises as the verb does.

    `folder` is that of a model's search, which goes on if it was begun there. `began` gets what can be asked to end
    with what there is.
    """
    match request:
        case ProfileRequest():
            return profile_model(request, stage=stage, executors=executors)
        case ApplyRequest():
            return apply_model(request, stage=stage, executors=executors)
        case ExportKernelRequest():
            return export_kernel(request)
        case GateLockRequest():
            return lock_kernels(request, stage=stage, executors=executors)
        case GateCheckRequest():
            began(stop := StopFlag())
            return check_gate(request, stage=stage, stopped=stop.asked.is_set)
        case TuneRequest():
            return tune_file(request, stage=stage, began=began)
        case OptimizeModelRequest():
            again = folder is not None and is_model_search(str(folder))
            with (
                resume_model_search(str(folder), executors)
                if again
                else open_model_search(request, folder, stage=stage, executors=executors)
            ) as search:
                began(search)
                search.work(stage)
                return search.result()


def spent_by(result: Part) -> Amounts:
    """Return what a verb spent, by its result."""
    if isinstance(result, OptimizeModelResult):
        return result.budget.spent
    return Amounts(measurements=getattr(result, "measurements", 0), device_s=getattr(result, "device_s", 0.0))


def told(result: Part) -> dict[str, Any]:
    short = digest(result, MOST_ITEMS)
    if isinstance(result, LockResult):
        short.pop("kernels", None)  # the file has them
    return short
