"""Reader of `lineage.toml` beside a task's seeds: the parent of each program, and the mistake planted in it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forewarp.core.errors import TaskError

PLANTED = "mistake"
"""Tag of programs that hold a mistake which was put in on purpose."""


@dataclass(frozen=True, slots=True)
class ParentLine:
    """Parent of a program and the mistake that was planted in it, each "" for none."""

    parent: str = ""
    mistake: str = ""

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags of a pool's row that holds this program."""
        return (PLANTED,) if self.mistake else ()


def load(folder: Path) -> dict[str, ParentLine]:
    """Return the lineage of a task's programs by file name, empty if the folder has none; raises `TaskError`."""
    path = folder / "lineage.toml"
    try:
        table: Mapping[str, Any] = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise TaskError(f"{path} cannot be read: {e}") from None
    return {name: _line(entry) for name, entry in table.items()}


def _line(entry: Any) -> ParentLine:
    table: dict[str, Any] = entry if isinstance(entry, dict) else {}
    return ParentLine(str(table.get("parent", "")), str(table.get("mistake") or ""))
