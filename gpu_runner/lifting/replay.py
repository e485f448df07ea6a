"""Replay in the launcher: device programs observed elsewhere run at the addresses that they were observed at."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch

from forewarp.gpu_runner.compilers import cubin
from forewarp.gpu_runner.lifting import driver, graph
from forewarp.gpu_runner.lifting.driver import Handle
from forewarp.gpu_runner.lifting.graph import Built, GraphNode, KernelLaunch
from forewarp.gpu_runner.lifting.program import GAP, Program, Programs, TensorPlace, bytes_at, unpack
from forewarp.gpu_runner.lifting.window import Window
from forewarp.gpu_runner.worker.channel import close_all
from forewarp.gpu_runner.worker.cubin import Module


class Refused(RuntimeError):
    """Programs that this process cannot run; the text says why."""


class Codes:
    """Loaded codes, each once: of two copies, one would be slower when fetched anew. Debuggers' parts do not count."""

    def __init__(self) -> None:
        self._loaded: dict[bytes, tuple[Module, int]] = {}

    def take(self, image: bytes) -> tuple[bytes, Module]:
        """Return an image's key and its module, loaded unless it is there already; raises `CudaError`."""
        key = cubin.digest(image)
        module, users = self._loaded.get(key) or (Module(image), 0)
        self._loaded[key] = module, users + 1
        return key, module

    def leave(self, key: bytes) -> None:
        """Unload the code with this key once nobody uses it any more."""
        module, users = self._loaded.pop(key)
        if users > 1:
            self._loaded[key] = module, users - 1
        else:
            module.unload()


class Lifted:
    """Programs of one module in one window; the window is empty again after `close`."""

    def __init__(self, window: Window, codes: Codes, programs: Programs, descriptors: Sequence[int]) -> None:
        """Map the memory and load the code; raises `Refused`. The descriptors are closed in any case."""
        self.programs = {p.workload: p for p in programs.programs}
        self._window, self._codes = window, codes
        self._keys: list[bytes] = []
        self._modules: list[Module] = []
        images, *memory = descriptors
        try:
            try:
                found = unpack(images, programs.images)
            except ValueError:
                close_all(memory)
                raise
            window.adopt(list(programs.chunks), memory)
            for image in found:
                key, module = codes.take(image)
                self._keys.append(key)
                self._modules.append(module)
            for program in programs.programs:
                self._check(program)
        except (ValueError, driver.CudaError) as e:
            self.close()
            raise Refused(str(e)) from e

    def _check(self, program: Program) -> None:
        """Raise ValueError where a tensor lies outside the memory that came along."""
        begin, end = self._window.base, self._window.base + self._window.mapped
        if not all(graph.within(node, begin, end) for node in program.nodes):
            raise ValueError("the program fills or copies memory outside its own")
        for place in (*program.inputs, *program.outputs, *(p for _, p in program.state)):
            if place.size and not self._window.base <= place.address <= end - place.size:
                raise ValueError("a tensor of the program lies outside its memory")

    def share(self, other: Lifted) -> None:
        """Put both modules' inputs, outputs and weights into the same memory, as far as they are alike.

        Where data lie makes a difference of up to a percent, which must not tell the two apart.
        """
        for workload, mine in self.programs.items():
            theirs = other.programs[workload]
            pairs = [*zip(mine.inputs, theirs.inputs, strict=False), *zip(mine.outputs, theirs.outputs, strict=False)]
            weights = dict(theirs.weights)
            # A module may have made something else of a weight in its place.
            pairs += [(p, weights[k]) for k, p in mine.weights if k in weights and _equal(p, weights[k])]
            for place, its in pairs:
                if (place.shape, place.stride, place.dtype) != (its.shape, its.stride, its.dtype):
                    continue
                number, its_number = self._window.chunk_at(place.address), other._window.chunk_at(its.address)
                if number is not None and its_number is not None:
                    self._window.share(number, other._window, its_number)

    def share_scratch(self, other: Lifted) -> None:
        """Put this module's scratch into that of the other one, which is trusted: where it lies matters, too."""
        for workload, mine in self.programs.items():
            theirs = other.programs[workload]
            free = [n for n in map(other._window.chunk_at, other._own_scratch(theirs)) if n is not None]
            for number in (n for n in map(self._window.chunk_at, self._own_scratch(mine)) if n is not None):
                size = self._window.chunks[number].size
                its = next((n for n in free if other._window.chunks[n].size == size), None)
                if its is not None:
                    free.remove(its)
                    self._window.share(number, other._window, its)

    def _own_scratch(self, program: Program) -> list[int]:
        """Return the addresses of scratch but for what holds inputs and outputs."""
        places = [p.address for p in (*program.inputs, *program.outputs)]
        chunks = {self._window.chunk_of(address) for address in places}
        return [a for a in program.scratch if self._window.chunk_of(a) not in chunks]

    def runner(self, workload: str) -> LiftedRunner:
        return LiftedRunner(self.programs[workload], self._modules)

    def close(self) -> None:
        """Free code and memory; nothing of it may be running."""
        for key in self._keys:
            self._codes.leave(key)
        self._keys, self._modules = [], []
        self._window.clear()


class LiftedRunner:
    """One program, ready to run on the current torch stream."""

    def __init__(self, program: Program, modules: Sequence[Module]) -> None:
        self.program = program
        self.inputs = [place.tensor() for place in program.inputs]
        self.outputs = [place.tensor() for place in program.outputs]
        self.state = {key: place.tensor() for key, place in program.state}
        self._functions = [_function(node.launch, modules) for node in program.nodes]
        self._built = Built()
        self.add_to(self._built)

    def ready(self) -> list[GraphNode]:
        return []

    def add_to(self, graph: Built, slot: int = 0) -> None:
        graph.add(self.program.nodes, self.program.edges, self._functions)

    def run(self, slot: int = 0) -> None:
        self._built.launch(torch.cuda.current_stream().cuda_stream)

    def prepare(self) -> None:
        """Do nothing: a program prepares its scratch itself."""

    def unload(self) -> None:
        self._built.close()


def gaps(program: Program) -> list[tuple[str, torch.Tensor]]:
    """Return the bytes behind inputs and outputs that belong to nobody, by the name of the buffer before them."""

    def behind(place: TensorPlace) -> torch.Tensor:
        return bytes_at(place.address + place.size, GAP)

    named = [(f"input {i}", p) for i, p in enumerate(program.inputs)]
    named += [(f"output {i}", p) for i, p in enumerate(program.outputs)]
    return [(name, behind(place)) for name, place in named if place.size and place.last]


def _equal(one: TensorPlace, other: TensorPlace) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one.tensor(), other.tensor())


def _function(launch: KernelLaunch | None, modules: Sequence[Module]) -> Handle:
    if launch is None:
        return Handle()
    function = modules[launch.image].function(launch.name)
    for number, value in launch.function_attributes:
        before = ctypes.c_int()
        # Other launches may share the function: what one of them needs is not taken away.
        if driver.status("cuFuncGetAttribute", ctypes.byref(before), number, function) or before.value < value:
            driver.status("cuFuncSetAttribute", function, number, value)
    return function
