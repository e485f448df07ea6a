"""Calls of the CUDA driver by ctypes: what the launcher, the observer and their memory need."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from forewarp.gpu_runner.formats import c_types
from forewarp.gpu_runner.formats.plan import TensorMap

Handle = ctypes.c_void_p


class CudaError(RuntimeError):
    """The driver refused a call, or a kernel failed."""


@lru_cache(maxsize=1)
def library() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def status(name: str, *arguments: Any) -> int:
    return getattr(library(), name)(*arguments)


def call(name: str, *arguments: Any) -> None:
    """Call a function of the driver; raises `CudaError` with the driver's own words."""
    code = status(name, *arguments)
    if code != 0:
        text = ctypes.c_char_p()
        library().cuGetErrorString(code, ctypes.byref(text))
        raise CudaError(f"{name}: {text.value.decode() if text.value else code}")


def make_context() -> None:
    """Make the first device's primary context, the one that torch uses, current for this thread."""
    handle, context = ctypes.c_int(), Handle()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(handle), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
    call("cuCtxSetCurrent", context)


_MAP_BYTES, _MAP_ALIGNMENT, _PROMOTED_TO_256 = 128, 64, 3
_MAP_TYPES = {"float16": 6, "float32": 7, "float64": 8, "bfloat16": 9}
_MAP_BITS = {1: 0, 2: 1, 4: 2, 8: 4}
"""CUtensorMapDataType by bytes of an element, for integers and for what only kernels tell apart, such as fp8."""
_SWIZZLES = (0, 32, 64, 128)


def encode(planned: TensorMap, address: int) -> ctypes.Array[ctypes.c_ubyte]:
    """Return the CUtensorMap of a contiguous tensor at an address; what lies outside of it reads as zeros."""
    size, rank = c_types.size(planned.dtype), len(planned.shape)
    extents, strides = planned.shape[::-1], [size]
    for extent in extents[:-1]:
        strides.append(strides[-1] * extent)
    raw = bytearray(_MAP_BYTES + _MAP_ALIGNMENT)
    start = -ctypes.addressof(ctypes.c_ubyte.from_buffer(raw)) % _MAP_ALIGNMENT
    encoded = (ctypes.c_ubyte * _MAP_BYTES).from_buffer(raw, start)
    call(
        "cuTensorMapEncodeTiled",
        ctypes.byref(encoded),
        _MAP_TYPES.get(planned.dtype, _MAP_BITS[size]),
        rank,
        Handle(address),
        (ctypes.c_uint64 * rank)(*extents),
        (ctypes.c_uint64 * rank)(*strides[1:]),
        (ctypes.c_uint32 * rank)(*planned.box[::-1]),
        (ctypes.c_uint32 * rank)(*[1] * rank),
        0,
        _SWIZZLES.index(planned.swizzle),
        _PROMOTED_TO_256,
        0,
    )
    return encoded


class _LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute."""

    _fields_ = [("number", ctypes.c_uint64), ("value", ctypes.c_ubyte * 64)]


class _LaunchConfiguration(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = [
        ("extents", ctypes.c_uint * 7),
        ("stream", Handle),
        ("attributes", ctypes.POINTER(_LaunchAttribute)),
        ("count", ctypes.c_uint),
    ]


class StreamLaunch:
    """A launch with its arguments, laid out once because `enqueue` is called in timed loops.

    `extents` are grid, block and bytes of shared memory, attributes as in `KernelLaunch`.
    """

    def __init__(
        self, function: Handle, extents: Sequence[int], arguments: Any, attributes: Sequence[tuple[int, str]] = ()
    ) -> None:
        listed = (_LaunchAttribute * len(attributes))(
            *(_LaunchAttribute(n, (ctypes.c_ubyte * 64)(*bytes.fromhex(v))) for n, v in attributes)
        )
        self._configuration = _LaunchConfiguration((ctypes.c_uint * 7)(*extents), None, listed, len(attributes))
        self._function, self._arguments = function, arguments

    def enqueue(self, stream: Handle) -> None:
        self._configuration.stream = stream
        call("cuLaunchKernelEx", ctypes.byref(self._configuration), self._function, self._arguments, None)


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = [
        ("function", Handle),
        *[(name, ctypes.c_uint) for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared")],
        ("parameters", ctypes.POINTER(Handle)),
        ("extra", ctypes.POINTER(Handle)),
        ("kernel", Handle),
        ("context", Handle),
    ]


class MemsetNode(ctypes.Structure):
    """CUDA_MEMSET_NODE_PARAMS; widths in elements, pitch in bytes."""

    _fields_ = [
        ("address", ctypes.c_uint64),
        ("pitch", ctypes.c_size_t),
        ("value", ctypes.c_uint),
        ("element_bytes", ctypes.c_uint),
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
    ]


class _CopyEnd(ctypes.Structure):
    _fields_ = [
        *[(name, ctypes.c_size_t) for name in ("x", "y", "z", "level")],
        *[("kind", ctypes.c_uint), ("host", Handle), ("device", ctypes.c_uint64), ("array", Handle)],
        *[("reserved", Handle), ("pitch", ctypes.c_size_t), ("height", ctypes.c_size_t)],
    ]


class CopyNode(ctypes.Structure):
    """CUDA_MEMCPY3D."""

    _fields_ = [
        *[("source", _CopyEnd), ("target", _CopyEnd)],
        *[(name, ctypes.c_size_t) for name in ("width", "height", "depth")],
    ]


class EdgeData(ctypes.Structure):
    """CUgraphEdgeData: not all zero for launches that may begin before the one before them has ended."""

    _fields_ = [
        *[(name, ctypes.c_ubyte) for name in ("from_port", "to_port", "kind")],
        ("reserved", ctypes.c_ubyte * 5),
    ]


class _Location(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("id", ctypes.c_int)]


class _AllocationFlags(ctypes.Structure):
    _fields_ = [
        *[("compression", ctypes.c_ubyte), ("direct_access", ctypes.c_ubyte)],
        *[("usage", ctypes.c_ushort), ("reserved", ctypes.c_ubyte * 4)],
    ]


class AllocationProperties(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = [
        *[("kind", ctypes.c_int), ("handles", ctypes.c_int), ("location", _Location)],
        *[("security", Handle), ("flags", _AllocationFlags)],
    ]


class AccessDescription(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = [("location", _Location), ("flags", ctypes.c_int)]


_DEVICE, _PINNED, _READ_WRITE = 1, 1, 3
FILE_DESCRIPTOR = 1
"""CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR."""


def pinned() -> AllocationProperties:
    """Describe memory of the first device that can be passed to another process as a file descriptor."""
    return AllocationProperties(_PINNED, FILE_DESCRIPTOR, _Location(_DEVICE, 0))


def read_write() -> AccessDescription:
    return AccessDescription(_Location(_DEVICE, 0), _READ_WRITE)
