"""CPU tensors that pass for CUDA tensors, with values or with shapes only, and stand-ins for `torch.cuda`.

A mode looks at every call of torch and runs it on the CPU, whatever device it names.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import types
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, cast
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors  # pyright: ignore[reportPrivateUsage]

from forewarp.core.values import Target
from forewarp.gpu_runner.worker.nest import storage_of
from forewarp.inspection.tracing.recorder import Recorder, TracedEvent

_NOTHING = (
    *("synchronize", "set_device", "set_stream", "empty_cache", "init", "_lazy_init", "manual_seed", "manual_seed_all"),
    *("reset_peak_memory_stats", "reset_max_memory_allocated", "ipc_collect", "seed", "seed_all"),
    *("set_per_process_memory_fraction", "_lazy_call", "_set_stream_by_id"),
)
_ZERO = (
    *("current_device", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"),
    *("_exchange_device", "_maybe_exchange_device", "initial_seed"),
)


_CUDA = re.compile(r"cuda(:\d+)?")
_KINDS = re.compile(r"torch\.cuda\.(\w+Tensor)")


def constant(value: Any) -> Callable[..., Any]:
    """Return a function that gives `value`, whatever it is called with."""

    def answer(*args: Any, **kwargs: Any) -> Any:
        del args, kwargs
        return value

    return answer


def _is_cuda(value: Any) -> bool:
    if isinstance(value, str):
        return _CUDA.fullmatch(value) is not None
    return isinstance(value, torch.device) and value.type == "cuda"


class Masquerade(TorchFunctionMode):
    """Runs every call of torch on the CPU, whatever device it names, and says "cuda" when a tensor is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = 0
        self._constructors: frozenset[Any] = frozenset(_device_constructors())
        tensor: Any = torch.Tensor
        self._answers: dict[Any, Callable[..., Any]] = {
            tensor.device.__get__: _device_of,
            tensor.is_cuda.__get__: _is_on_cuda,
            tensor.is_cpu.__get__: constant(False),
            tensor.get_device: constant(0),
            tensor.is_pinned: constant(False),
            tensor.record_stream: constant(None),
            tensor.pin_memory: _itself,
            tensor.cuda: _itself,
        }

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        self.inside += 1
        try:
            if func is torch.device:
                return func(*args, **named)
            answer = self._answers.get(func)
            if answer is not None:
                return answer(*args, **named)
            # A `with torch.device("cuda")` of the module comes after this mode, and fills in what is missing.
            if func in self._constructors and named.get("device") is None and torch.get_default_device().type != "meta":
                named["device"] = "cpu"
            if func is torch.Tensor.to and len(args) > 1 and type(args[1]) is int:
                args = (args[0], "cpu", *args[2:])
            if func is torch.Tensor.type and len(args) > 1 and isinstance(args[1], str):
                args = (args[0], _KINDS.sub(r"torch.\1", args[1]), *args[2:])
            if type(named.get("device")) is int:
                named["device"] = "cpu"
            args = ["cpu" if _is_cuda(a) else a for a in args]
            return func(*args, **{k: "cpu" if _is_cuda(v) else v for k, v in named.items()})
        finally:
            self.inside -= 1


def _device_of(tensor: torch.Tensor) -> torch.device:
    return tensor.device if tensor.device.type == "meta" else torch.device("cuda", 0)


def _is_on_cuda(tensor: torch.Tensor) -> bool:
    return tensor.device.type != "meta"


def _itself(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    del args, kwargs
    return tensor


@contextlib.contextmanager
def replaced(changes: Sequence[tuple[Any, str, Any]]) -> Generator[None]:
    """Replace attributes (owner, name, value) within this context; those that were not there are removed again."""
    with contextlib.ExitStack() as stack:
        for owner, name, value in changes:
            stack.enter_context(mock.patch.object(owner, name, value, create=True))
        yield


@contextlib.contextmanager
def masquerading(target: Target, recorder: Recorder) -> Generator[Masquerade]:
    """Let this thread's CPU tensors pass for tensors on `target`, and `torch.cuda` for one with such a device."""
    with replaced(_stand_ins(target, recorder)), Masquerade() as mode:
        yield mode


class _Idle:
    """A stream, an event or the choice of a device: nothing happens on it, and events are a millisecond apart."""

    cuda_stream = cuda_event = stream_id = device_index = priority = idx = prev_idx = 0
    synchronize = wait_stream = wait_event = record = wait = constant(None)
    query, elapsed_time = constant(True), constant(1.0)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs
        self.device = torch.device("cuda", 0)

    def __enter__(self) -> _Idle:
        return self

    def __exit__(self, *args: object) -> None:
        pass

    def record_event(self, event: Any = None) -> Any:
        return event or _Event()


class _Stream(_Idle):
    pass


class _Event(_Idle):
    pass


def _graphs(recorder: Recorder) -> tuple[type, Callable[..., Any]]:
    """Return stand-ins for `torch.cuda.CUDAGraph` and `torch.cuda.graph`: a replay is what was captured, once more."""

    class Graph:
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            del args, kwargs
            self.captured: list[TracedEvent] = []
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


def capability(target: Target) -> tuple[int, int]:
    """Return (9, 0) for "sm_90"."""
    number = int(target.arch.removeprefix("sm_"))
    return number // 10, number % 10


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


def _without_compiler(recorder: Recorder) -> Callable[..., Any]:
    def compile(model: Any = None, **kwargs: Any) -> Any:
        recorder.note("torch.compile is passed over: the operators are those before it fuses them")
        return model if model is not None else _itself

    return compile


def _stand_ins(target: Target, recorder: Recorder) -> list[tuple[Any, str, Any]]:
    """Return (owner, attribute, value) of all that is replaced."""
    cuda, properties = torch.cuda, _properties(target)
    stream, (graph_class, graph) = _Stream(), _graphs(recorder)
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
    kinds = {"Stream": _Stream, "ExternalStream": _Stream, "Event": _Event, "CUDAGraph": graph_class, "graph": graph}
    kinds |= dict.fromkeys(("device", "_DeviceGuard", "device_of", "StreamContext", "stream"), _Idle)
    changes += [(cuda, name, kind) for name, kind in kinds.items()]
    changes += [(cuda.nvtx, name, constant(None)) for name in ("range_push", "range_pop", "mark")]
    changes += [(torch._C, "_cuda_getCurrentRawStream", constant(0))]  # pyright: ignore[reportPrivateUsage]
    guards: Any = torch._C._dynamo.guards  # pyright: ignore
    changes += [(guards, "_empty_strided_cuda", _empty_strided)]
    changes += [(torch, "compile", _without_compiler(recorder)), (torch, "Generator", _Generator)]
    changes += [(torch.nn.Module, "compile", constant(None)), (torch, "autocast", _autocast(torch.autocast))]
    changes += [(torch.amp, "autocast", _autocast(torch.amp.autocast))]
    changes += [(torch.version, "cuda", torch.version.cuda or "13.0")]
    return changes


def _empty_strided(size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor as Inductor's generated code asks for one."""
    return torch.empty_strided(size, stride, dtype=dtype, device="cuda")


def _autocast(own: Any) -> Any:
    class Autocast(own):
        """Autocasts on the CPU where it is asked to on CUDA, to the same type."""

        def __init__(self, device_type: str, dtype: torch.dtype | None = None, *args: Any, **kwargs: Any) -> None:
            if device_type == "cuda":
                device_type, dtype = "cpu", dtype or torch.float16
            super().__init__(device_type, dtype, *args, **kwargs)

    return Autocast


_FIRST_ADDRESS, _ALIGNED = 1 << 32, 512


class _Addresses:
    """Gives each storage an address of its own, aligned as CUDA's allocator does, that no memory stands behind."""

    def __init__(self) -> None:
        self._known: dict[int, int] = {}
        self._next = itertools.count(1)

    def of(self, tensor: Any) -> int:
        base = self._known.setdefault(storage_of(tensor), _FIRST_ADDRESS + (next(self._next) << 24) * _ALIGNED)
        return base + tensor.storage_offset() * tensor.element_size()


@contextlib.contextmanager
def shapes_only(mode: Masquerade) -> Generator[None]:
    """Make tensors without values within this context; the masquerade answers questions as for real tensors."""
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    addresses, kind = _Addresses(), cast("Any", FakeTensor)
    own = kind.device

    def device(tensor: Any) -> torch.device:
        found: torch.device = own.fget(tensor)
        return torch.device("cuda", 0) if found.type == "cpu" and not mode.inside else found

    def data_ptr(tensor: Any) -> int:
        return addresses.of(tensor)

    changes: list[tuple[Any, str, Any]] = [
        (kind, "device", property(device, own.fset)),
        (kind, "data_ptr", data_ptr),
        (torch.nn.Module, "_apply", _apply),
    ]
    with replaced(changes), FakeTensorMode(allow_non_fake_inputs=True):
        yield


def _apply(module: Any, function: Any, recurse: bool = True) -> Any:
    """Apply `function` to parameters and buffers as `Module._apply`, which cannot swap tensors without values."""
    if recurse:
        for child in module.children():
            child._apply(function)
    for name, parameter in module._parameters.items():
        if parameter is not None:
            changed = function(parameter.data)
            module._parameters[name] = torch.nn.Parameter(changed, parameter.requires_grad)
    for name, buffer in module._buffers.items():
        if buffer is not None:
            module._buffers[name] = function(buffer)
    return module
