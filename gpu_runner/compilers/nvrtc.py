"""CUDA C++ to a cubin through NVRTC and ctypes: no nvcc, no driver, no device, a few hundredths of a second."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import re
import sysconfig
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from forewarp.core.values import Target
from forewarp.gpu_runner.compilers import signatures
from forewarp.gpu_runner.compilers.cubin import codes
from forewarp.gpu_runner.compilers.inspection import kernels_of
from forewarp.gpu_runner.compilers.process import CompileError
from forewarp.gpu_runner.formats.plan import ResolvedPlan

_HOST_HEADERS = re.compile(
    r"^[ \t]*#[ \t]*include[ \t]*[<\"](?:algorithm|cassert|chrono|cmath|cstdio|cstdlib|cstring|ctime|cublas_v2\.h|"
    r"fstream|iomanip|iostream|memory|random|string|vector|(?:assert|math|stdio|stdlib|string|time|sys/time)\.h)[>\"]",
    re.MULTILINE,
)
"""Headers that files of kernels have for their host code; NVRTC has none of them."""


def exact_architecture(arch: str) -> str:
    """Return "sm_90a" for "sm_90": from 90 on, only the "a" has the instructions of that very chip, such as wgmma."""
    return f"{arch}a" if int(arch.removeprefix("sm_")) >= 90 else arch


def _roots() -> list[Path]:
    """Return the folders that may hold CUDA: wheels first, then $CUDA_HOME, then the usual place."""
    site = {Path(sysconfig.get_path(k)) for k in ("purelib", "platlib")}
    site |= {Path(p) for p in os.environ.get("PYTHONPATH", "").split(":") if p}
    wheels = [w for s in sorted(site) for w in sorted(s.glob("nvidia/cu*"), reverse=True)]
    return [*wheels, Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))]


@lru_cache(maxsize=1)
def library() -> tuple[ctypes.CDLL, str] | None:
    """Load libnvrtc and return it with its path; None where there is none."""
    for root in _roots():
        for folder in ("lib", "lib64"):
            for path in sorted((root / folder).glob("libnvrtc.so*"), reverse=True):
                try:
                    return ctypes.CDLL(str(path)), str(path)
                except OSError:
                    continue
    name = ctypes.util.find_library("nvrtc")
    return (ctypes.CDLL(name), name) if name else None


def version() -> str | None:
    """Return NVRTC's version, such as "13.0"; None where there is none."""
    found = library()
    if found is None:
        return None
    major, minor = ctypes.c_int(), ctypes.c_int()
    found[0].nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    return f"{major.value}.{minor.value}"


@lru_cache(maxsize=1)
def includes() -> tuple[str, ...]:
    """Return options for the include folders of the first root whose headers are complete: wheels come in parts."""
    roots = [r / "include" for r in _roots()]
    ranked = sorted(
        (r for r in roots if (r / "cuda_fp16.h").exists()), key=lambda r: not (r / "crt" / "mma.h").exists()
    )
    return tuple(f"--include-path={p}" for f in ranked[:1] for p in (f, f / "cccl") if p.exists())


def build(source: str, plan: ResolvedPlan, target: Target, folder: Path, stem: str) -> dict[str, Any]:
    """Compile to `<stem>.cubin`; kernels are found by their `extern "C"` names, instances of templates by theirs."""
    options = [f"--gpu-architecture={exact_architecture(target.arch)}", "--std=c++17"]
    options.append("--device-as-default-execution-space")
    options += [*(f"-D{name}={value}" for name, value in plan.constants.items()), *includes()]
    instances = sorted({e.kernel for e in plan.launches if "<" in e.kernel})
    image, symbols = signatures.checked(device_text(source), plan, lambda text: compile_named(text, options, instances))
    code = codes(image, target.arch)
    # All instances of a template have facts under the name that its author gave it.
    found = code | {name: replace(code[symbol], kernel=name.partition("<")[0]) for name, symbol in symbols.items()}
    missing = sorted({e.kernel for e in plan.launches} - set(found))
    if missing:
        raise CompileError(
            f'the launch plan names {missing}, but the source has {sorted(found)}; kernels must be extern "C", or '
            'templates with their arguments: kernel = "name<TILE>"'
        )
    name = f"{stem}.cubin"
    (folder / name).write_bytes(image)
    entries = [
        {
            "file": name,
            "symbol": symbols.get(e.kernel, e.kernel),
            "extra_params": 0,
            "shared": e.shared,
            "block": list(e.block),
        }
        for e in plan.launches
    ]
    return {"files": [name], "kernels": kernels_of(plan, target, [found[e.kernel] for e in plan.launches], entries)}


def device_text(source: str) -> str:
    """Return a source without what only host code includes, but for a type that comes with it; lines keep numbers."""
    return _HOST_HEADERS.sub("typedef unsigned int uint; //", source)


def compile_source(source: str, options: list[str]) -> bytes:
    return compile_named(source, options, ())[0]


def compile_named(source: str, options: Sequence[str], names: Sequence[str]) -> tuple[bytes, dict[str, str]]:
    """Compile as `compile_source`; return also the symbols of `names`, such as "scale<float, 4>"."""
    loaded = library()
    if loaded is None:
        raise CompileError('NVRTC was not found: pip install "forewarp[gpu]", or set CUDA_HOME')
    nvrtc = loaded[0]
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
    program = ctypes.c_void_p()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    try:
        for name in names:
            nvrtc.nvrtcAddNameExpression(program, name.encode())
        flags = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
        code = nvrtc.nvrtcCompileProgram(program, len(options), flags)
        if code != 0:
            log = _fetch(nvrtc, "nvrtcGetProgramLog", program).decode(errors="replace").rstrip("\0\n ")
            raise CompileError(log or nvrtc.nvrtcGetErrorString(code).decode())
        return _fetch(nvrtc, "nvrtcGetCUBIN", program), {name: _symbol(nvrtc, program, name) for name in names}
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _symbol(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, name: str) -> str:
    found = ctypes.c_char_p()
    nvrtc.nvrtcGetLoweredName(program, name.encode(), ctypes.byref(found))
    return (found.value or b"").decode()


def _fetch(nvrtc: ctypes.CDLL, getter: str, program: ctypes.c_void_p) -> bytes:
    size = ctypes.c_size_t()
    getattr(nvrtc, f"{getter}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, getter)(program, buffer)
    return buffer.raw
