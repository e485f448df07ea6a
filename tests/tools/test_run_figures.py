"""The figures of runs of every kind: finished, without a forecaster, without a correct candidate, killed."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.recorded_run import Writer
from support.synthetic_executor import KnowingForecaster, SyntheticExecutor, task

from forewarp.archive.store import Archive
from forewarp.core.budget import Budget
from forewarp.search.events import Measured
from forewarp.search.loop import Search
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.search.settings import SearchSettings
from forewarp.tools import run_lineage
from forewarp.tools.run_figures import RunFigures, figures
from forewarp.tools.run_report import SearchResult, best_so_far, report


def of(archive: Archive, run: str) -> tuple[SearchResult, RunFigures]:
    result = report(archive, run)
    return result, figures(archive, result)


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    with Archive(tmp_path / "a.db") as opened:
        yield opened


def search(archive: Archive, measurements: int = 9) -> Search:
    settings = SearchSettings(budget=Budget(measurements=measurements))
    return Search.start(archive, task(), SyntheticExecutor(), TunablesProposer(), KnowingForecaster(), settings)


def test_a_searched_run_has_a_step_for_every_measurement_and_ends_with_the_confirmation(archive: Archive) -> None:
    found = search(archive)
    told = [e for e in found.events() if isinstance(e, Measured)]
    result, made = of(archive, found.run_id)
    assert [s.kernel.sha256 for s in made.steps] == [e.kernel for e in told]
    assert [s.device_s for s in made.steps] == pytest.approx([e.spend.device_s for e in told])
    assert [s.purpose for s in made.steps] == ["candidate"] * 8 + ["confirm"]
    assert [s.best for s in made.steps[:-1]] == best_so_far(result.candidates)
    leads = [s for s in made.steps if s.leads]
    assert [s.best for s in leads] == [s.speedup for s in leads]
    assert (made.lost, made.begun) == (False, 0)
    assert made.reliability[0].outcomes == result.counts.measured
    assert made.roofline is not None
    assert made.roofline.floor_speedup is None
    assert sum(r.measured for r in made.rounds) == result.counts.measured
    assert sum(p.proposed for p in made.proposers) == result.counts.proposed


def test_the_tree_holds_what_was_measured_and_counts_the_rest(archive: Archive) -> None:
    result, made = of(archive, Writer(archive, 160).write())
    nodes = {n.kernel.sha256: n for n in made.lineage.nodes}
    measured = {c.kernel.sha256 for c in result.candidates if c.measured}
    assert measured <= set(nodes)
    hidden = sum(sum(n.hidden.values()) for n in nodes.values()) + sum(made.lineage.left_out.values())
    assert hidden + len(nodes) == len({c.kernel.sha256 for c in result.candidates})
    assert all(n.parent in nodes for n in nodes.values() if n.parent)
    assert any(n.mate in nodes for n in nodes.values())
    assert result.best is not None
    above = result.best.kernel.sha256
    while above:
        assert nodes[above].winning
        above = nodes[above].parent
    assert {n.kernel.sha256 for n in nodes.values() if n.leads} == {s.kernel.sha256 for s in made.steps if s.leads}


def test_a_large_tree_keeps_the_leads(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_lineage, "MOST_NODES", 40)
    _, made = of(archive, Writer(archive, 160, forecaster="").write())
    leads = {s.kernel.sha256 for s in made.steps if s.leads}
    assert len(leads) <= len(made.lineage.nodes) <= 40 + len(leads)
    assert leads <= {n.kernel.sha256 for n in made.lineage.nodes}


def test_changes_say_what_became_of_text_and_tunables(archive: Archive) -> None:
    result, made = of(archive, Writer(archive, 160).write())
    assert result.best is not None
    rows = {r.candidate.sha256: r for r in archive.candidates(result.run_id)}
    whats = Counter(c.what for c in made.changes)
    assert whats["winner against its parent"] == whats["winner against the seed"] == 1
    for change in made.changes:
        ours, base = rows[change.kernel.sha256].candidate, rows[change.base.sha256].candidate
        assert bool(change.diff) == (ours.source != base.source)
        for t in change.tunables:
            assert (t.before, t.after) == (base.tunables.get(t.name), ours.tunables.get(t.name))
    own, seed = made.changes[0], made.changes[1]
    assert own.kernel == seed.kernel == result.best.kernel
    assert own.base.sha256 == rows[own.kernel.sha256].parent
    assert rows[seed.base.sha256].parent == ""


def test_the_roofline_is_the_floor_over_the_reference(archive: Archive) -> None:
    result, made = of(archive, Writer(archive, 80).write())
    roof = made.roofline
    assert roof is not None
    # 128 MiB at 4.8 TB/s, less the 60 MiB of outputs that may stay in the cache; flops decide nothing here.
    floor = ((2 * 4096 * 4096 * 4) - (60 << 20)) / 4.8e12 * 1e6
    assert roof.shapes[0].floor_us == pytest.approx(floor)
    assert roof.shapes[0].reference_us == pytest.approx(400)
    wide = roof.shapes[1]
    assert roof.floor_speedup == pytest.approx(((400 / floor) * (wide.reference_us / (wide.floor_us or 1))) ** 0.5)
    assert result.best is not None
    assert {p.kernel for p in roof.points if p.winner} == {result.best.kernel.short}


def test_failures_of_one_kind_are_one_group(archive: Archive) -> None:
    result, made = of(archive, Writer(archive, 160).write())
    groups = {(g.stage, g.outcome): g for g in made.failures}
    assert groups["gate", "compile_error"].count == result.counts.rejected["compile_error"] > 1
    assert groups["measurement", "incorrect"].count == result.counts.failures["incorrect"] > 1
    assert len(made.failures) == 2
    assert "is undefined" in groups["gate", "compile_error"].log


def test_decisions_are_told_once_with_how_often_they_were_made(archive: Archive) -> None:
    result, made = of(archive, Writer(archive, 160).write())
    assert len(made.decisions) == sum(c.action is not None for c in result.candidates)
    assert sum(d.times for d in made.decisions) == len(archive.decisions(result.run_id))
    assert result.audit is not None
    assert sum(d.audit for d in made.decisions) == result.audit.audited == sum(r.audits for r in made.rounds)


def test_without_a_forecaster_there_is_nothing_to_be_reliable(archive: Archive) -> None:
    result, made = of(archive, Writer(archive, 80, forecaster="").write())
    assert made.reliability == []
    assert len(made.steps) == result.counts.considered


def test_without_a_correct_candidate_there_is_no_roofline(archive: Archive) -> None:
    result, made = of(archive, Writer(archive, 80, correct=False).write())
    assert result.best is None
    assert made.roofline is None
    assert made.changes == []
    assert all(s.best is None and not s.leads for s in made.steps)


def test_a_run_that_was_killed_in_a_measurement_is_told_as_such(archive: Archive) -> None:
    class Killed(BaseException):
        pass

    class Dying(SyntheticExecutor):
        def measure(self, *given: object, **more: object):  # type: ignore[no-untyped-def,override]
            if len(self.measured) == 3:
                raise Killed
            return super().measure(*given, **more)  # type: ignore[arg-type]

    settings = SearchSettings(budget=Budget(measurements=9))
    begun = Search.start(archive, task(), Dying(), TunablesProposer(), KnowingForecaster(), settings)
    with pytest.raises(Killed):
        list(begun.events())
    # What the process of a killed run leaves behind: a run that is running, owned by nobody who lives.
    archive.set_status(begun.run_id, "running", owner=f"{os.uname().nodename}:999999999:1")
    result, made = of(archive, begun.run_id)
    assert (result.status, made.lost, made.begun) == ("running", True, 1)
    assert "resume it" in result.summary
    assert len(made.steps) == 3
    assert Counter(n.fate for n in made.lineage.nodes)["unfinished"] == 1


def test_a_run_that_has_just_begun_has_empty_figures(archive: Archive) -> None:
    begun = search(archive)
    _, made = of(archive, begun.run_id)
    assert (made.steps, made.decisions, made.failures, made.rounds) == ([], [], [], [])
