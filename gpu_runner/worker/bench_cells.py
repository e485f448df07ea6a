"""Tier T1: candidate and anchor each in a cell, timed by the judge's own clock around the same round trip."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch

from forewarp.core import serde
from forewarp.core.values import Signature, Tolerance, Workload
from forewarp.gpu_runner.worker import (
    activity,
    arena,
    cores,
    extensions,
    memory,
    privileges,
    protections,
    toolchain,
    watch,
)
from forewarp.gpu_runner.worker.arena import Arena, Layout
from forewarp.gpu_runner.worker.cells import (
    CALLS,
    FETCH,
    FLUSHES,
    GRAPHS,
    NOTHING,
    SLEEP,
    STIR,
    Cell,
    CellFailed,
    fetch_order,
    load_order,
    may_spin,
    ready_order,
    run_order,
)
from forewarp.gpu_runner.worker.conditions import Conditions, processors
from forewarp.gpu_runner.worker.guards import layout_guards
from forewarp.gpu_runner.worker.least import require
from forewarp.gpu_runner.worker.loading import load_problem
from forewarp.gpu_runner.worker.modules import load_candidate
from forewarp.gpu_runner.worker.problem import Problem, running_reference
from forewarp.gpu_runner.worker.protections import Confinement
from forewarp.gpu_runner.worker.runners import (
    FLUSH_TURNS,
    FLUSHED,
    Buffers,
    LeastWork,
    ModuleRunner,
    NativeRunner,
    Runner,
    find_plan,
    make_span,
)
from forewarp.gpu_runner.worker.stage import Stage, fresh_seed
from forewarp.gpu_runner.worker.task_confinement import around_task
from forewarp.gpu_runner.worker.timing import Arm, Condition, Sample
from forewarp.gpu_runner.worker.witness import Copy, Readying, Witness, copy_seconds

ARMS: tuple[Arm, ...] = ("anchor", "candidate")
Bind = Callable[[int, Arena], Runner]
ROUND_TRIPS = 51
LEAST_SAMPLES = 9
_CPU_FOLDER, _CUDA_FOLDER = 256 << 20, 1 << 30
_OPEN = 255
"""Number of no workload: the cell opens its arena only."""


class _Opened:
    """Runs nothing: what a cell has before its first workload."""

    def run(self, slot: int) -> None:
        """Do nothing."""

    def deliver(self, slot: int) -> None:
        """Do nothing."""


class CellBench:
    """Two cells, one arena each. On CUDA the arenas are device memory that the judge owns and lends by handle.

    Only one arm's cell is ever let run, the other is stopped. `round_trip_s` is what a call of nothing takes, measured
    on the anchor's cell of the workload on stage.
    """

    tier = "T1"
    conditions: tuple[Condition, ...] = ()

    def __init__(
        self,
        job: dict[str, Any],
        workloads: Sequence[Workload],
        signatures: Sequence[Signature],
        confine: Callable[[], list[str]],
        *,
        cautious: bool,
    ) -> None:
        """Fork the cells, then `confine` this process, before the first line of the task's code runs in it.

        Raises `Unprotected` before the first line of anybody's code has run.
        `cautious` leaves out for the anchor's cell what a driver does not bear; the candidate's finds that out itself.
        """
        self.job, self.workloads, self.signatures = job, workloads, signatures
        self.device = "cuda" if job["target_kind"] == "cuda" else "cpu"
        self.plans = [memory.of_job(job, i, s, "cells", self.device) for i, s in enumerate(signatures)]
        self._offsets = arena.OFFSETS if job["language"] == "python" else 1
        laid = zip(signatures, self.plans, strict=True)
        self.layouts = [Layout.of(s, p.slots, self._offsets) for s, p in laid]
        buffers = max(max(x.size for x in self.layouts), 32 << 20)
        self._flushes_at = -(-buffers // arena.ALIGN) * arena.ALIGN
        self._flush_size = int(job.get("flush_bytes", 0)) if self._cuda else 0
        self.size = self._flushes_at + max(p.slots for p in self.plans) * self._flush_size
        self.weight_seed = fresh_seed()
        self.tolerance = serde.from_data(Tolerance, job["tolerance"]) if job["tolerance"] else None
        self.timeout = float(job["call_timeout_s"])
        self.spins = self.device == "cuda" and may_spin()
        self.round_trip_s = self._turn_s = self._flushes_s = self._least_s = 0.0
        self._copy = Copy(0.0)
        self._bursting, self._index, self._last = False, 0, 0
        self.ready: dict[Arm, list[Readying]] = {}
        languages = {"candidate": job["language"], "anchor": job["anchor"]["language"] if job["anchor"] else "python"}
        self._copying = frozenset(arm for arm, language in languages.items() if language == "python")
        self._fetches = "candidate" in self._copying
        judge_cores, self._cell_cores = cores.divide() if self.spins else (frozenset[int](), frozenset[int]())
        if judge_cores:
            os.sched_setaffinity(0, judge_cores)
        self.anchor_outputs: Sequence[torch.Tensor] | None = None
        self.arenas: dict[Arm, Arena] = {}
        self._judged: dict[Arm, list[torch.Tensor]] = {}
        self._witness: Witness | None = None
        self._flags: list[str] = []
        self._running: Arm | None = None
        self._lent: set[Arm] = set()
        privileges.adopt_orphans()
        self._files: dict[Arm, int] = {a: -1 if self._cuda else arena.memfd(a, self.size) for a in ARMS}
        # The judge maps nothing before all cells exist: a candidate inherits no secret, and no other cell's memory.
        # The anchor is confined as the candidate is, so that neither is slower for it.
        rival = self._bind_anchor if job["anchor"] else None
        self._pids: set[int] = set()
        self.anchor = self._cell("anchor", rival or self._bind_reference, cautious=cautious)
        self.candidate = self._cell("candidate", self._bind_candidate)
        spare = self._cell("candidate", self._bind_candidate, cautious=True) if self._cuda else None
        watch.go_first()
        guarded = around_task(confine())
        self._open_arenas()
        if spare is not None:
            self._choose(spare)
        if not self._cuda:
            require(self.anchor.protections)
        if protections.sends_no_signals(self.candidate.protections):
            activity.out_of_reach()
        apart = "inputs, expected values and clock in another process"
        in_force = self.candidate.protections if self._cuda else require(self.candidate.protections)
        self.protections = [*in_force, apart, guarded]
        self.flush = l2_flush() if self._cuda else None
        self._probe = _Probe() if self._cuda else None
        self._state = self._probe.state if self._probe is not None else processors
        if self._cuda:
            self.conditions = ("warm",)

    @property
    def _cuda(self) -> bool:
        return self.device == "cuda"

    def _cell(self, arm: Arm, bind: Bind, *, cautious: bool = False) -> Cell:
        descriptor, most = self._files[arm], int(self.job["memory"])
        how = Confinement(
            folder="",
            files=protections.device_files(self.device),
            memory=None if self._cuda else most,
            folder_bytes=_CUDA_FOLDER if self._cuda else _CPU_FOLDER,
            # The driver lends memory only between processes of one user.
            drop_user=not self._cuda,
            reads=[k["artefact"] for k in (self.job, self.job["anchor"]) if k and k["artefact"]],
            reads_only=toolchain.readable(self.device),
            cautious=cautious,
            stoppable=not self._cuda,
        )
        cell = Cell(
            self._loader(descriptor, bind),
            name="candidate" if arm == "candidate" else "anchor",
            memory=most,
            confinement=how,
            own_processes=not self._cuda,
            spins=self.spins,
            cores=self._cell_cores,
            runs_reference=arm == "anchor" and not self.job["anchor"],
            keep=[descriptor] if descriptor >= 0 else [],
            siblings=self._pids,
        )
        self._pids.add(cell.pid)
        return cell

    def _open_arenas(self) -> None:
        for arm, descriptor in self._files.items():
            if self._cuda:
                self.arenas[arm] = Arena(torch.empty(self.size, dtype=torch.uint8, device="cuda"))
            else:
                self.arenas[arm] = Arena.from_memfd(descriptor, self.size)
                os.close(descriptor)

    def _choose(self, spare: Cell) -> None:
        """Let the candidate's cell open the device; take the more cautiously confined one if it cannot.

        No line of the candidate has been read by then, so this says something of the driver only.
        """
        try:
            self.candidate.call(load_order(_OPEN, self._handle("candidate")), self.timeout)
        except CellFailed:
            self.candidate.close()
            self.candidate = spare
            spare.call(load_order(_OPEN, self._handle("candidate")), self.timeout)
        else:
            spare.close()
        self._lent.add("candidate")

    def _loader(self, descriptor: int, bind: Bind) -> Callable[[int, bytes], Runner]:
        """Return the function that a cell runs to load a workload; it maps the arena at the first."""
        mapped: list[Arena] = []

        def load(index: int, message: bytes) -> Runner:
            torch.set_grad_enabled(False)
            if not mapped:
                if descriptor >= 0:
                    mapped.append(Arena.from_memfd(descriptor, self.size))
                else:
                    rebuild, arguments = pickle.loads(message)  # from the judge, which is trusted
                    mapped.append(Arena(rebuild(*arguments)))
            return bind(index, mapped[0]) if index != _OPEN else _Opened()

        return load

    def _outputs(self, index: int, source: Arena, offset: int) -> list[torch.Tensor]:
        """Return a workload's outputs where they lie at an offset."""
        starts = [start + offset * arena.ALIGN for start in self.layouts[index].outputs]
        return source.views(starts, self.signatures[index].outputs)

    def _rooms(self, index: int, source: Arena) -> list[torch.Tensor]:
        """Return all bytes where an output may come to lie, for each output."""
        rooms = zip(self._outputs(index, source, 0), self.layouts[index].outputs, strict=True)
        more = (self._offsets - 1) * arena.ALIGN
        return [source.block[start : start + output.nbytes + more] for output, start in rooms]

    def _draw_place(self, arm: Arm) -> int:
        """Draw where the next result of an arm goes, have the judge look there, and return the offset.

        The cell learns it when its result is fetched: what was written in advance lies elsewhere. Native code writes
        to the first place.
        """
        if self._offsets == 1 or arm not in self._copying:
            return 0
        offset = os.urandom(1)[0] % self._offsets
        self._judged[arm][:] = self._outputs(self._index, self.arenas[arm], offset)
        return offset

    def _views(self, index: int, source: Arena) -> tuple[list[list[Any]], list[torch.Tensor], list[torch.Tensor]]:
        """Return (input values per slot, parameters, outputs) of a workload in an arena."""
        signature, layout = self.signatures[index], self.layouts[index]
        count = len(signature.inputs) + len(signature.scalars)
        slots: list[list[Any]] = []
        for offsets in layout.slots:
            tensors = iter(source.views(offsets, signature.inputs))
            scalars = signature.scalars
            slots.append([scalars[str(i)] if str(i) in scalars else next(tensors) for i in range(count)])
        return slots, source.views(layout.params, signature.params), self._outputs(index, source, 0)

    def _flushed(self, source: Arena, slots: int) -> torch.Tensor:
        """Return the bytes that a burst on so many slots writes to before its calls."""
        return source.block[self._flushes_at : self._flushes_at + slots * self._flush_size]

    def _flushes(self, index: int, source: Arena) -> list[torch.Tensor]:
        """Return the buffers that a burst writes to before its calls, one per slot; none where there are no bursts."""
        slots = self.plans[index].slots
        return list(self._flushed(source, slots).view(slots, self._flush_size)) if self._flush_size else []

    def _bind_reference(self, index: int, source: Arena) -> Runner:
        slots, params, _ = self._views(index, source)
        outputs = [self._outputs(index, source, offset) for offset in range(self._offsets)]
        weights = dict(zip([p.name for p in self.signatures[index].params], params, strict=True))
        span = make_span(self.device)
        problem = load_problem(self.job, self.workloads[index], self.weight_seed)
        # What it leaves of its state is copied out as the candidate's is, though nobody asks for it: that takes time.
        states, flushes = _states(problem, weights), self._flushes(index, source)
        model = problem.model(self.device)
        return ModuleRunner(model, slots, outputs, span, flushes, states=states, changes=problem.state)

    def _bind_candidate(self, index: int, source: Arena) -> Runner:
        return self._bind_kernel(self.job, index, source)

    def _bind_anchor(self, index: int, source: Arena) -> Runner:
        return self._bind_kernel(self.job["anchor"], index, source)

    def _bind_kernel(self, kernel: Mapping[str, Any], index: int, source: Arena) -> Runner:
        slots, params, outputs = self._views(index, source)
        weights = dict(zip([p.name for p in self.signatures[index].params], params, strict=True))
        if kernel["language"] == "python":
            span = make_span(self.device)
            problem = load_problem(self.job, self.workloads[index], self.weight_seed)
            extensions.install(kernel["artefact"], kernel["manifest"])
            call = load_candidate(kernel["source"], problem, self.device, weights)
            states, flushes = _states(problem, weights), self._flushes(index, source)
            places = [self._outputs(index, source, offset) for offset in range(self._offsets)]
            return ModuleRunner(call, slots, places, span, flushes, states=states, changes=problem.state)
        workload, manifest = self.workloads[index].name, kernel["manifest"]
        buffers = Buffers(find_plan(manifest, workload), slots, weights, outputs)
        if self.device == "cuda" and not manifest.get("host_code"):
            from forewarp.gpu_runner.worker.cubin import WaitingCubinRunner

            return WaitingCubinRunner(Path(kernel["artefact"]), manifest, workload, buffers)
        return NativeRunner(Path(kernel["artefact"]), manifest, workload, buffers)

    def stage(self, index: int) -> Stage:
        """Put a workload's inputs and weights in both arenas and load both arms."""
        self._question()
        self._bursting, self._index = False, index
        self.ready = {arm: [] for arm in ARMS}
        with running_reference("the reference"):
            problem = load_problem(self.job, self.workloads[index], self.weight_seed)
            model = problem.model(self.device)
        slots, params, outputs = self._views(index, self.arenas["candidate"])
        mirror, rival_params, rival_outputs = self._views(index, self.arenas["anchor"])
        for place in (params, rival_params):
            for param, value in zip(place, model.state_dict().values(), strict=True):
                param.copy_(value)
        self._judged = {"candidate": outputs, "anchor": rival_outputs}
        self.anchor_outputs = rival_outputs if self.job["anchor"] else None
        names = list(model.state_dict())
        states, mirror_states = (
            self._compared(problem, index, kernel, dict(zip(names, place, strict=True)))
            for kernel, place in ((self.job, params), (self.job["anchor"], rival_params))
        )
        stage = Stage(
            problem,
            model,
            slots,
            outputs,
            self.tolerance,
            [mirror],
            written=self.signatures[index].written,
            aliases=None if self.job["language"] == "python" else self.signatures[index].aliases,
            guards=layout_guards(self.arenas["candidate"].block, self.layouts[index]),
            perturb=bool(self.job["perturb"]),
            mirror_outputs=rival_outputs,
            states=states,
            mirror_states=mirror_states,
            state_in_place=self.job["language"] != "python",
            lean=self.plans[index].lean,
            rooms=[self._rooms(index, self.arenas[arm]) for arm in reversed(ARMS)],
        )
        self._synchronize()
        for arm in ARMS:
            handle = b"" if arm in self._lent else self._handle(arm)
            self.awake(arm).call(load_order(index, handle), self.timeout)
            self._lent.add(arm)
        anchor = self.awake("anchor")
        trips: list[float] = []
        start = time.perf_counter()
        for _ in range(ROUND_TRIPS):
            trips.append(anchor.call(NOTHING, self.timeout))
        self._turn_s = (time.perf_counter() - start) / ROUND_TRIPS
        self.round_trip_s = median(trips)
        self._copy = Copy(copy_seconds(stage))
        self._witness = Witness(self, stage, copy_s=self._copy.judges_s if "candidate" in self._copying else 0.0)
        return stage

    def _compared(
        self, problem: Problem, index: int, kernel: Mapping[str, Any] | None, weights: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """Return the buffers where a kernel leaves the reference's state, by name: all that its launch plan names.

        They are those of the parameters; of a module, they are filled once its call has ended.
        """
        states = _states(problem, weights)
        if kernel is None or (kernel["language"] == "python") != (self.job["language"] == "python"):
            return {}
        if kernel["language"] == "python":
            return states
        taken = set(find_plan(kernel["manifest"], self.workloads[index].name).params.values())
        return {name: buffer for name, buffer in states.items() if name in taken}

    def _ready(self, cell: Cell, stage: Stage, slot: int) -> None:
        """Make a module ready for a call, outside of what is timed."""
        if stage.prepares_calls:
            cell.call(ready_order(stage.seed_of(slot)), self.timeout)

    def _roused(self, stage: Stage, arm: Arm, slot: int) -> Cell:
        """Return an arm's cell, ready for a call whose inputs it can see already: `ready` keeps what that takes."""
        cell = self.candidate if arm == "candidate" else self.anchor
        start, used = time.perf_counter(), cell.processor_s()
        self.awake(arm)
        self._ready(cell, stage, slot)
        self.ready[arm].append(Readying(time.perf_counter() - start, cell.processor_s() - used))
        return cell

    def awake(self, arm: Arm) -> Cell:
        """Stop the other arm's cell, and return this one's, ready for the next command."""
        cell, other = (self.candidate, self.anchor) if arm == "candidate" else (self.anchor, self.candidate)
        if self._running != arm:
            # On the CPU device the other arm would take cores, and in waiting for a GPU half of one.
            if self.spins:
                other.call(SLEEP, self.timeout)
            elif not self._cuda:
                other.pause()
                cell.resume()
            self._running = arm
        cell.call(STIR, self.timeout)
        return cell

    def _rest(self, cell: Cell) -> None:
        """Stop a cell on the CPU device: what it does after its call must neither be in time nor cost others theirs."""
        if not self._cuda:
            cell.pause()
            self._running = None

    def _handle(self, arm: Arm) -> bytes:
        """Return what a cell needs to open the arena; empty where it inherited a descriptor."""
        if self.device == "cpu":
            return b""
        from torch.multiprocessing.reductions import reduce_tensor

        return pickle.dumps(reduce_tensor(self.arenas[arm].block))

    def choose_mode(self, stage: Stage, longest_s: float) -> str:
        """Have modules on a GPU run in bursts, which hide the host's part; elsewhere calls are timed as a whole."""
        del longest_s
        if not self._cuda and not self._copying:
            return "native"
        if self.flush is None or stage.prepares_calls or not self._flush_size or not self._copying.issuperset(ARMS):
            return "call"
        for arm in ARMS:
            if self.job["captures"][arm]:
                self.awake(arm).call(GRAPHS, stage.slot_count * self.timeout)
        anchor = self.awake("anchor")
        self._flushes_s = median(anchor.call(FLUSHES, self.timeout) for _ in range(ROUND_TRIPS))
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
        fetch = fetch_order(offset=self._draw_place(arm) if self._fetches else 0)
        raw, extra = cell.call(run_order(slot), self.timeout), self.round_trip_s
        if self._fetches:
            # A module's call lasts until its output is there: what it puts off is paid for all the same.
            # No more is taken off for copying than the call took: who leaves all work to the copy gains nothing.
            copying = min(self._copy.seconds, max(0.0, raw - extra)) if arm in self._copying else 0.0
            fetched = cell.call(fetch, self.timeout)
            if arm == "anchor":
                self._copy.saw(fetched - self.round_trip_s)
            raw += fetched
            extra += self.round_trip_s + copying
        self._rest(cell)
        # A call hardly longer than a call of nothing has no time to speak of.
        seconds = max(raw - extra, raw / 10)
        return lambda: (seconds, hertz)

    def _burst(self, stage: Stage, arm: Arm, slot: int) -> Callable[[], Sample]:
        """Run every slot once, each on inputs that it has not seen, and return the seconds of one call.

        What the same burst takes with the least work in the calls' place is taken off; it was measured in the anchor's
        cell. What that least work takes between two events is added, because others measure so.
        """
        for other in range(stage.slot_count):
            if other != slot:
                stage.renew(other, arm)
                (stage.prepare if arm == "candidate" else stage.prepare_anchor)(other)
        flushed = self._flushed(self.arenas[arm], stage.slot_count)
        flushed.zero_()
        self._synchronize()
        hertz = self._probe.hertz() if self._probe is not None else 0.0
        raw = self._roused(stage, arm, slot).call(CALLS, self.timeout)
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

    def reported(self) -> float | None:
        """Return the candidate's own word for the device seconds of its last call; None where it gives none."""
        return self.candidate.reported(self.timeout) if self._running == "candidate" else None

    def warm(self, stage: Stage, arm: Arm, slot: int) -> float:
        """Return the seconds of one call with warm caches, less the round trip."""
        stage.touch(slot)
        stage.prepare(slot)
        stage.prepare_anchor(slot)
        return self.sample(stage, arm, slot, "warm")()[0]

    def burst(self, stage: Stage, arm: Arm, calls: int = 8) -> float:
        """Return the seconds that each of several calls takes until its output is there, back to back.

        Nothing comes between the calls, and each one's output is asked for within the time. How many there are is drawn
        at random, up to `calls`: the candidate cannot know which output is the last, and that one must be right (raises
        `Mismatch`). Round trips are taken off. What asking for an output adds honestly, the anchor's burst shows.
        """
        last = stage.slot_count - 1
        count = max(2, calls - int.from_bytes(os.urandom(1)) % (calls // 2 + 1))
        slots = [*(i % max(1, last) for i in range(count - 1)), last]
        stage.redraw(last)
        stage.prepare(last)
        stage.prepare_anchor(last)
        self._synchronize()
        cell = self.awake(arm)
        fetches = [fetch_order(offset=self._draw_place(arm)) for _ in slots]
        start = time.perf_counter()
        for slot, fetch in zip(slots, fetches, strict=True):
            self._ready(cell, stage, slot)
            cell.call(run_order(slot), self.timeout)
            cell.call(fetch, self.timeout)
        seconds = time.perf_counter() - start
        self._rest(cell)
        if arm == "candidate":
            stage.compare(last)
        return seconds / count - (3 if stage.prepares_calls else 2) * self._turn_s

    def _question(self) -> None:
        """Look into what speaks against the times of the workload on stage, before it goes."""
        if self._witness is not None:
            self._flags += self._witness.findings()
            self._witness = None

    def excuse(self) -> None:
        """Spare the workload on stage the questions about its times."""
        self._witness = None

    def flags(self) -> list[str]:
        """Return what speaks against the candidate's times."""
        self._question()
        return self._flags

    def state(self) -> dict[str, float]:
        """Return the state of the device, as far as known, and what a call of nothing takes."""
        return self._state() | {"round_trip_s": self.round_trip_s}

    def deliver(self, stage: Stage) -> None:
        """Ask the candidate's cell for its result, unless that was part of the call."""
        del stage
        self._synchronize()
        if self._bursting:
            offset = self._draw_place("candidate")
            self.awake("candidate").call(fetch_order(self._last, offset), self.timeout)
        elif not self._fetches:
            candidate = self.awake("candidate")
            candidate.call(FETCH, self.timeout)
            self._rest(candidate)

    def _synchronize(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def close(self) -> None:
        """End both cells, and whatever they left behind."""
        self.candidate.close()
        self.anchor.close()
        watch.end_strays(())


def _states(problem: Problem, weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the weights that a call of the reference changes; none where `state_dict` leaves them out."""
    return {name: weights[name] for name in problem.state if name in weights}


class _Probe:
    """Reads the GPU's SM clock and state from the judge's own context."""

    def __init__(self) -> None:
        from forewarp.gpu_runner.worker.hold import Hold

        self._hold = Hold()
        self.state = Conditions().read

    def hertz(self) -> float:
        """Return the SM clock over some 20 µs."""
        turn = self._hold.take()
        self._hold.release()
        torch.cuda.synchronize()
        return self._hold.hertz(turn)


def l2_flush() -> torch.Tensor:
    """Return a buffer that, once written, has pushed everything else out of the L2 cache."""
    size = 2 * torch.cuda.get_device_properties(0).L2_cache_size
    return torch.empty(max(size, 64 << 20), dtype=torch.uint8, device="cuda")
