/*forewarp
format = 1
inputs = ["x", "rows", "gate", "up"]
outputs = ["y"]
constraints = ["STAGES * 49152 <= 200000", "FEW_STAGES * FEW_SUB <= 4"]

[tunables]
STAGES = [4, 3]          # ring of the tile of 128 rows
FEW_SUB = [2, 1]         # pieces of depth 64 in a stage, for experts with at most 64 rows
FEW_STAGES = [2, 4, 3]   # ring of the tile of 64 rows
CLUSTER = [2, 1]         # row tiles that share the weights' tile by multicast (128 rows a tile)
ROWS_FIRST = [1, 0]      # neighbours in the walk share the weights (1) or the tokens (0)
EVICT = [1, 0]           # with few rows each weight is read once: let L2 drop it first
FAST_SILU = [0, 1]       # sigmoid by one tanh.approx instead of exp and reciprocal
BLOCKS = [132]           # as many as there are multiprocessors

[let]
experts = "rows.shape[0]"
each = "rows.shape[1]"
outs = "gate.shape[1]"
wide = "x.shape[1]"

[constants]
FEW_ROWS = "1 if each <= 64 else 0"
E_DIM = "experts"
R_DIM = "each"
N_DIM = "outs"
K_DIM = "wide"

[tensor_maps]
gate_map = { of = "gate", shape = ["experts * outs", "wide"], box = [128, 64], swizzle = 128 }
up_map = { of = "up", shape = ["experts * outs", "wide"], box = [128, 64], swizzle = 128 }
gate_few = { of = "gate", shape = ["experts * outs", "wide"], box = [88, 64], swizzle = 128 }
up_few = { of = "up", shape = ["experts * outs", "wide"], box = [88, 64], swizzle = 128 }

[[launch]]
kernel = "swiglu"
when = "not FEW_ROWS"
args = ["gate_map", "up_map", "x", "rows", "y"]
grid = ["min(BLOCKS, CLUSTER * experts * cdiv(each, 128 * CLUSTER) * cdiv(outs, 128))"]
block = [384]
shared = "STAGES * 49152 + 20480"

[[launch]]
kernel = "swiglu"
when = "FEW_ROWS"
args = ["gate_few", "up_few", "x", "rows", "y"]
grid = ["min(BLOCKS, experts * cdiv(outs, 176))"]
block = [384]
shared = "FEW_STAGES * FEW_SUB * 53248 + 16384"
*/
#include <cuda_bf16.h>

using bf16 = __nv_bfloat16;
using u32 = unsigned int;
using u64 = unsigned long long;

struct alignas(64) TensorMap {
    char bytes[128];
};

static_assert(K_DIM % 8 == 0, "rows of whole 16 bytes only");

#if FEW_ROWS
#define CL 1
#define DEPTH (64 * FEW_SUB)
constexpr int DEEP = FEW_STAGES;
constexpr int SUB = FEW_SUB;   // pieces of depth 64 in a stage
constexpr int ROW_TILE = 64;   // rows of a tile; both consumers multiply all of them, by half of the columns each
constexpr int NC = 88;         // output columns of a consumer
constexpr int COLS = 176;      // output columns of a tile
constexpr int PC = 6;          // chunks of 8 columns that are staged at a time
#else
#define CL CLUSTER
#define DEPTH 64
constexpr int DEEP = STAGES;
constexpr int SUB = 1;
constexpr int ROW_TILE = 128;  // rows of a tile: 64 for each consumer
constexpr int NC = 128;
constexpr int COLS = 128;
constexpr int PC = 8;
#endif

constexpr int BOX_BYTES = NC * 128;  // NC rows of gate or of up, 64 deep
constexpr int A_BYTES = ROW_TILE * 128, B_BYTES = COLS * 2 * 128, UNIT_BYTES = A_BYTES + B_BYTES;
constexpr int STAGE_BYTES = SUB * UNIT_BYTES;
constexpr int STEPS = (K_DIM + DEPTH - 1) / DEPTH;
constexpr int TALL = (R_DIM + ROW_TILE * CL - 1) / (ROW_TILE * CL), ACROSS = (N_DIM + COLS - 1) / COLS;
constexpr int TILES = E_DIM * TALL * ACROSS;
constexpr int PASSES = ROW_TILE / 16;
constexpr int CHUNKS = NC / 8, PIECES = (CHUNKS + PC - 1) / PC;
constexpr int PITCH = (PC + 1) * 16;  // an odd number of 16 bytes: no bank conflicts
constexpr int WARP_BYTES = 16 * PITCH;

__device__ __forceinline__ u32 address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

__device__ __forceinline__ void init(u32 bar, int count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar), "r"(count));
}

__device__ __forceinline__ void expect(u32 bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

__device__ __forceinline__ void wait(u32 bar, int parity) {
    asm volatile(
        "{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n@!done bra AGAIN;\n}" ::"r"(bar),
        "r"(parity)
        : "memory");
}

// Arrives at the barrier at this address in a block of the cluster.
__device__ __forceinline__ void arrive(u32 bar, int block) {
    asm volatile(
        "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(bar),
        "r"(block)
        : "memory");
}

__device__ __forceinline__ void load(u32 to, const TensorMap* map, int x, int y, u32 bar) {
#if FEW_ROWS && EVICT
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
        "l"(map), "r"(x), "r"(y), "r"(bar), "l"(0x12F0000000000000ull)
        : "memory");
#else
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
            to),
        "l"(map), "r"(x), "r"(y), "r"(bar)
        : "memory");
#endif
}

__device__ __forceinline__ void load_for_all(u32 to, const TensorMap* map, int x, int y, u32 bar) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
        "l"(map), "r"(x), "r"(y), "r"(bar), "h"(static_cast<unsigned short>((1 << CL) - 1))
        : "memory");
}

// 16 bytes from global to shared memory; zeros where `bytes` is 0.
__device__ __forceinline__ void copy(u32 to, const bf16* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

__device__ __forceinline__ void copy_or_zero(u32 to, const bf16* from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

// A tile in shared memory whose rows of 128 bytes are swizzled, depth next to each other.
__device__ __forceinline__ u64 descriptor(u32 at) {
    return u64(at >> 4 & 0x3FFF) | u64(1) << 16 | u64(1024 >> 4) << 32 | 1ull << 62;
}

#define TEN(d) "%" #d "0,%" #d "1,%" #d "2,%" #d "3,%" #d "4,%" #d "5,%" #d "6,%" #d "7,%" #d "8,%" #d "9,"
#define F4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define F16(i) F4(i), F4(i + 4), F4(i + 8), F4(i + 12)
#define F64(i) F16(i), F16(i + 16), F16(i + 32), F16(i + 48)

// d = a * b + d, or a * b in the first step: 64 x 2 NC += 64 x 16 * 16 x 2 NC, both with their depth next to each other.
__device__ __forceinline__ void multiply(float* d, u64 a, u64 b, int add) {
#if FEW_ROWS
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %90, 0;\nwgmma.mma_async.sync.aligned.m64n176k16.f32.bf16.bf16 {" TEN() TEN(1)
            TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7)
        "%80,%81,%82,%83,%84,%85,%86,%87}, %88, %89, p, 1, 1, 0, 0;\n}"
        : F64(0), F16(64), F4(80), F4(84)
        : "l"(a), "l"(b), "r"(add));
#else
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\nwgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" TEN() TEN(1)
            TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9) TEN(10) TEN(11)
        "%120,%121,%122,%123,%124,%125,%126,%127}, %128, %129, p, 1, 1, 0, 0;\n}"
        : F64(0), F64(64)
        : "l"(a), "l"(b), "r"(add));
#endif
}

__device__ __forceinline__ float exp2_fast(float v) {
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}

__device__ __forceinline__ float reciprocal(float v) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}

__device__ __forceinline__ float tanh_fast(float v) {
    float r;
    asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}

// silu(g) * u of two neighbours, as two bf16.
__device__ __forceinline__ u32 activate(float g0, float g1, float u0, float u1) {
#if FAST_SILU
    const float s0 = fmaf(0.5f, tanh_fast(0.5f * g0), 0.5f), s1 = fmaf(0.5f, tanh_fast(0.5f * g1), 0.5f);
#else
    // One reciprocal for two: the exponents are limited so that the product of the denominators stays finite.
    const float d0 = 1.0f + exp2_fast(fminf(g0 * -1.4426950408889634f, 57.0f));
    const float d1 = 1.0f + exp2_fast(fminf(g1 * -1.4426950408889634f, 57.0f));
    const float inv = reciprocal(d0 * d1);
    const float s0 = inv * d1, s1 = inv * d0;
#endif
    __nv_bfloat162 two = __floats2bfloat162_rn(g0 * u0 * s0, g1 * u1 * s1);
    return *reinterpret_cast<u32*>(&two);
}

__device__ __forceinline__ void place(int t, int& e, int& row, int& col) {
    e = t / (TALL * ACROSS);
    const int rest = t % (TALL * ACROSS);
#if ROWS_FIRST
    row = rest % TALL;
    col = rest / TALL;
#else
    col = rest % ACROSS;
    row = rest / ACROSS;
#endif
}

extern "C" __global__ void __cluster_dims__(CL, 1, 1) __launch_bounds__(384, 1)
swiglu(const __grid_constant__ TensorMap gate, const __grid_constant__ TensorMap up, const bf16* __restrict__ x,
       const int* __restrict__ rows, bf16* __restrict__ y) {
    extern __shared__ unsigned char raw[];
    const u32 base = (address(raw) + 1023) / 1024 * 1024;
    const u32 staging = base + DEEP * STAGE_BYTES, full = staging + 8 * WARP_BYTES, empty = full + 8 * DEEP;
    const int group = threadIdx.x / 128, lane = threadIdx.x % 128, rank = blockIdx.x % CL;

    if (threadIdx.x == 0) {
        for (int s = 0; s < DEEP; s++) {
            init(full + 8 * s, 129);  // the copy engine's thread, and 128 threads that gather
            init(empty + 8 * s, 2 * CL);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");

    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
        const int chunk = lane % 8, line = lane / 8;
        const u32 inner = line * 128 + ((chunk ^ (line & 7)) << 4);
        int s = 0, parity = 1;
        for (int t = blockIdx.x / CL; t < TILES; t += gridDim.x / CL) {
            int e, row, col;
            place(t, e, row, col);
            const bf16* from[PASSES];
#if !FEW_ROWS
#pragma unroll
            for (int j = 0; j < PASSES; j++) {
                const int r = min((row * CL + rank) * ROW_TILE + line + 16 * j, R_DIM - 1);
                from[j] = x + (long long)rows[e * R_DIM + r] * K_DIM + chunk * 8;
            }
#endif
            const int first = e * N_DIM + col * COLS;
#pragma unroll 1
            for (int i = 0; i < STEPS; i++) {
                const u32 to = base + s * STAGE_BYTES, bar = full + 8 * s;
                wait(empty + 8 * s, parity);
                if (lane == 0) {
                    const u32 box = to + A_BYTES;
                    expect(bar, SUB * B_BYTES);
#if FEW_ROWS
                    // Pieces that are neighbours in memory are asked for one after the other.
#pragma unroll
                    for (int h = 0; h < 2; h++) {
#pragma unroll
                        for (int b = 0; b < SUB; b++)
                            load(box + b * UNIT_BYTES + 2 * h * BOX_BYTES, &gate, i * DEPTH + b * 64, first + h * NC, bar);
#pragma unroll
                        for (int b = 0; b < SUB; b++)
                            load(box + b * UNIT_BYTES + (2 * h + 1) * BOX_BYTES, &up, i * DEPTH + b * 64, first + h * NC,
                                 bar);
                    }
#elif CLUSTER == 1
                    load(box, &gate, i * DEPTH, first, bar);
                    load(box + BOX_BYTES, &up, i * DEPTH, first, bar);
#else
                    if (rank == 0)
                        load_for_all(box, &gate, i * DEPTH, first, bar);
                    else
                        load_for_all(box + BOX_BYTES, &up, i * DEPTH, first, bar);
#endif
                }
                __syncwarp();
#if FEW_ROWS
                // The weights are on their way: now find the rows.
                if (i == 0) {
#pragma unroll
                    for (int j = 0; j < PASSES; j++) {
                        const int r = min(row * ROW_TILE + line + 16 * j, R_DIM - 1);
                        from[j] = x + (long long)rows[e * R_DIM + r] * K_DIM + chunk * 8;
                    }
                }
#endif
#pragma unroll
                for (int j = 0; j < PASSES; j++) {
#pragma unroll
                    for (int b = 0; b < SUB; b++) {
                        const u32 there = to + b * UNIT_BYTES + inner + j * 2048;
                        const int depth = i * DEPTH + b * 64;
#if K_DIM % DEPTH == 0
                        copy(there, from[j] + depth);
#else
                        const bool inside = depth + chunk * 8 < K_DIM;
                        copy_or_zero(there, inside ? from[j] + depth : x, inside ? 16 : 0);
#endif
                    }
                }
                // Arrives when this thread's copies are there.
                asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
                if (++s == DEEP) s = 0, parity ^= 1;
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
        const int half = group - 1, warp = lane / 32, l = lane % 32;
        unsigned char* mine = raw + (staging - address(raw)) + (half * 4 + warp) * WARP_BYTES;
#if FEW_ROWS
        const u32 a_at = 0, b_at = A_BYTES + half * 2 * BOX_BYTES;
#else
        const u32 a_at = half * 64 * 128, b_at = A_BYTES;
#endif
        int s = 0, parity = 0;
        for (int t = blockIdx.x / CL; t < TILES; t += gridDim.x / CL) {
            int e, row, col;
            place(t, e, row, col);
            float d[NC];  // gate's columns, then up's
#if !FEW_ROWS
            int before = 0;
#endif
#pragma unroll 1
            for (int i = 0; i < STEPS; i++) {
                wait(full + 8 * s, parity);
                // The gathered rows were written by ordinary copies, and wgmma reads through the other proxy.
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                const u32 at = base + s * STAGE_BYTES;
                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
                for (int q = 0; q < 4 * SUB; q++) {
                    const u32 unit = at + q / 4 * UNIT_BYTES + q % 4 * 32;
                    multiply(d, descriptor(unit + a_at), descriptor(unit + b_at), i + q);
                }
                asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#if FEW_ROWS
                // Memory is what limits: give the stage back as soon as can be.
                asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
                if (lane == 0) arrive(empty + 8 * s, 0);
#else
                // The step before this one is done: its tiles may be overwritten, in all blocks that got them.
                asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
                if (i > 0 && lane < CL) arrive(empty + 8 * before, lane);
                before = s;
#endif
                if (++s == DEEP) s = 0, parity ^= 1;
            }
#if !FEW_ROWS
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
            if (lane < CL) arrive(empty + 8 * before, lane);
#endif
#pragma unroll
            for (int j = 0; j < NC; j++) asm volatile("" : "+f"(d[j])::"memory");

#if FEW_ROWS
            const int top = row * ROW_TILE + 16 * warp, left = col * COLS + half * NC;
#else
            const int top = (row * CL + rank) * ROW_TILE + half * 64 + 16 * warp, left = col * COLS;
#endif
            // Each warp passes its own 16 rows through shared memory, so that they leave in 16 bytes a thread.
#pragma unroll
            for (int p = 0; p < PIECES; p++) {
#pragma unroll
                for (int c = 0; c < PC; c++) {
                    const int q = p * PC + c;
                    if (q < CHUNKS) {
                        const int g = 4 * q, u = 4 * q + NC / 2;
                        unsigned char* to = mine + (l / 4) * PITCH + c * 16 + (l % 4) * 4;
                        *reinterpret_cast<u32*>(to) = activate(d[g], d[g + 1], d[u], d[u + 1]);
                        *reinterpret_cast<u32*>(to + 8 * PITCH) = activate(d[g + 2], d[g + 3], d[u + 2], d[u + 3]);
                    }
                }
                __syncwarp();
#pragma unroll
                for (int z = 0; z < 16 * PC / 32; z++) {
                    const int at = z * 32 + l, r = at / PC, c = at % PC, q = p * PC + c, column = left + 8 * q;
                    if (q < CHUNKS && top + r < R_DIM && column < N_DIM) {
                        bf16* to = y + (long long)(e * R_DIM + top + r) * N_DIM + column;
                        const unsigned char* source = mine + r * PITCH + c * 16;
#if N_DIM % 8 == 0
                        const uint4 v = *reinterpret_cast<const uint4*>(source);
                        asm volatile("st.global.cs.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z),
                                     "r"(v.w)
                                     : "memory");
#else
                        const bf16* single = reinterpret_cast<const bf16*>(source);
                        for (int w = 0; w < 8; w++)
                            if (column + w < N_DIM) to[w] = single[w];
#endif
                    }
                }
                __syncwarp();
            }
        }
    }
    // No block may leave while another one can still write to its memory or arrive at its barriers.
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
}
