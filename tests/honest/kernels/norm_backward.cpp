/*forewarp
format = 1
inputs = ["x", "grad_out"]
outputs = ["grad_x", "grad_weight"]

[params]
weight = "weight"

[tunables]
BLOCK = [8, 4, 16, 32]

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[constants]
BLOCKS = "cdiv(rows, BLOCK)"

[scratch]
partial = { dtype = "float32", shape = ["cdiv(rows, BLOCK)", "cols"] }

[[launch]]
kernel = "rows_backward"
args = ["x", "grad_out", "weight", "grad_x", "partial", "rows", "cols", "init1:f32"]

[[launch]]
kernel = "sum_partials"
args = ["partial", "grad_weight", "cols"]
*/
#include <cmath>

extern "C" void rows_backward(const float* x, const float* g, const float* w, float* gx, float* partial, int rows,
                              int cols, float eps) {
#pragma omp parallel for
    for (int b = 0; b < BLOCKS; b++) {
        float* sums = partial + (long)b * cols;
        for (int c = 0; c < cols; c++) sums[c] = 0.0f;
        const int end = (b + 1) * BLOCK < rows ? (b + 1) * BLOCK : rows;
        for (int r = b * BLOCK; r < end; r++) {
            const float* xr = x + (long)r * cols;
            const float* gr = g + (long)r * cols;
            float squares = 0.0f, dot = 0.0f;
#pragma omp simd reduction(+ : squares, dot)
            for (int c = 0; c < cols; c++) {
                squares += xr[c] * xr[c];
                dot += gr[c] * w[c] * xr[c];
            }
            const float scale = 1.0f / std::sqrt(squares / cols + eps);
            const float back = dot * scale * scale * scale / cols;
            float* out = gx + (long)r * cols;
            for (int c = 0; c < cols; c++) {
                out[c] = gr[c] * w[c] * scale - xr[c] * back;
                sums[c] += gr[c] * xr[c] * scale;
            }
        }
    }
}

extern "C" void sum_partials(const float* partial, float* gw, int cols) {
#pragma omp parallel for
    for (int c = 0; c < cols; c++) {
        float total = 0.0f;
        for (int b = 0; b < BLOCKS; b++) total += partial[(long)b * cols + c];
        gw[c] = total;
    }
}
