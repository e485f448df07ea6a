"""Memory that measuring each KernelBench problem takes, reckoned without a GPU, against what a card has.

    python benchmarks/kernelbench_memory.py --kernelbench PATH --card h100

PATH is a checkout's folder with `level1` to `level3`. Counted is what forewarp allocates for a module
(`gpu_runner/worker/memory.py`): lifted, and in cells. What a reference allocates for itself comes on top.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from provenance import write

from forewarp import __version__
from forewarp.core.errors import ForewarpError
from forewarp.gpu_runner.devices import known_targets
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.gpu_runner.formats import task as tasks
from forewarp.gpu_runner.worker import memory
from forewarp.gpu_runner.worker.memory import How

WAYS: tuple[How, ...] = ("launched", "cells")


def row_of(executor: LocalExecutor, path: Path, capacity: int) -> dict[str, Any]:
    """Return the gigabytes that a problem takes each way, and the ways in which it does not fit."""
    name = f"{path.parent.name}/{path.name}"
    try:
        task = tasks.load(str(path))
        signatures = executor.describe(task)
    except ForewarpError as e:
        return {"name": name, "error": str(e).splitlines()[0].replace(sys.executable, "python")}
    found: dict[str, Any] = {"name": name, "refused": []}
    for way in WAYS:
        plans = [memory.plan(s, way, "cuda", capacity) for s in signatures]
        found[way] = max(memory.needed(s, p, way, "cuda").total for s, p in zip(signatures, plans, strict=True)) / 1e9
        if any(memory.refusal(s, way, "cuda", capacity, "") for s in signatures):
            found["refused"].append(way)
    return found


def main() -> None:
    """Reckon all problems."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernelbench", type=Path, required=True)
    parser.add_argument("--card", default="h100", choices=sorted(known_targets()))
    parser.add_argument("--gigabytes", type=float, default=79.1, help="what programs can use of the card's memory")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/kernelbench_memory.json"))
    asked = parser.parse_args()
    executor = LocalExecutor(known_targets()[asked.card])
    rows: list[dict[str, Any]] = []
    try:
        for path in sorted(asked.kernelbench.glob("level[123]/*.py")):
            rows.append(row_of(executor, path, int(asked.gigabytes * 1e9)))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    finally:
        executor.close()
    reckoned = [r for r in rows if "error" not in r]
    summary: dict[str, Any] = {"problems": len(rows), "reckoned": len(reckoned)}
    for way in WAYS:
        summary[way] = {
            "refused": [r["name"] for r in reckoned if way in r["refused"]],
            "largest_gb": max(r[way] for r in reckoned),
        }
    about = {"forewarp": __version__, "card": asked.card, "gigabytes": asked.gigabytes}
    write(asked.out, about | {"summary": summary, "rows": rows})


if __name__ == "__main__":
    main()
