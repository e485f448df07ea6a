"""Time a model, eager, under torch.compile and under torch.compile(max-autotune), with and without kernels in it.

    python models_plain.py DEVICE SECONDS MODEL [PATCHED]

In a process without forewarp's worker, as a user would run it: calls by the host's clock, waiting for each. Each arm is
timed against each baseline in interleaved blocks (ABBA). Prints a JSON document.
"""

from __future__ import annotations

import importlib.util
import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from forewarp.gpu_runner.statistics import PairedSamples, compare

MODES = {"eager": None, "compile": "default", "max-autotune": "max-autotune"}
LEAST, MOST = 12, 400


def loaded(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    device, seconds, *paths = sys.argv[1], float(sys.argv[2]), *map(Path, sys.argv[3:])
    torch.set_grad_enabled(False)
    first = loaded(paths[0])
    with torch.device(device):
        torch.manual_seed(0)
        model = first.Model(*first.get_init_inputs()).to(device)
        inputs = first.get_inputs()
        models = {"model": model}
        if len(paths) > 1:
            patched = loaded(paths[1])
            models["patched"] = patched.ModelNew(*patched.get_init_inputs()).to(device)
            models["patched"].load_state_dict(model.state_dict())
    expected = model(*inputs)
    arms: dict[str, Callable[[], Any]] = {}
    found: dict[str, Any] = {"torch": torch.__version__, "arms": {}, "pairs": {}, "errors": {}}
    if device == "cuda":
        found["device"] = torch.cuda.get_device_name()
    for mode, name in MODES.items():
        for kind, each in models.items():
            begun = time.perf_counter()
            run = each if name is None else torch.compile(each, mode=name, dynamic=False)
            try:
                for _ in range(4):
                    torch.compiler.cudagraph_mark_step_begin()
                    result = run(*inputs)
                    wait(device)
            except Exception as e:
                found["arms"][f"{kind} {mode}"] = {"error": f"{type(e).__name__}: {e}"[:600]}
                continue
            off = float((result.float() - expected.float()).norm() / expected.float().norm())
            arm = arms[f"{kind} {mode}"] = lambda run=run: run(*inputs)
            found["arms"][f"{kind} {mode}"] = {
                "first_calls_s": time.perf_counter() - begun,
                "off": off,
                "ms": 1e3 * min(timed(arm, device) for _ in range(5)),
            }
            print(kind, mode, found["arms"][f"{kind} {mode}"], file=sys.stderr, flush=True)
    for mode in MODES:
        for baseline in MODES:
            pair = (f"patched {mode}", f"model {baseline}")
            if all(name in arms for name in pair):
                try:
                    times = against(arms[pair[0]], arms[pair[1]], device, seconds)
                except RuntimeError as e:
                    found["errors"][" over ".join(pair)] = f"{type(e).__name__}: {e}"[:600]
                else:
                    found["pairs"][" over ".join(pair)] = times
    best = min((a for a in arms if a.startswith("model")), key=lambda a: found["arms"][a]["ms"])
    found["summary"] = f"fastest without kernels: {best}; " + "; ".join(
        f"{name} {p['speedup']:.3f} [{p['low']:.3f}, {p['high']:.3f}]" for name, p in found["pairs"].items()
    )
    print(json.dumps(found))


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def timed(run: Callable[[], Any], device: str) -> float:
    torch.compiler.cudagraph_mark_step_begin()  # results of graphs that were replayed before are not needed
    wait(device)
    begun = time.perf_counter()
    run()
    wait(device)
    return time.perf_counter() - begun


def against(candidate: Callable[[], Any], anchor: Callable[[], Any], device: str, seconds: float) -> dict[str, float]:
    """Return the speed-up with its 95 % interval."""
    ours: list[float] = []
    theirs: list[float] = []
    until = time.perf_counter() + seconds
    while len(ours) < 2 * LEAST or (time.perf_counter() < until and len(ours) < 2 * MOST):
        first, second = (candidate, ours), (anchor, theirs)
        if random.random() < 0.5:
            first, second = second, first
        for run, samples in (first, second, second, first):
            samples.append(timed(run, device))
    c = compare(PairedSamples(ours, theirs))
    return {
        "speedup": c.speedup,
        "low": c.low,
        "high": c.high,
        "candidate_ms": c.candidate_median_s * 1e3,
        "anchor_ms": c.anchor_median_s * 1e3,
        "blocks": len(ours) // 2,
    }


if __name__ == "__main__":
    main()
