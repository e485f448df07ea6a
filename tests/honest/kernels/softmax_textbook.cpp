/*forewarp
format = 1
inputs = ["x"]
outputs = ["y"]
[let]
rows = "x.shape[0]"
cols = "x.shape[1]"
[[launch]]
kernel = "softmax"
args = ["x", "y", "rows", "cols"]
*/
// As in a textbook: one loop for the maximum, one for the sum, one for the results.
#include <algorithm>
#include <cmath>

extern "C" void softmax(const float* x, float* y, int rows, int cols) {
    #pragma omp parallel for
    for (int r = 0; r < rows; r++) {
        const float* in = x + (long)r * cols;
        float* out = y + (long)r * cols;
        float most = in[0], sum = 0.0f;
        for (int c = 1; c < cols; c++) most = std::max(most, in[c]);
        for (int c = 0; c < cols; c++) sum += out[c] = std::exp(in[c] - most);
        for (int c = 0; c < cols; c++) out[c] /= sum;
    }
}
