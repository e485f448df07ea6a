# pyright: reportUnusedFunction=false
"""Triton kernels, launched through Triton's own run time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import torch

_KERNELS: Mapping[str, Any] = globals()


def _prepare(case: Mapping[str, Any], device: torch.device) -> Callable[[Mapping[str, torch.Tensor]], None]:
    """Return a function of a case's buffers; Triton compiles at the first call."""
    steps = [(_KERNELS[step["kernel"]][tuple(step["grid"])], step) for step in case["launches"]]

    def launch(buffers: Mapping[str, torch.Tensor]) -> None:
        with torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext():
            for start, step in steps:
                values = [buffers[value] if kind == "ptr" else value for kind, value in step["args"]]
                start(**dict(zip(step["names"], values, strict=True)), **step["options"])

    return launch
