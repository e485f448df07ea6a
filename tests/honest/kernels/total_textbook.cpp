/*forewarp
inputs = ["x"]
outputs = ["y"]

[[launch]]
kernel = "total"
args = ["x", "y", "x.shape[0]"]
*/
// One number after the other into one accumulator.
extern "C" void total(const float* x, float* y, int n) {
    float sum = 0.0f;
    for (int i = 0; i < n; i++) sum += x[i];
    *y = sum;
}
