/*forewarp
format = 1
inputs = ["x"]
outputs = ["y"]

[params]
weight = "weight"

[tunables]
FUSED = [0, 1]                 # 0 all row statistics first, then all outputs; 1 row by row
WIDTH = [4, 8, 16]             # floats per vector
ACCUMULATORS = [1, 2, 4, 8]    # independent partial sums per row
CHUNK = [16, 1, 64, 512]       # rows per unit of work
PREFETCH = [0, 16, 64]         # cache lines fetched ahead; 0 leaves it to the hardware

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[scratch]
scales = { dtype = "float32", shape = ["rows"] }

[[launch]]
kernel = "rmsnorm"
args = ["x", "weight", "y", "scales", "rows", "cols", "init1:f32"]
*/
#include <cmath>
#include <cstdint>

#pragma GCC diagnostic ignored "-Wpsabi"

typedef float vec __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

static inline vec load(const float* p) {
#if PREFETCH > 0
    __builtin_prefetch(p + 16 * PREFETCH);
#endif
    return *reinterpret_cast<const vec*>(p);
}

static float row_scale(const float* x, int cols, float eps) {
    vec s[ACCUMULATORS] = {};
    float sum = 0.0f;
    int c = 0;
    for (; c + WIDTH * ACCUMULATORS <= cols; c += WIDTH * ACCUMULATORS)
#pragma GCC unroll 8
        for (int a = 0; a < ACCUMULATORS; a++) {
            const vec v = load(x + c + a * WIDTH);
            s[a] += v * v;
        }
    for (; c < cols; c++) sum += x[c] * x[c];
    for (const vec& v : s)
        for (int i = 0; i < WIDTH; i++) sum += v[i];
    return 1.0f / std::sqrt(sum / cols + eps);
}

static void scale_row(const float* x, const float* weight, float* y, int cols, float scale) {
    int c = 0;
    for (; c + WIDTH <= cols; c += WIDTH)
        *reinterpret_cast<vec*>(y + c) = load(x + c) * scale * *reinterpret_cast<const vec*>(weight + c);
    for (; c < cols; c++) y[c] = x[c] * scale * weight[c];
}

extern "C" void rmsnorm(
    const float* x, const float* weight, float* y, float* scales, int rows, int cols, float eps) {
#pragma omp parallel
    {
#pragma omp for schedule(dynamic, CHUNK)
        for (int r = 0; r < rows; r++) {
            const int64_t at = int64_t(r) * cols;
            scales[r] = row_scale(x + at, cols, eps);
#if FUSED
            scale_row(x + at, weight, y + at, cols, scales[r]);
#endif
        }
#if !FUSED
#pragma omp for schedule(dynamic, CHUNK)
        for (int r = 0; r < rows; r++) {
            const int64_t at = int64_t(r) * cols;
            scale_row(x + at, weight, y + at, cols, scales[r]);
        }
#endif
    }
}
