"""Splits by operation family, and the refusal of splits that leak.

A forecaster is judged on operations of which it has seen no kernel, so a whole family lies in one split. What may not
lie in two: a task, a family, a program, a text without comments, or compiled code.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forewarp.archive import text
from forewarp.archive.rows import RecordedRow
from forewarp.core.errors import UsageError
from forewarp.core.values import Candidate

DEFAULT = Path(__file__).parent / "splits.toml"
NAMES = ("train", "validation", "test")


@dataclass(frozen=True, slots=True)
class Keyed:
    """Keys of a row by which leaks between splits are found; "" where a key is not known."""

    split: str
    task: str
    family: str
    task_sha256: str
    program: str
    text: str
    code: str


def keyed(row: Mapping[str, Any]) -> Keyed:
    """Return the keys by which leaks of a row, given as columns, are found."""
    return Keyed(
        split=row["split"],
        task=row["task"],
        family=row["family"],
        task_sha256=row["task_sha256"],
        program=row["program"],
        text=text.keys(Candidate(row["source"], row["language"])).text if row["source"].strip() else "",
        code=row["binary_sha256"],
    )


def load(path: Path = DEFAULT) -> dict[str, str]:
    """Return the split of each family; raises `UsageError`."""
    try:
        table = tomllib.loads(path.read_text())
    except OSError as e:
        raise UsageError(f"{path} cannot be read: {e.strerror}", hint="pass a file like pool/splits.toml") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise UsageError(f"{path} is not valid TOML: {e}") from None
    families = table.get("families")
    if not isinstance(families, dict) or not all(v in NAMES for v in families.values()):
        raise UsageError(
            f'{path} needs a table [families] of lines such as reduction = "train"',
            hint=f"a split is one of {', '.join(NAMES)}",
        )
    return {str(k): str(v) for k, v in families.items()}


def place(name: str, family: str, splits: Mapping[str, str], families: Mapping[str, str] | None) -> tuple[str, str]:
    """Return family and split of a task; `families`, by task name, overrides the family that the task came with."""
    chosen = (families or {}).get(name) or family
    return chosen, splits.get(chosen, "")


def assign(row: RecordedRow, splits: Mapping[str, str], families: Mapping[str, str] | None = None) -> RecordedRow:
    family, split = place(row.task.name, row.origin.family or row.task.family, splits, families)
    return replace(row, origin=replace(row.origin, family=family, split=split))


class Leaks:
    """Collector of leaks, the keys that occur in two splits; rows without a split are ignored."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], dict[str, str]] = {}

    def add(self, row: Keyed) -> None:
        if not row.split:
            return
        shared = {
            "task": row.task_sha256,
            "family": row.family,
            "program": row.program,
            "stripped text": row.text,
            "compiled code": row.code,
        }
        for kind, key in shared.items():
            if key:
                self._seen.setdefault((kind, key), {}).setdefault(row.split, row.task)

    def found(self) -> list[str]:
        """Return one line per leak, which names what it is and the splits and tasks that share it."""
        return [
            f"{kind} {key if kind == 'family' else key[:10]} is in "
            + " and ".join(f"{split} ({task})" for split, task in sorted(places.items()))
            for (kind, key), places in self._seen.items()
            if len(places) > 1
        ]


def refuse(leaks: Iterable[str]) -> None:
    """Raise `UsageError` that names the leaks, if there are any."""
    named = list(leaks)
    if named:
        more = f"; and {len(named) - 5} more" if len(named) > 5 else ""
        raise UsageError(
            f"the splits leak: {'; '.join(named[:5])}{more}",
            hint="give both places one family, or leave one of them out",
        )
