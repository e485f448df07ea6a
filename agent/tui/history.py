"""History of prompts, kept in a file beside the conversations."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path

MOST = 500
"""Prompts that are remembered."""


class History:
    """Prompts in the order of typing, with a cursor to look back; an unusable file is ignored."""

    def __init__(self, find: Callable[[], Path] | None = None) -> None:
        """Make an empty history; `find` returns its file, and is called by `load` only. Without it no file is kept."""
        self._find = find
        self._path: Path | None = None
        self._said: list[str] = []
        self._at = 0
        self._draft = ""

    def load(self) -> None:
        """Read the file; prompts typed before that stay last."""
        if self._find is None:
            return
        read: list[str] = []
        self._path, early = self._find(), list(self._said)
        with contextlib.suppress(OSError, ValueError):
            for line in self._path.read_text(encoding="utf-8", errors="replace").splitlines():
                text = json.loads(line)
                if isinstance(text, str):
                    read.append(text)
        self._said = [*read, *self._said][-MOST:]
        self._at = len(self._said)
        if len(read) > 2 * MOST:
            self._write(self._said, "w")
        else:
            self._write(early, "a")

    def add(self, text: str) -> None:
        """Remember a prompt; the same one twice in a row counts once."""
        if not self._said or self._said[-1] != text:
            self._said.append(text)
            self._write([text], "a")
        self._at, self._draft = len(self._said), ""

    def back(self, draft: str) -> str | None:
        """Return the prompt before; `draft` is kept if the look back begins with it."""
        if self._at == 0:
            return None
        if self._at == len(self._said):
            self._draft = draft
        self._at -= 1
        return self._said[self._at]

    def forth(self) -> str | None:
        """Return the prompt after, at last the draft; None where there is none."""
        if self._at >= len(self._said):
            return None
        self._at += 1
        return self._said[self._at] if self._at < len(self._said) else self._draft

    def _write(self, said: list[str], mode: str) -> None:
        if self._path is None or not said:
            return
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open(mode, encoding="utf-8") as file:
                file.writelines(json.dumps(text, ensure_ascii=False) + "\n" for text in said)
