"""What `torch.compile(mode="max-autotune")` makes of a task: its speed-up over eager PyTorch, per workload.

    python benchmarks/compiled.py tasks.json --out compiled.json

`tasks.json` is a list of tasks as `core.serde` writes them. Both arms are the task's own module in inference mode,
replayed as CUDA graphs so that launch gaps do not count, in interleaved ABBA blocks with the L2 cache flushed before
each call; the ratio is the exp of the median block log-ratio with a bootstrap 95 % interval. The graphs are ours, so
that the mode is `max-autotune-no-cudagraphs`. Compile time is told.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from graphs import graphed, timed
from provenance import write

from forewarp.core import serde
from forewarp.core.values import Task

BLOCKS = 60
MODE = "max-autotune-no-cudagraphs"


def module_of(task: Task, constants: dict[str, Any]) -> tuple[torch.nn.Module, Callable[[], list[Any]]]:
    """Return the task's model on the device, and its maker of inputs."""
    names: dict[str, Any] = {"__name__": "reference"}
    exec(compile(task.reference, task.name, "exec"), names)  # a task's reference is trusted code
    names.update(constants)
    with torch.device("cuda"):
        model = names["Model"](*names["get_init_inputs"]()).eval()

    def inputs() -> list[Any]:
        with torch.device("cuda"):
            return list(names["get_inputs"]())

    return model, inputs


def _outputs(result: Any) -> list[torch.Tensor]:
    return [result] if isinstance(result, torch.Tensor) else list(result)


def measure(task: Task, constants: dict[str, Any], mode: str = MODE) -> dict[str, Any]:
    """Return eager against compiled on one workload."""
    model, inputs = module_of(task, constants)
    flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    torch._dynamo.reset()
    begun = time.perf_counter()
    with torch.inference_mode():
        fast = torch.compile(model, mode=mode, dynamic=False)
        given = inputs()
        expected, got = model(*given), fast(*given)
        compile_s = time.perf_counter() - begun
        pairs = zip(_outputs(expected), _outputs(got), strict=True)
        close = all(torch.allclose(e.float(), g.float(), rtol=2e-2, atol=2e-2) for e, g in pairs)
        arms = {"eager": graphed(model, given), "compiled": graphed(fast, given)}
        logs: list[float] = []
        taken: dict[str, list[float]] = {"eager": [], "compiled": []}
        for _ in range(BLOCKS):
            found: dict[str, list[float]] = {"eager": [], "compiled": []}
            for arm in ("eager", "compiled", "compiled", "eager"):
                found[arm].append(timed(arms[arm], flush))
            logs.append(math.log(statistics.fmean(found["eager"]) / statistics.fmean(found["compiled"])))
            for arm, values in found.items():
                taken[arm] += values
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(logs, k=len(logs))) for _ in range(2000))
    return {
        "speedup": math.exp(statistics.median(logs)),
        "low": math.exp(medians[50]),
        "high": math.exp(medians[-51]),
        "eager_ms": statistics.median(taken["eager"]),
        "compiled_ms": statistics.median(taken["compiled"]),
        "compile_s": compile_s,
        "agrees": close,
    }


def main() -> None:
    """Measure every task, write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    found: dict[str, Any] = {}
    for data in json.loads(args.tasks.read_text()):
        task = serde.from_data(Task, data)
        rows: dict[str, Any] = {}
        for workload in task.workloads["cuda"]:
            try:
                rows[workload.name] = measure(task, dict(workload.constants))
            except Exception as e:
                rows[workload.name] = {"error": f"{type(e).__name__}: {str(e)[:300]}"}
            print(task.name, workload.name, rows[workload.name], file=sys.stderr, flush=True)
        speedups = [r["speedup"] for r in rows.values() if "speedup" in r]
        mean = math.exp(statistics.fmean(map(math.log, speedups))) if len(speedups) == len(rows) else None
        found[task.name] = {"speedup": mean, "workloads": rows}
    write(args.out, {"tasks": found})


if __name__ == "__main__":
    main()
