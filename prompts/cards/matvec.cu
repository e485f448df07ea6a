/*forewarp
format = 1
inputs = ["a", "x"]
outputs = ["y"]

[tunables]
THREADS = [256, 128, 512]
ROWS = [4, 2, 8]         # rows of a block, which share what it reads of x
SPLIT = [32, 16, 64]     # blocks that share a row

[let]
rows = "a.shape[0]"
cols = "a.shape[1]"

[scratch]
parts = { dtype = "float32", shape = ["SPLIT", "rows"] }

[[launch]]
kernel = "partial"
args = ["a", "x", "parts", "rows", "cols"]
grid = ["cdiv(rows, ROWS)", "SPLIT"]
block = ["THREADS"]

[[launch]]
kernel = "total"
dependent = true
args = ["parts", "y", "rows"]
grid = ["cdiv(rows, 256)"]
block = [256]
*/
#include <cuda_bf16.h>

using bf16 = __nv_bfloat16;

// Eight bf16 of a sum, each pair in a word: the lower half is the first.
__device__ __forceinline__ float dot(const uint4 a, const float (&x)[8], float sum) {
    const unsigned words[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        sum = fmaf(__uint_as_float(words[i] << 16), x[2 * i], sum);
        sum = fmaf(__uint_as_float(words[i] & 0xffff0000u), x[2 * i + 1], sum);
    }
    return sum;
}

__device__ __forceinline__ uint4 streamed(const bf16* from) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from));
    return v;
}

extern "C" __global__ void __launch_bounds__(THREADS)
partial(const bf16* __restrict__ a, const bf16* __restrict__ x, float* __restrict__ parts, int rows, int cols) {
    const int first = blockIdx.x * ROWS;
    float sums[ROWS] = {};
    for (int c = 8 * (blockIdx.y * THREADS + threadIdx.x); c < cols; c += 8 * THREADS * SPLIT) {
        if (cols % 8 == 0) {
            uint4 pieces[ROWS];
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                pieces[r] = streamed(a + (long long)min(first + r, rows - 1) * cols + c);
            const uint4 own = *reinterpret_cast<const uint4*>(x + c);
            const unsigned words[4] = {own.x, own.y, own.z, own.w};
            float wide[8];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                wide[2 * i] = __uint_as_float(words[i] << 16);
                wide[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
            }
#pragma unroll
            for (int r = 0; r < ROWS; r++) sums[r] = dot(pieces[r], wide, sums[r]);
        } else {
            for (int i = c; i < min(c + 8, cols); i++)
#pragma unroll
                for (int r = 0; r < ROWS; r++)
                    sums[r] += __bfloat162float(a[(long long)min(first + r, rows - 1) * cols + i]) * __bfloat162float(x[i]);
        }
    }
    __shared__ float warps[THREADS / 32][ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
#pragma unroll
        for (int i = 16; i > 0; i /= 2) sums[r] += __shfl_xor_sync(~0u, sums[r], i);
        if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32][r] = sums[r];
    }
    __syncthreads();
    if (threadIdx.x < ROWS && first + threadIdx.x < rows) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < THREADS / 32; w++) sum += warps[w][threadIdx.x];
        parts[blockIdx.y * rows + first + threadIdx.x] = sum;
    }
}

extern "C" __global__ void __launch_bounds__(256) total(const float* parts, bf16* __restrict__ y, int rows) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    const int row = blockIdx.x * 256 + threadIdx.x;
    if (row >= rows) return;
    float sum = 0;
    for (int s = 0; s < SPLIT; s++) sum += parts[s * rows + row];
    y[row] = __float2bfloat16(sum);
}
