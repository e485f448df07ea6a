"""The judge: owns inputs, expected values, clock and the verdict on correctness of one candidate.

Order of events for each workload: the candidate runs on poisoned outputs for each correctness case and is compared,
both arms are timed in interleaved blocks while a random part of the timed outputs is compared, then fresh inputs are
drawn and compared once more. Statistics, and how to go on after a look, are left to the controller.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar, cast

import torch

from forewarp.gpu_runner.statistics import Samples
from forewarp.gpu_runner.worker import conditions, protections
from forewarp.gpu_runner.worker.cells import CellFailed
from forewarp.gpu_runner.worker.channel import MACHINE, LookAnswer
from forewarp.gpu_runner.worker.check import Mismatch
from forewarp.gpu_runner.worker.least import Unprotected
from forewarp.gpu_runner.worker.problem import ReferenceFailed
from forewarp.gpu_runner.worker.requests import JudgedStatus, Judgement, MeasureJob, TimingLook
from forewarp.gpu_runner.worker.stage import Stage
from forewarp.gpu_runner.worker.timing import CONTROL_BLOCKS, Bench, DeviceHung, Schedule, each_workload
from forewarp.gpu_runner.worker.tracebacks import format_error

T = TypeVar("T")


class AnchorWrong(Exception):
    """The kernel that was to be measured against is itself incorrect."""


class Judge:
    """Judge of one job, see `jobs.measure`. `make_bench` builds the bench, `ask` puts a look to the controller.

    It asks about None before the first workload is timed, if the bench wants that.
    """

    def __init__(
        self, job: MeasureJob, make_bench: Callable[[], Bench], ask: Callable[[TimingLook | None], LookAnswer]
    ) -> None:
        self.job, self.make_bench, self.ask = job, make_bench, ask
        self.phases = {"setup": 0.0, "check": 0.0, "time": 0.0}
        self.environment: dict[str, str] = {}
        self.checks: list[str] = []
        self.flags: list[str] = []
        self.conditions: dict[str, float] = {}
        self.bench: Bench | None = None
        self.timings: dict[int, Samples] = {}

    def run(self) -> Judgement:
        """Check and time the candidate; raises `Unprotected`."""
        protections.hide_memory()
        torch.set_grad_enabled(False)
        began = False
        try:
            bench = self.bench = self._timed("setup", self.make_bench)
            before = bench.state()
            began = True
            # All cases go to the smallest workload: the code is the same, and the oracle is dear.
            signatures = self.job.signatures
            smallest = min(range(len(signatures)), key=lambda i: signatures[i].bytes_moved)
            beaten = each_workload(
                len(signatures),
                lambda index, again: self._workload(bench, index, again=again, thorough=index == smallest),
            )
            self.flags += bench.flags()
            self.conditions = conditions.summary(before, bench.state())
            timings = tuple(self.timings[index] for index in range(len(signatures)))
            return replace(self._result("ok", ""), timings=timings, stopped_early=beaten)
        except Unprotected:
            raise  # nothing has run
        except Mismatch as e:
            return self._result("incorrect", str(e))
        except ReferenceFailed as e:
            return self._result("reference_failed", str(e))
        except CellFailed as e:
            if e.cell == "anchor":
                return self._result("anchor_wrong" if self.job.anchor else "reference_failed", e.log)
            return self._result(cast("JudgedStatus", e.status), e.log)
        except AnchorWrong as e:
            return self._result("anchor_wrong", str(e))
        except torch.OutOfMemoryError as e:
            return self._result("out_of_memory", str(e))
        except OSError as e:
            if began:
                return self._result("runtime_error", format_error(e, 6))
            # Nobody's code was called: the system gave no shared memory, descriptor or process, or has no /proc.
            what = " ".join(filter(None, [e.strerror, e.filename and str(e.filename)]))
            return self._result(MACHINE, f"the machine refused what a measurement needs: {what}")
        except DeviceHung as e:
            return self._result("timeout", format_error(e, 6))
        except Exception as e:
            return self._result("runtime_error", format_error(e, 6))
        finally:
            if self.bench is not None:
                self.bench.close()

    def _timed(self, phase: str, act: Callable[[], T]) -> T:
        start = time.perf_counter()
        try:
            return act()
        finally:
            self.phases[phase] += time.perf_counter() - start

    def _workload(self, bench: Bench, index: int, *, again: bool, thorough: bool) -> LookAnswer:
        """Check and time a workload; only time it where it comes `again`. Return how its timing ended."""
        stage: Stage = self._timed("setup", lambda: bench.stage(index))
        stage.allow_tf32 = self.job.task.allow_tf32
        try:
            worst = 0.0 if again else self._timed("check", lambda: self._check(bench, stage, thorough=thorough))
            inner = self.phases["check"]
            if bench.asks_before_timing and not self.timings:
                self.ask(None)
            schedule = Schedule(
                bench,
                stage,
                index=index,
                looks=self.job.looks,
                time_s=self.job.time_s,
                verify=lambda slot: self._timed("check", lambda: self._verify(bench, stage, slot)),
                ask=self.ask,
                controls=CONTROL_BLOCKS if self.job.controls else 0,
                sighting=self.job.sighting and not again,
                verify_looks=not self.job.checked,
            )
            timed = self._timed("time", schedule.run)
            # What was compared while timing ran counts as checking.
            self.phases["time"] -= self.phases["check"] - inner
            last = self._timed("check", lambda: self._fresh(bench, stage))
            if schedule.ended in ("leave", "beaten"):
                bench.excuse()
        except CellFailed as e:
            if (e.cell, e.status) == ("candidate", "runtime_error"):
                stage.check_described()  # or a module that does as the reference does would be to blame
            raise
        finally:
            stage.close()
        self.environment["oracle"] = stage.oracle
        earlier = self.timings[index].error_ratio if again else 0.0
        self.timings[index] = replace(timed, error_ratio=max(worst, timed.error_ratio, last, earlier))
        return schedule.ended

    def _check(self, bench: Bench, stage: Stage, *, thorough: bool) -> float:
        """Run each correctness case once on poisoned outputs and compare; return the largest error ratio."""
        if self.job.checked:
            return self._fresh(bench, stage)
        worst = 0.0
        for name in stage.cases(thorough=thorough):
            try:
                worst = max(worst, self._try(bench, stage, 0))
            except Mismatch as e:
                raise Mismatch(f"{e}; seen with {name}") from None
            # KernelBench's absolute tolerance asks more of large outputs than the reference itself can keep: to fail it
            # says nothing.
            if not self.checks and stage.kernelbench_allclose(0):
                self.checks.append("within KernelBench's tolerance")
            if name not in self.checks:
                self.checks.append(name)
        self.checks += [said for said in stage.state_checks() if said not in self.checks]
        if thorough:
            self._repeat(bench, stage)
        if bench.anchor_outputs is not None:
            self._check_anchor(bench, stage, bench.anchor_outputs)
        return worst

    def _fresh(self, bench: Bench, stage: Stage) -> float:
        stage.redraw(0)
        return self._try(bench, stage, 0)

    def _try(self, bench: Bench, stage: Stage, slot: int) -> float:
        stage.prepare(slot)
        bench.try_spoilt(stage, slot)
        return self._verify(bench, stage, slot)

    def _verify(self, bench: Bench, stage: Stage, slot: int) -> float:
        # Inputs go bad before the result is fetched, so that work put off until then has nothing to work on.
        stage.spoil_inputs(slot)
        bench.deliver()
        stage.restore_inputs(slot)
        return stage.compare(slot)

    def _repeat(self, bench: Bench, stage: Stage) -> None:
        """Say whether the same inputs give the same bits twice: a race may pass by luck, but seldom twice alike."""
        self._try(bench, stage, 0)
        first = stage.snapshot(0)
        self._try(bench, stage, 0)
        self.checks.append("bit-identical when repeated" if stage.snapshot(0) == first else "not deterministic")

    def _check_anchor(self, bench: Bench, stage: Stage, outputs: Sequence[torch.Tensor]) -> None:
        stage.prepare(0, "anchor")
        bench.sample(stage, "anchor", 0)()
        try:
            stage.compare(0, outputs)
        except Mismatch as e:
            raise AnchorWrong(str(e)) from None

    def _result(self, status: JudgedStatus, log: str) -> Judgement:
        return Judgement(
            status=status,
            log=log,
            tier=self.bench.tier if self.bench else "T1",
            phases=self.phases,
            protections=tuple(self.bench.protections) if self.bench else (),
            checks=tuple(self.checks),
            flags=tuple(self.flags),
            conditions=self.conditions,
            environment=self.environment | {"torch": torch.__version__, "python": platform.python_version()},
        )
