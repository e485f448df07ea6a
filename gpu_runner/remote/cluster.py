"""A Ray cluster: its nodes with their GPUs and cores, and what the name of a device means on them.

Ray is imported when it is used: it is an extra, takes a second to import, and its types are partial.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from forewarp.core.errors import DeviceError, UsageError

TAG = "gpu:"
_RAYS_OWN = "accelerator_type:"


def check_installed() -> None:
    """Raise `UsageError` where Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise UsageError("Ray is not installed", hint='pip install "forewarp[ray]"')


def ray() -> Any:
    """Return Ray's module."""
    return importlib.import_module("ray")


def on_node(node: str) -> Any:
    """Return the strategy that places an actor on one node, by its id, or not at all."""
    strategies = importlib.import_module("ray.util.scheduling_strategies")
    return strategies.NodeAffinitySchedulingStrategy(node, soft=False)


@dataclass(frozen=True, slots=True)
class RayNode:
    """A living node. `cards` counts its GPUs by kind: by tags such as `gpu:H200`, else by what Ray itself found."""

    id: str
    address: str
    cores: int
    cards: Mapping[str, int] = field(default_factory=dict[str, int])
    tagged: bool = False

    def devices(self, card: str) -> int:
        """Return the number of GPUs of a card; for "" the processors are one device."""
        return self.cards.get(card, 0) if card else int(self.cores > 0)


def living(nodes: Iterable[Mapping[str, Any]]) -> list[RayNode]:
    """Return the living nodes among those that `ray.nodes()` lists."""
    return [_node(n) for n in nodes if n.get("Alive")]


def _node(listed: Mapping[str, Any]) -> RayNode:
    has: Mapping[str, float] = listed.get("Resources", {})
    tags = {k.removeprefix(TAG): int(v) for k, v in has.items() if k.startswith(TAG) and v >= 1}
    cards = dict(tags)
    if not tags and has.get("GPU", 0) >= 1:
        kinds = [k.removeprefix(_RAYS_OWN) for k in has if k.startswith(_RAYS_OWN)]
        cards = {kinds[0] if kinds else "GPU": int(has["GPU"])}
    return RayNode(listed["NodeID"], listed.get("NodeManagerAddress", ""), int(has.get("CPU", 0)), cards, bool(tags))


def card_of(device: str, nodes: Sequence[RayNode]) -> str:
    """Return the card that "auto", "cuda", "cuda:CARD" or "cpu" means on these nodes, "" for their processors.

    Raises `UsageError` for what a cluster cannot be asked, `DeviceError` where the cards are not there or not of one
    kind.
    """
    name, _, which = device.partition(":")
    if name not in ("auto", "cuda", "cpu") or (which and (name != "cuda" or which.isdigit())):
        raise UsageError(
            f"device {device!r} means nothing on a cluster", hint="use auto, cuda, cpu, or a card such as cuda:H200"
        )
    cards = sorted({card for node in nodes for card in node.cards})
    if name == "cpu" or (name == "auto" and not cards):
        return ""
    if which and which != "all":
        matching = [c for c in cards if c.lower() == which.lower()]
        if not matching:
            raise DeviceError(f"no node has a {which}", hint=f"the cluster has {', '.join(cards) or 'no GPU'}")
        return matching[0]
    if not cards:
        raise DeviceError(
            "no node of the cluster has a GPU",
            hint="start nodes with GPUs, or tag them: --resources '{\"gpu:H200\": 8}'",
        )
    if len(cards) > 1:
        raise DeviceError(
            f"the cluster has {' and '.join(cards)}: times of different cards say nothing together",
            hint=f"choose one, such as --device cuda:{cards[0]}",
        )
    return cards[0]
