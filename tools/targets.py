"""Several targets by name: `h200,a100` on the same machines, `h200@ssh:HOST` on others."""

from __future__ import annotations

from collections.abc import Sequence

from forewarp.core.errors import UsageError
from forewarp.tools.parts import Place

GROUP = "g-"
"""Prefix of the ids of searches for several targets; no run has an id with it."""


def is_group(name: str) -> bool:
    """Return whether a name, or the beginning of one, is that of a search for several targets."""
    return name.startswith(GROUP)


def places_of(place: Place, names: Sequence[str]) -> list[Place]:
    """Return a place per name; each is TARGET, @EXECUTOR or TARGET@EXECUTOR, and commas may hold several together.

    Raises `UsageError` for a name that is empty or there twice.
    """
    wanted = [part.strip() for name in names for part in name.split(",")]
    made: list[Place] = []
    for name in wanted:
        card, _, executor = name.partition("@")
        if not (card or executor):
            raise UsageError("a target has no name", hint="write --target h200,a100 or --target h200@ssh:HOST")
        found = place.model_copy(update={"card": card, "executor": executor or place.executor})
        if found in made:
            raise UsageError(f"target {name} is there twice", hint="each target is searched once")
        made.append(found)
    return made


def name_of(place: Place) -> str:
    """Return the name that `places_of` reads as this place."""
    return place.card if place.card and place.executor == "local" else f"{place.card}@{place.executor}"
