"""Launch Triton kernels without a C compiler: where Triton would build a launcher for each signature of a kernel.

Triton 3.6 runs a C compiler for 0.3 s per signature; later versions do not. While a module is observed nobody times its
launches, so they may as well be made from Python.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import SimpleNamespace
from typing import Any, cast

from forewarp.gpu_runner.lifting import driver
from forewarp.gpu_runner.lifting.driver import Handle

_KNOWN_ARGUMENTS = "iiiKKppOOOOOO"
"""Types of the arguments that Triton 3.6 passes to a launcher before the kernel's own."""
_INTEGERS: Mapping[str, Any] = {
    "i1": ctypes.c_int8,
    **{f"i{bits}": getattr(ctypes, f"c_int{bits}") for bits in (8, 16, 32, 64)},
    "u1": ctypes.c_uint8,
    **{f"u{bits}": getattr(ctypes, f"c_uint{bits}") for bits in (8, 16, 32, 64)},
}
_FLOATS = ("fp16", "bf16", "fp32", "f32", "fp64")


def install() -> None:
    """Replace the launchers that Triton would build in this process; does nothing for versions that build none."""
    try:
        from triton.backends.nvidia import driver as theirs
    except ImportError:
        return
    home = cast("Any", theirs)
    if getattr(home, "_BASE_ARGS_FORMAT", "") != _KNOWN_ARGUMENTS:
        return
    make, build = home.make_launcher, home.compile_module_from_src

    def make_launcher(constants: Any, signature: Mapping[Any, Any], tensordesc_meta: Any) -> Any:
        types = list(_flat(signature.values()))
        if any(t != "constexpr" and t[0] != "*" and t not in _INTEGERS and t not in _FLOATS for t in types):
            return make(constants, signature, tensordesc_meta)
        return _Signature(types, lambda: make(constants, signature, tensordesc_meta))

    def compile_module(src: Any, name: str, **how: Any) -> Any:
        if not isinstance(src, _Signature):
            return build(src=src, name=name, **how)
        return SimpleNamespace(launch=_Launcher(src, lambda: build(src=src.source(), name=name, **how).launch))

    home.make_launcher, home.compile_module_from_src = make_launcher, compile_module


def _flat(types: Any) -> Iterator[str]:
    for kind in types:
        if isinstance(kind, tuple):
            yield from _flat(kind)
        else:
            yield str(kind)


@dataclass(frozen=True, slots=True)
class _Signature:
    """Types of a kernel's arguments; `source` makes Triton's own launcher for them."""

    types: Sequence[str]
    source: Callable[[], str]


class _Launcher:
    def __init__(self, signature: _Signature, build: Callable[[], Any]) -> None:
        self._types, self._build = signature.types, build

    @cached_property
    def _theirs(self) -> Any:
        return self._build()

    def __call__(self, x: int, y: int, z: int, stream: int, function: int, *rest: Any) -> None:
        cooperative, dependent, scratch, profile, metadata, about, entered, left, *arguments = rest
        warps, clusters, shared = metadata
        if cooperative or dependent or clusters != 1:
            self._theirs(x, y, z, stream, function, *rest)
            return
        if entered is not None:
            entered(about)
        values = [v for v in map(_value, self._types, _leaves(arguments)) if v is not None]
        values += [_pointer(scratch), _pointer(profile)]
        pointers = (Handle * len(values))(*[ctypes.addressof(v) for v in values])
        if x * y * z > 0:
            driver.call(
                "cuLaunchKernel", *(Handle(function), x, y, z, 32 * warps, 1, 1, shared, Handle(stream), pointers, None)
            )
        if left is not None:
            left(about)


def _leaves(arguments: Sequence[Any]) -> Iterator[Any]:
    for argument in arguments:
        if isinstance(argument, tuple):
            yield from _leaves(cast("tuple[Any, ...]", argument))
        else:
            yield argument


def _value(kind: str, argument: Any) -> Any:
    """Return an argument as the bytes that a kernel takes; None for constants, which it does not take."""
    if kind == "constexpr":
        return None
    if kind[0] == "*":
        return _pointer(argument)
    if kind in _INTEGERS:
        return _INTEGERS[kind](int(argument))
    if kind == "fp64":
        return ctypes.c_double(argument)
    if kind == "fp16":
        return ctypes.c_uint16(struct.unpack("<H", struct.pack("<e", argument))[0])
    if kind == "bf16":
        return ctypes.c_uint16(struct.unpack("<I", struct.pack("<f", argument))[0] >> 16)
    return ctypes.c_float(argument)


def _pointer(argument: Any) -> Any:
    if argument is None or isinstance(argument, int):
        return ctypes.c_uint64(argument or 0)
    if not getattr(argument, "is_cuda", True):
        raise ValueError("Pointer argument cannot be accessed from Triton (cpu tensor?)")
    return ctypes.c_uint64(argument.data_ptr())
