"""Read the machine code that nvcc embeds in objects and libraries: the section `.nv_fatbin`.

The section holds containers, each with a header of 16 bytes and entries for one architecture each: PTX (kind 1) or a
cubin (kind 2). Field offsets were read off files that nvcc 13.0 wrote; the test compares with `cuobjdump -xelf`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from forewarp.gpu_runner.compilers.cubin import section

_MAGIC = 0xBA55ED50
_CUBIN = 2
_COMPRESSED = 0x2000 | 0x8000  # LZ4, Zstandard


def cubins(library: bytes, arch: str) -> list[bytes] | None:
    """Return the cubins for `arch`, such as "sm_90", in a library's or object's bytes, in their order.

    None where one is compressed, as nvcc does without `--no-compress`.
    """
    number = int(arch.removeprefix("sm_").rstrip("af"))
    found: list[bytes] = []
    for kind, built_for, flags, payload in _entries(section(library, ".nv_fatbin")):
        if kind != _CUBIN or built_for != number:
            continue
        if flags & _COMPRESSED:
            return None
        found.append(payload[: _elf_size(payload)])
    return found


def _entries(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield kind, architecture's number, flags and payload of each entry."""
    place = 0
    while place + 16 <= len(data):
        magic, _, header, size = struct.unpack_from("<IHHQ", data, place)
        if magic != _MAGIC:
            place += 8  # between containers
            continue
        entry, place = place + header, place + header + size
        while entry + 64 <= place:
            kind, _, own_header, length = struct.unpack_from("<HHIQ", data, entry)
            (number,) = struct.unpack_from("<I", data, entry + 28)
            (flags,) = struct.unpack_from("<Q", data, entry + 40)
            start = entry + own_header
            yield kind, number, flags, data[start : start + length]
            entry = start + length


def _elf_size(image: bytes) -> int:
    """Return where an ELF file ends; the container fills it up to a multiple of eight bytes."""
    programs, sections = struct.unpack_from("<QQ", image, 0x20)
    sizes = struct.unpack_from("<HHHH", image, 0x36)
    ends = (programs + sizes[0] * sizes[1], sections + sizes[2] * sizes[3])
    return min(len(image), max(ends))
