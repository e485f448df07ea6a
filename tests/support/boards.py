"""Boards with made-up candidates, the same ones each time."""

from __future__ import annotations

import random

from forewarp.agent.candidates import Candidates, ListedCandidate
from forewarp.tools.parts import Interval
from forewarp.tools.steps import CandidateForecast, CandidateMeasured, surprise

SOURCE = """\
// Row-wise softmax: one block of threads per row.
#include <cmath>

extern "C" __global__ void softmax(const float* x, float* y, int n) {
  constexpr int BLOCK = 128;
  float top = -INFINITY;
  for (int i = threadIdx.x; i < n; i += BLOCK) top = fmaxf(top, x[blockIdx.x * n + i]);
  y[blockIdx.x * n + threadIdx.x] = expf(x[threadIdx.x] - top);
}
"""


def forecast(number: int, task: str = "softmax", *, parent: int = 0, median: float | None = None) -> CandidateForecast:
    """Return the forecast of candidate `number`, made from candidate `parent` where that is not 0."""
    chance = random.Random(number)
    median = median or 2 ** chance.gauss(number**0.5 * 0.15 - 0.3, 0.4)
    spread = 2 ** chance.uniform(0.2, 0.7)
    return CandidateForecast(
        kernel=sha(number),
        task=task,
        device="NVIDIA H200",
        language=chance.choice(("cuda", "triton", "cpp")),
        tunables={"BLOCK": 64 << number % 4},
        source=SOURCE.replace("BLOCK = 128", f"BLOCK = {64 << number % 4}"),
        origin=chance.choice(("agent", "user", "r-7f3a2c")),
        parent=sha(parent) if parent else "",
        forecaster="learned",
        median=median,
        low=median / spread,
        high=median * spread,
        p_valid=chance.uniform(0.4, 1),
        p_faster=chance.uniform(0, 1),
        p_better=chance.uniform(0, 1),
        confidence=chance.uniform(0.2, 0.8),
        advice=chance.choice(("measure", "skip")),
        reason="expected improvement 0.31 pays for a measurement",
    )


def measured(expected: CandidateForecast, number: int, ratio: float | None = None) -> CandidateMeasured:
    """Return what came out for a candidate: now and then a failure, else a time near the forecast."""
    chance = random.Random(-number)
    failed = ratio is None and chance.random() < 0.15
    ratio = None if failed else ratio or (expected.median or 1.0) * 2 ** chance.gauss(0, 0.5)
    interval = Interval(ratio=ratio, low=ratio * 0.98, high=ratio * 1.02) if ratio else None
    return CandidateMeasured(
        kernel=expected.kernel,
        task=expected.task,
        status="incorrect" if failed else "ok",
        verdict="incorrect" if ratio is None else "faster" if ratio > 1.02 else "slower" if ratio < 0.98 else "tie",
        speedup=ratio,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
        trusted=True,
        provenance="replay",
        measurement=number,
        device_s=chance.uniform(0.4, 3),
        surprise=surprise(expected, interval),
    )


def board(rows: int, tasks: tuple[str, ...] = ("softmax",), every: int = 2) -> Candidates:
    """Return a board of so many candidates; every so many-th is measured."""
    made = Candidates()
    for number in range(1, rows + 1):
        said = forecast(number, tasks[number % len(tasks)], parent=number - 1 if number % 3 == 0 else 0)
        made.apply(said)
        if number % every == 0:
            made.apply(measured(said, number))
    return made


def row(made: Candidates, number: int) -> ListedCandidate:
    """Return a row that is there."""
    found = made.row(number)
    assert found is not None
    return found


def sha(number: int) -> str:
    """Return the identity of candidate `number`."""
    return f"{number * 2654435761 % 2**32:08x}" * 8
