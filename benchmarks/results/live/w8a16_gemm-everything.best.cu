/*forewarp
format = 1
inputs = ["x", "w", "scale"]
outputs = ["y"]

[tunables]
CL = [2, 4, 1]
DST = [3, 2]
KI = [0, 1]
OST = [4, 3]

[constants]
MM = "x.shape[0]"
NN = "w.shape[0]"
KK = "x.shape[1]"

[[launch]]
kernel = "w8a16_rings"
args = ["x", "w", "scale", "y"]
grid = ["cdiv(NN, 112 * CL) * CL if MM <= 32 else cdiv(NN, 192) * 4 * cdiv(cdiv(MM, 4), 80)"]
block = ["256"]
shared = "max(DST * 57344, 118784) if MM <= 32 else OST * 47616"
*/

#include <cuda_fp16.h>

typedef unsigned int u32;

__device__ __forceinline__ u32 smem_u32(const void *p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void cp16(u32 dst, const void *src) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;\n" ::"r"(dst), "l"(src) : "memory");
}
__device__ __forceinline__ void cp16z(u32 dst, const void *src, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
}
__device__ __forceinline__ void cp8z(u32 dst, const void *src, int bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;\n" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
}
__device__ __forceinline__ void cp_commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
template <int P>
__device__ __forceinline__ void cp_wait() { asm volatile("cp.async.wait_group %0;\n" ::"n"(P) : "memory"); }

__device__ __forceinline__ uint4 lds128(u32 a) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];\n" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(a) : "memory");
    return v;
}
__device__ __forceinline__ u32 lds32(u32 a) {
    u32 v;
    asm volatile("ld.shared.u32 %0, [%1];\n" : "=r"(v) : "r"(a) : "memory");
    return v;
}

// four int8 -> two half2, exact
__device__ __forceinline__ void dq(u32 v, u32 &lo, u32 &hi) {
    u32 u = v ^ 0x80808080u;
    u32 p = __byte_perm(u, 0x64646464u, 0x4140);
    u32 q = __byte_perm(u, 0x64646464u, 0x4342);
    asm("sub.f16x2 %0, %1, %2;\n" : "=r"(lo) : "r"(p), "r"(0x64806480u));
    asm("sub.f16x2 %0, %1, %2;\n" : "=r"(hi) : "r"(q), "r"(0x64806480u));
}

__device__ __forceinline__ void mma(float (&c)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

#if MM <= 32
// ---------------------------------------------------------------- decode
// A warp owns 112 channels and an eighth of K. Every thread streams the 16-byte pieces of its own
// mma fragments through a private ring in shared memory: no barrier in the loop. A cluster of CL
// blocks splits K, so that a block reads only 1/CL of x; partial sums meet in shared memory.
#if CL > 1
#define CLUSTER_ATTR __cluster_dims__(CL, 1, 1)
#else
#define CLUSTER_ATTR
#endif
#if KI
#define KOFS 64
#define KSTEP 512
#else
#define KOFS (KK / 8)
#define KSTEP 64
#endif
#define KSL (KK / 8)
#define STEPS (KSL / 64)
#define RP 116

extern "C" __global__ void CLUSTER_ATTR __launch_bounds__(256, 1)
w8a16_rings(const __half *__restrict__ x, const signed char *__restrict__ w,
            const __half *__restrict__ scale, __half *__restrict__ y) {
    extern __shared__ __align__(128) unsigned char smem[];
    const u32 sb = smem_u32(smem);
    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const int g = lane >> 2, t = lane & 3;
    const int rank = blockIdx.x % CL;
    const int nbase = (blockIdx.x / CL) * (112 * CL);
    const int cg = warp % CL, kg = warp / CL;
    const int k0 = (rank * (8 / CL) + kg) * KOFS;
    const int n0 = nbase + cg * 112;
    const u32 mine = sb + tid * 16;

    const signed char *wp = w + k0 + 16 * t;
    const __half *xp = x + k0 + 16 * t;

    auto row = [&](int i) -> int {
        int r = n0 + g + 8 * i;
        if (NN % (112 * CL)) r = r < NN ? r : NN - 1;
        return r * KK;
    };
    auto xrow = [&](int i) -> int {
        int r = g + 8 * i;
        if (MM < 32) r = r < MM ? r : MM - 1;
        return r * KK;
    };

    float acc[7][4][4];
#pragma unroll
    for (int a = 0; a < 7; a++)
#pragma unroll
        for (int b = 0; b < 4; b++)
#pragma unroll
            for (int c = 0; c < 4; c++) acc[a][b][c] = 0.f;

#pragma unroll
    for (int s = 0; s < DST - 1; s++) {
#pragma unroll
        for (int i = 0; i < 14; i++) cp16(mine + s * 57344 + i * 4096, wp + row(i) + s * KSTEP);
        cp_commit();
    }
    uint4 xa[8], xn[8];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const uint4 *p = (const uint4 *)(xp + xrow(i));
        xa[2 * i] = __ldg(p);
        xa[2 * i + 1] = __ldg(p + 1);
    }
    int slot = 0, fill = DST - 1;
#pragma unroll 1
    for (int s = 0; s < STEPS; s++) {
        cp_wait<DST - 2>();
        if (s + DST - 1 < STEPS) {
            const u32 d = mine + fill * 57344;
            const signed char *ws = wp + (s + DST - 1) * KSTEP;
#pragma unroll
            for (int i = 0; i < 14; i++) cp16(d + i * 4096, ws + row(i));
        }
        cp_commit();
        {
            const int sn = s + 1 < STEPS ? s + 1 : s;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const uint4 *p = (const uint4 *)(xp + xrow(i) + sn * KSTEP);
                xn[2 * i] = __ldg(p);
                xn[2 * i + 1] = __ldg(p + 1);
            }
        }
        const u32 src = mine + slot * 57344;
#pragma unroll
        for (int mt = 0; mt < 7; mt++) {
            const uint4 va = lds128(src + (2 * mt) * 4096);
            const uint4 vb = lds128(src + (2 * mt + 1) * 4096);
            const u32 wa[4] = {va.x, va.y, va.z, va.w};
            const u32 wb[4] = {vb.x, vb.y, vb.z, vb.w};
#pragma unroll
            for (int j = 0; j < 4; j++) {
                u32 a0, a1, a2, a3;
                dq(wa[j], a0, a2);
                dq(wb[j], a1, a3);
#pragma unroll
                for (int nt = 0; nt < 4; nt++) {
                    const uint4 xv = xa[2 * nt + (j >> 1)];
                    mma(acc[mt][nt], a0, a1, a2, a3, (j & 1) ? xv.z : xv.x, (j & 1) ? xv.w : xv.y);
                }
            }
        }
#pragma unroll
        for (int i = 0; i < 8; i++) xa[i] = xn[i];
        slot = slot + 1 == DST ? 0 : slot + 1;
        fill = fill + 1 == DST ? 0 : fill + 1;
    }
    cp_wait<0>();
    __syncthreads();
    float *red = (float *)smem;
    {
        float *o = red + warp * (32 * RP);
#pragma unroll
        for (int mt = 0; mt < 7; mt++)
#pragma unroll
            for (int nt = 0; nt < 4; nt++) {
                const int m = nt * 8 + 2 * t, c = mt * 16 + g;
                o[m * RP + c] = acc[mt][nt][0];
                o[(m + 1) * RP + c] = acc[mt][nt][1];
                o[m * RP + c + 8] = acc[mt][nt][2];
                o[(m + 1) * RP + c + 8] = acc[mt][nt][3];
            }
    }
#if CL > 1
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::: "memory");
#else
    __syncthreads();
#endif
    for (int id = tid; id < 28 * 32; id += 256) {
        const int m = id / 28, c = (id % 28) * 4;
        float s0 = 0.f, s1 = 0.f, s2 = 0.f, s3 = 0.f;
#pragma unroll
        for (int rr = 0; rr < CL; rr++) {
#pragma unroll
            for (int q = 0; q < 8 / CL; q++) {
                const u32 a = sb + (u32)(((q * CL + rank) * (32 * RP) + m * RP + c) * 4);
                float f0, f1, f2, f3;
#if CL > 1
                u32 ra;
                asm volatile("mapa.shared::cluster.u32 %0, %1, %2;\n" : "=r"(ra) : "r"(a), "r"(rr));
                asm volatile("ld.shared::cluster.v4.f32 {%0,%1,%2,%3}, [%4];\n"
                             : "=f"(f0), "=f"(f1), "=f"(f2), "=f"(f3) : "r"(ra) : "memory");
#else
                asm volatile("ld.shared.v4.f32 {%0,%1,%2,%3}, [%4];\n"
                             : "=f"(f0), "=f"(f1), "=f"(f2), "=f"(f3) : "r"(a) : "memory");
#endif
                s0 += f0; s1 += f1; s2 += f2; s3 += f3;
            }
        }
        const int n = nbase + rank * 112 + c;
        const float v[4] = {s0, s1, s2, s3};
        if (m < MM) {
            if (NN % 4 == 0 && n + 3 < NN) {
                __half2 h0 = __floats2half2_rn(v[0] * __half2float(scale[n]), v[1] * __half2float(scale[n + 1]));
                __half2 h1 = __floats2half2_rn(v[2] * __half2float(scale[n + 2]), v[3] * __half2float(scale[n + 3]));
                uint2 o;
                o.x = *(u32 *)&h0;
                o.y = *(u32 *)&h1;
                *(uint2 *)(y + m * NN + n) = o;
            } else {
#pragma unroll
                for (int e = 0; e < 4; e++)
                    if (n + e < NN) y[m * NN + n + e] = __float2half_rn(v[e] * __half2float(scale[n + e]));
            }
        }
    }
#if CL > 1
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::: "memory");
#endif
}

#else
// ---------------------------------------------------------------- any K, larger M
// Block: 192 channels x 80 rows of x, 4 channel groups x 2 halves of K. The rows of x of a block are
// m = d (mod 4): they all start at the same place of an 8-byte chunk, so that x too comes straight by
// asynchronous copies, from a elements before the row; the weights are read a bytes earlier (their
// byte shift is undone with funnel shifts anyway), and weight bytes outside of their row become zero.
#define KH ((KK + 3 + 127) / 128 * 64)
#define STEPS (KH / 64)
#define WSLOT 24576
#define XPIECE 11520
#define STAGE 47616
#define RP 52
#define OP 200

extern "C" __global__ void __launch_bounds__(256, 1)
w8a16_rings(const __half *__restrict__ x, const signed char *__restrict__ w,
            const __half *__restrict__ scale, __half *__restrict__ y) {
    extern __shared__ __align__(128) unsigned char smem[];
    const u32 sb = smem_u32(smem);
    const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const int g = lane >> 2, t = lane & 3;
    const int wg = warp & 3, kg = warp >> 2;
    const int RT = ((MM + 3) / 4 + 79) / 80;
    const int cls = blockIdx.x & 3;
    const int i0 = ((blockIdx.x >> 2) % RT) * 80;
    const int nb = ((blockIdx.x >> 2) / RT) * 192;
    const int a = (cls * KK) & 3;
    const int n0 = nb + wg * 48;
    const int NKB = NN * KK;

    // weight stream: this lane copies chunk t of rows g + 8 i
    int wof[6];
#pragma unroll
    for (int i = 0; i < 6; i++) {
        int r = n0 + g + 8 * i;
        r = r < NN ? r : NN - 1;
        wof[i] = ((r * KK - a + kg * KH) & ~15) + 16 * t;
    }
    const u32 wring = sb + warp * 3072;
    // x: this thread copies 4 columns of rows tid / 16 + 16 c of both halves of K
    int xof[5];
#pragma unroll
    for (int c = 0; c < 5; c++) {
        int m = cls + 4 * (i0 + (tid >> 4) + 16 * c);
        m = m < MM ? m : (cls < MM ? cls : 0);
        xof[c] = m * KK - a + (tid & 15) * 4;
    }
    const u32 xdst = sb + WSLOT + (tid >> 4) * 144 + (tid & 15) * 8;
    auto issue = [&](int s, int slot) {
        const u32 d = wring + slot * STAGE + g * 64 + t * 16;
#pragma unroll
        for (int i = 0; i < 6; i++) {
            const int at = wof[i] + s * 64;
            int left = NKB - at;
            left = left > 16 ? 16 : (left < 0 ? 0 : left);
            if (at < 0) left = 0;
            cp16z(d + i * 512, w + (left > 0 ? at : 0), left);
        }
        const u32 xd = xdst + slot * STAGE;
#pragma unroll
        for (int c = 0; c < 10; c++) {
            const int e = xof[c % 5] + (c / 5) * KH + s * 64;
            int left = (MM * KK - e) * 2;
            left = left > 8 ? 8 : (left < 0 ? 0 : left);
            cp8z(xd + (c / 5) * XPIECE + (c % 5) * (16 * 144), x + (left > 0 ? e : 0), left);
        }
    };
    // fragment reads: word offsets in the stream for rows g + 16 i and g + 8 + 16 i
    const int shA = ((n0 + g) * KK - a) & 15;
    const int shB = ((n0 + g + 8) * KK - a) & 15;
    const u32 fsA = (shA & 3) * 8, fsB = (shB & 3) * 8;
    const int woA = (shA >> 2) + 4 * t, woB = (shB >> 2) + 4 * t;

    float acc[3][10][4];
#pragma unroll
    for (int a = 0; a < 3; a++)
#pragma unroll
        for (int b = 0; b < 10; b++)
#pragma unroll
            for (int c = 0; c < 4; c++) acc[a][b][c] = 0.f;

#pragma unroll
    for (int s = 0; s < OST - 1; s++) {
        if (s <= STEPS) issue(s, s);
        cp_commit();
    }

    int slot = 0, fill = OST - 1;
#pragma unroll 1
    for (int s = 0; s < STEPS; s++) {
        cp_wait<OST - 3>();
        __syncthreads();
        if (s + OST - 1 <= STEPS) issue(s + OST - 1, fill);
        cp_commit();

        const int nslot = slot + 1 == OST ? 0 : slot + 1;
        const u32 ra = wring + slot * STAGE + g * 64;
        const u32 rb = wring + nslot * STAGE + g * 64;
        u32 wv[3][2][4];
        {
            u32 adA[5], adB[5];
#pragma unroll
            for (int i = 0; i < 5; i++) {
                const int va = woA + i, vb = woB + i;
                adA[i] = (va < 16 ? ra : rb) + (va & 15) * 4;
                adB[i] = (vb < 16 ? ra : rb) + (vb & 15) * 4 + 512;
            }
#pragma unroll
            for (int mt = 0; mt < 3; mt++) {
                u32 q[5], p[5];
#pragma unroll
                for (int i = 0; i < 5; i++) {
                    q[i] = lds32(adA[i] + mt * 1024);
                    p[i] = lds32(adB[i] + mt * 1024);
                }
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    wv[mt][0][j] = __funnelshift_r(q[j], q[j + 1], fsA);
                    wv[mt][1][j] = __funnelshift_r(p[j], p[j + 1], fsB);
                }
            }
        }
        if (kg * KH + s * 64 < a || kg * KH + s * 64 + 64 > KK + a) {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int kw = kg * KH + s * 64 + 16 * t + 4 * j;
                u32 mask = 0;
#pragma unroll
                for (int e = 0; e < 4; e++)
                    if (kw + e >= a && kw + e < KK + a) mask |= 0xffu << (8 * e);
#pragma unroll
                for (int mt = 0; mt < 3; mt++) {
                    wv[mt][0][j] &= mask;
                    wv[mt][1][j] &= mask;
                }
            }
        }
        const u32 xb = sb + slot * STAGE + WSLOT + kg * XPIECE + g * 144 + t * 32;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            u32 A[3][2][4];
#pragma unroll
            for (int mt = 0; mt < 3; mt++)
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    dq(wv[mt][0][2 * h + j], A[mt][j][0], A[mt][j][2]);
                    dq(wv[mt][1][2 * h + j], A[mt][j][1], A[mt][j][3]);
                }
#pragma unroll
            for (int nt = 0; nt < 10; nt++) {
                const uint4 b = lds128(xb + nt * (8 * 144) + h * 16);
#pragma unroll
                for (int mt = 0; mt < 3; mt++)
                    mma(acc[mt][nt], A[mt][0][0], A[mt][0][1], A[mt][0][2], A[mt][0][3], b.x, b.y);
#pragma unroll
                for (int mt = 0; mt < 3; mt++)
                    mma(acc[mt][nt], A[mt][1][0], A[mt][1][1], A[mt][1][2], A[mt][1][3], b.z, b.w);
            }
        }
        slot = nslot;
        fill = fill + 1 == OST ? 0 : fill + 1;
    }
    cp_wait<0>();
    __syncthreads();

    // add the halves of K, scale, and write rows of y
    float *red = (float *)smem + wg * (80 * RP);
    __half *out = (__half *)(smem + 4 * 80 * RP * 4);
    if (kg == 1) {
#pragma unroll
        for (int mt = 0; mt < 3; mt++)
#pragma unroll
            for (int nt = 0; nt < 10; nt++) {
                const int m = nt * 8 + 2 * t, c = mt * 16 + g;
                red[m * RP + c] = acc[mt][nt][0];
                red[(m + 1) * RP + c] = acc[mt][nt][1];
                red[m * RP + c + 8] = acc[mt][nt][2];
                red[(m + 1) * RP + c + 8] = acc[mt][nt][3];
            }
    }
    __syncthreads();
    if (kg == 0) {
#pragma unroll
        for (int mt = 0; mt < 3; mt++) {
            const int c = mt * 16 + g;
            const int na = n0 + c < NN ? n0 + c : NN - 1;
            const int nc = n0 + c + 8 < NN ? n0 + c + 8 : NN - 1;
            const float sa = __half2float(scale[na]), sc = __half2float(scale[nc]);
#pragma unroll
            for (int nt = 0; nt < 10; nt++) {
                const int m = nt * 8 + 2 * t;
                __half *o = out + wg * 48 + c;
                o[m * OP] = __float2half_rn((acc[mt][nt][0] + red[m * RP + c]) * sa);
                o[(m + 1) * OP] = __float2half_rn((acc[mt][nt][1] + red[(m + 1) * RP + c]) * sa);
                o[m * OP + 8] = __float2half_rn((acc[mt][nt][2] + red[m * RP + c + 8]) * sc);
                o[(m + 1) * OP + 8] = __float2half_rn((acc[mt][nt][3] + red[(m + 1) * RP + c + 8]) * sc);
            }
        }
    }
    __syncthreads();
    for (int r = warp; r < 80; r += 8) {
        const int m = cls + 4 * (i0 + r);
        if (m < MM) {
#pragma unroll
            for (int i = 0; i < 6; i++) {
                const int n = lane + 32 * i;
                if (nb + n < NN) y[m * NN + nb + n] = out[r * OP + n];
            }
        }
    }
}
#endif
