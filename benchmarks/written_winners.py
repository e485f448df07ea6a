"""Time the winners of two policies against each other, on the machine that has the device.

    python benchmarks/written_policy.py benchmarks/results/written_h100 --pairs pairs.json
    python benchmarks/written_winners.py pairs.json --out benchmarks/results/written_winners.json

Both are checked and timed in blocks that alternate in one run; a ratio above 1 says that the policy's is faster. Where
both found the same kernel the ratio is 1 and nothing is timed.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from provenance import write

from forewarp import __version__
from forewarp.core import serde
from forewarp.core.protocols import Subject
from forewarp.core.values import Candidate, Task
from forewarp.gpu_runner.devices import choose
from forewarp.gpu_runner.executors.local import LocalExecutor


def main() -> None:
    """Measure each pair once; the file is written after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    executor = LocalExecutor(choose(args.device))
    known: dict[tuple[str, str, str], dict[str, Any]] = {}
    rows: list[dict[str, Any]] = []
    for pair in json.loads(args.pairs.read_text()):
        task = serde.from_data(Task, pair["task"])
        ours, theirs = (serde.from_data(Candidate, pair[name]) for name in ("policy", "first"))
        key = task.name, ours.sha256, theirs.sha256
        if key not in known and ours.sha256 == theirs.sha256:
            known[key] = {"ratio": 1.0, "low": 1.0, "high": 1.0, "verdict": "the same kernel"}
        elif key not in known:
            builds = [executor.compile(task, c) for c in (ours, theirs)]
            m = executor.measure(task, ours, builds[0], Subject(theirs, builds[1]))
            known[key] = {"ratio": m.speedup, "low": m.low, "high": m.high, "verdict": m.verdict}
        rows.append({"task": task.name, "order": pair["order"], "policy": key[1], "first": key[2], **known[key]})
        print(rows[-1], flush=True)
        write(args.out, {"forewarp": __version__, "device": executor.target.name, "rows": rows})
    executor.close()


if __name__ == "__main__":
    main()
