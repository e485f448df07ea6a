"""Winners of searches in plain processes: checked against the reference, and timed beside what torch.compile makes.

    python benchmarks/seedless_plain.py DEVICE SOCKET

Imports torch once and says "ready". Each connection to the socket gets a process of its own, forked before the device
was touched. It takes a line of JSON (`reference`, `winner`, `constants`, `seconds`), begins when another line comes,
and answers with a third. Nothing of forewarp is imported.
All arms have the same weights and inputs, and are called without gradients; on a GPU their calls are replayed as CUDA
graphs with a cold L2 cache. Arms take turns in an order drawn anew for each round. `over` has the winner's speed-up
over each arm: the exp of the median of the rounds' log-ratios, with a bootstrap 95 % interval. `quiet` is the same
ratio of the arms' lower deciles, which other work of a busy machine changes less.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import os
import random
import signal
import socket
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import torch
from graphs import graphed, timed

COMPILED: dict[str, dict[str, dict[str, Any]]] = {
    "cpu": {"compile": {}},
    "cuda": {
        "compile": {},
        "max_autotune": {"mode": "max-autotune-no-cudagraphs"},
        "coordinate_descent": {"options": {"coordinate_descent_tuning": True}},
    },
}
"""Arguments of `torch.compile` by device and arm; graphs are captured here, for all arms alike."""
LEAST_S = 0.004
"""An arm is called as often in a round as fills this time on the CPU."""
MOST_ROUNDS = 200
PIECE = 1 << 27
"""Numbers that are compared at once."""


def load(path: Path, constants: dict[str, Any]) -> ModuleType:
    """Import a file and set a workload's constants in it."""
    spec = importlib.util.spec_from_file_location(f"{path.stem}_{time.monotonic_ns()}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    vars(module).update({k: v for k, v in constants.items() if k in vars(module)})
    return module


def built(module: ModuleType, name: str, device: str) -> torch.nn.Module:
    """Return a model with the weights that a seed gives."""
    torch.manual_seed(0)
    with torch.device(device):
        return getattr(module, name)(*module.get_init_inputs()).to(device)


def drawn(module: ModuleType, seed: int, device: str) -> list[Any]:
    """Return inputs."""
    torch.manual_seed(seed)
    with torch.device(device):
        return [v.to(device) if isinstance(v, torch.Tensor) else v for v in module.get_inputs()]


def on_cpu(call: Callable[..., Any], given: list[Any]) -> Callable[[], float]:
    """Return a function that times calls, in seconds per call."""
    begun = time.perf_counter()
    call(*given)
    times = max(1, min(1000, round(LEAST_S / (time.perf_counter() - begun))))

    def timed() -> float:
        begun = time.perf_counter()
        for _ in range(times):
            call(*given)
        return (time.perf_counter() - begun) / times

    return timed


def on_cuda(call: Callable[..., Any], given: list[Any], flush: torch.Tensor, pool: Any) -> Callable[[], float]:
    """Return a function that times a replay of a call with a cold cache, in seconds."""
    graph = graphed(call, given, pool)
    return lambda: timed(graph, flush) / 1e3


def close(got: Any, expected: Any) -> bool:
    """Tell whether results agree to what KernelBench asks for; large tensors in pieces, for want of memory."""
    if isinstance(got, torch.Tensor) and isinstance(expected, torch.Tensor) and got.shape == expected.shape:
        rows = max(1, got.shape[0] * PIECE // max(1, got.numel())) if got.ndim else 0
        pairs = zip(got.split(rows), expected.split(rows), strict=True) if rows else [(got, expected)]
    else:
        pairs = [(got, expected)]
    try:
        for pair in pairs:
            torch.testing.assert_close(*pair, rtol=1e-2, atol=1e-2, equal_nan=True)
    except AssertionError:
        return False
    return True


def decile(values: list[float]) -> float:
    """Return the lower decile."""
    return sorted(values)[len(values) // 10]


def compared(others: list[float], ours: list[float]) -> tuple[dict[str, float], dict[str, float]]:
    """Return how many times longer others take in the same rounds, and in quiet ones, each with its 95 % interval."""
    logs, draw, rounds = (
        [math.log(a / b) for a, b in zip(others, ours, strict=True)],
        random.Random(0),
        range(len(ours)),
    )
    medians: list[float] = []
    quiet: list[float] = []
    for _ in range(2000):
        picked = draw.choices(rounds, k=len(rounds))
        medians.append(statistics.median(logs[i] for i in picked))
        quiet.append(math.log(decile([others[i] for i in picked]) / decile([ours[i] for i in picked])))
    whole = math.log(decile(others) / decile(ours))
    return interval(statistics.median(logs), medians), interval(whole, quiet)


def interval(value: float, drawn: list[float]) -> dict[str, float]:
    """Return a ratio with its bootstrap 95 % interval, all given as logarithms."""
    ordered = sorted(drawn)
    return {k: math.exp(v) for k, v in (("ratio", value), ("low", ordered[50]), ("high", ordered[-51]))}


def measured(device: str, reference: Path, winner: Path, values: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Check and time."""
    given = drawn(load(reference, values), 1, device)
    calls: dict[str, Callable[..., Any]] = {"eager": built(load(reference, values), "Model", device)}
    for name, options in COMPILED[device].items():
        calls[name] = torch.compile(built(load(reference, values), "Model", device), dynamic=False, **options)
    won = built(load(winner, values), "ModelNew", device)
    won.load_state_dict(built(load(reference, values), "Model", device).state_dict())
    calls["winner"] = won
    flush = torch.empty(256 << 20 if device == "cuda" else 0, dtype=torch.int8, device=device)
    pool = torch.cuda.graph_pool_handle() if device == "cuda" else None
    arms: dict[str, Callable[[], float]] = {}
    found: dict[str, Any] = {"first_call_s": {}, "right": {}, "errors": {}}
    with torch.no_grad():
        for name, call in calls.items():
            try:
                begun = time.perf_counter()
                result = call(*given)
                found["first_call_s"][name] = time.perf_counter() - begun
                found["right"][name] = close(result, calls["eager"](*given))
                del result
                fresh = drawn(load(reference, values), 2, device)
                found["right"][name] &= close(call(*fresh), calls["eager"](*fresh))
                del fresh
                arms[name] = on_cuda(call, given, flush, pool) if device == "cuda" else on_cpu(call, given)
            except Exception as e:  # Inductor raises what it likes
                found["errors"][name] = f"{type(e).__name__}: {str(e)[:300]}"
        times: dict[str, list[float]] = {name: [] for name in arms}
        draw, end = random.Random(0), time.perf_counter() + seconds
        while arms and len(times["eager"]) < MOST_ROUNDS and time.perf_counter() < end:
            for name in draw.sample(sorted(arms), len(arms)):
                times[name].append(arms[name]())
    found["load"] = os.getloadavg()[0]  # of one, what this process takes itself
    found["rounds"] = len(times.get("eager", ()))
    found["seconds"] = {name: statistics.median(taken) for name, taken in times.items()}
    if "winner" in arms:
        ours = times.pop("winner")
        both = {name: compared(taken, ours) for name, taken in times.items()}
        found["over"] = {name: over for name, (over, _) in both.items()}
        found["quiet"] = {name: quiet for name, (_, quiet) in both.items()}
    return found


def serve(line: socket.socket, device: str) -> None:
    """Answer one request."""
    with line.makefile("rw") as file:
        asked = json.loads(file.readline())
        if device == "cuda":
            # Inductor's helpers import torch, too.
            importlib.import_module("torch._inductor.async_compile").AsyncCompile.warm_pool()
        if file.readline():
            paths = Path(asked["reference"]), Path(asked["winner"])
            print(json.dumps(measured(device, *paths, asked["constants"], asked["seconds"])), file=file, flush=True)


def main() -> None:
    """Import, then fork for each connection."""
    device, path = sys.argv[1:]
    os.environ["TORCH_WARM_POOL"] = "0"  # or Inductor's helpers begin here
    with mock.patch.object(torch.cuda, "is_available", return_value=device == "cuda"):  # which would open the device
        importlib.import_module("torch._inductor.compile_fx")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        print("ready", flush=True)
        while True:
            line, _ = listener.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                listener.close()
                try:
                    serve(line, device)
                finally:
                    line.close()
                    sys.stderr.flush()
                    os._exit(0)
            line.close()


if __name__ == "__main__":
    main()
