"""A Triton driver without a device: it compiles for the target, and records what it is asked to launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from forewarp.core.values import Target
from forewarp.gpu_runner.compilers.cubin import codes
from forewarp.inspection.tracing.recorder import Recorder
from forewarp.inspection.tracing.values import Argument, TracedLaunch

WARP = 32
_MOST_THREADS = 1024


def capability(target: Target) -> tuple[int, int]:
    """Return (9, 0) for "sm_90"."""
    number = int(target.arch.removeprefix("sm_"))
    return number // 10, number % 10


class Utils:
    """Stand-in for the functions of the CUDA driver's library that Triton calls."""

    def __init__(self, target: Target, recorder: Recorder) -> None:
        self._target, self._recorder = target, recorder

    def get_device_properties(self, device: int) -> dict[str, int]:
        """Return the target's limits under Triton's names."""
        del device
        return {
            "max_shared_mem": self._target.shared_bytes or 49152,
            "max_num_regs": 65536,
            "multiprocessor_count": self._target.processors,
            "warpSize": WARP,
            "sm_clock_rate": 1_500_000,
            "mem_clock_rate": 2_000_000,
            "mem_bus_width": 4096,
        }

    def load_binary(self, name: str, image: bytes, shared: int, device: int) -> tuple[int, str, int, int, int]:
        """Keep the cubin; its file name takes the place of the function's handle."""
        del shared, device
        found = codes(image, self._target.arch).get(name)
        registers, spilled = (found.registers, found.stack_bytes) if found else (0, 0)
        return 1, self._recorder.keep(image), registers, spilled, _MOST_THREADS

    def unload_module(self, module: int) -> None:
        """Do nothing."""

    def cuOccupancyMaxActiveClusters(self, *args: Any) -> int:
        """Say that there is room for a cluster on every second multiprocessor."""
        del args
        return max(1, self._target.processors // 2)

    def set_printf_fifo_size(self, size: int) -> None:
        """Do nothing."""

    def fill_tma_descriptor(self, *args: Any) -> None:
        """Do nothing: no kernel reads the descriptor."""

    fill_1d_tma_descriptor = fill_2d_tma_descriptor = fill_tma_descriptor_tiled = fill_tma_descriptor


class Driver:
    """Takes the place of Triton's active driver, for `triton.runtime.driver.set_active`."""

    def __init__(self, target: Target, recorder: Recorder) -> None:
        from triton.backends.compiler import GPUTarget

        self._target: Any = GPUTarget("cuda", int(target.arch.removeprefix("sm_")), WARP)
        self._capability = capability(target)
        self.utils = Utils(target, recorder)
        self.launcher_cls: Callable[[Any, Any], Launcher] = lambda src, metadata: Launcher(src, metadata, recorder)

    @classmethod
    def is_active(cls) -> bool:
        """Return true."""
        return True

    def get_current_target(self) -> Any:
        """Return the target as Triton's GPUTarget."""
        return self._target

    def get_active_torch_device(self) -> torch.device:
        """Return the first CUDA device."""
        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        """Return torch.cuda, as it is at this time."""
        return torch.cuda

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        """Return the target's compute capability."""
        del device
        return self._capability

    def get_current_device(self) -> int:
        """Return 0."""
        return 0

    def set_current_device(self, device: int) -> None:
        """Do nothing."""

    def get_current_stream(self, device: int | None = None) -> int:
        """Return 0, the default stream."""
        del device
        return 0

    def get_benchmarker(self) -> Callable[..., Any]:
        """Return a benchmarker that calls a function once, and gives it the time that all others get."""
        return call_once

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        """Return a small buffer: there is no cache to clear."""
        return torch.empty(1, dtype=torch.int32)

    def clear_cache(self, cache: torch.Tensor) -> None:
        """Do nothing."""

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Return the C type of one of Triton's, as far as a launcher would need it."""
        return "CUdeviceptr" if ty.startswith("*") else ty

    def assemble_tensormap_to_arg(self, tensormaps_info: Any, args: Any) -> Any:
        """Return the arguments as they are."""
        del tensormaps_info
        return args


def call_once(function: Callable[[], Any], *args: Any, quantiles: Sequence[float] | None = None, **kwargs: Any) -> Any:
    """Call a function once in place of timing it; return a millisecond, or one for each quantile."""
    del args, kwargs
    function()
    return 1.0 if quantiles is None else [1.0] * len(quantiles)


class Launcher:
    """Records launches of one compiled kernel."""

    def __init__(self, src: Any, metadata: Any, recorder: Recorder) -> None:
        self._recorder, self._metadata = recorder, metadata
        self._kernel: str = getattr(getattr(src, "fn", None), "__name__", metadata.name)
        self._arguments, self._constants = describe_arguments(src)

    def __call__(self, x: int, y: int, z: int, stream: int, function: str, *args: Any) -> None:
        """Record a launch; `function` is the cubin's file name."""
        del stream
        metadata = self._metadata
        clusters = int(getattr(metadata, "num_ctas", 1))
        self._recorder.add(
            TracedLaunch(
                kernel=self._kernel,
                symbol=metadata.name,
                cubin=function,
                grid=(int(x) * clusters, int(y), int(z)),
                block=(WARP * metadata.num_warps, 1, 1),
                shared=int(metadata.shared),
                arguments=self._arguments,
                constants=self._constants,
                options={
                    "num_warps": metadata.num_warps,
                    "num_stages": int(getattr(metadata, "num_stages", 0)),
                    "num_ctas": clusters,
                },
                bytes=bytes_of(args),
            )
        )


def bytes_of(values: Sequence[Any]) -> int:
    """Return the bytes of the tensors among the values; of those that share their memory, the largest counts."""
    found: dict[int, int] = {}
    for value in values:
        if isinstance(value, torch.Tensor):
            storage: Any = value.untyped_storage()
            size = min(value.numel() * value.element_size(), storage.nbytes())
            found[storage._cdata] = max(size, found.get(storage._cdata, 0))
    return sum(found.values())


def describe_arguments(src: Any) -> tuple[tuple[Argument, ...], dict[str, Any]]:
    """Return the arguments that a kernel is compiled for, and its constants, from Triton's ASTSource."""
    signature: Mapping[str, Any] = getattr(src, "signature", {})
    constants: Mapping[tuple[int, ...], Any] = getattr(src, "constants", {})
    attributes: Mapping[tuple[int, ...], Any] = getattr(src, "attrs", {})
    arguments: list[Argument] = []
    values: dict[str, Any] = {}
    for place, (name, kind) in enumerate(signature.items()):
        if kind == "constexpr":
            values[str(name)] = _plain(constants.get((place,)))
        else:
            known: Sequence[Sequence[Any]] = attributes.get((place,)) or ()
            arguments.append(Argument(str(name), str(kind), any(a[0] == "tt.divisibility" for a in known)))
    return tuple(arguments), values


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if value == value and abs(value) != float("inf") else str(value)
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return str(getattr(value, "__name__", value))
