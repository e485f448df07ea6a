"""Forecast, measure and search for slash commands, emitted as events like the model's tool calls."""

from __future__ import annotations

import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from forewarp.agent.events import ToolCalled, ToolReturned
from forewarp.agent.kit import Kit
from forewarp.agent.talk import Host
from forewarp.core.errors import ForewarpError
from forewarp.tools.parts import Kernel, shown


class ByHand:
    """Forecast, measure and search on behalf of the user instead of the model.

    Each emits `ToolCalled`, its steps and `ToolReturned` itself, under the id `call`. Paths are seen from the working
    folder. A request that cannot be carried out raises `ForewarpError`, after `ToolReturned` with the error.
    """

    def __init__(self, kit: Kit, host: Host) -> None:
        self._kit, self._host = kit, host

    async def forecast(self, call: str, *, task: str, kernels: Sequence[Kernel]) -> Mapping[str, Any]:
        """Forecast one kernel, or rank several; returns the `ForecastResult` as data."""
        named = [" ".join(filter(None, (k.path or "text", shown(k.tunables)))) for k in kernels]
        arguments = {"task": task, "kernels": named}
        return await self._told(
            call, "forecast_kernel", arguments, self._kit.forecast(call, task=task, kernels=kernels)
        )

    async def measure(self, call: str, *, task: str, kernel: Kernel, insist: str = "") -> Mapping[str, Any]:
        """Forecast a kernel, measure it unless that speaks against it, and return the `Considered` as data.

        `insist` says why to measure what the forecast advises to skip.
        """
        arguments = {"task": task, "kernel": kernel.path or "text", "tunables": kernel.tunables, "insist": insist}
        work = self._kit.measure(call, task=task, kernel=kernel, insist=insist)
        return await self._told(call, "measure_kernel", {k: v for k, v in arguments.items() if v}, work)

    async def search(self, call: str, *, task: str, budget: int, seed_kernels: Sequence[str] = ()) -> Mapping[str, Any]:
        """Search under a budget of measurements; returns the `SearchResult` as data."""
        arguments = {"task": task, "budget": budget, "seed_kernels": list(seed_kernels)}
        work = self._kit.search(call, task=task, budget=budget, seed_kernels=seed_kernels)
        return await self._told(call, "search", {k: v for k, v in arguments.items() if v}, work)

    async def _told(
        self, call: str, tool: str, arguments: Mapping[str, Any], work: Coroutine[Any, Any, dict[str, Any]]
    ) -> Mapping[str, Any]:
        self._host.emit(ToolCalled(call, tool, arguments))
        start, result = time.perf_counter(), {"error": "interrupted"}
        try:
            result = await work
        except ForewarpError as e:
            result = {"error": e.message, "hint": e.hint}
            raise
        finally:
            self._host.emit(ToolReturned.of(call, tool, result, time.perf_counter() - start))
        return result
