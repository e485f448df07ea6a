"""torch's settings of precision: kept for the reference as it has them, and put back whatever happens."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import torch


def _settings() -> list[tuple[Callable[[], Any], Callable[[Any], None]]]:
    """Return how to read and to write each setting, the older ones first: writing them changes the newer ones."""
    backends: Any = torch.backends
    names = [
        (backends.cuda.matmul, "allow_tf32"),
        (backends.cudnn, "allow_tf32"),
        (backends.cudnn, "benchmark"),
        (backends.cudnn, "deterministic"),
        (backends.cuda.matmul, "allow_fp16_reduced_precision_reduction"),
        (backends.cuda.matmul, "allow_bf16_reduced_precision_reduction"),
        *((owner, "fp32_precision") for owner in _products()),
    ]
    return [
        (torch.get_default_dtype, torch.set_default_dtype),
        (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
        *((partial(getattr, owner, name), partial(setattr, owner, name)) for owner, name in names),
    ]


def _products() -> list[Any]:
    """Return what has a `fp32_precision` of its own; nothing before torch 2.9."""
    backends: Any = torch.backends
    owners = [backends.cuda.matmul, *(getattr(backends.cudnn, name, None) for name in ("conv", "rnn"))]
    owners += [getattr(backends.mkldnn, name, None) for name in ("matmul", "conv", "rnn")]
    return [owner for owner in owners if hasattr(owner, "fp32_precision")]


@contextlib.contextmanager
def restored() -> Generator[None]:
    """Put torch's settings of precision back at the end, also after an error."""
    kept: list[tuple[Callable[[Any], None], Any]] = []
    for read, write in _settings():
        # A program that mixes torch's old and new ways of setting TF32 cannot read the old ones any more.
        with contextlib.suppress(RuntimeError, AttributeError):
            kept.append((write, read()))
    try:
        yield
    finally:
        for write, value in kept:
            write(value)


@contextlib.contextmanager
def without_tf32() -> Generator[None]:
    """Compute products and convolutions of fp32 numbers in fp32; what was set before comes back at the end."""
    with restored():
        torch.set_float32_matmul_precision("highest")
        backends: Any = torch.backends
        backends.cuda.matmul.allow_tf32 = False
        backends.cudnn.allow_tf32 = False
        for owner in _products():
            owner.fp32_precision = "ieee"
        yield
