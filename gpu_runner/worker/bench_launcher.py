"""Tier T0: device code of launch plans and lifted modules, timed by this trusted process with CUDA events."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch

from forewarp.core.values import TimingMode
from forewarp.gpu_runner.lifting import program as lifting
from forewarp.gpu_runner.lifting.chain import Chain, lengths
from forewarp.gpu_runner.lifting.driver import CudaError
from forewarp.gpu_runner.lifting.graph import Built
from forewarp.gpu_runner.lifting.replay import Codes, Lifted, LiftedRunner, Refused, gaps
from forewarp.gpu_runner.lifting.window import BASES, Window, WindowTaken
from forewarp.gpu_runner.statistics import NO_TIME
from forewarp.gpu_runner.worker.bench_cells import l2_flush
from forewarp.gpu_runner.worker.channel import close_all
from forewarp.gpu_runner.worker.conditions import Conditions
from forewarp.gpu_runner.worker.cubin import CubinRunner, reset_persisting_l2
from forewarp.gpu_runner.worker.guards import Guards
from forewarp.gpu_runner.worker.hold import Hold
from forewarp.gpu_runner.worker.loading import load_problem
from forewarp.gpu_runner.worker.oracle import expect
from forewarp.gpu_runner.worker.problem import running_reference, tensors_of, with_tensors
from forewarp.gpu_runner.worker.requests import BuiltKernel, LaunchRequest
from forewarp.gpu_runner.worker.runners import Buffers, find_plan
from forewarp.gpu_runner.worker.stage import ArmBuffers, Stage
from forewarp.gpu_runner.worker.timing import Arm, Bench, Condition, DeviceHung, Sample

GRAPH_BELOW_S = 50e-6
"""Where a call is shorter than this, both arms are replayed as CUDA graphs."""
CHAIN_BELOW_S = 100e-6
"""Where a call is shorter than this, and both arms are made of nodes, it is repeated within a graph."""
LATENCY_SAMPLES = 9
WARM_GRAPHS = 2
"""Graphs of a chain whose cache stays warm: few samples of it are taken."""
WARM_S = 0.03


class Launcher:
    """Context, windows, hold, flush buffer and canary of a launcher process; `lifted` are the programs of its arms."""

    def __init__(self) -> None:
        torch.cuda.init()
        self.flush = l2_flush()
        self.hold = Hold()  # after the first allocation, which makes the context
        self.state = Conditions()
        self.lifted: dict[str, Lifted] = {}
        self._windows: dict[str, Window] = {}
        self._codes = Codes()
        self._canary = torch.arange(1 << 16, dtype=torch.int64, device="cuda")
        _warm_up()

    def receive(self, request: LaunchRequest, descriptors: Sequence[int]) -> None:
        """Take the programs of a request's arms, keeping none but the anchor's with `keep_anchor`; raises `Refused`."""
        arms, left = request.programs, list(descriptors)
        try:
            for arm, base in zip(("candidate", "anchor"), BASES, strict=True):
                if arm in arms or not (arm == "anchor" and request.keep_anchor):
                    self.release(arm)
                if arm not in arms:
                    continue
                programs = lifting.from_data(arms[arm])
                if arm not in self._windows:
                    self._windows[arm] = Window(base)
                count = len(programs.chunks) + 1
                if len(left) < count:
                    raise ValueError("some of the program's memory did not arrive")
                mine, left = left[:count], left[count:]
                self.lifted[arm] = Lifted(self._windows[arm], self._codes, programs, mine)
        except (ValueError, WindowTaken, CudaError) as e:
            raise Refused(str(e)) from e
        finally:
            close_all(left)
        if len(self.lifted) == 2:
            try:
                self.lifted["anchor"].share(self.lifted["candidate"])
                self.lifted["candidate"].share_scratch(self.lifted["anchor"])
            except (CudaError, KeyError) as e:
                raise Refused(f"its memory cannot be shared: {e}") from e

    def release(self, arm: str) -> None:
        """Free an arm's programs, if there are any; nothing of them may be running."""
        found = self.lifted.pop(arm, None)
        if found is not None:
            found.close()

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


class LauncherBench(Bench):
    """Bench that launches candidate and anchor on one stream, behind a flush of the L2 cache.

    Both arms are replayed as CUDA graphs where that is possible, so that neither is charged for the host's launch time.
    A reference that could not be lifted is called here.
    """

    tier = "T0"
    conditions = ("warm",)
    asks_before_timing = True

    def __init__(self, launcher: Launcher, request: LaunchRequest) -> None:
        super().__init__(request.job)
        self.launcher, self.request = launcher, request
        self.protections = ["own process", "own session", "no candidate host code: compiled device code only"]
        self.lifted = launcher.lifted
        if "candidate" in self.lifted:
            self.protections += ["lifted: the module itself ran in another process, confined, that is gone"]
        self.runners: dict[str, CubinRunner | LiftedRunner] = {}
        self.graphs: dict[str, list[torch.cuda.CUDAGraph]] = {}
        self.chains: dict[tuple[str, int, str], Chain] = {}
        self.chained, self.latency_s = False, 0.0
        self.lengths: list[int] = []
        self.hung = False
        launcher.steady()

    def stage(self, index: int) -> Stage:
        signature, workload = self.signatures[index], self.workloads[index].name
        with running_reference("the reference"):
            problem = load_problem(self.job, self.workloads[index], self.weight_seed)
            model = problem.model("cuda")
            values = with_tensors(problem.inputs(0, "cuda"), torch.Tensor.contiguous)
        plan = self.job.launch_plans[index]
        guards = Guards("cuda")
        if "candidate" in self.lifted:
            runner = self.runners["candidate"] = self.lifted["candidate"].runner(workload)
            slots, outputs, states = [_with(values, runner.inputs)], runner.outputs, runner.state
            for name, stretch in gaps(runner.program):
                guards.add(name, stretch)
        else:
            slots = [_copied(guards, values) for _ in range(plan.slots)]
            outputs = [guards.tensor(s.shape, getattr(torch, s.dtype)) for s in signature.outputs]
            states = self._load("candidate", self.job.candidate, index, slots, model, outputs, guards, problem.state)
        anchor = self._load_anchor(index, slots, model, values, outputs)
        del values  # before the stage draws its own
        return Stage(
            problem,
            model,
            ArmBuffers(slots, outputs, states),
            self.job.task.tolerance,
            anchor,
            close=self._unload,
            written=signature.written,
            aliases=None if "candidate" in self.lifted else signature.aliases,
            guards=guards,
            perturb=self.job.task.perturb,
            state_in_place=True,
            shared=True,
            call_seed=self.job.random_seed,
            lean=plan.lean,
        )

    def _load_anchor(
        self, index: int, slots: Sequence[list[Any]], model: Any, values: Sequence[Any], outputs: Sequence[torch.Tensor]
    ) -> ArmBuffers | None:
        if "anchor" in self.lifted:
            workload = self.workloads[index].name
            runner = self.runners["anchor"] = self.lifted["anchor"].runner(workload)
            # Where they lie follows from the module: one set of inputs, whatever the slot.
            own = _with(values, runner.inputs)
            # Compared once, for the reference as well: what it is as a program must be what it is.
            self.anchor_outputs = runner.outputs
            return ArmBuffers([own] * len(slots), runner.outputs, runner.state)
        if self.job.anchor is None:
            return None
        # The same buffers: where outputs lie in memory must not tell the arms apart.
        self.anchor_outputs = outputs
        self._load("anchor", self.job.anchor, index, slots, model, outputs, Guards("cuda"), ())
        return None

    def _load(
        self,
        arm: str,
        kernel: BuiltKernel,
        index: int,
        slots: Sequence[list[Any]],
        model: Any,
        outputs: Sequence[torch.Tensor],
        guards: Guards,
        state: Sequence[str],
    ) -> dict[str, torch.Tensor]:
        workload = self.workloads[index].name
        # Copies: a kernel that writes to its weights must not change the reference.
        values = model.state_dict()
        weights = dict(zip(values, _copied(guards, list(values.values())), strict=True))
        plan = find_plan(kernel.manifest, workload)
        buffers = Buffers(plan, slots, weights, outputs)
        self.runners[arm] = CubinRunner(Path(kernel.artefact), kernel.manifest, workload, buffers)
        return {name: weights[name] for name in state if name in plan.params.values()}

    def _unload(self) -> None:
        if self.hung:
            return  # whatever would be freed now waits for the kernel
        self.graphs.clear()
        for chain in self.chains.values():
            chain.close()
        self.chains.clear()
        self.chained = False
        for runner in self.runners.values():
            runner.unload()
        self.runners.clear()
        self.anchor_outputs = None
        torch.cuda.empty_cache()

    def choose_mode(self, stage: Stage, longest_s: float) -> TimingMode:
        """Replay short calls as graphs, both arms or neither: a launch costs a graph less than a stream."""
        self.latency_s = 0.0
        lifted = any(isinstance(runner, LiftedRunner) for runner in self.runners.values())
        if longest_s < CHAIN_BELOW_S and len(self.runners) == 2:
            self.conditions = ("warm", "launched")
            self.chained, self.lengths = True, lengths(longest_s)
            self.latency_s = self._latency(stage)
            return "chain"
        self.conditions = ("warm",)
        if (longest_s >= GRAPH_BELOW_S and not lifted) or not self.request.anchor_captures:
            return "stream"
        self.conditions = ("warm", "launched")
        try:
            # In random order: graphs made one after the other differ in launch by up to 0.1 µs, which must not fall to
            # one arm.
            for slot in range(stage.slot_count):
                for arm in random.sample(("candidate", "anchor"), 2):
                    if isinstance(self.runners.get(arm), LiftedRunner):
                        continue  # a graph already
                    self.graphs.setdefault(arm, []).append(self._captured(stage, arm, slot))
        except RuntimeError:  # the reference synchronises, allocates or draws numbers in a way no graph can hold
            self.graphs.clear()
            torch.cuda.set_stream(torch.cuda.default_stream())  # which torch leaves at the one that was captured
            torch.cuda.synchronize()
            return "stream"
        return "graph"

    def _latency(self, stage: Stage) -> float:
        """Return what one replay of a graph takes beyond a repeat within a graph, the same for both arms.

        By this much a chain's times are made those of single replays between two events, with which everybody else
        measures.
        """
        beyond: list[float] = []
        for arm in ("candidate", "anchor"):
            alone = Built()
            self.runners[arm].add_to(alone, 0)
            try:
                single = [self._event_s(alone) for _ in range(LATENCY_SAMPLES)]
            finally:
                alone.close()
            chained = [self._chained(stage, arm, 0, "cold")()[0] for _ in range(LATENCY_SAMPLES)]
            beyond.append(median(single) - median(chained))
        return max(0.0, sum(beyond) / len(beyond))

    def _event_s(self, graph: Built) -> float:
        """Return the seconds between two events around a graph that follows a flush of the L2 cache."""
        self._prepare()
        self.launcher.flush.zero_()
        marks, _ = self._marked(lambda: graph.launch(_stream()))
        return self._seconds(marks)[0]

    def _prepare(self) -> None:
        for runner in self.runners.values():
            runner.prepare()

    def _marked(self, *works: Callable[[], None]) -> tuple[list[torch.cuda.Event], int]:
        """Enqueue work while the stream is held; return events before, between and after it, and the hold's turn."""
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(len(works) + 1)]
        turn = self.launcher.hold.take()
        try:
            marks[0].record()
            for work, mark in zip(works, marks[1:], strict=True):
                work()
                mark.record()
        finally:
            self.launcher.hold.release()
        return marks, turn

    def _seconds(self, marks: Sequence[torch.cuda.Event]) -> list[float]:
        self._wait(marks[-1])
        return [a.elapsed_time(b) / 1e3 for a, b in pairwise(marks)]

    def _chain(self, stage: Stage, arm: str, slot: int, condition: Condition) -> Chain:
        key = arm, slot, condition
        if key not in self.chains:
            own = (stage.anchor if arm == "anchor" else None) or stage.candidate
            flush = self.launcher.flush if condition == "cold" else None
            repeats = self.lengths if condition == "cold" else self.lengths[:WARM_GRAPHS]
            restored = stage.restored_state(arm)
            self.chains[key] = Chain(
                self.runners[arm], slot, tensors_of(own.slots[slot]), own.outputs, flush, repeats, restored
            )
        return self.chains[key]

    def _chained(self, stage: Stage, arm: str, slot: int, condition: Condition) -> Callable[[], Sample]:
        chain = self._chain(stage, arm, slot, condition)
        chain.renew()
        length, empty, full = chain.draw()
        marks, turn = self._marked(lambda: empty.launch(_stream()), lambda: full.launch(_stream()))

        def sample() -> Sample:
            alone, whole = self._seconds(marks)
            return max((whole - alone) / length + self.latency_s, NO_TIME), self.launcher.hold.hertz(turn)

        return sample

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
        self._prepare()
        if condition == "launched":
            return self._launched(stage, arm, slot)
        if self.chained:
            reset_persisting_l2()
            return self._chained(stage, arm, slot, condition)
        if condition == "warm":
            self._launch(stage, arm, slot)
            self._prepare()
        else:
            reset_persisting_l2()
            self.launcher.flush.zero_()
        marks, turn = self._marked(lambda: self._launch(stage, arm, slot))
        return lambda: (self._seconds(marks)[0], self.launcher.hold.hertz(turn))

    def _launched(self, stage: Stage, arm: str, slot: int) -> Callable[[], Sample]:
        torch.cuda.synchronize()
        start = time.perf_counter()
        self._enqueue(stage, arm, slot)
        self.deliver()
        seconds = time.perf_counter() - start
        return lambda: (seconds, 0.0)

    def deliver(self) -> None:
        """Wait for the device; a kernel's fault shows here."""
        event = torch.cuda.Event()
        event.record()
        self._wait(event)

    def _wait(self, event: torch.cuda.Event) -> None:
        """Wait with a deadline: a kernel that never ends cannot be interrupted, only left with its process."""
        deadline = time.perf_counter() + self.job.call_timeout_s
        while not event.query():
            if time.perf_counter() > deadline:
                self.hung = True
                raise DeviceHung("a kernel did not finish in time")

    def state(self) -> dict[str, float]:
        return self.launcher.state.read()

    def close(self) -> None:
        """Let go of what an interrupted workload left; a context that a kernel broke has nothing to let go of."""
        with contextlib.suppress(RuntimeError):
            self._unload()


def _warm_up() -> None:
    """Judge a small product: what a process loads for its first comparison takes half a second."""
    model, values = torch.nn.Linear(64, 64, device="cuda"), [torch.randn(64, 64, device="cuda")]
    expect(model, values, None)[0].compare([model(*values)])


def _stream() -> int:
    return torch.cuda.current_stream().cuda_stream


def _with(values: Sequence[Any], tensors: Sequence[torch.Tensor]) -> list[Any]:
    """Return the values with their tensors replaced, in order; raises `Refused` where shapes or dtypes differ."""
    rest = iter(tensors)

    def following(value: torch.Tensor) -> torch.Tensor:
        tensor = next(rest, None)
        if tensor is None or (tensor.shape, tensor.dtype) != (value.shape, value.dtype):
            raise Refused("the program was made for other inputs")
        return tensor

    return with_tensors(values, following)


def _copied(guards: Guards, values: Sequence[Any]) -> list[Any]:
    return with_tensors(values, lambda value: guards.tensor(value.shape, value.dtype).copy_(value))
