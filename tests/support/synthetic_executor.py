"""A device made of arithmetic: real plans and tunables, an analytic speed-up, noise that only depends on the kernel."""

from __future__ import annotations

import hashlib
import math
import random
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from forewarp.core import bins
from forewarp.core.protocols import Subject, Trial
from forewarp.core.values import (
    Build,
    Candidate,
    DeviceKind,
    Forecast,
    Measurement,
    Signature,
    Target,
    Task,
    TensorSpec,
    Tolerance,
    Workload,
    WorkloadTiming,
)
from forewarp.gpu_runner.formats import plan as plans

TARGET = Target("synthetic-1", "cpu", "none", 4, source="tests")
REFERENCE = "class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n"
SOURCE = """/*forewarp
inputs = ["x"]
outputs = ["y"]
constraints = ["TILE * UNROLL <= 2048"]
[tunables]
TILE = [64, 16, 32, 128, 256, 512]
UNROLL = [1, 2, 4, 8, 16]
WIDTH = [4, 1, 2, 8]
UNUSED = [0, 1]
[[launch]]
kernel = "go"
args = ["x", "y"]
*/
extern "C" void go(const float* x, float* y) { y[0] = TILE * x[0] + UNROLL + WIDTH; }
"""
BEST = {"TILE": 128, "UNROLL": 4, "WIDTH": 2}


def seed(source: str = SOURCE, **tunables: int) -> Candidate:
    bare = Candidate(source, "cpp")
    return Candidate(source, "cpp", plans.parse(bare).defaults() | tunables)


def task(*seeds: Candidate, name: str = "toy") -> Task:
    small = (Workload("small", {"N": 16}),)
    workloads: dict[DeviceKind, tuple[Workload, ...]] = {"cpu": small, "cuda": small}
    return Task(name, "A toy", REFERENCE, workloads, Tolerance(1e-3, 1e-3), seeds or (seed(),))


def log2_speedup(candidate: Candidate) -> float:
    """The landscape: one smooth hill over the tunables, its top at `BEST` with two octaves."""
    off = [math.log2(candidate.tunables.get(name, 1) or 1) - math.log2(best) for name, best in BEST.items()]
    return 2.0 - sum(w * d * d for w, d in zip((0.25, 0.35, 0.3), off, strict=True))


@dataclass(frozen=True, slots=True)
class Asked:
    """What `measure` was called with."""

    task: Task
    candidate: Candidate
    build: Build
    against: Subject | None
    beat: float | None


class SyntheticExecutor:
    """Counts what it is asked for; fails in every way that a kernel can, as the source's text demands.

    `WIDTH` 8 with `TILE` 512 does not compile, `UNROLL` 16 with `WIDTH` 8 is incorrect, `UNUSED` changes no code. One
    that waits, is lost or finds something else overrides `answer`.
    """

    def __init__(self, target: Target = TARGET, noise: float = 0.02) -> None:
        self._target, self._noise = target, noise
        self._lock = threading.Lock()
        self.compiled: Counter[str] = Counter()
        self.measured: list[Candidate] = []
        self.closed = 0

    @property
    def target(self) -> Target:
        return self._target

    @property
    def devices(self) -> int:
        """One candidate at a time."""
        return 1

    def candidates(self, task: Task) -> None:
        """None: any candidate has its place on the hill."""

    def describe(self, task: Task) -> tuple[Signature, ...]:
        tensor = (16,)
        x, y = TensorSpec("x", tensor, "float32"), TensorSpec("y", tensor, "float32")
        return tuple(Signature(w.name, (x,), {}, {}, (), (y,), 32.0, 128) for w in task.workloads[self._target.kind])

    def compile(self, task: Task, candidate: Candidate) -> Build:
        with self._lock:
            self.compiled[candidate.sha256] += 1
        t = candidate.tunables
        if "#error" in candidate.source or (t.get("TILE") == 512 and t.get("WIDTH") == 8):
            return Build("compile_error", 0.01, log="line 12: error: no such instruction")
        code = (candidate.source, sorted((k, v) for k, v in t.items() if k != "UNUSED"))
        return Build("ok", 0.01, artefact="memory", binary_sha256=hashlib.sha256(repr(code).encode()).hexdigest())

    def measure(
        self,
        task: Task,
        candidate: Candidate,
        build: Build,
        against: Subject | None = None,
        beat: float | None = None,
    ) -> Measurement:
        return self.answer(Asked(task, candidate, build, against, beat))

    def answer(self, asked: Asked) -> Measurement:
        """Measure; `measured` does not hold this one yet."""
        candidate, build = asked.candidate, asked.build
        with self._lock:
            self.measured.append(candidate)
        t = candidate.tunables
        anchor = asked.against.candidate.sha256 if asked.against else "reference"
        if build.status != "ok":
            return Measurement(build.status, "failed", self._target.name, "T0", anchor, log=build.log)
        if "crash" in candidate.source:
            return Measurement("crashed", "failed", self._target.name, "T0", anchor, device_s=0.25, log="signal 11")
        if "wrong" in candidate.source or (t.get("UNROLL") == 16 and t.get("WIDTH") == 8):
            return Measurement("incorrect", "incorrect", self._target.name, "T0", anchor, device_s=0.25)
        noise = random.Random(candidate.sha256).gauss(0.0, self._noise)
        s = 2.0 ** (log2_speedup(candidate) + noise)
        low, high = s * 0.97, s * 1.03
        verdict = "faster" if low > 1 else "slower" if high < 1 else "tie"
        timing = WorkloadTiming("small", s, low, high, 1.0 / s, 1.0, 0.1, (math.log(s),), (1.0 / s,), (1.0,))
        m = Measurement("ok", verdict, self._target.name, "T0", anchor, s, low, high, (timing,), device_s=0.5)
        return replace(m, stopped_early=True, device_s=0.2) if asked.beat is not None and high < asked.beat else m

    def close(self) -> None:
        self.closed += 1


class KnowingForecaster:
    """Knows the landscape up to `error` octaves, which only depend on the kernel."""

    name = "knowing"

    def __init__(self, error: float = 0.3) -> None:
        self._error = error
        self.histories: list[int] = []

    def forecast(
        self, task: Task, target: Target, subjects: Sequence[Subject], history: Sequence[Trial]
    ) -> list[Forecast]:
        self.histories.append(len(history))
        return [self._one(s.candidate) for s in subjects]

    def _one(self, candidate: Candidate) -> Forecast:
        off = random.Random(f"forecast {candidate.sha256}").gauss(0.0, self._error)
        sd = max(self._error, 0.1)
        return Forecast(bins.from_normal(log2_speedup(candidate) + off, sd), 0.95, self.name)


class MisleadingForecaster(KnowingForecaster):
    """Forecasts the opposite of what is."""

    name = "misleading"

    def _one(self, candidate: Candidate) -> Forecast:
        return Forecast(bins.from_normal(-log2_speedup(candidate), 0.3), 0.95, self.name)
