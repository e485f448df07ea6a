"""The zoo: known ways to cheat a benchmark of kernels, with what a measurement must make of each.

`catalogue.toml` lists the rows and the candidates, `candidates/` holds their sources, `tasks/` what they cheat on.
"""

from __future__ import annotations

import contextlib
import glob
import os
import platform
import shutil
import sysconfig
import tomllib
from dataclasses import dataclass, field
from dataclasses import replace as but
from functools import lru_cache
from pathlib import Path
from typing import Any

from forewarp.core.protocols import Subject
from forewarp.core.values import UNTRUSTED, Candidate, DeviceKind, Task
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import task as tasks
from forewarp.tools.measured import MeasureResult, result_of

HERE = Path(__file__).parent
SOURCES = HERE / "candidates"
NO_GAIN, GAIN, DEGENERATE, SOUND = "no gain", "gain", "degenerate", "sound"
NOT_TRUSTED = "not trusted"
"""Nothing is said against the candidate, but the user is told that the measurement is too noisy to be trusted."""
BELIEVED = ("faster", "slower", "tie", "inconclusive")
"""Verdicts that say nothing against a kernel."""
MARGINS: dict[DeviceKind, float] = {"cpu": 1.25, "cuda": 1.05}
"""A speed-up over the honest twin is a gain if its whole interval lies above this. Processors are shared, GPUs not."""
LIMITS = Limits(compile_s=60, measure_s=40, call_s=1.5, memory=2 << 30, time_s=0.06)
PATIENT_S = 20.0
"""Seconds that a call may take of a cheat that is not to hang: imports within a call take a slow machine seconds."""
MOST_LOG = 10_000
"""Characters of a log that anybody should have to read."""


@dataclass(frozen=True, slots=True)
class Cheat:
    """One candidate that cheats; the fields are those of `catalogue.toml`, where they are explained."""

    file: str
    expect: tuple[str, ...]
    name: str = ""
    devices: tuple[DeviceKind, ...] = ()
    task: str = "scores"
    twin: str = ""
    fools: float | None = None
    sets: int = 1
    runs: int = 1
    leaves: tuple[str, ...] = ()
    processes: str = ""
    replace: dict[str, str] = field(default_factory=dict[str, str])
    machine: str = ""
    listens: bool = False
    clean_log: bool = False
    quick: bool = True
    everywhere: bool = True

    @property
    def id(self) -> str:
        """File name without suffix, and the variant's name."""
        return f"{self.file} ({self.name})" if self.name else self.file

    @property
    def runs_here(self) -> bool:
        """Whether this machine's processor is the one that the cheat is written for."""
        return self.machine in ("", platform.machine())

    def candidate(self) -> Candidate:
        """Return the candidate, with its includes and replacements worked in."""
        return source(SOURCES / self.file, self.replace)

    def limits(self, usual: Limits) -> Limits:
        """Return the limits to measure it within: a call that is held up must not look like one that hangs."""
        return usual if "timeout" in self.expect else but(usual, call_s=PATIENT_S)

    def honest(self) -> Candidate | None:
        """Return the honest version; None where that is the reference itself."""
        return source(SOURCES / self.twin) if self.twin else None


@dataclass(frozen=True, slots=True)
class Row:
    """One known way to cheat, with the cheats that try it."""

    number: int
    title: str
    how: str
    tier: str
    outcome: str
    by: str
    cheats: tuple[Cheat, ...] = ()


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of one cheat on one device. `problems` says what else it did that it must not."""

    outcome: str
    result: MeasureResult | None = None
    problems: tuple[str, ...] = ()

    def is_right(self, cheat: Cheat) -> bool:
        """Whether this must come of the cheat. Where nothing may be gained, a verdict that is no win will do.

        So will a device program that gains nothing: it was found right, and holds nothing of the module's host code.
        """
        harmless = (*UNTRUSTED, "ambiguous", NOT_TRUSTED) if NO_GAIN in cheat.expect else ()
        if self.result is not None and self.result.lifting.startswith("lifted"):
            harmless = (*harmless, NO_GAIN)
        return self.outcome in (*cheat.expect, *harmless) and not self.problems


@lru_cache(maxsize=1)
def rows() -> tuple[Row, ...]:
    """Read the catalogue."""
    table = tomllib.loads((HERE / "catalogue.toml").read_text())
    return tuple(_row(r) for r in table["row"])


def _row(table: dict[str, Any]) -> Row:
    cheats = tuple(_cheat(c) for c in table.pop("cheat", []))
    return Row(**table, cheats=cheats)


def _cheat(table: dict[str, Any]) -> Cheat:
    usual = {".py": ("cpu", "cuda"), ".cpp": ("cpu",), ".cu": ("cuda",)}[Path(table["file"]).suffix]
    fields: dict[str, Any] = {"devices": usual}
    fields.update((k, tuple(v) if isinstance(v, list) else v) for k, v in table.items())
    return Cheat(**fields)


def source(path: Path, replace: dict[str, str] | None = None) -> Candidate:
    """Read a candidate. A line `//zoo: include NAME` stands for the text of `parts/NAME`."""
    lines = [
        (HERE / "parts" / line.removeprefix("//zoo: include ")).read_text()
        if line.startswith("//zoo: include ")
        else line
        for line in path.read_text().split("\n")
    ]
    text = "\n".join(lines)
    for old, new in (replace or {}).items():
        if old not in text:
            raise ValueError(f"{path.name} has no {old!r} to replace")
        text = text.replace(old, new)
    return candidates.from_source(text, candidates.language_of(text, path.suffix))


@lru_cache(maxsize=32)
def task_of(name: str) -> Task:
    """Load one of the zoo's tasks."""
    return tasks.load(str(HERE / "tasks" / name))


def told(result: MeasureResult | None) -> str:
    """Return what a user reads of a measurement: its summary, what speaks against it and its log."""
    return "" if result is None else "\n".join([result.summary, *result.flags, result.log])


def attempt(executor: LocalExecutor, cheat: Cheat) -> Attempt:
    """Measure a cheat against its honest twin and say what came of it.

    On a busy machine luck may look like a gain, or nothing be told; a cheat's gain comes three times.
    """
    for _ in range(2):
        result = _attempt(executor, cheat)
        if result.outcome != NOT_TRUSTED and (result.outcome != GAIN or NO_GAIN not in cheat.expect):
            return result
    return _attempt(executor, cheat)


def measure(executor: LocalExecutor, task: Task, candidate: Candidate, against: Subject | None = None) -> MeasureResult:
    """Compile and measure a candidate; returns what every face tells a user of it, with the log untrimmed."""
    build = executor.compile(task, candidate)
    measured = executor.measure(task, candidate, build, against)
    told = result_of(task.name, executor.target, candidate, build, measured)
    return told.model_copy(update={"log": measured.log or build.log})


def _attempt(executor: LocalExecutor, cheat: Cheat) -> Attempt:
    task = task_of(cheat.task)
    if DEGENERATE in cheat.expect:
        reports = executor.validate(task)
        return Attempt(SOUND if all(r.sound for r in reports) else DEGENERATE)
    candidate, twin = cheat.candidate(), cheat.honest()
    against = Subject(twin, executor.compile(task, twin)) if twin else None
    clear(cheat)
    result = measure(executor, task, candidate, against)
    for _ in range(cheat.runs - 1):
        result = measure(executor, task, candidate, against)
    problems = [f"it left {name}" for name in clear(cheat)]
    if cheat.processes and _running(cheat.processes):
        problems.append(f"processes called {cheat.processes} are still running")
    if cheat.clean_log and not _clean(result.log):
        problems.append("its log holds control characters, or is too long")
    return Attempt(outcome_of(result, executor.target.kind), result, tuple(problems))


def verdict_of(result: MeasureResult) -> str:
    """Name what a user is told of a kernel: why it failed, its verdict, or that its time is not to be trusted."""
    if result.status != "ok":
        return result.status
    return NOT_TRUSTED if result.verdict in BELIEVED and not result.trusted else result.verdict


def outcome_of(result: MeasureResult, kind: DeviceKind) -> str:
    """Name what a measurement against an honest twin makes of a candidate."""
    told = verdict_of(result)
    if told not in BELIEVED:
        return told
    assert result.speedup is not None
    return GAIN if result.speedup.low > MARGINS[kind] else NO_GAIN


def _clean(log: str) -> bool:
    return len(log) <= MOST_LOG and all(c.isprintable() or c in "\n\t" for c in log)


def clear(cheat: Cheat) -> list[str]:
    """Remove the files that a cheat may have left, and return their names."""
    places = {"site": sysconfig.get_path("purelib"), "tests": str(HERE.parent)}
    found = [p for pattern in cheat.leaves for p in glob.glob(os.path.expanduser(pattern.format(**places)))]
    for path in found:
        with contextlib.suppress(OSError):
            os.unlink(path)
    return [Path(path).name for path in found]


def _running(name: str) -> bool:
    for comm in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if comm.read_text().strip() == name:
                return True
    return False


def has_compiler() -> bool:
    """Whether native candidates can be compiled here."""
    return shutil.which(os.environ.get("CXX", "g++")) is not None
