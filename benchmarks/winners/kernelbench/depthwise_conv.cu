/*forewarp
format = 1
inputs = ["x"]
outputs = ["y"]

[params]
weight = "conv2d.weight"

[tunables]
ROWS = [10, 6, 15, 17, 30]     # rows of outputs of a block

[constants]
HEIGHT = "x.shape[2]"
WIDTH = "x.shape[3]"

[let]
channels = "x.shape[1]"

[[launch]]
kernel = "convolve"
args = ["x", "weight", "y", "channels"]
grid = ["cdiv(WIDTH // 2 - 1, 256)", "cdiv(HEIGHT - 2, ROWS)", "x.shape[0] * channels"]
block = [256]
*/
// A thread makes two neighbouring columns, one word of two bf16, so that loads and stores of a warp are whole lines.
#include <cuda_bf16.h>

static_assert(WIDTH % 2 == 0, "columns come in pairs");

__device__ __forceinline__ float low(unsigned word) { return __uint_as_float(word << 16); }
__device__ __forceinline__ float high(unsigned word) { return __uint_as_float(word & 0xffff0000u); }

extern "C" __global__ void __launch_bounds__(256)
convolve(const unsigned* __restrict__ x, const __nv_bfloat16* __restrict__ weight, unsigned* __restrict__ y, int channels) {
    const int pair = blockIdx.x * 256 + threadIdx.x, first = blockIdx.y * ROWS;
    if (pair >= WIDTH / 2 - 1) return;
    const unsigned* from = x + (long long)blockIdx.z * HEIGHT * (WIDTH / 2) + pair;
    unsigned* to = y + (long long)blockIdx.z * (HEIGHT - 2) * (WIDTH / 2 - 1) + pair;
    float w[9];
#pragma unroll
    for (int i = 0; i < 9; i++) w[i] = __bfloat162float(weight[blockIdx.z % channels * 9 + i]);
    unsigned left[ROWS + 2], right[ROWS + 2];
#pragma unroll
    for (int r = 0; r < ROWS + 2; r++) {
        const int row = min(first + r, HEIGHT - 1);
        left[r] = __ldg(from + row * (WIDTH / 2));
        right[r] = __ldg(from + row * (WIDTH / 2) + 1);
    }
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        float a = 0, b = 0;
#pragma unroll
        for (int k = 0; k < 3; k++) {
            const float x0 = low(left[r + k]), x1 = high(left[r + k]), x2 = low(right[r + k]), x3 = high(right[r + k]);
            a = fmaf(x0, w[3 * k], fmaf(x1, w[3 * k + 1], fmaf(x2, w[3 * k + 2], a)));
            b = fmaf(x1, w[3 * k], fmaf(x2, w[3 * k + 1], fmaf(x3, w[3 * k + 2], b)));
        }
        const __nv_bfloat162 both = __floats2bfloat162_rn(a, b);
        if (first + r < HEIGHT - 2) __stcs(to + (first + r) * (WIDTH / 2 - 1), *reinterpret_cast<const unsigned*>(&both));
    }
}
