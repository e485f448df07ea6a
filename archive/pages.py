"""Rows of a damaged SQLite file, read page by page without SQLite: the file format is https://sqlite.org/fileformat2.html.

SQLite gives up on a table at its first damaged page. Here each leaf page is read by itself, so that what one page lost
costs no other page its rows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

MAGIC = b"SQLite format 3\0"
_TABLE_LEAF, _TABLE_INNER, _INDEX_LEAF, _INDEX_INNER = 0x0D, 0x05, 0x0A, 0x02
_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_WAL_MAGIC = (0x377F0682, 0x377F0683)
_MAX_CELL = 256 << 20
"""Longest record that is accepted; a longer one has a damaged length."""

Value = None | int | float | bytes | str


class DamagedCell(Exception):
    """A record that cannot be decoded."""


@dataclass(frozen=True, slots=True)
class Record:
    """One row of some table: its row id and its values; text that is no UTF-8 stays `bytes`."""

    page: int
    rowid: int
    values: tuple[Value, ...]


@dataclass
class Pages:
    """Pages of the file and of its write-ahead log, with a record of those that could not be read."""

    data: dict[int, bytes]
    size: int
    usable: int
    count: int
    damaged: set[int] = field(default_factory=set[int])
    """Pages that hold table rows of which at least one is lost, or that are no page of any kind."""
    cells: int = 0
    """Records that could not be decoded."""

    @classmethod
    def read(cls, path: Path) -> Pages:
        """Read the file and its log; a damaged header is replaced by what forewarp writes."""
        content = path.read_bytes()
        (size,) = struct.unpack(">H", content[16:18].ljust(2, b"\0"))
        size = 65536 if size == 1 else size
        if size < 512 or size & (size - 1):
            size = 4096
        reserved = content[20] if len(content) > 20 else 0
        usable = size - reserved if size - reserved >= 480 else size
        data = {n + 1: content[n * size : (n + 1) * size].ljust(size, b"\0") for n in range(-(-len(content) // size))}
        log = path.with_name(f"{path.name}-wal")
        if log.is_file():
            data |= _committed(log.read_bytes(), size)
        made = cls(data, size, usable, max(data, default=0))
        first = data.get(1, b"").ljust(100, b"\0")
        told = int.from_bytes(first[28:32], "big")
        if first[24:28] == first[92:96] and made.count < told < 2 * made.count + 1000:
            made.damaged |= set(range(made.count + 1, told + 1))  # the file was cut off
        return made

    def records(self) -> Iterator[Record]:
        """Yield the rows of all tables, page by page; `damaged` and `cells` are complete after the last one."""
        free = self._free()
        chained: set[int] = set()
        odd: set[int] = set()
        for number in range(1, self.count + 1):
            page = self.data.get(number, b"")
            start = 100 if number == 1 else 0
            kind = page[start] if len(page) > start else 0
            if number in free or number == 1:
                continue
            if kind == _TABLE_LEAF:
                yield from self._leaf(number, page, chained)
            elif kind not in (_TABLE_INNER, _INDEX_LEAF, _INDEX_INNER):
                odd.add(number)
        # A page of a long value has no mark of its own: it is one if a row that was read goes on there.
        self.damaged |= odd - chained

    def _leaf(self, number: int, page: bytes, chained: set[int]) -> Iterator[Record]:
        cells, pointers = int.from_bytes(page[3:5], "big"), 8
        if pointers + 2 * cells > self.usable:
            cells = 0
            self.damaged.add(number)
        seen: set[int] = set()
        for i in range(cells):
            place = int.from_bytes(page[pointers + 2 * i : pointers + 2 * i + 2], "big")
            try:
                if place in seen or place < pointers + 2 * cells:
                    raise DamagedCell
                seen.add(place)
                yield self._record(number, page, place, chained)
            except (DamagedCell, IndexError, struct.error):
                self.damaged.add(number)
                self.cells += 1

    def _record(self, number: int, page: bytes, place: int, chained: set[int]) -> Record:
        length, place = _varint(page, place)
        rowid, place = _varint(page, place)
        if length > min(_MAX_CELL, self.size * self.count) or length < 1:
            raise DamagedCell
        most, least = self.usable - 35, (self.usable - 12) * 32 // 255 - 23
        here = length
        if length > most:
            here = least + (length - least) % (self.usable - 4)
            here = here if here <= most else least
        if place + here > self.usable:
            raise DamagedCell
        payload = bytearray(page[place : place + here])
        following = int.from_bytes(page[place + here : place + here + 4], "big") if length > here else 0
        visited: list[int] = []
        while len(payload) < length:
            if following in visited or not 1 < following <= self.count or following not in self.data:
                raise DamagedCell
            visited.append(following)
            more = self.data[following]
            payload += more[4 : min(self.usable, 4 + length - len(payload))]
            following = int.from_bytes(more[:4], "big")
        values = _values(bytes(payload))
        chained.update(visited)
        return Record(number, rowid - (1 << 64) if rowid >= 1 << 63 else rowid, values)

    def _free(self) -> set[int]:
        """Return the pages that the file's list of free pages names, as far as it can be followed."""
        found: set[int] = set()
        first = self.data.get(1, b"").ljust(40, b"\0")
        trunk = int.from_bytes(first[32:36], "big")
        while 1 < trunk <= self.count and trunk not in found and trunk in self.data:
            found.add(trunk)
            page = self.data[trunk]
            leaves = min(int.from_bytes(page[4:8], "big"), self.usable // 4 - 2)
            named = struct.unpack(f">{leaves}I", page[8 : 8 + 4 * leaves])
            if any(not 1 < n <= self.count for n in named):
                return set()  # a list that is damaged itself must not hide rows
            found.update(named)
            trunk = int.from_bytes(page[:4], "big")
        return found


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for i in range(9):
        byte = data[place + i]
        if i == 8:
            return value << 8 | byte, place + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + i + 1
    raise DamagedCell


def _values(payload: bytes) -> tuple[Value, ...]:
    header, place = _varint(payload, 0)
    if header > len(payload):
        raise DamagedCell
    kinds: list[int] = []
    while place < header:
        kind, place = _varint(payload, place)
        kinds.append(kind)
    if place != header:
        raise DamagedCell
    values: list[Value] = []
    for kind in kinds:
        value, place = _value(kind, payload, place)
        values.append(value)
    if place != len(payload):
        raise DamagedCell
    return tuple(values)


def _value(kind: int, payload: bytes, place: int) -> tuple[Value, int]:
    if kind in (0, 8, 9):
        return (None if kind == 0 else kind - 8), place
    if kind in (10, 11):
        raise DamagedCell
    length = 8 if kind == 7 else _INTEGER_BYTES[kind] if kind < 7 else (kind - 12) // 2
    raw = payload[place : place + length]
    if len(raw) != length:
        raise DamagedCell
    if kind < 7:
        return int.from_bytes(raw, "big", signed=True), place + length
    if kind == 7:
        return float(struct.unpack(">d", raw)[0]), place + length
    if kind % 2 == 0:
        return raw, place + length
    try:
        return raw.decode(), place + length
    except UnicodeDecodeError:
        return raw, place + length


def _committed(log: bytes, size: int) -> dict[int, bytes]:
    """Return the pages of a write-ahead log up to its last whole transaction, as SQLite itself takes them over."""
    pages: dict[int, bytes] = {}
    if len(log) < 32:
        return pages
    magic, _, page_size = struct.unpack(">3I", log[:12])
    if magic not in _WAL_MAGIC or page_size != size:
        return pages
    order = ">" if magic & 1 else "<"
    sums = _checksum(log[:24], (0, 0), order)
    if sums != struct.unpack(">2I", log[24:32]):
        return pages
    pending: dict[int, bytes] = {}
    for place in range(32, len(log) - size - 23, size + 24):
        head, page = log[place : place + 24], log[place + 24 : place + 24 + size]
        sums = _checksum(page, _checksum(head[:8], sums, order), order)
        if head[8:16] != log[16:24] or sums != struct.unpack(">2I", head[16:24]):
            break
        number, committed = struct.unpack(">2I", head[:8])
        pending[number] = page
        if committed:
            pages |= pending
            pages = {n: p for n, p in pages.items() if n <= committed}
            pending = {}
    return pages


def _checksum(data: bytes, before: tuple[int, int], order: str) -> tuple[int, int]:
    a, b = before
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for x, y in zip(words[::2], words[1::2], strict=True):
        a = (a + x + b) & 0xFFFFFFFF
        b = (b + y + a) & 0xFFFFFFFF
    return a, b
