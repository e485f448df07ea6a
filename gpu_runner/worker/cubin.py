"""Load cubins and launch them through the CUDA driver: the trusted launcher of device-only candidates."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from forewarp.gpu_runner.formats.plan import ResolvedLaunch
from forewarp.gpu_runner.lifting.chain import fill
from forewarp.gpu_runner.lifting.driver import CudaError, EdgeData, StreamLaunch, call
from forewarp.gpu_runner.lifting.graph import PLAIN, Built, Edge, GraphNode, KernelLaunch
from forewarp.gpu_runner.worker.runners import Buffers, find_plan

_MAX_DYNAMIC_SHARED = 8
_DEFAULT_SHARED = 48 << 10
_COOPERATIVE, _DEPENDENT = 2, 6
"""Launch attributes: cooperative, and programmatic stream serialisation, which graphs have as edges instead."""
_ON = (1).to_bytes(64, "little").hex()
_PROGRAMMATIC = bytes(EdgeData(from_port=1, kind=1)).hex()


def reset_persisting_l2() -> None:
    """Turn every cache line that was marked as persisting back to normal, so that a flush can evict it."""
    call("cuCtxResetPersistingL2Cache")


class Module:
    """A loaded cubin."""

    def __init__(self, image: bytes) -> None:
        self._handle = ctypes.c_void_p()
        call("cuModuleLoadData", ctypes.byref(self._handle), image)

    def function(self, symbol: str, shared: int = 0) -> ctypes.c_void_p:
        """Return a kernel by name, allowed to use `shared` bytes of dynamic shared memory."""
        function = ctypes.c_void_p()
        call("cuModuleGetFunction", ctypes.byref(function), self._handle, symbol.encode())
        if shared > _DEFAULT_SHARED:
            call("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, shared)
        return function

    def unload(self) -> None:
        """Free the code and its global variables; a context that a kernel broke has nothing left to free."""
        with contextlib.suppress(CudaError):
            call("cuModuleUnload", self._handle)


def pack(values: Sequence[Any]) -> Any:
    """Return the array of pointers that the driver takes for kernel arguments; the values must outlive it."""
    return (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))


def launch(function: Any, grid: Sequence[int], block: Sequence[int], values: Sequence[Any], shared: int = 0) -> None:
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    call("cuLaunchKernel", function, *grid, *block, shared, stream, pack(values), None)


class CubinRunner:
    """The kernels of one workload, launched on the current torch stream."""

    def __init__(self, folder: Path, manifest: Mapping[str, Any], workload: str, buffers: Buffers) -> None:
        plan = find_plan(manifest, workload)
        kernels = manifest["variants"][manifest["workloads"][workload]["variant"]]["kernels"]
        self.buffers = buffers
        self._modules: dict[str, Module] = {}
        self._launches: list[list[StreamLaunch]] = [[] for _ in buffers.by_slot]
        self._nodes: list[list[tuple[Any, GraphNode]]] = [[] for _ in buffers.by_slot]
        self._edges = [
            Edge(i, i + 1, _PROGRAMMATIC if step.dependent else PLAIN) for i, step in enumerate(plan.launches[1:])
        ]
        self._kept: list[Any] = []
        for index, step in enumerate(plan.launches):
            kernel = kernels[str(index)]
            function = self._module(folder / kernel["file"]).function(kernel["symbol"], kernel["shared"])
            for slot in range(len(buffers.by_slot)):
                values = [buffers.c_argument(a, slot) for a in step.args]
                values += [ctypes.c_void_p(0)] * kernel["extra_params"]
                self._kept.append(values)
                extents = (*step.grid, *kernel["block"], kernel["shared"])
                attributes = _attributes(step, first=index == 0)
                self._launches[slot].append(StreamLaunch(function, extents, pack(values), attributes))
                self._nodes[slot].append((function, _node(step, kernel, values)))

    def _module(self, path: Path) -> Module:
        if str(path) not in self._modules:
            self._modules[str(path)] = Module(path.read_bytes())
        return self._modules[str(path)]

    def run(self, slot: int) -> None:
        """Enqueue the launches; the caller synchronises."""
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        for launch in self._launches[slot]:
            launch.enqueue(stream)

    def ready(self) -> list[GraphNode]:
        return [fill(scratch, 0) for scratch in self.buffers.scratch.values() if scratch.numel()]

    def add_to(self, graph: Built, slot: int = 0) -> None:
        functions, nodes = zip(*self._nodes[slot], strict=True)
        graph.add(nodes, self._edges, functions)

    def prepare(self) -> None:
        self.buffers.clear()

    def unload(self) -> None:
        for module in self._modules.values():
            module.unload()


def _attributes(step: ResolvedLaunch, *, first: bool) -> tuple[tuple[int, str], ...]:
    """Return the attributes of a launch on a stream; the first one follows nothing of its own."""
    numbers = (_COOPERATIVE,) * step.cooperative + (_DEPENDENT,) * (step.dependent and not first)
    return tuple((number, _ON) for number in numbers)


def _node(step: ResolvedLaunch, kernel: Mapping[str, Any], values: Sequence[Any]) -> GraphNode:
    grid, block = (_triple(step.grid), _triple(kernel["block"]))
    raw = tuple(bytes(v).hex() for v in values)
    attributes = ((_COOPERATIVE, _ON),) * step.cooperative
    return GraphNode("launch", KernelLaunch(step.kernel, 0, grid, block, kernel["shared"], raw, attributes=attributes))


def _triple(numbers: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = numbers
    return x, y, z


class WaitingCubinRunner(CubinRunner):
    """The same in a cell, where a call lasts until the device has done it."""

    wait = staticmethod(torch.cuda.synchronize)

    def run(self, slot: int) -> None:
        self.prepare()
        super().run(slot)
        self.wait()
