/*forewarp
format = 1
inputs = ["w", "x"]
outputs = ["y"]
constraints = ["32 * VEC * UNROLL * LANES <= 4096"]

[tunables]
WARPS = [4, 1, 2, 8, 16]
LANES = [1, 2, 4]         # warps that share a row
ROWS = [1, 2, 4]          # rows of a warp
VEC = [8, 2, 4]           # halves per load
UNROLL = [1, 2, 4]

[let]
rows = "w.shape[0]"
cols = "w.shape[1]"

[[launch]]
kernel = "gemv_half<WARPS, LANES, ROWS, VEC, UNROLL>"
args = ["w", "x", "y", "rows", "cols"]
grid = ["cdiv(rows, WARPS * ROWS)"]
block = ["32 * LANES", "WARPS"]
*/
#include <cuda_fp16.h>

template <int VEC> struct alignas(2 * VEC) Pack { __half2 v[VEC / 2]; };

// A row of threads has LANES warps and ROWS rows of the matrix; it goes over them with UNROLL loads of VEC at once.
template <int WARPS, int LANES, int ROWS, int VEC, int UNROLL>
__global__ void __launch_bounds__(32 * LANES * WARPS)
gemv_half(const __half* __restrict__ w, const __half* __restrict__ x, __half* __restrict__ y, int rows, int cols) {
    __shared__ float parts[WARPS][ROWS][LANES];
    const int first = (blockIdx.x * WARPS + threadIdx.y) * ROWS;
    const int step = 32 * LANES * VEC;
    float sum[ROWS] = {0.0f};
    for (int start = threadIdx.x * VEC; start < cols; start += step * UNROLL) {
#pragma unroll
        for (int u = 0; u < UNROLL; ++u) {
            const int c = start + u * step;
            if (c < cols) {
                const Pack<VEC> a = *reinterpret_cast<const Pack<VEC>*>(x + c);
#pragma unroll
                for (int r = 0; r < ROWS; ++r) {
                    if (first + r >= rows) break;
                    const Pack<VEC> b = *reinterpret_cast<const Pack<VEC>*>(w + (long long)(first + r) * cols + c);
#pragma unroll
                    for (int i = 0; i < VEC / 2; ++i) {
                        const float2 p = __half22float2(a.v[i]), q = __half22float2(b.v[i]);
                        sum[r] += p.x * q.x + p.y * q.y;
                    }
                }
            }
        }
    }
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        for (int o = 16; o; o /= 2) sum[r] += __shfl_xor_sync(0xffffffff, sum[r], o);
        if (threadIdx.x % 32 == 0) parts[threadIdx.y][r][threadIdx.x / 32] = sum[r];
    }
    __syncthreads();
    if (threadIdx.x < ROWS && first + threadIdx.x < rows) {
        float total = 0.0f;
        for (int i = 0; i < LANES; ++i) total += parts[threadIdx.y][threadIdx.x][i];
        y[first + threadIdx.x] = __float2half(total);
    }
}
