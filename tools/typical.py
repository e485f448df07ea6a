"""Typical costs of a search, for tasks that the archive does not know: figures with the files they come from.

`tests/tools/test_estimate.py` computes them again from those files. Figures without a file are marked as guesses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

GUESS = "a guess"


class Span(NamedTuple):
    """A low, a likely and a high value."""

    low: float
    likely: float
    high: float

    def times(self, other: Span) -> Span:
        """Multiply value by value."""
        return Span(self.low * other.low, self.likely * other.likely, self.high * other.high)

    def by(self, factor: float) -> Span:
        """Multiply each value by the same number."""
        return Span(self.low * factor, self.likely * factor, self.high * factor)

    def plus(self, other: Span) -> Span:
        """Add value by value."""
        return Span(self.low + other.low, self.likely + other.likely, self.high + other.high)


ZERO = Span(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Figure:
    """A span and its source."""

    span: Span
    source: str


MEASUREMENT_S = {
    "cuda": Figure(Span(0.853, 0.977, 1.394), "benchmarks/results/h200/*_*.json, six runs"),
    "cpu": Figure(
        Span(2.213, 5.948, 20.050),
        "benchmarks/results/equal_budget_cpu.json, which timed half as long: the highest is doubled, a guess",
    ),
}
"""Seconds of the device per measurement, by kind of device."""

CANDIDATE_S = {
    "cuda": Figure(Span(0.081, 0.194, 0.268), "benchmarks/results/h200/*_*.json, six runs"),
    "cpu": Figure(Span(0.183, 0.286, 0.848), "benchmarks/results/equal_budget_cpu.json"),
}
"""Seconds of wall time per candidate besides measuring: compiling in threads, forecasting, deciding."""

COMPILE_S = {
    "cuda": Figure(Span(0.238, 0.648, 1.013), "benchmarks/results/h200/pool.parquet"),
    "cpu": Figure(Span(0.1, 0.5, 2.0), GUESS),
}
"""Seconds to compile one candidate, by kind of device."""

LOOKUP_S = Figure(Span(0.0005, 0.008, 0.008), "benchmarks/results/forecast_speed.json")
"""Seconds per forecast of the embedded forecaster, which is all that a replay has to wait for."""

FORECAST_TOKENS_IN = Figure(Span(476, 693, 942), "benchmarks/results/llm_test.parquet")
FORECAST_TOKENS_OUT = Figure(Span(47, 50, 54), "benchmarks/results/llm_test.parquet")
FORECAST_S = Figure(Span(9.793, 11.977, 19.280), "benchmarks/results/llm_test.parquet")
"""Tokens and seconds of a language model per candidate that it forecasts; several share a prompt."""

ESCALATED = Figure(Span(0, 4, 8), GUESS)
"""Candidates per round for which a cascade asks its language model."""

PROPOSAL_TOKENS_IN = Figure(Span(2500, 6000, 12000), GUESS)
PROPOSAL_TOKENS_OUT = Figure(Span(1000, 3000, 8000), GUESS)
PROPOSAL_S = Figure(Span(15, 60, 180), GUESS)
"""Tokens and seconds of a language model per program that it writes."""

WRITTEN = Figure(Span(2, 4, 4), GUESS)
"""Programs per round that a language model writes; tunables of what works fill the rest of the round."""

NEAR = Figure(Span(0.0, 1.5, 3.0), GUESS)
"""Cost of trying the winner on near shapes, in measurements of the task."""

AT_ONCE = 4
"""Calls to a language model that run at the same time."""
