"""Candidates that take long to build are forecast first, and built only where they are to be measured."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from support.synthetic_executor import SyntheticExecutor, task

from forewarp.archive.store import Archive
from forewarp.core import bins
from forewarp.core.budget import Budget
from forewarp.core.protocols import Forecaster, Known, Proposal, Subject, Trial
from forewarp.core.values import Candidate, Forecast, Target, Task
from forewarp.search.events import Accepted, Event, Rejected
from forewarp.search.loop import Search
from forewarp.search.settings import SearchSettings

MODULE = "from torch.utils.cpp_extension import load_inline  # {}\nNUMBER = {}\n"


def module(number: int, note: str = "") -> Candidate:
    return Candidate(MODULE.format(note, number), "python")


class Modules:
    """Proposes these modules, once."""

    name = "modules"

    def __init__(self, *modules: Candidate) -> None:
        self._modules = modules

    def propose(self, task: Task, target: Target, known: Known, count: int, rng: random.Random) -> list[Proposal]:
        return [Proposal(m, self.name) for m in self._modules if m.sha256 not in known.seen][:count]


class ByNumber:
    """Is sure that a module is so many octaves faster as its number says, and notes whether it was built by then."""

    name = "by number"

    def __init__(self) -> None:
        self.pending: set[bool] = set()

    def forecast(
        self, task: Task, target: Target, subjects: Sequence[Subject], history: Sequence[Trial]
    ) -> list[Forecast]:
        self.pending |= {s.build.pending for s in subjects if s.candidate not in [t.subject.candidate for t in history]}
        means = [float(s.candidate.source.split("= ")[1]) for s in subjects]
        return [Forecast(bins.from_normal(m, 0.1), 0.9, self.name, mean_log2=m, sd_log2=0.1) for m in means]


def run(
    archive: Archive, executor: SyntheticExecutor, forecaster: Forecaster | None, *modules: Candidate
) -> tuple[Search, list[Event]]:
    settings = SearchSettings(budget=Budget(measurements=2), confirm=False, holdout=False, audit=0.0)
    search = Search.start(archive, task(), executor, Modules(*modules), forecaster, settings)
    return search, list(search.events())


@pytest.fixture
def archive():
    with Archive(":memory:") as opened:
        yield opened


def test_only_what_is_measured_is_built(archive: Archive) -> None:
    executor, forecaster = SyntheticExecutor(), ByNumber()
    best, second, rest = module(3), module(2), [module(-n) for n in range(1, 6)]
    search, happened = run(archive, executor, forecaster, *rest, second, best)
    assert executor.measured == [best, second]
    assert executor.compiled.keys() == {best.sha256, second.sha256}
    assert forecaster.pending == {True}
    # Passing the gate and being built are one acceptance.
    assert sum(isinstance(e, Accepted) for e in happened) == 7
    builds = {r.candidate.sha256: r.build for r in archive.candidates(search.run_id)}
    assert [b.pending for b in (builds[c.sha256] for c in (best, rest[0])) if b] == [False, True]
    assert search.summary().account.built.count == 2


def test_one_that_cannot_be_built_costs_no_measurement(archive: Archive) -> None:
    executor = SyntheticExecutor()
    broken, best, second = module(4, "#error"), module(3), module(2)
    search, happened = run(archive, executor, ByNumber(), broken, best, second)
    assert executor.measured == [best, second]
    assert [e.outcome for e in happened if isinstance(e, Rejected)] == ["compile_error"]
    assert search.summary().spend.measurements == 2
    assert search.summary().rejected == {"compile_error": 1}


def test_without_forecasts_all_are_built_at_the_gate(archive: Archive) -> None:
    executor = SyntheticExecutor()
    modules = [module(n) for n in range(4)]
    run(archive, executor, None, *modules)
    assert set(executor.compiled) == {m.sha256 for m in modules}


def test_what_builds_fast_is_built_at_the_gate(archive: Archive) -> None:
    executor, forecaster = SyntheticExecutor(), ByNumber()
    modules = [Candidate(f"NUMBER = {n}\n", "python") for n in range(4)]
    run(archive, executor, forecaster, *modules)
    assert set(executor.compiled) == {m.sha256 for m in modules}
    assert forecaster.pending == {False}


def test_a_build_that_was_pending_survives_a_kill(archive: Archive) -> None:
    executor = SyntheticExecutor()
    settings = SearchSettings(budget=Budget(measurements=2), confirm=False, holdout=False, audit=0.0)
    modules = Modules(module(3), module(2), module(-1))
    search = Search.start(archive, task(), executor, modules, ByNumber(), settings)
    events = search.events()
    for event in events:
        if type(event).__name__ == "Decided":
            break
    events.close()  # type: ignore[attr-defined]
    resumed = SyntheticExecutor()
    Search.resume(archive, search.run_id, resumed, modules, ByNumber()).run()
    assert resumed.measured == [module(3), module(2)]
