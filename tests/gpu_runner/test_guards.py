from __future__ import annotations

import pytest
import torch

from forewarp.core.values import Signature, TensorSpec
from forewarp.gpu_runner.worker.arena import Layout, views
from forewarp.gpu_runner.worker.check import Mismatch
from forewarp.gpu_runner.worker.guards import ALIGN, BAND, Guards, layout_guards


def bytes_around(tensor: torch.Tensor) -> torch.Tensor:
    """See the whole allocation as bytes."""
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())


def offset(tensor: torch.Tensor) -> int:
    return tensor.storage_offset() * tensor.element_size()


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((3, 5), torch.float32), ((7,), torch.bool), ((2, 128), torch.bfloat16), ((), torch.int64), ((0, 4), torch.half)],
)
def test_a_guarded_tensor_is_a_plain_aligned_one(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    guarded = Guards("cpu")
    tensor = guarded.tensor(shape, dtype)
    assert (tuple(tensor.shape), tensor.dtype, type(tensor)) == (shape, dtype, torch.Tensor)
    assert tensor.is_contiguous()
    assert tensor.numel() == 0 or tensor.data_ptr() % ALIGN == 0
    assert offset(tensor) >= BAND
    tensor.fill_(1)
    guarded.check()


@pytest.mark.parametrize("where", ["first byte before", "first byte behind", "far before", "far behind"])
def test_a_byte_beside_a_buffer_is_seen(where: str) -> None:
    guarded = Guards("cpu")
    guarded.tensor((4,), torch.float32, "input 0")
    tensor = guarded.tensor((3, 3), torch.float32, "output 1")
    block, start = bytes_around(tensor), offset(tensor)
    end = start + tensor.numel() * tensor.element_size()
    at = {
        "first byte before": start - 1,
        "first byte behind": end,
        "far before": start - BAND,
        "far behind": end + 1000,
    }
    guarded.check()
    block[at[where]] ^= 1
    with pytest.raises(Mismatch, match="1 bytes beside output 1"):
        guarded.check()


def test_the_pattern_is_another_one_each_time() -> None:
    one, other = (bytes_around(Guards("cpu").tensor((1,), torch.float32))[:BAND].clone() for _ in range(2))
    assert not torch.equal(one, other)


def test_gaps_of_a_layout_are_watched() -> None:
    signature = Signature(
        workload="w",
        inputs=(TensorSpec("x", (3, 64), "float32"), TensorSpec("i", (5,), "int32")),
        scalars={},
        init={},
        params=(TensorSpec("weight", (64,), "float32"),),
        outputs=(TensorSpec("y", (3,), "float32"),),
        flops=None,
        bytes_moved=0,
    )
    layout = Layout.of(signature)
    block = torch.zeros(layout.size, dtype=torch.uint8)
    guards = layout_guards(block, layout)
    for offsets, specs in [(layout.outputs, signature.outputs), (layout.params, signature.params)]:
        for view in views(block, offsets, specs):
            view.fill_(7)
    for offsets in layout.slots:
        for view in views(block, offsets, signature.inputs):
            view.fill_(7)
    guards.check()
    block[layout.outputs[0] + 12] ^= 255
    with pytest.raises(Mismatch, match="1 bytes beside output 0"):
        guards.check()
    block[layout.outputs[0] + 12] ^= 255
    block[layout.slots[1][1] + 5 * 4 + 3] ^= 255
    with pytest.raises(Mismatch, match="beside input 1 of set 1"):
        guards.check()


@pytest.mark.gpu
def test_a_byte_beside_a_buffer_on_a_gpu_is_seen() -> None:
    guarded = Guards("cuda")
    tensors = [guarded.tensor((n,), torch.bfloat16, f"output {n}") for n in (1, 1000, 65537)]
    assert all(t.data_ptr() % ALIGN == 0 for t in tensors)
    for tensor in tensors:
        tensor.fill_(1.0)
    guarded.check()
    last = tensors[2]
    last.as_strided((1,), (1,), last.storage_offset() + last.numel()).fill_(1.0)
    with pytest.raises(Mismatch, match="beside output 65537"):
        guarded.check()
