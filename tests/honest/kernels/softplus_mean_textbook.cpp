/*forewarp
format = 1
inputs = ["x"]
outputs = ["y"]
[let]
rows = "x.shape[0]"
cols = "x.shape[1]"
[[launch]]
kernel = "softplus_mean"
args = ["x", "y", "rows", "cols"]
*/
// One sum per row, term by term.
#include <cmath>

extern "C" void softplus_mean(const float* x, float* y, int rows, int cols) {
    #pragma omp parallel for
    for (int r = 0; r < rows; r++) {
        float sum = 0.0f;
        for (int c = 0; c < cols; c++) {
            float v = x[(long)r * cols + c];
            sum += v > 20.0f ? v : std::log1p(std::exp(v));
        }
        y[r] = sum / cols;
    }
}
