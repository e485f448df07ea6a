/*forewarp
format = 1
inputs = ["query", "key", "value", "decay", "beta", "state"]
outputs = ["out", "learnt"]
constraints = ["WARPS * 32 <= 1024"]

[tunables]
WARPS = [8, 16, 4]      # of a block, which share the 128 rows of a head's state
LEAST = [2, 1, 3]       # blocks a multiprocessor is to hold

[let]
heads = "query.shape[0] * query.shape[1]"

[constants]
KEYS = "query.shape[2]"
VALUES = "value.shape[2]"

[[launch]]
kernel = "step"
args = ["query", "key", "value", "decay", "beta", "state", "out", "learnt", "rsqrt(KEYS):f32"]
grid = ["heads"]
block = ["32 * WARPS"]
*/
#include <cuda_bf16.h>

static_assert(VALUES == 128 && KEYS % WARPS == 0 && KEYS <= 32 * WARPS, "a warp reads whole rows of 128 values");

using bf16 = __nv_bfloat16;

#define ROWS (KEYS / WARPS)

__device__ __forceinline__ float over_warp(float v) {
#pragma unroll
    for (int i = 16; i > 0; i /= 2) v += __shfl_xor_sync(~0u, v, i);
    return v;
}

extern "C" __global__ void __launch_bounds__(32 * WARPS, LEAST)
step(const bf16* __restrict__ query, const bf16* __restrict__ key, const bf16* __restrict__ value,
     const float* __restrict__ decay, const float* __restrict__ beta, const float4* __restrict__ state,
     bf16* __restrict__ out, float4* __restrict__ learnt, float scale) {
    const int head = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const float4* from = state + ((long long)head * KEYS + warp) * 32 + lane;
    float4 kept[ROWS];
#pragma unroll
    for (int r = 0; r < ROWS; r++) kept[r] = from[r * WARPS * 32];

    __shared__ float ks[KEYS], qs[KEYS], norms[3][WARPS];
    __shared__ float4 held[WARPS][32], seen[WARPS][32];
    float k = 0, q = 0;
    if (threadIdx.x < KEYS) {
        k = __bfloat162float(key[head * KEYS + threadIdx.x]);
        q = __bfloat162float(query[head * KEYS + threadIdx.x]);
        ks[threadIdx.x] = k;
        qs[threadIdx.x] = q;
    }
    const float kk = over_warp(k * k), qq = over_warp(q * q), kq = over_warp(k * q);
    if (lane == 0) norms[0][warp] = kk, norms[1][warp] = qq, norms[2][warp] = kq;
    const float fade = expf(decay[head]), rate = beta[head];
    __syncthreads();
    float sums[3] = {};
#pragma unroll
    for (int w = 0; w < WARPS; w++)
#pragma unroll
        for (int i = 0; i < 3; i++) sums[i] += norms[i][w];
    const float by_k = rsqrtf(sums[0] + 1e-6f), by_q = rsqrtf(sums[1] + 1e-6f) * scale;
    const float both = sums[2] * by_k * by_q;

    float4 h = {}, s = {};
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float own_k = ks[warp + r * WARPS] * by_k, own_q = qs[warp + r * WARPS] * by_q;
        kept[r].x *= fade, kept[r].y *= fade, kept[r].z *= fade, kept[r].w *= fade;
        h.x = fmaf(kept[r].x, own_k, h.x), h.y = fmaf(kept[r].y, own_k, h.y);
        h.z = fmaf(kept[r].z, own_k, h.z), h.w = fmaf(kept[r].w, own_k, h.w);
        s.x = fmaf(kept[r].x, own_q, s.x), s.y = fmaf(kept[r].y, own_q, s.y);
        s.z = fmaf(kept[r].z, own_q, s.z), s.w = fmaf(kept[r].w, own_q, s.w);
    }
    held[warp][lane] = h;
    seen[warp][lane] = s;
    __syncthreads();
    h = s = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        const float4 a = held[w][lane], b = seen[w][lane];
        h.x += a.x, h.y += a.y, h.z += a.z, h.w += a.w;
        s.x += b.x, s.y += b.y, s.z += b.z, s.w += b.w;
    }
    const __nv_bfloat162* v = reinterpret_cast<const __nv_bfloat162*>(value + head * VALUES) + 2 * lane;
    const float2 v0 = __bfloat1622float2(v[0]), v1 = __bfloat1622float2(v[1]);
    const float4 change = make_float4((v0.x - h.x) * rate, (v0.y - h.y) * rate, (v1.x - h.z) * rate, (v1.y - h.w) * rate);
    if (warp == 0) {
        __nv_bfloat162* to = reinterpret_cast<__nv_bfloat162*>(out + head * VALUES) + 2 * lane;
        to[0] = __floats2bfloat162_rn(fmaf(both, change.x, s.x), fmaf(both, change.y, s.y));
        to[1] = __floats2bfloat162_rn(fmaf(both, change.z, s.z), fmaf(both, change.w, s.w));
    }
    float4* to = learnt + ((long long)head * KEYS + warp) * 32 + lane;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
        const float own_k = ks[warp + r * WARPS] * by_k;
        to[r * WARPS * 32] = make_float4(fmaf(own_k, change.x, kept[r].x), fmaf(own_k, change.y, kept[r].y),
                                                fmaf(own_k, change.z, kept[r].z), fmaf(own_k, change.w, kept[r].w));
    }
}
