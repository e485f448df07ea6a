"""Checks of `forewarp doctor --executor …` on other machines: nodes, cards, free devices."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from forewarp.core.errors import DeviceError, UsageError, WorkerError
from forewarp.report.documents import DoctorCheck
from forewarp.tools.wording import counted

if TYPE_CHECKING:
    from forewarp.tools.parts import Place

MACHINES = "machines"
"""Name of the check that says whether anything can be measured there."""


def examine(place: Place) -> Iterator[DoctorCheck]:
    """Check the machines that a place names, and yield the findings."""
    kind, _, rest = place.executor.partition(":")
    try:
        yield from _cluster(rest) if kind == "ray" else _machine(place)
    except (DeviceError, UsageError, WorkerError) as e:
        costs = f"nothing can be measured with --executor {place.executor}; {e.hint}"
        yield DoctorCheck(name=MACHINES, found=False, detail=e.message, costs=costs)


def _cluster(address: str) -> Iterator[DoctorCheck]:
    from forewarp.gpu_runner.remote.over_ray import look

    nodes, free = look(address)
    for node in nodes:
        cards = ", ".join(f"{count} {card}" for card, count in sorted(node.cards.items()))
        said = f"{cards or 'no GPU'}, {counted(node.cores, 'core')}"
        yield DoctorCheck(name=f"node {node.address}", found=True, detail=said)
    total: Counter[str] = Counter()
    for node in nodes:
        total.update(node.cards)
    for card, count in sorted(total.items()):
        # Ray counts what is free by card where nodes are tagged, and by GPU elsewhere.
        left = free.get(f"gpu:{card}", free.get("GPU", 0.0) if len(total) == 1 else None)
        said = f"{left:.0f} of {count} free" if left is not None else f"{count}, free ones not told by card"
        yield DoctorCheck(name=f"card {card}", found=True, detail=said)
    cores = sum(n.cores for n in nodes)
    there = f"{counted(len(nodes), 'node')}, {counted(sum(total.values()), 'GPU')}"
    said = f"{there}, {free.get('CPU', 0.0):.0f} of {counted(cores, 'core')} free"
    costs = "nothing can be measured there: no node has a GPU or a core to give"
    yield DoctorCheck(name=MACHINES, found=bool(total or cores), detail=said, costs=costs)


def _machine(place: Place) -> Iterator[DoctorCheck]:
    from forewarp.gpu_runner.remote.opening import open_remote

    start = time.perf_counter()
    executor = open_remote(place.executor, place.device, place.python)
    seconds = time.perf_counter() - start
    try:
        said = f"{executor.devices} × {executor.target.name}, {executor.compilers} cores, ready in {seconds:.1f} s"
    finally:
        executor.close()
    yield DoctorCheck(name=MACHINES, found=True, detail=said)
