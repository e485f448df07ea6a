"""A task of one's own from source text, and a kernel for it: validate, forecast, measure, then search."""

from typing import Any

import forewarp

REFERENCE = """
import torch
import torch.nn as nn

ROWS, COLS = 512, 4096


class Model(nn.Module):
    def forward(self, x, gate):
        return x * torch.sigmoid(x) * gate


def get_inputs():
    return [torch.randn(ROWS, COLS), torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
"""

KERNEL = """/*forewarp
inputs = ["x", "gate"]
outputs = ["y"]

[tunables]
CHUNK = [1024, 4096, 16384, 65536]

[[launch]]
kernel = "swish_gate"
args = ["x", "gate", "y", "numel(x):i64"]
*/
#include <cmath>
#include <cstdint>

extern "C" void swish_gate(const float* x, const float* gate, float* y, int64_t n) {
#pragma omp parallel for schedule(dynamic, CHUNK)
    for (int64_t i = 0; i < n; i++) y[i] = x[i] / (1.0f + std::exp(-x[i])) * gate[i];
}
"""

SHAPES = {"square": {"ROWS": 512, "COLS": 4096}, "odd": {"ROWS": 301, "COLS": 2999}}


def define() -> forewarp.Task:
    return forewarp.define_task(REFERENCE, name="swish_gate", workloads=SHAPES, seeds=[KERNEL])


def main(device: str = "cpu", **where: Any) -> forewarp.Run:
    task = define()
    if device != "replay":  # there the reference does not run
        print(forewarp.validate(task, device=device, **where))
    print(forewarp.forecast(task, KERNEL, device=device, **where))
    print(forewarp.measure(task, KERNEL, tunables={"CHUNK": 4096}, device=device, **where))
    result = forewarp.optimize(task, budget=4, device=device, **where)
    print(result)
    return result


if __name__ == "__main__":
    main()
