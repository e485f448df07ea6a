"""A search that begins with a reference alone, on the CPU device: no key, no seed kernel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from forewarp.archive.store import Archive
from forewarp.tools.export import MODULE, drop_in
from forewarp.tools.parts import Amounts, Place
from forewarp.tools.search import SearchRequest, search

pytestmark = pytest.mark.slow

REFERENCE = """
import torch

ROWS = 1024


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.rand(1024))

    def forward(self, x):
        return torch.softmax(torch.tanh(x) * self.gain, dim=-1)


def get_inputs():
    return [torch.randn(ROWS, 1024)]


def get_init_inputs():
    return []
"""
PLAIN = """
import sys, torch
sys.path.insert(0, sys.argv[1])
import best_module as best
assert not any(name.startswith("forewarp") for name in sys.modules)
reference, model = best.Model(), best.ModelNew()
model.load_state_dict(reference.state_dict())
with torch.no_grad():
    for _ in range(2):
        x = best.get_inputs()[0]
        torch.testing.assert_close(model(x), reference(x))
        torch.testing.assert_close(model(x[:7]), reference(x[:7]))
x = best.get_inputs()[0].requires_grad_()
model(x).sum().backward()
print("right", best.ROWS)
"""


def test_a_reference_alone_is_enough(tmp_path: Path) -> None:
    task = tmp_path / "problem.py"
    task.write_text(REFERENCE)
    place = Place(device="cpu", archive=str(tmp_path / "archive.db"))
    found = search(SearchRequest(task=str(task), place=place, budget=Amounts(measurements=4), holdout=False))
    assert found.status == "finished"
    assert found.best is not None
    assert found.best.confirmed
    first = next(c for c in found.candidates if c.measured is not None)
    assert set(first.kernel.tunables) == {"THREADS", "CONTRACT"}  # Inductor's code comes first
    with Archive(tmp_path / "archive.db") as archive:
        exported = drop_in(archive, found.run_id)
    assert exported is not None
    assert exported.text is not None
    assert exported.evidence.tunables == found.best.kernel.tunables
    (tmp_path / MODULE).write_text(exported.text)
    done = subprocess.run([sys.executable, "-c", PLAIN, str(tmp_path)], capture_output=True, text=True, timeout=300)
    assert done.stdout == "right 1024\n", done.stderr
