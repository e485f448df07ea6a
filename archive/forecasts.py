"""Files of recorded forecasts next to their outcomes: the second kind of Parquet file beside pools."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from forewarp.archive.pools import columns, parquet
from forewarp.core import bins
from forewarp.core.errors import ArchiveError, UsageError

FORMAT = "2"
MARK = b"forewarp.forecasts"
_PROBABILITIES = tuple(f"p{k}" for k in range(bins.COUNT))


@dataclass(frozen=True, slots=True)
class RecordedForecast:
    """One recorded forecast next to its outcome; `comparison` names the pair in its source.

    `kernel` and `anchor` are identities, or the digits by which the source names them. `probabilities` sum to one, and
    are None where the answer could not be read; `raw_sum` is their sum before. `speedup` is None where the pool beside
    it does not hold it. `p_valid`, `mean_log2` and `sd_log2` are as in `core.values.Forecast`, `prompt_sha256` that of
    the prompt.
    """

    source_dataset: str
    comparison: str
    task: str
    kernel: str
    anchor: str
    forecaster: str
    repeat: int
    probabilities: tuple[float, ...] | None
    raw_sum: float | None
    parse_failed: bool
    parse_error: str
    input_tokens: int | None
    output_tokens: int | None
    seconds: float | None
    speedup: float | None
    p_valid: float | None = None
    mean_log2: float | None = None
    rationale: str = ""
    prompt_sha256: str = ""
    sd_log2: float | None = None


_FIELDS = tuple(f for f in fields(RecordedForecast) if f.name != "probabilities")


def write_forecasts(rows: Iterable[RecordedForecast], path: Path) -> int:
    """Write forecasts as one Parquet file; returns how many. Raises `ArchiveError`."""
    import pyarrow as pa

    kinds = {"str": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
    schema = pa.schema(
        [
            *((f.name, kinds[str(f.type).partition(" ")[0]]) for f in _FIELDS),
            *((name, pa.float64()) for name in _PROBABILITIES),
            ("bin", pa.int64()),
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
            f"there are no recorded forecasts at {path}", hint="pass a .parquet file that `evaluate --out` wrote"
        )
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException) as e:
        raise ArchiveError(f"the forecasts {path} cannot be read: {e}", hint="pass an intact Parquet file") from None
    if (table.schema.metadata or {}).get(MARK, b"").decode() != FORMAT:
        raise ArchiveError(f"{path} holds no recorded forecasts of this version", hint="make them again")
    return [_unflat(row) for row in table.to_pylist()]


def _flat(row: RecordedForecast) -> dict[str, Any]:
    p = row.probabilities or (None,) * bins.COUNT
    values = {f.name: getattr(row, f.name) for f in _FIELDS}
    return values | dict(zip(_PROBABILITIES, p, strict=True)) | {"bin": columns.bin_of(row.speedup)}


def _unflat(row: dict[str, Any]) -> RecordedForecast:
    p = [row[name] for name in _PROBABILITIES]
    values = {f.name: row[f.name] for f in _FIELDS if f.name in row}
    return RecordedForecast(probabilities=None if p[0] is None else tuple(p), **values)
