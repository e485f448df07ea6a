"""A copy kernel as compiled for a GPU, of the kind that the trees cover, and measurements of it."""

from __future__ import annotations

from dataclasses import replace

from contracts.forecaster_contract import measured

from forewarp.core.protocols import Subject
from forewarp.core.values import Build, Candidate, Evidence, Measurement, Target, WorkloadTiming

GPU = Target("g", "cuda", "sm_90", 132, 4.8e12, 67e12, 989e12, 60 << 20, 232448)
FACTS = {
    "registers": 32.0,
    "stack_bytes": 0.0,
    "shared_bytes": 0.0,
    "threads": 256.0,
    "blocks": 65536.0,
    "waves": 62.0,
    "tail": 0.0,
    "occupancy": 1.0,
    "launches": 1.0,
    "calls": 0.0,
    "bytes_per_thread": 8.0,
    "floor_s": 2.8e-5,
    "flops_per_byte": 0.0,
    "instructions": 40.0,
    "loop_share": 0.0,
    "mix.global_load": 0.05,
    "mix.global_store": 0.025,
    "mix.fp32": 0.2,
    "mix.integer": 0.3,
    "width.global_load": 32.0,
    "width.global_store": 32.0,
}
SOURCE = """/*forewarp
inputs = ["x"]
outputs = ["y"]
[tunables]
THREADS = [256, 128, 512]
[[launch]]
kernel = "k"
args = ["x", "y"]
grid = ["65536"]
block = ["THREADS"]
*/
extern "C" __global__ void k(const float* x, float* y) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    y[STEP * i] = x[STEP * i];
}
"""


def kernel(step: int = 1, threads: int = 256, **facts: float) -> Subject:
    source = SOURCE.replace("STEP", str(step))
    seen = FACTS | {"threads": float(threads), "blocks": 65536.0 * 256 / threads} | facts
    return Subject(Candidate(source, "cuda", {"THREADS": threads}), Build("ok", 0.1, evidence=Evidence(seen)))


def timed(speedup: float, anchor_s: float = 1e-4) -> Measurement:
    timing = WorkloadTiming("w", speedup, speedup * 0.99, speedup * 1.01, anchor_s / speedup, anchor_s, 0.0)
    return replace(measured(speedup), workloads=(timing,))
