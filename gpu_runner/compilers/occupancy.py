"""Occupancy: the number of blocks of a kernel that a multiprocessor holds at a time.

Limits by compute capability are those of the CUDA C++ Programming Guide, "Technical Specifications per Compute
Capability"; registers are given out per warp in units of 256 and from four equal files, shared memory per block in
units of 128 bytes with 1 KiB for the driver (CUDA Occupancy Calculator).
"""

from __future__ import annotations

from dataclasses import dataclass

from forewarp.core.inspection import Code, Launch, Limiter, Occupancy
from forewarp.core.values import Target

_REGISTERS = 65536
_REGISTER_FILES = 4
_REGISTER_UNIT = 256
_SHARED_UNIT = 128
RESERVED_SHARED = 1024
"""Bytes of shared memory that the driver keeps of each block."""


@dataclass(frozen=True, slots=True)
class MultiprocessorLimits:
    """Limits of one multiprocessor; `shared_bytes` is all of its shared memory, with the part that the driver keeps."""

    warps: int
    blocks: int
    shared_bytes: int


_LIMITS = {
    80: MultiprocessorLimits(64, 32, 164 << 10),
    86: MultiprocessorLimits(48, 16, 100 << 10),
    87: MultiprocessorLimits(48, 16, 164 << 10),
    89: MultiprocessorLimits(48, 24, 100 << 10),
    90: MultiprocessorLimits(64, 32, 228 << 10),
    100: MultiprocessorLimits(64, 32, 228 << 10),
    120: MultiprocessorLimits(48, 24, 100 << 10),
}


def limits(arch: str) -> MultiprocessorLimits:
    """Return the limits of "sm_90", or of the nearest older architecture that is known."""
    number = int(arch.removeprefix("sm_").rstrip("af"))
    return _LIMITS[max((n for n in _LIMITS if n <= number), default=min(_LIMITS))]


def occupancy(code: Code, threads: int, dynamic_shared: int, target: Target) -> Occupancy:
    """Work out how many blocks of `threads` threads are resident on one multiprocessor, and what limits them."""
    most = limits(target.arch)
    warps = max(1, -(-threads // 32))
    per_warp = _round_up(max(1, code.registers) * 32, _REGISTER_UNIT)
    shared = _round_up(code.static_shared_bytes + dynamic_shared + RESERVED_SHARED, _SHARED_UNIT)
    room: dict[Limiter, int] = {
        "threads": most.warps // warps,
        "registers": _REGISTERS // _REGISTER_FILES // per_warp * _REGISTER_FILES // warps,
        "shared memory": most.shared_bytes // shared,
        "blocks": most.blocks,
    }
    limiter = min(room, key=lambda what: room[what])
    blocks = room[limiter]
    return Occupancy(blocks, blocks * warps, blocks * warps / most.warps, limiter)


def launch(
    code: Code,
    grid: tuple[int, int, int] | None,
    block: tuple[int, int, int] | None,
    dynamic_shared: int,
    target: Target,
    times: int = 1,
) -> Launch:
    """Describe one launch on `target`, with occupancy and waves as far as its geometry is known."""
    if block is None:
        return Launch(code, grid, block, dynamic_shared, times=times)
    held = occupancy(code, block[0] * block[1] * block[2], dynamic_shared, target)
    # A grid without blocks would divide by zero: values that a trace lacks may have led to one.
    if grid is None or not held.blocks or not all(grid):
        return Launch(code, grid, block, dynamic_shared, held, times=times)
    waves = grid[0] * grid[1] * grid[2] / (held.blocks * target.processors)
    whole = -int(-waves // 1)
    return Launch(code, grid, block, dynamic_shared, held, waves, 1 - waves / whole, times)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
