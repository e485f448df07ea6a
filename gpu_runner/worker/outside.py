"""Calls with which a reference asks for what no kernel is given: the clock, its process, chance beside torch's."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator
from types import FrameType
from typing import Any

_MODULES = ("time", "random", "_random", "secrets", "uuid", "numpy.random")
_OF_OS = frozenset(("getpid", "getppid", "urandom", "getrandom", "times", "getloadavg"))
_OF_DATES = frozenset(("now", "utcnow", "today"))
_HARMLESS = frozenset(("sleep", "seed", "perf_counter", "perf_counter_ns"))
"""Give nothing, or what measures durations for a log."""
_OWN = ("<reference>", "task:")
"""Names under which a task's files are compiled begin so."""


@contextlib.contextmanager
def seen() -> Generator[list[str]]:
    """Yield a list that gets the names of such calls by the task's own code while this is entered."""
    names: list[str] = []

    def look(frame: FrameType, event: str, function: Any) -> None:
        if event == "c_call" and frame.f_code.co_filename.startswith(_OWN):
            name = _name_of(function)
        elif event == "call" and frame.f_back is not None and frame.f_back.f_code.co_filename.startswith(_OWN):
            # Much of `random` is Python that calls C.
            module = str(frame.f_globals.get("__name__", ""))
            name = f"{module}.{frame.f_code.co_name}" if module in _MODULES else ""
        else:
            return
        if name and name.rpartition(".")[2] not in _HARMLESS and name not in names:
            names.append(name)

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        yield names
    finally:
        sys.setprofile(before)


def _name_of(function: Any) -> str:
    """Return the name of a function in C that gives what no kernel is given; "" for others."""
    name = str(getattr(function, "__name__", ""))
    owner = getattr(function, "__self__", None)
    home = str(getattr(function, "__module__", None) or getattr(owner, "__name__", None) or "")
    kind = owner if isinstance(owner, type) else type(owner)
    if home in ("posix", "os"):
        return f"os.{name}" if name in _OF_OS else ""
    if kind.__module__ == "datetime":
        return f"datetime.{name}" if name in _OF_DATES else ""
    if home == "time" or kind.__module__ in ("random", "_random"):
        return f"{'time' if home == 'time' else 'random'}.{name}"
    return f"numpy.random.{name}" if kind.__module__.startswith("numpy.random") else ""
