"""Expressions that draw tensors like recorded ones, and renaming of values."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from forewarp.models.problem_text import drawn, parameter_names, renamed  # noqa: E402


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (torch.arange(12).reshape(1, 12), "torch.arange(12, dtype=torch.int64).repeat((1, 1))"),
        (torch.tensor([3, 9, 4]), "torch.randint(3, 10, (3,), dtype=torch.int64)"),
        (torch.tensor([2, 0, 1, 3]), "torch.randperm(4).to(torch.int64).reshape((4,))"),
        (torch.tensor([True, False]), "torch.rand((2,)) < 0.5"),
        (torch.full((2, 3), 4.0), "torch.full((2, 3), 4, dtype=torch.float32)"),
        (torch.empty(0, 2), "torch.empty((0, 2), dtype=torch.float32)"),
    ],
)
def test_whole_numbers_masks_and_constants(tensor: torch.Tensor, expected: str) -> None:
    assert drawn(tensor) == expected


def test_a_sample_keeps_its_range_shape_dtype_and_memory_order() -> None:
    tensor = (torch.randn(4, 500, 6) * 3 + 1).to(torch.bfloat16).relu().permute(2, 0, 1)
    made = eval(drawn(tensor))
    assert (made.shape, made.stride(), made.dtype) == (tensor.shape, tensor.stride(), tensor.dtype)
    assert float(made.min()) == 0.0
    assert float(made.float().mean()) == pytest.approx(float(tensor.float().mean()), rel=0.3)
    unit = eval(drawn(torch.rand(1000)))
    assert float(unit.min()) >= 0.0
    assert float(unit.max()) <= 1.0


def test_a_causal_mask_stays_one() -> None:
    mask = torch.zeros(5, 5).masked_fill(torch.ones(5, 5).triu(1) > 0, -torch.inf)
    assert torch.equal(eval(drawn(mask)), mask)


def test_renaming_leaves_attributes_keywords_and_texts() -> None:
    names = {"view": "v1", "dim": "v2", "bij": "v3"}
    assert renamed("view.view(dim, dim=view) == dim", names) == "v1.view(v2, dim=v1) == v2"
    assert renamed('torch.einsum("bij", [bij])', names) == 'torch.einsum("bij", [v3])'


def test_weights_are_called_by_the_ends_of_their_paths() -> None:
    paths = ["layers.0.q.weight", "layers.0.k.weight", "other.q.weight", "bias", "0.weight", "1.weight"]
    found = parameter_names(paths)
    assert found[:4] == ["q_weight", "k_weight", "other_q_weight", "bias"]
    assert len(set(found)) == len(paths)
