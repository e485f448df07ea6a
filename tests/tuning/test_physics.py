"""What a launch of each configuration does."""

from __future__ import annotations

import pytest

from forewarp.tuning import physics
from forewarp.tuning.space import Configuration, Space, TensorArgument


def test_unknown_loops_are_scaled_by_what_has_to_be_written() -> None:
    """A persistent kernel that takes tiles until none is left has the work of all tiles, whatever the grid."""
    source = """def persistent(x, o, first, TILES: tl.constexpr):
    tile = tl.program_id(0)
    i = tl.arange(0, 128)
    while tile < tl.load(first):
        tl.store(o + tile * 128 + i, tl.load(x + tile * 128 + i))
        tile += TILES
"""
    tensor = TensorArgument("float32", (1 << 20,))
    arguments = {"x": tensor, "o": tensor, "first": TensorArgument("int32", (1,))}
    few, many = 64, 512
    space = Space(
        "persistent",
        source,
        arguments,
        [Configuration({"TILES": few}), Configuration({"TILES": many})],
        [(few,), (many,)],
    )
    moved = physics.amounts(space).moved_bytes
    assert moved == pytest.approx([2 * 4 << 20] * 2, rel=0.01)
