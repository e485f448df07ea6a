"""The memory that measuring a workload surely takes, reckoned from its signature before anything is allocated.

What a reference or candidate allocates beyond one intermediate tensor as large as the outputs is not known.
"""

from __future__ import annotations

import contextlib
import math
import resource
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from forewarp.core.values import Signature, TensorSpec
from forewarp.gpu_runner.formats import c_types

How = Literal["launched", "cells", "validated"]
"""By the launcher, in two cells beside the judge, or looked at by `validate`."""

LAUNCHED_SLOTS, CELL_SLOTS = 8, 3
SLOT_BYTES: Mapping[str, int] = {"cuda": 8 << 30, "cpu": 2 << 30}
"""Of buffers for inputs and their copies, by device: so much is spent on having several sets of them."""
WHOLE_BYTES: Mapping[str, int] = {"cuda": 2 << 30, "cpu": 256 << 20}
"""Inputs and outputs in fp64 of more than these bytes go through the oracle in pieces, where the reference allows."""
PIECE_BYTES: Mapping[str, int] = {"cuda": 512 << 20, "cpu": 32 << 20}
"""Inputs and outputs of one such piece."""
_STEP_BYTES: Mapping[str, int] = {"cuda": 256 << 20, "cpu": 16 << 20}
"""What comparing takes beside the tensors."""
_CONTEXT_BYTES = 600 << 20
"""Of a CUDA context with torch's kernels loaded."""
_GB = 1e9


@dataclass(frozen=True, slots=True)
class Plan:
    """Number of sets of inputs that a workload is measured on; `lean` keeps no copies, but draws inputs again."""

    slots: int
    lean: bool = False


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes by what they are for."""

    parts: Mapping[str, int]

    @property
    def total(self) -> int:
        """All bytes."""
        return sum(self.parts.values())

    def __str__(self) -> str:
        largest = sorted(((v, k) for k, v in self.parts.items() if v >= self.total / 50), reverse=True)
        return f"{self.total / _GB:.1f} GB ({', '.join(f'{k} {v / _GB:.1f}' for v, k in largest)})"


def bytes_of(specs: Sequence[TensorSpec], *, wide: bool = False) -> int:
    """Return the bytes of contiguous tensors; `wide` as the oracle has them, numbers of floating point in fp64."""
    total = 0
    for spec in specs:
        total += math.prod(spec.shape) * (wide_item_bytes(spec.dtype) if wide else c_types.size(spec.dtype))
    return total


def wide_item_bytes(dtype: str) -> int:
    """Return the bytes of an element of this dtype as the oracle has it."""
    if dtype.startswith("complex"):
        return 16
    return 8 if dtype.startswith(("float", "bfloat")) else c_types.size(dtype)


def in_pieces(inputs: int, outputs: int, device: str) -> bool:
    """Return whether the oracle works in pieces, given the bytes of inputs and outputs in fp64."""
    return inputs + outputs > WHOLE_BYTES[device]


def ordinary(signature: Signature, how: How, device: str) -> Plan:
    """Return the plan for as much memory as one likes: several sets of inputs, as long as these are small."""
    taken = bytes_of(signature.inputs)
    if is_large(taken, device):
        return Plan(1, lean=True)
    if how == "cells":
        return Plan(CELL_SLOTS)
    return Plan(max(2, min(LAUNCHED_SLOTS, SLOT_BYTES[device] // max(2 * taken, 1))))


def is_large(taken: int, device: str) -> bool:
    """Return whether inputs of so many bytes are too large for copies and a second set."""
    return 4 * taken > SLOT_BYTES[device]


def needed(signature: Signature, plan: Plan, how: How, device: str) -> Need:
    """Return what measuring takes: of device memory, or of main memory for the CPU device."""
    inputs, weights, outputs = (bytes_of(s) for s in (signature.inputs, signature.params, signature.outputs))
    outputs += sum(bytes_of([signature.inputs[i]]) for i in signature.written)
    wide_inputs, wide_weights = bytes_of(signature.inputs, wide=True), bytes_of(signature.params, wide=True)
    wide_outputs = bytes_of(signature.outputs, wide=True)
    step = _STEP_BYTES[device]
    if in_pieces(wide_inputs, wide_outputs, device):
        oracle, exact = wide_weights + 2 * PIECE_BYTES[device], 0
    else:
        oracle, exact = wide_inputs + wide_weights + 2 * wide_outputs, wide_outputs
    arms = 2 if how == "cells" else 1
    expecting = oracle + 2 * outputs + (inputs if plan.lean else (plan.slots - 1) * (exact + outputs))
    parts = {
        "inputs": arms * plan.slots * inputs,
        "copies of inputs": 0 if plan.lean else plan.slots * inputs,
        "outputs": arms * outputs,
        "weights": (5 if how == "cells" else 2) * weights,
        "expected values": expecting,
        "results of modules": 3 * outputs if how == "cells" else 0,
        "comparison": step,
    }
    if how == "validated":
        parts = {
            "inputs": 3 * inputs,
            "outputs": 5 * outputs,
            "weights": 3 * weights,
            "expected values": oracle + exact + outputs,
            "comparison": step,
        }
    if device == "cuda":
        parts["CUDA contexts"] = (3 if how == "cells" else 1) * _CONTEXT_BYTES
    return Need(parts)


def plan(signature: Signature, how: How, device: str, capacity: int | None) -> Plan:
    """Return the ordinary plan, or the one that takes least where that does not fit into `capacity` bytes."""
    usual = ordinary(signature, how, device)
    if capacity is None or needed(signature, usual, how, device).total <= capacity:
        return usual
    return Plan(1, lean=True)


def refusal(signature: Signature, how: How, device: str, capacity: int | None, name: str) -> str:
    """Say that a workload does not fit whatever is done, with the bytes needed; "" where it may."""
    if capacity is None:
        return ""
    need = needed(signature, plan(signature, how, device, capacity), how, device)
    if need.total <= capacity:
        return ""
    kind = "device memory" if device == "cuda" else "main memory"
    return (
        f"the workload {signature.workload} needs {need} of {kind}, {name} has {capacity / _GB:.1f} GB; choose a"
        " smaller shape by --size, or a device with more memory"
    )


class HostMemory:
    """Main memory that can be had, by the kernel and the control groups; found once, looked at often."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._meminfo = root / "proc/meminfo"
        whole = number_in(self._meminfo, "MemTotal:") << 10
        self._groups: list[tuple[Path, Path, Path]] = []
        for folder in _control_groups(root):
            for limit, used in (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")):
                with contextlib.suppress(OSError, ValueError):
                    if not whole or int((folder / limit).read_text()) < whole:
                        self._groups.append((folder, folder / limit, folder / used))

    def available(self) -> int | None:
        """Return the bytes; None where they are not known."""
        free = number_in(self._meminfo, "MemAvailable:", missing=-1)
        found = [free << 10] if free >= 0 else []
        for folder, limit, used in self._groups:
            with contextlib.suppress(OSError, ValueError):
                left = int(limit.read_text()) - int(used.read_text())
                # Files in memory are given back when they are needed.
                given_back = number_in(folder / "memory.stat", "inactive_file ", "total_inactive_file")
                found.append(max(0, left + given_back))
        return min(found) if found else None


def host_available(root: Path = Path("/")) -> int | None:
    """Return the bytes of main memory that can be had now; None where unknown."""
    return HostMemory(root).available()


def _control_groups(root: Path) -> list[Path]:
    """Return the folders of this process's control groups and of those around them."""
    base = root / "sys/fs/cgroup"
    folders = [base, base / "memory"]
    with contextlib.suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "memory" not in controllers.split(","):
                continue
            top = base / "memory" if controllers else base
            inner = top / path.strip("/")
            folders += [f for f in (inner, *inner.parents) if f != top and top in f.parents]
    return folders


def number_in(path: Path, *names: str, missing: int = 0) -> int:
    """Return the number in the first line of a kernel's file that begins with one of these names."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        return int(next(line.split()[1] for line in path.read_text().splitlines() if line.startswith(names)))
    return missing


def bound_host() -> None:
    """Have this process fail to allocate, instead of being ended, once it takes more than what can be had now."""
    available = host_available()
    used = number_in(Path("/proc/self/status"), "VmData:", missing=-1) << 10
    if available is None or used < 0:
        return
    with contextlib.suppress(OSError, ValueError):
        hard, limit = resource.getrlimit(resource.RLIMIT_DATA)[1], used + available
        if hard == resource.RLIM_INFINITY or limit < hard:
            resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
