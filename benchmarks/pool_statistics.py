"""Count what a pool holds, as Markdown, and put the figures into its dataset card.

    python benchmarks/pool_statistics.py pool --card pool/README.md

The figures go between the card's markers <!-- statistics --> and <!-- /statistics -->; without --card they are printed
only.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import pool_counts as counts
from pool_counts import DataGroup, PoolCounts

from forewarp.archive.pools import parquet
from forewarp.core.errors import ForewarpError

MARKED = re.compile(r"(<!-- statistics -->\n).*?(<!-- /statistics -->)", re.DOTALL)
QUANTILES = ("speed-up: 5 %", "median", "95 %")
NUMBERS = ("rows", "programs", "worked", *QUANTILES)


def table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a Markdown table; the column "rows" and those after it are right-aligned."""
    names = list(heads)
    first = names.index("rows")
    rule = ["---"] * first + ["---:"] * (len(names) - first)
    lines = [names, rule, *([str(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def numbers(group: DataGroup) -> list[str]:
    quantiles = (group.low, group.median, group.high)
    return [
        str(group.rows),
        str(group.programs),
        str(group.worked),
        *("" if q is None else f"{q:.2f}" for q in quantiles),
    ]


def markdown(counts: PoolCounts) -> str:
    """Return every table. A program counts once, whatever its tunables; `worked` is correct and timed."""
    total = counts.total
    share = f"{100 * total.worked / total.rows:.0f} %" if total.rows else "none"
    return "\n\n".join(
        (
            f"{total.rows} measured candidates ({counts.kernels} different kernels) of {total.programs} programs on "
            f"{len(counts.tasks)} operations; {share} were correct and timed.",
            table(("split", *NUMBERS), ([g.name, *numbers(g)] for g in counts.splits)),
            table(
                ("operation", "family", "split", *NUMBERS),
                ([t.counts.name, t.family, t.split, *numbers(t.counts)] for t in counts.tasks),
            ),
            table(("language", *NUMBERS), ([g.name, *numbers(g)] for g in counts.languages)),
            table(("bin of the speed-up S", "rows"), counts.bins),
            table(("failure", "rows"), counts.failures.items()),
            table(("verdict", "rows"), counts.verdicts.items()),
            table(("device", "rows"), counts.targets.items()),
        )
    )


def main() -> None:
    """Print the figures, and write them into the card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool", type=Path, nargs="+", help="Parquet files or folders of them")
    parser.add_argument("--card", type=Path, help="dataset card to update")
    args = parser.parse_args()
    try:
        files = [file for path in args.pool for file in parquet.files_of(path)]
        found = counts.count(r for f in files for r in parquet.columns_of(f, counts.COLUMNS))
    except ForewarpError as e:
        sys.exit(str(e))
    named = ", ".join(f"`{f.name}` ({hashlib.sha256(f.read_bytes()).hexdigest()[:12]})" for f in files)
    text = f"{markdown(found)}\n\nCounted by `benchmarks/pool_statistics.py` in {named}.\n"
    print(text)
    if args.card is not None:
        card = args.card.read_text()
        if not MARKED.search(card):
            sys.exit(f"{args.card} has no <!-- statistics --> … <!-- /statistics -->")
        args.card.write_text(MARKED.sub(lambda m: f"{m[1]}{text}{m[2]}", card))


if __name__ == "__main__":
    main()
