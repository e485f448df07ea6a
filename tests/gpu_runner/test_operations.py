from __future__ import annotations

import subprocess
import sys

import pytest
from support.jobs import describe

from forewarp.core.values import Workload

REFERENCE = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class Model(nn.Module):
    def forward(self, a, b):
        return {result}

def get_inputs():
    return [torch.rand(1, 8, 8), torch.rand(1, 8, 8)]

def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    "result",
    [
        "a @ b",
        "torch.relu(a @ b.transpose(1, 2) * 2.0 + 1.0)",
        "F.layer_norm(a @ b, (8,))",
        "torch.softmax(a @ b, dim=-1) @ b",
    ],
)
def test_products_that_go_into_the_output_are_needed(result: str) -> None:
    signature = describe(REFERENCE.format(result=result), Workload("default"))
    assert signature.flops
    assert signature.needed_flops == signature.flops


@pytest.mark.parametrize(
    "result",
    [
        "torch.triu(a @ b)",
        "(a @ b).masked_fill(a > 0.5, 0.0)",
        "(a @ b).sum(dim=-1)",
        "(a @ b) @ b[:, :, :1]",
        "a @ b @ b",
        "(a @ b)[:, :4]",
        "F.scaled_dot_product_attention(a, b, b, is_causal=True)",
    ],
)
def test_products_that_can_be_saved_are_not(result: str) -> None:
    signature = describe(REFERENCE.format(result=result), Workload("default"))
    assert signature.flops
    assert signature.needed_flops == 0.0


def test_without_products_nothing_is_needed() -> None:
    assert describe(REFERENCE.format(result="a + b"), Workload("default")).needed_flops == 0.0


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
