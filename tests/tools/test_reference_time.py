"""What a session finds out about the time of a task's reference before anything of it was measured."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import pytest
from support import synthetic_executor as synthetic

from forewarp.archive.store import Archive
from forewarp.core.errors import TaskError
from forewarp.core.values import Build, Measurement, Operation, Signature, Target, Task
from forewarp.surrogate import reference
from forewarp.surrogate.baselines import uniform
from forewarp.surrogate.reference import ReferenceTime
from forewarp.tools.search import Models, Own, forecasting
from forewarp.tools.session import reference_time
from forewarp.tools.suite_modules import identical

GPU = Target("NVIDIA H200", "cuda", "sm_90", 132, 4.8e12, 67e12, 989e12, 60 << 20)
TASK = synthetic.task()


class Card(synthetic.SyntheticExecutor):
    """A made-up GPU, with a torch of this version, whose signatures count a reference's operations."""

    def __init__(self, torch: str = "2.12.0") -> None:
        super().__init__(GPU)
        self.torch, self.broken = torch, False

    def probe(self) -> dict[str, str]:
        return {"torch": self.torch, "triton": "3.6.0"}

    def describe(self, task: Task) -> tuple[Signature, ...]:
        if self.broken:
            raise TaskError("the reference fails")
        add = Operation("add", "pointwise", "float32", 1 << 28, 0, 1 << 28, times=2)
        return tuple(replace(s, operations=(add,)) for s in super().describe(task))

    def answer(self, asked: synthetic.Asked) -> Measurement:
        return replace(super().answer(asked), environment={"torch": f"{self.torch}+cu130"})


@pytest.fixture
def archive() -> Generator[Archive]:
    with Archive(":memory:") as opened:
        yield opened


def known(archive: Archive, executor: Card, *, at_hand: bool = True) -> ReferenceTime:
    (found,) = reference_time(archive, TASK, executor, at_hand=at_hand).values()
    return found


def test_where_a_gpu_is_at_hand_the_reference_is_measured_once_for_each_torch(archive: Archive) -> None:
    card = Card()
    first = known(archive, card)
    assert card.measured == [identical(TASK)]
    assert first.sd_log2 == 0.0
    assert first.operations == 2
    assert first.versions == {"torch": "2.12.0", "Triton": "3.6.0"}
    again, newer = Card(), Card("2.13.0")
    assert known(archive, again).seconds == first.seconds
    assert again.measured == []
    known(archive, newer)
    assert newer.measured == [identical(TASK)]


def test_where_none_is_at_hand_it_is_forecast_from_its_operations(archive: Archive) -> None:
    card = Card()
    found = known(archive, card, at_hand=False)
    assert card.measured == []
    forecast = reference.forecast(card.describe(TASK), GPU)
    assert forecast is not None
    assert (found.seconds, found.sd_log2) == (forecast.seconds, forecast.sd_log2)
    assert found.sd_log2 > 0


def test_trials_of_other_kernels_tell_it_as_well(archive: Archive) -> None:
    card = Card()
    timed = card.measure(TASK, synthetic.seed(), Build("ok", 0.0))
    archive.record(TASK, GPU, synthetic.seed(), Build("ok", 0.0), timed)
    fresh = Card()
    assert known(archive, fresh).seconds == {w.workload: w.anchor_median_s for w in timed.workloads}
    assert fresh.measured == []


def test_nothing_is_known_of_a_reference_that_fails_or_on_a_cpu(archive: Archive) -> None:
    broken = Card()
    broken.broken = True
    assert reference_time(archive, TASK, broken, at_hand=False) == {}
    cpu = synthetic.SyntheticExecutor()
    assert reference_time(archive, TASK, cpu, at_hand=True) == {}
    assert cpu.measured == []


def test_a_reference_that_cannot_be_measured_is_forecast(archive: Archive) -> None:
    class Small(Card):
        def answer(self, asked: synthetic.Asked) -> Measurement:
            raise TaskError("it does not fit")

    assert known(archive, Small()).sd_log2 > 0


def test_nothing_is_measured_for_a_forecaster_of_the_callers_own(archive: Archive) -> None:
    card, mine = Card(), uniform()
    assert forecasting(Own(forecaster=mine), Models([], None), "learned", 0, archive, TASK, card) == (mine, None)
    assert card.measured == []
    forecasting(Own(), Models([], None), "learned", 0, archive, TASK, card)
    assert card.measured == [identical(TASK)]
