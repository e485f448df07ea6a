"""What `lineage.toml` beside the seeds of a task says of its programs."""

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
    """Which program another one was made from, "" for none, and the mistake that was planted in it, "" for none."""

    parent: str = ""
    mistake: str = ""

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags that a row of this program has."""
        return (PLANTED,) if self.mistake else ()


def load(folder: Path) -> dict[str, ParentLine]:
    """Return what the folder of a task says of its programs, by file name, if anything; raises `TaskError`."""
    path = folder / "lineage.toml"
    try:
        table: Mapping[str, Any] = tomllib.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise TaskError(f"{path} cannot be read: {e}") from None
    return {name: _line(entry) for name, entry in table.items()}


def _line(entry: Any) -> ParentLine:
    said: dict[str, Any] = entry if isinstance(entry, dict) else {}
    return ParentLine(str(said.get("parent", "")), str(said.get("mistake") or ""))
