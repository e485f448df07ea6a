# pyright: reportUnusedFunction=false
"""A Python module as the kernel: its `ModelNew`, with the caller's parameters loaded whenever these have changed."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import torch

_NAMES: Mapping[str, Any] = {}
_TRAINING = False
_KERNEL = ""


def _prepare(case: Mapping[str, Any], device: torch.device) -> Any:
    """Make the module as it was judged, and return a function of values and parameters.

    It may refuse to be imported here, as one of code that was generated for another processor does.
    """
    kind = vars(importlib.import_module(_KERNEL))["ModelNew"] if _KERNEL else globals()["ModelNew"]
    given = list(_NAMES["get_init_inputs"]())
    for place, number in case["init"].items():
        given[place] = number
    with torch.device(device), torch.inference_mode(False):
        model = kind(*given).train(_TRAINING)
    loaded: list[Any] = [None]
    calling = threading.RLock()

    def answer(values: Sequence[Any], state: Mapping[str, torch.Tensor]) -> Any:
        # Inference tensors count no versions: they are loaded anew.
        now = [(t, object() if t.is_inference() else t._version) for t in state.values()]
        with calling:
            if loaded[0] is None or any(t is not s or v != w for (t, v), (s, w) in zip(now, loaded[0], strict=True)):
                model.load_state_dict(state)
                loaded[0] = now
            return model(*values)

    return answer
