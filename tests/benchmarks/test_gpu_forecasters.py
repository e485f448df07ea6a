"""The paper's sets, from small files in their schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from published_sets import gpu_forecasters
from published_sets.made import Imported, ImportOptions
from support import published

from forewarp.archive import forecasts
from forewarp.archive.pools import columns
from forewarp.archive.rows import RecordedRow
from forewarp.core.errors import UsageError

NO_OPTIONS = ImportOptions()
NO_ANSWER: dict[str, Any] = {
    "predicted_bin": None,
    "bin_probabilities": [],
    "raw_probability_sum": None,
    "parse_failed": True,
    "parse_error": "no call",
}


def read(*paths: Path, options: ImportOptions = NO_OPTIONS) -> tuple[Imported, list[RecordedRow]]:
    found = gpu_forecasters.read(paths, options)
    return found, list(found.rows)


@pytest.fixture
def evaluation(tmp_path: Path) -> Path:
    rows = [
        published.eval_row(1, 0.350631, source="binfiller/SEVERE_SLOWDOWN/5324eb50e4cb"),
        published.eval_row(2, 1.01841),
        published.eval_row(3, 3.0, pack="cross_entropy"),
    ]
    return published.parquet(rows, tmp_path / "eval" / "combined.parquet")


def test_bins_come_from_the_speed_up_and_not_from_the_set(evaluation: Path) -> None:
    _, rows = read(evaluation)
    assert [columns.flat(r)["bin"] for r in rows] == [1, 4, 6]
    assert [r.measurement.verdict for r in rows] == ["inconclusive"] * 3


def test_candidates_tell_nothing_and_keep_the_hash_of_what_they_told(evaluation: Path) -> None:
    _, rows = read(evaluation)
    assert not any(word in rows[0].candidate.source for word in ("Speedup", "fast", "slow"))
    assert "def custom_kernel(data):" in rows[0].candidate.source
    flat = columns.flat(rows[0])
    assert flat["raw_sha256"].startswith(published.sha12(published.submission(1)))
    assert flat["kernel_sha256"] == rows[0].candidate.sha256
    assert rows[0].origin.source_id.endswith(flat["raw_sha256"][:12])


def test_what_a_reader_must_know_is_tagged(evaluation: Path) -> None:
    _, rows = read(evaluation)
    assert rows[0].origin.tags == ("binfiller", "other-denominator", "uses:triton")
    assert rows[2].origin.tags == ("uses:triton",)
    assert rows[0].origin.family == "triangle_multiplication"
    assert rows[0].origin.source_dataset == "codezakh/gpu-forecasters-eval-set"
    assert (rows[0].target.name, rows[0].target.arch, rows[0].target.processors) == (published.A100, "sm_80", 108)
    assert rows[0].task.reference == published.SEED
    assert rows[0].measurement.anchor == "reference"


def test_the_same_row_in_two_files_counts_once(evaluation: Path) -> None:
    published.parquet([published.eval_row(2, 1.01841)], evaluation.parent / "trimul.parquet")
    found, rows = read(evaluation.parent)
    assert len(rows) == 3
    assert found.left_out == {"also in another file": 1}


def test_predictions_become_forecasts_next_to_outcomes(evaluation: Path, tmp_path: Path) -> None:
    rows = [
        published.prediction_row(1, 0),
        published.prediction_row(
            1,
            1,
            predicted_bin=None,
            bin_probabilities=[],
            parse_failed=True,
            parse_error="no call",
            raw_probability_sum=None,
        ),
        published.prediction_row(7, 0, input_tokens=None, output_tokens=None),
    ]
    predictions = published.parquet(rows, tmp_path / "predictions.parquet")
    found, measured = read(predictions, evaluation)
    good, failed, unknown = found.forecasts
    assert good.probabilities is not None
    assert sum(good.probabilities) == pytest.approx(1)
    assert good.probabilities[1] == pytest.approx(0.8 / 1.15)
    assert (good.raw_sum, good.seconds, good.forecaster, good.repeat) == (1.15, 12.5, "gemini3_flash", 0)
    assert (good.kernel, good.anchor, good.speedup) == (measured[0].candidate.sha256, "reference", 0.350631)
    assert (failed.probabilities, failed.parse_failed, failed.parse_error) == (None, True, "no call")
    assert (unknown.kernel, unknown.speedup) == (published.sha12(published.submission(7)), None)
    assert unknown.anchor == published.sha12(published.SEED)
    forecasts.write_forecasts(found.forecasts, tmp_path / "f.parquet")
    assert forecasts.read_forecasts(tmp_path / "f.parquet") == list(found.forecasts)
    alone, none = read(predictions)
    assert none == []
    assert len(alone.forecasts) == 3


def test_null_columns_of_predictions_are_accepted(tmp_path: Path) -> None:
    rows = [published.prediction_row(1, 0, predicted_bin=None, bin_probabilities=None, raw_probability_sum=None)]
    found, _ = read(published.parquet(rows, tmp_path / "p.parquet"))
    assert found.forecasts[0].parse_failed


def test_kernels_that_were_the_anchor_are_kept(tmp_path: Path) -> None:
    anchor = published.submission(9)
    rows = [
        published.pool_row(1, published.SEED, 0.5, "seed"),
        published.pool_row(2, anchor, 1.5, "parent_edit"),
        published.pool_row(3, anchor, 2.5, "pair"),
    ]
    _, (seed, edit, pair) = read(published.jsonl(rows, tmp_path / "pool.jsonl"))
    assert seed.against is None
    assert edit.against is not None
    assert edit.against == pair.against
    assert edit.measurement.anchor == edit.against.sha256 == edit.origin.parent
    assert "Speedup" not in edit.against.source
    assert pair.origin.parent == ""
    assert len({r.task.sha256 for r in (seed, edit, pair)}) == 1
    assert "pair:seed" in seed.origin.tags
    assert "other-denominator" in seed.origin.tags
    assert "other-denominator" not in pair.origin.tags


def test_discovery_pairs_are_against_the_parent(tmp_path: Path) -> None:
    _, (row,) = read(published.parquet([published.pair_row(2, 1, 1.2)], tmp_path / "pairs.parquet"))
    assert row.against is not None
    assert row.origin.parent == row.against.sha256
    assert row.task.name == "44_MiniGPTBlock"
    assert "not known" in row.task.reference
    assert row.target.arch == "sm_89"


@pytest.mark.parametrize("written", [published.parquet, published.jsonl])
def test_search_events_have_failures_and_shapes(tmp_path: Path, written: Any) -> None:
    suffix = "parquet" if written is published.parquet else "jsonl"
    found, (seed, good, wrong) = read(written(published.events(), tmp_path / f"e.{suffix}"))
    assert (seed.measurement.speedup, seed.origin.parent) == (1.0, "")
    assert good.measurement.speedup == 2.0
    (shape,) = good.measurement.workloads
    assert (shape.workload, shape.candidate_median_s, shape.anchor_median_s) == ("tokens=256 hidden=4096", 1e-6, 2e-6)
    assert columns.flat(good)["shape_low"] == [None]
    assert (wrong.measurement.status, wrong.measurement.verdict) == ("incorrect", "incorrect")
    assert wrong.origin.parent == good.candidate.sha256
    assert good.origin.parent == seed.candidate.sha256
    assert good.origin.family == "quantisation"
    assert good.task.reference == published.SEED
    assert good.finished == "2026-01-02T03:04:05Z"
    assert found.left_out == {
        "evaluations without a verdict on the candidate": 1,
        "evaluations without an answer": 1,
    }


def test_an_interval_is_assumed_only_where_it_is_asked_for(evaluation: Path) -> None:
    _, rows = read(evaluation, options=ImportOptions(noise=0.05, limit=2))
    assert [r.measurement.verdict for r in rows] == ["slower", "inconclusive"]
    assert rows[0].measurement.low == pytest.approx(0.350631 / 1.05)
    assert all("assumed-interval" in r.origin.tags for r in rows)


def test_missing_columns_are_named(tmp_path: Path) -> None:
    rows = [{k: v for k, v in published.eval_row(1, 1.0).items() if k not in ("hardware", "anchor_code")}]
    with pytest.raises(UsageError, match=r"no column anchor_code, hardware"):
        read(published.parquet(rows, tmp_path / "a.parquet"))
    with pytest.raises(UsageError, match="its columns are x"):
        read(published.parquet([{"x": 1}], tmp_path / "b.parquet"))
    with pytest.raises(UsageError, match="no file"):
        read(tmp_path / "none.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="holds no"):
        read(tmp_path / "empty")
    (tmp_path / "c.jsonl").write_text('{"comparison_id": ')
    with pytest.raises(UsageError, match="cannot be read"):
        read(tmp_path / "c.jsonl")


def test_speed_ups_that_are_none_are_left_out(tmp_path: Path) -> None:
    rows = [published.eval_row(1, float("nan")), published.eval_row(2, 0.0), published.eval_row(3, 2.0)]
    rows.append(published.eval_row(4, 2.0) | {"candidate_code": None})
    found, kept = read(published.parquet(rows, tmp_path / "a.parquet"))
    assert len(kept) == 1
    assert found.left_out == {"no positive speed-up": 2, "rows without a text": 1}
