"""What callers pass, as the verbs take it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, TypeVar

from pydantic import ValidationError

from forewarp.core.errors import UsageError
from forewarp.core.protocols import Forecaster
from forewarp.core.values import Candidate, Constant, Language, Task, Tolerance
from forewarp.gpu_runner.formats import task as tasks
from forewarp.tools import session as sessions
from forewarp.tools.parts import Amounts, Kernel, Part, Place, trim
from forewarp.tools.search import SearchRequest
from forewarp.tools.session import Executors

AnyTask: TypeAlias = str | Path | Task
"""A bundled task's name, the path of a KernelBench file or a task's folder, or a task that `define_task` made."""

AnyKernel: TypeAlias = str | Path | Candidate | Kernel
"""The path of a kernel's file; its source text, which is what a text of several lines is; or a candidate."""

Request = TypeVar("Request", bound=Part)


class Where(TypedDict, total=False):
    """Rarely needed arguments that all verbs take.

    `pool` is a Parquet file or folder of recorded measurements for device "replay", `archive` the archive's file,
    `python` a Python that has the torch to measure with, `executor` the machines to measure on ("local", "ssh:HOST",
    "ray", "ray:ADDRESS"), `card` the card to take where these have several ("h200"), `executors` keeps devices warm
    between calls.
    """

    pool: str | Path | None
    archive: str | Path | None
    python: str | Path | None
    executor: str
    card: str
    executors: Executors | None


class Options(Where, total=False):
    """Rarely needed arguments of `optimize` and `estimate`; they mean what the flags of `forewarp optimize` mean.

    Caps besides the budget: `max_gpu_seconds`, `max_usd`, `max_tokens`, `deadline` in seconds. Models: `base_url` of an
    OpenAI-compatible server, `forecast_model`, `language` to keep to. Policy: `confirm`, `holdout`, `audit`, `explore`,
    `proposals`, `measure_per_round`, `patience`, `learn_across_runs`.
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
    learn_across_runs: bool


def known(options: Mapping[str, Any], kind: type[Where]) -> None:
    """Raise `TypeError` for an argument that the verb does not take, with the one that may have been meant."""
    names = kind.__annotations__
    for name in options:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            raise TypeError(f"unexpected keyword argument {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


def checked(kind: type[Request], **fields: Any) -> Request:
    """Make a request; raises `UsageError` that names the field which makes no sense."""
    try:
        return kind(**fields)
    except ValidationError as e:
        first = e.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{name}: {first['msg']}", hint=f"it was {trim(repr(first['input']), 200)}") from None


def place_of(device: str, where: Where) -> Place:
    """Return where to measure and to keep the record."""
    paths = {name: where.get(name) for name in ("pool", "archive", "python")}
    given = {name: None if p is None else str(p) for name, p in paths.items()}
    return checked(Place, device=device, executor=where.get("executor", "local"), card=where.get("card", ""), **given)


def task_of(given: AnyTask) -> str | Task:
    """Return a task as requests take it."""
    return str(given) if isinstance(given, Path) else given


def kernel_of(given: AnyKernel, tunables: Mapping[str, int] | None = None) -> Kernel:
    """Return a kernel as requests take it, with values for some of its tunables."""
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
    *,
    budget: int | None,
    device: str,
    model: str | Sequence[str] | None,
    forecaster: str | Forecaster,
    seeds: Sequence[AnyKernel],
    seed: int,
    options: Options,
) -> SearchRequest:
    """Return what `optimize` and `estimate` ask for; a forecaster of one's own goes beside it, not into it."""
    known(options, Options)
    place = place_of(device, options)
    caps = {name: options.get(flag) for name, flag in _CAPS.items()}
    same = {name: options[name] for name in _SAME if name in options}
    files = [str(s) for s in seeds if isinstance(s, Path) or (isinstance(s, str) and "\n" not in s)]
    wanted = task_of(task)
    if len(files) < len(seeds):
        made = tuple(sessions.choose_candidate(kernel_of(s)) for s in seeds)
        wanted, files = replace(sessions.load_task(wanted, place), seeds=made), []
    return checked(
        SearchRequest,
        task=wanted,
        place=place,
        budget=checked(Amounts, measurements=budget, **caps),
        model=model if model is None or isinstance(model, str) else list(model),
        forecaster=forecaster if isinstance(forecaster, str) else "learned",
        seed_kernels=files,
        seed=seed,
        **same,
    )


_CAPS = {"device_s": "max_gpu_seconds", "dollars": "max_usd", "tokens": "max_tokens", "wall_s": "deadline"}
_SAME = tuple(name for name in Options.__annotations__ if name not in (*_CAPS.values(), *Where.__annotations__))


def define_task(
    source: str | Path,
    *,
    name: str,
    workloads: Mapping[str, Mapping[str, Constant]] | None = None,
    tolerance: tuple[float, float] | None = None,
    seeds: Sequence[AnyKernel] = (),
    title: str = "",
    perturb: bool = True,
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
        family=family,
    )
