"""Tier T0: compiled device code and a launch plan, launched and timed by this trusted process with CUDA events."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from forewarp.core import serde
from forewarp.core.values import Signature, Tolerance, Workload
from forewarp.gpu_runner.worker.arena import byte_size
from forewarp.gpu_runner.worker.bench_cells import l2_flush
from forewarp.gpu_runner.worker.conditions import Conditions
from forewarp.gpu_runner.worker.cubin import CubinRunner, reset_persisting_l2
from forewarp.gpu_runner.worker.guards import Guarded
from forewarp.gpu_runner.worker.hold import Hold
from forewarp.gpu_runner.worker.problem import Problem
from forewarp.gpu_runner.worker.runners import Buffers, find_plan
from forewarp.gpu_runner.worker.stage import Stage, fresh_seed
from forewarp.gpu_runner.worker.timing import Arm, Condition, DeviceHung, Sample

SLOTS, SLOT_BYTES = 8, 8 << 30
"""Input sets, fewer where these bytes would not do: where a buffer lies in memory makes a difference, so many places
are tried."""
GRAPH_BELOW_S = 50e-6
"""Where a call is shorter than this, both arms are replayed as CUDA graphs."""
WARM_S = 0.03


class Launcher:
    """What a launcher process makes once and keeps: context, stream hold, flush buffer, canary."""

    def __init__(self) -> None:
        torch.cuda.init()
        self.flush = l2_flush()
        self.hold = Hold()  # after the first allocation, which makes the context
        self.state = Conditions()
        self._canary = torch.arange(1 << 16, dtype=torch.int64, device="cuda")

    def canary(self) -> bool:
        """Run a kernel whose result is known: what came before must not have broken the device."""
        n = self._canary.numel()
        return int((self._canary * 3).sum().item()) == 3 * n * (n - 1) // 2

    def steady(self) -> None:
        """Keep the device busy until its clock has left the idle state."""
        until = time.perf_counter() + WARM_S
        while time.perf_counter() < until:
            self.flush.zero_()
            torch.cuda.synchronize()


class LauncherBench:
    """Launches cubins, and the reference or a second kernel, on one stream behind a flush of the L2 cache.

    The stream is held until all work of a sample is enqueued, so that neither arm is charged for the host's launch
    time: an eager reference with many small kernels is timed at its best.
    """

    tier = "T0"
    conditions: tuple[Condition, ...] = ("warm",)

    def __init__(
        self, launcher: Launcher, job: dict[str, Any], workloads: Sequence[Workload], signatures: Sequence[Signature]
    ) -> None:
        self.launcher, self.job, self.workloads, self.signatures = launcher, job, workloads, signatures
        self.weight_seed = fresh_seed()
        self.tolerance = serde.from_data(Tolerance, job["tolerance"]) if job["tolerance"] else None
        self.protections = ["own process", "own session", "no candidate host code: compiled device code only"]
        self.runners: dict[str, CubinRunner] = {}
        self.graphs: dict[str, list[torch.cuda.CUDAGraph]] = {}
        self.anchor_outputs: Sequence[torch.Tensor] | None = None
        self.hung = False
        launcher.steady()

    def stage(self, index: int) -> Stage:
        """Allocate the workload's buffers and load its kernels."""
        signature = self.signatures[index]
        problem = Problem.of_job(self.job, self.workloads[index], self.weight_seed)
        model = problem.model("cuda")
        guarded = Guarded("cuda")
        slots = [_copied(guarded, problem.inputs(0, "cuda")) for _ in range(_slots(signature))]
        outputs = [guarded.tensor(s.shape, getattr(torch, s.dtype)) for s in signature.outputs]
        stage = Stage(
            problem,
            model,
            slots,
            outputs,
            self.tolerance,
            close=self._unload,
            written=signature.written,
            aliases=signature.aliases,
            guards=guarded,
            perturb=bool(self.job["perturb"]),
        )
        self._load("candidate", self.job, index, slots, model, outputs, guarded)
        if self.job["anchor"]:
            # The same buffers: where outputs lie in memory must not tell the arms apart.
            self.anchor_outputs = outputs
            self._load("anchor", self.job["anchor"], index, slots, model, self.anchor_outputs, guarded)
        return stage

    def _load(
        self,
        arm: str,
        built: Mapping[str, Any],
        index: int,
        slots: Sequence[list[Any]],
        model: Any,
        outputs: Sequence[torch.Tensor],
        guarded: Guarded,
    ) -> None:
        workload = self.workloads[index].name
        # Copies: a kernel that writes to its weights must not change the reference.
        weights: dict[str, torch.Tensor] = {}
        for key, value in model.state_dict().items():
            weights[key] = guarded.tensor(value.shape, value.dtype)
            weights[key].copy_(value)
        buffers = Buffers(find_plan(built["manifest"], workload), slots, weights, outputs)
        self.runners[arm] = CubinRunner(Path(built["artefact"]), built["manifest"], workload, buffers)

    def _unload(self) -> None:
        if self.hung:
            return  # whatever would be freed now waits for the kernel
        self.graphs.clear()
        for runner in self.runners.values():
            runner.unload()
        self.runners.clear()
        self.anchor_outputs = None
        torch.cuda.empty_cache()

    def choose_mode(self, stage: Stage, longest_s: float) -> str:
        """Replay short calls as graphs, both arms or neither: a launch costs a graph less than a stream."""
        self.conditions = ("warm",)
        if longest_s >= GRAPH_BELOW_S:
            return "stream"
        self.conditions = ("warm", "launched")
        try:
            # In random order: graphs made one after the other differ in launch by up to 0.1 µs, which must not fall to
            # one arm.
            for slot in range(stage.slot_count):
                for arm in random.sample(("candidate", "anchor"), 2):
                    self.graphs.setdefault(arm, []).append(self._captured(stage, arm, slot))
        except RuntimeError:  # the reference synchronises, allocates or draws numbers in a way no graph can hold
            self.graphs.clear()
            torch.cuda.synchronize()
            return "stream"
        return "graph"

    def _captured(self, stage: Stage, arm: str, slot: int) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._enqueue(stage, arm, slot)
        return graph

    def _enqueue(self, stage: Stage, arm: str, slot: int) -> None:
        if arm in self.runners:
            self.runners[arm].run(slot)
        else:
            stage.model(*stage.slots[slot])

    def _launch(self, stage: Stage, arm: str, slot: int) -> None:
        if arm in self.graphs:
            self.graphs[arm][slot].replay()
        else:
            self._enqueue(stage, arm, slot)

    def sample(self, stage: Stage, arm: Arm, slot: int, condition: Condition = "cold") -> Callable[[], Sample]:
        """Enqueue one timed call; the returned function waits for it."""
        for runner in self.runners.values():
            runner.prepare()
        if condition == "launched":
            return self._launched(stage, arm, slot)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        if condition == "warm":
            self._launch(stage, arm, slot)
            for runner in self.runners.values():
                runner.prepare()
        else:
            reset_persisting_l2()
            self.launcher.flush.zero_()
        hold = self.launcher.hold
        turn = hold.take()
        try:
            begin.record()
            self._launch(stage, arm, slot)
            end.record()
        finally:
            hold.release()

        def sample() -> Sample:
            self._wait(end)
            return begin.elapsed_time(end) / 1e3, hold.hertz(turn)

        return sample

    def _launched(self, stage: Stage, arm: str, slot: int) -> Callable[[], Sample]:
        """Time one call by the host's clock, launch included."""
        torch.cuda.synchronize()
        start = time.perf_counter()
        self._enqueue(stage, arm, slot)
        self.deliver(stage)
        seconds = time.perf_counter() - start
        return lambda: (seconds, 0.0)

    def reported(self) -> float | None:
        """Return None: nothing of the candidate can report."""
        return None

    def deliver(self, stage: Stage) -> None:
        """Wait for the device; a kernel's fault shows here."""
        del stage
        event = torch.cuda.Event()
        event.record()
        self._wait(event)

    def _wait(self, event: torch.cuda.Event) -> None:
        """Wait with a deadline: a kernel that never ends cannot be interrupted, only left with its process."""
        deadline = time.perf_counter() + float(self.job["call_timeout_s"])
        while not event.query():
            if time.perf_counter() > deadline:
                self.hung = True
                raise DeviceHung("a kernel did not finish in time")

    def excuse(self) -> None:
        """Do nothing: nothing is asked."""

    def flags(self) -> list[str]:
        """Return nothing: there is no host code whose behaviour could be odd."""
        return []

    def state(self) -> dict[str, float]:
        """Read clocks, temperature and throttling."""
        return self.launcher.state.read()

    def close(self) -> None:
        """Let go of what an interrupted workload left; a context that a kernel broke has nothing to let go of."""
        with contextlib.suppress(RuntimeError):
            self._unload()


def _slots(signature: Signature) -> int:
    taken = sum(byte_size(s) for s in signature.inputs)
    return max(2, min(SLOTS, SLOT_BYTES // max(2 * taken, 1)))


def _copied(guarded: Guarded, values: Sequence[Any]) -> list[Any]:
    """Return the values with every tensor in a guarded buffer of its own."""
    copies: list[Any] = []
    for value in values:
        if isinstance(value, torch.Tensor):
            copy = guarded.tensor(value.shape, value.dtype)
            copy.copy_(value)
            copies.append(copy)
        else:
            copies.append(value)
    return copies
