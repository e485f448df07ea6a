"""Arguments of the public functions, and the requests for `forewarp.tools` that they make."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, TypeVar

from forewarp.core.errors import UsageError
from forewarp.core.untrusted_text import clip
from forewarp.core.values import AskedGradients, Candidate, Constant, Language, Task, Tolerance
from forewarp.gpu_runner.formats.task import from_source
from forewarp.tools.parts import Kernel, Part, Place, TaskOptions
from forewarp.tools.requests import Caps, SearchRequest, TaskRequest, checked
from forewarp.tools.session import Executors, choose_candidate, load_task

AnyTask: TypeAlias = str | Path | Task
"""A bundled task's name, the path of a KernelBench file or a task's folder, or a task that `define_task` made."""

AnyKernel: TypeAlias = str | Path | Candidate | Kernel
"""A kernel: the path of its file, its source text (any string with a line break), or a candidate."""

Request = TypeVar("Request", bound=Part)


class Where(TypedDict, total=False):
    """Rarely needed arguments that all verbs take.

    `pool` is a Parquet file or folder of recorded measurements for device "replay", `archive` the archive's file,
    `python` a Python that has the torch to measure with, `executor` the machine to measure on ("local", "ssh:HOST"),
    `card` the card to take where these have several ("h200"), `executors` keeps devices warm
    between calls.
    """

    pool: str | Path | None
    archive: str | Path | None
    python: str | Path | None
    executor: str
    card: str
    executors: Executors | None


class TaskWhere(Where, TaskOptions, total=False):
    """Rarely needed arguments of verbs on one task: those of `Where`, and what changes the task.

    `allow_tf32` accepts products in TF32 where the reference computes them in fp32; such results are kept apart.
    `gradients` asks for them, given upstream ones: "only" in place of outputs, "too" behind them. `size` sets module
    constants of the task, such as {"batch_size": 4}: a smaller shape to try.
    """


class Options(TaskWhere, total=False):
    """Rarely needed arguments of `optimize`; they mean what the flags of `forewarp optimize` mean.

    Caps besides the budget: `max_gpu_seconds`, `max_usd`, `max_tokens`, `deadline` in seconds. Models: `base_url` of an
    OpenAI-compatible server, `forecast_model`, `language` to keep to. Policy: `confirm`, `holdout`, `audit`, `explore`,
    `proposals`, `measure_per_round`, `patience`, `plans`. The rest is that of `TaskWhere`.
    """

    max_gpu_seconds: float | None
    max_usd: float | None
    max_tokens: int | None
    deadline: float | None
    base_url: str | None
    forecast_model: str | None
    language: Language | None
    confirm: bool
    holdout: bool
    audit: float | None
    explore: int | None
    proposals: int | None
    measure_per_round: int | None
    patience: int | None
    plans: int


def request_of(verb: Callable[..., object], kind: type[Request], device: str, where: Where, **fields: Any) -> Request:
    """Build the request of a verb that runs on a device; raises `TypeError` for unknown names, and `UsageError`."""
    _check_names(where, TaskWhere if issubclass(kind, TaskRequest) else Where, verb)
    options = {name: value for name, value in where.items() if name in kind.model_fields}
    return checked(kind, place=place_of(device, where), **options, **fields)


def search_request(
    verb: Callable[..., object], options: Options, *, seeds: Sequence[AnyKernel], seed: int, **given: Any
) -> SearchRequest:
    """Build the request of a search; a `Forecaster` object is not part of it and has to be passed separately."""
    _check_names(options, Options, verb)
    place, more = place_of(given["device"], options), dict[str, Any](options)
    caps = checked(Caps, budget=given["budget"], **{name: v for name, v in more.items() if name in Caps.model_fields})
    task, model, forecaster = given["task"], given["model"], given["forecaster"]
    files: Sequence[AnyKernel] = seeds
    if any(not isinstance(s, Path) and not (isinstance(s, str) and "\n" not in s) for s in seeds):
        made = tuple(choose_candidate(kernel_of(s)) for s in seeds)
        task, files = replace(load_task(str(task) if isinstance(task, Path) else task, place), seeds=made), ()
    return checked(
        SearchRequest,
        task=task,
        place=place,
        budget=caps.amounts(),
        model=model,
        forecaster=forecaster if isinstance(forecaster, str) else "learned",
        seed_kernels=list(files),
        seed=seed,
        **{name: value for name, value in more.items() if name in SearchRequest.model_fields},
    )


def place_of(device: str, where: Where) -> Place:
    """Return the `Place` of a call: the device, the machines to measure on, and the archive."""
    given: dict[str, Any] = {**where}
    executors = given.pop("executors", None)
    if not isinstance(executors, Executors | None):
        raise UsageError(f"executors is {clip(repr(executors), 200)}", hint="it should be made by forewarp.Executors()")
    return checked(Place, device=device, **{name: v for name, v in given.items() if name in Place.model_fields})


def kernel_of(given: AnyKernel, tunables: Mapping[str, int] | None = None) -> Kernel:
    """Convert a kernel argument into the `Kernel` of a request; `tunables` override the values that it has."""
    kernel = Kernel.model_validate(given if isinstance(given, str | Candidate | Kernel) else str(given))
    return checked(Kernel, **dict(kernel) | {"tunables": kernel.tunables | dict(tunables or {})})


def _check_names(given: Mapping[str, object], kind: type[Where], verb: Callable[..., object]) -> None:
    """Raise `TypeError` for an argument that neither `kind` nor the function has, and suggest the closest name."""
    unknown = next((name for name in given if name not in kind.__annotations__), None)
    if unknown is None:
        return
    names = [*kind.__annotations__, *inspect.signature(verb).parameters]
    near = difflib.get_close_matches(unknown, names, 1, cutoff=0.75)  # strict: proposer must not suggest proposals
    instead = f"did you mean {near[0]!r}?" if near else f"help(forewarp.{verb.__name__}) lists them"
    raise TypeError(f"{verb.__name__}() got an unexpected keyword argument {unknown!r}; {instead}")


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
    gradients: AskedGradients | None = None,
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
        gradients: "only" for a task whose outputs are gradients, given upstream ones; "too" for both.
        perturb: False where scaled or negated inputs would mean nothing to the reference.
        family: Kind of operation, such as "reduction".

    Raises `TaskError` where the text is no reference, `CandidateError` where a seed is no kernel.
    """
    text = source.read_text() if isinstance(source, Path) else source
    return from_source(
        text,
        name,
        title=title,
        workloads=workloads,
        tolerance=Tolerance(*tolerance) if tolerance else None,
        seeds=tuple(choose_candidate(kernel_of(s)) for s in seeds),
        perturb=perturb,
        allow_tf32=allow_tf32,
        gradients=gradients,
        family=family,
    )
