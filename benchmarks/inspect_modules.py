"""Count the modules written by language models that `forewarp inspect` sees through without a GPU.

    python benchmarks/inspect_modules.py REPOSITORY --out benchmarks/results/inspect_modules.json

REPOSITORY is a clone of github.com/anneouyang/KernelBenchLeaderboard: over four hundred solutions with CUDA extensions
for KernelBench problems. A module counts as seen if every kernel that it launches was compiled for the target, and as
seen whole if the geometry of every launch is known on top of it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from provenance import write

from forewarp.core.errors import ForewarpError
from forewarp.core.values import Candidate, Task, Workload
from forewarp.gpu_runner.devices import known_targets
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor
from forewarp.inspection.traced import of_trace

DEFAULT = (Workload("default"),)


def solutions(assets: Path) -> list[tuple[str, Path, Path]]:
    """Return each solution with its problem; one that stands for several problems once for each."""
    found: list[tuple[str, Path, Path]] = []
    for title, entries in json.loads((assets / "data.json").read_text()).items():
        level, number = re.findall(r"\d+", title)[:2]
        problem = assets / "problems" / f"l{level}_p{number}.py"
        for entry in entries:
            solution = assets / "solutions" / f"{entry['file']}.py"
            if problem.is_file() and solution.is_file():
                found.append((f"{title} ({entry['display_name']})", problem, solution))
    return found


def inspected(executor: LocalExecutor, name: str, problem: Path, solution: Path) -> dict[str, Any]:
    """Return what came of one module."""
    start = time.perf_counter()
    task = Task(problem.stem, name, problem.read_text(), {"cuda": DEFAULT, "cpu": DEFAULT})
    row: dict[str, Any] = {"module": name, "file": solution.name}
    try:
        trace = executor.trace(task, Candidate(solution.read_text(), "python"))
        seen = of_trace(trace, executor.describe(task), executor.target)
    except ForewarpError as e:
        return row | {"outcome": "the reference fails", "said": str(e)[:400]}
    (workload,) = seen.workloads
    (traced,) = trace.workloads.values()
    missing = [e.kernel for e in traced.launches if not e.cubin]
    kernels = len(workload.launches)
    whole = kernels > 0 and all(e.grid and e.block for e in workload.launches)
    if missing or (not kernels and traced.problems):
        outcome = "not seen"
    else:
        outcome = "seen whole" if whole else "seen" if kernels else "no kernel of its own"
    row |= {"outcome": outcome, "strategy": traced.strategy, "kernels": kernels, "missing": missing}
    return row | {"said": "; ".join(traced.problems)[:400], "seconds": round(time.perf_counter() - start, 2)}


def main() -> None:
    """Inspect every solution."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", type=Path)
    parser.add_argument("--target", default="h100")
    parser.add_argument("--every", type=int, default=1, help="take every N-th only")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    executor = LocalExecutor(known_targets()[args.target], limits=Limits(compile_s=60, measure_s=60, memory=12 << 30))
    rows: list[dict[str, Any]] = []
    try:
        for name, problem, solution in solutions(args.repository / "docs" / "assets")[:: args.every]:
            rows.append(inspected(executor, name, problem, solution))
            print(len(rows), name, rows[-1]["outcome"], rows[-1].get("said", "")[:120], file=sys.stderr, flush=True)
    finally:
        executor.close()
    counts = Counter(r["outcome"] for r in rows)
    for outcome, count in counts.most_common():
        print(f"{outcome:24s} {count} of {len(rows)}")
    if args.out:
        write(args.out, {"target": args.target, "modules": len(rows), "outcomes": dict(counts), "rows": rows})


if __name__ == "__main__":
    main()
