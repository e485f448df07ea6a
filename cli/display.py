"""Consoles and colours."""

from __future__ import annotations

import sys

from rich.console import Console

_COLOURS = {
    "faster": "green",
    "ok": "green",
    "finished": "green",
    "measure": "green",
    "accept": "green",
    "slower": "red",
    "failed": "red",
    "incorrect": "red",
    "ambiguous": "yellow",
    "suspicious": "magenta",
    "impossible": "magenta",
    "interrupted": "yellow",
    "running": "cyan",
}


def stdout() -> Console:
    """Return the console for results; wide enough for tables where the output is a file."""
    return _console(stderr=False)


def stderr() -> Console:
    """Return the console for everything else."""
    return _console(stderr=True)


def _console(*, stderr: bool) -> Console:
    # Kernel names, logs and intervals hold brackets, which are no markup.
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else 120
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False, width=width)


def colour(word: str) -> str:
    """Return the colour of a status or verdict."""
    return _COLOURS.get(word, "")
