"""Check the winners of `live_search.py` where the device is: on near shapes, and against each other.

    python benchmarks/live_check.py winners.json --out checks.json

`winners.json` is a list of {"task", "arm", "candidate"} as `core.serde` writes tasks and candidates. The two winners
of a task are timed against each other in one session: that ratio has no reference in it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from provenance import write

from forewarp.core import serde
from forewarp.core.protocols import Subject
from forewarp.core.values import Candidate, Task
from forewarp.gpu_runner.devices import choose
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.search.holdout import examine


def main() -> None:
    """Examine each winner, then time each pair."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("winners", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    executor = LocalExecutor(choose(args.device))
    by_task: dict[str, dict[str, tuple[Task, Candidate]]] = {}
    found: dict[str, Any] = {}
    for w in json.loads(args.winners.read_text()):
        task, candidate = serde.from_data(Task, w["task"]), serde.from_data(Candidate, w["candidate"])
        by_task.setdefault(task.name, {})[w["arm"]] = task, candidate
        holdout = examine(executor, task, candidate)
        found.setdefault(task.name, {})[w["arm"]] = serde.to_data(holdout)
        print(task.name, w["arm"], holdout.said if holdout else "no near shapes", file=sys.stderr, flush=True)
    for name, arms in by_task.items():
        if len(arms) == 2 and arms["cascade"][1].sha256 != arms["everything"][1].sha256:
            (task, ours), (_, theirs) = arms["cascade"], arms["everything"]
            anchor = Subject(theirs, executor.compile(task, theirs))
            m = executor.measure(task, ours, executor.compile(task, ours), anchor)
            found[name]["cascade_over_everything"] = {
                "speedup": m.speedup,
                "low": m.low,
                "high": m.high,
                "verdict": m.verdict,
            }
            print(name, "cascade over everything", m.speedup, m.low, m.high, m.verdict, file=sys.stderr, flush=True)
    executor.close()
    write(args.out, {"tasks": found})


if __name__ == "__main__":
    main()
