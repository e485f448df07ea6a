"""Measure a folder of kernels on a folder of problems: which are correct, how fast over eager and torch.compile."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import forewarp
from forewarp.core.errors import CandidateError, TaskError, UsageError
from forewarp.core.protocols import Executor, VersionProbe
from forewarp.core.values import Candidate, Task
from forewarp.gpu_runner.executors.client import readable
from forewarp.tools import session as sessions
from forewarp.tools import suite_measuring, suite_modules, suite_tables
from forewarp.tools.measured import MeasureResult
from forewarp.tools.parts import Device, Interval, Kernel, Place
from forewarp.tools.plan_proposal import planned_candidate
from forewarp.tools.requests import SuiteRequest
from forewarp.tools.session import Executors
from forewarp.tools.suite_files import choose_problems, find_kernels, find_problems, match
from forewarp.tools.suite_measuring import COMPILED, SuiteMeasuring, SuiteProblem, SuiteProgress
from forewarp.tools.suite_results import (
    Baseline,
    CompileRow,
    RowStatus,
    SuiteResult,
    SuiteRow,
    Unmatched,
    best_of,
    by_problem,
    counted,
    over,
    summarise,
    view,
)

FOLDER = "forewarp-suites"
IDENTICAL = "identical"
_PROBLEM = re.compile(r"^(class Model\b|def get_(init_)?inputs\b)", re.MULTILINE)


def run_suite(
    request: SuiteRequest,
    *,
    progress: Callable[[SuiteProgress], None] = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
    executors: Executors | None = None,
) -> SuiteResult:
    """Measure the kernels that the record lacks, write the tables beside it, and return all results.

    A problem or kernel that fails is a row. Once `stopped` says so, what is being measured is finished and the rest
    left for the next call. Raises `UsageError` for a request that makes no sense, `DeviceError`, and `WorkerError`
    where the device is lost again and again; what was measured until then is recorded.
    """
    _check(request)
    folder = Path(request.output).expanduser() if request.output else Path(FOLDER) / _name(request)
    kept = executors or Executors()
    try:
        loaded = _load(request, kept)
        executor = kept.get(request.place, loaded.problems[0].task)
        problems = [_fitting(p, executor) for p in loaded.problems]
        # A result depends on these; those of other machines are not known here.
        versions = {"forewarp": forewarp.__version__} | (executor.probe() if isinstance(executor, VersionProbe) else {})
        with (
            sessions.open_archive(request.place) as archive,
            suite_measuring.opened(folder, executor.target, versions) as record,
        ):
            measuring = SuiteMeasuring(executor, archive, record, request.retry_failed, progress, stopped)
            measuring.run(problems)
            result = _result(request, loaded, problems, measuring, folder)
    finally:
        if executors is None:
            kept.close()
    suite_tables.write(result, folder)
    return result


def _check(request: SuiteRequest) -> None:
    if (request.kernels is None) == (not request.identical):
        raise UsageError(
            "a suite needs either kernels or --identical",
            hint="pass the folder of kernels after that of the problems; --identical measures references only",
        )
    if request.place.device == "replay":
        raise UsageError("a suite is measured, not looked up", hint="leave --device replay out")


@dataclass(frozen=True, slots=True)
class _Loaded:
    """Contents of the files: problems, rows of those that cannot be read, files that belong nowhere; all in order."""

    problems: list[SuiteProblem]
    unreadable: list[SuiteRow]
    unmatched: list[Unmatched]
    order: list[str]


def _load(request: SuiteRequest, executors: Executors) -> _Loaded:
    """Read problems and kernels; raises `UsageError` where no problem is left."""
    every = find_problems(request.problems)
    chosen = choose_problems(every, request.only, request.limit)
    matched = match(chosen, [] if request.kernels is None else find_kernels(request.kernels), every)
    loaded = _Loaded([], [], [Unmatched(path=k.name, reason=why) for k, why in matched.unmatched], [])
    for file in chosen:
        files = matched.kernels[file.name]
        try:
            task = sessions.read_task(str(file.path.absolute()))
        except TaskError as e:
            if not files and len(every) > 1 and _is_none(file.path):
                loaded.unmatched.append(Unmatched(path=file.name, reason="it defines no Model, so it is no problem"))
                continue
            loaded.order.append(file.name)
            for name in [k.name for k in files] or [""]:
                row = SuiteRow(problem=file.name, kernel=name, status="problem_failed", log=readable(str(e)))
                loaded.unreadable.append(row)
            continue
        loaded.order.append(file.name)
        kernels: dict[str, Candidate | str] = {IDENTICAL: suite_modules.identical(task)} if request.identical else {}
        kernels |= {k.name: _read(k.path, task, request.place, executors) for k in files}
        compiled = suite_modules.compiled(task) if "compile" in request.baselines else None
        loaded.problems.append(SuiteProblem(file.name, task, kernels, compiled))
    if not loaded.problems:
        why = loaded.unreadable[0].log if loaded.unreadable else "none of the files defines a Model"
        raise TaskError(f"no problem of {request.problems} can be read: {why}")
    return loaded


def _is_none(path: Path) -> bool:
    """Return whether a file is clearly no problem: it defines neither `Model` nor the functions for its inputs."""
    try:
        return path.is_file() and not _PROBLEM.search(path.read_text(errors="replace"))
    except OSError:
        return False


def _read(path: Path, task: Task, place: Place, executors: Executors) -> Candidate | str:
    try:
        return planned_candidate(Kernel(path=str(path)), task, place, executors)
    except CandidateError as e:
        return readable(str(e))


def _fitting(problem: SuiteProblem, executor: Executor) -> SuiteProblem:
    """Return the problem with a reason in place of each kernel that the device does not run."""

    def fitting(kernel: Candidate | str) -> Candidate | str:
        try:
            if isinstance(kernel, Candidate):
                sessions.check_language(kernel, executor)
        except CandidateError as e:
            return str(e)
        return kernel

    return replace(problem, kernels={name: fitting(kernel) for name, kernel in problem.kernels.items()})


def _name(request: SuiteRequest) -> str:
    """Return a folder's name for a suite: problems and kernels, by the last parts of their paths."""
    what = Path(request.problems).expanduser().absolute()
    whose = IDENTICAL if request.kernels is None else Path(request.kernels).expanduser().absolute().stem
    return re.sub(r"[^\w.\-]+", "_", f"{what.stem}-{whose}").strip("_.") or "suite"


def _result(
    request: SuiteRequest, loaded: _Loaded, problems: Sequence[SuiteProblem], measuring: SuiteMeasuring, folder: Path
) -> SuiteResult:
    record = measuring.record
    compiled = {p.name: _compile_row(p, measuring) for p in problems if COMPILED in dict(p.candidates())}
    found = by_problem(loaded.unreadable)
    for problem in problems:
        over_eager = compiled[problem.name].speedup if problem.name in compiled else None
        found[problem.name] = _rows(problem, measuring, over_eager)
    groups = [found[name] for name in loaded.order]
    rows = [row for group in groups for row in group]
    baselines: list[Baseline] = ["eager", *(b for b in request.baselines if b == "compile")]
    best = view([[best_of(group)] for group in groups], baselines)
    left = sum(row.status == "not_measured" for row in rows) + sum(
        c.status == "not_measured" for c in compiled.values()
    )
    results = {record.key(p.task, c): record.get(p.task, c) for p in problems for _, c in p.candidates()}
    return SuiteResult(
        summary=summarise(groups, best, left=left),
        status="interrupted" if left else "finished",
        device=Device.of(record.target),
        versions=dict(record.versions),
        baselines=baselines,
        problems=len(groups),
        kernels=sum(row.kernel != "" for row in rows),
        best=best,
        per_sample=view(groups, baselines),
        statuses=counted(row.status for row in rows),
        verdicts=counted(row.verdict for row in rows if row.verdict is not None and row.status == "ok"),
        rows=rows,
        compiled=list(compiled.values()),
        unmatched=loaded.unmatched,
        output=str(folder.absolute()),
        seconds=sum(e.result.cost.seconds for e in results.values() if e is not None and e.result is not None),
    )


def _rows(problem: SuiteProblem, measuring: SuiteMeasuring, compiled: Interval | None) -> list[SuiteRow]:
    """Return one row for each kernel of a problem; `compiled` is the speed-up of torch.compile on the reference."""
    bare = SuiteRow(problem=problem.name, problem_sha256=problem.task.sha256, kernel="", status="no_kernel")
    if not problem.kernels:
        return [bare.model_copy(update={"log": "no kernel's name is that of the problem"})]
    return [_row(bare, name, kernel, problem, measuring, compiled) for name, kernel in problem.kernels.items()]


def _row(
    bare: SuiteRow,
    name: str,
    kernel: Candidate | str,
    problem: SuiteProblem,
    measuring: SuiteMeasuring,
    compiled: Interval | None,
) -> SuiteRow:
    if isinstance(kernel, str):
        return bare.model_copy(update={"kernel": name, "status": "unreadable", "log": kernel})
    status, log, result = _found(problem, kernel, measuring)
    fields = {"kernel": name, "status": status, "log": log, "sha256": kernel.sha256}
    if result is None:
        return bare.model_copy(update=fields)
    trusted = result.trusted and result.speedup is not None
    times = [(w.candidate_us.median, w.reference_us.median) for w in result.workloads]
    kernel_us, reference_us = (_geomean([t[i] for t in times]) for i in (0, 1))
    return SuiteRow.of(
        result,
        problem=problem.name,
        problem_sha256=problem.task.sha256,
        correct=result.status == "ok",
        trusted=trusted,
        eager=result.speedup,
        compile=over(result.speedup, compiled) if trusted and result.speedup and compiled else None,
        kernel_us=kernel_us,
        reference_us=reference_us,
        seconds=result.cost.seconds,
        **fields,
    )


def _compile_row(problem: SuiteProblem, measuring: SuiteMeasuring) -> CompileRow:
    assert problem.compiled is not None
    status, log, result = _found(problem, problem.compiled, measuring)
    row = CompileRow(problem=problem.name, status=status, log=log)
    if result is None:
        return row
    speedup = result.speedup if result.trusted else None
    return row.model_copy(update={"verdict": result.verdict, "speedup": speedup, "seconds": result.cost.seconds})


def _found(
    problem: SuiteProblem, candidate: Candidate, measuring: SuiteMeasuring
) -> tuple[RowStatus, str, MeasureResult | None]:
    """Return the status of a measurement, why it failed, and its result."""
    entry = measuring.record.get(problem.task, candidate)
    lost = measuring.lost.get(measuring.record.key(problem.task, candidate))
    if entry is None:
        return ("not_measured", "", None) if lost is None else ("lost", lost, None)
    if entry.result is None:
        return "problem_failed" if entry.of_problem else "unreadable", entry.error, None
    log = entry.result.log if entry.result.status != "ok" or not entry.result.trusted else ""
    return entry.result.status, log, entry.result


def _geomean(times: Sequence[float]) -> float | None:
    return statistics.geometric_mean(times) if times and min(times) > 0 else None
