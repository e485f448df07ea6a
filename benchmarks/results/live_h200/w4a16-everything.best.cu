/*forewarp
format = 1
inputs = ["x", "packed", "scale", "zero"]
outputs = ["y"]
constraints = ["NARROW_WARPS * NARROW_BLOCKS <= 32"]

[tunables]
NARROW_WARPS = [8, 16, 4]   # warps that share the depth of 16 rows of weights, where x is short
NARROW_BLOCKS = [3, 2, 4]   # blocks a multiprocessor there
TILES = [8, 4]              # tiles of 64 rows of weights a cluster, where x is tall
SLOTS = [5, 4, 3]           # groups of weights in shared memory there

[let]
rows = "x.shape[0]"
out = "packed.shape[0]"
groups = "scale.shape[1]"

[constants]
WIDE = "x.shape[1]"
GROUPS = "scale.shape[1]"
OUT = "packed.shape[0]"

[[launch]]
kernel = "narrow"
when = "rows <= 8"
args = ["x", "packed", "scale", "zero", "y", "rows", "out"]
grid = ["cdiv(out, 16)"]
block = ["32 * NARROW_WARPS"]
shared = "NARROW_WARPS * 512 + numel(x) * 2"

[[launch]]
kernel = "tall"
when = "rows > 8"
args = ["x", "packed", "scale", "zero", "y", "rows", "out"]
grid = ["cdiv(out, 64 * TILES) * 4", "cdiv(rows, 64)"]
block = [512]
shared = "max(32768 + SLOTS * TILES * 4096, TILES * 17408) + TILES * ((groups + 3) // 4) * 272"
*/
// Weights are the first operand of the tensor cores, straight from registers; the order of the depth is that in which the
// nibbles come: lane t of four holds columns 32t to 32t + 31 of a group; nibbles j and j + 4 of its word i are one pair.
#include <cuda_bf16.h>

static_assert(WIDE == 128 * GROUPS, "groups of 128 columns");
static_assert(GROUPS <= 32, "scales of a quarter of the depth, or 8 rows of x, must fit in shared memory");
static_assert(TILES == 8 || TILES == 4, "every warpgroup has as many tiles");

using bf16 = __nv_bfloat16;

__device__ __forceinline__ unsigned word_of(__nv_bfloat162 v) { return *reinterpret_cast<unsigned*>(&v); }
__device__ __forceinline__ __nv_bfloat162 pair_of(unsigned v) { return *reinterpret_cast<__nv_bfloat162*>(&v); }
__device__ __forceinline__ unsigned part(const uint4 v, int i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }
__device__ __forceinline__ unsigned address(const void* p) { return static_cast<unsigned>(__cvta_generic_to_shared(p)); }

// Nibbles i and i + 4 of a word as 128 + level (0x4300 is 128 in bf16, whose last bits count ones), less 128 + zero point.
__device__ __forceinline__ unsigned raised(unsigned word, int i) { return ((word >> (4 * i)) & 0x000f000fu) | 0x43004300u; }
__device__ __forceinline__ unsigned unpacked(unsigned word, int i, __nv_bfloat162 zero) {
    return word_of(__hsub2(pair_of(raised(word, i)), zero));
}

// Eight neighbouring columns of x in the order of the nibbles: pairs (0, 4), (1, 5), (2, 6), (3, 7).
__device__ __forceinline__ uint4 reordered(const uint4 v) {
    return make_uint4(__byte_perm(v.x, v.z, 0x5410), __byte_perm(v.x, v.z, 0x7632), __byte_perm(v.y, v.w, 0x5410),
                      __byte_perm(v.y, v.w, 0x7632));
}

__device__ __forceinline__ uint4 load_once(const unsigned char* from) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from));
    return v;
}

__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ---------------------------------------------------------------------------------------------------------------------
// Up to 8 rows of x: 16 rows of weights a block, the depth is shared by its warps, weights go from memory to registers.

constexpr int EACH = (GROUPS + NARROW_WARPS - 1) / NARROW_WARPS;  // groups a warp

extern "C" __global__ void __launch_bounds__(32 * NARROW_WARPS, NARROW_BLOCKS)
narrow(const bf16* __restrict__ x, const unsigned char* __restrict__ packed, const bf16* __restrict__ scale,
       const unsigned char* __restrict__ zero, bf16* __restrict__ y, int rows, int out) {
    extern __shared__ __align__(1024) unsigned char memory[];
    float* const parts = reinterpret_cast<float*>(memory);  // [warp][row of weights][row of x]
    uint4* const xs = reinterpret_cast<uint4*>(memory + NARROW_WARPS * 512);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int first = blockIdx.x * 16;

    // All of this warp's weights are asked for at once.
    uint4 w[EACH][2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const unsigned char* const line = packed + (long long)min(first + 8 * r + g, out - 1) * (WIDE / 2) + 16 * t;
#pragma unroll
        for (int k = 0; k < EACH; k++) w[k][r] = load_once(line + min(warp * EACH + k, GROUPS - 1) * 64);
    }
    // Scales in the upper half, 128 + zero point in the lower.
    unsigned both[EACH][2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const long long line = (long long)min(first + 8 * r + g, out - 1) * GROUPS;
        if constexpr (EACH == 4 && GROUPS == 4 * NARROW_WARPS) {
            const uint2 s = *reinterpret_cast<const uint2*>(scale + line + 4 * warp);
            const unsigned z = *reinterpret_cast<const unsigned*>(zero + line + 4 * warp);
#pragma unroll
            for (int k = 0; k < EACH; k++) {
                const unsigned two = k < 2 ? s.x : s.y;
                both[k][r] = (k % 2 == 0 ? two << 16 : two & 0xffff0000u) | (0x4300u + ((z >> (8 * k)) & 255u));
            }
        } else {
#pragma unroll
            for (int k = 0; k < EACH; k++) {
                const int group = min(warp * EACH + k, GROUPS - 1);
                const unsigned s = reinterpret_cast<const unsigned short*>(scale)[line + group];
                both[k][r] = (s << 16) | (0x4300u + zero[line + group]);
            }
        }
    }
#pragma unroll 2
    for (int i = threadIdx.x; i < rows * (WIDE / 8); i += 32 * NARROW_WARPS)
        xs[i] = reordered(reinterpret_cast<const uint4*>(x)[i]);
    __syncthreads();

    float sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const int group = warp * EACH + k;
        if (group < GROUPS) {
            __nv_bfloat162 zeros[2];
            float scales[2];
#pragma unroll
            for (int r = 0; r < 2; r++) {
                zeros[r] = pair_of(__byte_perm(both[k][r], 0, 0x1010));
                scales[r] = __uint_as_float(both[k][r] & 0xffff0000u);
            }
            float inner[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
            for (int i = 0; i < 4; i++) {
                uint4 b = make_uint4(0, 0, 0, 0);
                if (g < rows) b = xs[g * (WIDE / 8) + group * 16 + 4 * t + i];
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    unsigned a[4];
#pragma unroll
                    for (int e = 0; e < 4; e++) a[e] = unpacked(part(w[k][e % 2], i), 2 * h + e / 2, zeros[e % 2]);
                    multiply(inner, a, h == 0 ? b.x : b.z, h == 0 ? b.y : b.w);
                }
            }
#pragma unroll
            for (int e = 0; e < 4; e++) sums[e] += scales[e / 2] * inner[e];
        }
    }
#pragma unroll
    for (int e = 0; e < 4; e++) parts[warp * 128 + (g + e / 2 * 8) * 8 + 2 * t + e % 2] = sums[e];
    __syncthreads();
    if (threadIdx.x < 128) {
        const int o = threadIdx.x % 16, n = threadIdx.x / 16;
        if (n < rows && first + o < out) {
            float sum = 0.0f;
#pragma unroll
            for (int k = 0; k < NARROW_WARPS; k++) sum += parts[k * 128 + o * 8 + n];
            y[(long long)n * out + first + o] = __float2bfloat16(sum);
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// More rows of x: 64 of them and TILES * 64 rows of weights a cluster, whose four blocks share the depth.

constexpr int SLICE = (GROUPS + 3) / 4;  // groups a block
constexpr int PER = TILES / 4;           // tiles a warpgroup

__device__ __forceinline__ void copy16(unsigned to, const void* from) {
    asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
template <int COUNT> __device__ __forceinline__ void hold(float (&v)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) asm volatile("" : "+f"(v[i])::"memory");
}
template <int COUNT> __device__ __forceinline__ void hold(unsigned (&v)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT; i++) asm volatile("" : "+r"(v[i])::"memory");
}
__device__ __forceinline__ void batch_begins() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void batch_ends() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int LEFT> __device__ __forceinline__ void batches_done() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}
__device__ __forceinline__ void cluster_meets() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// 64 rows of weights by 16 columns from registers, by 64 rows of x: matrices of 8 rows and 16 bytes without a swizzle, 128
// bytes apart along the rows and 1024 along the depth.
__device__ __forceinline__ void multiply64(float (&d)[32], const unsigned (&a)[4], unsigned at) {
    const unsigned long long matrix =
        (unsigned long long)((at >> 4) & 0x3fffu) | (64ull << 16) | (8ull << 32);
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.b32 p, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, p, 1, 1, 0;\n"
        "}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]),
          "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]),
          "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]),
          "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(matrix), "r"(1)
        : "memory");
}

extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(512, 1)
tall(const bf16* __restrict__ x, const unsigned char* __restrict__ packed, const bf16* __restrict__ scale,
     const unsigned char* __restrict__ zero, bf16* __restrict__ y, int rows, int out) {
    extern __shared__ __align__(1024) unsigned char memory[];
    constexpr int WEIGHTS = 2 * 16384;      // behind two groups of x
    constexpr int SLOT_BYTES = TILES * 4096;
    constexpr int RING = WEIGHTS + SLOTS * SLOT_BYTES, SUMS = TILES * 17408;
    constexpr int FIRST = RING > SUMS ? RING : SUMS;
    unsigned* const both = reinterpret_cast<unsigned*>(memory + FIRST);  // [tile][group][row of 64, 68 apart]
    const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0), lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int team = warp / 4, rank = blockIdx.x % 4, first = blockIdx.x / 4 * TILES, above = blockIdx.y * 64;
    const unsigned base = address(memory);

    // Every thread fetches what it unpacks itself: 16 bytes of two rows of each of its tiles a group.
    auto fetch = [&](int q) {
        const int group = min(rank * SLICE + q, GROUPS - 1);
        const unsigned to = base + WEIGHTS + q % SLOTS * SLOT_BYTES + threadIdx.x * 16;
#pragma unroll
        for (int m = 0; m < PER; m++)
#pragma unroll
            for (int r = 0; r < 2; r++) {
                const int row = (first + m * 4 + team) * 64 + warp % 4 * 16 + 8 * r + g;
                copy16(to + (m * 2 + r) * 8192, packed + (long long)min(row, out - 1) * (WIDE / 2) + group * 64 + 16 * t);
            }
    };
#pragma unroll
    for (int s = 0; s < SLOTS - 1; s++) {
        if (s < SLICE) fetch(s);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    // x of a group: a warp has 8 rows; a lane 16 columns of one, words 2p and 2p + 1 of lane t's four.
    const int eight = warp % 8, words = warp / 8 * 2, mine = above + eight * 8 + g;
    auto take = [&](uint4 (&v)[2], int q) {
        const int group = rank * SLICE + q;
#pragma unroll
        for (int k = 0; k < 2; k++) {
            v[k] = make_uint4(0, 0, 0, 0);
            if (q < SLICE && group < GROUPS && mine < rows)
                v[k] = *reinterpret_cast<const uint4*>(x + (long long)mine * WIDE + group * 128 + 32 * t + 8 * (words + k));
        }
    };
    // Matrix 4i + j of a group has columns 32t + 8i + j and 32t + 8i + j + 4 at 2t and 2t + 1.
    auto put = [&](const uint4 (&v)[2], int q) {
#pragma unroll
        for (int k = 0; k < 2; k++) {
            unsigned* const to =
                reinterpret_cast<unsigned*>(memory + q % 2 * 16384 + (words + k) * 4096 + eight * 128 + lane * 4);
            const uint4 n = reordered(v[k]);
            to[0] = n.x;
            to[256] = n.y;
            to[512] = n.z;
            to[768] = n.w;
        }
    };

    uint4 soon[2];
    // Scales go in the upper half of a word, 128 + zero point in the lower.
    if constexpr (SLICE == 8 && GROUPS == 32) {
        const int row = threadIdx.x;
        const long long at = (long long)min(first * 64 + row, out - 1) * GROUPS + rank * SLICE;
        const uint4 s = *reinterpret_cast<const uint4*>(scale + at);
        const uint2 z = *reinterpret_cast<const uint2*>(zero + at);
        uint4 now[2];
        take(now, 0);
        take(soon, 1);
        if (row < TILES * 64) {
#pragma unroll
            for (int q = 0; q < SLICE; q++) {
                const unsigned two = part(s, q / 2);
                both[(row / 64 * SLICE + q) * 68 + row % 64] =
                    (q % 2 == 0 ? two << 16 : two & 0xffff0000u) | (0x4300u + (((q < 4 ? z.x : z.y) >> (8 * (q % 4))) & 255u));
            }
        }
        put(now, 0);
    } else {
        uint4 now[2];
        take(now, 0);
        take(soon, 1);
        for (int i = threadIdx.x; i < TILES * 64 * SLICE; i += 512) {
            const int q = i % SLICE, row = i / SLICE;
            const long long at = (long long)min(first * 64 + row, out - 1) * GROUPS + min(rank * SLICE + q, GROUPS - 1);
            const unsigned s = reinterpret_cast<const unsigned short*>(scale)[at];
            both[(row / 64 * SLICE + q) * 68 + row % 64] = (s << 16) | (0x4300u + zero[at]);
        }
        put(now, 0);
    }
    __syncthreads();  // the scales are there

    float c[PER][32];
    unsigned a[2][2][4];
#pragma unroll
    for (int m = 0; m < PER; m++) {
#pragma unroll
        for (int e = 0; e < 32; e++) c[m][e] = 0.0f;
        hold(c[m]);
    }
#pragma unroll 1
    for (int q = 0; q < SLICE; q++) {
        asm volatile("cp.async.wait_group %0;" ::"n"(SLOTS - 2) : "memory");
        if (q + SLOTS - 1 < SLICE) fetch(q + SLOTS - 1);
        asm volatile("cp.async.commit_group;" ::: "memory");
#pragma unroll
        for (int m = 0; m < PER; m++) {
            uint4 w[2];
            __nv_bfloat162 zeros[2], scales[2];
#pragma unroll
            for (int r = 0; r < 2; r++) {
                w[r] = *reinterpret_cast<const uint4*>(memory + WEIGHTS + q % SLOTS * SLOT_BYTES + (m * 2 + r) * 8192 +
                                                       threadIdx.x * 16);
                const unsigned v = both[((m * 4 + team) * SLICE + q) * 68 + warp % 4 * 16 + 8 * r + g];
                zeros[r] = pair_of(__byte_perm(v, 0, 0x1010));
                scales[r] = pair_of(__byte_perm(v, 0, 0x3232));
            }
#pragma unroll
            for (int i = 0; i < 4; i++) {
                batches_done<1>();  // the one that read these registers is
#pragma unroll
                for (int h = 0; h < 2; h++) {
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        a[i % 2][h][e] = word_of(
                            __hmul2(pair_of(unpacked(part(w[e % 2], i), 2 * h + e / 2, zeros[e % 2])), scales[e % 2]));
                    hold(a[i % 2][h]);
                }
                if (m == 0 && i == 0) {
                    batches_done<0>();  // this warpgroup has read the group of x before
                    asm volatile("fence.proxy.async;" ::: "memory");
                    __syncthreads();  // everybody has; this group of x is there
                    put(soon, q + 1);
                    take(soon, q + 2);
                }
                batch_begins();
#pragma unroll
                for (int h = 0; h < 2; h++) multiply64(c[m], a[i % 2][h], base + q % 2 * 16384 + (2 * i + h) * 2048);
                batch_ends();
            }
        }
    }
    batches_done<0>();
#pragma unroll
    for (int m = 0; m < PER; m++) hold(c[m]);
    __syncthreads();  // nobody reads x or weights any more

    // The four parts of the depth: [tile][row of x][row of weights, 68 apart].
    float* const sums = reinterpret_cast<float*>(memory);
#pragma unroll
    for (int m = 0; m < PER; m++) {
        const int tile = m * 4 + team;
#pragma unroll
        for (int i = 0; i < 32; i++) {
            const int n = i / 4 * 8 + 2 * t + i % 2, o = warp % 4 * 16 + g + i % 4 / 2 * 8;
            sums[(tile * 64 + n) * 68 + o] = c[m][i];
        }
    }
    cluster_meets();
    // Each block finishes 16 of the 64 rows of x.
#pragma unroll 4
    for (int i = threadIdx.x; i < TILES * 256; i += 512) {
        const int o = i % 16 * 4, n = rank * 16 + i / 16 % 16, tile = i / 256;
        const unsigned here = base + ((tile * 64 + n) * 68 + o) * 4;
        float4 v[4];
#pragma unroll
        for (int p = 0; p < 4; p++) {
            unsigned there;
            asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(p));
            asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(v[p].x), "=f"(v[p].y), "=f"(v[p].z), "=f"(v[p].w)
                         : "r"(there)
                         : "memory");
        }
        const float r0 = (v[0].x + v[1].x) + (v[2].x + v[3].x), r1 = (v[0].y + v[1].y) + (v[2].y + v[3].y);
        const float r2 = (v[0].z + v[1].z) + (v[2].z + v[3].z), r3 = (v[0].w + v[1].w) + (v[2].w + v[3].w);
        const int row = above + n, column = (first + tile) * 64 + o;
        if (row < rows) {
            bf16* to = y + (long long)row * out + column;
            if constexpr (OUT % 4 == 0) {
                if (column < out)
                    *reinterpret_cast<uint2*>(to) =
                        make_uint2(word_of(__floats2bfloat162_rn(r0, r1)), word_of(__floats2bfloat162_rn(r2, r3)));
            } else {
                if (column < out) to[0] = __float2bfloat16(r0);
                if (column + 1 < out) to[1] = __float2bfloat16(r1);
                if (column + 2 < out) to[2] = __float2bfloat16(r2);
                if (column + 3 < out) to[3] = __float2bfloat16(r3);
            }
        }
    }
    cluster_meets();  // others may still read this block's sums
}
