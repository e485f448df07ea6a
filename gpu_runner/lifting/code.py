"""Compiled code as the driver loads it into this process: Triton's, an extension's, a library's."""

from __future__ import annotations

import ctypes
import gc
import sys
from pathlib import Path
from typing import Any

from forewarp.gpu_runner.compilers import cubin
from forewarp.gpu_runner.lifting import driver
from forewarp.gpu_runner.lifting.graph import NotLiftable

_DRIVER, _RESOURCE = 1, 3
"""CUPTI's domains of callbacks."""
_MODULE_LOADED = 6
_LOAD_FILE, *_LOAD_DATA = 18, 19, 20
"""cuModuleLoad, cuModuleLoadData and cuModuleLoadDataEx."""
_AFTER = 1
_ELF, _ELF_HEADER_BYTES = b"\x7fELF", 64


class _Resource(ctypes.Structure):
    """CUpti_ResourceData."""

    _fields_ = [("context", driver.Handle), ("stream", driver.Handle), ("details", driver.Handle)]


class _Module(ctypes.Structure):
    """CUpti_ModuleResourceData."""

    _fields_ = [("id", ctypes.c_uint32), ("size", ctypes.c_size_t), ("image", driver.Handle)]


class _Call(ctypes.Structure):
    """Beginning of CUpti_CallbackData; `arguments` are those of the driver's function, in order."""

    _fields_ = [
        ("site", ctypes.c_int),
        ("name", ctypes.c_char_p),
        ("arguments", ctypes.POINTER(driver.Handle)),
        ("status", ctypes.POINTER(ctypes.c_int)),
    ]


_Callback = ctypes.CFUNCTYPE(None, driver.Handle, ctypes.c_int, ctypes.c_uint32, driver.Handle)


class CodeLog:
    """Copies of all code loaded since, as CUPTI, which comes with torch, tells; `used` go by their `number`."""

    def __init__(self) -> None:
        self.images: list[bytes] = []
        self.used: list[bytes] = []
        self._by_module: dict[int, bytes] = {}
        self._triton: dict[int, bytes] = {}
        self._numbers: dict[int, int] = {}
        cupti = ctypes.CDLL(_cupti())
        self._callback = _Callback(self._loaded)
        subscriber = driver.Handle()
        for name, arguments in (
            ("cuptiSubscribe", (ctypes.byref(subscriber), self._callback, None)),
            ("cuptiEnableCallback", (1, subscriber, _RESOURCE, _MODULE_LOADED)),
            *(("cuptiEnableCallback", (1, subscriber, _DRIVER, number)) for number in (_LOAD_FILE, *_LOAD_DATA)),
        ):
            if code := getattr(cupti, name)(*arguments):
                raise OSError(f"{name}: CUPTI error {code}")

    def _loaded(self, user: int, domain: int, event: int, data: int) -> None:
        if domain == _DRIVER:
            self._returned(event, ctypes.cast(data, ctypes.POINTER(_Call)).contents)
            return
        resource = ctypes.cast(data, ctypes.POINTER(_Resource)).contents
        module = ctypes.cast(resource.details, ctypes.POINTER(_Module)).contents
        if module.image and module.size:
            self.images.append(ctypes.string_at(module.image, module.size))

    def _returned(self, function: int, call: _Call) -> None:
        """Note which module a call of the driver has made of which code."""
        if call.site != _AFTER or call.status.contents.value:
            return
        module = ctypes.cast(call.arguments[0] or 0, ctypes.POINTER(driver.Handle)).contents.value
        place = call.arguments[1] or 0
        if function == _LOAD_FILE:
            image = Path(ctypes.string_at(place).decode()).read_bytes()
        else:
            image = ctypes.string_at(place, _ELF_HEADER_BYTES)
        if image.startswith(_ELF):  # not PTX, which is compiled on the way, nor a container of several
            image = image if function == _LOAD_FILE else ctypes.string_at(place, cubin.elf_size(image))
            self._by_module[module or 0] = image

    def number(self, function: int, name: str) -> int:
        """Return the number of a function's code; raises `NotLiftable` where nobody has seen it loaded."""
        if function not in self._numbers:
            image = self._image_of(function, name)
            if image is None:
                raise NotLiftable(f"the compiled code of {name} was not seen")
            if image not in self.used:
                self.used.append(image)
            self._numbers[function] = self.used.index(image)
        return self._numbers[function]

    def _image_of(self, function: int, name: str) -> bytes | None:
        """Return the code that a function came from, the last loaded of its name if no module tells, or None."""
        module = driver.Handle()
        if driver.status("cuFuncGetModule", ctypes.byref(module), driver.Handle(function)) == 0:
            image = self._by_module.get(module.value or 0)
            if image is not None:
                return image
        if function not in self._triton:
            self._triton = _triton_codes()
        if function in self._triton:
            return self._triton[function]
        marker = b"\0.text." + name.encode() + b"\0"
        return next((image for image in reversed(self.images) if marker in image), None)


def _triton_codes() -> dict[int, bytes]:
    """Return the cubins that Triton has loaded, by function: an autotuned kernel has one name for many codes."""
    compiler: Any = sys.modules.get("triton.compiler.compiler")
    if compiler is None:
        return {}
    kernels = [found for found in gc.get_objects() if type(found) is compiler.CompiledKernel]
    return {k.function: k.asm["cubin"] for k in kernels if isinstance(k.function, int)}


def _cupti() -> str:
    """Return the CUPTI that torch has loaded, else the name under which the system may know one."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.rpartition(" ")[2]
        if "libcupti.so" in path:
            return path
    return "libcupti.so"
