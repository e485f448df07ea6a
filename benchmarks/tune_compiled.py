"""Time an autotuned kernel's first call within a compiled function: by Inductor alone and by what `install` keeps.

    python benchmarks/tune_compiled.py --out benchmarks/results/tune_compiled_h200.json

One process, caches of its own; every way compiles what those before it have not. `inductor` is a function whose kernels
are all Inductor's; its first seconds are no comparison, since the first way has compiled all of them.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from provenance import write
from record_configurations import imported

WAYS = {"keep 1": 1, "keep 8": 8, "Inductor alone": 0}
KERNEL, EACH, SHAPE, CALLS = "softmax_online", 4, (4096, 32768), 20
"""A kernel, of whose configurations one in so many is in the space, its call, and timed calls."""


def main() -> None:
    """Measure every way, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"TRITON_CACHE_DIR": f"{folder}/triton", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor"}
        write(out, {"ways": ways()})


def ways() -> list[dict[str, Any]]:
    """Return for each way the seconds to the first result, a call's microseconds, and what was chosen."""
    import torch

    import forewarp.triton

    kernel, (rows, columns) = getattr(imported(KERNEL), KERNEL), SHAPE
    kernel.configs = kernel.configs[::EACH]
    x = torch.randn(SHAPE, device="cuda").bfloat16()

    def launched(x: torch.Tensor) -> torch.Tensor:
        result = torch.empty_like(x)
        kernel[lambda meta: ((rows + meta["ROWS"] - 1) // meta["ROWS"],)](x, result, rows, columns)
        return result + 1

    def generated(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x.float() * 2).sum(-1)

    once(lambda x: x + 1, x)
    found: list[dict[str, Any]] = []
    for way, keep in WAYS.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with forewarp.triton.install(keep=keep) if keep else nullcontext() as installed:
                row = {"launched": once(launched, x), "inductor": once(generated, x, "max-autotune-no-cudagraphs")}
        choices = [(c.kernel, c.considered, c.kept) for c in installed.choices] if installed else []
        told = sorted({str(w.message) for w in caught if "forewarp" in str(w.message)})
        found.append({"way": way, **row, "choices": choices, "warnings": told})
    return found


def once(function: Callable[[Any], Any], x: Any, mode: str | None = None) -> dict[str, float]:
    """Compile and call a function; return its result's sum, seconds to the first result, microseconds of a call."""
    import torch

    torch._dynamo.reset()
    start = time.perf_counter()
    compiled = torch.compile(function, fullgraph=True, mode=mode)
    result = compiled(x)
    torch.cuda.synchronize()
    first_s = time.perf_counter() - start
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(3):
        compiled(x)
    begin.record()
    for _ in range(CALLS):
        compiled(x)
    end.record()
    torch.cuda.synchronize()
    return {"sum": result.float().sum().item(), "first_s": first_s, "us": begin.elapsed_time(end) / CALLS * 1e3}


if __name__ == "__main__":
    main()
