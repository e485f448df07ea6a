"""Files of recorded forecasts next to their outcomes: the second kind of Parquet file beside pools."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from forewarp.archive.pools import columns, parquet
from forewarp.archive.rows import RecordedForecast
from forewarp.core import bins
from forewarp.core.errors import ArchiveError, UsageError

FORMAT = "2"
MARK = b"forewarp.forecasts"
_STRINGS = (
    "source_dataset",
    "comparison",
    "task",
    "kernel",
    "anchor",
    "forecaster",
    "parse_error",
    "rationale",
    "prompt_sha256",
)
_PROBABILITIES = tuple(f"p{k}" for k in range(bins.COUNT))


def beside(pool: Path) -> Path:
    """Return where the forecasts that belong to a pool lie."""
    return pool.with_name(f"{pool.stem}.forecasts.parquet")


def write_forecasts(rows: Iterable[RecordedForecast], path: Path) -> int:
    """Write forecasts as one Parquet file; returns how many. Raises `ArchiveError`."""
    import pyarrow as pa

    schema = pa.schema(
        [
            *((name, pa.string()) for name in _STRINGS),
            ("repeat", pa.int64()),
            *((name, pa.float64()) for name in _PROBABILITIES),
            ("raw_sum", pa.float64()),
            ("parse_failed", pa.bool_()),
            ("input_tokens", pa.int64()),
            ("output_tokens", pa.int64()),
            ("seconds", pa.float64()),
            ("speedup", pa.float64()),
            ("bin", pa.int64()),
            ("p_valid", pa.float64()),
            ("mean_log2", pa.float64()),
            ("sd_log2", pa.float64()),
        ],
        metadata={MARK: FORMAT},
    )
    return parquet.write_table(map(_flat, rows), schema, path)


def read_forecasts(path: Path) -> list[RecordedForecast]:
    """Read a file of forecasts; raises `UsageError` where there is none, `ArchiveError` for what is no such file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        raise UsageError(
            f"there are no recorded forecasts at {path}",
            hint="pass a .parquet file that `data import` or `evaluate --out` wrote",
        )
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as e:
        raise ArchiveError(f"the forecasts {path} cannot be read: {e}", hint="pass an intact Parquet file") from None
    if (table.schema.metadata or {}).get(MARK, b"").decode() != FORMAT:
        raise ArchiveError(f"{path} holds no recorded forecasts of this version", hint="import them again")
    return [_unflat(row) for row in table.to_pylist()]


def _flat(row: RecordedForecast) -> dict[str, Any]:
    p = row.probabilities
    return {
        "source_dataset": row.dataset,
        "comparison": row.comparison,
        "task": row.task,
        "kernel": row.kernel,
        "anchor": row.anchor,
        "forecaster": row.forecaster,
        "parse_error": row.parse_error,
        "repeat": row.repeat,
        **{name: None if p is None else p[k] for k, name in enumerate(_PROBABILITIES)},
        "raw_sum": row.raw_sum,
        "parse_failed": row.parse_failed,
        "input_tokens": row.input_tokens,
        "output_tokens": row.output_tokens,
        "seconds": row.seconds,
        "speedup": row.speedup,
        "bin": columns.bin_of(row.speedup),
        "p_valid": row.p_valid,
        "mean_log2": row.mean_log2,
        "sd_log2": row.sd_log2,
        "rationale": row.rationale,
        "prompt_sha256": row.prompt_sha256,
    }


def _unflat(row: dict[str, Any]) -> RecordedForecast:
    p = [row[name] for name in _PROBABILITIES]
    return RecordedForecast(
        dataset=row["source_dataset"],
        comparison=row["comparison"],
        task=row["task"],
        kernel=row["kernel"],
        anchor=row["anchor"],
        forecaster=row["forecaster"],
        repeat=row["repeat"],
        probabilities=None if p[0] is None else tuple(p),
        raw_sum=row["raw_sum"],
        parse_failed=row["parse_failed"],
        parse_error=row["parse_error"],
        input_tokens=row["input_tokens"],
        output_tokens=row["output_tokens"],
        seconds=row["seconds"],
        speedup=row["speedup"],
        p_valid=row["p_valid"],
        mean_log2=row["mean_log2"],
        sd_log2=row.get("sd_log2"),
        rationale=row["rationale"],
        prompt_sha256=row["prompt_sha256"],
    )
