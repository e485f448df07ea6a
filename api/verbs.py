"""The verbs that look at kernels and tasks, as functions of plain arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

from forewarp.api.given import AnyKernel, AnyTask, kernel_of, task_of
from forewarp.api.options import Where, checked, known, place_of
from forewarp.core.protocols import Forecaster

if TYPE_CHECKING:
    from forewarp.tools.forecasted import ForecastResult
    from forewarp.tools.inspect_kernel import InspectResult
    from forewarp.tools.measure_kernel import MeasureManyResult
    from forewarp.tools.measured import MeasureResult
    from forewarp.tools.validate_task import ValidateResult


def forecast(
    task: AnyTask,
    *kernels: AnyKernel,
    against: AnyKernel | None = None,
    target: str | None = None,
    tunables: Mapping[str, int] | None = None,
    forecaster: Literal["learned", "llm", "cascade"] | Forecaster | None = None,
    model: str | None = None,
    base_url: str | None = None,
    device: str = "auto",
    **where: Unpack[Where],
) -> ForecastResult:
    """Forecast kernels' speed-ups and say what is worth a measurement; runs none of them.

    Of several kernels `ranking` holds all, the most promising first, and the other fields are about that one. `target`
    is a GPU that need not be here (a100, h100, h200, b200, l40s, rtx4090), instead of `device`. `tunables` are for
    every kernel. The forecaster is cascade where a model is given, else learned.
    """
    from forewarp.tools.forecast_kernel import ForecastRequest, forecast_kernel

    known(where, Where, forecast)
    chosen = [kernel_of(k, tunables) for k in kernels]
    request = checked(
        ForecastRequest,
        task=task_of(task),
        kernel=chosen[0] if len(chosen) == 1 else None,
        kernels=chosen if len(chosen) > 1 else [],
        against=None if against is None else kernel_of(against),
        place=place_of(device, where),
        target=target,
        forecaster=forecaster if isinstance(forecaster, str) else None,
        model=model,
        base_url=base_url,
    )
    own = None if isinstance(forecaster, str) else forecaster
    return forecast_kernel(request, executors=where.get("executors"), forecaster=own)


def measure(
    task: AnyTask,
    kernel: AnyKernel,
    *,
    against: AnyKernel | None = None,
    tunables: Mapping[str, int] | None = None,
    device: str = "auto",
    **where: Unpack[Where],
) -> MeasureResult:
    """Check a kernel and time it against the task's reference, or against another kernel.

    A kernel that fails is a result with a status. It is recorded in the archive, where later forecasts learn from it.
    """
    from forewarp.tools.measure_kernel import MeasureRequest, measure_kernel

    known(where, Where, measure)
    request = checked(
        MeasureRequest,
        task=task_of(task),
        kernel=kernel_of(kernel, tunables),
        against=None if against is None else kernel_of(against),
        place=place_of(device, where),
    )
    return measure_kernel(request, executors=where.get("executors"))


def measure_all(
    task: AnyTask,
    kernels: Sequence[AnyKernel],
    *,
    against: AnyKernel | None = None,
    tunables: Mapping[str, int] | None = None,
    device: str = "auto",
    **where: Unpack[Where],
) -> MeasureManyResult:
    """Measure several kernels, compiling them ahead; `kernels` of the result are in the order given."""
    from forewarp.tools.measure_kernel import MeasureManyRequest, measure_kernels

    known(where, Where, measure_all)
    request = checked(
        MeasureManyRequest,
        task=task_of(task),
        kernels=[kernel_of(k, tunables) for k in kernels],
        against=None if against is None else kernel_of(against),
        place=place_of(device, where),
    )
    return measure_kernels(request, executors=where.get("executors"))


def inspect(
    task: AnyTask,
    *kernels: AnyKernel,
    target: str = "auto",
    check: bool = False,
    tunables: Mapping[str, int] | None = None,
    python: str | Path | None = None,
) -> InspectResult:
    """Say what kernels tell before they run: registers, occupancy, waves, instructions, floors, problems.

    `target` is a GPU that need not be here; auto is this machine's, else the H200. `check` also runs the kernels on the
    CPU at small shapes and compares the outputs.
    """
    from forewarp.tools.inspect_kernel import InspectRequest, inspect_kernels

    chosen = [kernel_of(k, tunables) for k in kernels]
    other = None if python is None else str(python)
    request = checked(InspectRequest, task=task_of(task), kernels=chosen, target=target, check=check, python=other)
    return inspect_kernels(request)


def validate(task: AnyTask, *, device: str = "auto", **where: Unpack[Where]) -> ValidateResult:
    """Try answers on a task that must be turned down, before anything is measured on it."""
    from forewarp.tools.validate_task import ValidateRequest, validate_task

    known(where, Where, validate)
    request = checked(ValidateRequest, task=task_of(task), place=place_of(device, where))
    return validate_task(request, executors=where.get("executors"))
