"""Configuration spaces: an autotuned kernel, the arguments of one call, and what may be chosen for it."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MOST_PROPOSED = 1000
"""Configurations beyond the author's that are looked at; of more, as many are drawn, the same on every machine."""
LEAST_TILE = 16
"""Smallest side of a tile that tensor cores multiply; none smaller is proposed where the author has none."""
MOST_TILE, MOST_WARPS, MOST_STAGES = 4096, 16, 7


@dataclass(frozen=True, slots=True)
class Configuration:
    """Values of a kernel's meta-parameters and compiler options. `registers` caps them per thread (`maxnreg`).

    `warps` and `stages` are 0 for kernels that are not Triton's.
    `derived` are those that `triton.heuristics` makes of them; `hooked` says that a hook runs before each launch.
    """

    values: Mapping[str, Any]
    warps: int = 4
    stages: int = 3
    blocks: int = 1
    registers: int | None = None
    derived: Mapping[str, Any] = field(default_factory=dict[str, Any])
    hooked: bool = False

    @property
    def label(self) -> str:
        """The configuration in a line, as `BLOCK=128 num_warps=4 num_stages=3`."""
        parts = [f"{name}={value}" for name, value in self.values.items()]
        parts += [f"num_warps={self.warps}", f"num_stages={self.stages}"] if self.warps else []
        parts += [f"num_ctas={self.blocks}"] if self.blocks != 1 else []
        parts += [f"maxnreg={self.registers}"] if self.registers else []
        return " ".join(parts)

    @classmethod
    def of(cls, config: Any) -> Configuration:
        """Return that of a `triton.Config`."""
        return cls(
            dict(config.kwargs),
            config.num_warps,
            config.num_stages,
            getattr(config, "num_ctas", 1) or 1,
            getattr(config, "maxnreg", None),
            hooked=config.pre_hook is not None,
        )


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """A tensor as a kernel gets it: a pointer with a dtype ("bfloat16"), and the elements that lie behind it."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


ArgumentValue = TensorArgument | bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Space:
    """One call of an autotuned kernel with the configurations that it may have, and each one's grid.

    `source` is the text of the kernel's function, `helpers` that of the jitted functions it calls, by name, and
    `constants` the numbers among its global names. `arguments` are those of the call without the meta-parameters.
    """

    kernel: str
    source: str
    arguments: Mapping[str, ArgumentValue]
    configurations: Sequence[Configuration]
    grids: Sequence[tuple[int, ...]]
    helpers: Mapping[str, str] = field(default_factory=dict[str, str])
    constants: Mapping[str, Any] = field(default_factory=dict[str, Any])


def proposals(listed: Sequence[Configuration]) -> list[Configuration]:
    """Return configurations that an author could have listed: new combinations of what he varies, one step further.

    Whole numbers that are powers of two go from half the smallest to twice the largest, warps too, stages by one; all
    else keeps the values that it has. What does not vary is left as it is.
    """
    rows = [(*c.values.values(), c.warps, c.stages) for c in listed]
    names = tuple(listed[0].values)
    if any(tuple(c.values) != names for c in listed):
        return []
    known = {repr(row) for row in rows}
    choices = [_widened(name, [row[i] for row in rows]) for i, name in enumerate((*names, "num_warps", "num_stages"))]
    count = math.prod(map(len, choices))
    chance = random.Random(0)
    drawn = (
        itertools.product(*choices)
        if count <= 2 * MOST_PROPOSED
        else (tuple(chance.choice(values) for values in choices) for _ in range(2 * MOST_PROPOSED))
    )
    new = [row for row in dict.fromkeys(drawn) if repr(row) not in known]
    first = listed[0]
    return [
        Configuration(dict(zip(names, row[:-2], strict=True)), row[-2], row[-1], first.blocks, first.registers)
        for row in sorted(chance.sample(new, min(len(new), MOST_PROPOSED)), key=repr)
    ]


def _widened(name: str, values: Sequence[Any]) -> list[Any]:
    """Return the values of one key, and those a step further where it is known what a step is."""
    own = list(dict.fromkeys(values))
    if len(own) < 2 or not all(type(v) is int for v in own):
        return own
    low, high = min(own), max(own)
    if name == "num_stages":
        return list(range(max(1, low - 1), min(MOST_STAGES, high + 1) + 1))
    if any(v < 1 or v & (v - 1) for v in own):
        return own
    most = MOST_WARPS if name == "num_warps" else MOST_TILE
    least = LEAST_TILE if low >= LEAST_TILE else 1
    powers = [1 << n for n in range(low.bit_length() - 2, high.bit_length() + 1) if n >= 0]
    return [v for v in powers if low <= v <= high or least <= v <= most]
