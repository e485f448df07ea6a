from __future__ import annotations

import subprocess
import sys

import pytest
from support.jobs import describe

from forewarp.core.values import Operation, Workload

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


def operations(result: str) -> dict[str, Operation]:
    return {o.name: o for o in describe(REFERENCE.format(result=result), Workload("default")).operations}


def test_operations_say_what_they_move_and_compute() -> None:
    found = operations("(a @ b).relu() + torch.zeros(8, 8).t()")
    matrix = 8 * 8 * 4
    assert found["bmm"] == Operation("bmm", "product", "float32", 2 * matrix, 0, matrix, 2 * 8**3)
    # It reads what the product has written, the next one that of both before it; the transposed view costs nothing.
    assert found["relu"] == Operation("relu", "pointwise", "float32", matrix, matrix, matrix)
    assert found["add"] == Operation("add", "pointwise", "float32", 2 * matrix, 2 * matrix, matrix)
    assert found.keys() == {"bmm", "relu", "zeros", "add"}


def test_equal_operations_count_together() -> None:
    assert operations("a.sin().cos().sin()")["sin"].times == 1  # one reads an input, the other what was written
    assert operations("a.sin() + b.sin()")["sin"].times == 2


@pytest.mark.parametrize(
    ("result", "name", "kind"),
    [
        ("a.sum(-1)", "sum", "reduction"),
        ("a.cumsum(-1)", "cumsum", "scan"),
        ("a.sort(-1).values", "sort", "sort"),
        ("a.gather(-1, (b * 8).long())", "gather", "indexed"),
        ("torch.cat([a, b])", "cat", "pointwise"),
        ("F.max_pool1d(a, 2)", "max_pool2d_with_indices", "window"),
        ("F.conv1d(a, b[0, :, :, None])", "convolution", "convolution"),
    ],
)
def test_kinds_of_operations(result: str, name: str, kind: str) -> None:
    assert operations(result)[name].kind == kind


def test_copies_that_transpose_are_told_apart() -> None:
    assert operations("a.transpose(1, 2).contiguous()")["clone"].kind == "crosswise"
    assert operations("a.flip(1) + b")["add"].kind == "pointwise"
    assert operations("a + b.transpose(1, 2)")["add"].kind == "crosswise"


def test_matrices_without_contiguous_rows_or_columns_are_copied_for_a_product() -> None:
    batched_last = "a.reshape(2, 4, 8).permute(2, 0, 1), b.reshape(4, 2, 8).permute(2, 0, 1)"
    clone = Operation("clone", "crosswise", "float32", 256, 0, 256, times=2)
    assert operations(f"torch.bmm({batched_last})")["clone"] == clone
    assert "clone" not in operations("a @ b.transpose(1, 2)")


def test_attention_is_one_operation() -> None:
    found = operations("F.scaled_dot_product_attention(a, b, b)")
    matrix = 8 * 8 * 4
    assert found == {
        "scaled_dot_product_attention": Operation(
            "scaled_dot_product_attention", "attention", "float32", 3 * matrix, 0, matrix, 4 * 8**3
        )
    }


def test_an_expanded_tensor_is_read_once() -> None:
    assert operations("a + b[:, :1].expand(1, 8, 8)")["add"].read == (64 + 8) * 4


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
