"""Load cubins and launch them through the CUDA driver: the trusted launcher of device-only candidates."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from forewarp.gpu_runner.worker.runners import Buffers, find_plan

_MAX_DYNAMIC_SHARED = 8
_DEFAULT_SHARED = 48 << 10


class CudaError(RuntimeError):
    """The driver refused a call, or a kernel failed."""


@lru_cache(maxsize=1)
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _do(call: str, *arguments: Any) -> None:
    code = getattr(_driver(), call)(*arguments)
    if code != 0:
        text = ctypes.c_char_p()
        _driver().cuGetErrorString(code, ctypes.byref(text))
        raise CudaError(f"{call}: {text.value.decode() if text.value else code}")


class CubinRunner:
    """Launches one workload's kernels on the current torch stream."""

    def __init__(self, folder: Path, manifest: Mapping[str, Any], workload: str, buffers: Buffers) -> None:
        plan = find_plan(manifest, workload)
        kernels = manifest["variants"][manifest["workloads"][workload]["variant"]]["kernels"]
        self.buffers = buffers
        self.modules: dict[str, ctypes.c_void_p] = {}
        self.launches: list[list[tuple[Any, ...]]] = [[] for _ in buffers.by_slot]
        self.kept: list[Any] = []
        for index, launch in enumerate(plan.launches):
            kernel = kernels[str(index)]
            function = self._function(folder / kernel["file"], kernel["symbol"], kernel["shared"])
            # Triton decides on threads and shared memory while it compiles; a CUDA plan says both itself.
            block = (kernel["threads"], 1, 1) if plan.language == "triton" else launch.block
            for slot in range(len(buffers.by_slot)):
                values = [buffers.c_argument(a, slot) for a in launch.args]
                values += [ctypes.c_void_p(0)] * kernel["extra_params"]
                pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
                self.kept.append(values)
                self.launches[slot].append((function, *launch.grid, *block, kernel["shared"], pointers))

    def _function(self, path: Path, symbol: str, shared: int) -> ctypes.c_void_p:
        if str(path) not in self.modules:
            module = ctypes.c_void_p()
            _do("cuModuleLoadData", ctypes.byref(module), path.read_bytes())
            self.modules[str(path)] = module
        function = ctypes.c_void_p()
        _do("cuModuleGetFunction", ctypes.byref(function), self.modules[str(path)], symbol.encode())
        if shared > _DEFAULT_SHARED:
            _do("cuFuncSetAttribute", function, _MAX_DYNAMIC_SHARED, shared)
        return function

    def run(self, slot: int) -> None:
        """Enqueue the launches; the caller synchronises."""
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        for *launch, pointers in self.launches[slot]:
            _do("cuLaunchKernel", *launch, stream, pointers, None)

    def prepare(self) -> None:
        """Zero the scratch outside the timed window."""
        self.buffers.clear()

    def deliver(self) -> None:
        """Nothing to do: kernels write the judge's buffers."""
