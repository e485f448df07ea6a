/*forewarp
format = 1
inputs = ["logits", "targets"]
outputs = ["loss"]

[tunables]
PASSES = [2, 1]                        # reads of each part of a row; 1 keeps a running maximum and sum
PARTS = [1, 2, 4, 8]                   # blocks that share a row
THREADS = [256, 64, 128, 512, 1024]    # threads per block
VEC = [1, 2, 4]                        # floats per load where rows are aligned to it
UNROLL = [1, 2, 4]

[let]
rows = "logits.shape[0]"
cols = "logits.shape[1]"

[constants]
WIDTH = "VEC if cols % VEC == 0 else 1"

[scratch]
peaks = { dtype = "float32", shape = ["rows", "PARTS"] }
sums = { dtype = "float32", shape = ["rows", "PARTS"] }

[[launch]]
kernel = "reduce_parts"
args = ["logits", "peaks", "sums", "rows", "cols"]
grid = ["rows", "PARTS"]
block = ["THREADS"]

[[launch]]
kernel = "combine"
args = ["logits", "targets", "peaks", "sums", "loss", "rows", "cols"]
grid = ["cdiv(rows, 128)"]
block = [128]
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

// Reduces over the threads of the block; every thread gets the result.
template <class Op>
__device__ float block_reduce(float value, Op op) {
    __shared__ float partial[THREADS / 32];
    for (int offset = 16; offset > 0; offset /= 2) value = op(value, __shfl_xor_sync(0xffffffffu, value, offset));
    __syncthreads();
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = partial[0];
    for (int w = 1; w < THREADS / 32; w++) value = op(value, partial[w]);
    return value;
}

// The maximum, and the sum of exponentials against it, of one part of one row.
extern "C" __global__ void __launch_bounds__(THREADS)
reduce_parts(const float* __restrict__ logits, float* __restrict__ peaks, float* __restrict__ sums, int rows,
             int cols) {
    const int row = blockIdx.x, part = blockIdx.y;
    const Pack* in = reinterpret_cast<const Pack*>(logits + (long long)row * cols);
    const int packs = cols / WIDTH, each = (packs + PARTS - 1) / PARTS;
    const int start = part * each + threadIdx.x, end = min((part + 1) * each, packs);

    float top = -1e30f, sum = 0.0f;
#pragma unroll UNROLL
    for (int i = start; i < end; i += THREADS) {
        const Pack p = in[i];
        float next = top;
        for (int j = 0; j < WIDTH; j++) next = fmaxf(next, p.v[j]);
#if PASSES == 1
        sum *= expf(top - next);
        for (int j = 0; j < WIDTH; j++) sum += expf(p.v[j] - next);
#endif
        top = next;
    }
    const float peak = block_reduce(top, Max());
#if PASSES == 1
    sum *= expf(top - peak);
#else
#pragma unroll UNROLL
    for (int i = start; i < end; i += THREADS) {
        const Pack p = in[i];
        for (int j = 0; j < WIDTH; j++) sum += expf(p.v[j] - peak);
    }
#endif
    sum = block_reduce(sum, Sum());
    if (threadIdx.x == 0) {
        peaks[row * PARTS + part] = peak;
        sums[row * PARTS + part] = sum;
    }
}

extern "C" __global__ void __launch_bounds__(128)
combine(const float* __restrict__ logits, const long long* __restrict__ targets, const float* __restrict__ peaks,
        const float* __restrict__ sums, float* __restrict__ loss, int rows, int cols) {
    const int row = blockIdx.x * 128 + threadIdx.x;
    if (row >= rows) return;
    float top = peaks[row * PARTS], sum = 0.0f;
    for (int part = 1; part < PARTS; part++) top = fmaxf(top, peaks[row * PARTS + part]);
    for (int part = 0; part < PARTS; part++) sum += sums[row * PARTS + part] * expf(peaks[row * PARTS + part] - top);
    loss[row] = logf(sum) + top - logits[(long long)row * cols + targets[row]];
}
