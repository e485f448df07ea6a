/*forewarp
format = 1
inputs = ["x", "residual"]
outputs = ["q", "scale", "total"]

[params]
weight = "weight"

[tunables]
THREADS = [256, 128, 512]

[let]
rows = "x.shape[0]"

[constants]
COLS = "x.shape[1]"
PIECES = "cdiv(COLS, 8 * THREADS)"    # of 16 bytes that a thread keeps

[[launch]]
kernel = "normalise"
args = ["x", "residual", "weight", "q", "scale", "total"]
grid = ["rows"]
block = ["THREADS"]
*/
#include <cuda_bf16.h>

static_assert(COLS % 8 == 0, "columns come in pieces of eight");

__device__ __forceinline__ float low(unsigned word) { return __uint_as_float(word << 16); }
__device__ __forceinline__ float high(unsigned word) { return __uint_as_float(word & 0xffff0000u); }
__device__ __forceinline__ unsigned sum_of(unsigned a, unsigned b) {
    const __nv_bfloat162 s = __hadd2(*reinterpret_cast<const __nv_bfloat162*>(&a), *reinterpret_cast<const __nv_bfloat162*>(&b));
    return *reinterpret_cast<const unsigned*>(&s);
}
// Two numbers as fp8, the first one below.
__device__ __forceinline__ unsigned two(float first, float second) {
    unsigned short packed;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(packed) : "f"(second), "f"(first));
    return packed;
}

extern "C" __global__ void __launch_bounds__(THREADS)
normalise(const uint4* __restrict__ x, const uint4* __restrict__ residual, const uint4* __restrict__ weight,
          uint2* __restrict__ q, float* __restrict__ scale, uint4* __restrict__ total) {
    const long long row = (long long)blockIdx.x * (COLS / 8);
    uint4 a[PIECES], b[PIECES], w[PIECES];
#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        const int c = p * THREADS + threadIdx.x;
        a[p] = b[p] = w[p] = make_uint4(0, 0, 0, 0);
        if (c < COLS / 8) {
            a[p] = __ldcs(x + row + c);
            b[p] = __ldcs(residual + row + c);
            w[p] = __ldg(weight + c);
        }
    }
    float kept[PIECES][8], squares = 0, most = 0;
#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        const int c = p * THREADS + threadIdx.x;
        const unsigned sums[4] = {sum_of(a[p].x, b[p].x), sum_of(a[p].y, b[p].y), sum_of(a[p].z, b[p].z), sum_of(a[p].w, b[p].w)};
        const unsigned by[4] = {w[p].x, w[p].y, w[p].z, w[p].w};
        if (c < COLS / 8) __stcs(total + row + c, make_uint4(sums[0], sums[1], sums[2], sums[3]));
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float f = low(sums[i]), s = high(sums[i]);
            squares = fmaf(f, f, fmaf(s, s, squares));
            kept[p][2 * i] = f * low(by[i]);
            kept[p][2 * i + 1] = s * high(by[i]);
            most = fmaxf(most, fmaxf(fabsf(kept[p][2 * i]), fabsf(kept[p][2 * i + 1])));
        }
    }
    // The factor of the norm is the same for a whole row, so that its largest product is known before it.
    __shared__ float parts[2][THREADS / 32];
#pragma unroll
    for (int i = 16; i > 0; i /= 2) {
        squares += __shfl_xor_sync(~0u, squares, i);
        most = fmaxf(most, __shfl_xor_sync(~0u, most, i));
    }
    if (threadIdx.x % 32 == 0) parts[0][threadIdx.x / 32] = squares, parts[1][threadIdx.x / 32] = most;
    __syncthreads();
    squares = 0;
#pragma unroll
    for (int i = 0; i < THREADS / 32; i++) squares += parts[0][i], most = fmaxf(most, parts[1][i]);
    const float factor = rsqrtf(squares / COLS + 1e-6f), step = most * factor / 448.0f, up = factor / step;
    if (threadIdx.x == 0) scale[blockIdx.x] = step;
#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        const int c = p * THREADS + threadIdx.x;
        uint2 packed;
        packed.x = two(kept[p][0] * up, kept[p][1] * up) | two(kept[p][2] * up, kept[p][3] * up) << 16;
        packed.y = two(kept[p][4] * up, kept[p][5] * up) | two(kept[p][6] * up, kept[p][7] * up) << 16;
        if (c < COLS / 8) __stcs(q + row + c, packed);
    }
}
