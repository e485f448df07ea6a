"""What the page of a run shows, of every kind: finished, without a forecaster or a correct candidate, killed."""

from __future__ import annotations

import copy
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel
from support.recorded_run import Writer
from support.synthetic_executor import KnowingForecaster, SyntheticExecutor, task

from forewarp.archive.store import Archive
from forewarp.core.budget import Budget
from forewarp.report.html import changes, decisions
from forewarp.report.html.blocks import Fold, PageBlock, SourceLines, Table
from forewarp.report.html.roofline import Roofline
from forewarp.report.html.run import SpendingStep, page, steps
from forewarp.search.events import Measured
from forewarp.search.loop import Search
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.search.settings import SearchSettings
from forewarp.tools.calibration import scores_of_run
from forewarp.tools.run_report import RunRecord, SearchResult, best_so_far, lost, report


@dataclass(frozen=True)
class Shown:
    """What the page is made of."""

    result: SearchResult
    record: RunRecord

    @property
    def best(self) -> str:
        return self.result.best.kernel.sha256 if self.result.best else ""

    @cached_property
    def steps(self) -> list[SpendingStep]:
        return steps(self.record)

    @property
    def leads(self) -> list[str]:
        return [s.row.candidate.sha256 for s in self.steps if s.leads]

    @property
    def changes(self) -> Sequence[PageBlock]:
        return changes.changes(self.record.candidates, self.record.run.task.seeds, self.leads, self.best)

    @property
    def roofline(self) -> Roofline | None:
        return Roofline.of(self.record, self.best)

    @property
    def failures(self) -> Sequence[PageBlock]:
        return decisions.failures(self.record.candidates)


def of(archive: Archive, run: str) -> tuple[SearchResult, Shown]:
    result = report(archive, run)
    return result, Shown(result, RunRecord.read(archive, run))


def column(blocks: Sequence[PageBlock], head: str) -> list[str]:
    """Return the texts in one column of the last table; none where there is no table."""
    tables = [b for b in blocks if isinstance(b, Table)]
    if not tables:
        return []
    place = [c.text for c in tables[-1].head].index(head)
    return [row[place].text for row in tables[-1].rows]


def total(blocks: Sequence[PageBlock], head: str) -> int:
    return sum(int(text) for text in column(blocks, head))


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
    assert [s.row.candidate.sha256 for s in made.steps] == [e.kernel for e in told]
    assert [s.device_s for s in made.steps] == pytest.approx([e.spend.device_s for e in told])
    assert [s.row.purpose for s in made.steps] == ["candidate"] * 8 + ["confirm"]
    assert [s.best for s in made.steps[:-1]] == best_so_far(result.candidates)
    leads = [s for s in made.steps if s.leads]
    assert [s.best for s in leads] == [s.speedup for s in leads]
    assert not lost(made.record.run)
    [scores] = scores_of_run("toy", made.record.candidates).values()
    assert sum(p.count for p in scores.faster) == result.counts.measured
    assert made.roofline is not None
    assert made.roofline.floor_speedup is None
    assert total(decisions.proposers(made.record.candidates, made.leads), "proposed") == result.counts.proposed
    assert total(decisions.proposers(made.record.candidates, made.leads), "improvements") == len(leads)


def test_changes_say_what_became_of_text_and_tunables(archive: Archive) -> None:
    result, made = of(archive, Writer(archive, 160).write())
    assert result.best is not None
    rows = {r.candidate.short: r for r in archive.candidates(result.run_id)}
    changes = [c for c in made.changes if isinstance(c, Fold)]
    assert [c.open for c in changes] == [True, True, *(False for _ in changes[2:])]
    for change in changes:
        ours, base = (rows[word.strip(",")].candidate for word in change.title.split() if word.strip(",") in rows)
        assert any(isinstance(b, SourceLines) for b in change.blocks) == (ours.source != base.source)
        for name, before, after in zip(
            *(column(change.blocks, head) for head in ("tunable", "before", "after")), strict=True
        ):
            assert (before, after) == tuple(str(c.tunables.get(name, "")) for c in (base, ours))
    own, seed = changes[0].title, changes[1].title
    best = rows[result.best.kernel.short]
    assert own == f"The winner {best.candidate.short} against its parent {best.parent[:10]}"
    assert seed.startswith(f"The winner {best.candidate.short} against the seed ")
    assert rows[seed.split()[-1]].parent == ""


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
    assert {p.kernel for s in roof.shapes for p in s.points if p.winner} == {result.best.kernel.short}


def test_failures_of_one_kind_are_one_group(archive: Archive) -> None:
    result, made = of(archive, Writer(archive, 160).write())
    groups = {g.title.partition(" ")[2]: g for g in made.failures if isinstance(g, Fold)}
    for title, count in (
        ("compile error (gate)", result.counts.rejected["compile_error"]),
        ("incorrect (measurement)", result.counts.failures["incorrect"]),
    ):
        assert groups[title].title.partition(" ")[0] == str(count) != "1"
    assert len(made.failures) == 2
    assert "is undefined" in groups["compile error (gate)"].about


def test_decisions_are_told_once_with_how_often_they_were_made(archive: Archive) -> None:
    result, made = of(archive, Writer(archive, 160).write())
    told = decisions.by_candidate(made.record)
    assert len(column(told, "kernel")) == sum(c.action is not None for c in result.candidates)
    assert total(told, "times") == len(archive.decisions(result.run_id))
    assert result.audit is not None
    assert result.audit.audited == sum("audit" in reason for reason in column(told, "reason"))


def test_without_a_forecaster_there_is_nothing_to_be_reliable(archive: Archive) -> None:
    result, made = of(archive, Writer(archive, 80, forecaster="").write())
    assert scores_of_run("toy", made.record.candidates) == {}
    assert len(made.steps) == result.counts.considered


def test_without_a_correct_candidate_there_is_no_roofline(archive: Archive) -> None:
    result, made = of(archive, Writer(archive, 80, correct=False).write())
    assert result.best is None
    assert made.roofline is None
    assert list(made.changes) == []
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
    begun_ones = [m for m in made.record.measurements if m.state == "started"]
    assert (result.status, lost(made.record.run), len(begun_ones)) == ("running", True, 1)
    assert "resume it" in result.summary
    assert len(made.steps) == 3
    assert Counter(map(changes.fate, made.record.candidates))["unfinished"] == 1


def test_a_run_that_has_just_begun_shows_nothing(archive: Archive) -> None:
    begun = search(archive)
    _, made = of(archive, begun.run_id)
    assert (made.steps, list(made.failures)) == ([], [])
    assert not any(decisions.by_candidate(made.record))


HOSTILE = (
    "\x1b]0;owned\x07\x9b2J\u202e</script></style></title></text>]]><script>x()</script>"
    '<img src=x onerror=x()>" onload="x()\' javascript:x()'
)


def hostile(value: Any) -> Any:
    """Return a value of the page's with hostile text behind every text in it."""
    match value:
        case str():
            return value + HOSTILE
        case list() | tuple():
            items = [hostile(v) for v in cast("Sequence[Any]", value)]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        case dict():
            return {k: hostile(v) for k, v in cast("dict[str, Any]", value).items()}
        case BaseModel():
            return value.model_copy(update={n: hostile(getattr(value, n)) for n in type(value).model_fields})
        case _ if is_dataclass(value) and not isinstance(value, type):
            changed = copy.copy(value)
            for field in fields(value):
                object.__setattr__(changed, field.name, hostile(getattr(value, field.name)))
            return changed
        case _:
            return value


class Elements(HTMLParser):
    """The elements of a page with their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, list[tuple[str, str | None]]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, attrs))


def test_hostile_text_in_every_place_stays_text(archive: Archive) -> None:
    result, made = of(archive, Writer(archive, 96).write())
    text = page(hostile(result), hostile(made.record))
    assert text.count("onerror=x()") > 100
    assert all(c.isprintable() or c == "\n" for c in text)
    read = Elements()
    read.feed(text)
    assert "img" not in {tag for tag, _ in read.found}
    assert sum(tag == "script" for tag, _ in read.found) == 1
    assert not [name for _, attrs in read.found for name, _ in attrs if name.startswith("on")]
    assert all(value and value.startswith("#") for _, attrs in read.found for name, value in attrs if name == "href")
