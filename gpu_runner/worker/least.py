"""The least protection under which strangers' code is run; with less, it is refused, unless the user insists."""

from __future__ import annotations

import os
from collections.abc import Collection

READ_ONLY, HIDDEN = "read-only files", "no private files"
NO_NETWORK = "no network"
NO_SIGNALS, NO_MEMORY = "no signals to other processes", "no memory of other processes"
LIMITS = "time and file limits"

LEAST = (READ_ONLY, HIDDEN, NO_NETWORK, NO_SIGNALS, NO_MEMORY, LIMITS)
"""Names of the protections that have to be in force, each tried on the spot."""

INSIST = "FOREWARP_UNPROTECTED"
"""The variable, on the machine where the code runs, by which a user insists."""

UNPROTECTED = "unprotected"
"""Key of a job's answer that says what is missing, and that nothing was run."""

MISSING = "missing at the user's insistence"
"""Beginning of the entry among a result's protections that names those that were not in force."""


class Unprotected(Exception):
    """Raised in a process that is not protected enough, before the first line of strangers' code runs in it."""

    def __init__(self, in_force: Collection[str]) -> None:
        super().__init__(f"not in force: {', '.join(missing(in_force))}")
        self.in_force = tuple(in_force)


def missing(in_force: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in LEAST if name not in in_force)


def require(in_force: Collection[str]) -> list[str]:
    """Return the protections in force, with those that are not where the user insists, or raise `Unprotected`."""
    lacks = missing(in_force)
    if lacks and os.environ.get(INSIST) != "1":
        raise Unprotected(in_force)
    return [*in_force, *([f"{MISSING}: {', '.join(lacks)}"] if lacks else [])]
