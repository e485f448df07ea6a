"""The memory and the order of dimensions that a module's outputs are given."""

from __future__ import annotations

import torch

from forewarp.gpu_runner.lifting.observe import own_output

X = torch.randn(3, 4)


def test_a_view_of_an_input_is_copied() -> None:
    owned = own_output(X.t(), {X.untyped_storage().data_ptr()})
    assert owned.is_contiguous()
    assert owned.data_ptr() != X.data_ptr()
    assert torch.equal(owned, X.t())


def test_another_order_than_the_references_is_put_right() -> None:
    assert own_output(X.clone().t(), set(), stride=(3, 1)).is_contiguous()


def test_where_the_references_order_is_unknown_so_is_any_other() -> None:
    assert own_output(X.clone().t(), set()).is_contiguous()


def test_the_references_order_is_left() -> None:
    turned = X.clone().t()
    assert own_output(turned, set(), stride=(1, 4)) is turned
    assert own_output(turned, set(), any_order=True) is turned


def test_what_is_not_dense_is_copied_whoever_returns_it() -> None:
    wide = X.clone()[:1].expand(3, -1)
    assert own_output(wide, set(), stride=wide.stride(), any_order=True).is_contiguous()


def test_what_is_left_to_whoever_reads_is_done() -> None:
    negative = torch._neg_view(X)
    assert not own_output(negative, set()).is_neg()
