"""A kernel against itself on the CPU device: nothing may come out faster or slower.

What else runs takes processors from one side and not from the other, so only what was measured undisturbed is counted;
for all of it holds that neither side may be preferred.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from support.small_tasks import cpp, small_task

from forewarp.core.protocols import Subject
from forewarp.core.values import Measurement
from forewarp.gpu_runner.devices import detect_cpu
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor

RUNS, ALLOWED, ATTEMPTS, MOST_RUNS = 20, 2, 2, 40
DISTURBED = 0.15
"""Processors that others may keep busy meanwhile; they are counted in hundredths of a second."""


def told_apart(results: Sequence[Measurement]) -> int:
    return sum(r.verdict in ("faster", "slower") for r in results)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_equal_kernels_are_not_told_apart() -> None:
    executor = LocalExecutor(detect_cpu(), limits=Limits(time_s=0.2))
    task, kernel = small_task(), cpp()
    everything: list[Measurement] = []
    undisturbed: list[Measurement] = []
    try:
        build = executor.compile(task, kernel)
        executor.probe()
        for _ in range(ATTEMPTS):
            undisturbed, most = [], len(everything) + MOST_RUNS
            while len(undisturbed) < RUNS and len(everything) < most:
                everything.append(executor.measure(task, kernel, build, Subject(kernel, build)))
                if everything[-1].conditions["other_processors"] < DISTURBED:
                    undisturbed.append(everything[-1])
            if told_apart(undisturbed) <= ALLOWED:
                break
    finally:
        executor.close()
    assert all(r.status == "ok" for r in everything)
    assert all(r.anchor == kernel.sha256 for r in everything)
    assert not [r.flags for r in everything if r.verdict in ("suspicious", "impossible")]
    # One in a hundred is meant: more than two of twenty come once in a thousand times, and there is a second chance.
    assert told_apart(undisturbed) <= ALLOWED
    # However often a busy machine fools it, that must be as often one way as the other: four standard deviations.
    faster, slower = (sum(r.verdict == said for r in everything) for said in ("faster", "slower"))
    assert abs(faster - slower) <= 4 * math.sqrt(faster + slower)
