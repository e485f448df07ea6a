/*forewarp
format = 1
inputs = ["x", "gate"]
outputs = ["y"]

[tunables]
BLOCK = [4096, 1024, 16384, 65536]    # elements per unit of work
FUSED = [0, 1]                        # 0 writes the sigmoid first and multiplies in a second sweep

[[launch]]
kernel = "swish_gate"
args = ["x", "gate", "y", "numel(x):i64"]
*/
#include <algorithm>
#include <cmath>
#include <cstdint>

static float sigmoid(float v) { return 1.0f / (1.0f + std::exp(-v)); }

extern "C" void swish_gate(const float* x, const float* gate, float* y, int64_t n) {
#pragma omp parallel for schedule(static)
    for (int64_t start = 0; start < n; start += BLOCK) {
        const int64_t end = std::min<int64_t>(start + BLOCK, n);
        if (FUSED) {
            for (int64_t i = start; i < end; i++) y[i] = x[i] * sigmoid(x[i]) * gate[i];
        } else {
            for (int64_t i = start; i < end; i++) y[i] = sigmoid(x[i]);
            for (int64_t i = start; i < end; i++) y[i] *= x[i] * gate[i];
        }
    }
}
