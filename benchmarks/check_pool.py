"""Check every program of the pool on the CPU: whether right ones are let through and planted mistakes found.

    python benchmarks/check_pool.py --out benchmarks/results/check_pool.json

Each program runs at its default tunables, as `forewarp inspect --check` does it. `lineage.toml` says which programs
have a mistake; some mistakes show on a GPU only, or at other tunables, and some are of speed alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import lineage
from provenance import write

from forewarp.core.errors import ForewarpError
from forewarp.gpu_runner.devices import known_targets
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import task as tasks


def checked(executor: LocalExecutor, folder: Path, path: Path, budget_s: float) -> dict[str, Any]:
    """Return what compiling and checking one program came to."""
    start = time.perf_counter()
    task, candidate = tasks.load(str(folder)), candidates.load(path)
    row: dict[str, Any] = {"task": folder.name, "program": path.name, "language": candidate.language}
    try:
        build = executor.compile(task, candidate)
        if build.status != "ok":
            return row | {"outcome": build.status, "said": build.log[-300:]}
        found = executor.check(task, candidate, budget_s)
    except ForewarpError as e:
        return row | {"outcome": "error", "said": str(e)[:300]}
    faults = [f"{f.kind} at {f.where}: {f.message}"[:200] for f in found.faults]
    outcome = "fault" if found.status == "ok" and faults else found.status
    row |= {"outcome": outcome, "said": found.message[:300], "faults": faults, "how": found.how}
    return row | {"seconds": round(time.perf_counter() - start, 2)}


def main() -> None:
    """Check all programs, or every N-th."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(__file__).parents[1] / "pool" / "tasks")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--budget-s", type=float, default=20.0)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this long")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    programs = sorted(p for p in args.folder.glob("*/seeds/*") if p.suffix in (".py", ".cu"))[:: args.every]
    deadline, rows = time.monotonic() + args.seconds, []
    executor = LocalExecutor(known_targets()["h200"])
    try:
        for path in programs:
            folder = path.parents[1]
            mistake = lineage.load(folder)[path.name].mistake
            row = checked(executor, folder, path, args.budget_s) | {"mistake": mistake}
            rows.append(row)
            mark = "mistake" if row["mistake"] else ""
            print(len(rows), folder.name, path.name, row["outcome"], mark, file=sys.stderr, flush=True)
            if time.monotonic() > deadline:
                break
    finally:
        executor.close()
    report(rows, len(programs), args.out)


def report(rows: list[dict[str, Any]], planned: int, out: Path | None) -> None:
    """Print outcomes of right programs and of those with a mistake."""
    counts: dict[str, dict[str, int]] = {}
    for kind, wrong in (("right", False), ("with a mistake", True)):
        for language in ("triton", "cuda"):
            chosen = [r for r in rows if bool(r["mistake"]) == wrong and r["language"] == language]
            counts[f"{kind}, {language}"] = dict(Counter(r["outcome"] for r in chosen).most_common())
    for name, found in counts.items():
        print(f"{name:24s} {sum(found.values()):4d}: " + ", ".join(f"{n} {k}" for k, n in found.items()))
    if out:
        write(out, {"programs": planned, "checked": len(rows), "outcomes": counts, "rows": rows})


if __name__ == "__main__":
    main()
