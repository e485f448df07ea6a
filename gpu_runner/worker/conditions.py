"""The state of the device beside a measurement: clocks, temperature, power, other users. Read, never set."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any

from forewarp.gpu_runner.worker import watch

# NVML's bits of `nvmlDeviceGetCurrentClocksEventReasons` (nvml.h); idle and user-set clocks are no throttling.
_THROTTLE = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal (software)",
    0x40: "thermal (hardware)",
    0x80: "power brake",
}


class Conditions:
    """State of one GPU by NVML; empty where NVML or its Python binding (nvidia-ml-py) is missing."""

    def __init__(self) -> None:
        """Find the first GPU that torch sees: its UUID stays right under CUDA_VISIBLE_DEVICES."""
        self._nvml: Any = None
        self._handle: Any = None
        with contextlib.suppress(Exception):  # an optional extra: any failure means "not known"
            import pynvml
            import torch

            pynvml.nvmlInit()
            uuid = torch.cuda.get_device_properties(0).uuid
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
            self._nvml = pynvml

    def read(self) -> dict[str, float]:
        """Return what is known of the device now, by the names below."""
        if self._nvml is None:
            return {}
        nvml, handle = self._nvml, self._handle
        found: dict[str, float] = {}
        readings = {
            "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
            "power_w": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1e3,
            "sm_hz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM) * 1e6,
            "memory_hz": lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM) * 1e6,
            "throttle_bits": lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
            "other_processes": self._others,
        }
        for name, read in readings.items():
            with contextlib.suppress(nvml.NVMLError):
                found[name] = float(read())
        return found

    def _others(self) -> int:
        """Count compute processes other than this one; 0 where a container hides them."""
        running = self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
        return sum(p.pid != os.getpid() for p in running)


def processors() -> dict[str, float]:
    """Return what others have used of this process's processors, in seconds for `summary`: that slows one arm only."""
    allowed = os.sched_getaffinity(0)
    found = {"processors": float(len(allowed))}
    with contextlib.suppress(OSError, ValueError, IndexError):
        ours = sum(p.processor_s for p in watch.family([os.getpid()]))
        return found | {"others_s": _used_s(allowed) - ours, "clock_s": time.perf_counter()}
    return found


def _used_s(numbers: set[int]) -> float:
    """Return the seconds for which these processors were not idle since the machine started."""
    names, ticks = {f"cpu{n}" for n in numbers}, 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name in names:
            user, nice, system, _, _, irq, softirq, steal = map(int, fields[:8])
            ticks += user + nice + system + irq + softirq + steal
    return ticks / os.sysconf("SC_CLK_TCK")


def driver() -> str:
    with contextlib.suppress(Exception):  # as above: any failure means "not known"
        import pynvml

        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    return ""


def throttling(bits: float) -> list[str]:
    return [name for bit, name in _THROTTLE.items() if int(bits) & bit]


def summary(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """Merge two readings: the later one, `temperature_c_before`, all throttle reasons, `other_processors` kept busy."""
    if not after:
        return {}
    merged = dict(after)
    others_s, clock_s = merged.pop("others_s", None), merged.pop("clock_s", 0.0)
    if others_s is not None and "others_s" in before and clock_s > before["clock_s"]:
        merged["other_processors"] = max(0.0, (others_s - before["others_s"]) / (clock_s - before["clock_s"]))
    if "temperature_c" in before:
        merged["temperature_c_before"] = before["temperature_c"]
    if "throttle_bits" in after:
        merged["throttle_bits"] = float(int(before.get("throttle_bits", 0)) | int(after["throttle_bits"]))
    if "other_processes" in after:
        merged["other_processes"] = max(before.get("other_processes", 0.0), after["other_processes"])
    return merged
