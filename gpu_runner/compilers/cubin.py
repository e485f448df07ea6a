"""Facts from machine code without any CUDA tool.

A cubin is an ELF file whose .nv.info sections list resources. Attribute codes as printed by `cuobjdump -elf`: 0x2f
register count, 0x11 frame size (local memory a thread uses).

nvcc embeds cubins in objects and libraries, in the section `.nv_fatbin`: containers, each with a header of 16 bytes and
entries for one architecture each: PTX (kind 1) or a cubin (kind 2). Field offsets were read off files that nvcc 13.0
wrote; the test compares with `cuobjdump -xelf`.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from forewarp.core.inspection import Code
from forewarp.gpu_runner.compilers import sass
from forewarp.gpu_runner.compilers.process import CompileError

_FOR_DEBUGGERS = re.compile(r"(?:\.rela?)?\.(?:nv_)?debug_|\.note|\.comment")
_REGISTERS, _FRAME = 0x2F, 0x11
_SYMTAB, _NOBITS, _DYNSYM = 2, 8, 11
_ENTRY = 0x10
_RESERVED_SHARED = 1024
"""On sm_90 and later the driver keeps this much of each block's shared memory, and the cubin counts it in."""


class _Section(NamedTuple):
    name: str
    kind: int
    size: int
    contents: bytes


def _sections(image: bytes) -> Iterator[_Section]:
    """Yield each ELF section; one without bytes in the file, such as shared memory, has a size all the same."""
    offset, entry, count, names = (struct.unpack_from("<Q", image, 0x28)[0], *struct.unpack_from("<HHH", image, 0x3A))
    headers = [struct.unpack_from("<IIQQQQIIQQ", image, offset + i * entry) for i in range(count)]
    strings = headers[names]
    for name, kind, _flags, _addr, start, size, *_ in headers:
        begin = strings[4] + name
        label = image[begin : image.index(b"\0", begin)].decode()
        yield _Section(label, kind, size, b"" if kind == _NOBITS else image[start : start + size])


def _symbols(sections: list[_Section], kind: int = _SYMTAB, names: str = ".strtab") -> dict[int, str]:
    table = next((x.contents for x in sections if x.kind == kind), b"")
    strings = next((x.contents for x in sections if x.name == names), b"")
    found: dict[int, str] = {}
    for index in range(len(table) // 24):
        name = struct.unpack_from("<I", table, index * 24)[0]
        found[index] = strings[name : strings.index(b"\0", name)].decode() if name < len(strings) else ""
    return found


def section(image: bytes, name: str) -> bytes:
    return next((x.contents for x in _sections(image) if x.name == name), b"")


def digest(image: bytes) -> bytes:
    """Return a hash that is equal for cubins that do the same; parts for debuggers, which hold paths, are left out."""
    found = hashlib.sha256()
    try:
        found.update(image[:0x20] + image[0x30:0x34])  # for which architecture it is
        for part in _sections(image):
            if not _FOR_DEBUGGERS.match(part.name):
                found.update(f"{part.name}\0{part.kind}\0{part.size}\0".encode() + part.contents)
    except (struct.error, ValueError, IndexError, OverflowError):
        found.update(image)
    return found.digest()


def check_defined(library: bytes, functions: Iterable[str]) -> None:
    """Raise `CompileError` for functions of a launch plan that a shared library does not have."""
    sections = list(_sections(library))
    if missing := sorted(set(functions) - set(_symbols(sections, _DYNSYM, ".dynstr").values())):
        raise CompileError(f'the launch plan names {missing}, which the source does not define as extern "C" functions')


def codes(image: bytes, arch: str) -> dict[str, Code]:
    """Return the kernels of a cubin's bytes by name; `arch` is such as "sm_90"."""
    sections = list(_sections(image))
    symbols = _symbols(sections)
    attributes, entries = _attributes(sections, symbols), _entries(sections, symbols)
    shared = {x.name[11:]: x.size for x in sections if x.name.startswith(".nv.shared.")}
    reserved = _RESERVED_SHARED if int(arch.removeprefix("sm_")) >= 90 else 0
    found: dict[str, Code] = {}
    for section in sections:
        if not section.name.startswith(".text."):
            continue
        kernel = section.name[6:]
        if kernel not in entries:
            continue  # a device function that was not inlined
        instructions = sass.count(section.contents, arch)
        found[kernel] = Code(
            kernel=kernel,
            registers=attributes.get((kernel, _REGISTERS), 0),
            stack_bytes=attributes.get((kernel, _FRAME), 0),
            static_shared_bytes=max(0, shared.get(kernel, 0) - reserved),
            code_bytes=section.size,
            mix=instructions.mix,
            loops=instructions.loops,
            widths=instructions.widths,
        )
    return found


def _entries(sections: list[_Section], symbols: dict[int, str]) -> set[str]:
    table = next((x.contents for x in sections if x.kind == _SYMTAB), b"")
    return {name for index, name in symbols.items() if table[index * 24 + 5] & _ENTRY}


def _attributes(sections: list[_Section], symbols: dict[int, str]) -> dict[tuple[str, int], int]:
    info = next((x.contents for x in sections if x.name == ".nv.info"), b"")
    found: dict[tuple[str, int], int] = {}
    position = 0
    while position + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, position)
        position += 4
        if form != 4:
            continue
        if attribute in (_REGISTERS, _FRAME) and size >= 8:
            symbol, value = struct.unpack_from("<II", info, position)
            found[symbols.get(symbol, ""), attribute] = value
        position += size
    return found


_MAGIC = 0xBA55ED50
_KIND_CUBIN = 2
_COMPRESSED = 0x2000 | 0x8000  # LZ4, Zstandard


def embedded_cubins(library: bytes, arch: str) -> list[bytes] | None:
    """Return the cubins for `arch`, such as "sm_90", in a library's or object's bytes, in their order.

    None where one is compressed, as nvcc does without `--no-compress`.
    """
    number = int(arch.removeprefix("sm_").rstrip("af"))
    found: list[bytes] = []
    for kind, built_for, flags, payload in _fatbin_entries(section(library, ".nv_fatbin")):
        if kind != _KIND_CUBIN or built_for != number:
            continue
        if flags & _COMPRESSED:
            return None
        found.append(payload[: elf_size(payload)])
    return found


def _fatbin_entries(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
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


def elf_size(header: bytes) -> int:
    """Return where an ELF file ends, from its first 64 bytes."""
    programs, sections = struct.unpack_from("<QQ", header, 0x20)
    sizes = struct.unpack_from("<HHHH", header, 0x36)
    return max(programs + sizes[0] * sizes[1], sections + sizes[2] * sizes[3])
