"""Diagnoses of measured programs in a proposer's prompt."""

from __future__ import annotations

from forewarp.core.values import Candidate, Target
from forewarp.gpu_runner.devices import known_targets
from forewarp.search.proposers.diagnosis import sentences

H100 = known_targets()["h100"]
FACTS = {"registers": 255.0, "threads": 256.0, "shared_bytes": 0.0, "waves": 1.1, "tail": 0.45, "floor_s": 1e-5}
KERNEL = """/*forewarp
inputs = ["x"]
outputs = ["y"]
[[launch]]
kernel = "k"
args = ["x", "y"]
grid = [1]
block = [32]
*/
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[32 * 32];
    s[threadIdx.x * 32] = x[threadIdx.x * 64];
    y[threadIdx.x] = s[threadIdx.x * 32];
}
"""


def told(facts: dict[str, float], seconds: float | None = 4e-5, target: Target = H100) -> str:
    return "\n".join(sentences(Candidate(KERNEL, "cuda"), facts, seconds, target))


def test_each_limit_is_named_with_what_helps() -> None:
    text = told(FACTS)
    assert "Bound by memory, and 4.0 times the time" in text
    assert "8 warps (12%), limited by registers: smaller tiles" in text
    assert "45% of 1.1 waves idle at the end" in text
    assert "A global load touches 8 times the sectors" in text
    assert "conflicts of 32 ways: pad each row" in text


def test_arithmetic_is_told_from_memory_and_few_warps_are_no_fault_of_tensor_cores() -> None:
    text = told(FACTS | {"flops_per_byte": 1000.0, "mix.tensor": 0.1, "waves": 0.5})
    assert "Bound by arithmetic (1000 operations a byte; memory sets the pace below 295): it reaches 25%" in text
    assert "The grid fills 50% of the device" in text
    assert "limited by" not in text


def test_nothing_is_said_where_nothing_is_known() -> None:
    assert told({}) == ""
    assert "Bound by" not in told(FACTS, None)
