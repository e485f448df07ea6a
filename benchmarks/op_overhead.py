"""Time what a call of an exported op takes on the host, beside the kernel's own work: a kernel of a few elements.

    python benchmarks/op_overhead.py --as after

Writes `results/op_overhead_cpu.json`, microseconds of the processor per call, by name (`--as`) and way of calling. Run
again, the lesser of two numbers stays: what else the machine does only adds.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from provenance import write
from torch.utils.benchmark import Timer

from forewarp.core.values import Workload
from forewarp.export import package
from forewarp.export.module_text import ExportedShape, Winning
from forewarp.gpu_runner.devices import detect_cpu
from forewarp.gpu_runner.formats import task as tasks
from forewarp.gpu_runner.worker.requests import TaskJob
from forewarp.gpu_runner.worker.signatures import describe_job

RESULTS = Path(__file__).parent / "results" / "op_overhead_cpu.json"
TINY = {"ROWS": 4, "COLS": 16}
PACKAGE = "tiny_norm"
ROUNDS = 7


def main() -> None:
    """Time the op of a tiny RMSNorm, an op that does nothing, and the reference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--as", dest="name", default="after", help="name of these numbers in the file")
    name = parser.parse_args().name
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"  # the kernel's own OpenMP, once it is loaded
    with tempfile.TemporaryDirectory() as folder:
        for path, text in _package().items():
            (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / path).write_text(text)
        sys.path.insert(0, str(Path(folder) / "src"))
        times = {way: _micros(call) for way, call in _ways().items()}
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    known.pop("provenance", None)
    before = known.get(name, {})
    write(RESULTS, known | {name: {way: min(time, before.get(way, time)) for way, time in times.items()}})
    print(json.dumps(times, indent=1))


def _package() -> dict[str, str]:
    task = tasks.load("rmsnorm")
    task = replace(task, workloads={"cpu": (Workload("tiny", TINY),)})
    job = TaskJob(task=task.without_seeds(), target=detect_cpu())
    signature = describe_job(job, task.workloads["cpu"][0], flops=False)
    seed = next(s for s in task.seeds if s.language == "cpp")
    shape = ExportedShape("tiny", TINY, signature)
    return package.package(Winning(task, detect_cpu(), seed, (shape,)), PACKAGE, ["tiny"], "{}\n")


def _ways() -> dict[str, Callable[[], Any]]:
    module: Any = importlib.import_module(PACKAGE)  # which `main` has written
    x = torch.randn(TINY["ROWS"], TINY["COLS"])
    given = module.get_init_inputs()
    old, new = module.Model(*given), module.ModelNew(*given)
    library = torch.library.Library("op_overhead", "DEF")
    library.define("nothing(Tensor x, Tensor weight) -> Tensor")
    library.impl("nothing", lambda x, weight: torch.empty_like(x), "CPU")
    nothing = library, torch.ops.op_overhead.nothing.default  # the op lives as long as its library
    weight = old.weight.detach()
    compiled = torch.compile(new, fullgraph=True)
    loss = torch.randn_like(x)

    def step(model: Any) -> None:
        model(x).backward(loss)

    with torch.no_grad():
        torch.testing.assert_close(module.tiny_norm(x, weight), old(x))
        compiled(x)

    def inference(call: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> Any:
            with torch.no_grad():
                return call()

        return run

    return {
        "an op in Python that allocates its output": inference(lambda: nothing[1](x, weight)),
        "the op": inference(lambda: module.tiny_norm(x, weight)),
        "its module": inference(lambda: new(x)),
        "its module, compiled": inference(lambda: compiled(x)),
        "its module, forward and backward": lambda: step(new),
        "the reference": inference(lambda: old(x)),
        "the reference, forward and backward": lambda: step(old),
    }


def _micros(call: Callable[[], Any]) -> float:
    """Return the median microseconds of the processor that a call takes, over some rounds."""
    timer = Timer("call()", globals={"call": call}, timer=time.thread_time)
    rounds = [timer.blocked_autorange(min_run_time=0.2).median for _ in range(ROUNDS)]
    return round(statistics.median(rounds) * 1e6, 2)


if __name__ == "__main__":
    main()
