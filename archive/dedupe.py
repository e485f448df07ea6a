"""Deduplication of measured candidates: by text without comments, and by compiled code."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from forewarp.archive import text
from forewarp.core.values import DEVICE_ONLY, Candidate

COLUMNS = (
    *("task_sha256", "target", "against", "stripped_sha256", "binary_sha256"),
    *("language", "source", "tunables", "facts", "status", "low", "high"),
)
"""Columns of a row that `choose` reads."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Numbers of the rows to keep, in order, and how many were dropped for which reason."""

    kept: tuple[int, ...]
    same_text: int
    same_code: int


def choose(rows: Iterable[Mapping[str, Any]]) -> Chosen:
    """Choose, among rows that are one candidate on one task, target and anchor, the one with the narrowest interval.

    Two candidates are one if their texts without comments, launch plans and tunables are equal, or if they launch the
    same machine code in the same way. A Python module's host code is not in its binary, so modules count by text only.
    """
    by_text: dict[object, tuple[float, int]] = {}
    codes: dict[int, object] = {}
    total = 0
    for number, row in enumerate(rows):
        total += 1
        where = (row["task_sha256"], row["target"], row["against"])
        _put(by_text, (*where, row["stripped_sha256"]), (_width(row), number))
        code = _code(row)
        if code:
            codes[number] = (*where, code)
    survivors = sorted(by_text.values(), key=lambda entry: entry[1])
    by_code: dict[object, tuple[float, int]] = {}
    for width, number in survivors:
        _put(by_code, codes.get(number, number), (width, number))
    kept = sorted(number for _, number in by_code.values())
    return Chosen(tuple(kept), total - len(survivors), len(survivors) - len(kept))


def _put(best: dict[object, tuple[float, int]], key: object, entry: tuple[float, int]) -> None:
    best[key] = min(best.get(key, entry), entry)


def _width(row: Mapping[str, Any]) -> float:
    """Return a sort key: the interval's width in octaves, unknown widths last and failed candidates after those."""
    low, high = row["low"], row["high"]
    if low is not None and high is not None and 0 < low <= high:
        return math.log2(high / low)
    return 1e6 if row["status"] == "ok" else 1e9


def _code(row: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return a key of what runs: machine code, launch plan, and the facts of its launches; None if it is unknown.

    Tunables may change a launch and no instruction, which shows in the facts (blocks, threads, shared memory).
    """
    facts: dict[str, float] = json.loads(row["facts"] or "{}")
    if not row["binary_sha256"] or not facts or row["language"] not in DEVICE_ONLY:
        return None
    launches = text.keys(Candidate(row["source"], row["language"])).launches
    return row["binary_sha256"], launches, json.dumps(dict(sorted(facts.items())))
