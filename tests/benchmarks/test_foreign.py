"""Making one module of several files of a package."""

from __future__ import annotations

import foreign

LAYERS = """
from torch import nn
from .kernels import scaled, unused

class Scaled(nn.Module):
    def forward(self, x):
        return scaled(x)
"""
KERNELS = """
import math

FACTOR = math.pi

def scaled(x):
    return x * FACTOR

def unused(x):
    return x
"""
WRAPPER = """
class ModelNew(Scaled):
    pass
"""


def test_a_module_holds_what_its_wrapper_needs_in_an_order_that_runs():
    text = foreign.joined([LAYERS, KERNELS], WRAPPER)
    names: dict[str, object] = {}
    exec(text, names)  # the test's own text
    assert names["ModelNew"]().forward(1.0) == names["FACTOR"]
    assert "unused" not in text
    assert "from ." not in text
