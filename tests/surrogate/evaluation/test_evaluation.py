from dataclasses import replace

import numpy as np
import pytest
from contracts.forecaster_contract import failed, measured
from support.judged_pool import SPEEDUPS, Oracle, rows

from forewarp.archive.forecasts import RecordedForecast, read_forecasts, write_forecasts
from forewarp.core.values import Build
from forewarp.surrogate import baselines
from forewarp.surrogate.evaluation import backtest


def test_every_row_is_asked_about_once():
    found = backtest.plan(rows())
    assert [g.task.name for g in found.groups] == list(SPEEDUPS)
    for group in found.groups:
        asked = sorted((c.speedup or 0.0) for c in group.cases)
        assert asked == sorted(s or 0.0 for s in SPEEDUPS[group.task.name])
        assert [c.kernel for c in group.cases] == [s.candidate.sha256 for s in group.subjects]
        assert {c.incumbent for c in group.cases} == {1.0}
    assert found.left_out == {}


def test_what_cannot_be_judged_is_left_out_and_counted():
    given = rows()
    given[0] = replace(given[0], build=Build("compile_error", 0.1))
    given[1] = replace(given[1], measurement=replace(measured(2.0), anchor="another kernel"))
    given.append(given[2])
    given[3] = replace(given[3], measurement=replace(measured(9.0), verdict="suspicious"))
    found = backtest.plan(given)
    assert found.left_out == {
        "that do not compile": 1,
        "against another kernel than the reference": 1,
        "measured a second time": 1,
    }
    suspicious = next(c for g in found.groups for c in g.cases if c.kernel == given[3].candidate.sha256)
    assert suspicious.task == "first"
    assert suspicious.speedup is None


def test_history_is_shown_and_not_asked_about():
    given = rows()
    found = backtest.plan(given, history=3, seed=1)
    for group in found.groups:
        shown = {t.subject.candidate.sha256 for t in group.trials}
        asked = {c.kernel for c in group.cases}
        assert len(shown) == 3
        assert not shown & asked
        assert len(shown | asked) == len(SPEEDUPS[group.task.name])
        best = max([1.0, *(t.measurement.speedup or 0.0 for t in group.trials)])
        assert {c.incumbent for c in group.cases} == {best}
    assert found.left_out == {"shown as trials": 9}
    # The draw rests on the seed and the task's own rows, not on their order or on the other tasks.
    second = [r for r in reversed(given) if r.task.name == "second"]
    alone = backtest.plan(second, history=3, seed=1).groups[0]
    assert [t.subject.candidate.sha256 for t in alone.trials] == [
        t.subject.candidate.sha256 for t in found.groups[1].trials
    ]
    shown = [t.subject for g in backtest.plan(given, history=3, seed=2).groups for t in g.trials]
    assert shown != [t.subject for g in found.groups for t in g.trials]
    assert backtest.plan(given, history=9).groups == ()


def test_running_keeps_order_and_counts_time():
    found = backtest.plan(rows(), history=2)
    told: list[tuple[str, int, int]] = []
    answers = backtest.run(Oracle(), found.groups, lambda *step: told.append(step))
    assert [r.case for r in answers.rows] == [c for g in found.groups for c in g.cases]
    assert all(r.forecast.p_valid == (r.case.speedup is not None) for r in answers.rows)
    assert {r.trials for r in answers.rows} == {2}
    assert set(answers.milliseconds) == {(name, "a CPU") for name in SPEEDUPS}
    assert told == [("oracle", k, 3) for k in range(3)]


def test_recorded_answers_are_the_same_answers(tmp_path):
    found = backtest.plan(rows())
    cases = [c for g in found.groups for c in g.cases]
    answers = backtest.run(Oracle(), found.groups)
    path = tmp_path / "forecasts.parquet"
    assert write_forecasts(backtest.as_recorded(answers), path) == len(cases)
    again = backtest.recorded(read_forecasts(path), cases)
    assert [a.name for a in again] == ["oracle"]
    both = backtest.common([answers, *again])
    for one, other in zip(both[0].rows, both[1].rows, strict=True):
        assert one.case == other.case
        assert one.forecast.probabilities == other.forecast.probabilities
        assert (one.forecast.p_valid, one.forecast.mean_log2) == (other.forecast.p_valid, other.forecast.mean_log2)
        assert one.forecast.interval == other.forecast.interval
        assert other.validity


def record(kernel: str, p=None, repeat: int = 0, **more) -> RecordedForecast:
    base = RecordedForecast(
        *("set", "", "first", kernel, "reference", "someone", repeat, p, 1.0, p is None, "", 10, 5, 2.0, 1.5)
    )
    return replace(base, **more)


def test_repeats_are_averaged_and_what_could_not_be_read_is_uniform():
    sure = (0.0,) * 7 + (1.0,)
    found = backtest.recorded([record("k", sure), record("k", None, 1)])[0].rows
    assert len(found) == 1
    assert found[0].forecast.probabilities == pytest.approx([1 / 16] * 7 + [9 / 16])
    assert found[0].case.speedup == 1.5
    assert not found[0].validity
    assert (found[0].forecast.cost.input_tokens, found[0].forecast.cost.seconds) == (20, 4.0)


def test_records_are_matched_by_the_digits_that_they_have():
    cases = [c for g in backtest.plan(rows()).groups for c in g.cases]
    first = next(c for c in cases if c.task == "first")
    sure = (0.0,) * 7 + (1.0,)
    given = [record(first.kernel[:12], sure), record(first.kernel[:3], sure), record("0" * 64, sure)]
    found = backtest.recorded([*given, record(first.kernel, sure, task="second of them")], cases)
    assert [r.case for a in found for r in a.rows] == [first]
    assert backtest.recorded([record("k", sure, speedup=None)]) == []


def test_conditions_tell_forecasters_of_one_name_apart():
    sure = (0.0,) * 7 + (1.0,)
    given = [record(k, sure, comparison=c) for c in ("bare", "full") for k in ("one", "two")]
    assert [a.name for a in backtest.recorded(given)] == ["someone bare", "someone full"]
    pairs = [record(k, sure, comparison=f"pair of {k}") for k in ("one", "two")]
    assert [a.name for a in backtest.recorded(pairs)] == ["someone"]


def test_all_are_judged_by_what_all_answered():
    found = backtest.plan(rows())
    oracle, uniform = (backtest.run(f, found.groups) for f in (Oracle(), baselines.uniform()))
    fewer = replace(oracle, rows=oracle.rows[::-2])
    both = backtest.common([uniform, fewer])
    assert [r.case for r in both[0].rows] == [r.case for r in both[1].rows]
    assert len(both[0].rows) == len(fewer.rows)
    assert backtest.common([]) == []


def test_failed_history_beats_no_reference():
    given = [r for r in rows() if r.task.name == "second"]
    broken = [replace(r, measurement=failed()) for r in given]
    assert {c.incumbent for g in backtest.plan(broken, history=2).groups for c in g.cases} == {1.0}
    assert np.isfinite([c.incumbent for g in backtest.plan(given, history=2).groups for c in g.cases]).all()
