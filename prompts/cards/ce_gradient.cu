/*forewarp
format = 1
inputs = ["logits", "targets"]
outputs = ["loss", "gradient"]

[tunables]
THREADS = [512, 256, 384]
PIECE_KB = [64, 72]      # of a row that a block keeps in shared memory, at most
COPIES = [4, 8, 2]       # parts in which it arrives

[let]
rows = "logits.shape[0]"

[constants]
COLS = "logits.shape[1]"
CLUSTER = "1 if 2 * COLS <= 1024 * PIECE_KB else 2 if COLS <= 1024 * PIECE_KB else 4 if COLS <= 2048 * PIECE_KB else 8"
CHUNKS = "cdiv(cdiv(COLS + 8, 8), CLUSTER)"    # of eight columns, for one block

[[launch]]
kernel = "cross_entropy"
args = ["logits", "targets", "loss", "gradient", "1 / rows:f32"]
grid = ["rows * CLUSTER"]
block = ["THREADS"]
shared = "16 * CHUNKS"
*/
#include <cuda_bf16.h>

using bf16 = __nv_bfloat16;

#define LOG2E 1.4426950408889634f
#define LOWEST __int_as_float(0xff800000)

__device__ __forceinline__ float low(unsigned word) { return __uint_as_float(word << 16); }
__device__ __forceinline__ float high(unsigned word) { return __uint_as_float(word & 0xffff0000u); }
__device__ __forceinline__ float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// The maximum (in units of log 2) and the sum of exponentials relative to it, of two parts.
__device__ __forceinline__ void join(float& most, float& sum, float other, float others) {
    const float both = fmaxf(most, other);
    if (both == LOWEST) return;
    sum = sum * exp2_fast(most - both) + others * exp2_fast(other - both);
    most = both;
}

__device__ __forceinline__ float far_read(const float* own, unsigned rank) {
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(own));
    unsigned there;
    float v;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(there));
    return v;
}

__device__ __forceinline__ unsigned address_of(const void* shared) { return static_cast<unsigned>(__cvta_generic_to_shared(shared)); }

__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS)
cross_entropy(const bf16* __restrict__ logits, const long long* __restrict__ targets, float* __restrict__ loss,
              bf16* __restrict__ gradient, float share) {
    extern __shared__ __align__(16) uint4 kept[];
    __shared__ float parts[2][THREADS / 32], own[2];
    const int row = blockIdx.x / CLUSTER, rank = blockIdx.x % CLUSTER;
    // Chunks are aligned in memory, not in the row: a row may begin anywhere in its first one.
    const long long start = (long long)row * COLS;
    const int before = start % 8;
    const uint4* from = reinterpret_cast<const uint4*>(logits + start - before);
    const int begin = rank * CHUNKS, count = min(CHUNKS, (before + COLS + 7) / 8 - begin);
    // The copy engine brings the row in a few parts, each with a barrier, while those before are summed up.
    __shared__ __align__(8) unsigned long long arrived[COPIES];
    const long long end = (long long)gridDim.x / CLUSTER * COLS;
    const int whole = (int)min((long long)count, (end - start + before) / 8 - begin);  // all but a last chunk that is cut off
    const int part = (whole + COPIES - 1) / COPIES;
    if (threadIdx.x == 0) {
#pragma unroll
        for (int p = 0; p < COPIES; p++)
            asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(address_of(arrived + p)));
        asm volatile("fence.mbarrier_init.release.cluster;");
        for (int p = 0; p < COPIES; p++) {
            const int bytes = 16 * max(0, min(part, whole - p * part));
            asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(address_of(arrived + p)), "r"(bytes));
            if (bytes)
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                                 address_of(kept + p * part)),
                             "l"(from + begin + p * part), "r"(bytes), "r"(address_of(arrived + p))
                             : "memory");
        }
        if (whole < count) {
            unsigned short* one = reinterpret_cast<unsigned short*>(kept + whole);
            for (int i = 0; i < 8; i++) {
                const int column = 8 * (begin + whole) - before + i;
                one[i] = column < COLS ? __bfloat16_as_ushort(logits[start + column]) : 0xff80;
            }
        }
    }
    __syncthreads();
    float most = LOWEST, sum = 0;
    for (int p = 0; p < COPIES; p++) {
        unsigned done = 0;
        while (!done)
            asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], 0;\nselp.u32 %0, 1, 0, p;\n}"
                         : "=r"(done) : "r"(address_of(arrived + p)) : "memory");
        const int last = p == COPIES - 1 ? count : min(whole, (p + 1) * part);
#pragma unroll 2
        for (int c = min(p * part, whole) + threadIdx.x; c < last; c += THREADS) {
            const uint4 piece = kept[c];
            const int column = 8 * (begin + c) - before;
            const unsigned words[4] = {piece.x, piece.y, piece.z, piece.w};
            float v[8], top = LOWEST;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                v[2 * i] = low(words[i]) * LOG2E;
                v[2 * i + 1] = high(words[i]) * LOG2E;
            }
            if (column < 0 || column + 8 > COLS) {
#pragma unroll
                for (int i = 0; i < 8; i++)
                    if (column + i < 0 || column + i >= COLS) v[i] = LOWEST;
            }
#pragma unroll
            for (int i = 0; i < 8; i++) top = fmaxf(top, v[i]);
            if (top > most) {
                sum *= exp2_fast(most - top);
                most = top;
            }
            if (most > LOWEST) {
#pragma unroll
                for (int i = 0; i < 8; i++) sum += exp2_fast(v[i] - most);
            }
        }
    }
#pragma unroll
    for (int i = 16; i > 0; i /= 2) join(most, sum, __shfl_xor_sync(~0u, most, i), __shfl_xor_sync(~0u, sum, i));
    if (threadIdx.x % 32 == 0) parts[0][threadIdx.x / 32] = most, parts[1][threadIdx.x / 32] = sum;
    __syncthreads();
    most = parts[0][0], sum = parts[1][0];
#pragma unroll
    for (int w = 1; w < THREADS / 32; w++) join(most, sum, parts[0][w], parts[1][w]);
    if (CLUSTER > 1) {
        if (threadIdx.x == 0) own[0] = most, own[1] = sum;
        cluster_sync();
        most = LOWEST, sum = 0;
#pragma unroll
        for (int r = 0; r < CLUSTER; r++) join(most, sum, far_read(&own[0], r), far_read(&own[1], r));
    }
    const float shift = most + log2f(sum);  // log2 of the sum of exponentials
    const int target = targets[row];
    if (rank == 0 && threadIdx.x == 0) loss[row] = shift / LOG2E - __bfloat162float(logits[start + target]);
    uint4* to = reinterpret_cast<uint4*>(gradient + start - before);
    for (int c = threadIdx.x; c < count; c += THREADS) {
        const uint4 piece = kept[c];
        const int column = 8 * (begin + c) - before, place = target - column;
        const unsigned words[4] = {piece.x, piece.y, piece.z, piece.w};
        unsigned made[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float a = exp2_fast(fmaf(low(words[i]), LOG2E, -shift)), b = exp2_fast(fmaf(high(words[i]), LOG2E, -shift));
            if (place == 2 * i) a -= 1;
            if (place == 2 * i + 1) b -= 1;
            const __nv_bfloat162 pair = __floats2bfloat162_rn(a * share, b * share);
            made[i] = *reinterpret_cast<const unsigned*>(&pair);
        }
        if (column >= 0 && column + 8 <= COLS) {
            to[begin + c] = make_uint4(made[0], made[1], made[2], made[3]);
        } else {
#pragma unroll
            for (int i = 0; i < 8; i++)
                if (column + i >= 0 && column + i < COLS)
                    gradient[start + column + i] = __ushort_as_bfloat16(made[i / 2] >> (i % 2 * 16));
        }
    }
    if (CLUSTER > 1) cluster_sync();  // nobody leaves while another reads its sums
}
