"""The judge: one process per candidate that owns inputs, expected values, clock and verdict on correctness.

Order of events for each workload: draw fresh inputs, work out the oracle, let the candidate run on poisoned outputs and
compare, time candidate and anchor in interleaved blocks while comparing a random part of the timed outputs, then draw
new inputs and compare once more. Statistics are left to the controller.
"""

from __future__ import annotations

import os
import platform
import random
import time
import traceback
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import torch

from forewarp.core import serde
from forewarp.core.values import Signature, Workload
from forewarp.gpu_runner.worker import protections
from forewarp.gpu_runner.worker.cells import CellFailed
from forewarp.gpu_runner.worker.check import Mismatch
from forewarp.gpu_runner.worker.stage import Stage

VERIFIED_SHARE = 0.2
WARM_UPS = 3
T = TypeVar("T")


class Bench(Protocol):
    """How one kind of candidate is run and timed: in cells, or by the trusted launcher on the GPU."""

    tier: str
    protections: list[str]

    def stage(self, index: int) -> Stage:
        """Prepare a workload: fresh inputs in place, both arms loaded."""
        ...

    def sample(self, stage: Stage, arm: str, slot: int) -> Callable[[], float]:
        """Run one arm on a slot; the returned function gives its seconds, and may wait for the device."""
        ...

    def deliver(self, stage: Stage) -> None:
        """Bring the candidate's last result into the judged buffers."""
        ...

    def close(self) -> None:
        """End all that this bench started."""
        ...


class Judge:
    """Judges one job: see `jobs.measure`."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = job
        self.workloads = [serde.from_data(Workload, w) for w in job["workloads"]]
        self.signatures = [serde.from_data(Signature, s) for s in job["signatures"]]
        self.phases = {"setup": 0.0, "check": 0.0, "time": 0.0}
        self.environment: dict[str, str] = {}
        self.bench: Bench | None = None

    def run(self) -> dict[str, Any]:
        """Return the result document: status, samples per workload, phases and protections."""
        protections.hide_memory()
        torch.set_grad_enabled(False)
        timings: list[dict[str, Any]] = []
        try:
            bench = self.bench = self._timed("setup", self._open)
            for index in range(len(self.workloads)):
                timings.append(self._workload(bench, index))
            return self._result("ok", "", timings)
        except Mismatch as e:
            return self._result("incorrect", str(e), timings)
        except CellFailed as e:
            return self._result(e.status, e.log, timings)
        except torch.OutOfMemoryError as e:
            return self._result("out_of_memory", str(e), timings)
        except Exception:
            return self._result("runtime_error", traceback.format_exc(limit=-6), timings)
        finally:
            if self.bench is not None:
                self.bench.close()

    def _open(self) -> Bench:
        # Either is imported late: only one is needed, and the launcher needs a GPU.
        job = self.job
        if job["target_kind"] == "cuda" and job["language"] in ("triton", "cuda"):
            from forewarp.gpu_runner.worker.bench_launcher import LauncherBench

            return LauncherBench(job, self.workloads, self.signatures)
        from forewarp.gpu_runner.worker.bench_cells import CellBench

        return CellBench(job, self.workloads, self.signatures)

    def _timed(self, phase: str, act: Callable[[], T]) -> T:
        start = time.perf_counter()
        try:
            return act()
        finally:
            self.phases[phase] += time.perf_counter() - start

    def _workload(self, bench: Bench, index: int) -> dict[str, Any]:
        stage: Stage = self._timed("setup", lambda: bench.stage(index))
        try:
            self.environment["oracle"] = stage.oracle
            worst = self._timed("check", lambda: self._check(bench, stage, range(stage.slot_count)))
            candidate, anchor, later = self._timed("time", lambda: self._time(bench, stage))
            self._timed("setup", lambda: stage.redraw(0))
            last = self._timed("check", lambda: self._check(bench, stage, range(1)))
        finally:
            stage.close()
        return {
            "workload": self.workloads[index].name,
            "candidate_s": candidate,
            "anchor_s": anchor,
            "error_ratio": max(worst, later, last),
        }

    def _check(self, bench: Bench, stage: Stage, slots: range) -> float:
        """Run each slot once on poisoned outputs and compare; return the largest error ratio."""
        worst = 0.0
        for slot in slots:
            stage.poison()
            bench.sample(stage, "candidate", slot)()
            worst = max(worst, self._verify(bench, stage, slot))
        return worst

    def _verify(self, bench: Bench, stage: Stage, slot: int) -> float:
        # Inputs go bad before the result is fetched, so that work put off until then has nothing to work on.
        stage.spoil_inputs(slot)
        bench.deliver(stage)
        stage.restore_inputs(slot)
        return stage.compare(slot)

    def _time(self, bench: Bench, stage: Stage) -> tuple[list[float], list[float], float]:
        """Time interleaved blocks; return candidate's and anchor's seconds and the largest error ratio seen."""
        chance = random.Random(os.urandom(16))
        pair = self._pilot(bench, stage)
        blocks = int(self.job["time_s"] / max(2 * pair, 1e-9))
        blocks = max(self.job["min_blocks"], min(self.job["max_blocks"], blocks))
        samples: dict[str, list[float]] = {"candidate": [], "anchor": []}
        worst = 0.0
        for block in range(blocks):
            first = chance.choice(("candidate", "anchor"))
            second = "anchor" if first == "candidate" else "candidate"
            verify = block in (0, blocks - 1) or chance.random() < VERIFIED_SHARE
            pending: list[tuple[str, Callable[[], float]]] = []
            for arm in (first, second, second, first):
                slot = chance.randrange(stage.slot_count)
                if arm == "candidate":
                    stage.poison()
                pending.append((arm, bench.sample(stage, arm, slot)))
                if arm == "candidate" and verify:
                    worst = max(worst, self._verify(bench, stage, slot))
            for arm, seconds in pending:
                samples[arm].append(seconds())
        stage.check_inputs()
        return samples["candidate"], samples["anchor"], worst

    def _pilot(self, bench: Bench, stage: Stage) -> float:
        """Warm both arms up and return the seconds that one candidate and one anchor call take, overheads included."""
        start = time.perf_counter()
        for turn in range(WARM_UPS):
            if turn == 1:
                start = time.perf_counter()
            for arm in ("candidate", "anchor"):
                stage.poison()
                bench.sample(stage, arm, turn % stage.slot_count)()
        return (time.perf_counter() - start) / (WARM_UPS - 1)

    def _result(self, status: str, log: str, timings: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "status": status,
            "log": log,
            "timings": timings if status == "ok" else [],
            "phases": self.phases,
            "tier": self.bench.tier if self.bench else "T1",
            "protections": self.bench.protections if self.bench else [],
            "environment": self.environment | {"torch": torch.__version__, "python": platform.python_version()},
        }
