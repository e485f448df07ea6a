"""The verbs that look at kernels and tasks, as functions of plain arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Unpack

from forewarp.api.arguments import AnyKernel, AnyTask, TaskWhere, Where, kernel_of, request_of
from forewarp.core.protocols import Forecaster
from forewarp.tools.forecast_kernel import ForecastResult
from forewarp.tools.inspect_kernel import InspectResult
from forewarp.tools.measure_kernel import MeasureManyResult
from forewarp.tools.measured import MeasureResult
from forewarp.tools.requests import (
    ForecastRequest,
    InspectRequest,
    MeasureManyRequest,
    MeasureRequest,
    SuiteRequest,
    ValidateRequest,
    checked,
)
from forewarp.tools.suite_measuring import SuiteProgress
from forewarp.tools.suite_results import SuiteResult
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
    **where: Unpack[TaskWhere],
) -> ForecastResult:
    """Forecast kernels' speed-ups and say what is worth a measurement; runs none of them.

    Of several kernels `ranking` holds all, the most promising first, and the other fields are about that one. `target`
    is a GPU that need not be here (a100, h100, h200, b200, l40s, rtx4090), instead of `device`. `tunables` are for
    every kernel. The forecaster is cascade where a model is given, else learned.
    """
    from forewarp.tools.forecast_kernel import forecast_kernel

    request = request_of(
        forecast,
        ForecastRequest,
        device,
        where,
        task=task,
        kernels=[kernel_of(k, tunables) for k in kernels],
        against=against,
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
    **where: Unpack[TaskWhere],
) -> MeasureResult:
    """Check a kernel and time it against the task's reference, or against another kernel.

    A kernel that fails is a result with a status. It is recorded in the archive, where later forecasts learn from it.
    """
    from forewarp.tools.measure_kernel import measure_kernel

    one = kernel_of(kernel, tunables)
    request = request_of(measure, MeasureRequest, device, where, task=task, kernel=one, against=against)
    return measure_kernel(request, executors=where.get("executors"))


def measure_all(
    task: AnyTask,
    kernels: Sequence[AnyKernel],
    *,
    against: AnyKernel | None = None,
    tunables: Mapping[str, int] | None = None,
    device: str = "auto",
    **where: Unpack[TaskWhere],
) -> MeasureManyResult:
    """Measure several kernels, compiling them ahead; `kernels` of the result are in the order given."""
    from forewarp.tools.measure_kernel import measure_kernels

    several = [kernel_of(k, tunables) for k in kernels]
    request = request_of(measure_all, MeasureManyRequest, device, where, task=task, kernels=several, against=against)
    return measure_kernels(request, executors=where.get("executors"))


def suite(
    problems: str | Path,
    kernels: str | Path | None = None,
    *,
    identical: bool = False,
    only: str | None = None,
    limit: int | None = None,
    baselines: Sequence[Literal["eager", "compile"]] = ("eager", "compile"),
    output: str | Path | None = None,
    retry_failed: bool = False,
    on_progress: Callable[[SuiteProgress], None] | None = None,
    device: str = "auto",
    **where: Unpack[Where],
) -> SuiteResult:
    """Measure a folder of kernels on a folder of problems, and write record and tables to `output`.

    `identical` measures each reference against itself instead of kernels. What the record holds is not measured again,
    so that a call that was interrupted goes on; `retry_failed` measures again what did not work. `on_progress` gets how
    far it is after each measurement.
    """
    from forewarp.tools.suite import run_suite

    request = request_of(
        suite,
        SuiteRequest,
        device,
        where,
        problems=problems,
        kernels=kernels,
        identical=identical,
        only=only,
        limit=limit,
        baselines=list(baselines),
        output=output,
        retry_failed=retry_failed,
    )
    return run_suite(request, progress=on_progress or (lambda _: None), executors=where.get("executors"))


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
    from forewarp.tools.inspect_kernel import inspect_kernels

    request = checked(
        InspectRequest,
        task=task,
        kernels=[kernel_of(k, tunables) for k in kernels],
        target=target,
        check=check,
        python=python,
    )
    return inspect_kernels(request)


def validate(task: AnyTask, *, device: str = "auto", **where: Unpack[TaskWhere]) -> ValidateResult:
    """Try answers on a task that must be turned down, before anything is measured on it."""
    from forewarp.tools.validate_task import validate_task

    request = request_of(validate, ValidateRequest, device, where, task=task)
    return validate_task(request, executors=where.get("executors"))
