"""Calls as CUDA graphs, for scripts that time them in a plain process; nothing of forewarp is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def graphed(call: Callable[..., Any], given: list[Any], pool: Any = None) -> torch.cuda.CUDAGraph:
    """Return a graph of one call; graphs of a `pool` share memory, and are replayed one at a time."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call(*given)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        call(*given)
    return graph


def timed(graph: torch.cuda.CUDAGraph, flush: torch.Tensor) -> float:
    """Return the milliseconds of one replay with a cold cache."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    flush.zero_()
    begin.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end)
