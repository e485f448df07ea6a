"""Choose configurations of autotuned kernels: forecast all, compile the promising ones, measure few or none."""

from __future__ import annotations

import ast
import difflib
import json
import math
import shlex
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from forewarp.core.errors import CandidateError, UsageError, WorkerError
from forewarp.core.languages import C_SUFFIXES
from forewarp.core.values import Target
from forewarp.gpu_runner import devices
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats.python_text import replaced
from forewarp.inspection.tracing.files.loading import readable_beside
from forewarp.inspection.tracing.values import SourceFile
from forewarp.tools import sources
from forewarp.tools.inspect_kernel import choose_target
from forewarp.tools.parts import SCHEMA_VERSION, ChosenConfiguration, Device, OnStage, Part, unwatched
from forewarp.tools.requests import CHOICES_NAME, USUALLY_COMPILED, USUALLY_MEASURED, TuneRequest
from forewarp.tools.tuned_tables import (
    TableInUse,
    check_vllm,
    check_writable,
    helion_files,
    own_table,
    vllm_keys,
    vllm_table,
)
from forewarp.tuning import forecasts
from forewarp.tuning.counting import NotCounted
from forewarp.tuning.jobs import Observed
from forewarp.tuning.locks import Lock, LockKey
from forewarp.tuning.space import Configuration
from forewarp.tuning.tuner import Tried, Tuned, Tuner


class TriedConfiguration(Part):
    """One configuration of a kernel."""

    configuration: str
    forecast: float = Field(description="Forecast time over that of the configuration forecast fastest.")
    registers: int | None = Field(description="Registers per thread; null where it was not compiled.")
    spills: int | None = Field(description="Registers per thread that lie in memory.")
    shared_bytes: int | None
    measured_us: float | None = Field(description="Median device time, L2 cache cold; null where it was not measured.")
    speedup: float | None = Field(description="Over the baseline, in the same rounds.")
    low: float | None = Field(description="Lower end of the 95 % interval.")
    high: float | None = Field(description="Upper end of the 95 % interval.")
    proposed: bool = Field(description="Not among the file's own configurations.")
    checked: bool = Field(description="The whole call was done with it, and gave the first configuration's results.")
    problem: str


class TunedKernel(Part):
    """One kernel in one call: its best configuration, and those that were looked at, the best first."""

    kernel: str
    call: str
    key: dict[str, int | float | str | bool | None] = Field(description="Arguments by which Triton tells calls apart.")
    guessed: bool = Field(description="The call's arguments were guessed: no call of the file launches the kernel.")
    considered: int
    proposed: int = Field(description="How many of them are not the file's own.")
    compiled: int
    measured: int
    best: TriedConfiguration | None = Field(
        description="Null where nothing was measured and forecasts do not choose: of choices that had to be compiled."
    )
    baseline: str = Field(
        description="Configuration that speed-ups are over: that of the table in use, else the file's first."
    )
    chosen_by: str = Field(
        description="measurement, or forecast where nothing was measured, or lock; empty without a best one."
    )
    configurations: list[TriedConfiguration]
    protections: list[str]


class TuneResult(Part):
    """Best configurations of a file's autotuned kernels."""

    summary: str
    schema_version: int = SCHEMA_VERSION
    target: Device
    forecasts: str = Field(description="Version of the forecasts.")
    kernels: list[TunedKernel]
    problems: list[str]
    device_s: float = Field(description="Seconds for which the device was held.")
    table: str = Field(description="File or folder that the table was written to; empty where none was asked for.")
    lock: str = Field(default="", description="Lock file that the choices stand in; empty without one.")
    patch: str = Field(description="Change of the file that leaves it the best configurations only, as a unified diff.")

    def chosen(self) -> list[ChosenConfiguration]:
        """Return what each kernel gets, in short."""
        return [
            ChosenConfiguration.of(k.best, kernel=k.kernel, call=k.call, considered=k.considered, measured=k.measured)
            for k in self.kernels
            if k.best is not None
        ]


def is_autotuned(path: Path) -> bool:
    """Return whether a file is one to tune: Python with an autotuned kernel, and no KernelBench problem."""
    try:
        sources.check_file(path)
        tree = ast.parse(path.read_text(encoding="utf-8-sig"))
    except (CandidateError, OSError, SyntaxError, ValueError):
        return False
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    problem = any(isinstance(n, ast.ClassDef) and n.name == "Model" for n in tree.body)
    return not problem and any(_listed(f) is not None for f in functions)


class TuneJob:
    """A tuning in progress: `run` in one thread, `stop` from any other. `device_s` and `measured` count meanwhile."""

    def __init__(self, request: TuneRequest, *, stage: OnStage = unwatched) -> None:
        """Read what the request names.

        Raises `CandidateError` where the file cannot be read, and `UsageError` where the card is not here to measure
        on, or the table or the lock file cannot be written or be of the form asked for.
        """
        self._request, self._stage = request, stage
        self._path = Path(request.file).expanduser().absolute()
        sources.check_file(self._path, "the file")
        self._source = candidates.read(self._path)
        if self._path.suffix in C_SUFFIXES:
            raise UsageError(
                f"{self._path.name} does not say what its kernels are called with",
                hint="pass --task TASK, a KernelBench file or a bundled task; `forewarp tasks` lists some",
            )
        try:
            ast.parse(self._source, self._path.name)
        except (SyntaxError, ValueError) as e:
            hint = "pass a Python file with autotuned kernels"
            raise CandidateError(f"{self._path} is no Python: {e}", hint=hint) from None
        if request.format != "forewarp" and request.table is None:
            raise UsageError(f"--format {request.format} is the form of a table", hint="name its file with --table")
        if request.table is not None:
            check_writable(Path(request.table).expanduser(), folder=request.format in ("triton", "helion"))
        self._keys = vllm_keys(request.calls) if request.format == "vllm" else {}
        used = request.against
        self._used = TableInUse(Path(used).expanduser(), request.calls) if used is not None else None
        self._target = choose_target(request.target)
        self._lock = _opened_lock(request)
        usually = (USUALLY_COMPILED, USUALLY_MEASURED) if self._lock is None else (0, 0)
        self._compile = usually[0] if request.compile is None else request.compile
        self._measure = usually[1] if request.measure is None else request.measure
        if self._measure and not _is_here(self._target):
            raise UsageError(
                f"there is no {self._target.name} here to measure on",
                hint="pass --measure 0 to choose by forecasts alone",
            )
        self._kernels: list[TunedKernel] = []
        self._problems: list[str] = []
        self._keys_locked: set[LockKey] = set()
        self._tuner = Tuner(
            SourceFile(self._source, str(self._path)),
            self._target,
            request.python or sys.executable,
            reads=readable_beside(str(self._path)),
            space=request.space,
        )
        self._stopped = False

    @property
    def device_s(self) -> float:
        return self._tuner.device_s

    @property
    def measured(self) -> int:
        """Configurations measured so far, of the kernels that are done."""
        return sum(k.measured for k in self._kernels)

    def stop(self) -> None:
        """End it at once: `run` raises `CandidateError`. Safe to call twice."""
        self._stopped = True
        self._tuner.stop()

    def run(self) -> TuneResult:
        """Tune each autotuned kernel in each call, once.

        Raises `CandidateError` where the file launches no autotuned kernel, or its own code fails.
        """
        try:
            with self._tuner:
                return self._run()
        except WorkerError as e:
            if not self._stopped:
                raise
            raise CandidateError("the tuning was stopped", hint="tune the file again") from e

    def _run(self) -> TuneResult:
        request = self._request
        until = time.monotonic() + (request.deadline_s or math.inf)
        self._stage("calling the file's functions")
        observed, problems = self._tuner.observe(request.calls)
        self._problems += problems
        if request.format == "vllm":
            check_vllm(observed, self._keys)
        tuned: list[Tuned] = []
        for number, one in enumerate(observed, 1):
            try:
                found = self._tuner.tune(
                    one,
                    compiled=self._compile,
                    measured=self._affordable(),
                    baseline=self._baseline(one),
                    until=until,
                    stage=lambda text, n=number: self._stage(f"{text} ({n} of {len(observed)})"),
                )
            except NotCounted as e:
                self._problems.append(str(e))
                continue
            except CandidateError as e:
                if self._stopped:
                    raise
                self._problems.append(f"{one.space.kernel} in {one.call}: {e}")
                continue
            found, locked = self._locked(found)
            tuned.append(found)
            self._kernels.append(tuned_kernel(found, locked=locked))
            failed = [t.problem for t in found.tried if t.problem]
            if failed and not self._kernels[-1].compiled:
                self._problems.append(f"{one.space.kernel} in {one.call}: no configuration compiles: {failed[0]}")
        if time.monotonic() > until:
            said = f"{request.deadline_s:g} s were over before everything was compiled and measured"
            self._problems.append(said)
        if not self._kernels:
            raise CandidateError("no kernel could be tuned: " + "; ".join(self._problems), hint="see --verbose")
        guessed = dict.fromkeys(t.observed.space.kernel for t in tuned if t.observed.attempt is not None)
        if self._lock is not None and guessed:
            said = f"not locked, because their calls are guesses: {', '.join(guessed)}; name yours with --call"
            self._problems.append(said)
        self._problems += [
            f"{name}: hooks of its configurations are functions, so the patch leaves them as they are"
            for name in sorted({t.observed.space.kernel for t in tuned if _hooked(t)})
        ]
        if request.table:
            self._write_table(Path(request.table).expanduser(), tuned)
        return TuneResult(
            summary=summary(self._kernels, self._target, "the file's first" if self._used is None else "the table's"),
            target=Device.of(self._target),
            forecasts=forecasts.version(),
            kernels=self._kernels,
            problems=self._problems,
            device_s=self.device_s,
            table=request.table or "",
            lock=request.lock or CHOICES_NAME if self._keys_locked else "",
            patch=patch(self._path.name, self._source, tuned),
        )

    def _affordable(self) -> int:
        """Return how many configurations of the next kernel may be measured beside its first one."""
        if self._request.budget is None:
            return self._measure
        return max(0, min(self._measure, self._request.budget - self.measured - 1))

    def _locked(self, found: Tuned) -> tuple[Tuned, bool]:
        """Put the locked configuration of a kernel first, or lock its best one; return whether it was locked before."""
        if self._lock is None:
            return found, False
        one = found.observed
        name = f"{one.space.kernel} in {one.call}"
        if one.attempt is not None:
            return found, False
        key = LockKey.of(one.space, one.key, self._target)
        label, stale = self._lock.find(key, [t.label for t in found.tried if not t.problem and not t.proposed])
        if stale:
            self._say(stale)
        if key in self._keys_locked:
            self._say(f"{name}: Triton does not tell it from an earlier call, whose choice it gets")
        self._keys_locked.add(key)
        if label is None:
            self._lock.keep(key, found.best.label)
            return found, False
        first = next(t for t in found.tried if t.label == label)
        return replace(found, tried=(first, *(t for t in found.tried if t is not first))), True

    def _say(self, problem: str) -> None:
        if problem not in self._problems:
            self._problems.append(problem)

    def _baseline(self, one: Observed) -> int:
        """Return the place of the configuration that speed-ups are over: the table's, else the file's first."""
        place = self._used.place(one) if self._used is not None else 0
        if place is None:
            said = f"{one.space.kernel} in {one.call}: the table in use names none of the file's configurations"
            self._problems.append(f"{said}, so speed-ups are over the first of them")
        return place or 0

    def _write_table(self, path: Path, tuned: Sequence[Tuned]) -> None:
        """Write the table; beside one in another project's form, which has no room for it, what it rests on."""
        own = json.dumps(own_table(tuned, self._target, command(self._request)), indent=1) + "\n"
        match self._request.format:
            case "forewarp":
                path.write_text(own)
            case "vllm":
                path.write_text(json.dumps(vllm_table(tuned, self._keys), indent=4) + "\n")
                path.with_suffix(".evidence.json").write_text(own)
            case "triton":
                path.mkdir(parents=True, exist_ok=True)
                for one in tuned:
                    if problem := self._tuner.keep_timings(one, path):
                        self._problems.append(f"{one.observed.space.kernel} in {one.observed.call}: {problem}")
                (path / "forewarp.evidence.json").write_text(own)
            case "helion":
                path.mkdir(parents=True, exist_ok=True)
                for name, text in helion_files(tuned).items():
                    (path / name).write_text(text)
                (path / "forewarp.evidence.json").write_text(own)


def _opened_lock(request: TuneRequest) -> Lock | None:
    """Return the lock file that a request wants; raises `UsageError` where it is none, or measuring is asked for."""
    if not request.deterministic and request.lock is None:
        return None
    if request.measure:
        raise UsageError(
            f"--deterministic chooses by forecast alone, and --measure {request.measure} by measurements",
            hint="leave one of them out",
        )
    path = Path(request.lock or CHOICES_NAME).expanduser()
    check_writable(path, "lock file")
    return Lock(path)


def command(request: TuneRequest) -> str:
    words = ["forewarp", "tune", request.file, *(w for call in request.calls for w in ("--call", call))]
    for name in ("task", "target", "measure", "lock", "compile", "budget", "against", "table"):
        if (value := getattr(request, name)) is not None:
            words += [f"--{name}", str(value)]
    words += ["--deterministic"] if request.deterministic else []
    words += ["--space"] if request.space else []
    words += ["--format", request.format] if request.table is not None else []
    return shlex.join(words)


def patch(name: str, source: str, tuned: Sequence[Tuned]) -> str:
    """Return the change that leaves each kernel its best configurations, as a unified diff; "" where none is found."""
    changes: list[tuple[ast.expr, str]] = []
    for function in (n for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)):
        best = [t for t in tuned if t.observed.space.kernel == function.name]
        listed = _listed(function)
        if best and listed is not None and not any(map(_hooked, best)):
            chosen = dict.fromkeys(_written(t.observed.space.configurations[t.best.place]) for t in best)
            changes.append((listed, f"[{', '.join(chosen)}]"))
    before, after = (text.splitlines(keepends=True) for text in (source, replaced(source, changes)))
    return "".join(difflib.unified_diff(before, after, f"a/{name}", f"b/{name}"))


def _listed(function: ast.FunctionDef) -> ast.expr | None:
    """Return the expression that lists the configurations in a kernel's decorator."""
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("autotune"):
            named = next((k.value for k in decorator.keywords if k.arg == "configs"), None)
            return named or (decorator.args[0] if decorator.args else None)
    return None


def _written(c: Configuration) -> str:
    values = ", ".join(f'"{n}": {v!r}' for n, v in c.values.items())
    more = f", num_ctas={c.blocks}" * (c.blocks != 1) + f", maxnreg={c.registers}" * bool(c.registers)
    return f"triton.Config({{{values}}}, num_warps={c.warps}, num_stages={c.stages}{more})"


def _hooked(t: Tuned) -> bool:
    return t.observed.space.configurations[t.best.place].hooked


def tuned_kernel(t: Tuned, *, chosen: bool = True, locked: bool = False) -> TunedKernel:
    """Return a kernel's configurations as results show them: those that were looked at, else the first of all.

    None of them is the best unless one was `chosen`; `locked` says that a lock file chose it.
    """
    looked_at = [x for x in t.tried if x.measured_us or x.registers is not None or x.problem] or list(t.tried[:20])
    return TunedKernel(
        kernel=t.observed.space.kernel,
        call=t.observed.call,
        key={n: v if isinstance(v, bool | int | float | str) else None for n, v in t.observed.key.items()},
        guessed=t.observed.attempt is not None,
        considered=len(t.tried),
        proposed=sum(x.proposed for x in t.tried),
        compiled=sum(x.registers is not None for x in t.tried),
        measured=sum(x.measured_us is not None for x in t.tried),
        best=_configuration(t.best) if chosen else None,
        baseline=t.observed.space.configurations[t.baseline].label,
        chosen_by="" if not chosen else "lock" if locked else "measurement" if t.best.measured_us else "forecast",
        configurations=[_configuration(x) for x in looked_at],
        protections=list(t.protections),
    )


def _configuration(x: Tried) -> TriedConfiguration:
    return TriedConfiguration.of(x, configuration=x.label, shared_bytes=x.shared)


def can_measure() -> bool:
    """Return whether there is a GPU here to measure configurations on."""
    return devices.detect_cuda() is not None


def _is_here(target: Target) -> bool:
    found = devices.detect_cuda()
    return found is not None and (found.name == target.name or devices.is_called(found, target.name.split()[-1]))


def summary(kernels: Sequence[TunedKernel], target: Target, over: str) -> str:
    """Return a sentence of what was chosen; `over` says what speed-ups are over."""
    best = [k.best for k in kernels if k.best is not None]
    gains = [b.speedup for b in best if b.speedup]
    guessed = " Arguments are guesses; name a call by --call." if any(k.guessed for k in kernels) else ""
    many = f"{len(kernels)} calls" if len(kernels) > 1 else kernels[0].kernel
    if not gains:
        who = "the lock file chooses" if kernels[0].chosen_by == "lock" else "the best is"
        said = f"; {who} {best[0].configuration}" if len(best) == 1 else ""
        considered = sum(k.considered for k in kernels)
        return f"{many}: {considered} configurations forecast for {target.name}, none measured{said}.{guessed}"
    return (
        f"{many} on {target.name}: {statistics.geometric_mean(gains):.2f}× {over} configuration, "
        f"{sum(k.measured for k in kernels)} of {sum(k.considered for k in kernels)} configurations measured.{guessed}"
    )
