"""Count the machine instructions of a cubin by class, without a disassembler.

From Volta to Blackwell an instruction has 128 bits, the lowest nine of which name the operation; the forms of its
operands lie above. Loads and stores keep the width of an access in bits 73 to 75. The table was read off nvdisasm
(CUDA 13) for sm_80, sm_89, sm_90a, sm_100a and sm_120a; `tests/gpu_runner/test_sass.py` compares the two.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

_BYTES = 16
_OPERATION = 0x1FF
_BRANCH = 0x147

_CLASSES: dict[str, tuple[int, ...]] = {
    "global_load": (0x181, 0x180),
    "global_store": (0x186, 0x185),
    "shared_load": (0x184,),
    "shared_store": (0x188,),
    "local_load": (0x183,),
    "local_store": (0x187,),
    "constant_load": (0x182, 0x0B9, 0x1AC),
    "async_copy": (0x1AE,),
    "bulk_copy": (0x1B4, 0x1B5, 0x1B6, 0x1BA),
    "matrix_move": (0x03A, 0x03B, 0x044, 0x1ED, 0x1EE),
    "tensor": (0x037, 0x03C, 0x03F, 0x07A, 0x1EA, 0x1F0, 0x1F1, 0x1F3),
    "special": (0x108,),
    "fp32": (0x008, 0x009, 0x00B, 0x020, 0x021, 0x023, 0x049, 0x04B, 0x076, 0x102),
    "fp64": (0x028, 0x029, 0x02A, 0x02B),
    "fp16": (0x030, 0x031, 0x032, 0x033, 0x034, 0x040),
    "convert": (0x03E, 0x045, 0x104, 0x105, 0x106, 0x107, 0x110, 0x111, 0x112),
    "atomic": (0x18A, 0x18C, 0x18D, 0x18E, 0x1A2, 0x1A3, 0x1A8, 0x1A9),
    "shuffle": (0x006, 0x086, 0x0CC, 0x189, 0x1A1, 0x1C4),
    "barrier": (0x11A, 0x11D, 0x1A7, 0x1AF, 0x1B1, 0x1B2, 0x1C5, 0x1C7, 0x1E9),
    "fence": (0x18F, 0x192, 0x1C6),
    "branch": (0x141, 0x143, 0x144, 0x145, 0x146, 0x147, 0x148, 0x149, 0x14D, 0x150),
    "integer": (
        *(0x010, 0x011, 0x012, 0x013, 0x014, 0x015, 0x016, 0x017, 0x019, 0x01A, 0x00C, 0x024, 0x025, 0x026, 0x027),
        *(0x036, 0x046, 0x048, 0x087, 0x08C, 0x090, 0x091, 0x092, 0x097, 0x099, 0x09A, 0x0A4, 0x0A5, 0x100, 0x101),
        *(0x109, 0x0BD),
    ),
    "move": (0x002, 0x003, 0x004, 0x005, 0x007, 0x01C, 0x02F, 0x082, 0x09C, 0x0CA, 0x0CB, 0x11C, 0x119, 0x1C2, 0x1C3),
    "padding": (0x118, 0x15C),
}
_CLASS_OF = {operation: name for name, operations in _CLASSES.items() for operation in operations}
_BITS = (8, 8, 16, 16, 32, 64, 128)
_WITH_WIDTH = ("global_load", "global_store", "shared_load", "shared_store")
_NAMED = {0x1B4: "UTMALDG", 0x1B5: "UTMASTG", 0x1F0: "HGMMA", 0x1F1: "IGMMA", 0x1F3: "QGMMA"}
"""Hopper's own instructions, TMA and wgmma, which are counted by name besides."""
_SHARED_OPERATION = 0x035
"""Opcode that is HFMA2 with bf16 operands before sm_120, IADD from there on."""


@dataclass(frozen=True, slots=True)
class Instructions:
    """Instructions of one kernel by class, without padding: all of them, and those inside a loop.

    `widths` counts accesses by class and bits ("global_load.128"), and Hopper's own instructions by name
    ("tensor.HGMMA").
    """

    mix: Mapping[str, int]
    loops: Mapping[str, int]
    widths: Mapping[str, int]


def count(code: bytes, arch: str) -> Instructions:
    """Count the instructions of a kernel's section of machine code; `arch` is such as "sm_90"."""
    number = int(arch.removeprefix("sm_").rstrip("af"))
    words = [low | high << 64 for low, high in struct.iter_unpack("<QQ", code[: len(code) // _BYTES * _BYTES])]
    names = [_class(word & _OPERATION, number) for word in words]
    looped = _looped(words, number)
    mix, loops, widths = Counter[str](), Counter[str](), Counter[str]()
    for word, name, inside in zip(words, names, looped, strict=True):
        if name == "padding":
            continue
        mix[name] += 1
        if inside:
            loops[name] += 1
        if (bits := _width(word, name, number)) is not None:
            widths[f"{name}.{bits}"] += 1
        elif 90 <= number < 100 and (own := _NAMED.get(word & _OPERATION)):
            widths[f"{name}.{own}"] += 1
    return Instructions(dict(mix), dict(loops), dict(widths))


def _class(operation: int, number: int) -> str:
    if operation == _SHARED_OPERATION:
        return "integer" if number >= 120 else "fp16"
    return _CLASS_OF.get(operation, "other")


def _width(word: int, name: str, number: int) -> int | None:
    code = word >> 73 & 7
    if name in _WITH_WIDTH:
        return _BITS[code] if code < len(_BITS) else 256
    if name == "async_copy":
        return {0: 32, 2: 64, 4: 128}.get(code) if number >= 100 else _BITS[min(code, 6)]
    return None


def _looped(words: list[int], number: int) -> list[bool]:
    """Mark what lies between the target of a backward branch and the branch."""
    depth = [0] * (len(words) + 1)
    for place, word in enumerate(words):
        if word & _OPERATION == _BRANCH:
            target = place + 1 + _distance(word, number)
            # A branch to itself is the trap behind the last instruction.
            if 0 <= target < place:
                depth[target] += 1
                depth[place + 1] -= 1
    marks: list[bool] = []
    inside = 0
    for change in depth[:-1]:
        inside += change
        marks.append(inside > 0)
    return marks


def _distance(word: int, number: int) -> int:
    """Return how many instructions a relative branch skips, counted from the next one."""
    high = word >> 34 & (1 << 48) - 1
    high -= (high >> 47) << 48
    units = (high << 8 | word >> 16 & 0xFF) if number >= 90 else high
    return units * 4 // _BYTES
