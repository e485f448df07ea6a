/*forewarp
format = 1
inputs = ["logits", "targets"]
outputs = ["loss"]

[let]
rows = "logits.shape[0]"
cols = "logits.shape[1]"

[[launch]]
kernel = "cross_entropy"
args = ["logits", "targets", "loss", "rows", "cols"]
*/
#include <cmath>
#include <cstdint>

extern "C" void cross_entropy(const float* logits, const int64_t* targets, float* loss, int rows, int cols) {
    for (int r = 0; r < rows; r++) {
        const float* x = logits + int64_t(r) * cols;
        float top = x[0];
        for (int c = 1; c < cols; c++) top = std::fmax(top, x[c]);
        double sum = 0.0;
        for (int c = 0; c < cols; c++) sum += std::exp(double(x[c]) - top);
        loss[r] = float(std::log(sum) + top - x[targets[r]]);
    }
}
