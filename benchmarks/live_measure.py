"""Measure what `live_search.py` asks for, on the machine that has the device.

    python benchmarks/live_measure.py live/requests.json live/results_1.jsonl --device cuda

Needs torch, triton and the worker's part of forewarp only. Writes one line per result as it comes.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from provenance import provenance

from forewarp.core import serde
from forewarp.core.values import Candidate, Task
from forewarp.gpu_runner.devices import choose
from forewarp.gpu_runner.executors.local import LocalExecutor


def main() -> None:
    """Compile all, then measure one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("requests", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    requests: list[dict[str, Any]] = json.loads(args.requests.read_text())
    executor = LocalExecutor(choose(args.device))
    jobs = [(serde.from_data(Task, r["task"]), serde.from_data(Candidate, r["candidate"]), r) for r in requests]
    with args.out.open("a") as file, ThreadPoolExecutor(12) as pool:
        file.write(json.dumps(provenance()) + "\n")
        builds = list(pool.map(lambda job: executor.compile(job[0], job[1]), jobs))
        for (task, candidate, request), build in zip(jobs, builds, strict=True):
            m = executor.measure(task, candidate, build, beat=request["beat"])
            entry = {
                "key": request["key"],
                "task": task.name,
                "build": serde.to_data(build),
                "measurement": serde.to_data(m),
            }
            file.write(json.dumps(entry) + "\n")
            file.flush()
            print(
                f"{task.name} {candidate.short}: {m.verdict} {m.speedup} {m.device_s:.1f} s {m.log[:100]!r}",
                file=sys.stderr,
            )
    executor.close()


if __name__ == "__main__":
    main()
