"""Observation of a module in a confined process: capture one forward as a CUDA graph, and read a program out of it.

Nothing that this process reports is trusted: the program that it hands over is timed and compared with the oracle.
"""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any, cast

import torch

from forewarp.core.values import Signature, Workload
from forewarp.gpu_runner.lifting import driver, graph, streams
from forewarp.gpu_runner.lifting.allocator import SMALL, WindowAllocator
from forewarp.gpu_runner.lifting.code import CodeLog
from forewarp.gpu_runner.lifting.graph import NO_CAPTURE, NotLiftable
from forewarp.gpu_runner.lifting.program import Program, Programs, TensorPlace, pack
from forewarp.gpu_runner.lifting.window import Window
from forewarp.gpu_runner.worker import extensions
from forewarp.gpu_runner.worker.channel import MOST_DESCRIPTORS
from forewarp.gpu_runner.worker.loading import load_problem
from forewarp.gpu_runner.worker.problem import OnNest, copies, import_text, outputs_of, tensors_of, with_tensors
from forewarp.gpu_runner.worker.requests import ObserveRequest
from forewarp.gpu_runner.worker.state import held_by
from forewarp.gpu_runner.worker.tracebacks import first_line

MOST_ALONE = 32
"""Small blocks of a call, and half as many weights, with memory of their own: two megabytes and a descriptor each."""
WARM_UPS = 3
"""Forwards before the captured one, in which a module prepares, tunes or compiles."""


class WrongResult(Exception):
    """The module returns something else than the task does; the text says what."""


class Observer:
    """State of an observing process before a module comes: a CUDA context, a window, and a log of loaded code."""

    def __init__(self, base: int) -> None:
        """Open the device; torch must not have used it before. Raises `CudaError`, `WindowTaken` and OSError."""
        driver.make_context()
        self.window = Window(base)
        self.allocator = WindowAllocator(self.window)
        self.allocator.install()
        torch.cuda.init()
        self.code = CodeLog()
        self.stream = torch.cuda.Stream()
        _wake()
        gc.freeze()  # Triton's codes are looked for among all objects: none of these million is one
        self._alive: list[Any] = []
        self.seconds: dict[str, float] = {}

    def observe(self, request: ObserveRequest) -> tuple[Programs, list[int]]:
        """Return programs with their descriptors; raises `NotLiftable`, `WrongResult`, or the module's error."""
        programs: list[Program] = []
        for workload, signature in zip(request.job.workloads, request.job.signatures, strict=True):
            with self._timed("load"):
                subject = _Subject(request, workload, signature, self.allocator)
            programs.append(self._program(subject))
            self._alive.append(subject)
        idle = self.allocator.idle()
        chunks = [c for c in self.window.chunks if c.offset not in idle]
        if len(chunks) >= MOST_DESCRIPTORS // 2 - 1:  # those of both arms go in one message
            raise NotLiftable(f"it takes {len(chunks)} separate stretches of memory")
        found = Programs(tuple(programs), tuple(chunks), tuple(map(len, self.code.used)))
        return found, [pack(self.code.used), *self.window.export(chunks)]

    def _program(self, subject: _Subject) -> Program:
        # On the default stream, where programs run: code that launches there does not wait for other streams.
        with self._timed("rehearse"):
            results = subject.rehearse(self.allocator)
            torch.cuda.synchronize()
        subject.check(results)
        del results
        with self._timed("capture"), streams.redirected(streams.foreign(), self.stream.cuda_stream):
            captured, outputs = self._capture(subject)
        scratch = tuple(self.allocator.taken())
        self.allocator.seal()
        try:
            with self._timed("read"):
                nodes, edges = graph.read(captured.raw_cuda_graph(), self.code.number, self.window.__contains__)
            # Torch writes the state of its random numbers before a replay; what it writes stays where it is read.
            captured.instantiate()
            torch.manual_seed(subject.random_seed)
            captured.replay()
            torch.cuda.synchronize()
        except (AttributeError, RuntimeError) as e:  # an older driver or torch, or a graph that cannot be replayed
            raise NotLiftable(f"its graph cannot be read: {first_line(e)[:300]}") from None
        self._alive.append(captured)
        return Program(
            subject.signature.workload,
            tuple(nodes),
            tuple(edges),
            tuple(self._place(t) for t in tensors_of(subject.values)),
            tuple(self._place(o) for o in outputs),
            tuple((k, TensorPlace.of(v)) for k, v in subject.state.items()),
            tuple((k, TensorPlace.of(v)) for k, v in subject.weights.items() if v.nbytes >= SMALL),
            scratch,
        )

    def _place(self, tensor: torch.Tensor) -> TensorPlace:
        """Return an input's or output's place; nothing behind it is written to where it is its block's largest."""
        place, storage = TensorPlace.of(tensor), tensor.untyped_storage()
        return replace(place, last=place.last and self.allocator.largest(storage.data_ptr()) <= storage.nbytes())

    @contextlib.contextmanager
    def _timed(self, phase: str) -> Generator[None]:
        start = time.perf_counter()
        yield
        self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - start

    def _capture(self, subject: _Subject) -> tuple[torch.cuda.CUDAGraph, list[torch.Tensor]]:
        try:
            captured = torch.cuda.CUDAGraph(keep_graph=True)
        except TypeError:
            raise NotLiftable(f"torch {torch.__version__} gives no access to captured graphs") from None
        before = self.allocator.mark(self.stream.cuda_stream)
        torch.manual_seed(subject.random_seed)
        try:
            with torch.cuda.graph(captured, stream=self.stream, capture_error_mode="thread_local"):
                results = outputs_of(subject.call(*subject.values))
                outputs = [subject.own(i, o, before) for i, o in enumerate(results)]
        except Exception as e:
            raise NotLiftable(f"{NO_CAPTURE}: {first_line(e)[:300]}") from None
        return captured, outputs


class _Subject:
    """A module with its values, the `state` that calls change, its `weights`, the reference's output `strides`."""

    def __init__(
        self, request: ObserveRequest, workload: Workload, signature: Signature, allocator: WindowAllocator
    ) -> None:
        problem = load_problem(request.job, workload, request.job.weight_seed)
        self.signature, self.random_seed = signature, request.job.random_seed
        self.strides = (request.strides or {}).get(workload.name)
        module, self.is_reference = request.module, request.module is None
        with allocator.each_alone(MOST_ALONE // 2 if self.is_reference else 0, SMALL):
            reference = problem.model("cuda")
        self.values = with_tensors(problem.inputs(self.random_seed, "cuda"), torch.Tensor.contiguous)
        with allocator.each_alone(MOST_ALONE):
            self.values = copies(self.values)
        call: Callable[..., Any] = reference
        if module is not None:
            extensions.install(module.artefact, module.manifest)
            with allocator.each_alone(MOST_ALONE // 2, SMALL):
                call = problem.bind(import_text(module.source), "cuda", reference.state_dict())
        torch.cuda.synchronize()
        self.call = _made_here(call) if self.is_reference else call
        called = call.module if isinstance(call, OnNest) else call
        held = held_by(called) if isinstance(called, torch.nn.Module) else {}
        self.state = {k: v for k, v in held.items() if k in signature.state}
        self.weights = {k: v for k, v in held.items() if k not in signature.state and v.is_contiguous()}

    def rehearse(self, allocator: WindowAllocator) -> list[torch.Tensor]:
        """Call the module a few times on the values; everything that it changes is put back."""
        tensors = tensors_of(self.values)
        kept = [(t, t.clone()) for t in (*(tensors[i] for i in self.signature.written), *self.state.values())]
        results: list[torch.Tensor] = []
        for turn in range(WARM_UPS):
            torch.manual_seed(self.random_seed)
            # What is free after the last call is what the captured one gets: blocks that the launcher can exchange.
            with allocator.each_alone(MOST_ALONE if turn + 1 == WARM_UPS else 0):
                results = outputs_of(self.call(*self.values))
            for tensor, copy in kept:
                tensor.copy_(copy)
        return results

    def own(self, index: int, output: torch.Tensor, before: set[int]) -> torch.Tensor:
        """Return an output in memory of its own; an input that the task writes to and returns stays where it is."""
        if str(index) in self.signature.aliases:
            return output.resolve_conj().resolve_neg()
        stride = None if self.strides is None else self.strides[index]
        return own_output(output, before, stride=stride, any_order=self.is_reference)

    def check(self, results: Sequence[torch.Tensor]) -> None:
        """Raise `WrongResult` unless shapes and dtypes are the task's."""
        shapes = [(tuple(r.shape), str(r.dtype).removeprefix("torch.")) for r in results]
        wanted = [(tuple(o.shape), o.dtype) for o in self.signature.outputs]
        if shapes != wanted:
            raise WrongResult(f"forward returned {shapes}, the task returns {wanted}")


def _made_here(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return the call with the GPU as torch's default device: what is brought over from the host cannot be captured."""

    def made_here(*values: Any) -> Any:
        with torch.device("cuda"):
            return call(*values)

    return made_here


def own_output(
    output: torch.Tensor, before: set[int], *, stride: Sequence[int] | None = None, any_order: bool = False
) -> torch.Tensor:
    """Return an output in memory of its own, dense, so that a view or a result that was kept is paid for.

    `before` are the blocks that were there before the call. Dimensions may be in the order of the reference's `stride`,
    the reference's own in `any_order`.
    """
    output = output.resolve_conj().resolve_neg()
    if output.numel() and output.untyped_storage().data_ptr() in before:
        return output.clone(memory_format=torch.contiguous_format)
    order = sorted(range(output.dim()), key=lambda d: -output.stride(d))
    dense = output.permute(order).is_contiguous()
    alike = stride is not None and output.stride() == tuple(stride)
    return output if dense and (any_order or alike) else output.contiguous()


def _wake() -> None:
    """Launch a first kernel of torch, of Triton and of cuBLAS, so that their start-up time is spent beforehand."""
    x = torch.zeros(16, 16, device="cuda")
    torch.mm(x, x)
    with contextlib.suppress(Exception):  # without Triton, modules do without it
        from forewarp.gpu_runner.lifting import triton_launch

        triton_launch.install()
        from forewarp.gpu_runner.lifting.warm_kernel import add_one

        cast("Any", add_one)[(1,)](x, x.numel(), block=256)
    torch.cuda.synchronize()
