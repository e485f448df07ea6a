"""Conversion of the public functions' arguments (tasks, kernels, options) into requests for `forewarp.tools`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from forewarp.api.options import Options, amounts_of, checked, place_of, rest_of
from forewarp.core.errors import UsageError
from forewarp.core.protocols import Forecaster
from forewarp.core.values import Candidate, Constant, Task, Tolerance
from forewarp.gpu_runner.formats import task as tasks
from forewarp.tools import session as sessions
from forewarp.tools.parts import Kernel, Place
from forewarp.tools.search import SearchRequest

AnyTask: TypeAlias = str | Path | Task
"""A bundled task's name, the path of a KernelBench file or a task's folder, or a task that `define_task` made."""

AnyKernel: TypeAlias = str | Path | Candidate | Kernel
"""A kernel: the path of its file, its source text (any string with a line break), or a candidate."""


def task_of(given: AnyTask, inputs: str | Path | None = None, place: Place | None = None) -> str | Task:
    """Return the task for a request; with `inputs`, the captured calls in that file become the task's workloads."""
    named = str(given) if isinstance(given, Path) else given
    if inputs is None:
        return named
    if not isinstance(inputs, str | Path):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError(f"inputs is {inputs!r}", hint="it should be a path, as a string or a pathlib.Path")
    return sessions.with_inputs(named, str(inputs), place or Place())


def kernel_of(given: AnyKernel, tunables: Mapping[str, int] | None = None) -> Kernel:
    """Convert a kernel argument into the `Kernel` of a request; `tunables` override the values that it has."""
    chosen = dict(tunables or {})
    if isinstance(given, Kernel):
        return given.model_copy(update={"tunables": given.tunables | chosen})
    if isinstance(given, Candidate):
        return Kernel(source=given.source, language=given.language, tunables=dict(given.tunables) | chosen)
    if isinstance(given, str) and "\n" in given:
        return Kernel(source=given, tunables=chosen)
    return Kernel(path=str(given), tunables=chosen)


def search_request(
    task: AnyTask,
    options: Options,
    *,
    budget: int | None,
    device: str,
    model: str | Sequence[str] | None,
    forecaster: str | Forecaster,
    seeds: Sequence[AnyKernel],
    seed: int,
) -> SearchRequest:
    """Build the request of a search; a `Forecaster` object is not part of it and has to be passed separately."""
    place = place_of(device, options)
    files = [str(s) for s in seeds if isinstance(s, Path) or (isinstance(s, str) and "\n" not in s)]
    wanted = task_of(task)
    if len(files) < len(seeds):
        made = tuple(sessions.choose_candidate(kernel_of(s)) for s in seeds)
        wanted, files = replace(sessions.load_task(wanted, place), seeds=made), []
    request = checked(
        SearchRequest,
        task=wanted,
        place=place,
        budget=amounts_of(budget, options),
        model=model if model is None or isinstance(model, str) else list(model),
        forecaster=forecaster if isinstance(forecaster, str) else "learned",
        seed_kernels=files,
        seed=seed,
        **rest_of(options),
    )
    # Last, because reading captured inputs may start a process: other errors in the request are raised before.
    return request.model_copy(update={"task": task_of(request.task, options.get("inputs"), place)})


def define_task(
    source: str | Path,
    *,
    name: str,
    workloads: Mapping[str, Mapping[str, Constant]] | None = None,
    tolerance: tuple[float, float] | None = None,
    seeds: Sequence[AnyKernel] = (),
    title: str = "",
    perturb: bool = True,
    allow_tf32: bool = False,
    family: str = "",
) -> Task:
    """Make a task of Python source text that defines `class Model`, `get_inputs()` and `get_init_inputs()`.

    Args:
        source: The text, or the file that holds it.
        name: How results and the archive call it.
        workloads: Shapes by name, each with the module constants that it sets, such as {"long": {"ROWS": 8192}}; the
            text's own constants are the only shape if left out.
        tolerance: Relative and absolute tolerance; by the outputs' dtype if left out.
        seeds: Kernels to start searches from: files, texts or candidates.
        title: What it is, in words.
        allow_tf32: True where products in TF32 are accepted although the reference computes them in fp32.
        perturb: False where scaled or negated inputs would mean nothing to the reference.
        family: Kind of operation, such as "reduction".

    Raises `TaskError` where the text is no reference, `CandidateError` where a seed is no kernel.
    """
    text = source.read_text() if isinstance(source, Path) else source
    return tasks.from_source(
        text,
        name,
        title=title,
        workloads=workloads,
        tolerance=Tolerance(*tolerance) if tolerance else None,
        seeds=tuple(sessions.choose_candidate(kernel_of(s)) for s in seeds),
        perturb=perturb,
        allow_tf32=allow_tf32,
        family=family,
    )
