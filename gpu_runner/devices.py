"""Find the device to measure on, without making a CUDA context in this process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
import sys

from forewarp.core.errors import DeviceError, UsageError
from forewarp.core.values import Target

# Dense peak rates: processors, memory bytes/s, fp32 FLOP/s, bf16 tensor FLOP/s, L2 bytes, shared bytes a block may use,
# memory bytes, and where the numbers stand. A block's shared memory is in the CUDA C++ Programming Guide.
_SPECS: dict[str, Target] = {
    "a100": Target(
        *("NVIDIA A100-SXM4-80GB", "cuda", "sm_80", 108, 2.039e12, 19.5e12, 312e12, 40 << 20, 166912, 80 << 30),
        source="NVIDIA A100 80GB data sheet; L2 and multiprocessors: A100 architecture white paper",
    ),
    "h100": Target(
        *("NVIDIA H100 SXM", "cuda", "sm_90", 132, 3.35e12, 67e12, 989e12, 50 << 20, 232448, 80 << 30),
        source="NVIDIA H100 data sheet; L2 and multiprocessors: H100 architecture white paper",
    ),
    "h200": Target(
        *("NVIDIA H200", "cuda", "sm_90", 132, 4.8e12, 67e12, 989e12, 60 << 20, 232448, 141 << 30),
        source="NVIDIA H200 data sheet; L2 and multiprocessors: as its driver says",
    ),
    "b200": Target(
        *("NVIDIA B200", "cuda", "sm_100", 148, 8.0e12, 75e12, 2250e12, 126 << 20, 232448, 180 << 30),
        source="NVIDIA DGX B200 data sheet, an eighth of it; L2 and multiprocessors: Blackwell tuning guide",
    ),
    "l40s": Target(
        *("NVIDIA L40S", "cuda", "sm_89", 142, 864e9, 91.6e12, 362e12, 96 << 20, 101376, 48 << 30),
        source="NVIDIA L40S data sheet; L2 and multiprocessors: Ada architecture white paper",
    ),
    "rtx4090": Target(
        *("NVIDIA GeForce RTX 4090", "cuda", "sm_89", 128, 1.008e12, 82.6e12, 165e12, 72 << 20, 101376, 24 << 30),
        source="NVIDIA Ada architecture white paper, appendix A",
    ),
}

_ATTRIBUTES = {"processors": 16, "l2_bytes": 38, "major": 75, "minor": 76, "shared_bytes": 97}


def known_targets() -> dict[str, Target]:
    return dict(_SPECS)


def detect_cpu() -> Target:
    """Describe this machine's processor; rates stay unknown, because nothing here has measured them."""
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as f:
        name = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), name)
    count = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return Target(name, "cpu", platform.machine(), count, source="/proc/cpuinfo")


def detect_cuda(index: int = 0) -> Target | None:
    """Ask the CUDA driver for device `index`; None where there is no driver or no such device."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    count = ctypes.c_int()
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value <= index:
        return None
    device, memory, name = ctypes.c_int(), ctypes.c_size_t(), ctypes.create_string_buffer(128)
    driver.cuDeviceGet(ctypes.byref(device), index)
    driver.cuDeviceGetName(name, 128, device)
    driver.cuDeviceTotalMem_v2(ctypes.byref(memory), device)

    def attribute(key: str) -> int:
        value = ctypes.c_int()
        driver.cuDeviceGetAttribute(ctypes.byref(value), _ATTRIBUTES[key], device)
        return value.value

    found = name.value.decode()
    squeezed = found.lower().replace(" ", "").replace("-", "")
    spec = next((t for key, t in _SPECS.items() if key in squeezed), None)
    return Target(
        name=found,
        kind="cuda",
        arch=f"sm_{attribute('major')}{attribute('minor')}",
        processors=attribute("processors"),
        memory_bandwidth=spec.memory_bandwidth if spec else None,
        fp32_flops=spec.fp32_flops if spec else None,
        tensor_flops=spec.tensor_flops if spec else None,
        l2_bytes=attribute("l2_bytes"),
        shared_bytes=attribute("shared_bytes"),
        memory_bytes=memory.value,
        source=f"driver; rates: {spec.source}" if spec else "driver; rates unknown",
    )


def indices(device: str) -> list[int]:
    """Return which GPUs a device's name means: the first, the N-th of "cuda:N", or all of the first one's kind."""
    which = device.partition(":")[2]
    if which != "all":
        return [int(which or 0)]
    first = detect_cuda(0)
    found = [0]
    while (other := detect_cuda(len(found))) is not None:
        found.append(len(found))
        if first is not None and other.name != first.name:
            raise DeviceError(
                f"{first.name} and {other.name} do not mix: times of different devices say nothing together",
                hint="choose one with --device cuda:N, or some with CUDA_VISIBLE_DEVICES",
            )
    return found


def is_called(target: Target, name: str) -> bool:
    """Return whether a name such as "h200" or "cpu" means this target: whole words of its name, in any letter case."""
    wanted, words = "".join(_words(name)), _words(target.name)
    parts = {"".join(words[i:j]) for i in range(len(words)) for j in range(i + 1, len(words) + 1)}
    return wanted == target.kind or wanted in parts


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", name.lower())


def choose(device: str) -> Target:
    """Return the target for "auto" (which prefers cuda), "cuda", "cuda:N", "cuda:all" or "cpu".

    Raises `UsageError` for another name, `DeviceError` if the device asked for is not there.
    """
    name, _, which = device.partition(":")
    if name not in ("auto", "cuda", "cpu") or (which and (name != "cuda" or not (which == "all" or which.isdigit()))):
        raise UsageError(f"device {device!r} is unknown", hint="use auto, cuda, cuda:N, cuda:all, cpu or replay")
    cuda = detect_cuda(indices(device)[0]) if name != "cpu" else None
    if name == "cuda" and cuda is None:
        raise DeviceError(
            "no CUDA device was found", hint="check `nvidia-smi`, or use --device cpu; `forewarp doctor` says more"
        )
    return cuda or detect_cpu()
