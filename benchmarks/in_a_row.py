"""Measure kernels of four tasks three times each without a pause, to see whether later intervals are as narrow.

    python benchmarks/in_a_row.py --device cuda --seconds 20 --out in_a_row.json

To compare two versions, run each with its own `PYTHONPATH` and this file, in turns on one machine.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parent))

from provenance import write

from forewarp.core.errors import ForewarpError
from forewarp.gpu_runner.devices import choose
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.gpu_runner.formats import task as tasks

TASKS, TIMES = ("softmax", "rmsnorm", "layernorm_gelu", "topk_gate"), 3
WIDE = 1.25
"""Quotient of an interval's ends from which it counts as wide; these kernels' are about 1.01."""


def main() -> None:
    """Measure until time is up, and count wide intervals and errors by place."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--seconds", type=float, default=20, help="begin nothing more after this time")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    executor = LocalExecutor(choose(args.device))
    language = "cuda" if args.device == "cuda" else "cpp"
    end, rows = time.monotonic() + args.seconds, list[dict[str, Any]]()
    for task in map(tasks.load, itertools.cycle(TASKS)):
        if time.monotonic() > end:
            break
        seed = next(s for s in task.seeds if s.language == language)
        build = executor.compile(task, seed)
        for place in range(TIMES):
            start = time.perf_counter()
            row: dict[str, Any] = {"task": task.name, "place": place}
            try:
                found = executor.measure(task, seed, build)
                row |= {"verdict": found.verdict, "low": found.low, "high": found.high}
            except ForewarpError as e:
                row["error"] = e.message
            rows.append(row | {"seconds": round(time.perf_counter() - start, 2)})
    executor.close()
    write(args.out, {"device": executor.target.name, "rows": rows})
    for place in range(TIMES):
        here = [r for r in rows if r["place"] == place]
        wide = sum(r["high"] > WIDE * r["low"] for r in here if r.get("low"))
        print(f"place {place}: {len(here)} measured, {wide} wide, {sum('error' in r for r in here)} without a result")


if __name__ == "__main__":
    main()
