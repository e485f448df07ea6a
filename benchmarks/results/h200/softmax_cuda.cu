/*forewarp
format = 1
inputs = ["x"]
outputs = ["y"]
constraints = ["THREADS * ROWS <= 1024", "PASSES != 1 or ROWS == 1"]

[tunables]
PASSES = [2, 3, 1]                         # reads of x: 2 keeps a running maximum and sum, 1 a copy of the row
THREADS = [256, 32, 64, 128, 512, 1024]    # threads per row
ROWS = [1, 2, 4]                           # rows per block
VEC = [2, 1, 4]                            # floats per load where rows are aligned to it
UNROLL = [4, 1, 2]

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[constants]
WIDTH = "VEC if cols % VEC == 0 else 1"

[[launch]]
kernel = "softmax"
args = ["x", "y", "rows", "cols"]
grid = ["cdiv(rows, ROWS)"]
block = ["THREADS", "ROWS"]
shared = "4 * cols if PASSES == 1 else 0"
*/

struct alignas(4 * WIDTH) Pack {
    float v[WIDTH];
};

struct Max {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};
struct Sum {
    __device__ float operator()(float a, float b) const { return a + b; }
};

// Reduces over the THREADS threads of each row; every thread gets the result.
template <class Op>
__device__ float row_reduce(float value, Op op) {
    __shared__ float partial[ROWS][THREADS / 32];
    for (int offset = 16; offset > 0; offset /= 2) value = op(value, __shfl_xor_sync(0xffffffffu, value, offset));
    __syncthreads();
    if (threadIdx.x % 32 == 0) partial[threadIdx.y][threadIdx.x / 32] = value;
    __syncthreads();
    value = partial[threadIdx.y][0];
    for (int w = 1; w < THREADS / 32; w++) value = op(value, partial[threadIdx.y][w]);
    return value;
}

extern "C" __global__ void __launch_bounds__(THREADS * ROWS)
softmax(const float* __restrict__ x, float* __restrict__ y, int rows, int cols) {
    const int row = blockIdx.x * ROWS + threadIdx.y;
    // Rows past the end are empty, so that their threads still meet the others at each barrier.
    const int packs = row < rows ? cols / WIDTH : 0;
    const Pack* in = reinterpret_cast<const Pack*>(x + (long long)row * cols);
    Pack* out = reinterpret_cast<Pack*>(y + (long long)row * cols);
#if PASSES == 1
    extern __shared__ float copy[];
    Pack* kept = reinterpret_cast<Pack*>(copy);
#endif

    float top = -1e30f, sum = 0.0f;
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < packs; i += THREADS) {
        const Pack p = in[i];
#if PASSES == 1
        kept[i] = p;
#endif
        float next = top;
        for (int j = 0; j < WIDTH; j++) next = fmaxf(next, p.v[j]);
#if PASSES == 2
        sum *= expf(top - next);
        for (int j = 0; j < WIDTH; j++) sum += expf(p.v[j] - next);
#endif
        top = next;
    }
    const float row_top = row_reduce(top, Max());
#if PASSES == 2
    sum *= expf(top - row_top);
#else
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < packs; i += THREADS) {
#if PASSES == 1
        for (int j = 0; j < WIDTH; j++) sum += kept[i].v[j] = expf(kept[i].v[j] - row_top);
#else
        const Pack p = in[i];
        for (int j = 0; j < WIDTH; j++) sum += expf(p.v[j] - row_top);
#endif
    }
#endif
    const float scale = 1.0f / row_reduce(sum, Sum());
#pragma unroll UNROLL
    for (int i = threadIdx.x; i < packs; i += THREADS) {
#if PASSES == 1
        Pack p = kept[i];
        for (int j = 0; j < WIDTH; j++) p.v[j] *= scale;
#else
        Pack p = in[i];
        for (int j = 0; j < WIDTH; j++) p.v[j] = expf(p.v[j] - row_top) * scale;
#endif
        out[i] = p;
    }
}
