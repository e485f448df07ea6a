"""Ray, imported when it is used: it is an extra, takes a second to import, and its types are partial."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from forewarp.core.errors import UsageError


def check() -> None:
    """Raise `UsageError` where Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise UsageError("Ray is not installed", hint='pip install "forewarp[ray]"')


def ray() -> Any:
    """Return the module."""
    return importlib.import_module("ray")


def on_node(node: str) -> Any:
    """Return the strategy that places an actor on one node, by its id, or not at all."""
    strategies = importlib.import_module("ray.util.scheduling_strategies")
    return strategies.NodeAffinitySchedulingStrategy(node, soft=False)
