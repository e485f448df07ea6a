"""Stand-ins for `torch.cuda` and a few other parts of torch where there is no device."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Generator
from typing import Any

import torch

from forewarp.core.values import Target
from forewarp.inspection.tracing.driver import call_once, capability
from forewarp.inspection.tracing.recorder import Event, Recorder

_NOTHING = (
    *("synchronize", "set_device", "set_stream", "empty_cache", "init", "_lazy_init", "manual_seed", "manual_seed_all"),
    *("reset_peak_memory_stats", "reset_max_memory_allocated", "ipc_collect", "seed", "seed_all"),
    *("set_per_process_memory_fraction", "_lazy_call", "_set_stream_by_id"),
)
_ZERO = (
    *("current_device", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"),
    *("_exchange_device", "_maybe_exchange_device", "initial_seed"),
)


class Stream:
    """A stream on which nothing runs."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs
        self.cuda_stream = self.stream_id = self.device_index = self.priority = 0
        self.device = torch.device("cuda", 0)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *args: object) -> None:
        pass

    def synchronize(self) -> None:
        """Do nothing."""

    def wait_stream(self, stream: Any) -> None:
        """Do nothing."""

    def wait_event(self, event: Any) -> None:
        """Do nothing."""

    def query(self) -> bool:
        """Return true: all is done."""
        return True

    def record_event(self, event: Event_ | None = None) -> Event_:
        """Return an event."""
        return event or Event_()


class Event_:
    """An event; all are a millisecond apart."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs
        self.cuda_event = 0

    def record(self, stream: Any = None) -> None:
        """Do nothing."""

    def synchronize(self) -> None:
        """Do nothing."""

    def wait(self, stream: Any = None) -> None:
        """Do nothing."""

    def query(self) -> bool:
        """Return true: all is done."""
        return True

    def elapsed_time(self, end: Any) -> float:
        """Return a millisecond."""
        del end
        return 1.0


class Device:
    """Takes the place of `torch.cuda.device` and its kin."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs
        self.idx, self.prev_idx = 0, 0

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *args: object) -> None:
        pass


def _graphs(recorder: Recorder) -> tuple[type, Callable[..., Any]]:
    """Return stand-ins for `torch.cuda.CUDAGraph` and `torch.cuda.graph`: a replay is what was captured, once more."""

    class Graph:
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            del args, kwargs
            self.captured: list[Event] = []
            self._open = contextlib.ExitStack()

        def capture_begin(self, *args: Any, **kwargs: Any) -> None:
            del args, kwargs
            self.captured.clear()
            self._open.enter_context(recorder.aside(self.captured))

        def capture_end(self) -> None:
            self._open.close()

        def replay(self) -> None:
            for event in self.captured:
                recorder.add(event)

        def reset(self) -> None:
            self.captured.clear()

        def pool(self) -> tuple[int, int]:
            return (0, 0)

    @contextlib.contextmanager
    def graph(cuda_graph: Graph, *args: Any, **kwargs: Any) -> Generator[None]:
        del args, kwargs
        cuda_graph.capture_begin()
        try:
            yield
        finally:
            cuda_graph.capture_end()

    return Graph, graph


def _properties(target: Target) -> types.SimpleNamespace:
    major, minor = capability(target)
    shared = target.shared_bytes or 49152
    return types.SimpleNamespace(
        name=target.name,
        major=major,
        minor=minor,
        total_memory=target.memory_bytes or 16 << 30,
        multi_processor_count=target.processors,
        warp_size=32,
        max_threads_per_block=1024,
        max_threads_per_multi_processor=1536 if (major, minor) in ((8, 6), (8, 9)) else 2048,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=shared,
        shared_memory_per_multiprocessor=shared + 1024,
        L2_cache_size=target.l2_bytes or 0,
        is_integrated=False,
        is_multi_gpu_board=False,
        gcnArchName="",
    )


class _Generator(torch.Generator):
    def __new__(cls, device: Any = "cpu") -> _Generator:
        del device
        return super().__new__(cls, "cpu")  # pyright: ignore[reportCallIssue]


def _itself(function: Any) -> Any:
    return function


def _without_compiler(recorder: Recorder) -> Callable[..., Any]:
    def compile(model: Any = None, **kwargs: Any) -> Any:
        recorder.note("torch.compile is passed over: the operators are those before it fuses them")
        return model if model is not None else _itself

    return compile


def stand_ins(target: Target, recorder: Recorder) -> list[tuple[Any, str, Any]]:
    """Return (owner, attribute, value) of all that is replaced."""
    cuda, properties = torch.cuda, _properties(target)
    stream, (graph_class, graph) = Stream(), _graphs(recorder)
    memory = properties.total_memory
    answers: dict[str, Any] = {
        "is_available": True,
        "is_initialized": True,
        "is_bf16_supported": True,
        "device_count": 1,
        "get_device_name": target.name,
        "get_device_capability": capability(target),
        "get_device_properties": properties,
        "current_stream": stream,
        "default_stream": stream,
        "mem_get_info": (memory, memory),
        "is_current_stream_capturing": False,
        "graph_pool_handle": (0, 0),
        "get_arch_list": [target.arch],
        "memory_stats": {},
        **dict.fromkeys(_NOTHING),
        **dict.fromkeys(_ZERO, 0),
    }
    changes: list[tuple[Any, str, Any]] = [(cuda, name, constant(value)) for name, value in answers.items()]
    changes += [
        (cuda, name, kind) for name, kind in (("Stream", Stream), ("Event", Event_), ("CUDAGraph", graph_class))
    ]
    changes += [(cuda, name, Device) for name in ("device", "_DeviceGuard", "device_of", "StreamContext")]
    changes += [(cuda, "ExternalStream", Stream), (cuda, "stream", Device), (cuda, "graph", graph)]
    changes += [(cuda.nvtx, name, constant(None)) for name in ("range_push", "range_pop", "mark")]
    changes += [(torch._C, "_cuda_getCurrentRawStream", constant(0))]  # pyright: ignore[reportPrivateUsage]
    changes += [(torch, "compile", _without_compiler(recorder)), (torch, "Generator", _Generator)]
    changes += [(torch.nn.Module, "compile", constant(None)), (torch, "autocast", _autocast(torch.autocast))]
    changes += [(torch.amp, "autocast", _autocast(torch.amp.autocast))]
    changes += [(torch.version, "cuda", torch.version.cuda or "13.0")]
    return changes + _benchmarks()


def constant(value: Any) -> Callable[..., Any]:
    """Return a function that gives `value`, whatever it is called with."""

    def answer(*args: Any, **kwargs: Any) -> Any:
        del args, kwargs
        return value

    return answer


def _autocast(own: Any) -> Any:
    class Autocast(own):
        """Autocasts on the CPU where it is asked to on CUDA, to the same type."""

        def __init__(self, device_type: str, dtype: torch.dtype | None = None, *args: Any, **kwargs: Any) -> None:
            if device_type == "cuda":
                device_type, dtype = "cpu", dtype or torch.float16
            super().__init__(device_type, dtype, *args, **kwargs)

    return Autocast


def _benchmarks() -> list[tuple[Any, str, Any]]:
    try:
        import triton.testing
    except ImportError:
        return []
    return [(triton.testing, name, call_once) for name in ("do_bench", "do_bench_cudagraph")]
