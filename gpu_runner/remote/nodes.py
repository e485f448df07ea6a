"""Nodes of a Ray cluster: their GPUs and cores, and which of them a search may take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from forewarp.core.errors import DeviceError, UsageError

TAG = "gpu:"
_RAYS_OWN = "accelerator_type:"


@dataclass(frozen=True, slots=True)
class RayNode:
    """A living node. `cards` counts its GPUs by kind: by tags such as `gpu:H200`, else by what Ray itself found."""

    id: str
    address: str
    cores: int
    cards: Mapping[str, int] = field(default_factory=dict[str, int])
    tagged: bool = False


@dataclass(frozen=True, slots=True)
class Wanted:
    """The devices to take: GPUs of one card, or "" for the processors, one device a node."""

    card: str

    @property
    def device(self) -> str:
        """Name of the device for the agent on a node; Ray shows each actor its own GPU only."""
        return "cuda" if self.card else "cpu"

    def slots(self, node: RayNode) -> int:
        """Return the number of such devices on a node."""
        return node.cards.get(self.card, 0) if self.card else int(node.cores > 0)


def living(nodes: Iterable[Mapping[str, Any]]) -> list[RayNode]:
    """Return the living nodes among those that `ray.nodes()` lists."""
    return [_node(n) for n in nodes if n.get("Alive")]


def _node(said: Mapping[str, Any]) -> RayNode:
    has: Mapping[str, float] = said.get("Resources", {})
    tags = {k.removeprefix(TAG): int(v) for k, v in has.items() if k.startswith(TAG) and v >= 1}
    cards = dict(tags)
    if not tags and has.get("GPU", 0) >= 1:
        kinds = [k.removeprefix(_RAYS_OWN) for k in has if k.startswith(_RAYS_OWN)]
        cards = {kinds[0] if kinds else "GPU": int(has["GPU"])}
    return RayNode(said["NodeID"], said.get("NodeManagerAddress", ""), int(has.get("CPU", 0)), cards, bool(tags))


def choose(device: str, nodes: Sequence[RayNode]) -> Wanted:
    """Return what `device` means on these nodes: "auto", "cuda", "cuda:CARD" or "cpu".

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
        return Wanted("")
    if which and which != "all":
        matching = [c for c in cards if c.lower() == which.lower()]
        if not matching:
            raise DeviceError(f"no node has a {which}", hint=f"the cluster has {', '.join(cards) or 'no GPU'}")
        return Wanted(matching[0])
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
    return Wanted(cards[0])
