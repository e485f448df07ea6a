/*forewarp
format = 1
inputs = ["x"]
outputs = ["y"]
constraints = ["THREADS * ROWS <= 1024", "STAGED == 0 or ROWS == 1"]

[params]
weight = "norm.weight"
bias = "norm.bias"

[tunables]
STAGED = [0, 1]                            # 0 reads each row again for every pass; 1 copies it into shared memory
MOMENTS = [2, 1]                           # passes over a row for its mean and variance
THREADS = [256, 32, 64, 128, 512, 1024]    # threads per row
ROWS = [1, 2, 4]                           # rows per block
VEC = [1, 2, 4]                            # floats per load where rows are aligned to it
UNROLL = [1, 2, 4]

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[constants]
WIDTH = "VEC if cols % VEC == 0 else 1"

[[launch]]
kernel = "layernorm_gelu"
args = ["x", "weight", "bias", "y", "rows", "cols"]
grid = ["cdiv(rows, ROWS)"]
block = ["THREADS", "ROWS"]
shared = "4 * cols if STAGED == 1 else 0"
*/

struct alignas(4 * WIDTH) Pack {
    float v[WIDTH];
};

// Sums over the THREADS threads of each row; every thread gets the result.
__device__ float row_sum(float value) {
    __shared__ float partial[ROWS][THREADS / 32];
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
    __syncthreads();
    if (threadIdx.x % 32 == 0) partial[threadIdx.y][threadIdx.x / 32] = value;
    __syncthreads();
    value = 0.0f;
    for (int w = 0; w < THREADS / 32; w++) value += partial[threadIdx.y][w];
    return value;
}

__device__ float gelu(float x) { return 0.5f * x * (1.0f + erff(x * 0.70710678f)); }

extern "C" __global__ void __launch_bounds__(THREADS * ROWS)
layernorm_gelu(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
               float* __restrict__ y, int rows, int cols) {
    const int row = blockIdx.x * ROWS + threadIdx.y;
    // Rows past the end are empty, so that their threads still meet the others at each barrier.
    const int packs = row < rows ? cols / WIDTH : 0;
    const Pack* in = reinterpret_cast<const Pack*>(x + (long long)row * cols);
    const Pack* factors = reinterpret_cast<const Pack*>(weight);
    const Pack* offsets = reinterpret_cast<const Pack*>(bias);
    Pack* out = reinterpret_cast<Pack*>(y + (long long)row * cols);
#if STAGED
    extern __shared__ float copy[];
    Pack* kept = reinterpret_cast<Pack*>(copy);
#else
    const Pack* kept = in;
#endif

    // About any of the row's elements, unlike about zero, E[x^2] - E[x]^2 does not cancel far from zero.
    const float shift = MOMENTS == 1 && packs ? in[0].v[0] : 0.0f;
    float sum = 0.0f, squares = 0.0f;
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < packs; i += THREADS) {
        const Pack p = in[i];
#if STAGED
        kept[i] = p;
#endif
        for (int j = 0; j < WIDTH; j++) {
            sum += p.v[j] - shift;
            if (MOMENTS == 1) squares += (p.v[j] - shift) * (p.v[j] - shift);
        }
    }
    const float above = row_sum(sum) / cols, mean = shift + above;
#if MOMENTS == 1
    const float variance = row_sum(squares) / cols - above * above;
#else
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < packs; i += THREADS) {
        const Pack p = kept[i];
        for (int j = 0; j < WIDTH; j++) squares += (p.v[j] - mean) * (p.v[j] - mean);
    }
    const float variance = row_sum(squares) / cols;
#endif
    const float scale = rsqrtf(variance + 1e-5f);
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < packs; i += THREADS) {
        Pack p = kept[i];
        const Pack w = factors[i], b = offsets[i];
        for (int j = 0; j < WIDTH; j++) p.v[j] = gelu((p.v[j] - mean) * scale * w.v[j] + b.v[j]);
        out[i] = p;
    }
}
