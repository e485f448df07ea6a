"""Two synthetic cards on which different tunables are best, and a pool that was recorded on both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from support import synthetic_executor as synthetic
from support.recorded_pool import Recorded, record

from forewarp.archive.pools.parquet import read_pool, write_rows
from forewarp.core.errors import WorkerError
from forewarp.core.protocols import Executor
from forewarp.core.values import Measurement, Target, Task
from forewarp.tools.parts import Place
from forewarp.tools.session import Executors

WIDE, NARROW = (replace(synthetic.TARGET, name=name) for name in ("wide-1", "narrow-1"))


class Card(synthetic.SyntheticExecutor):
    """The synthetic device, but for a target on which every doubling of TILE costs `slope` octaves more."""

    def __init__(self, target: Target, slope: float = 0.0, gone_after: int | None = None) -> None:
        super().__init__(target)
        self.slope, self.gone_after = slope, gone_after

    def answer(self, asked: synthetic.Asked) -> Measurement:
        if self.gone_after is not None and len(self.measured) >= self.gone_after:
            raise WorkerError("the machine is gone")
        # Timed in full: the plain device would hold the speed-up without the slope against what is to be beaten.
        m = super().answer(replace(asked, beat=None))
        if m.speedup is None or m.low is None or m.high is None:
            return m
        factor = 2.0 ** (-self.slope * (asked.candidate.tunables["TILE"].bit_length() - 8))
        s, low, high = (v * factor for v in (m.speedup, m.low, m.high))
        return replace(
            m, speedup=s, low=low, high=high, verdict="faster" if low > 1 else "slower" if high < 1 else "tie"
        )


class Cards(Executors):
    """Synthetic cards by the names that places give them."""

    def __init__(self, **cards: Card) -> None:
        super().__init__()
        self.cards = cards

    def get(self, place: Place, task: Task) -> Executor:
        return self.cards[place.card]


def record_two(folder: Path) -> Recorded:
    """Record a pool on the synthetic device, and again the same kernels on both cards."""
    made = record(folder)
    rows = list(read_pool(Path(made.pool)))
    cards = Card(WIDE), Card(NARROW, slope=1.0)
    again = [
        replace(r, target=card.target, measurement=card.measure(r.task, r.candidate, r.build))
        for card in cards
        for r in rows
    ]
    write_rows([*rows, *again], folder / "two.parquet")
    return replace(made, pool=str(folder / "two.parquet"))
