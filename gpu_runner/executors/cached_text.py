"""Text that takes seconds to make, kept in a file."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def cached(path: Path, parse: Callable[[str], T], make: Callable[[], str]) -> T:
    """Return what `parse` makes of a file's text; where it cannot be read, of new text, which is kept.

    Safe to use from several threads and processes. A file that cannot be written costs seconds, not the answer.
    """
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        return parse(path.read_text())
    text = make()
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "w") as file:
                file.write(text)
            os.replace(name, path)
        except OSError:
            os.unlink(name)
    return parse(text)
