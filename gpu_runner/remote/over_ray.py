"""A Ray cluster: `--executor ray[:ADDRESS]`. Ray itself runs in a process of its own, the bridge."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from forewarp.core import serde
from forewarp.core.errors import DeviceError, UsageError
from forewarp.gpu_runner import child
from forewarp.gpu_runner.executors.local import Limits
from forewarp.gpu_runner.remote import cluster
from forewarp.gpu_runner.remote.cluster import RayNode
from forewarp.gpu_runner.remote.executor import RemoteExecutor
from forewarp.gpu_runner.remote.far_end.link import Link, LinkLost

_HINT = "start one with `ray start --head`, and pass --executor ray:HOST:6379; docs/clusters.md says more"
SOON_S, AGAIN_S = 5.0, 60.0
"""Longest waits for a head that does not listen: at first it may be a wrong address, later it is being restarted."""
SILENT_S = 60.0
"""Time without a sign of life after which an actor is lost; Ray's own checks are of nodes, and take about as long."""
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # Workers shall start as Ray starts them, however this process was started.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    # An actor without a GPU must not hide those that the agent on it looks for.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}


def open_ray(
    address: str,
    device: str,
    *,
    python: str | None = None,
    most: int | None = None,
    cache: Path | None = None,
    limits: Limits | None = None,
    silent_s: float = SILENT_S,
) -> RemoteExecutor:
    """Return the executor over all devices of one kind in a cluster, or over `most` of them.

    Without an address, the cluster that runs on this machine is used, or one is started here. Raises `UsageError`
    without Ray, `DeviceError` where there is no such cluster or device. After `silent_s` seconds without a sign of
    life an actor is given up, and what it did is done elsewhere.
    """
    opening = {"device": device, "python": python, "most": most, "silent_s": silent_s}
    opening["limits"] = serde.to_data(limits) if limits else None
    patience = iter((SOON_S,))
    return RemoteExecutor(lambda: _bridge(address, next(patience, AGAIN_S)), opening, where=_name(address), cache=cache)


def look(address: str) -> tuple[list[RayNode], dict[str, float]]:
    """Return the living nodes and what of their resources is free; raises as `open_ray` does."""
    try:
        link = _bridge(address, SOON_S)
    except LinkLost as e:
        raise DeviceError(f"{_name(address)} cannot be reached: {e}", hint=_HINT) from None
    try:
        answer: dict[str, Any] = link.submit("nodes", {}).result().head["ok"]
    except LinkLost as e:
        raise DeviceError(f"{_name(address)} was lost: {e}", hint=_HINT) from None
    finally:
        link.close(patience_s=5.0)
    return [serde.from_data(RayNode, n) for n in answer["nodes"]], answer["free"]


def free_devices(address: str, device: str) -> tuple[str, int]:
    """Return the card that a device means on a cluster, "" for the processors, and how many of it are free."""
    nodes, free = look(address)
    card = cluster.card_of(device, nodes)
    there = sum(n.devices(card) for n in nodes)
    # Ray counts what is free by card where nodes are tagged, and by GPU elsewhere.
    left = int(free.get(f"{cluster.TAG}{card}", free.get("GPU", 0.0))) if card else there
    return card, min(there, left)


def _name(address: str) -> str:
    return f"the Ray cluster at {address}" if address else "the Ray cluster of this machine"


def _bridge(address: str, wait_s: float) -> Link:
    """Start the bridge, which waits for the head to listen for at most `wait_s` seconds."""
    if "://" in address:
        raise UsageError(f"{address} is the address of a Ray client", hint="pass HOST:6379, the head's own address")
    cluster.check_installed()
    command = child.command(sys.executable, "forewarp.gpu_runner.remote.bridge", address, str(wait_s))
    return Link(command, environment=child.environment({**os.environ, **_SETTINGS}))
