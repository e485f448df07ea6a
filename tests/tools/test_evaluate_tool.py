from pathlib import Path

import pytest
from support.judged_pool import SPEEDUPS, Oracle, rows, write

from forewarp.archive.forecasts import read_forecasts, write_forecasts
from forewarp.core.errors import UsageError
from forewarp.surrogate.evaluation import backtest
from forewarp.tools.evaluate import EvaluateRequest, evaluate

CANDIDATES = sum(map(len, SPEEDUPS.values()))


@pytest.fixture
def pool(tmp_path: Path) -> str:
    return write(tmp_path / "pool.parquet")


@pytest.fixture
def oracle(tmp_path: Path) -> str:
    """Recorded forecasts of somebody who knew it all."""
    path = tmp_path / "oracle.parquet"
    write_forecasts(backtest.as_recorded(backtest.run(Oracle(), backtest.plan(rows()).groups)), path)
    return str(path)


def ask(*pools: str, **more):
    return evaluate(EvaluateRequest(pools=list(pools), resamples=more.pop("resamples", 20), **more))


def test_baselines_on_the_test_split_only(pool: str) -> None:
    found = ask(pool, forecasters=["uniform", "climatology"])
    assert (found.rows, found.task_count, found.split) == (CANDIDATES, 3, "test")
    assert found.valid == sum(s is not None for v in SPEEDUPS.values() for s in v)
    uniform, climatology = found.forecasters
    assert uniform.figures["brier"].value == pytest.approx(0.4375)
    assert climatology.figures["crps"].value < uniform.figures["crps"].value
    assert {t.task for t in uniform.tasks} == set(SPEEDUPS)
    assert "uniform: ±1 bin" in found.summary


def test_a_forecaster_beside_a_record(pool: str, oracle: str) -> None:
    found = ask(pool, forecasters=["uniform"], recorded=[oracle])
    assert [s.name for s in found.forecasters] == ["uniform", "oracle"]
    (apart,) = found.differences
    assert (apart.first, apart.second) == ("uniform", "oracle")
    for name, figure in apart.figures.items():
        one, other = (s.figures[name].value for s in found.forecasters)
        if one is not None and other is not None:
            assert figure.value == pytest.approx(one - other), name
    brier = apart.figures["brier"]
    assert brier.low == brier.high == pytest.approx(0.4375)  # every task says the same
    assert found.forecasters[1].figures["recovery_1"].value == 1


def test_only_what_everybody_answered_is_scored(pool: str, oracle: str, tmp_path: Path) -> None:
    some = str(tmp_path / "some.parquet")
    write_forecasts([r for r in read_forecasts(Path(oracle)) if r.task != "third"], Path(some))
    found = ask(pool, forecasters=["uniform"], recorded=[some])
    assert found.rows == CANDIDATES - len(SPEEDUPS["third"])
    assert found.left_out["not answered by every forecaster"] == len(SPEEDUPS["third"])


def test_what_was_kept_scores_the_same_again(pool: str, tmp_path: Path) -> None:
    kept = str(tmp_path / "kept.parquet")
    first = ask(pool, forecasters=["climatology", "uniform"], keep=kept)
    assert first.files == [kept]
    again = ask(pool, recorded=[kept])
    for one, other in zip(first.forecasters, again.forecasters, strict=True):
        assert one.name == other.name
        same = {n: f.value for n, f in one.figures.items() if n != "milliseconds"}
        assert same == pytest.approx({n: other.figures[n].value for n in same}, nan_ok=True)
    alone = ask(recorded=[kept])
    assert (alone.rows, alone.split) == (first.valid, "recorded")
    assert alone.forecasters[0].figures["crps"].value == pytest.approx(first.forecasters[0].figures["crps"].value)
    assert alone.forecasters[0].figures["valid_brier"].value is None


def test_history_tasks_and_splits(pool: str) -> None:
    found = ask(pool, forecasters=["uniform"], history=3, tasks=["first", "second"], seed=4)
    assert (found.rows, found.task_count) == (8, 2)
    assert found.left_out["shown as trials"] == 6
    assert found.forecasters[0].figures["milliseconds"].value > 0
    assert ask(pool, forecasters=["uniform"], split="train").task_count == 3
    assert ask(pool, forecasters=["uniform"], split="all").rows == 2 * CANDIDATES


def test_one_task_has_no_interval(pool: str) -> None:
    crps = ask(pool, forecasters=["uniform"], tasks=["first"]).forecasters[0].figures["crps"]
    assert crps.value is not None
    assert crps.low is crps.high is None


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({}, "nothing to judge by"),
        ({"recorded": ["some.parquet"], "forecasters": ["uniform"]}, "need a pool"),
        ({"pool": True, "forecasters": ["uniform", "uniform"]}, "named twice"),
        ({"pool": True, "forecasters": ["uniform"], "split": "validation"}, "no row of the split 'validation'"),
        ({"pool": True, "forecasters": ["uniform"], "history": 9}, "no row of the split"),
        ({"pool": True, "tasks": ["frist"]}, "no task of .* is called 'frist'"),
        ({"pool": True, "forecasters": ["climatology"], "train": "nowhere.parquet"}, "no pool at nowhere"),
        ({"pool": True, "forecasters": ["llm"]}, "needs a model"),
        ({"pool": True, "forecasters": ["nobody"]}, "no forecaster called 'nobody'"),
        ({"pool": True}, "no candidate that every forecaster answered"),
    ],
)
def test_refusals(pool: str, more: dict, message: str) -> None:
    pools = [pool] if more.pop("pool", False) else []
    with pytest.raises(UsageError, match=message):
        ask(*pools, **more)


def test_a_pool_is_compared_with_its_members_by_family(pool: str, oracle: str) -> None:
    found = ask(pool, forecasters=["pooled", "learned"], recorded=[oracle])
    assert [s.name for s in found.forecasters] == ["pooled", "oracle, corrected", "learned", "oracle"]
    assert {d.first for d in found.differences} == {"pooled"}
    for difference in found.differences:
        assert [f.family for f in difference.families] == sorted(f"family of {task}" for task in SPEEDUPS)
        assert sum(f.rows for f in difference.families) == found.valid
    # Without trees or trials the learned one knows nothing here: the pool is the other one, in every family.
    of_oracle = next(d for d in found.differences if d.second == "oracle, corrected")
    assert {f.difference.value for f in of_oracle.families} == {0.0}
    of_learned = next(d for d in found.differences if d.second == "learned")
    assert all((f.difference.value or 0.0) < 0 for f in of_learned.families)
    assert "worse than a member of it in 0 of 3 families" in found.summary


def test_a_pool_needs_its_members(pool: str, oracle: str) -> None:
    for wrong in ({"forecasters": ["pooled"], "recorded": [oracle]}, {"forecasters": ["pooled", "learned"]}):
        with pytest.raises(UsageError, match="pooled are"):
            ask(pool, **wrong)
