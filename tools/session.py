"""Sessions of verbs: loading the task, opening the archive and starting the device, the cheapest failure first."""

from __future__ import annotations

import ast
import os
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self, Unpack, cast

from forewarp.archive.pools.parquet import read_pool, tasks_of
from forewarp.archive.store import LATEST, Archive, default_path
from forewarp.core.errors import CandidateError, DeviceError, TaskError, UsageError, WorkerError
from forewarp.core.languages import languages_on
from forewarp.core.protocols import Executor, Forecaster, SeedMaker, VersionProbe
from forewarp.core.values import REFERENCE, Candidate, DeviceKind, Target, Task, Workload
from forewarp.gpu_runner import devices
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import task as tasks
from forewarp.gpu_runner.formats.inductor import compiled
from forewarp.tools import sources
from forewarp.tools.parts import Kernel, Place, TaskOptions
from forewarp.tools.suite_modules import identical

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from forewarp.gpu_runner.executors.local import Limits, LocalExecutor
    from forewarp.surrogate.models import LanguageModel
    from forewarp.surrogate.reference import ReferenceTime

ESCALATIONS = 8
"""Most candidates that a cascade asks its language model for in one call."""


@dataclass(frozen=True, slots=True)
class Session:
    """A task, an executor for it, and the archive."""

    task: Task
    executor: Executor
    archive: Archive


class Executors:
    """Keeps executors between calls, so that only the first one waits for the device to start.

    `with Executors() as warm:` closes them at the end, and for good: later calls raise `WorkerError`.
    """

    def __init__(self, compile_s: float | None = None) -> None:
        """`compile_s` bounds the seconds that compiling one kernel may take on this machine, instead of the usual 60.

        A module that builds torch extensions may take four times as long.
        """
        self._compile_s = compile_s
        self._open: dict[tuple[str, ...], Executor] = {}
        self._begun: list[Executor] = []
        self._closed = False
        self._lock, self._one_opens = threading.Lock(), threading.Lock()

    def get(self, place: Place, task: Task) -> Executor:
        """Return the executor for a place; a pool's executor is chosen by task, too."""
        of_task = task.sha256 if place.pool else ""
        key = (place.executor, place.device, place.card, place.pool or "", place.python or "", of_task)
        return self._kept(key, lambda: open_executor(place, task, self._begin, self._compile_s))

    def compiler(self, place: Place, target: Target) -> LocalExecutor:
        """Return an executor that compiles for a target which this machine need not have; it measures nothing."""
        from forewarp.gpu_runner.executors.local import LocalExecutor

        key = ("compiler", target.name, place.python or "")
        limits, python = _limits(self._compile_s), place.python or sys.executable
        return cast("LocalExecutor", self._kept(key, lambda: LocalExecutor(target, limits=limits, python=python)))

    def _kept(self, key: tuple[str, ...], opened: Callable[[], Executor]) -> Executor:
        with self._one_opens:
            executor = self._open.get(key)
            if executor is None:
                before = len(self._begun)
                try:
                    executor = opened()
                except BaseException:
                    del self._begun[before:]
                    raise
                self._begin(executor)
                self._open[key] = executor
            return executor

    def _begin(self, executor: Executor) -> None:
        """Register an executor, ready or not, to be closed with the others; raises `WorkerError` if they are closed."""
        with self._lock:
            closed = self._closed
            if not closed:
                self._begun.append(executor)
        if closed:
            executor.close()
            raise WorkerError("the devices were closed while one was opened", hint="nothing is lost: ask again")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all executors, also one that another thread is starting; safe to call twice."""
        with self._lock:
            self._closed, begun, self._begun = True, self._begun, []
            self._open.clear()
        for executor in begun:
            executor.close()


@contextmanager
def closing_executors(executors: Executors | None) -> Generator[Executors]:
    """Yield the given executors, which stay open, or else some of its own that are closed at the end."""
    if executors is not None:
        yield executors
        return
    with Executors() as own:
        yield own


@contextmanager
def open_session(
    place: Place, task: str | Task, executors: Executors | None = None, **options: Unpack[TaskOptions]
) -> Generator[Session]:
    """Load the task, open the archive, then start the device; what was opened here is closed at the end."""
    loaded = load_task(task, place, **options)
    with open_archive(place) as archive, closing_executors(executors) as kept:
        yield Session(loaded, kept.get(place, loaded), archive)


def load_task(name: str | Task, place: Place, **options: Unpack[TaskOptions]) -> Task:
    """Load a task by name or path; on replay, a name may also be that of a task that only the pool knows.

    A `Task` is returned as it is, but for the options. Raises `TaskError`.
    """
    gradients = options.get("gradients")
    loaded = name if isinstance(name, Task) else _loaded(name, place)
    if size := options.get("size"):
        loaded = _resized(loaded, size)
    if gradients and loaded.format != "kernelbench":
        raise TaskError(
            f"{loaded.name} has a check of its own, which knows no gradients",
            hint="write the operation as a KernelBench file, of class Model and get_inputs()",
        )
    if gradients and gradients != loaded.gradients:
        loaded = replace(loaded, gradients=gradients, seeds=())  # which are kernels of another task
    return replace(loaded, allow_tf32=True) if options.get("allow_tf32") else loaded


def task_of(kernels: Sequence[Kernel]) -> str:
    """Return the folder of the task that the files belong to, as `TASK/seeds/FILE` do; raises `UsageError` for none."""
    folders = {str(Path(k.path or "").expanduser().absolute().parent.parent) for k in kernels}
    if len(folders) == 1 and (Path(folder := folders.pop()) / "task.toml").is_file():
        return folder
    raise UsageError(
        "it is not clear which task the kernels are for",
        hint="pass --task TASK, a KernelBench file or a bundled task; `forewarp tasks` lists some",
    )


def _resized(task: Task, size: Mapping[str, int]) -> Task:
    """Return a task with these constants in every workload; of workloads that are then the same, the first is kept.

    Raises `TaskError` for a name that the reference's file does not set.
    """
    if task.format == "kernelbench":
        statements = [n for n in ast.parse(task.reference).body if isinstance(n, ast.Assign | ast.AnnAssign)]
        names = {
            n.id for s in statements for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        if unknown := sorted(size.keys() - names):
            have = f"it has {', '.join(sorted(names))}" if names else "it has none: its sizes stand in its code"
            raise TaskError(f"{task.name} has no constant {unknown[0]!r}", hint=have)
    workloads: dict[DeviceKind, tuple[Workload, ...]] = {}
    for kind, each in task.workloads.items():
        changed: list[Workload] = []
        for workload in (replace(w, constants={**w.constants, **size}) for w in each):
            if all(workload.constants != c.constants for c in changed):
                changed.append(workload)
        workloads[kind] = tuple(changed)
    return replace(task, workloads=workloads)


def _loaded(name: str, place: Place) -> Task:
    held = tasks_of(Path(place.pool).expanduser()) if place.device == "replay" and place.pool else {}
    try:
        loaded = read_task(name)
        if not held or loaded.sha256 in held or Path(name).exists():
            return loaded
    except TaskError:
        if not held or Path(name).exists():
            raise
        loaded = None
    named = [task for task in held.values() if task.name == name]
    if len(named) == 1:
        return named[0]
    if loaded is not None and not named:
        return loaded
    problem = f"the pool {place.pool} holds {len(named) or 'no'} tasks called {name!r}"
    raise TaskError(
        problem, hint=f"it holds {', '.join(sorted({t.name for t in held.values()}))}; or pass a task's file"
    )


def read_task(name: str) -> Task:
    """Read a task by bundled name or path; raises `TaskError`, also for files that are hostile by kind or size."""
    sources.check_task(Path(name))
    with sources.bounded_nesting(f"the task {name}", TaskError):
        loaded = tasks.load(name)
    sources.check_depth(loaded.reference, f"the reference of {name}", TaskError)
    return loaded


def read_candidate(path: str | Path, tunables: Mapping[str, int] | None = None) -> Candidate:
    """Read a kernel's file and the launch plan beside it; raises `CandidateError`, also for hostile files and text."""
    path = Path(path).expanduser()
    for file in (path, path.with_suffix(".toml")):
        sources.check_file(file)
    with sources.bounded_nesting():
        candidate = candidates.load(path, tunables)
    sources.check_depth(candidate.source)
    return candidate


def archive_path(place: Place) -> Path:
    """Return the archive file that the request names, or the user's own."""
    return Path(place.archive).expanduser() if place.archive else default_path()


def open_archive(place: Place) -> Archive:
    return Archive(archive_path(place))


def existing_archive(place: Place, run: str = "") -> Archive:
    """Open an archive to read from it; `run`, if given, is the run to look for, which errors name.

    Raises `UsageError` where there is none: looking at a mistyped path must not leave an empty archive there.
    """
    path = archive_path(place)
    if os.path.exists(path):  # unlike Path.exists, false also where a folder on the way may not be read
        return Archive(path)
    there = f"there is no archive at {path}"
    raise UsageError(
        f"there is no run {run!r}: {there}" if run and run != LATEST else f"{there}, so there are no runs",
        hint="pass --archive PATH of another one, or start a run with `forewarp optimize softmax`",
    )


def _limits(compile_s: float | None) -> Limits | None:
    from forewarp.gpu_runner.executors.local import Limits

    return None if compile_s is None else Limits(compile_s=compile_s)


def open_executor(
    place: Place, task: Task, begun: Callable[[Executor], None] = lambda _: None, compile_s: float | None = None
) -> Executor:
    """Return an executor for the device asked for; raises `DeviceError` that says what is missing.

    `compile_s` bounds the seconds of compiling one kernel on this machine. `begun` gets an executor that has yet to
    start its processes, so that somebody else may close it in the meantime.
    """
    if place.device == "replay":
        if place.executor != "local":
            raise UsageError("a replay needs no other machine", hint="leave --executor out, or --device replay")
        return _replay(place, task)
    if place.pool:
        raise only_for_replay(place)
    if place.executor != "local":
        from forewarp.gpu_runner.remote.over_ssh import open_remote

        executor: Executor = open_remote(place.executor, _device_of(place), place.python)
    else:
        from forewarp.gpu_runner.executors.several import open_local

        executor = open_local(_device_of(place), python=place.python, limits=_limits(compile_s), begun=begun)
    try:
        _check_card(place, executor.target)
    except BaseException:
        executor.close()
        raise
    return executor


def target_of(place: Place) -> Target:
    """Return the device of a place, asking other machines for theirs; the place must not be a replay."""
    device = _device_of(place)
    if place.executor == "local":
        found = devices.choose(device)
    else:
        from forewarp.gpu_runner.remote.over_ssh import open_remote

        with closing(open_remote(place.executor, device, place.python)) as executor:
            found = executor.target
    _check_card(place, found)
    return found


def _device_of(place: Place) -> str:
    return "cpu" if place.device in ("auto", "cuda") and place.card.lower() == "cpu" else place.device


def _check_card(place: Place, target: Target) -> None:
    if place.card and not devices.is_called(target, place.card):
        where = "this machine" if place.executor == "local" else place.executor
        raise DeviceError(
            f"{where} measures on {target.name}, which is no {place.card}",
            hint="`forewarp doctor` says what is there; --executor ssh:HOST measures on another machine",
        )


def only_for_replay(place: Place) -> UsageError:
    """Return the error for a pool that is given with a device other than replay."""
    return UsageError(f"a pool is only for replay, not for device {place.device}", hint="pass --device replay too")


def bundled_tasks() -> list[str]:
    return tasks.bundled()


def choose_candidate(kernel: Kernel) -> Candidate:
    """Return the candidate that is given by file or by text; raises `CandidateError`."""
    if (kernel.path is None) == (kernel.source is None):
        raise UsageError("give the candidate either as a path or as source text", hint="pass exactly one of the two")
    if kernel.path is not None:
        return read_candidate(kernel.path, kernel.tunables)
    source = kernel.source or ""
    sources.check_depth(source)
    with sources.bounded_nesting():
        return candidates.from_source(source, kernel.language or candidates.language_of(source), kernel.tunables)


def check_language(candidate: Candidate, executor: Executor) -> None:
    """Raise `CandidateError` if the device does not run the candidate's language."""
    kind = executor.target.kind
    if candidate.language not in languages_on(kind):
        hint = f"this device runs {', '.join(languages_on(kind))}"
        if kind == "cpu" and candidate.language in languages_on("cuda"):
            hint += "; without a GPU, forecast it with --target h200, or inspect it"
        if kind == "cuda" and candidate.language in languages_on("cpu"):
            hint += "; forecast or measure it with --device cpu"
        raise CandidateError(
            f"a {candidate.language} kernel does not run on {executor.target.name} ({kind})", hint=hint
        )


def with_seeds(
    task: Task,
    kind: DeviceKind,
    paths: Sequence[str],
    language: str | None,
    *,
    make: Callable[[Task], Sequence[Candidate]] | None,
    needed: bool,
) -> Task:
    """Return the task with the seed kernels that the device can run; the user's own replace the bundled ones.

    If there are none, `make` has torch's Inductor make some of a KernelBench reference. If none are left although they
    are `needed`, raises `UsageError`, and the `TaskError` of Inductor where that failed.
    """
    allowed = languages_on(kind)
    if language is not None and language not in allowed:
        raise UsageError(f"{language} does not run on the {kind} device", hint=f"use one of {', '.join(allowed)}")
    wanted = (language,) if language else allowed
    given = tuple(read_candidate(p) for p in paths) or task.seeds
    fitting = tuple(c for c in given if c.language in wanted)
    if not fitting and not paths and make is not None and task.format == "kernelbench" and "python" in wanted:
        try:
            fitting = tuple(make(task))
        except TaskError:
            if needed:
                raise
    if not fitting and paths:
        languages = " and ".join(sorted({c.language for c in given}))
        where, other = (f"in {language}", "language") if language else (f"on the {kind} device", "device")
        raise UsageError(
            f"{languages} kernels cannot start a search {where}",
            hint=f"pass --seed-kernel with a file in {' or '.join(wanted)}, or another --{other}",
        )
    if not fitting and needed:
        makes = make is not None and language not in (None, "python") and task.format == "kernelbench"
        made = "leave --language out to start from code made of the reference, " if makes else ""
        raise UsageError(
            f"there is no {' or '.join(wanted)} seed kernel for {task.name} to start from",
            hint=f"{made}pass one with --seed-kernel FILE, or --model anthropic:NAME to have a model write them",
        )
    return replace(task, seeds=fitting)


def seed_maker(kind: DeviceKind, executor: Executor | None = None) -> Callable[[Task], Sequence[Candidate]]:
    """Return the function that makes seed kernels: the executor's, else one of modules that compile when they run."""
    return executor.make_seeds if isinstance(executor, SeedMaker) else lambda task: (compiled(task.reference, kind),)


def check_forecaster(name: str, model: LanguageModel | None) -> None:
    """Raise `UsageError` where a forecaster needs a model and there is none."""
    if name not in ("none", "learned") and model is None:
        raise UsageError(f"the {name} forecaster needs a model", hint="pass --model anthropic:NAME or openai:NAME")


def make_forecaster(
    name: str,
    model: LanguageModel | None,
    *,
    calibrated: bool = True,
    references: Mapping[str, ReferenceTime] | None = None,
    measures: bool = False,
) -> Forecaster | None:
    """Return the forecaster that is called `name`: learned, llm, cascade, or none.

    Without `calibrated`, forecasts are as the forecaster makes them. `references` are times of references by their
    tasks' sha256. A cascade for who `measures` does not ask where measuring is cheaper. Raises `UsageError` where the
    model is missing.
    """
    check_forecaster(name, model)
    if name == "none":
        return None
    from forewarp.surrogate.calibration import Recalibrated

    def finished(made: Forecaster) -> Forecaster:
        return Recalibrated(made) if calibrated else made

    tiers: list[Forecaster] = []
    if name != "llm" or model is None:
        from forewarp.surrogate.learned import LearnedForecaster

        tiers.append(finished(LearnedForecaster(references=references)))
    if name != "learned" and model is not None:
        from forewarp.gpu_runner.cache import default_cache
        from forewarp.surrogate.alike import ExamplePool
        from forewarp.surrogate.llm import LlmForecaster
        from forewarp.surrogate.questions import Shown

        asked = LlmForecaster(
            model,
            shown=Shown(references=references or {}),
            cache=default_cache() / "answers",
            examples=lambda: ExamplePool(read_pool(tasks.BUNDLED_POOL)),
        )
        tiers.append(finished(asked))
    if len(tiers) < 2 or model is None:
        return tiers[0]
    from pydantic_ai.usage import RunUsage

    from forewarp.surrogate import prices
    from forewarp.surrogate.cascade import CascadeForecaster

    used = RunUsage(input_tokens=prices.ANSWER.input_tokens, output_tokens=prices.ANSWER.output_tokens)
    expected = model.cost(prices.ANSWER.seconds, used)
    return CascadeForecaster(*tiers, expected=expected, limit=ESCALATIONS, prices=model.prices if measures else None)


def reference_time(archive: Archive, task: Task, executor: Executor, *, at_hand: bool) -> dict[str, ReferenceTime]:
    """Return the time of the task's reference by the task's sha256, empty where nothing is known of it.

    It is that of the archive's trials. Where there are none with this torch and a GPU is `at_hand`, the reference is
    measured against itself, and kept; else it is forecast from its own operations.
    """
    from forewarp.surrogate import reference

    target = executor.target
    # What is looked up is no device.
    at_hand = at_hand and target.kind == "cuda" and executor.candidates(task) is None
    there = executor.probe() if isinstance(executor, VersionProbe) else {}
    known = reference_known(archive, task, target, there.get("torch") if at_hand else None)
    if not known and at_hand:
        known = measure_reference(archive, task, executor)
    try:
        signatures = executor.describe(task)
    except TaskError:  # it is said where the kernel is compiled, which may do without
        signatures = ()
    found = reference.ReferenceTime(known) if known else reference.forecast(signatures, target)
    if found is None:
        return {}
    operations = reference.count(signatures)
    return {task.sha256: replace(found, operations=operations, versions=reference.versions_of(there))}


def measure_reference(archive: Archive, task: Task, executor: Executor) -> dict[str, float]:
    """Measure the reference against itself and record it; returns its seconds by workload, empty where that failed."""
    module = identical(task)
    build = executor.compile(task, module)
    try:
        measured = executor.measure(task, module, build)
    except (TaskError, WorkerError):  # such as where it does not fit: whoever measures is told
        return {}
    archive.record(task, executor.target, module, build, measured)
    return {w.workload: w.anchor_median_s for w in measured.workloads}


def reference_known(archive: Archive, task: Task, target: Target, torch: str | None = None) -> dict[str, float]:
    """Return the reference's seconds by workload as the archive has them, measured with this `torch`.

    Without one, with the torch of the latest trial. Empty where this task was not measured so on this target.
    """
    from forewarp.surrogate.questions import reference_times

    trials = archive.trials(task.sha256, target.name)
    versions = [_release(t.measurement.environment.get("torch", "")) for t in trials]
    wanted = _release(torch) if torch else versions[-1] if versions else ""
    return reference_times(t.measurement for t, version in zip(trials, versions, strict=True) if version == wanted)


def _release(version: str) -> str:
    """Return a version without what it was built for, which torch tells and its package's metadata may not."""
    return version.partition("+")[0]


def make_model(model: str | Model | None, base_url: str | None) -> LanguageModel | None:
    """Return the model that was asked for; raises `ModelError` before anything is spent on the run."""
    if model is None:
        if base_url:
            raise UsageError("a base URL needs a model", hint="pass --model openai:NAME with --base-url")
        return None
    from forewarp.surrogate.models import resolve

    return resolve(model, base_url or "")


def check_price(model: LanguageModel) -> None:
    """Raise `UsageError` if dollars cannot be counted for this model: a cap that is never reached is no cap."""
    from pydantic_ai.usage import RunUsage

    if model.cost(0.0, RunUsage(input_tokens=1)).dollars is None:
        raise UsageError(
            f"the price of {model.label} is unknown, so its dollars cannot be capped",
            hint="cap tokens instead, or add the price to the table that $FOREWARP_PRICES names",
        )


def _replay(place: Place, task: Task) -> Executor:
    from forewarp.archive.pools.replay import ReplayExecutor

    path = Path(place.pool or tasks.BUNDLED_POOL).expanduser()
    rows = read_pool(path, task_sha256=task.sha256)
    targets = [r.target for r in rows if r.measurement.anchor == REFERENCE]
    if not rows:
        known = ", ".join(sorted({t.name for t in tasks_of(path).values()})) or "nothing"
        raise TaskError(f"the pool {place.pool} has no measurement of {task.name}", hint=f"it holds {known}")
    if not targets:
        raise TaskError(
            f"the pool {place.pool} holds {task.name} against other kernels only, not against the reference",
            hint="a search compares with the reference; such rows are for forecasters to learn from",
        )
    # A pool of several devices is replayed on the card asked for, or the one with most measurements of the task.
    names = [t.name for t in targets]
    able = [t for t in targets if not place.card or devices.is_called(t, place.card)]
    if not able:
        raise DeviceError(
            f"the pool {place.pool} has no measurement of {task.name} on any {place.card}",
            hint=f"it has some on {', '.join(sorted(set(names)))}",
        )
    return ReplayExecutor(rows, max(able, key=lambda t: names.count(t.name)))
