"""The device times of modules in a plain process: no forewarp but for the libraries of extensions, built before.

    python benchmarks/modules_plain.py GPU

Reads jobs, each a line of JSON with a KernelBench `problem` and `modules` with `path` and `artefact`. Prints a line of
JSON per module, and `{"end": true}` after the last: `plain` is the reference's device time over the module's. Both are
captured as CUDA graphs and replayed in turns, each behind a flush of the L2 cache, between two events; the median of
the ratios counts (`plain_spread`: their 10th and 90th percentile). What cannot be captured, or launches on a stream
that is not (its replays leave the output as it was), is called instead: behind a kernel that keeps the device busy
until all is enqueued, so that the host has no part in it, or, where it waits for the device, as it is.
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

TURNS, WARM_UPS = 40, 3
SLEEP_CYCLES = 4_000_000
FLUSH_BYTES = 768 << 20
"""Many times the L2 cache: while it is written, the host prepares the call's first launch."""


def main() -> None:
    """Time the modules of each job."""
    os.environ["CUDA_VISIBLE_DEVICES"] = sys.argv[1]
    import torch

    torch.set_grad_enabled(False)
    torch.empty(1, device="cuda")
    for line in sys.stdin:
        job = json.loads(line)
        try:
            time_job(job["problem"], job["modules"])
        except Exception as e:
            print(json.dumps({"path": "", "plain_error": f"{type(e).__name__}: {e}"[-300:]}))
        torch.cuda.empty_cache()
        print(json.dumps({"end": True}), flush=True)


def time_job(path: str, modules: Sequence[dict[str, str]]) -> None:
    """Time the modules of one problem."""
    import torch

    problem = imported(path, "problem")
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    torch.manual_seed(0)
    values = [v.cuda() if isinstance(v, torch.Tensor) else v for v in problem.get_inputs()]
    reference = made(problem.Model, problem)
    known = {key: value.clone() for key, value in reference.state_dict().items()}
    anchor, how = captured(lambda: reference(*values))
    for module in modules:
        row: dict[str, Any] = {"path": module["path"]}
        try:
            install(module["artefact"])
            candidate = made(imported(module["path"], "candidate").ModelNew, problem)
            if candidate.state_dict().keys() == known.keys():
                candidate.load_state_dict(known)
            call, own = captured(lambda candidate=candidate: candidate(*values))
            times = [(timed(call, flush, own), timed(anchor, flush, how)) for _ in range(TURNS)]
            row |= {
                "plain": statistics.median(b / a for a, b in times),
                "plain_spread": statistics.quantiles((b / a for a, b in times), n=10)[::8],
                "plain_us": statistics.median(a for a, _ in times),
                "plain_anchor_us": statistics.median(b for _, b in times),
                "plain_how": own,
                "plain_anchor_how": how,
            }
        except Exception as e:
            row["plain_error"] = f"{type(e).__name__}: {e}"[-300:]
        print(json.dumps(row), flush=True)


def made(kind: Any, problem: Any) -> Any:
    """Return an instance with a problem's arguments and known weights, on the device."""
    import torch

    torch.manual_seed(1)
    return kind(*problem.get_init_inputs()).cuda()


def imported(path: str, name: str) -> Any:
    """Import a file."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def install(artefact: str) -> None:
    """Have torch take extensions that were built before: its own way takes most of a minute for each."""
    manifest = Path(artefact) / "build.json" if artefact else None
    if manifest is None or not manifest.exists():
        return
    from forewarp.gpu_runner.worker import extensions

    extensions.install(artefact, json.loads(manifest.read_text()))


def captured(call: Callable[[], Any]) -> tuple[Callable[[], Any], str]:
    """Return a call as the replay of a CUDA graph ("graph"), else as it is ("enqueued", or "waits" if it waits)."""
    import torch

    for _ in range(WARM_UPS):
        wanted = tensors(call())
    torch.cuda.synchronize()
    wanted = [t.clone() for t in wanted]
    try:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            outputs = tensors(call())
        for output in outputs:
            output.zero_()
        graph.replay()
        torch.cuda.synchronize()
        if all(
            torch.allclose(o.double(), w.double(), 1e-2, 1e-3, equal_nan=True)
            for o, w in zip(outputs, wanted, strict=True)
        ):
            return graph.replay, "graph"
        return call, "enqueued"
    except RuntimeError as e:
        torch.cuda.set_stream(torch.cuda.default_stream())  # torch leaves it at the one that was captured
        torch.cuda.synchronize()
        return call, "waits" if "captur" in str(e) or "synchroni" in str(e) else "enqueued"


def tensors(result: Any) -> list[Any]:
    """Return the tensors of a result."""
    return list(result) if isinstance(result, tuple | list) else [result]


def timed(call: Callable[[], Any], flush: Any, how: str) -> float:
    """Return the microseconds of one call between two events."""
    import torch

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    if how == "enqueued":
        torch.cuda._sleep(SLEEP_CYCLES)
    flush.zero_()
    begin.record()
    call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e3


if __name__ == "__main__":
    main()
