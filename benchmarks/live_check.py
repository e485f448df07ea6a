"""Check the winners of `live_search.py` where the device is: on near shapes, and beside torch.compile.

    python benchmarks/live_check.py winners.json --out checks.json

`winners.json` comes from `live_figures.py`: a list of {"task", "arm", "candidate"} as `core.serde` writes tasks and
candidates. Each is measured once more, in the same run as `torch.compile` with max-autotune, as `winners.py` does it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from provenance import write
from winners import Case, beside_compile, row, show

from forewarp import __version__
from forewarp.core import serde
from forewarp.core.values import Candidate, Task
from forewarp.gpu_runner.devices import choose
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.search.holdout import examine


def main() -> None:
    """Measure each winner, then examine it; the file is written after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("winners", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    executor = LocalExecutor(choose(args.device))
    rows: list[dict[str, Any]] = []
    for w in json.loads(args.winners.read_text()):
        task, candidate = serde.from_data(Task, w["task"]), serde.from_data(Candidate, w["candidate"])
        case = Case(task.name, task, candidate, "torch.compile", 1.2, f"winner of a search, {w['arm']}")
        found = row(case, executor.measure(task, candidate, executor.compile(task, candidate)))
        found["holdout"] = serde.to_data(examine(executor, task, candidate))
        found["shapes"] = [shape | beside_compile(case, shape) for shape in found["shapes"]]
        rows.append(found)
        show(rows[-1:])
        sys.stdout.flush()
        write(args.out, {"forewarp": __version__, "device": executor.target.name, "rows": rows})
    executor.close()


if __name__ == "__main__":
    main()
