/*forewarp
format = 1
inputs = ["left", "right", "gate"]
outputs = ["out"]

[tunables]
STAGES = [4, 3]

[constants]
NPIX = "left.shape[1]"
NCH = "left.shape[3]"
NROW = "cdiv(left.shape[1], 256) * 256"
KSLABS = "cdiv(left.shape[1], 64)"
NB = "192 if left.shape[1] % 192 == 0 else 256"

[let]
nb = "left.shape[0]"

[scratch]
t = { dtype = "bfloat16", shape = ["2 * left.shape[0] * left.shape[3] * KSLABS * 64 * NROW"] }
edge = { dtype = "bfloat16", shape = ["8 if left.shape[1] % 32 == 0 else left.shape[0] * (cdiv(left.shape[1], 8) + cdiv(left.shape[1], 32)) * 256 * left.shape[3]"] }

[[launch]]
kernel = "to_slabs"
args = ["left", "right", "t", "nb"]
grid = ["KSLABS", "cdiv(NPIX, 8)", "2 * nb"]
block = ["64 * (NCH // 8)"]
shared = "0"

[[launch]]
kernel = "slab_gemm"
args = ["t", "out", "edge", "nb"]
grid = ["132"]
block = [288]
shared = "STAGES * (128 + NB) * 128 + 1024"

[[launch]]
kernel = "finish"
args = ["gate", "out", "edge"]
grid = ["cdiv(NPIX, 32)", "cdiv(NPIX, 8)", "nb"]
block = ["32 * (NCH // 8)"]
shared = "0"
*/
#include <cuda_bf16.h>

// Channel slabs in the very layout of swizzled shared memory, so that plain bulk copies feed the tensor cores without tensor maps.

typedef unsigned int u32;
typedef unsigned long long u64;

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define WG 1
#else
#define WG 0
#endif

#define MT 1
#define BM 128
#define CL 1
#define GR (NCH / 8)
#define NIB ((NPIX + 7) / 8)
#define NJB ((NPIX + 31) / 32)
#define ABYTES (BM * 128)
#define BBYTES (NB * 128)
#define STAGE (ABYTES + BBYTES)
#define NACC (NB / 2)
#define RELEASE(s) bar_arrive(empty + 8 * (s))

// ---------------------------------------------------------------- operands
// [b, i, k, c] -> slabs [tensor, b, c, k / 64, i, 64 k]: rows of 128 bytes whose 16-byte chunks are stored in the order that
// shared memory wants (chunk ^ row % 8). A thread turns 8 k x 8 channels in registers.
extern "C" __global__ void to_slabs(const __nv_bfloat16* __restrict__ left, const __nv_bfloat16* __restrict__ right,
                                    __nv_bfloat16* __restrict__ t, int nb) {
    const int g = threadIdx.x % GR, q = threadIdx.x / GR % 8, r = threadIdx.x / (GR * 8);
    const int slab = blockIdx.x, i = blockIdx.y * 8 + r;
    const int which = blockIdx.z / nb, b = blockIdx.z % nb;
    if (i >= NPIX) return;
    const int k0 = slab * 64 + q * 8;
    const __nv_bfloat16* src = (which ? right : left) + ((size_t)(b * NPIX + i) * NPIX + k0) * NCH + g * 8;
    uint4 v[8];
#pragma unroll
    for (int k = 0; k < 8; k++) {
        v[k] = make_uint4(0, 0, 0, 0);
        if (k0 + k < NPIX) v[k] = __ldcs(reinterpret_cast<const uint4*>(src + k * NCH));
    }
    const size_t plane = (size_t)(which * nb + b) * NCH + g * 8;
    __nv_bfloat16* dst = t + ((plane * KSLABS + slab) * NROW + i) * 64 + ((q ^ (i & 7)) << 3);
#pragma unroll
    for (int e = 0; e < 8; e++) {
        const u32 sel = (e & 1) ? 0x7632 : 0x5410;
        u32 w[8];
#pragma unroll
        for (int k = 0; k < 8; k++) w[k] = (e >> 1) == 0 ? v[k].x : (e >> 1) == 1 ? v[k].y : (e >> 1) == 2 ? v[k].z : v[k].w;
        uint4 o;
        o.x = __byte_perm(w[0], w[1], sel);
        o.y = __byte_perm(w[2], w[3], sel);
        o.z = __byte_perm(w[4], w[5], sel);
        o.w = __byte_perm(w[6], w[7], sel);
        *reinterpret_cast<uint4*>(dst + (size_t)e * KSLABS * NROW * 64) = o;
    }
}

// ---------------------------------------------------------------- products
__device__ __forceinline__ u32 sptr(const void* p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void bar_init(u32 bar, u32 n) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(n) : "memory");
}

__device__ __forceinline__ void bar_wait(u32 bar, u32 parity) {
    u32 ok = 0;
    while (!ok) {
        asm volatile(
            "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}\n"
            : "=r"(ok) : "r"(bar), "r"(parity) : "memory");
    }
}

__device__ __forceinline__ void bar_expect(u32 bar, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

__device__ __forceinline__ void bar_arrive(u32 bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}

__device__ __forceinline__ void bulk(u32 dst, const void* src, u32 bytes, u32 bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(dst), "l"(src),
                 "r"(bytes), "r"(bar)
                 : "memory");
}

#if CL == 2
__device__ __forceinline__ void bulk_both(u32 dst, const void* src, u32 bytes, u32 bar) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;" ::"r"(dst),
        "l"(src), "r"(bytes), "r"(bar), "h"((unsigned short)3)
        : "memory");
}

__device__ __forceinline__ void bar_arrive_at(u32 bar, u32 rank) {
    asm volatile(
        "{\n.reg .b32 a;\nmapa.shared::cluster.u32 a, %0, %1;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, [a];\n}\n" ::"r"(
            bar),
        "r"(rank)
        : "memory");
}

__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::: "memory");
}
#endif

#if WG
__device__ __forceinline__ u64 desc(u32 at) {
    return (u64)((at & 0x3FFFF) >> 4) | ((u64)1 << 16) | ((u64)64 << 32) | ((u64)1 << 62);
}

#if NB == 192
__device__ __forceinline__ void wgmma(float* d, unsigned long long da, unsigned long long db, int scale) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %98, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95}, "
        "%96, %97, p, 1, 1, 0, 0;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
          "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
          "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
          "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
          "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
          "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
          "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),
          "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
        : "l"(da), "l"(db), "r"(scale));
}
#endif
#if NB == 256
__device__ __forceinline__ void wgmma(float* d, unsigned long long da, unsigned long long db, int scale) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127}, "
        "%128, %129, p, 1, 1, 0, 0;\n}\n"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
          "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
          "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
          "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
          "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
          "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
          "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
          "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
          "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
          "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),
          "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),
          "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]), "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
          "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]), "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]),
          "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]), "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]),
          "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]), "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
        : "l"(da), "l"(db), "r"(scale));
}
#endif
#else
__device__ __forceinline__ void ldm(u32 at, u32* r) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}

__device__ __forceinline__ void mma(float* d, const u32* a, const u32* b) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

__device__ __forceinline__ u32 two(float a, float b) {
    __nv_bfloat162 r = __floats2bfloat162_rn(a, b);
    return *reinterpret_cast<u32*>(&r);
}

// where the 512 bytes of channel c of the 8 x 32 block (ib, jb) wait: in the block's own bytes of `out`, or, for a block that
// the border cuts, aside
__device__ __forceinline__ __nv_bfloat16* place(__nv_bfloat16* out, __nv_bfloat16* edge, int b, int ib, int jb, int c) {
    if (NPIX % 32 == 0 || (ib * 8 + 8 <= NPIX && jb * 32 + 32 <= NPIX))
        return out + ((size_t)(b * NPIX + ib * 8 + c / GR) * NPIX + jb * 32) * NCH + (c % GR) * 256;
    const int slot = b * (NIB + NJB) + (jb * 32 + 32 > NPIX ? ib : NIB + jb);
    return edge + ((size_t)slot * NCH + c) * 256;
}

extern "C" __global__ void __launch_bounds__(288, 1) slab_gemm(const __nv_bfloat16* __restrict__ t, __nv_bfloat16* __restrict__ out,
                                                         __nv_bfloat16* __restrict__ edge, int nb) {
    extern __shared__ unsigned char raw[];
    __shared__ __align__(8) u64 bars[2 * STAGES];
    const u32 base = (sptr(raw) + 1023) & ~1023u;
    const u32 full = sptr(bars), empty = full + 8 * STAGES;
    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const int planes = nb * NCH;
    const int NM = (NPIX + BM * CL - 1) / (BM * CL), NJ = (NPIX + NB - 1) / NB;
    const int total = planes * NM * NJ;
#if CL == 2
    const int rank = blockIdx.x & 1;
#else
    const int rank = 0;
#endif
    const int first = blockIdx.x / CL, step = gridDim.x / CL;

    if (tid == 0) {
        for (int s = 0; s < STAGES; s++) {
            bar_init(full + 8 * s, 1);
            bar_init(empty + 8 * s, 8 * CL);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
#if CL == 2
    cluster_sync();
#endif

    if (warp == 8) {
        // the warp that loads
        if (lane == 0) {
            int stage = 0;
            u32 phase = 0;
            for (int u = first; u < total; u += step) {
                const int p = u / (NM * NJ), rem = u % (NM * NJ);
                const int i0 = ((rem / NJ) * CL + rank) * BM, j0 = (rem % NJ) * NB;
                const __nv_bfloat16* pa = t + ((size_t)p * KSLABS * NROW + i0) * 64;
                const __nv_bfloat16* pb = t + ((size_t)(planes + p) * KSLABS * NROW + j0) * 64;
                for (int k = 0; k < KSLABS; k++) {
                    bar_wait(empty + 8 * stage, phase ^ 1);
                    const u32 at = base + stage * STAGE;
                    const u32 fb = full + 8 * stage;
                    bar_expect(fb, STAGE);
                    bulk(at, pa, ABYTES, fb);
#if CL == 2
                    bulk_both(at + ABYTES + rank * (BBYTES / 2), pb + rank * (NB / 2) * 64, BBYTES / 2, fb);
#else
                    bulk(at + ABYTES, pb, BBYTES, fb);
#endif
                    pa += (size_t)NROW * 64;
                    pb += (size_t)NROW * 64;
                    if (++stage == STAGES) {
                        stage = 0;
                        phase ^= 1;
                    }
                }
            }
        }
    } else {
        int stage = 0;
        u32 phase = 0;
        float d[MT * NACC];
        for (int u = first; u < total; u += step) {
            const int p = u / (NM * NJ), rem = u % (NM * NJ);
            const int i0 = ((rem / NJ) * CL + rank) * BM, j0 = (rem % NJ) * NB;
            const int b = p / NCH, c = p % NCH;
#if WG
            int held = -1;
#pragma unroll 1
            for (int k = 0; k < KSLABS; k++) {
                bar_wait(full + 8 * stage, phase);
                const u32 at = base + stage * STAGE;
                const u64 da = desc(at + (warp >> 2) * (MT * 8192));
                const u64 db = desc(at + ABYTES);
                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
                for (int kk = 0; kk < 4; kk++)
#pragma unroll
                    for (int m = 0; m < MT; m++) wgmma(d + m * NACC, da + m * 512 + kk * 2, db + kk * 2, (k > 0 || kk > 0) ? 1 : 0);
                asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
                asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
                if (lane == 0 && held >= 0) { RELEASE(held); }
                held = stage;
                if (++stage == STAGES) {
                    stage = 0;
                    phase ^= 1;
                }
            }
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
            for (int x = 0; x < MT * NACC; x++) asm volatile("" : "+f"(d[x])::"memory");
            if (lane == 0) { RELEASE(held); }
#pragma unroll
            for (int m = 0; m < MT; m++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const int ib = (i0 + (warp >> 2) * (MT * 64) + m * 64 + (warp & 3) * 16 + h * 8) / 8;
                    if (ib >= NIB) continue;
#pragma unroll
                    for (int v = 0; v < NB / 32; v++) {
                        const int jb = j0 / 32 + v;
                        const float* f = d + m * NACC + v * 16 + h * 2;
                        if (jb < NJB)
                            *reinterpret_cast<uint4*>(place(out, edge, b, ib, jb, c) + lane * 8) =
                                make_uint4(two(f[0], f[1]), two(f[4], f[5]), two(f[8], f[9]), two(f[12], f[13]));
                    }
                }
#else
#pragma unroll
            for (int x = 0; x < MT * NACC; x++) d[x] = 0.0f;
            const int wr = (warp & 3) * (32 * MT), wc = (warp >> 2) * (NB / 2);
#pragma unroll 1
            for (int k = 0; k < KSLABS; k++) {
                bar_wait(full + 8 * stage, phase);
                const u32 at = base + stage * STAGE;
#pragma unroll
                for (int kk = 0; kk < 4; kk++) {
                    u32 a[2 * MT][4];
#pragma unroll
                    for (int m = 0; m < 2 * MT; m++) {
                        const int row = wr + m * 16 + (lane & 15);
                        ldm(at + row * 128 + (((kk * 2 + (lane >> 4)) ^ (row & 7)) << 4), a[m]);
                    }
#pragma unroll
                    for (int n = 0; n < NB / 32; n++) {
                        u32 bb[4];
                        const int row = wc + n * 16 + (lane & 7) + ((lane >> 4) << 3);
                        ldm(at + ABYTES + row * 128 + (((kk * 2 + ((lane >> 3) & 1)) ^ (row & 7)) << 4), bb);
#pragma unroll
                        for (int m = 0; m < 2 * MT; m++) {
                            mma(d + (m * (NB / 16) + 2 * n) * 4, a[m], bb);
                            mma(d + (m * (NB / 16) + 2 * n + 1) * 4, a[m], bb + 2);
                        }
                    }
                }
                __syncwarp();
                if (lane == 0) { RELEASE(stage); }
                if (++stage == STAGES) {
                    stage = 0;
                    phase ^= 1;
                }
            }
#pragma unroll
            for (int m = 0; m < 2 * MT; m++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    const int ib = (i0 + wr + m * 16 + h * 8) / 8;
                    if (ib >= NIB) continue;
#pragma unroll
                    for (int v = 0; v < NB / 64; v++) {
                        const int jb = (j0 + wc) / 32 + v;
                        const float* f = d + (m * (NB / 16) + 4 * v) * 4 + h * 2;
                        if (jb < NJB)
                            *reinterpret_cast<uint4*>(place(out, edge, b, ib, jb, c) + lane * 8) =
                                make_uint4(two(f[0], f[1]), two(f[4], f[5]), two(f[8], f[9]), two(f[12], f[13]));
                    }
                }
#endif
        }
    }
#if CL == 2
    __syncwarp();
    cluster_sync();
#endif
}

// ---------------------------------------------------------------- gate, in place
__device__ __forceinline__ u32 gated(u32 u, u32 g) {
    const float ul = __uint_as_float(u << 16), uh = __uint_as_float(u & 0xffff0000u);
    const float gl = __uint_as_float(g << 16), gh = __uint_as_float(g & 0xffff0000u);
    return two(__fdividef(ul, 1.0f + __expf(-gl)), __fdividef(uh, 1.0f + __expf(-gh)));
}

// must not be moved behind the barrier
__device__ __forceinline__ uint4 load_now(const void* p) {
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
    return v;
}

// a block of 8 x 32 pixels, all channels; a thread has 8 pixels x 8 channels and turns them in registers
extern "C" __global__ void finish(const __nv_bfloat16* __restrict__ gate, __nv_bfloat16* out, __nv_bfloat16* edge) {
    const int jb = blockIdx.x, ib = blockIdx.y, b = blockIdx.z;
    const int cg = threadIdx.x % GR, l = threadIdx.x / GR;
    const int i = ib * 8 + (l >> 2), j = jb * 32 + 2 * (l & 3);
    const size_t at = ((size_t)(b * NPIX + i) * NPIX + j) * NCH + cg * 8;
    uint4 u[8], g[8];
#pragma unroll
    for (int e = 0; e < 8; e++)
        u[e] = load_now(place(out, edge, b, ib, jb, cg * 8 + e) + l * 8);
#pragma unroll
    for (int x = 0; x < 8; x++) {
        g[x] = make_uint4(0, 0, 0, 0);
        const int dj = (x >> 1) * 8 + (x & 1);
        if (i < NPIX && j + dj < NPIX) g[x] = __ldcs(reinterpret_cast<const uint4*>(gate + at + (size_t)dj * NCH));
    }
    __syncthreads();
#pragma unroll
    for (int x = 0; x < 8; x++) {
        const int q = x >> 1, dj = q * 8 + (x & 1);
        const u32 sel = (x & 1) ? 0x7632 : 0x5410;
        u32 w[8];
#pragma unroll
        for (int e = 0; e < 8; e++) w[e] = q == 0 ? u[e].x : q == 1 ? u[e].y : q == 2 ? u[e].z : u[e].w;
        uint4 o;
        o.x = gated(__byte_perm(w[0], w[1], sel), g[x].x);
        o.y = gated(__byte_perm(w[2], w[3], sel), g[x].y);
        o.z = gated(__byte_perm(w[4], w[5], sel), g[x].z);
        o.w = gated(__byte_perm(w[6], w[7], sel), g[x].w);
        if (i < NPIX && j + dj < NPIX) *reinterpret_cast<uint4*>(out + at + (size_t)dj * NCH) = o;
    }
}
