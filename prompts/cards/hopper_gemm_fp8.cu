/*forewarp
format = 1
inputs = ["a", "b", "scale_a", "scale_b"]
outputs = ["c"]
constraints = ["STAGES * (16384 + 128 * BN) <= 198000"]

[tunables]
BN = [256, 128]        # columns of a tile; it has 128 rows, 64 for each consumer
STAGES = [4, 3, 5]     # tiles of a and b in flight
CLUSTER = [2, 1]       # blocks below each other that share their tile of b by multicast
GROUP = [8, 4, 16]     # rows of tiles that are walked together, so that L2 holds what they read
BLOCKS = [132]         # as many as there are multiprocessors

[let]
m = "a.shape[0]"
k = "a.shape[1]"
n = "b.shape[0]"
tiles = "cdiv(m, 128 * CLUSTER) * cdiv(n, BN)"

[tensor_maps]
a_map = { of = "a", box = [128, 128], swizzle = 128 }
b_map = { of = "b", box = ["BN // CLUSTER", 128], swizzle = 128 }
c_map = { of = "c", box = [64, 64], swizzle = 128 }

[[launch]]
kernel = "matmul"
args = ["a_map", "b_map", "c_map", "scale_a", "scale_b", "m", "n", "k"]
grid = ["min(BLOCKS, CLUSTER * tiles)"]
block = [384]
shared = "STAGES * (16384 + 128 * BN) + 32768 + 2048"
*/
#include <cuda_bf16.h>

using bf16 = __nv_bfloat16;
using u32 = unsigned int;
using u64 = unsigned long long;

struct alignas(64) TensorMap {
    char bytes[128];
};

constexpr int BM = 128, BK = 128, A_BYTES = BM * BK, B_BYTES = BK * BN, STAGE_BYTES = A_BYTES + B_BYTES;
constexpr int BOX_BYTES = 64 * 64 * 2, REGISTERS = BN / 2;

__device__ u32 address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

__device__ void init(u32 bar, int count) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar), "r"(count)); }

__device__ void expect(u32 bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

__device__ void wait(u32 bar, int parity) {
    asm volatile(
        "{\n.reg .pred done;\nAGAIN:\nmbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n@!done bra AGAIN;\n}" ::"r"(bar),
        "r"(parity)
        : "memory");
}

// Arrives at the barrier at this address in another block of the cluster.
__device__ void arrive(u32 bar, int block) {
    asm volatile(
        "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n}" ::"r"(bar),
        "r"(block)
        : "memory");
}

__device__ void load(u32 to, const TensorMap* map, int x, int y, u32 bar) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
            to),
        "l"(map), "r"(x), "r"(y), "r"(bar)
        : "memory");
}

__device__ void load_for_all(u32 to, const TensorMap* map, int x, int y, u32 bar) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
        "l"(map), "r"(x), "r"(y), "r"(bar), "h"(static_cast<unsigned short>((1 << CLUSTER) - 1))
        : "memory");
}

__device__ void store(const TensorMap* map, int x, int y, u32 from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(x),
                 "r"(y), "r"(from)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;");
}

// A tile in shared memory whose rows of 128 bytes are swizzled; strides are in bytes.
__device__ u64 descriptor(u32 at, int leading, int stride) {
    return u64(at >> 4 & 0x3FFF) | u64(leading >> 4) << 16 | u64(stride >> 4) << 32 | 1ull << 62;
}

#define TEN(d) "%" #d "0,%" #d "1,%" #d "2,%" #d "3,%" #d "4,%" #d "5,%" #d "6,%" #d "7,%" #d "8,%" #d "9,"
#define F4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define F16(i) F4(i), F4(i + 4), F4(i + 8), F4(i + 12)
#define F64(i) F16(i), F16(i + 16), F16(i + 32), F16(i + 48)

// d = a * b + d, or a * b in the first step: 64 x BN += 64 x 32 * 32 x BN; both have their depth next to each other.
__device__ void multiply(float* d, u64 a, u64 b, int add) {
#if BN == 256
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\nwgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3 {" TEN() TEN(1)
            TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9) TEN(10) TEN(11)
        "%120,%121,%122,%123,%124,%125,%126,%127}, %128, %129, p, 1, 1;\n}"
        : F64(0), F64(64)
        : "l"(a), "l"(b), "r"(add));
#else
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\nwgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {" TEN() TEN(1)
            TEN(2) TEN(3) TEN(4) TEN(5) "%60,%61,%62,%63}, %64, %65, p, 1, 1;\n}"
        : F64(0)
        : "l"(a), "l"(b), "r"(add));
#endif
}

// Where a cluster's tile number `t` lies, in tiles.
__device__ void place(int t, int high, int wide, int& row, int& col) {
    const int first = t / (GROUP * wide) * GROUP, size = min(high - first, GROUP), rest = t % (GROUP * wide);
    row = first + rest % size;
    col = rest / size;
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(384, 1)
matmul(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, const __grid_constant__ TensorMap out,
       const float* scale_a, const float* scale_b, int m, int n, int k) {
    extern __shared__ unsigned char raw[];
    const u32 base = (address(raw) + 1023) / 1024 * 1024;
    const u32 staging = base + STAGES * STAGE_BYTES, full = staging + 4 * BOX_BYTES, empty = full + 8 * STAGES;
    const int group = threadIdx.x / 128, lane = threadIdx.x % 128, rank = blockIdx.x % CLUSTER;
    const int high = (m + BM * CLUSTER - 1) / (BM * CLUSTER), wide = (n + BN - 1) / BN, steps = (k + BK - 1) / BK;

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            init(full + 8 * s, 1);
            init(empty + 8 * s, 2 * CLUSTER);
        }
        asm volatile("fence.mbarrier_init.release.cluster;");
    }
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");

    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) {
            int s = 0, parity = 1;
            for (int t = blockIdx.x / CLUSTER; t < high * wide; t += gridDim.x / CLUSTER) {
                int row, col;
                place(t, high, wide, row, col);
                for (int i = 0; i < steps; i++) {
                    const u32 to = base + s * STAGE_BYTES, bar = full + 8 * s;
                    wait(empty + 8 * s, parity);
                    expect(bar, STAGE_BYTES);
                    load(to, &a, i * BK, (row * CLUSTER + rank) * BM, bar);
                    const u32 part = to + A_BYTES + rank * (B_BYTES / CLUSTER);
                    if (CLUSTER == 1)
                        load(part, &b, i * BK, col * BN, bar);
                    else
                        load_for_all(part, &b, i * BK, col * BN + rank * (BN / CLUSTER), bar);
                    if (++s == STAGES) s = 0, parity ^= 1;
                }
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int half = group - 1, warp = lane / 32, l = lane % 32;
        const float scale = *scale_a * *scale_b;
        const u32 own = staging + half * 2 * BOX_BYTES;
        int s = 0, parity = 0, buffer = 0;
        for (int t = blockIdx.x / CLUSTER; t < high * wide; t += gridDim.x / CLUSTER) {
            int row, col;
            place(t, high, wide, row, col);
            float d[REGISTERS];
            int before = 0;
            for (int i = 0; i < steps; i++) {
                wait(full + 8 * s, parity);
                const u32 at = base + s * STAGE_BYTES;
                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
                for (int q = 0; q < BK / 32; q++)
                    multiply(d, descriptor(at + half * 64 * 128 + q * 32, 16, 1024),
                             descriptor(at + A_BYTES + q * 32, 16, 1024), i + q);
                asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
                // The step before this one is done: its tiles may be overwritten, in all blocks that got them.
                asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
                if (i > 0 && lane < CLUSTER) arrive(empty + 8 * before, lane);
                before = s;
                if (++s == STAGES) s = 0, parity ^= 1;
            }
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
            if (lane < CLUSTER) arrive(empty + 8 * before, lane);

            const int y = (row * CLUSTER + rank) * BM + half * 64, x = col * BN;
            // Results pass through shared memory in boxes of 64 x 64, and leave by the copy engine while the next are made.
#pragma unroll
            for (int j = 0; j < BN / 64; j++) {
                const u32 box = own + buffer * BOX_BYTES;
                if (lane == 0) asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
                asm volatile("bar.sync %0, 128;" ::"r"(group) : "memory");
#pragma unroll
                for (int q = 0; q < 4; q++) {
                    u32 v[4];
                    for (int e = 0; e < 4; e++) {
                        const float* p = d + 32 * j + 8 * q + 2 * e;
                        __nv_bfloat162 two = __floats2bfloat162_rn(scale * p[0], scale * p[1]);
                        v[e] = *reinterpret_cast<u32*>(&two);
                    }
                    const int r = 16 * warp + l % 16, chunk = 2 * q + l / 16;
                    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                                     box + r * 128 + ((chunk ^ r % 8) << 4)),
                                 "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
                                 : "memory");
                }
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                asm volatile("bar.sync %0, 128;" ::"r"(group) : "memory");
                if (lane == 0 && y < m && x + 64 * j < n) store(&out, x + 64 * j, y, box);
                buffer ^= 1;
            }
        }
        if (lane == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    }
    // No block may leave while another one can still write to its memory or arrive at its barriers.
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
}
