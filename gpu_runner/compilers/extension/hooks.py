"""Hooks into torch's `load` and `load_inline`: after torch has written its Ninja file, before Ninja runs.

Everything before that point stays torch's: arguments, names, versions, flags, generated bindings.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from typing import Any

RunBuild = Callable[[str, bool, str], None]
"""Build in a folder; called with (folder, verbose, the first words of an error). Raises RuntimeError."""
ImportLibrary = Callable[[str, str, bool], Any]
"""Import what was built; called with (name, folder, whether it is a Python module)."""


def originals() -> tuple[RunBuild, ImportLibrary] | None:
    """Return torch's own two functions; None where this torch has them no more."""
    from torch.utils import cpp_extension

    run = getattr(cpp_extension, "_run_ninja_build", None)
    load = getattr(cpp_extension, "_import_module_from_library", None)
    return (run, load) if run is not None and load is not None else None


def install(run: RunBuild, load: ImportLibrary) -> None:
    """Put `run` and `load` in the place of torch's own, for the rest of this process's life."""
    from torch.utils import cpp_extension

    cpp_extension.__dict__.update(_run_ninja_build=run, _import_module_from_library=load)


@contextlib.contextmanager
def installed(run: RunBuild, load: ImportLibrary) -> Generator[None]:
    """Replace torch's own functions by `run` and `load` within this context."""
    own = originals()
    assert own is not None
    install(run, load)
    try:
        yield
    finally:
        install(*own)
