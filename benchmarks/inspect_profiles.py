"""Compare what `forewarp inspect` sees without a GPU with published Nsight Compute profiles of the same kernels.

    python benchmarks/inspect_profiles.py REPOSITORY --python PYTHON_WITH_TRITON_3.5.1 --out inspect_profiles.json

REPOSITORY is a clone of github.com/kaiming-cheng/kernelagent-optimization-artifacts: five KernelBench problems with
eight rounds of Triton kernels each, every one profiled on an H100. The profiles do not say for which dtype the inputs
were, nor which Triton compiled; kernels are traced with fp32 and with bf16 inputs, and count as equal if one of the two
is.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from provenance import write

from forewarp.core.errors import ForewarpError
from forewarp.core.inspection import Code, Launch
from forewarp.core.values import Candidate, Target, Task, Workload
from forewarp.gpu_runner.compilers import occupancy
from forewarp.gpu_runner.devices import known_targets
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor
from forewarp.inspection.traced import of_trace

DTYPES = ("float32", "bfloat16")

_CAST = """
DTYPE = "float32"
_given_init, _given_inputs = Model.__init__, get_inputs

def _init(self, *values):
    _given_init(self, *values)
    self.to(getattr(torch, DTYPE))

Model.__init__ = _init

def get_inputs():
    return [v.to(getattr(torch, DTYPE)) if v.is_floating_point() else v for v in _given_inputs()]
"""

# Parameters of a kernel function are bound by name to those of the problem's layers, the others in order to the inputs.
_BOUND = """
import inspect as _inspect

class ModelNew(Model):
    def forward(self, *values):
        known = {}
        names = ("weight", "bias", "kernel_size", "stride", "padding", "dilation", "output_padding", "groups", "eps")
        for _, layer in self.named_modules():
            for name in names:
                value = getattr(layer, name, None)
                if value is not None:
                    known.setdefault(name, value[0] if isinstance(value, (tuple, list)) else value)
        wanted = _inspect.signature(kernel_function).parameters
        if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in wanted.values()):
            return kernel_function(*values, **known)
        rest = iter(values)
        names = [n for n in wanted if n in known or n != "bias"]
        return kernel_function(**{n: known[n] if n in known else next(rest) for n in names})
"""


def compared(launch: Launch, profile: dict[str, Any], target: Target) -> dict[str, list[int]]:
    """Return our number and the profiler's of each resource.

    What the profiler calls the limit by registers does not know of the limits of warps and of blocks. Its limit by
    shared memory depends on how the driver divides the L1 cache that day, so the bytes are compared instead.
    """
    threads = math.prod(launch.block or (1,))
    by_registers = occupancy.occupancy(Code("", launch.code.registers, 0, 0, 0), threads, 0, target).blocks
    most = occupancy.limits(target.arch)
    shared = launch.code.static_shared_bytes + launch.dynamic_shared_bytes + occupancy.RESERVED_SHARED
    return {
        "registers": [launch.code.registers, int(profile["launch__registers_per_thread"])],
        "blocks by registers": [
            by_registers,
            min(int(profile["launch__occupancy_limit_registers"]), most.warps // (threads // 32), most.blocks),
        ],
        "shared bytes": [-(-shared // 128) * 128, int(profile["launch__shared_mem_per_block_allocated"])],
    }


def inspected(
    executor: LocalExecutor, problem: str, kernel: str, name: str
) -> tuple[dict[str, dict[str, Launch]], str]:
    """Return the launches by dtype and kernel, and what went wrong."""
    workloads = tuple(Workload(d, {"DTYPE": d}) for d in DTYPES)
    task = Task(name, name, problem + _CAST, {"cuda": workloads, "cpu": workloads})
    module = Candidate("\n".join((problem, _CAST, kernel, _BOUND)), "python")
    try:
        seen = of_trace(executor.trace(task, module), executor.describe(task), executor.target)
    except ForewarpError as e:
        return {}, str(e)
    launches = {w.workload: {e.code.kernel: e for e in w.launches} for w in seen.workloads}
    return launches, "; ".join(seen.problems)


def main() -> None:
    """Compare every profiled kernel."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    target = known_targets()["h100"]
    executor = LocalExecutor(target, python=args.python, limits=Limits(compile_s=120, memory=16 << 30))
    rows: list[dict[str, Any]] = []
    try:
        versions = executor.probe()
        for path in sorted(args.repository.glob("*/optimization_trace/round_*/optimized_ncu_metrics.json")):
            problem, kernel = path.parents[2] / "problem.py", path.parent / "kernel.py"
            name = f"{path.parents[2].name[:24]}/{path.parent.name}"
            launches, said = inspected(executor, problem.read_text(), kernel.read_text(), path.parents[2].name)
            for symbol, profile in json.loads(path.read_text())["metrics"].items():
                found = {
                    dtype: compared(by_kernel[symbol], profile, target)
                    for dtype, by_kernel in launches.items()
                    if symbol in by_kernel
                }
                rows.append({"kernel": name, "symbol": symbol, "found": found, "problems": said[:300]})
                print(name, symbol, found or said[:200], file=sys.stderr, flush=True)
    finally:
        executor.close()
    report(rows, versions, args.out)


def report(rows: list[dict[str, Any]], versions: dict[str, str], out: Path | None) -> None:
    """Print how often each number is the profiler's."""
    equal: Counter[str] = Counter()
    for row in rows:
        for name in ("registers", "blocks by registers", "shared bytes"):
            equal[name] += any(f[name][0] == f[name][1] for f in row["found"].values())
        equal["all three"] += any(all(a == b for a, b in f.values()) for f in row["found"].values())
    print(f"{len(rows)} profiled kernels, Triton {versions.get('triton')}")
    for name, count in equal.items():
        print(f"{name:26s} equal for {count} of {len(rows)}")
    if out:
        write(out, {"worker": versions, "kernels": len(rows), "equal": dict(equal), "rows": rows})


if __name__ == "__main__":
    main()
