"""Tune kernels of the pool on this machine's GPU, and time the first call of a process with autotuned kernels.

    python benchmarks/tune_live.py --out benchmarks/results/tune_live.json

- `tuned`: each kernel of `TUNED` by forecasts, with `COMPILED` configurations compiled and `MEASURED` measured;
  what the best of all its configurations took on such a card stands in `pool/configurations.parquet`.
- `first_call`: seconds until five autotuned kernels have run once, in a new process with empty caches: by Triton alone,
  with `forewarp.triton.install(keep=8)`, `keep=1` and `deterministic=True`. Each has its first `EACH` configurations.
- `per_second`: configurations measured a second, all of a kernel and compiled before. It counts from the first launch
  until the results of all have been compared, `held_per_second` all for which the device was held: processes, imports,
  the call and its inputs, too. `plain` is a script that launches and times them, and compares nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from provenance import write
from record_configurations import HOME

from forewarp.gpu_runner import devices
from forewarp.inspection.tracing.values import SourceFile
from forewarp.tuning.jobs import Observed
from forewarp.tuning.tuner import Exploration, Tuner

TUNED = ("gemm_bf16", "attention_forward", "softmax_online", "layernorm", "gemm_w4a16", "attention_decode")
COMPILED, MEASURED = 24, 8
FIRST = ("layernorm", "softmax_online", "swiglu", "transpose", "gemm_block_pointers")
EACH = 24
WAYS = ("triton", "keep=8", "keep=1", "deterministic")
WHOLE = ("softmax_online", "gemm_bf16", "attention_decode")
ALL = 1000
"""More configurations than a kernel has."""
ROUNDS = 7


def main() -> None:
    """Measure both parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="tuned,first_call")
    parser.add_argument("--first-call", default="", help="used by this script: one way")
    parser.add_argument("--plain", default="", help="used by this script: a kernel")
    parser.add_argument("--places", default="", help="used by this script: its configurations")
    chosen = parser.parse_args()
    if chosen.plain:
        plain(chosen.plain, [int(n) for n in chosen.places.split(",")])
        return
    if chosen.first_call:
        first_call(chosen.first_call)
        return
    result: dict[str, Any] = {}
    if "first_call" in chosen.only:
        result["first_call"] = {way: in_new_process(None, "--first-call", way) for way in WAYS}
        print(json.dumps(result["first_call"]), flush=True)
    if "tuned" in chosen.only:
        result["tuned"] = list[Any]()
        for name in TUNED:
            result["tuned"].append(tuned(name))
            write(chosen.out, result)
    if "per_second" in chosen.only:
        result["kernels"] = list[Any]()
        for name in WHOLE:
            result["kernels"].append(per_second(name))
            measured = sum(r["measured"] for r in result["kernels"])
            seconds = {n: sum(r["seconds"][n] for r in result["kernels"]) for n in result["kernels"][0]["seconds"]}
            result |= {n: measured / s for n, s in seconds.items()}
            write(chosen.out, result)
    write(chosen.out, result)


def per_second(name: str) -> dict[str, Any]:
    """Measure all configurations of a kernel, compiled before, and by a plain script after that."""
    tuner = KeepingTuner(*tuned_file(name), reads=[str(HOME)])
    with tuner:
        (observed, *_), _ = tuner.observe([call_of(name)])
        tuned = tuner.tune(observed, compiled=ALL, measured=ALL)
        places = [t.place for t in tuned.tried if t.measured_us]
        with tempfile.TemporaryDirectory() as cache:
            for folder in tuner.compiled:
                shutil.copytree(folder, cache, dirs_exist_ok=True)
            asked = ["--plain", name, "--places", ",".join(map(str, places))]
            told = in_new_process(cache, *asked)
    row = {
        "kernel": name,
        "call": call_of(name),
        "configurations": len(tuned.tried),
        "measured": len(places),
        "checked": sum(t.checked for t in tuned.tried),
        "problems": sorted({t.problem for t in tuned.tried if t.problem}),
        "seconds": {"per_second": tuner.measuring_s, "held_per_second": tuner.device_s, "plain": told["seconds"]},
        "plain_first_launches_s": told["first_launches"],
    }
    print(json.dumps(row), flush=True)
    return row


class KeepingTuner(Tuner):
    """A tuner that tells the folders of what it compiled."""

    compiled: list[Path]

    def _compile(self, observed: Observed, state: Exploration, places: Sequence[int], until: float) -> None:
        super()._compile(observed, state, places, until)
        self.compiled = state.folders


def plain(name: str, places: list[int]) -> None:
    """Time configurations as somebody would who wants their medians and no more; print the seconds."""
    import torch
    from record_configurations import caught

    launch = caught(name, first_call_of(name))
    flush = torch.empty(768 << 20, dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    begun = time.perf_counter()
    launching = 0.0
    for place in places:
        config = launch.configs[place]
        start = time.perf_counter()
        launch.run(config)
        torch.cuda.synchronize()
        launching += time.perf_counter() - start
        events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(ROUNDS)]
        for begin, end in events:
            flush.zero_()
            begin.record()
            launch.run(config)
            end.record()
        torch.cuda.synchronize()
        statistics.median(begin.elapsed_time(end) for begin, end in events)
    print(json.dumps({"seconds": time.perf_counter() - begun, "first_launches": launching}))


def first_call_of(name: str) -> list[Any]:
    """Return the arguments of a kernel's first call."""
    return tomllib.loads((HOME / "calls.toml").read_text())[name][0]


def call_of(name: str) -> str:
    """Return a kernel's first call as `forewarp tune` takes it."""
    return f"run({', '.join(map(repr, first_call_of(name)))})"


def tuned_file(name: str) -> tuple[SourceFile, Any, str]:
    """Return what a tuner is made of: a kernel's file, this machine's GPU and Python."""
    path = HOME / f"{name}.py"
    return SourceFile(path.read_text(), str(path)), devices.choose("cuda"), sys.executable


def tuned(name: str) -> dict[str, Any]:
    """Tune a kernel in its first call."""
    call = call_of(name)
    start = time.perf_counter()
    with Tuner(*tuned_file(name), reads=[str(HOME)]) as tuner:
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


def in_new_process(cache: str | None, *asked: str) -> dict[str, float]:
    """Return what this script prints in a new process, with a cache of Triton's in a folder, or with a new one."""
    with tempfile.TemporaryDirectory() as new:
        environment = os.environ | {"TRITON_CACHE_DIR": cache or new}
        command = [sys.executable, __file__, *asked]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
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
