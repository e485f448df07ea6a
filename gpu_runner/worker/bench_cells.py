"""Tier T1: candidate and anchor each in a cell, timed by the judge's own clock around the same round trip."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import torch

from forewarp.core.values import TimingMode
from forewarp.gpu_runner.worker import (
    activity,
    arena,
    cell_process,
    cores,
    extensions,
    linux,
    protections,
    toolchain,
    watch,
)
from forewarp.gpu_runner.worker.arena import Layout
from forewarp.gpu_runner.worker.call_overhead import LEAST_S, Copy, Readying, copy_seconds, works_early
from forewarp.gpu_runner.worker.cells import Cell, CellFailed, may_spin
from forewarp.gpu_runner.worker.conditions import Conditions, processors
from forewarp.gpu_runner.worker.guards import layout_guards
from forewarp.gpu_runner.worker.least import require
from forewarp.gpu_runner.worker.loading import load_problem
from forewarp.gpu_runner.worker.problem import Problem, import_text, running_reference
from forewarp.gpu_runner.worker.protections import Confinement
from forewarp.gpu_runner.worker.requests import BuiltKernel, MeasureJob
from forewarp.gpu_runner.worker.runners import (
    FLUSH_TURNS,
    FLUSHED,
    Buffers,
    LeastWork,
    ModuleRunner,
    NativeRunner,
    Runner,
    find_plan,
    make_wait,
)
from forewarp.gpu_runner.worker.stage import ArmBuffers, Stage
from forewarp.gpu_runner.worker.task_confinement import FOLDER_BYTES, around_task
from forewarp.gpu_runner.worker.timing import Arm, Bench, Condition, Sample

ARMS: tuple[Arm, ...] = ("anchor", "candidate")
DISPUTED_RATIO = 1.3
_CALLS, _TIME_S = 8, 0.2
_GAP_S = 0.02
_ASKED, _REPEATS = 5, 3
"""Times that a question is asked, and looks at each arm that it takes.

The candidate's median is compared with the anchor's worst: on a busy machine, equal ones seldom exceed that.
"""
ROUND_TRIPS = 51
LEAST_SAMPLES = 9


@dataclass(slots=True)
class _Side:
    """One arm: its kernel (None for the reference), its cell, their shared memory, and the `judged` outputs."""

    kernel: BuiltKernel | None
    descriptor: int
    cell: Cell = field(init=False)
    arena: torch.Tensor = field(init=False)
    judged: list[torch.Tensor] = field(default_factory=list[torch.Tensor])
    lent: bool = False

    @property
    def is_module(self) -> bool:
        return self.kernel is None or self.kernel.language == "python"


class CellBench(Bench):
    """Two cells, one arena each, of which only one runs; on CUDA the judge owns the device memory and lends it.

    `round_trip_s` is what a call of nothing takes, measured on the anchor's cell of the workload on stage.
    """

    tier = "T1"

    def __init__(self, job: MeasureJob, confine: Callable[[], list[str]], *, cautious: bool) -> None:
        """Fork the cells, then `confine` this process; raises `Unprotected`, all before anybody's code has run."""
        super().__init__(job)
        self.device = job.device
        self._cuda = self.device == "cuda"
        self.plans = job.cell_plans
        self._offsets = arena.OFFSETS if job.candidate.language == "python" else 1
        laid = zip(job.signatures, self.plans, strict=True)
        self.layouts = [Layout.of(s, p.slots, self._offsets) for s, p in laid]
        buffers = max(max(x.size for x in self.layouts), 32 << 20)
        self._flushes_at = -(-buffers // arena.ALIGN) * arena.ALIGN
        self._flush_size = job.flush_bytes if self._cuda else 0
        self.size = self._flushes_at + max(p.slots for p in self.plans) * self._flush_size
        self.timeout = job.call_timeout_s
        self.spins = self._cuda and may_spin()
        self.round_trip_s = self._turn_s = self._flushes_s = self._least_s = 0.0
        self._copy = Copy(0.0)
        self._bursting, self._index, self._last, self._spoils = False, 0, 0, False
        self.ready: dict[Arm, list[Readying]] = {}
        judge_cores, self._cell_cores = cores.divide() if self.spins else (frozenset[int](), frozenset[int]())
        if judge_cores:
            os.sched_setaffinity(0, judge_cores)
        self._witness: Witness | None = None
        self._flags: list[str] = []
        self._running: Arm | None = None
        self._ran_last: Arm | None = None
        self._renewals = 0
        linux.adopt_orphans()
        self._sides: dict[Arm, _Side] = {
            arm: _Side(kernel, -1 if self._cuda else arena.memfd(arm, self.size))
            for arm, kernel in zip(ARMS, (job.anchor, job.candidate), strict=True)
        }
        self.fetches = self._sides["candidate"].is_module
        # The judge maps nothing before all cells exist: a candidate inherits no secret, and no other cell's memory.
        # The anchor is confined as the candidate is, so that neither is slower for it.
        pids: set[int] = set()
        anchor, candidate = (self._cell(arm, pids, cautious=cautious) for arm in ARMS)
        watch.go_first()
        guarded = around_task(confine())
        for side in self._sides.values():
            if self._cuda:
                side.arena = torch.empty(self.size, dtype=torch.uint8, device="cuda")
            else:
                side.arena = arena.mapped(side.descriptor, self.size)
                os.close(side.descriptor)
        if not self._cuda:
            require(anchor.protections)
        if protections.sends_no_signals(candidate.protections):
            activity.out_of_reach()
        apart = "inputs, expected values and clock in another process"
        in_force = candidate.protections if self._cuda else require(candidate.protections)
        self.protections = [*in_force, apart, guarded]
        self.flush = l2_flush() if self._cuda else None
        self._probe = _Probe() if self._cuda else None
        self.conditions = ("warm",) if self._cuda else ()

    def _cell(self, arm: Arm, pids: set[int], *, cautious: bool) -> Cell:
        """Fork an arm's cell; `pids` are those of the others, and get its own."""
        side, most = self._sides[arm], self.job.memory
        how = Confinement(
            folder="",
            files=protections.device_files(self.device),
            memory=None if self._cuda else most,
            keep=[] if self._cuda else [side.descriptor],
            folder_bytes=FOLDER_BYTES[self.device],
            own_processes=not self._cuda,
            # The driver lends memory only between processes of one user.
            drop_user=not self._cuda,
            reads=[s.kernel.artefact for s in self._sides.values() if s.kernel and s.kernel.artefact],
            reads_only=toolchain.readable(self.device),
            cautious=cautious,
            stoppable=not self._cuda,
        )
        mapped: list[torch.Tensor] = []

        def load(index: int, message: bytes) -> Runner:
            torch.set_grad_enabled(False)
            if not mapped and not self._cuda:
                mapped.append(arena.mapped(side.descriptor, self.size))
            elif not mapped:
                rebuild, arguments = pickle.loads(message)  # from the judge, which is trusted
                mapped.append(rebuild(*arguments))
            return self._bind(side.kernel, index, mapped[0])

        cell = side.cell = Cell(
            load,
            how,
            name=arm,
            memory=most,
            spins=self.spins,
            cores=self._cell_cores,
            runs_reference=side.kernel is None,
            siblings=pids,
        )
        pids.add(cell.pid)
        return cell

    def _lend(self, side: _Side, index: int) -> None:
        """Have a cell load a workload; with the first, it gets what it needs to open an arena on the device."""
        handle = b""
        if self._cuda and not side.lent:
            from torch.multiprocessing.reductions import reduce_tensor

            handle = pickle.dumps(reduce_tensor(side.arena))
        side.cell.load(index, self.timeout, handle)
        side.lent = True

    def _outputs(self, index: int, source: torch.Tensor, offset: int) -> list[torch.Tensor]:
        starts = [start + offset * arena.ALIGN for start in self.layouts[index].outputs]
        return arena.views(source, starts, self.signatures[index].outputs)

    def _rooms(self, index: int, source: torch.Tensor) -> list[torch.Tensor]:
        rooms = zip(self._outputs(index, source, 0), self.layouts[index].outputs, strict=True)
        more = (self._offsets - 1) * arena.ALIGN
        return [source[start : start + output.nbytes + more] for output, start in rooms]

    def _draw_place(self, arm: Arm) -> int:
        """Draw where the next result of an arm goes, have the judge look there, and return the offset.

        The cell learns it when its result is fetched: what was written in advance lies elsewhere.
        """
        side = self._sides[arm]
        if self._offsets == 1 or not side.is_module:
            return 0
        offset = os.urandom(1)[0] % self._offsets
        side.judged[:] = self._outputs(self._index, side.arena, offset)
        return offset

    def _views(
        self, index: int, source: torch.Tensor
    ) -> tuple[list[list[Any]], dict[str, torch.Tensor], list[torch.Tensor]]:
        signature, layout = self.signatures[index], self.layouts[index]
        count = len(signature.inputs) + len(signature.scalars)
        slots: list[list[Any]] = []
        for offsets in layout.slots:
            tensors, scalars = iter(arena.views(source, offsets, signature.inputs)), signature.scalars
            slots.append([scalars[str(i)] if str(i) in scalars else next(tensors) for i in range(count)])
        weights = arena.views(source, layout.params, signature.params)
        params = dict(zip([p.name for p in signature.params], weights, strict=True))
        return slots, params, self._outputs(index, source, 0)

    def _flushed(self, source: torch.Tensor, slots: int) -> torch.Tensor:
        return source[self._flushes_at : self._flushes_at + slots * self._flush_size]

    def _bind(self, kernel: BuiltKernel | None, index: int, source: torch.Tensor) -> Runner:
        """Load a kernel, or the reference, for a workload. Called in a cell."""
        slots, weights, outputs = self._views(index, source)
        if kernel is not None and kernel.language != "python":
            workload, manifest, folder = self.workloads[index].name, kernel.manifest, Path(kernel.artefact)
            buffers = Buffers(find_plan(manifest, workload), slots, weights, outputs)
            if self._cuda and not kernel.has_host_code:
                from forewarp.gpu_runner.worker.cubin import WaitingCubinRunner

                return WaitingCubinRunner(folder, manifest, workload, buffers)
            return NativeRunner(folder, manifest, workload, buffers, make_wait(self.device))
        wait = make_wait(self.device)
        problem = load_problem(self.job, self.workloads[index], self.weight_seed)
        if kernel is None:
            call: Callable[..., Any] = problem.model(self.device)
        else:
            extensions.install(kernel.artefact, kernel.manifest)
            call = problem.bind(import_text(kernel.source), self.device, weights)
        places = [self._outputs(index, source, offset) for offset in range(self._offsets)]
        count = self.plans[index].slots if self._flush_size else 0
        flushes = list(self._flushed(source, count).view(count, self._flush_size)) if count else []
        # What the reference leaves of its state is copied out as a candidate's is, though nobody asks for it: that
        # takes time.
        states = _states(problem, weights)
        written = self.signatures[index].written
        return ModuleRunner(call, slots, places, wait, flushes, states=states, changes=problem.state, written=written)

    def stage(self, index: int) -> Stage:
        self._question()
        self._bursting, self._index, self._renewals = False, index, 0
        self.ready = {arm: [] for arm in ARMS}
        with running_reference("the reference"):
            problem = load_problem(self.job, self.workloads[index], self.weight_seed)
            model = problem.model(self.device)
        buffers: dict[Arm, ArmBuffers] = {}
        for arm, side in self._sides.items():
            slots, params, side.judged = self._views(index, side.arena)
            for param, value in zip(params.values(), model.state_dict().values(), strict=True):
                param.copy_(value)
            states = self._compared(problem, index, side.kernel, params)
            buffers[arm] = ArmBuffers(slots, side.judged, states, self._rooms(index, side.arena))
        self.anchor_outputs = self._sides["anchor"].judged if self.job.anchor else None
        stage = Stage(
            problem,
            model,
            buffers["candidate"],
            self.job.task.tolerance,
            buffers["anchor"],
            written=self.signatures[index].written,
            aliases=None if self.fetches else self.signatures[index].aliases,
            guards=layout_guards(self._sides["candidate"].arena, self.layouts[index]),
            perturb=self.job.task.perturb,
            state_in_place=not self.fetches,
            lean=self.plans[index].lean,
        )
        self._synchronize()
        for arm in ARMS:
            self.awake(arm)
            self._lend(self._sides[arm], index)
        anchor = self.awake("anchor")
        start = time.perf_counter()
        trips = [anchor.call(cell_process.NULL, self.timeout) for _ in range(ROUND_TRIPS)]
        self._turn_s = (time.perf_counter() - start) / ROUND_TRIPS
        self.round_trip_s = median(trips)
        self._copy = Copy(copy_seconds(stage))
        self._witness = Witness(self, stage, copy_s=self._copy.judges_s if self.fetches else 0.0)
        return stage

    def _compared(
        self, problem: Problem, index: int, kernel: BuiltKernel | None, weights: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """Return the buffers of a kernel's parameters where it leaves the reference's state, by name."""
        states = _states(problem, weights)
        if kernel is None or (kernel.language == "python") != self.fetches:
            return {}
        if self.fetches:
            return states
        taken = set(find_plan(kernel.manifest, self.workloads[index].name).params.values())
        return {name: buffer for name, buffer in states.items() if name in taken}

    def _ready(self, cell: Cell, stage: Stage, slot: int) -> None:
        if stage.prepares_calls:
            cell.ready(self.timeout, stage.seed_of(slot))

    def _roused(self, stage: Stage, arm: Arm, slot: int) -> Cell:
        """Return an arm's cell, ready for a call whose inputs it can see already: `ready` keeps what that takes.

        Only of calls on new inputs: the anchor's controls, on old ones, find its code in the caches.
        """
        cell, follows_other = self._sides[arm].cell, self._ran_last not in (arm, None)
        start, used = time.perf_counter(), cell.processor_s()
        self.awake(arm)
        self._ready(cell, stage, slot)
        wall_s, processor_s = time.perf_counter() - start, cell.processor_s() - used
        if stage.renewals != self._renewals:
            self.ready[arm].append(Readying(wall_s, processor_s, follows_other))
        self._renewals = stage.renewals
        return cell

    def awake(self, arm: Arm) -> Cell:
        """Stop the other arm's cell, and return this one's, ready for the next command."""
        cell = self._sides[arm].cell
        if self._running != arm:
            other = self._sides["anchor" if arm == "candidate" else "candidate"].cell
            # On the CPU device the other arm would take cores, and in waiting for a GPU half of one.
            if self.spins:
                other.call(cell_process.REST, self.timeout)
            elif not self._cuda:
                other.pause()
                cell.resume()
            self._running = arm
        self._ran_last = arm
        cell.call(cell_process.WAKE, self.timeout)
        return cell

    def _rest(self, cell: Cell) -> None:
        """Stop a cell on the CPU device: what it does after its call must neither be in time nor cost others theirs."""
        if not self._cuda:
            cell.pause()
            self._running = None

    def choose_mode(self, stage: Stage, longest_s: float) -> TimingMode:
        """Have modules on a GPU run in bursts, which hide the host's part; elsewhere calls are timed as a whole."""
        modules = [side.is_module for side in self._sides.values()]
        if not self._cuda and not any(modules):
            return "native"
        if self.flush is None or stage.prepares_calls or not self._flush_size or not all(modules):
            return "call"
        for arm in ARMS:
            if self.job.captures[arm]:
                self.awake(arm).call(cell_process.CAPTURE, stage.slot_count * self.timeout)
        anchor = self.awake("anchor")
        self._flushes_s = median(anchor.call(cell_process.BURST, self.timeout) for _ in range(ROUND_TRIPS))
        self._least_s = self._least_seconds(self.flush)
        self._bursting = True
        self.conditions = ("launched",)
        return "burst"

    def sample(self, stage: Stage, arm: Arm, slot: int, condition: Condition = "cold") -> Callable[[], Sample]:
        """Run one arm now; on CUDA behind a flush of the L2 cache, unless it is to be warm."""
        self._last = slot
        if self._bursting and condition == "cold":
            return self._burst(stage, arm, slot)
        if self.flush is not None and condition != "warm":
            self.flush.zero_()
        self._synchronize()
        hertz = self._probe.hertz() if self._probe is not None else 0.0
        cell = self._roused(stage, arm, slot)
        offset = self._draw_place(arm) if self.fetches else 0
        raw, extra = cell.call(cell_process.RUN, self.timeout, slot), self.round_trip_s
        if self.fetches:
            # A module's call lasts until its output is there: what it puts off is paid for all the same.
            # No more is taken off for copying than the call took: who leaves all work to the copy gains nothing.
            copying = min(self._copy.seconds, max(0.0, raw - extra)) if self._sides[arm].is_module else 0.0
            if self._spoils:
                self._rest(cell)  # or it would go on with inputs that are there still
                stage.spoil_inputs(slot)
                self._synchronize()
                self.awake(arm)
            fetched = cell.deliver(self.timeout, offset=offset)
            if arm == "anchor":
                self._copy.saw(fetched - self.round_trip_s)
            raw += fetched
            extra += self.round_trip_s + copying
        self._rest(cell)
        # A call hardly longer than a call of nothing has no time to speak of.
        seconds = max(raw - extra, raw / 10)
        return lambda: (seconds, hertz)

    def try_spoilt(self, stage: Stage, slot: int) -> None:
        """Take inputs away between a call and the fetching of its result, or the last pass could be made there.

        The copy, which a candidate's own code makes, is taken off a call's time.
        """
        self._spoils = self.fetches and not self._bursting
        try:
            super().try_spoilt(stage, slot)
        finally:
            spoilt, self._spoils = self._spoils, False
        if spoilt:
            stage.restore_inputs(slot)

    def _burst(self, stage: Stage, arm: Arm, slot: int) -> Callable[[], Sample]:
        """Run every slot once, each on inputs that it has not seen, and return the seconds of one call.

        What the same burst takes with the least work in the calls' place is taken off. What that least work takes
        between two events is added, because others measure so.
        """
        for other in range(stage.slot_count):
            if other != slot:
                stage.renew(other, arm)
                stage.prepare(other, arm)
        flushed = self._flushed(self._sides[arm].arena, stage.slot_count)
        flushed.zero_()
        self._synchronize()
        hertz = self._probe.hertz() if self._probe is not None else 0.0
        raw = self._roused(stage, arm, slot).call(cell_process.BURST, self.timeout, 1)
        if not bool((flushed == FLUSHED).all()):
            raise CellFailed("crashed", "the code in the cell kept the L2 cache from being flushed between calls")
        seconds = max(raw - self._flushes_s, raw / 100) / stage.slot_count + self._least_s
        return lambda: (seconds, hertz)

    def _least_seconds(self, flush: torch.Tensor) -> float:
        least, seconds = LeastWork(), list[float]()
        for _ in range(LEAST_SAMPLES):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            for _ in range(FLUSH_TURNS):
                flush.zero_()
            begin.record()
            least.replay()
            end.record()
            end.synchronize()
            seconds.append(begin.elapsed_time(end) / 1e3)
        return median(seconds)

    def warm(self, stage: Stage, arm: Arm, slot: int) -> float:
        """Return the seconds of one call with warm caches, less the round trip."""
        stage.touch(slot)
        stage.prepare(slot)
        stage.prepare(slot, "anchor")
        return self.sample(stage, arm, slot, "warm")()[0]

    def burst(self, stage: Stage, arm: Arm, calls: int = 8) -> float:
        """Return the seconds that each of several calls takes until its output is there, less round trips.

        How many there are is drawn at random: the candidate cannot know which output is the last, and that one must be
        right (raises `Mismatch`). What asking for an output adds honestly, the anchor's burst shows.
        """
        last = stage.slot_count - 1
        count = max(2, calls - int.from_bytes(os.urandom(1)) % (calls // 2 + 1))
        slots = [*(i % max(1, last) for i in range(count - 1)), last]
        stage.redraw(last)
        stage.prepare(last)
        stage.prepare(last, "anchor")
        self._synchronize()
        cell = self.awake(arm)
        offsets = [self._draw_place(arm) for _ in slots]
        start = time.perf_counter()
        for slot, offset in zip(slots, offsets, strict=True):
            self._ready(cell, stage, slot)
            cell.call(cell_process.RUN, self.timeout, slot)
            cell.deliver(self.timeout, offset=offset)
        seconds = time.perf_counter() - start
        self._rest(cell)
        if arm == "candidate":
            stage.compare(last)
        return seconds / count - (3 if stage.prepares_calls else 2) * self._turn_s

    def _question(self) -> None:
        if self._witness is not None:
            self._flags += self._witness.findings()
            self._witness = None

    def excuse(self) -> None:
        self._witness = None

    def flags(self) -> list[str]:
        self._question()
        return self._flags

    def state(self) -> dict[str, float]:
        known = self._probe.state() if self._probe is not None else processors()
        return known | {"round_trip_s": self.round_trip_s}

    def deliver(self) -> None:
        self._synchronize()
        if self._bursting:
            offset = self._draw_place("candidate")
            self.awake("candidate").deliver(self.timeout, self._last, offset)
        elif not self.fetches:
            candidate = self.awake("candidate")
            candidate.deliver(self.timeout)
            self._rest(candidate)

    def _synchronize(self) -> None:
        if self._cuda:
            torch.cuda.synchronize()

    def close(self) -> None:
        for arm in reversed(ARMS):
            self._sides[arm].cell.close()
        watch.end_strays(())


class Witness:
    """A second look at a candidate's times on one workload, from outside its process.

    Code in a cell may answer first and work later: in a thread, when its result is fetched, or once the judge looks
    away. Or it works early, while it is made ready for a call. Each question is asked again before it counts, because a
    busy machine can make an honest candidate look odd once. With modules, copying a result out takes `copy_s` of every
    call.
    """

    def __init__(self, bench: CellBench, stage: Stage, *, copy_s: float) -> None:
        self.bench, self.stage, self.copy_s = bench, stage, copy_s
        self.single_s = 0.0
        self.calls = _CALLS

    def findings(self) -> list[str]:
        early = works_early(self.bench.ready["candidate"], self.bench.ready["anchor"])
        self.bench.awake("candidate").settle()
        pilot = max(self.bench.warm(self.stage, "candidate", 0), 1e-7)
        self.calls = int(min(_CALLS, max(2, _TIME_S / (2 * pilot))))
        self.single_s = self._single("candidate")
        questions: list[Callable[[], str]] = [self._disputed, self._restless]
        if not self.copy_s:
            questions.append(self._late)
        return [answer for answer in (early, *map(self._insist, questions)) if answer]

    def _insist(self, ask: Callable[[], str]) -> str:
        answer = ""
        for _ in range(_ASKED):
            answer = ask()
            if not answer:
                return ""
        return answer

    def _single(self, arm: Arm) -> float:
        slots = self.stage.slot_count
        return max(median(self.bench.warm(self.stage, arm, i % slots) for i in range(self.calls)), 1e-7)

    def _disputed(self) -> str:
        seen = [self._stretch("candidate") for _ in range(_REPEATS)]
        single, each = (median(values) for values in zip(*seen, strict=True))
        single = max(self.single_s, single)
        allowed = DISPUTED_RATIO * single + LEAST_S
        if each < allowed:
            return ""
        # What a stretch of calls costs beyond single ones on a machine as busy as this, the anchor shows.
        beyond = max(burst - alone for alone, burst in (self._stretch("anchor") for _ in range(_REPEATS)))
        if each < allowed + DISPUTED_RATIO * max(0.0, beyond):
            return ""
        return (
            f"timing disputed: calls at a stretch took {each * 1e6:.1f} µs each until their outputs were there,"
            f" a single one {single * 1e6:.1f} µs"
        )

    def _stretch(self, arm: Arm) -> tuple[float, float]:
        """Return the seconds of an arm's single call, and of each of a stretch of calls."""
        single = self._single(arm)
        return single, self.bench.burst(self.stage, arm, self.calls) - self.copy_s

    def _late(self) -> str:
        allowed = max(LEAST_S, 0.5 * self.single_s)
        extra = median(self._fetch("candidate") for _ in range(_REPEATS))
        if extra < allowed or extra < allowed + max(self._fetch("anchor") for _ in range(_REPEATS)):
            return ""
        return f"work is left for after the call: fetching its result took {extra * 1e6:.1f} µs"

    def _fetch(self, arm: Arm) -> float:
        self.bench.warm(self.stage, arm, 0)
        return self.bench.awake(arm).deliver(self.bench.timeout) - self.bench.round_trip_s

    def _restless(self) -> str:
        cell = self.bench.awake("candidate")
        used: list[float] = []
        for command in (cell_process.NULL, cell_process.RUN):
            cell.call(command, self.bench.timeout)
            if self.bench.spins:
                cell.call(cell_process.REST, self.bench.timeout)  # or its own waiting would count
            before = cell.processor_s()
            time.sleep(_GAP_S)
            used.append(cell.processor_s() - before)
        extra = used[1] - used[0]
        if used[0] > _GAP_S / 2:
            return f"works between its calls: {used[0] * 1e3:.1f} ms of processor time within {_GAP_S * 1e3:.0f} ms"
        if extra < max(LEAST_S, 0.5 * self.single_s, _GAP_S / 10):
            return ""
        return f"works on after its call has ended: {extra * 1e6:.1f} µs of processor time within {_GAP_S * 1e3:.0f} ms"


def _states(problem: Problem, weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the weights that a call of the reference changes; none where `state_dict` leaves them out."""
    return {name: weights[name] for name in problem.state if name in weights}


class _Probe:
    def __init__(self) -> None:
        from forewarp.gpu_runner.worker.hold import Hold

        self._hold = Hold()
        self.state = Conditions().read

    def hertz(self) -> float:
        turn = self._hold.take()
        self._hold.release()
        torch.cuda.synchronize()
        return self._hold.hertz(turn)


def l2_flush() -> torch.Tensor:
    """Return a buffer that, once written, has pushed everything else out of the L2 cache."""
    size = 2 * torch.cuda.get_device_properties(0).L2_cache_size
    return torch.empty(max(size, 64 << 20), dtype=torch.uint8, device="cuda")
