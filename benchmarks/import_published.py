"""Turn published sets of measured kernels into a pool, from local files in their own schemas; nothing is downloaded.

    python benchmarks/import_published.py sakana level_1.parquet --out sakana.parquet --noise 5
    python benchmarks/import_published.py kernelbench runs/mine --out mine.parquet --references KernelBench

Recorded forecasts go to a file beside the pool. `forewarp data export` gives its rows other families and splits and
refuses splits that leak; `benchmarks/README.md` says what each kind relies on.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from published_sets.made import Imported, ImportOptions

from forewarp.archive import forecasts
from forewarp.archive.pools import parquet, splits
from forewarp.core.errors import ForewarpError, UsageError

KINDS = ("gpu-forecasters", "makora", "sakana", "kernel-tuner", "kernelbench")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=KINDS, help="whose schema the files have")
    parser.add_argument("paths", nargs="+", type=Path, help="files or folders, as they were published")
    parser.add_argument("--out", type=Path, required=True, help="Parquet file to write")
    parser.add_argument("--overwrite", action="store_true", help="replace the files if they are there already")
    parser.add_argument("--device", default="", help="device that was measured on, where the source does not name it")
    parser.add_argument("--noise", type=float, help="half-width in percent of the interval to assume if there is none")
    parser.add_argument("--limit", type=int, help="most rows to take")
    parser.add_argument("--baseline", type=Path, help="of kernelbench: file of reference times")
    parser.add_argument("--references", type=Path, help="of kernelbench: folder of the problems' files")
    parser.add_argument("--kernel", type=Path, help="of kernel-tuner: file of the kernel that was tuned")
    args = parser.parse_args(arguments)
    try:
        written(args)
    except ForewarpError as e:
        print(e, file=sys.stderr)
        return 2
    return 0


def written(args: argparse.Namespace) -> None:
    """Write the pool and its forecasts; raises `UsageError`."""
    beside = forecasts.beside(args.out)
    taken = [path for path in (args.out, beside) if path.exists()]
    if taken and not args.overwrite:
        raise UsageError(f"{taken[0]} is there already", hint="pass --overwrite to replace it, or another --out")
    noise = None if args.noise is None else args.noise / 100
    options = ImportOptions(args.device, noise, args.limit, args.baseline, args.references, args.kernel)
    module = importlib.import_module(f"published_sets.{args.kind.replace('-', '_')}")
    found: Imported = module.read(args.paths, options)
    rows = [splits.assign(row, splits.load()) for row in found.rows]
    reasons = "; ".join(f"{n} {what}" for what, n in found.left_out.items() if n)
    if not rows and not found.forecasts:
        raise UsageError("nothing in these files can be imported", hint=reasons or "they hold no rows")
    if rows:
        print(f"{parquet.write_rows(rows, args.out)} rows to {args.out}")
    if found.forecasts:
        print(f"{forecasts.write_forecasts(found.forecasts, beside)} forecasts to {beside}")
    if reasons:
        print(f"left out: {reasons}")


if __name__ == "__main__":
    sys.exit(main())
