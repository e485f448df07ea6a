"""Tune kernels of the pool on this machine's GPU, and time the first call of a process with autotuned kernels.

    python benchmarks/tune_live.py --out benchmarks/results/tune_live.json

- `tuned`: each kernel of `TUNED` by forecasts, with `COMPILED` configurations compiled and `MEASURED` measured;
  what the best of all its configurations took on such a card stands in `pool/configurations.parquet`.
- `first_call`: seconds until five autotuned kernels have run once, in a new process with empty caches: by Triton alone,
  with `forewarp.triton.install(keep=8)`, `keep=1` and `deterministic=True`. Each has its first `EACH` configurations.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

from provenance import write
from record_configurations import HOME

TUNED = ("gemm_bf16", "attention_forward", "softmax_online", "layernorm", "gemm_w4a16", "attention_decode")
COMPILED, MEASURED = 24, 8
FIRST = ("layernorm", "softmax_online", "swiglu", "transpose", "gemm_block_pointers")
EACH = 24
WAYS = ("triton", "keep=8", "keep=1", "deterministic")


def main() -> None:
    """Measure both parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="tuned,first_call")
    parser.add_argument("--first-call", default="", help="used by this script: one way")
    chosen = parser.parse_args()
    if chosen.first_call:
        first_call(chosen.first_call)
        return
    result: dict[str, Any] = {}
    if "first_call" in chosen.only:
        result["first_call"] = {way: in_new_process(way) for way in WAYS}
        print(json.dumps(result["first_call"]), flush=True)
    if "tuned" in chosen.only:
        result["tuned"] = list[Any]()
        for name in TUNED:
            result["tuned"].append(tuned(name))
            write(chosen.out, result)
    write(chosen.out, result)


def tuned(name: str) -> dict[str, Any]:
    """Tune a kernel in its first call."""
    from forewarp.gpu_runner import devices
    from forewarp.inspection.tracing.values import SourceFile
    from forewarp.tuning.tuner import Tuner

    path = HOME / f"{name}.py"
    call = f"run({', '.join(map(repr, tomllib.loads((HOME / 'calls.toml').read_text())[name][0]))})"
    target = devices.choose("cuda")
    start = time.perf_counter()
    with Tuner(SourceFile(path.read_text(), str(path)), target, sys.executable, reads=[str(HOME)]) as tuner:
        (observed, *_), problems = tuner.observe([call])
        seen = time.perf_counter() - start
        found = tuner.tune(observed, compiled=COMPILED, measured=MEASURED)
    best = found.best
    row = {
        "kernel": name,
        "call": call,
        "seconds": time.perf_counter() - start,
        "observe_s": seen,
        "configurations": len(found.tried),
        "measured": sum(t.measured_us is not None for t in found.tried),
        "best": best.label,
        "best_us": best.measured_us,
        "speedup_over_first": [best.speedup, best.low, best.high],
        "problems": [*problems, *sorted({t.problem for t in found.tried if t.problem})],
    }
    print(json.dumps(row), flush=True)
    return row


def in_new_process(way: str) -> dict[str, float]:
    """Return the seconds of a new process, with a new cache."""
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"TRITON_CACHE_DIR": cache}
        done = subprocess.run(
            [sys.executable, __file__, "--first-call", way], env=environment, capture_output=True, text=True, check=True
        )
    return json.loads(done.stdout.splitlines()[-1])


def first_call(way: str) -> None:
    """Run five kernels once; print the seconds of that, and each kernel's time afterwards in microseconds."""
    import torch
    from record_configurations import imported

    import forewarp.triton

    calls = tomllib.loads((HOME / "calls.toml").read_text())
    modules = {name: imported(name) for name in FIRST}
    for module in modules.values():
        for value in vars(module).values():
            if hasattr(value, "configs"):
                value.configs = value.configs[:: max(1, len(value.configs) // EACH)][:EACH]
    torch.empty(1, device="cuda")
    if way == "deterministic":
        forewarp.triton.install(deterministic=True)
    elif way != "triton":
        forewarp.triton.install(keep=int(way.partition("=")[2]))
    start = time.perf_counter()
    for name, module in modules.items():
        module.run(*calls[name][1])
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    after = {name: kernel_us(module, calls[name][1]) for name, module in modules.items()}
    print(json.dumps({"seconds": seconds} | after))


def kernel_us(module: Any, call: list[Any]) -> float:
    """Return the device time of the kernel's launch with the chosen configuration, inputs left out."""
    import torch

    tuner = next(v for v in vars(module).values() if hasattr(v, "configs") and hasattr(v, "best_config"))
    caught: list[Any] = []
    own = tuner.fn.run

    def run(*args: Any, **kwargs: Any) -> Any:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(1_000_000)
        begin.record()
        result = own(*args, **kwargs)
        end.record()
        caught.append((begin, end))
        return result

    tuner.fn.run = run
    try:
        for _ in range(7):
            module.run(*call)
    finally:
        del tuner.fn.run
    torch.cuda.synchronize()
    return sorted(b.elapsed_time(e) * 1e3 for b, e in caught)[len(caught) // 2]


if __name__ == "__main__":
    main()
