/*forewarp
format = 1
inputs = ["query", "keys", "values", "table", "lengths"]
outputs = ["out"]

[tunables]
MOST = [8, 4, 2]           # blocks of a cluster, which share the pages of a sequence, at most
WARPS = [4, 8, 2]          # of a block, each with pages of its own

[let]
batch = "query.shape[0]"

[constants]
HEADS = "query.shape[1]"
SHARED = "keys.shape[2]"      # heads of keys and values
GROUP = "HEADS // SHARED"     # heads of queries for each
PAGES = "table.shape[1]"
SPLITS = "8 if MOST >= 8 and PAGES >= 16 * WARPS else 4 if MOST >= 4 and PAGES >= 8 * WARPS else 2"

[[launch]]
kernel = "decode"
args = ["query", "keys", "values", "table", "lengths", "out", "1.4426950408889634 * rsqrt(query.shape[2]):f32"]
grid = ["SPLITS", "SHARED", "batch"]
block = ["32 * WARPS"]
*/
// A warp takes a page of 16 tokens at once: half a warp a token, a lane 8 of its 128 numbers. Each half keeps its own
// maximum and sums; halves and warps are merged at the end, then the blocks of a cluster, each a share of the outputs.
#include <cuda_bf16.h>

static_assert(GROUP == 4, "a lane sums up the score of one of four heads");

using bf16 = __nv_bfloat16;

#define LOWEST -1e30f

__device__ __forceinline__ float low(unsigned word) { return __uint_as_float(word << 16); }
__device__ __forceinline__ float high(unsigned word) { return __uint_as_float(word & 0xffff0000u); }
__device__ __forceinline__ float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ void widen(const uint4 v, float (&to)[8]) {
    to[0] = low(v.x), to[1] = high(v.x), to[2] = low(v.y), to[3] = high(v.y);
    to[4] = low(v.z), to[5] = high(v.z), to[6] = low(v.w), to[7] = high(v.w);
}

__device__ __forceinline__ float far_read(const float* own, unsigned rank) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(own));
    unsigned there;
    float v;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(there) : "memory");
    return v;
}

extern "C" __global__ void __cluster_dims__(SPLITS, 1, 1) __launch_bounds__(32 * WARPS)
decode(const bf16* __restrict__ query, const bf16* __restrict__ keys, const bf16* __restrict__ values,
       const int* __restrict__ table, const int* __restrict__ lengths, bf16* __restrict__ out,
       float scale) {
    const int split = blockIdx.x, shared_head = blockIdx.y, sequence = blockIdx.z;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, half = lane / 16, piece = lane % 16;
    const int own = piece / 4;  // the head whose score this lane sums up
    const int length = lengths[sequence], pages = (length + 15) / 16;
    const int begin = pages * split / SPLITS, end = pages * (split + 1) / SPLITS;

    float q[GROUP][8], sums[GROUP][8] = {}, most = LOWEST, total = 0;
#pragma unroll
    for (int h = 0; h < GROUP; h++) {
        widen(*reinterpret_cast<const uint4*>(query + ((sequence * HEADS) + shared_head * GROUP + h) * 128 + 8 * piece), q[h]);
#pragma unroll
        for (int i = 0; i < 8; i++) q[h][i] *= scale;
    }
    int next = begin + warp < end ? table[sequence * PAGES + begin + warp] : 0;
    for (int page = begin + warp; page < end; page += WARPS) {
        const long long at = ((long long)next * 16 + half) * SHARED * 128 + shared_head * 128 + 8 * piece;
        uint4 k[8], v[8];
#pragma unroll
        for (int j = 0; j < 8; j++) k[j] = __ldcs(reinterpret_cast<const uint4*>(keys + at + j * 2 * SHARED * 128));
#pragma unroll
        for (int j = 0; j < 8; j++) v[j] = __ldcs(reinterpret_cast<const uint4*>(values + at + j * 2 * SHARED * 128));
        if (page + WARPS < end) next = table[sequence * PAGES + page + WARPS];
        float score[8], top = most;
#pragma unroll
        for (int j = 0; j < 8; j++) {
            float wide[8], s[GROUP] = {};
            widen(k[j], wide);
#pragma unroll
            for (int h = 0; h < GROUP; h++)
#pragma unroll
                for (int i = 0; i < 8; i++) s[h] = fmaf(q[h][i], wide[i], s[h]);
            // Sixteen lanes sum up four heads: each exchange halves what a lane still holds.
            const bool upper = piece & 8, odd = piece & 4;
            float a = upper ? s[2] : s[0], b = upper ? s[3] : s[1];
            a += __shfl_xor_sync(~0u, upper ? s[0] : s[2], 8);
            b += __shfl_xor_sync(~0u, upper ? s[1] : s[3], 8);
            float c = odd ? b : a;
            c += __shfl_xor_sync(~0u, odd ? a : b, 4);
            c += __shfl_xor_sync(~0u, c, 2);
            c += __shfl_xor_sync(~0u, c, 1);
            score[j] = page * 16 + 2 * j + half < length ? c : LOWEST;
            top = fmaxf(top, score[j]);
        }
        const float fade = exp2_fast(most - top);
        most = top;
        total *= fade;
#pragma unroll
        for (int h = 0; h < GROUP; h++) {
            const float by = __shfl_sync(~0u, fade, 4 * h, 16);
#pragma unroll
            for (int i = 0; i < 8; i++) sums[h][i] *= by;
        }
#pragma unroll
        for (int j = 0; j < 8; j++) {
            const float p = score[j] > LOWEST ? exp2_fast(score[j] - most) : 0.0f;
            total += p;
            float wide[8];
            widen(v[j], wide);
#pragma unroll
            for (int h = 0; h < GROUP; h++) {
                const float by = __shfl_sync(~0u, p, 4 * h, 16);
#pragma unroll
                for (int i = 0; i < 8; i++) sums[h][i] = fmaf(by, wide[i], sums[h][i]);
            }
        }
    }
    // Merge the halves of all warps.
    __shared__ float tops[2 * WARPS][GROUP], totals[2 * WARPS][GROUP], all[2 * WARPS][GROUP][128];
    if (piece % 4 == 0) tops[2 * warp + half][own] = most, totals[2 * warp + half][own] = total;
#pragma unroll
    for (int h = 0; h < GROUP; h++)
#pragma unroll
        for (int i = 0; i < 8; i++) all[2 * warp + half][h][8 * piece + i] = sums[h][i];
    __syncthreads();
    __shared__ float merged[GROUP][130];
    for (int i = threadIdx.x; i < GROUP * 128; i += 32 * WARPS) {
        const int h = i / 128, d = i % 128;
        float top = LOWEST, sum = 0, count = 0;
#pragma unroll
        for (int w = 0; w < 2 * WARPS; w++) top = fmaxf(top, tops[w][h]);
#pragma unroll
        for (int w = 0; w < 2 * WARPS; w++) {
            const float by = exp2_fast(tops[w][h] - top);
            sum = fmaf(all[w][h][d], by, sum);
            count = fmaf(totals[w][h], by, count);
        }
        merged[h][d] = sum;
        if (d == 0) merged[h][128] = top, merged[h][129] = count;
    }
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    for (int i = split * (GROUP * 128 / SPLITS) + threadIdx.x; i < (split + 1) * (GROUP * 128 / SPLITS); i += 32 * WARPS) {
        const int h = i / 128, d = i % 128;
        float tops_of[SPLITS], top = LOWEST, sum = 0, count = 0;
#pragma unroll
        for (int s = 0; s < SPLITS; s++) top = fmaxf(top, tops_of[s] = far_read(&merged[h][128], s));
#pragma unroll
        for (int s = 0; s < SPLITS; s++) {
            const float by = exp2_fast(tops_of[s] - top);
            sum = fmaf(far_read(&merged[h][d], s), by, sum);
            count = fmaf(far_read(&merged[h][129], s), by, count);
        }
        out[(sequence * HEADS + shared_head * GROUP + h) * 128 + d] = __float2bfloat16(sum / count);
    }
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");  // what others read stays
}
