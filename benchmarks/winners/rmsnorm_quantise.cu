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

using bf16 = __nv_bfloat16;

struct alignas(16) Eight {
    bf16 v[8];
};

__device__ float over_block(float value, bool sum) {
    __shared__ float parts[2][THREADS / 32];
    float* own = parts[sum];
#pragma unroll
    for (int i = 16; i > 0; i /= 2) {
        const float other = __shfl_xor_sync(~0u, value, i);
        value = sum ? value + other : fmaxf(value, other);
    }
    if (threadIdx.x % 32 == 0) own[threadIdx.x / 32] = value;
    __syncthreads();
    value = own[0];
#pragma unroll
    for (int i = 1; i < THREADS / 32; i++) value = sum ? value + own[i] : fmaxf(value, own[i]);
    return value;
}

// Two numbers as fp8, the first one below.
__device__ unsigned short two(float low, float high) {
    unsigned short packed;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(packed) : "f"(high), "f"(low));
    return packed;
}

extern "C" __global__ void __launch_bounds__(THREADS)
normalise(const bf16* __restrict__ x, const bf16* __restrict__ residual, const bf16* __restrict__ weight,
          unsigned char* __restrict__ q, float* __restrict__ scale, bf16* __restrict__ total) {
    const long long row = (long long)blockIdx.x * COLS;
    float kept[PIECES][8], squares = 0, most = 0;
#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        const int c = 8 * (p * THREADS + threadIdx.x);
        if (c >= COLS) continue;
        Eight a = *reinterpret_cast<const Eight*>(x + row + c);
        const Eight b = *reinterpret_cast<const Eight*>(residual + row + c);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            a.v[i] = __hadd(a.v[i], b.v[i]);
            kept[p][i] = __bfloat162float(a.v[i]);
            squares += kept[p][i] * kept[p][i];
        }
        *reinterpret_cast<Eight*>(total + row + c) = a;
    }
    const float factor = rsqrtf(over_block(squares, true) / COLS + 1e-6f);
#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        const int c = 8 * (p * THREADS + threadIdx.x);
        if (c >= COLS) continue;
        const Eight w = *reinterpret_cast<const Eight*>(weight + c);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            kept[p][i] *= factor * __bfloat162float(w.v[i]);
            most = fmaxf(most, fabsf(kept[p][i]));
        }
    }
    const float step = over_block(most, false) / 448.0f, up = 1.0f / step;
    if (threadIdx.x == 0) scale[blockIdx.x] = step;
#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        const int c = 8 * (p * THREADS + threadIdx.x);
        if (c >= COLS) continue;
        unsigned short packed[4];
#pragma unroll
        for (int i = 0; i < 4; i++) packed[i] = two(kept[p][2 * i] * up, kept[p][2 * i + 1] * up);
        *reinterpret_cast<uint2*>(q + row + c) = *reinterpret_cast<uint2*>(packed);
    }
}
