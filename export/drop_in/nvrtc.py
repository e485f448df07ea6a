# pyright: reportUnusedFunction=false
"""CUDA C++: compiled by NVRTC, which comes with torch, and launched by the driver on torch's current stream."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

_SOURCE = ""
_ARCH = ""


def _prepare(case: Mapping[str, Any], device: torch.device) -> Callable[[Mapping[str, torch.Tensor]], None]:
    """Compile for a case's constants, load it on the device, and return a function of its buffers."""
    instances = [step["kernel"] for step in case["launches"] if "<" in step["kernel"]]
    image, symbols = _cubin([f"-D{name}={value}" for name, value in case["defines"].items()], instances)
    driver = ctypes.CDLL("libcuda.so.1")
    steps: list[tuple[str, Any, Sequence[int], int, list[tuple[str, Any]]]] = []
    with torch.cuda.device(device):
        torch.cuda.synchronize()  # makes the device's context current
        module = ctypes.c_void_p()
        _do(driver, "cuModuleLoadData", ctypes.byref(module), image)
        for step in case["launches"]:
            function = ctypes.c_void_p()
            _do(
                driver,
                "cuModuleGetFunction",
                ctypes.byref(function),
                module,
                symbols.get(step["kernel"], step["kernel"].encode()),
            )
            if step["shared"] > 48 << 10:
                _do(driver, "cuFuncSetAttribute", function, 8, step["shared"])
            arguments = [_cuda_argument(kind, value) for kind, value in step["args"]]
            how = "cuLaunchCooperativeKernel" if step["cooperative"] else "cuLaunchKernel"
            steps.append((how, function, (*step["grid"], *step["block"]), step["shared"], arguments))

    def launch(buffers: Mapping[str, torch.Tensor]) -> None:
        with torch.cuda.device(device):
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            for how, function, extents, shared, arguments in steps:
                values = [_value(driver, kind, value, buffers) for kind, value in arguments]
                packed = (ctypes.c_void_p * len(values))(*(ctypes.addressof(v) for v in values))
                rest = (None,) if how == "cuLaunchKernel" else ()
                _do(driver, how, function, *extents, shared, stream, packed, *rest)

    return launch


def _cuda_argument(kind: str, value: Any) -> tuple[str, Any]:
    kinds = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "f32": ctypes.c_float, "f64": ctypes.c_double}
    return (kind, kinds[kind](value)) if kind in kinds else (kind, value)


def _value(driver: ctypes.CDLL, kind: str, value: Any, buffers: Mapping[str, torch.Tensor]) -> Any:
    if kind == "ptr":
        return ctypes.c_void_p(buffers[value].data_ptr())
    return _tensor_map(driver, buffers[value[0]], *value[1:]) if kind == "map" else value


def _tensor_map(
    driver: ctypes.CDLL, tensor: torch.Tensor, dtype: str, shape: Sequence[int], box: Sequence[int], swizzle: int
) -> Any:
    """Return the CUtensorMap of a contiguous tensor, viewed in a shape."""
    size, rank = tensor.element_size(), len(shape)
    kinds = {"float16": 6, "float32": 7, "float64": 8, "bfloat16": 9}
    strides = [size]
    for extent in shape[:0:-1]:
        strides.append(strides[-1] * extent)
    raw = bytearray(128 + 64)  # the driver wants it aligned to 64 bytes
    encoded = (ctypes.c_ubyte * 128).from_buffer(raw, -ctypes.addressof(ctypes.c_ubyte.from_buffer(raw)) % 64)
    numbers = [
        (ctypes.c_uint64 * rank)(*shape[::-1]),
        (ctypes.c_uint64 * rank)(*strides[1:]),
        (ctypes.c_uint32 * rank)(*box[::-1]),
        (ctypes.c_uint32 * rank)(*[1] * rank),
    ]
    kind = kinds.get(dtype, {1: 0, 2: 1, 4: 2, 8: 4}[size])
    modes = 0, (0, 32, 64, 128).index(swizzle), 3, 0  # no interleaving, swizzle, 256 bytes into L2, zeros outside
    address = ctypes.c_void_p(tensor.data_ptr())
    _do(driver, "cuTensorMapEncodeTiled", ctypes.byref(encoded), kind, rank, address, *numbers, *modes)
    return encoded


def _do(library: ctypes.CDLL, call: str, *arguments: Any) -> None:
    code = getattr(library, call)(*arguments)
    if code != 0:
        raise RuntimeError(f"{call} failed with error {code}")


def _roots() -> list[Path]:
    """Return the folders that may hold NVRTC and CUDA's headers: wheels first, then the toolkit."""
    site = {Path(sysconfig.get_path(k)) for k in ("purelib", "platlib")} | {Path(torch.__file__).parents[1]}
    wheels = [w for s in sorted(site) for p in ("nvidia/cu*", "nvidia/*") for w in sorted(s.glob(p), reverse=True)]
    return [*wheels, Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))]


def _nvrtc() -> ctypes.CDLL:
    """Load NVRTC, preferably the one that belongs to torch's version of CUDA; raises RuntimeError."""
    major = (torch.version.cuda or "").partition(".")[0]
    found = [p for r in _roots() for f in ("lib", "lib64") for p in sorted((r / f).glob("libnvrtc.so*"))]
    wanted = [p for p in found if p.name == f"libnvrtc.so.{major}"]
    for name in (*map(str, wanted), f"libnvrtc.so.{major}", *map(str, found), ctypes.util.find_library("nvrtc")):
        try:
            if name:
                return ctypes.CDLL(name)
        except OSError:
            continue
    raise RuntimeError("NVRTC was not found: install a torch for CUDA, or set CUDA_HOME")


def _cubin(defines: Sequence[str], instances: Sequence[str] = ()) -> tuple[bytes, Mapping[str, bytes]]:
    """Compile the kernels; return them with the symbols of templates' instances.

    Raises RuntimeError with the compiler's log.
    """
    nvrtc, program = _nvrtc(), ctypes.c_void_p()
    folders = [r / "include" for r in _roots() if (r / "include" / "cuda_fp16.h").exists()]
    folders += [r / "include" for r in _roots() if (r / "include" / "crt" / "mma.h").exists()]
    includes = [f"--include-path={p}" for f in folders for p in (f, f / "cccl") if p.exists()]
    options = [f"--gpu-architecture={_ARCH}", "--std=c++17", "--device-as-default-execution-space"]
    options += [*defines, *dict.fromkeys(includes)]
    _do(nvrtc, "nvrtcCreateProgram", ctypes.byref(program), _SOURCE.encode(), b"kernel.cu", 0, None, None)
    symbols: dict[str, bytes] = {}
    try:
        for kernel in instances:
            _do(nvrtc, "nvrtcAddNameExpression", program, kernel.encode())
        flags = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
        if nvrtc.nvrtcCompileProgram(program, len(options), flags) != 0:
            raise RuntimeError(_fetched(nvrtc, "nvrtcGetProgramLog", program).decode(errors="replace").strip("\0\n "))
        for kernel in instances:
            symbol = ctypes.c_char_p()
            _do(nvrtc, "nvrtcGetLoweredName", program, kernel.encode(), ctypes.byref(symbol))
            symbols[kernel] = symbol.value or b""
        return _fetched(nvrtc, "nvrtcGetCUBIN", program), symbols
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _fetched(nvrtc: ctypes.CDLL, getter: str, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    _do(nvrtc, f"{getter}Size", program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    _do(nvrtc, getter, program, buffer)
    return buffer.raw
