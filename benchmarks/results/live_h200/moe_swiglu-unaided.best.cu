/*forewarp
format = 1
inputs = ["x", "rows", "gate", "up"]
outputs = ["y"]
constraints = ["SKEW < STAGES"]

[tunables]
STAGES = [4, 3]
CLUS = [2, 1]
SKEW = [2, 0, 1]
BURST = [2, 4, 1, 8]
TAIL = [1, 0]

[constants]
P_EXPERTS = "rows.shape[0]"
P_ROWS = "rows.shape[1]"
P_OUT = "gate.shape[1]"
P_WIDE = "gate.shape[2]"
P_FEW = "1 if max(rows.shape[1] * 32, gate.shape[2]) <= 2048 else 0"

[tensor_maps]
gate_big = { of = "gate", box = [1, 128, 64], swizzle = 128 }
up_big = { of = "up", box = [1, 128, 64], swizzle = 128 }
gate_tail = { of = "gate", box = [1, 88, 64], swizzle = 128 }
up_tail = { of = "up", box = [1, 88, 64], swizzle = 128 }
gate_few = { of = "gate", box = [1, 32, 64], swizzle = 128 }
up_few = { of = "up", box = [1, 32, 64], swizzle = 128 }

[[launch]]
kernel = "moe_swiglu"
args = ["x", "rows", "gate_big", "up_big", "gate_tail", "up_tail", "gate_few", "up_few", "y"]
grid = ["132"]
block = ["384"]
shared = "230400 if P_FEW > 0 else STAGES * 49152 + 1024"
*/

typedef unsigned int u32;
typedef unsigned long long u64;
typedef unsigned short u16;

struct alignas(64) TensorMap { char bytes[128]; };

static_assert(P_WIDE % 8 == 0, "rows of x, gate and up must be multiples of 16 bytes");
static_assert(CLUS == 1 || CLUS == 2, "clusters of one or two blocks");

// P_FEW (at most 64 rows an expert): a cluster of two blocks has an expert and halves the depth K. Each block keeps its half of
//   the expert's tokens in shared memory and streams the weights once; the partial sums are exchanged in shared memory.
// Otherwise: persistent tiles of 128 rows x 128 columns, and for the last experts 128 x 88, so that the last wave ends early.
#if P_FEW
#define CL 2
#else
#define CL CLUS
#endif

#if CL > 1
#define CLUSTER_ATTR __cluster_dims__(CL, 1, 1)
#else
#define CLUSTER_ATTR
#endif

// ---------------------------------------------------------------- barriers and copies

__device__ __forceinline__ u32 smem_addr(const void* p) {
    u32 a;
    asm("{\n.reg .u64 t;\ncvta.to.shared.u64 t, %1;\ncvt.u32.u64 %0, t;\n}\n" : "=r"(a) : "l"(p));
    return a;
}

__device__ __forceinline__ void mbar_init(u32 bar, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(bar), "r"(count) : "memory");
}

__device__ __forceinline__ bool mbar_try(u32 bar, u32 parity) {
    u32 ok;
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.b32 %0, 1, 0, p;\n}\n"
                 : "=r"(ok) : "r"(bar), "r"(parity) : "memory");
    return ok != 0;
}

__device__ __forceinline__ void mbar_wait(u32 bar, u32 parity) {
    while (!mbar_try(bar, parity)) { }
}

__device__ __forceinline__ bool mbar_try_cluster(u32 bar, u32 parity) {
    u32 ok;
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\nselp.b32 %0, 1, 0, p;\n}\n"
                 : "=r"(ok) : "r"(bar), "r"(parity) : "memory");
    return ok != 0;
}

__device__ __forceinline__ void mbar_wait_cluster(u32 bar, u32 parity) {
    while (!mbar_try_cluster(bar, parity)) { }
}

__device__ __forceinline__ void mbar_expect(u32 bar, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(bar), "r"(bytes) : "memory");
}

__device__ __forceinline__ void mbar_arrive(u32 bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(bar) : "memory");
}

__device__ __forceinline__ u32 map_rank(u32 addr, u32 rank) {
    u32 r;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(r) : "r"(addr), "r"(rank));
    return r;
}

__device__ __forceinline__ void mbar_arrive_at(u32 bar, u32 rank) {
    asm volatile("{\n.reg .b32 ra;\nmapa.shared::cluster.u32 ra, %0, %1;\nmbarrier.arrive.shared::cluster.b64 _, [ra];\n}\n"
                 :: "r"(bar), "r"(rank) : "memory");
}

__device__ __forceinline__ void tma_load(const TensorMap* map, u32 dst, u32 bar, int ck, int cn, int ce) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4, %5}], [%2];"
                 :: "r"(dst), "l"((u64)map), "r"(bar), "r"(ck), "r"(cn), "r"(ce) : "memory");
}

__device__ __forceinline__ void tma_load_both(const TensorMap* map, u32 dst, u32 bar, int ck, int cn, int ce) {
    const u16 mask = (u16)3;
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
                 " [%0], [%1, {%4, %5, %6}], [%2], %3;"
                 :: "r"(dst), "l"((u64)map), "r"(bar), "h"(mask), "r"(ck), "r"(cn), "r"(ce) : "memory");
}

__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;\n" ::: "memory");
}

// sixteen bytes from global to shared memory; zeros where !in
__device__ __forceinline__ void copy16(u32 dst, const u16* src, bool in) {
    const u32 bytes = in ? 16u : 0u;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(dst), "l"(src), "r"(bytes) : "memory");
}

// ---------------------------------------------------------------- products

__device__ __forceinline__ u64 make_desc(u32 addr) {
    // K-major, 128-byte swizzle, 1024 bytes between groups of eight rows
    return (u64)((addr & 0x3FFFFu) >> 4) | (1ull << 16) | (64ull << 32) | (1ull << 62);
}

#define F8(i) "+f"(d[(i)]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3]), \
              "+f"(d[(i) + 4]), "+f"(d[(i) + 5]), "+f"(d[(i) + 6]), "+f"(d[(i) + 7])

__device__ __forceinline__ void wgmma256(float (&d)[128], u64 da, u64 db, int keep) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, "
        "%56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, "
        "%72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, "
        "%88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, "
        "%104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, "
        "%120, %121, %122, %123, %124, %125, %126, %127}, "
        "%128, %129, p, 1, 1, 0, 0;\n}\n"
        : F8(0), F8(8), F8(16), F8(24), F8(32), F8(40), F8(48), F8(56), F8(64), F8(72), F8(80), F8(88), F8(96), F8(104), F8(112), F8(120)
        : "l"(da), "l"(db), "r"(keep));
}

__device__ __forceinline__ void wgmma176(float (&d)[88], u64 da, u64 db, int keep) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %90, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n176k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, "
        "%56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, "
        "%72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87}, "
        "%88, %89, p, 1, 1, 0, 0;\n}\n"
        : F8(0), F8(8), F8(16), F8(24), F8(32), F8(40), F8(48), F8(56), F8(64), F8(72), F8(80)
        : "l"(da), "l"(db), "r"(keep));
}

__device__ __forceinline__ void wgmma64(float (&d)[32], u64 da, u64 db, int keep) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31}, "
        "%32, %33, p, 1, 1, 0, 0;\n}\n"
        : F8(0), F8(8), F8(16), F8(24)
        : "l"(da), "l"(db), "r"(keep));
}

__device__ __forceinline__ void wgmma(float (&d)[128], u64 da, u64 db, int keep) { wgmma256(d, da, db, keep); }
__device__ __forceinline__ void wgmma(float (&d)[88], u64 da, u64 db, int keep) { wgmma176(d, da, db, keep); }
__device__ __forceinline__ void wgmma(float (&d)[32], u64 da, u64 db, int keep) { wgmma64(d, da, db, keep); }

template <int ACC>
__device__ __forceinline__ void step(float (&d)[ACC], u32 sa, u32 sb, int keep) {
    const u64 da = make_desc(sa), db = make_desc(sb);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    wgmma(d, da, db, keep);
    wgmma(d, da + 2, db + 2, 1);
    wgmma(d, da + 4, db + 4, 1);
    wgmma(d, da + 6, db + 6, 1);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// ---------------------------------------------------------------- the end of a tile

__device__ __forceinline__ float swiglu(float g, float u) {
    return __fdividef(g, 1.0f + __expf(-g)) * u;
}

__device__ __forceinline__ u32 pack2(float lo, float hi) {
    u32 r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}

// lane q of four has pair q of groups 0..3; afterwards it has pairs 0..3 of group q
__device__ __forceinline__ void quad_transpose(u32 (&w)[4], int lane) {
    const bool b0 = (lane & 1) != 0, b1 = (lane & 2) != 0;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const u32 give = b0 ? w[i] : w[i + 1];
        const u32 got = __shfl_xor_sync(0xffffffffu, give, 1);
        if (b0) w[i] = got; else w[i + 1] = got;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const u32 give = b1 ? w[i] : w[i + 2];
        const u32 got = __shfl_xor_sync(0xffffffffu, give, 2);
        if (b1) w[i] = got; else w[i + 2] = got;
    }
}

// up to four groups of eight columns from col0 on; count of them are there
__device__ __forceinline__ void store_groups(u32 (&w)[4], u16* line, bool row_in, int col0, int count, int lane) {
    const int quad = lane & 3;
    if constexpr (P_OUT % 8 == 0) {
        quad_transpose(w, lane);
        const int col = col0 + quad * 8;
        if (row_in && quad < count && col < P_OUT)
            *reinterpret_cast<uint4*>(line + col) = make_uint4(w[0], w[1], w[2], w[3]);
    } else {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int col = col0 + i * 8 + quad * 2;
            const bool in = row_in && i < count;
            if (in && col < P_OUT) line[col] = (u16)(w[i] & 0xffffu);
            if (in && col + 1 < P_OUT) line[col + 1] = (u16)(w[i] >> 16);
        }
    }
}

#if P_FEW
// ================================================================ few rows: the depth is split over a cluster

constexpr int SLOTS = 11;                          // slots of 32 gate rows and 32 up rows, 64 deep
constexpr int SLOT_BYTES = 8192;
constexpr int KC = (P_WIDE + 63) / 64;
constexpr int KR = (KC + 1) / 2;                   // steps of 64 a block
constexpr int NT = (P_OUT + 31) / 32;              // tiles of 32 columns
constexpr int NP0 = 66 / P_EXPERTS > 1 ? 66 / P_EXPERTS : 1;
constexpr int NP = NP0 < NT ? NP0 : NT;            // parts of an expert's columns, where there are few experts
constexpr int TP = (NT + NP - 1) / NP;             // tiles of a part
constexpr int UNITS = P_EXPERTS * NP;
static_assert(KR <= 16, "the tokens of an expert stay in shared memory");
static_assert(BURST >= 1 && BURST <= 8, "a burst leaves slots in flight");

extern "C" __global__ void CLUSTER_ATTR __launch_bounds__(384, 1)
moe_swiglu(const u16* __restrict__ x, const int* __restrict__ rows,
           const __grid_constant__ TensorMap gate_big, const __grid_constant__ TensorMap up_big,
           const __grid_constant__ TensorMap gate_tail, const __grid_constant__ TensorMap up_tail,
           const __grid_constant__ TensorMap gate_few, const __grid_constant__ TensorMap up_few,
           u16* __restrict__ y)
{
    extern __shared__ __align__(1024) unsigned char smem_raw[];
    __shared__ __align__(8) u64 bars[2 * SLOTS + 4];

    const u32 base = (smem_addr(smem_raw) + 1023u) & ~1023u;
    const u32 abase = base;                        // 16 x 8 KB: this block's half of the tokens
    const u32 rbase = base + 131072;               // 8 KB: sums from the other block
    const u32 bbase = base + 131072 + 8192;        // the slots
    const u32 full0 = smem_addr(bars);
    const u32 empty0 = full0 + 8 * SLOTS;
    const u32 rfull0 = empty0 + 8 * SLOTS;         // sums for warpgroup 0, 1 have come
    const u32 rfree0 = rfull0 + 16;                // the other block's buffer is free for warpgroup 0, 1
    const int lane = threadIdx.x & 31;
    const int wg = threadIdx.x >> 7;

    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    const int cid = (int)blockIdx.x / 2;
    const int ncl = (int)gridDim.x / 2;
    const int k0 = (int)rank * KR * 64;

    if (threadIdx.x == 0) {
        for (int i = 0; i < SLOTS; ++i) {
            mbar_init(full0 + 8 * i, 1);
            mbar_init(empty0 + 8 * i, 4);
        }
        for (int i = 0; i < 2; ++i) {
            mbar_init(rfull0 + 8 * i, 1);
            mbar_init(rfree0 + 8 * i, 4);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    cluster_sync();

    if (wg == 0) {
        // ---------------- producer: one thread streams the weights, in bursts along the rows ----------------
        if (threadIdx.x == 0) {
            int slot = 0;
            u32 ph = 0;
            for (int u = cid; u < UNITS; u += ncl) {
                const int e = u / NP;
                const int first = (u % NP) * TP;
                const int last = first + TP < NT ? first + TP : NT;
                for (int nt = first; nt < last; ++nt) {
                    const int n0 = nt * 32;
#pragma unroll 1
                    for (int kb = 0; kb < KR; kb += BURST) {
                        int s = slot;
                        u32 p = ph;
#pragma unroll
                        for (int i = 0; i < BURST; ++i) {
                            if (kb + i < KR) {
                                mbar_wait(empty0 + 8 * s, p ^ 1u);
                                if (++s == SLOTS) { s = 0; p ^= 1u; }
                            }
                        }
                        s = slot;
#pragma unroll
                        for (int i = 0; i < BURST; ++i) {
                            if (kb + i < KR) {
                                const u32 fb = full0 + 8 * s;
                                mbar_expect(fb, SLOT_BYTES);
                                tma_load(&gate_few, bbase + s * SLOT_BYTES, fb, k0 + (kb + i) * 64, n0, e);
                                if (++s == SLOTS) s = 0;
                            }
                        }
                        s = slot;
#pragma unroll
                        for (int i = 0; i < BURST; ++i) {
                            if (kb + i < KR) {
                                tma_load(&up_few, bbase + s * SLOT_BYTES + 4096, full0 + 8 * s, k0 + (kb + i) * 64, n0, e);
                                if (++s == SLOTS) s = 0;
                            }
                        }
                        slot = s;
                        ph = p;
                    }
                }
            }
        }
    } else {
        // ---------------- consumers: the two warpgroups take turns at the tiles ----------------
        const int cw = wg - 1;
        const int wt = threadIdx.x & 127;
        const int warp = wt >> 5;
        const int ct = (int)threadIdx.x - 128;
        const int chunk = ct & 7;
        const int r0 = ct >> 3;                    // rows r0 and r0 + 32
        const u32 adst = abase + (u32)(r0 * 128 + ((chunk ^ (r0 & 7)) << 4));
        const u32 peer = rank ^ 1u;
        const u32 put = map_rank(rbase + wt * 16, peer);
        const u32 putbar = map_rank(rfull0 + 8 * cw, peer);

        int total = 0;
        for (int u = cid; u < UNITS; u += ncl) {
            const int first = (u % NP) * TP;
            const int last = first + TP < NT ? first + TP : NT;
            total += last > first ? last - first : 0;
        }

        int slot = 0;
        u32 ph = 0;
        int q = 0;                                 // tiles of this cluster so far
        u32 turn = 0;                              // tiles of this warpgroup so far
        for (int u = cid; u < UNITS; u += ncl) {
            const int e = u / NP;
            const int first = (u % NP) * TP;
            const int last = first + TP < NT ? first + TP : NT;

            __syncwarp();
            if (u != cid) asm volatile("bar.sync 3, 256;" ::: "memory");
            u32 off[2];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                int m = r0 + 32 * i;
                m = m < P_ROWS ? m : P_ROWS - 1;
                off[i] = (u32)rows[e * P_ROWS + m] * (u32)P_WIDE;
            }
#pragma unroll 4
            for (int kb = 0; kb < KR; ++kb) {
                const int kk = k0 + kb * 64 + chunk * 8;
                const bool in = kk < P_WIDE;
#pragma unroll
                for (int i = 0; i < 2; ++i)
                    copy16(adst + (u32)(kb * 8192 + i * 4096), in ? x + off[i] + kk : x, in);
            }
            asm volatile("cp.async.wait_all;" ::: "memory");
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            __syncwarp();
            asm volatile("bar.sync 3, 256;" ::: "memory");

            for (int nt = first; nt < last; ++nt, ++q) {
                if ((q & 1) != cw) {
                    // the other warpgroup's tile
                    slot += KR;
                    while (slot >= SLOTS) { slot -= SLOTS; ph ^= 1u; }
                    continue;
                }
                if (q > 0) {
                    __syncwarp();
                    asm volatile("bar.sync %0, 256;" :: "r"(1 + cw) : "memory");
                }
                float d[32];
#pragma unroll
                for (int i = 0; i < 32; ++i) d[i] = 0.0f;
                int prev = 0;
#pragma unroll 1
                for (int kb = 0; kb < KR; ++kb) {
                    mbar_wait(full0 + 8 * slot, ph);
                    step(d, abase + kb * 8192, bbase + slot * SLOT_BYTES, kb > 0 ? 1 : 0);
                    asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
                    if (kb > 0 && lane == 0) mbar_arrive(empty0 + 8 * prev);
                    prev = slot;
                    if (++slot == SLOTS) { slot = 0; ph ^= 1u; }
                }
                asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
                if (lane == 0) mbar_arrive(empty0 + 8 * prev);
#pragma unroll
                for (int i = 0; i < 32; ++i) asm volatile("" : "+f"(d[i]) :: "memory");
                __syncwarp();
                if (q + 1 < total) asm volatile("bar.arrive %0, 256;" :: "r"(2 - cw) : "memory");

                // exchange: block 0 finishes rows 0..7 of every 16, block 1 rows 8..15
                float keep[16], give[16];
#pragma unroll
                for (int g = 0; g < 8; ++g) {
#pragma unroll
                    for (int j = 0; j < 2; ++j) {
                        keep[2 * g + j] = rank ? d[4 * g + 2 + j] : d[4 * g + j];
                        give[2 * g + j] = rank ? d[4 * g + j] : d[4 * g + 2 + j];
                    }
                }
                if (wt == 0) mbar_expect(rfull0 + 8 * cw, 8192);
                __syncwarp();
                // the other block has read the tile before from its buffer
                if (cw == 1) mbar_wait_cluster(rfree0 + 8, turn & 1u);
                else if (turn > 0) mbar_wait_cluster(rfree0, (turn - 1u) & 1u);
#pragma unroll
                for (int v = 0; v < 4; ++v)
                    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];"
                                 :: "r"(put + v * 2048), "f"(give[4 * v]), "f"(give[4 * v + 1]),
                                    "f"(give[4 * v + 2]), "f"(give[4 * v + 3]), "r"(putbar) : "memory");
                mbar_wait_cluster(rfull0 + 8 * cw, turn & 1u);
#pragma unroll
                for (int v = 0; v < 4; ++v) {
                    float a0, a1, a2, a3;
                    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                                 : "=f"(a0), "=f"(a1), "=f"(a2), "=f"(a3) : "r"(rbase + wt * 16 + v * 2048) : "memory");
                    keep[4 * v] += a0;
                    keep[4 * v + 1] += a1;
                    keep[4 * v + 2] += a2;
                    keep[4 * v + 3] += a3;
                }
#pragma unroll
                for (int i = 0; i < 16; ++i) asm volatile("" : "+f"(keep[i]) :: "memory");
                __syncwarp();
                if (lane == 0) mbar_arrive_at(rfree0 + 8 * (cw ^ 1), peer);
                ++turn;

                const int row = warp * 16 + (int)rank * 8 + (lane >> 2);
                u16* line = y + ((u64)e * P_ROWS + (u64)row) * P_OUT;
                u32 w[4];
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    w[i] = pack2(swiglu(keep[2 * i], keep[8 + 2 * i]), swiglu(keep[2 * i + 1], keep[9 + 2 * i]));
                store_groups(w, line, row < P_ROWS, nt * 32, 4, lane);
            }
        }
    }
    __syncwarp();
    cluster_sync();
}

#else
// ================================================================ many rows

constexpr int BM = 128;
constexpr int A_BYTES = 16384;
constexpr int STAGE_BYTES = A_BYTES + 32768;
constexpr int KB = (P_WIDE + 63) / 64;
constexpr int MT = (P_ROWS + BM * CL - 1) / (BM * CL);
constexpr int NTW = (P_OUT + 127) / 128;           // wide tiles of 128 columns
constexpr int NTN = (P_OUT + 87) / 88;             // narrow tiles of 88 columns
constexpr int NCL = 132 / CL;
constexpr bool SKEWED = (SKEW > 0) && (KB > SKEW) && (SKEW < STAGES);

// the time of the busiest block where the first em experts have wide tiles and the others narrow ones
__host__ __device__ constexpr int span_of(int em) {
    const int a = em * NTW * MT;
    const int b = a + (P_EXPERTS - em) * NTN * MT;
    int worst = 0;
    for (int c = 0; c < NCL; ++c) {
        const int na = a > c ? (a - c + NCL - 1) / NCL : 0;
        const int nb = b > c ? (b - c + NCL - 1) / NCL : 0;
        const int cost = na * 256 + (nb - na) * 184;
        worst = cost > worst ? cost : worst;
    }
    return worst;
}

__host__ __device__ constexpr int pick_wide() {
    int best = P_EXPERTS;
    int least = span_of(P_EXPERTS);
    for (int em = P_EXPERTS - 1; em >= 0 && em >= P_EXPERTS - 4; --em) {
        const int s = span_of(em);
        if (s < least) { least = s; best = em; }
    }
    return best;
}

constexpr int E_WIDE = TAIL ? pick_wide() : P_EXPERTS;
constexpr int WIDE_TILES = E_WIDE * NTW * MT;
constexpr int TILES = WIDE_TILES + (P_EXPERTS - E_WIDE) * NTN * MT;

__device__ __forceinline__ bool locate(int t, int& e, int& n0, int& mt) {
    mt = t % MT;
    if (t < WIDE_TILES) {
        n0 = ((t / MT) % NTW) * 128;
        e = t / (MT * NTW);
        return true;
    }
    const int s = t - WIDE_TILES;                  // WIDE_TILES is a multiple of MT
    n0 = ((s / MT) % NTN) * 88;
    e = E_WIDE + s / (MT * NTN);
    return false;
}

// one elected lane for each block of the cluster gives the slot back
__device__ __forceinline__ void release(u32 bar, int lane) {
#if CL > 1
    if (lane < CL) mbar_arrive_at(bar, (u32)lane);
#else
    if (lane == 0) mbar_arrive(bar);
#endif
}

// a warpgroup's 64 rows x 8 * G columns: gate in the first half of the sums, up in the second
template <int G>
__device__ __forceinline__ void tile(u32 base, u32 full0, u32 empty0, int& slot, u32& ph, bool& lead,
                                     int cw, int warp, int lane, int e, int n0, int m0, u16* __restrict__ y)
{
    float d[8 * G];
#pragma unroll
    for (int i = 0; i < 8 * G; ++i) d[i] = 0.0f;
    int prev = 0;
#pragma unroll 1
    for (int kb = 0; kb < KB; ++kb) {
        if (SKEWED) {
            if (lead && kb == SKEW) {
                __syncwarp();
                asm volatile("bar.arrive 1, 256;" ::: "memory");
                lead = false;
            }
        }
        mbar_wait(full0 + 8 * slot, ph);
        const u32 sa = base + slot * STAGE_BYTES;
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        step(d, sa + cw * 8192, sa + A_BYTES, kb > 0 ? 1 : 0);
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (kb > 0) release(empty0 + 8 * prev, lane);
        prev = slot;
        if (++slot == STAGES) { slot = 0; ph ^= 1u; }
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    release(empty0 + 8 * prev, lane);
#pragma unroll
    for (int i = 0; i < 8 * G; ++i) asm volatile("" : "+f"(d[i]) :: "memory");
    __syncwarp();

    const int row0 = m0 + cw * 64 + warp * 16 + (lane >> 2);
#pragma unroll
    for (int rr = 0; rr < 2; ++rr) {
        const int row = row0 + rr * 8;
        u16* line = y + ((u64)e * P_ROWS + (u64)row) * P_OUT;
#pragma unroll
        for (int j = 0; j < (G + 3) / 4; ++j) {
            u32 w[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int g = j * 4 + i;
                const int at = (g < G ? g : 0) * 4 + rr * 2;
                w[i] = g < G ? pack2(swiglu(d[at], d[at + 4 * G]), swiglu(d[at + 1], d[at + 4 * G + 1])) : 0u;
            }
            store_groups(w, line, row < P_ROWS, n0 + j * 32, G - j * 4, lane);
        }
    }
}

extern "C" __global__ void CLUSTER_ATTR __launch_bounds__(384, 1)
moe_swiglu(const u16* __restrict__ x, const int* __restrict__ rows,
           const __grid_constant__ TensorMap gate_big, const __grid_constant__ TensorMap up_big,
           const __grid_constant__ TensorMap gate_tail, const __grid_constant__ TensorMap up_tail,
           const __grid_constant__ TensorMap gate_few, const __grid_constant__ TensorMap up_few,
           u16* __restrict__ y)
{
    extern __shared__ __align__(1024) unsigned char smem_raw[];
    __shared__ __align__(8) u64 bars[2 * STAGES];

    const u32 base = (smem_addr(smem_raw) + 1023u) & ~1023u;
    const u32 full0 = smem_addr(bars);
    const u32 empty0 = full0 + 8 * STAGES;
    const int lane = threadIdx.x & 31;
    const int wg = threadIdx.x >> 7;

    u32 rank = 0;
#if CL > 1
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
#endif
    const int cid = (int)blockIdx.x / CL;
    const int ncl = (int)gridDim.x / CL;

    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i) {
            mbar_init(full0 + 8 * i, 128 + 1);
            mbar_init(empty0 + 8 * i, 8 * CL);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
#if CL > 1
    cluster_sync();
#endif

    if (wg == 0) {
        // ---------------- producer ----------------
        asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
        const int tid = threadIdx.x;
        const int chunk = tid & 7;
        const int r0 = tid >> 3;
        const u32 dst0 = (u32)(r0 * 128 + ((chunk ^ (r0 & 7)) << 4));
        int slot = 0;
        u32 ph = 0;
        for (int t = cid; t < TILES; t += ncl) {
            int e, n0, mt;
            const bool wide = locate(t, e, n0, mt);
            const int m0 = (mt * CL + (int)rank) * BM;
            u32 off[BM / 16];
#pragma unroll
            for (int i = 0; i < BM / 16; ++i) {
                int m = m0 + r0 + 16 * i;
                m = m < P_ROWS ? m : P_ROWS - 1;
                off[i] = (u32)rows[e * P_ROWS + m] * (u32)P_WIDE + (u32)(chunk * 8);
            }
#pragma unroll 1
            for (int kb = 0; kb < KB; ++kb) {
                const u32 fb = full0 + 8 * slot;
                const u32 sa = base + slot * STAGE_BYTES;
                mbar_wait(empty0 + 8 * slot, ph ^ 1u);
                if (tid == 0) {
                    const u32 sb = sa + A_BYTES;
                    if (wide) {
                        mbar_expect(fb, 32768);
#if CL > 1
                        if (rank == 0) tma_load_both(&gate_big, sb, fb, kb * 64, n0, e);
                        else tma_load_both(&up_big, sb + 16384, fb, kb * 64, n0, e);
#else
                        tma_load(&gate_big, sb, fb, kb * 64, n0, e);
                        tma_load(&up_big, sb + 16384, fb, kb * 64, n0, e);
#endif
                    } else {
                        mbar_expect(fb, 22528);
#if CL > 1
                        if (rank == 0) tma_load_both(&gate_tail, sb, fb, kb * 64, n0, e);
                        else tma_load_both(&up_tail, sb + 11264, fb, kb * 64, n0, e);
#else
                        tma_load(&gate_tail, sb, fb, kb * 64, n0, e);
                        tma_load(&up_tail, sb + 11264, fb, kb * 64, n0, e);
#endif
                    }
                }
                const u16* xk = x + kb * 64;
#pragma unroll
                for (int i = 0; i < BM / 16; ++i) {
                    const u32 dst = sa + dst0 + (u32)(i * 2048);
                    if constexpr (P_WIDE % 64 == 0) {
                        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(dst), "l"(xk + off[i]) : "memory");
                    } else {
                        const bool in = kb * 64 + chunk * 8 < P_WIDE;
                        copy16(dst, in ? xk + off[i] : x, in);
                    }
                }
                asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(fb) : "memory");
                if (++slot == STAGES) { slot = 0; ph ^= 1u; }
            }
        }
        asm volatile("cp.async.wait_all;" ::: "memory");
    } else {
        // ---------------- consumers ----------------
        asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
        const int cw = wg - 1;
        const int warp = (threadIdx.x >> 5) & 3;
        int slot = 0;
        u32 ph = 0;
        bool lead = SKEWED && cw == 0;
        if (SKEWED && cw == 1 && cid < TILES) {
            __syncwarp();
            asm volatile("bar.sync 1, 256;" ::: "memory");
        }
        for (int t = cid; t < TILES; t += ncl) {
            int e, n0, mt;
            const bool wide = locate(t, e, n0, mt);
            const int m0 = (mt * CL + (int)rank) * BM;
            if (wide) tile<16>(base, full0, empty0, slot, ph, lead, cw, warp, lane, e, n0, m0, y);
            else tile<11>(base, full0, empty0, slot, ph, lead, cw, warp, lane, e, n0, m0, y);
        }
    }
#if CL > 1
    __syncwarp();
    cluster_sync();
#endif
}
#endif
