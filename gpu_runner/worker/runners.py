"""Ways to call a kernel on given buffers: a torch module, a native function, a cubin."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch

from forewarp.core import serde
from forewarp.gpu_runner.formats.plan import Argument, ResolvedPlan
from forewarp.gpu_runner.lifting import driver, streams
from forewarp.gpu_runner.worker.problem import OnNest, outputs_of, tensors_of
from forewarp.gpu_runner.worker.state import State

_CTYPES: dict[str, Any] = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "f32": ctypes.c_float, "f64": ctypes.c_double}
FLUSHED = 1
"""Byte that a flush of the L2 cache leaves behind, for the judge to see."""
FLUSH_TURNS = 4
"""How often a burst flushes between two calls: the device is to be busy while the host prepares the next one."""
FOLLOWS = 0.1
"""How far a replay's results may lie from a call's, in parts of what other inputs change about them."""
LAST = 3
"""Number of no slot: that of the last call."""


class Runner(Protocol):
    """Something that computes a task's outputs from the inputs in a slot."""

    @property
    def wait(self) -> Callable[[], None]:
        """A function that waits for all work of the device."""
        ...

    def run(self, slot: int) -> None:
        """Compute; this is what is timed."""
        ...


class LeastWork:
    """A graph with the least work there is on a GPU: what any graph takes beside its work."""

    def __init__(self) -> None:
        self._value, self._graph = torch.zeros(1, device="cuda"), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._value.add_(1.0)
        self.replay = self._graph.replay


def make_wait(device: str) -> Callable[[], None]:
    """Return torch's own function to wait for all work of the device; call it before a candidate is loaded."""
    return torch._C._cuda_synchronize if device == "cuda" else lambda: None  # pyright: ignore[reportPrivateUsage]


class ModuleRunner:
    """A Python callable on a slot's values: its result is copied out after the clock has stopped.

    `outputs` are the judge's buffers at each offset that they may have; `offset` says where the next result goes.
    `flushes` are buffers, one per slot, that `burst` writes before each call, larger than the L2 cache. `states` are
    the judge's buffers for the state that the reference `changes`: a module's tensors of these names are put back
    before each call and copied out after it. Inputs but those at `written` may be overwritten once a call has ended.
    """

    def __init__(
        self,
        model: Callable[..., Any],
        slots: Sequence[Sequence[Any]],
        outputs: Sequence[Sequence[torch.Tensor]],
        wait: Callable[[], None],
        flushes: Sequence[torch.Tensor] = (),
        states: Mapping[str, torch.Tensor] | None = None,
        changes: Sequence[str] = (),
        written: Sequence[int] = (),
    ) -> None:
        self.model, self.slots, self.outputs, self.wait, self.flushes = model, slots, outputs, wait, flushes
        self._results: dict[int, list[torch.Tensor]] = {}
        self.offset = self._last = 0
        self._graphs: list[tuple[torch.cuda.CUDAGraph, list[torch.Tensor]]] = []
        self._least: LeastWork | None = None
        module = model.module if isinstance(model, OnNest) else model
        self._state = State(module, changes) if changes and isinstance(module, torch.nn.Module) else None
        self._states = states or {}
        kept = [t for values in slots for i, t in enumerate(tensors_of(values)) if i not in written]
        self._spoilt = [(t.data_ptr(), t.data_ptr() + t.nbytes) for t in kept]

    def ready(self, seed: int | None) -> None:
        """Make the next call like all others: put the state back, and seed torch; before the clock starts."""
        if self._state is not None:
            self._state.put_back()
        if seed is not None:
            torch.manual_seed(seed)
        self.wait()

    def run(self, slot: int) -> None:
        """Call forward, make views in its result and parts of inputs tensors of their own, and wait for it."""
        self._last = slot
        self._results[slot] = [r.clone() if self._lies_in_inputs(r) else r for r in self._call(slot)]
        self.wait()

    def _lies_in_inputs(self, result: torch.Tensor) -> bool:
        start = result.data_ptr()
        return any(start < end and begin < start + result.nbytes for begin, end in self._spoilt)

    def _call(self, slot: int) -> list[torch.Tensor]:
        # Here and not when the result is fetched: what a view puts off is part of the call.
        results = outputs_of(self.model(*self.slots[slot]))
        return [r.contiguous().resolve_conj().resolve_neg() for r in results]

    def _taken_by_inputs(self) -> set[int]:
        return {t.untyped_storage().data_ptr() for values in self.slots for t in tensors_of(values)}

    def capture(self) -> None:
        """Capture a call on each slot as a CUDA graph, for `burst` to replay; without graphs, `burst` calls forward.

        Not captured is a module that waits for the device, or whose replays do not follow its inputs: work that other
        threads enqueue is in no graph.
        """
        stream, before = torch.cuda.Stream(), torch.cuda.current_stream()
        taken = self._taken_by_inputs()
        graphs: list[tuple[torch.cuda.CUDAGraph, list[torch.Tensor]]] = []
        try:
            for slot in range(len(self.slots)):
                usual = [r.clone() for r in self._call(slot)]
                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph()
                with (
                    streams.redirected(streams.foreign(), stream.cuda_stream, waiting=True),
                    torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"),
                ):
                    result = _own(self._call(slot), taken)
                graphs.append((graph, result))
                if slot == 0 and not self._follows_inputs(graph, result, usual):
                    graphs.clear()
                    break
        except Exception:
            torch.cuda.set_stream(before)  # torch leaves it at the one that was captured
            graphs.clear()
            torch.cuda.synchronize()
        self._graphs = graphs

    def _follows_inputs(
        self, graph: torch.cuda.CUDAGraph, replayed: Sequence[torch.Tensor], usual: Sequence[torch.Tensor]
    ) -> bool:
        """Return whether a replay on other inputs in the first slot gives what a call gives, and not `usual`."""
        inputs = [t for t in tensors_of(self.slots[0]) if t.is_floating_point()]
        kept = [t.clone() for t in inputs]
        others = [(t.flip(-1) if t.dim() else t) * 0.75 for t in inputs]

        def on_others(act: Callable[[], Sequence[torch.Tensor]]) -> list[torch.Tensor]:
            for tensor, other in zip(inputs, others, strict=True):
                tensor.copy_(other)
            self.ready(0)
            return [r.clone() for r in act()]

        def replay() -> Sequence[torch.Tensor]:
            graph.replay()
            return replayed

        try:
            return follows(on_others(lambda: self._call(0)), on_others(replay), usual)
        finally:
            for tensor, values in zip(inputs, kept, strict=True):
                tensor.copy_(values)

    def burst(self, *, calls: bool) -> None:
        """Run each slot, or the least work instead of `calls`, with flushes of the L2 cache around; wait for all of it.

        What the host does between two calls falls into the flush, which takes longer.
        """
        results, taken = self._results, self._taken_by_inputs()
        self._flush(0)
        for slot in range(len(self.flushes)):
            if self._graphs and calls:
                graph, results[slot] = self._graphs[slot]
                graph.replay()
            elif calls:
                results[slot] = _own(self._call(slot), taken)
            else:
                self._least = self._least or LeastWork()
                self._least.replay()
            self._flush((slot + 1) % len(self.flushes))
        self.wait()

    def _flush(self, number: int) -> None:
        for _ in range(FLUSH_TURNS):
            self.flushes[number].fill_(FLUSHED)

    def deliver(self, slot: int) -> None:
        """Copy a result out, even one in the judge's memory; raises ValueError if it is not the task's."""
        results, outputs = self._results[self._last if slot == LAST else slot], self.outputs[self.offset]
        shapes = [(tuple(r.shape), r.dtype) for r in results]
        wanted = [(tuple(o.shape), o.dtype) for o in outputs]
        if shapes != wanted:
            raise ValueError(f"forward returned {shapes}, the task returns {wanted}")
        judged = {o.untyped_storage().data_ptr() for o in outputs}
        for result, output in zip(results, outputs, strict=True):
            output.copy_(result.clone() if result.untyped_storage().data_ptr() in judged else result)
        left = self._state.now() if self._state is not None and self._states else {}
        for name, buffer in self._states.items():
            own = left.get(name)
            if own is not None and (own.shape, own.dtype) == (buffer.shape, buffer.dtype):
                buffer.copy_(own)
        self.wait()
        self._results.clear()


def follows(called: Sequence[torch.Tensor], replayed: Sequence[torch.Tensor], usual: Sequence[torch.Tensor]) -> bool:
    """Return whether results changed with the inputs, and replays to what calls gave, in sum if not in each element."""
    apart = [_distance(a, b) for a, b in zip(called, usual, strict=True)]
    off = [_distance(a, b) for a, b in zip(called, replayed, strict=True)]
    return any(apart) and all(o <= FOLLOWS * a for o, a in zip(off, apart, strict=True))


def _distance(one: torch.Tensor, other: torch.Tensor) -> float:
    difference = one.to(torch.float32) - other.to(torch.float32)
    return float(torch.linalg.vector_norm(difference.nan_to_num(1.0, 1.0, 1.0)))


def _own(results: Sequence[torch.Tensor], taken: set[int]) -> list[torch.Tensor]:
    """Make tensors of their own of results in memory that inputs or other calls' results take; theirs is taken then."""
    kept = [r.clone() if r.untyped_storage().data_ptr() in taken else r for r in results]
    taken.update(r.untyped_storage().data_ptr() for r in kept)
    return kept


class Buffers:
    """A plan's buffers by name for each slot: inputs, parameters, outputs and scratch."""

    def __init__(
        self,
        plan: ResolvedPlan,
        slots: Sequence[Sequence[Any]],
        params: Mapping[str, torch.Tensor],
        outputs: Sequence[torch.Tensor],
    ) -> None:
        device = next(t.device for t in (*outputs, *tensors_of(slots[0])))
        self.scratch = {
            s.name: torch.zeros(s.shape, dtype=getattr(torch, s.dtype), device=device) for s in plan.scratch
        }
        self.maps = plan.maps
        shared = {local: params[key] for local, key in plan.params.items()}
        shared |= dict(zip(plan.outputs, outputs, strict=True)) | self.scratch
        self.by_slot = [shared | dict(zip(plan.inputs, values, strict=True)) for values in slots]
        for buffers in self.by_slot:
            buffers |= {output: buffers[source] for output, source in plan.aliases.items()}

    def clear(self) -> None:
        """Zero the scratch, as every call may expect."""
        for buffer in self.scratch.values():
            buffer.zero_()

    def c_argument(self, argument: Argument, slot: int) -> Any:
        if argument.kind == "ptr":
            return ctypes.c_void_p(self.by_slot[slot][argument.name].data_ptr())
        if argument.kind == "map":
            found = self.maps[argument.name]
            return driver.encode(found, self.by_slot[slot][found.of].data_ptr())
        return _CTYPES[argument.kind](argument.value)


class NativeRunner:
    """Functions of a shared library: the CPU device's device-only candidates, and host code that launches kernels."""

    def __init__(
        self, folder: Path, manifest: Mapping[str, Any], workload: str, buffers: Buffers, wait: Callable[[], None]
    ) -> None:
        variant = manifest["variants"][manifest["workloads"][workload]["variant"]]
        library, plan = ctypes.CDLL(str(folder / variant["files"][0])), find_plan(manifest, workload)
        self.buffers, self.wait = buffers, wait
        for launch in plan.launches:
            getattr(library, launch.kernel).restype = None
        self.calls = [
            [(getattr(library, e.kernel), [buffers.c_argument(a, slot) for a in e.args]) for e in plan.launches]
            for slot in range(len(buffers.by_slot))
        ]

    def run(self, slot: int) -> None:
        """Call the functions in order, and wait for what they launched: a call lasts until its output is there."""
        if self.buffers.scratch:
            self.buffers.clear()
        for function, arguments in self.calls[slot]:
            function(*arguments)
        self.wait()


def find_plan(manifest: Mapping[str, Any], workload: str) -> ResolvedPlan:
    return serde.from_data(ResolvedPlan, manifest["workloads"][workload]["plan"])
