"""Files that appear whole or not at all, and texts that lie beside a module."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from string import Template
from types import ModuleType

from forewarp.core.errors import UsageError


@lru_cache
def template(module: str, name: str) -> Template:
    """Return the text of the file `name` beside a module given by its `__file__`, with `${word}` to fill in."""
    return Template((Path(module).parent / name).read_text(encoding="utf-8"))


def import_file(path: Path, name: str, *, register: bool = False) -> ModuleType:
    """Run a file as a module, which dataclasses within it ask to `register`; raises what running it raises."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if register:
        sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def literal(text: str) -> str:
    """Return a string literal, of several lines one that reads as the text does but for backslashes and quotes."""
    if "\n" in text and re.sub("[\n\t]", "", text).isprintable():
        quoted = re.sub(r"'{3,}|'\Z", lambda found: "\\'" * len(found[0]), text.replace("\\", "\\\\"))
        return f"'''\\\n{quoted}'''"
    return repr(text)


def write_whole(path: Path, content: str | bytes, mode: int | None = None) -> None:
    """Write a file and its folder so that a kill leaves the old one, from any thread or process; raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        # Private until it is whole: it may hold keys.
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666 if mode is None else 0o600)
        with os.fdopen(handle, "wb") as file:
            if mode is not None:
                os.fchmod(handle, mode)
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(handle)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def writing(what: object, hint: str) -> Generator[None]:
    """Turn what the system says of a file that cannot be written into a `UsageError` with this hint."""
    try:
        yield
    except OSError as e:
        raise UsageError(f"{what} cannot be written: {e.strerror}", hint=hint) from None
