"""Estimates: from earlier runs, from measurements, from typical figures; and that they leave no trace."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.recorded_pool import Recorded, record
from support.synthetic_executor import TARGET, KnowingForecaster, SyntheticExecutor, task

from forewarp.archive.store import Archive
from forewarp.core.errors import ArchiveError, ModelError, UsageError
from forewarp.core.values import Budget
from forewarp.search.loop import Search
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.search.settings import SearchSettings
from forewarp.tools import typical
from forewarp.tools.estimate import Estimate, Range, clock, estimate, in_words, number, origin
from forewarp.tools.parts import Amounts, Place
from forewarp.tools.search import SearchRequest, estimate_search, search
from forewarp.tools.typical import Span

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
SETTINGS = SearchSettings(budget=Budget(measurements=10), proposer="tunables", forecaster="learned")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record(tmp_path_factory.mktemp("pool"))


def close(found: Span, values: tuple[float, float, float]) -> bool:
    return all(abs(a - b) <= 1e-3 for a, b in zip(found, values, strict=True))


def ends(values: list[float]) -> tuple[float, float, float]:
    return min(values), statistics.median(values), max(values)


def tenths(values: list[float]) -> tuple[float, float, float]:
    ordered = sorted(values)
    return tuple(ordered[int(q * len(ordered))] for q in (0.1, 0.5, 0.9))  # type: ignore[return-value]


def h200_runs() -> Iterator[dict[str, Any]]:
    for path in sorted((RESULTS / "h200").glob("*_*.json")):
        found = json.loads(path.read_text())
        if found.get("command") == "optimize":
            yield found


def test_typical_figures_are_those_of_their_files() -> None:
    runs = list(h200_runs())
    spent = [r["budget"]["spent"] for r in runs]
    assert len(runs) == 6
    assert close(typical.MEASUREMENT_S["cuda"].span, ends([s["device_s"] / s["measurements"] for s in spent]))
    besides = [(s["wall_s"] - s["device_s"]) / r["counts"]["proposed"] for s, r in zip(spent, runs, strict=True)]
    assert close(typical.CANDIDATE_S["cuda"].span, ends(besides))
    pool = pq.read_table(RESULTS / "h200" / "pool.parquet", columns=["build_json"])["build_json"].to_pylist()
    assert close(typical.COMPILE_S["cuda"].span, tenths([json.loads(b)["seconds"] for b in pool]))
    cpu = [r for r in json.loads((RESULTS / "equal_budget_cpu.json").read_text())["runs"] if r["arm"] == "on"]
    low, likely, high = ends([r["device_s"] / r["measurements"] for r in cpu])
    assert close(typical.MEASUREMENT_S["cpu"].span, (low, likely, 2 * high))
    assert close(typical.CANDIDATE_S["cpu"].span, ends([(r["wall_s"] - r["device_s"]) / r["proposed"] for r in cpu]))
    answers = pq.read_table(RESULTS / "llm_test.parquet", columns=["input_tokens", "output_tokens", "seconds"])
    for figure, column in (
        (typical.FORECAST_TOKENS_IN, "input_tokens"),
        (typical.FORECAST_TOKENS_OUT, "output_tokens"),
        (typical.FORECAST_S, "seconds"),
    ):
        assert close(figure.span, tenths(answers[column].to_pylist()))
    slow = json.loads((RESULTS / "forecast_speed.json").read_text())["ms_per_kernel"]
    assert close(
        typical.LOOKUP_S.span,
        tuple(slow[f"learned, {n} trials"] / 1e3 for n in (0, 12, 12)),  # type: ignore[arg-type]
    )


def test_every_typical_figure_names_its_file_or_says_that_it_is_a_guess() -> None:
    found = [v for v in vars(typical).values() if isinstance(v, typical.Figure)]
    found += [f for v in vars(typical).values() if isinstance(v, dict) for f in v.values() if hasattr(f, "source")]
    assert len(found) > 10
    for figure in found:
        named = re.findall(r"benchmarks/results/[\w./*]+\w", figure.source)
        assert typical.GUESS in figure.source or named
        assert all(list(RESULTS.glob(n.removeprefix("benchmarks/results/"))) for n in named)
        assert figure.span.low <= figure.span.likely <= figure.span.high


def test_without_an_archive_it_rests_on_typical_figures(tmp_path: Path) -> None:
    found = estimate(task(), TARGET, SETTINGS, archive=tmp_path / "none.db")
    assert found.measurements == Range(low=10, likely=10, high=10)
    assert found.ends_by == "measurements"
    assert found.candidates is not None
    assert 50 < found.candidates.low < found.candidates.high <= 80
    assert found.earlier_runs == 0
    assert found.tokens == Range(low=0, likely=0, high=0)
    assert "typical figures" in origin(found)
    assert "guess" in origin(found)
    assert list(tmp_path.iterdir()) == []


def test_the_first_cap_is_named(tmp_path: Path) -> None:
    def with_caps(**caps: Any) -> Estimate:
        settings = replace(SETTINGS, budget=Budget(**caps))
        return estimate(task(), TARGET, settings, archive=tmp_path / "none.db")

    assert with_caps(measurements=500, device_s=10).ends_by == "device_s"
    short = with_caps(measurements=500, wall_s=30)
    assert short.ends_by == "wall_s"
    assert short.measurements is not None
    assert short.measurements.low < short.measurements.high < 40
    free = with_caps(tokens=1000)
    assert (free.ends_by, free.measurements, free.wall_s) == (None, None, None)
    assert "No cap" in in_words(free)


def test_a_language_model_is_counted_in_tokens_and_dollars(tmp_path: Path) -> None:
    settings = replace(SETTINGS, proposer="llm openai:m", forecaster="cascade", proposals_per_round=12)
    where = tmp_path / "none.db"
    found = estimate(task(), TARGET, settings, archive=where, dollars=lambda i, o: (i * 2 + o * 10) / 1e6)
    assert found.tokens is not None
    assert found.dollars is not None
    assert found.tokens.low > 1000
    assert 0 < found.dollars.low < found.dollars.likely < found.dollars.high
    capped = replace(settings, budget=Budget(measurements=500, tokens=20_000))
    assert estimate(task(), TARGET, capped, archive=where).ends_by == "tokens"
    unknown = estimate(task(), TARGET, settings, archive=where, dollars=lambda _read, _written: None)
    assert unknown.dollars is None
    assert "dollars unknown" in unknown.summary


def test_earlier_runs_say_more_than_typical_figures(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with Archive(path) as archive:
        for seed in range(3):
            settings = replace(SETTINGS, seed=seed, budget=Budget(measurements=6))
            Search.start(archive, task(), SyntheticExecutor(), TunablesProposer(), KnowingForecaster(), settings).run()
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    found = estimate(task(), TARGET, SETTINGS, archive=path)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
    assert found.earlier_runs == 3
    assert found.device_s is not None
    assert 0 < found.device_s.likely < 10 * 0.6
    assert found.wall_s is not None
    assert found.wall_s.likely < 5
    assert origin(found) == "from 3 earlier runs of this task here"
    # Of another setup only what one measurement and one compile take is known.
    other = estimate(task(), TARGET, replace(SETTINGS, forecaster="llm"), archive=path)
    assert other.earlier_runs == 0
    assert "this task's measurements here" in origin(other)
    elsewhere = replace(TARGET, name="synthetic-2")
    assert estimate(task(), elsewhere, SETTINGS, archive=path).earlier_runs == 0


def test_devices_that_measure_at_once_take_less_time(tmp_path: Path) -> None:
    def wall_s(settings: SearchSettings, devices: int) -> float:
        found = estimate(task(), TARGET, settings, archive=tmp_path / "none.db", devices=devices)
        assert found.wall_s is not None
        assert found.device_s == alone.device_s
        return found.wall_s.likely

    many = replace(SETTINGS, budget=Budget(measurements=400), measure_per_round=8, proposals_per_round=16)
    alone = estimate(task(), TARGET, many, archive=tmp_path / "none.db")
    assert alone.wall_s is not None
    each = typical.MEASUREMENT_S["cpu"].span.likely
    # Of 400, one confirms the winner when all others are done.
    assert alone.wall_s.likely - wall_s(many, 8) == pytest.approx(399 * each * 7 / 8)
    # Six devices measure a round's eight in two turns, as four do.
    assert wall_s(many, 6) == wall_s(many, 4) == pytest.approx(alone.wall_s.likely - 399 * each * 3 / 4)
    one_by_one = replace(many, measure_per_round=1)
    assert wall_s(one_by_one, 8) == wall_s(one_by_one, 1)
    found = estimate(task(), TARGET, many, archive=tmp_path / "none.db", devices=8)
    assert found.devices == 8
    assert "on 8 devices" in found.summary
    assert "on 1 devices" not in alone.summary
    at_once = next(b for b in found.basis if b.figure.startswith("measurements at once"))
    assert at_once.value.likely == 8
    everything = replace(many, forecaster="", proposals_per_round=8)
    assert wall_s(everything, 8) < wall_s(everything, 1)


def test_a_file_that_is_no_archive_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_text("not a database, but long enough to be taken for one" * 10)
    with pytest.raises(ArchiveError, match=r"a\.db"):
        estimate(task(), TARGET, SETTINGS, archive=tmp_path / "a.db")


def test_a_replay_is_estimated_from_its_pool(recorded: Recorded, tmp_path: Path) -> None:
    place = Place(device="replay", pool=recorded.pool, archive=str(tmp_path / "none.db"))
    request = SearchRequest(task=recorded.task, place=place, budget=Amounts(measurements=8), forecaster="none")
    found = estimate_search(request)
    assert (found.source, found.ends_by) == ("replay", "measurements")
    assert not (tmp_path / "none.db").exists()
    ran = search(request)
    assert found.device_s is not None
    assert found.device_s.low * 0.9 <= (ran.budget.spent.device_s or 0) <= found.device_s.high * 1.1
    everything = estimate_search(request.model_copy(update={"budget": Amounts(measurements=100_000)}))
    assert everything.ends_by == "candidates"
    # The replayed run is none of the device's own.
    assert estimate(task(), TARGET, SETTINGS, archive=tmp_path / "none.db").earlier_runs == 0


def test_an_estimate_refuses_what_a_run_would_refuse(recorded: Recorded) -> None:
    request = SearchRequest(task="softmax", place=Place(device="cpu"))
    with pytest.raises(UsageError, match="needs a model"):
        estimate_search(request.model_copy(update={"forecaster": "llm"}))
    with pytest.raises(ModelError, match="OPENAI_API_KEY"):
        estimate_search(request.model_copy(update={"model": "openai:gpt-x"}))
    with pytest.raises(UsageError, match="only for replay"):
        estimate_search(request.model_copy(update={"place": Place(device="cpu", pool=recorded.pool)}))
    with pytest.raises(UsageError, match="would do nothing"):
        estimate_search(request.model_copy(update={"forecaster": "none", "audit": 0.5}))


def test_numbers_are_short() -> None:
    assert [clock(s) for s in (0, 0.5, 9.9, 45, 90, 600, 7200)] == [
        *("0 s", "0.5 s", "9.9 s", "45 s", "90 s", "10.0 min", "2.0 h")
    ]
    assert [number(n) for n in (0, 7, 99, 174, 12_345)] == ["0", "7", "99", "170", "12,000"]
