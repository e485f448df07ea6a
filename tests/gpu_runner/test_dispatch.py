"""Dispatch modes, which do not import torch's compiler."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch")

CODE = """
import sys
import torch
from forewarp.gpu_runner.worker.operations import Seen, run_in_tf32

torch.set_grad_enabled(False)
model, x = torch.nn.Linear(4, 4), torch.ones(2, 4)
with Seen() as seen:
    model(x)
assert seen.all_needed
assert run_in_tf32(model, [x], truncate=False) is not None
assert "torch._dynamo" not in sys.modules
"""


def test_the_first_operation_does_not_import_torchs_compiler() -> None:
    subprocess.run([sys.executable, "-c", CODE], check=True, timeout=60)
