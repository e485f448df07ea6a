"""Estimates: from earlier runs, from measurements, from typical figures; and that they leave no trace."""

from __future__ import annotations

import json
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
from forewarp.core.budget import Budget
from forewarp.core.errors import ArchiveError, ModelError, UsageError
from forewarp.search.loop import Search
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.search.settings import SearchSettings
from forewarp.surrogate import prices
from forewarp.tools import estimate as typical
from forewarp.tools.estimate import Estimate, Range, Span, estimate
from forewarp.tools.parts import Amounts, Place
from forewarp.tools.search import SearchRequest, estimate_search, search

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
SETTINGS = SearchSettings(budget=Budget(measurements=10), proposer="tunables", forecaster="learned")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record(tmp_path_factory.mktemp("pool"))


def close(found: Span, values: tuple[float, float, float]) -> bool:
    return all(abs(a - b) <= 0.01 for a, b in zip(found, values, strict=True))


def ends(values: list[float]) -> tuple[float, float, float]:
    return min(values), statistics.median(values), max(values)


def h200_runs() -> Iterator[dict[str, Any]]:
    for path in sorted((RESULTS / "h200").glob("*_*.json")):
        found = json.loads(path.read_text())
        if found.get("command") == "optimize":
            yield found


def test_typical_figures_are_those_of_their_files() -> None:
    spent = [r["budget"]["spent"] for r in h200_runs()]
    assert len(spent) == 6
    assert close(prices.MEASUREMENT_S["cuda"], ends([s["device_s"] / s["measurements"] for s in spent]))
    assert close(typical.BESIDES_S["cuda"], ends([(s["wall_s"] - s["device_s"]) / s["measurements"] for s in spent]))
    cpu = [r for r in json.loads((RESULTS / "equal_budget_cpu.json").read_text())["runs"] if r["arm"] == "on"]
    low, likely, high = ends([r["device_s"] / r["measurements"] for r in cpu])
    assert close(prices.MEASUREMENT_S["cpu"], (low, likely, 2 * high))
    assert close(typical.BESIDES_S["cpu"], ends([(r["wall_s"] - r["device_s"]) / r["measurements"] for r in cpu]))
    answers = pq.read_table(RESULTS / "llm_test.parquet", columns=["input_tokens", "output_tokens", "seconds"])
    middle = [statistics.median(answers[name].to_pylist()) for name in ("input_tokens", "output_tokens", "seconds")]
    answer = prices.ANSWER
    typical_answer = (answer.input_tokens, answer.output_tokens, answer.seconds)
    assert typical_answer == pytest.approx((middle[0], middle[1], middle[2] / 4), rel=0.02)


def test_without_an_archive_it_rests_on_typical_figures(tmp_path: Path) -> None:
    found = estimate(task(), TARGET, SETTINGS, archive=tmp_path / "none.db")
    assert found.measurements == Range(low=10, likely=10, high=10)
    assert found.ends_by == "measurements"
    assert found.tokens == Range(low=0, likely=0, high=0)
    assert found.basis == "typical figures"
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
    assert "No cap" in free.summary


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
    assert found.device_s is not None
    assert 0 < found.device_s.likely < 10 * 0.6
    assert found.wall_s is not None
    assert found.wall_s.likely < 5
    assert found.basis == "3 earlier runs of this task here"
    # Runs of another setup took something else.
    other = estimate(task(), TARGET, replace(SETTINGS, forecaster="llm"), archive=path)
    assert other.basis.startswith("typical figures")
    elsewhere = replace(TARGET, name="synthetic-2")
    assert estimate(task(), elsewhere, SETTINGS, archive=path).basis == "typical figures"


def test_devices_that_measure_at_once_take_less_time(tmp_path: Path) -> None:
    def wall_s(settings: SearchSettings, devices: int) -> float:
        found = estimate(task(), TARGET, settings, archive=tmp_path / "none.db", devices=devices)
        assert found.wall_s is not None
        assert found.device_s == alone.device_s
        return found.wall_s.likely

    many = replace(SETTINGS, budget=Budget(measurements=400), measure_per_round=8, proposals_per_round=16)
    alone = estimate(task(), TARGET, many, archive=tmp_path / "none.db")
    assert alone.wall_s is not None
    each = prices.MEASUREMENT_S["cpu"][1]
    assert alone.wall_s.likely - wall_s(many, 8) == pytest.approx(400 * each * 7 / 8)
    # Six devices measure a round's eight in two turns, as four do.
    assert wall_s(many, 6) == wall_s(many, 4) == pytest.approx(alone.wall_s.likely - 400 * each * 3 / 4)
    one_by_one = replace(many, measure_per_round=1)
    assert wall_s(one_by_one, 8) == wall_s(one_by_one, 1)
    found = estimate(task(), TARGET, many, archive=tmp_path / "none.db", devices=8)
    assert found.devices == 8
    assert "on 8 devices" in found.summary
    assert "on 1 devices" not in alone.summary
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
    assert estimate(task(), TARGET, SETTINGS, archive=tmp_path / "none.db").basis == "typical figures"


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
