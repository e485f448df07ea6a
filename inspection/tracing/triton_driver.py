"""Triton without a device: kernels are compiled for the target, and recorded where they would be launched.

Every configuration of an autotuned kernel is compiled, some at a time, and the first that fits is taken. A kernel that
cannot be launched is noted, and on request passed over, so that others are still reached.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import torch

from forewarp.core.values import Target
from forewarp.gpu_runner.compilers.cubin import codes
from forewarp.gpu_runner.worker.nest import storage_of
from forewarp.inspection.tracing.masquerade import capability, constant, replaced
from forewarp.inspection.tracing.recorder import Recorder, words
from forewarp.inspection.tracing.values import TracedLaunch

MOST_CONFIGURATIONS = 16
"""Configurations of one kernel that are compiled for one set of shapes; the rest are counted and left out."""
WARP = 32
_MOST_THREADS = 1024


class _Utils:
    """Stand-in for the functions of the CUDA driver's library that Triton calls."""

    unload_module = set_printf_fifo_size = constant(None)
    # No kernel reads a descriptor.
    fill_tma_descriptor = fill_1d_tma_descriptor = fill_2d_tma_descriptor = fill_tma_descriptor_tiled = constant(None)

    def __init__(self, target: Target, recorder: Recorder) -> None:
        self._target, self._recorder = target, recorder
        self.get_device_properties = constant(
            {
                "max_shared_mem": target.shared_bytes or 49152,
                "max_num_regs": 65536,
                "multiprocessor_count": target.processors,
                "warpSize": WARP,
                "sm_clock_rate": 1_500_000,
                "mem_clock_rate": 2_000_000,
                "mem_bus_width": 4096,
            }
        )
        # There is room for a cluster on every second multiprocessor.
        self.cuOccupancyMaxActiveClusters = constant(max(1, target.processors // 2))

    def load_binary(self, name: str, image: bytes, shared: int, device: int) -> tuple[int, str, int, int, int]:
        """Keep the cubin; its file name takes the place of the function's handle."""
        del shared, device
        found = codes(image, self._target.arch).get(name)
        registers, spilled = (found.registers, found.stack_bytes) if found else (0, 0)
        return 1, self._recorder.keep(image), registers, spilled, _MOST_THREADS


class Driver:
    """Takes the place of Triton's active driver, for `triton.runtime.driver.set_active`."""

    is_active = classmethod(constant(True))
    get_current_device = get_current_stream = constant(0)
    set_current_device = clear_cache = constant(None)

    def __init__(self, target: Target, recorder: Recorder) -> None:
        from triton.backends.compiler import GPUTarget

        self.utils = _Utils(target, recorder)
        self.launcher_cls: Callable[[Any, Any], _Launcher] = lambda src, metadata: _Launcher(src, metadata, recorder)
        self.get_current_target = constant(GPUTarget("cuda", int(target.arch.removeprefix("sm_")), WARP))
        self.get_active_torch_device = constant(torch.device("cuda", 0))
        self.get_device_interface = constant(torch.cuda)
        self.get_device_capability = constant(capability(target))
        self.get_benchmarker = constant(call_once)
        self.get_empty_cache_for_benchmark = constant(torch.empty(1, dtype=torch.int32))

    def map_python_to_cpp_type(self, ty: str) -> str:
        return "CUdeviceptr" if ty.startswith("*") else ty

    def assemble_tensormap_to_arg(self, tensormaps_info: Any, args: Any) -> Any:
        del tensormaps_info
        return args


def call_once(function: Callable[[], Any], *args: Any, quantiles: Sequence[float] | None = None, **kwargs: Any) -> Any:
    """Call a function once in place of timing it; return a millisecond, or one for each quantile."""
    del args, kwargs
    function()
    return 1.0 if quantiles is None else [1.0] * len(quantiles)


def untimed() -> list[tuple[Any, str, Any]]:
    """Return what `replaced` needs so that nothing is timed by Triton."""
    import triton.testing

    return [(triton.testing, name, call_once) for name in ("do_bench", "do_bench_cudagraph")]


class _Launcher:
    """Records launches of one compiled kernel."""

    def __init__(self, src: Any, metadata: Any, recorder: Recorder) -> None:
        self._recorder, self._metadata = recorder, metadata
        self._kernel: str = getattr(getattr(src, "fn", None), "__name__", metadata.name)

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
                bytes=_bytes_of(args),
            )
        )


def _bytes_of(values: Sequence[Any]) -> int:
    """Return the bytes of the tensors among the values; of those that share their memory, the largest counts."""
    found: dict[int, int] = {}
    for value in values:
        if isinstance(value, torch.Tensor):
            key, size = storage_of(value), min(value.nbytes, value.untyped_storage().nbytes())
            found[key] = max(size, found.get(key, 0))
    return sum(found.values())


@dataclass(slots=True)
class _Tuning:
    """One kernel tuned for one set of shapes: the configurations tried, and the problem of each, "" where it fits."""

    kernel: str
    wanted: int
    left_out: int
    tried: list[str] = field(default_factory=list[str])
    problems: list[str] = field(default_factory=list[str])

    def report(self, recorder: Recorder) -> None:
        fits = [text for text, problem in zip(self.tried, self.problems, strict=True) if not problem]
        if not fits:
            recorder.problem(f"{self.kernel}: no configuration fits: {self.problems[-1]}")
            return
        refused = [problem for problem in self.problems if problem]
        recorder.note(
            f"{self.kernel} is autotuned over {self.wanted + self.left_out} configurations; the first that fits is "
            f"taken ({fits[0]}), because only a run tells which is the fastest"
            + (f"; of {len(self.tried)} tried, {len(refused)} do not fit ({refused[0]})" if refused else "")
        )


@contextlib.contextmanager
def trying_all(recorder: Recorder, most: int = MOST_CONFIGURATIONS) -> Generator[None]:
    """Have Triton's autotuners compile their first configurations and report them, within this context."""
    from triton.runtime.autotuner import Autotuner

    kind: Any = Autotuner
    prune, bench = kind.prune_configs, kind._bench
    tunings: dict[int, _Tuning] = {}

    def prune_configs(tuner: Any, kwargs: dict[str, Any]) -> list[Any]:
        """Return the first configurations that the module itself does not rule out, compiled."""
        wanted = list(prune(tuner, kwargs))
        tried = wanted[:most]
        tunings[id(tuner)] = _Tuning(tuner.base_fn.__name__, len(tried), len(wanted) - len(tried))
        meta = {k: v for k, v in kwargs.items() if k not in ("grid", "warmup")}

        def compiled(configuration: Any) -> None:
            # What fails here fails again, and is reported, when it is tried in its turn.
            with contextlib.suppress(Exception):
                tuner.fn.run(*tuner.nargs.values(), grid=(1,), warmup=True, **meta, **configuration.all_kwargs())

        with ThreadPoolExecutor(min(4, max(2, os.cpu_count() or 1))) as pool:
            list(pool.map(compiled, tried))
        return tried

    def try_one(tuner: Any, *args: Any, config: Any, **meta: Any) -> Any:
        tuning = tunings[id(tuner)]
        tuning.tried.append(str(config))
        tuning.problems.append("")

        def once(function: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return call_once(function, *args, **kwargs)
            except Exception as e:
                tuning.problems[-1] = f"{type(e).__name__}: {e}"
                raise

        tuner.__dict__["do_bench"] = once
        raised = recorder.trying = True
        try:
            with recorder.aside([]):
                times = bench(tuner, *args, config=config, **meta)
            raised = False
        finally:
            recorder.trying = False
            if raised or len(tuning.tried) == tuning.wanted:
                tuning.report(recorder)
        return times

    with replaced([(kind, "prune_configs", prune_configs), (kind, "_bench", try_one), *untimed()]):
        yield


class Refusals:
    """Kernels that could not be launched, with their reasons; those of an autotuner's trials are its own matter."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}
        self.last: BaseException | None = None

    def caused(self, error: BaseException) -> bool:
        """Return whether an error is that of the last kernel that failed, or was raised because of it."""
        chain: BaseException | None = error
        while chain is not None:
            if chain is self.last:
                return True
            chain = chain.__cause__ or chain.__context__
        return False


@contextlib.contextmanager
def refusing(recorder: Recorder, *, passing: bool) -> Generator[Refusals]:
    """Note, in the `Refusals` that it yields, which kernels fail within this context; pass over them if `passing`."""
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    refusals = Refusals()

    def standing_before(own: Callable[..., Any]) -> Callable[..., Any]:
        def run(kernel: Any, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
            try:
                return own(kernel, *args, grid=grid, warmup=warmup, **kwargs)
            except Exception as e:
                if warmup or recorder.trying:
                    raise
                name = getattr(kernel, "base_fn", kernel.fn).__name__
                refusals.reasons[name], refusals.last = words(e), e
                if not passing:
                    raise
                recorder.problem(f"{name}: {words(e)}")
                recorder.add(TracedLaunch(name, "", "", None, None, bytes=_bytes_of([*args, *kwargs.values()])))
                return None

        return run

    kinds: tuple[Any, ...] = (JITFunction, Autotuner)
    with replaced([(kind, "run", standing_before(kind.run)) for kind in kinds]):
        yield refusals
