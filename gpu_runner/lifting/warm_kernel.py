"""The smallest Triton kernel: compiled before a module comes, so that Triton is initialised by then."""

import triton
import triton.language as tl


@triton.jit
def add_one(x, n, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """Add one to each element."""
    offsets = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(x + offsets, tl.load(x + offsets, mask=offsets < n) + 1, mask=offsets < n)
