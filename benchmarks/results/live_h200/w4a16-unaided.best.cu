/*forewarp
format = 1
inputs = ["x", "packed", "scale", "zero"]
outputs = ["y"]
constraints = ["CL * WST <= 16"]

[tunables]
BPS = [3, 4, 2]
CL = [2, 4]
WST = [8, 4, 6]
PREF = [0, 1]
WGMMA = [1, 0]

[let]
rows = "x.shape[0]"
wide = "x.shape[1]"
outs = "packed.shape[0]"

[constants]
MROWS = "x.shape[0]"
KDIM = "x.shape[1]"
NOUT = "packed.shape[0]"

[[launch]]
kernel = "w4_digits"
when = "rows == 1"
args = ["x", "packed", "scale", "zero", "y"]
grid = ["min(cdiv(outs, 16), 132 * BPS)"]
block = ["256"]
shared = "0"

[[launch]]
kernel = "w4_pair"
when = "rows > 1"
args = ["x", "packed", "scale", "zero", "y"]
grid = ["CL * cdiv(outs, 128 * CL)", "cdiv(rows, 64)"]
block = ["512"]
shared = "max(256 * (128 * CL + 4), 66048 + WST * CL * 8192) + 128 * CL * (3 * (wide // 128 // CL) + 16)"
*/

static_assert(KDIM == 4096 || KDIM == 2048, "columns: 4096 or 2048");
static_assert(CL == 2 || CL == 4, "blocks of a cluster: 2 or 4");

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) && WGMMA
#define USE_WGMMA 1
#else
#define USE_WGMMA 0
#endif

constexpr int kGroups = KDIM / 128; // groups of a row

// one row
constexpr int kVWarps = 8;
constexpr int kVU = kGroups / kVWarps;          // groups of a warp: 4 or 2
constexpr int kVTiles = (NOUT + 15) / 16;       // tiles of 16 weight rows
constexpr int kVX = KDIM / 8 / 256;             // pieces of 8 columns of x a thread

// many rows
constexpr int kThreads = 512;
constexpr int MT = CL / 2;                      // tiles of 64 weight rows a warpgroup
constexpr int kRows = 128 * CL;                 // weight rows of a cluster
constexpr int kSG = kGroups / CL;               // groups of a block's part of the columns
constexpr int kStep = 2064;                     // bytes of 16 columns of x (64 rows), padded by 16
constexpr int kXSlot = 8 * kStep;               // a group of x; four slots
constexpr int kWOff = 4 * kXSlot;               // 66048
constexpr int kWStage = CL * 8192;
constexpr int kPartLd = kRows + 4;              // floats
constexpr int kPartBytes = 64 * kPartLd * 4;
constexpr int kRing = kWOff + WST * kWStage;
constexpr int kScaleOff = kPartBytes > kRing ? kPartBytes : kRing;
constexpr int kSStride = 2 * kSG + 16;
constexpr int kZeroOff = kScaleOff + kRows * kSStride;
constexpr int kSub = MT == 1 ? 2 : 1;           // steps of 16 columns a batch of wgmmas

__device__ __forceinline__ unsigned fma_bf2(unsigned a, unsigned b, unsigned c)
{
    unsigned d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}

// nibbles 0 and 4 of v less the zero point (exact), times the scale, rounded as the reference rounds it
__device__ __forceinline__ unsigned weight(unsigned v, unsigned nz, unsigned sc)
{
    const unsigned u = (v & 0x000f000fu) | 0x43004300u;
    return fma_bf2(fma_bf2(u, 0x3f803f80u, nz), sc, 0x80008000u);
}

__device__ __forceinline__ unsigned word_of(const uint4 &v, int c)
{
    return c == 0 ? v.x : (c == 1 ? v.y : (c == 2 ? v.z : v.w));
}

__device__ __forceinline__ uint4 load_nc(const void *p)
{
    uint4 v;
    asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

__device__ __forceinline__ uint4 load_stream(const void *p)
{
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

__device__ __forceinline__ unsigned to_bf16x2(float lo, float hi)
{
    unsigned d;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(hi), "f"(lo));
    return d;
}

__device__ __forceinline__ unsigned short to_bf16(float f)
{
    return (unsigned short)(to_bf16x2(f, 0.0f) & 0xffffu);
}

// ---------------------------------------------------------------- one row: integer tensor cores
//
// In each group of 128 columns x is written as a fixed-point number of 32 bits (a power of two above the group's
// largest), in four signed digits of 8 bits. The digits are four columns of B, the nibbles are A as they are (unsigned
// bytes), and the integer accumulators start at -zero * (sum of the digits), so that a group's sums are exact.

__device__ __forceinline__ void imma(int &d0, int &d1, int &d2, int &d3, unsigned a0, unsigned a1, unsigned a2,
                                     unsigned a3, unsigned b0, unsigned b1)
{
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};\n"
        : "+r"(d0), "+r"(d1), "+r"(d2), "+r"(d3)
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void imma_words(int &d0, int &d1, int &d2, int &d3, unsigned va, unsigned vb, unsigned b0,
                                           unsigned b1)
{
    imma(d0, d1, d2, d3, va & 0x0f0f0f0fu, vb & 0x0f0f0f0fu, (va >> 4) & 0x0f0f0f0fu, (vb >> 4) & 0x0f0f0f0fu, b0,
         b1);
}

// digits 0 .. 3 of four numbers, a word for each digit
__device__ __forceinline__ void digit_words(unsigned a, unsigned b, unsigned c, unsigned d, unsigned &o0,
                                            unsigned &o1, unsigned &o2, unsigned &o3)
{
    const unsigned p = __byte_perm(a, b, 0x5140);
    const unsigned r = __byte_perm(a, b, 0x7362);
    const unsigned s = __byte_perm(c, d, 0x5140);
    const unsigned w = __byte_perm(c, d, 0x7362);
    o0 = __byte_perm(p, s, 0x5410) ^ 0x80808080u;
    o1 = __byte_perm(p, s, 0x7632) ^ 0x80808080u;
    o2 = __byte_perm(r, w, 0x5410) ^ 0x80808080u;
    o3 = __byte_perm(r, w, 0x7632) ^ 0x80808080u;
}

__device__ __forceinline__ int digit_sum(unsigned a, unsigned b)
{
    return __dp4a((int)a, 0x01010101, __dp4a((int)b, 0x01010101, 0));
}

// the number as fixed point, its bytes being the digits plus 128
__device__ __forceinline__ unsigned fixed_lo(unsigned w, float up)
{
    return (unsigned)__float2int_rn(__uint_as_float(w << 16) * up) + 0x80808080u;
}

__device__ __forceinline__ unsigned fixed_hi(unsigned w, float up)
{
    return (unsigned)__float2int_rn(__uint_as_float(w & 0xffff0000u) * up) + 0x80808080u;
}

__device__ __forceinline__ unsigned abs_max(unsigned w)
{
    return max(w & 0x7fffu, (w >> 16) & 0x7fffu);
}

__device__ __forceinline__ void vec_scales(uint2 &s, unsigned &z, const unsigned short *scale,
                                           const unsigned char *zero, int row, int first)
{
    const long long at = (long long)row * kGroups + first;
    if (kVU == 4) {
        s = __ldg((const uint2 *)(scale + at));
        z = __ldg((const unsigned *)(zero + at));
    } else {
        s.x = __ldg((const unsigned *)(scale + at));
        s.y = 0u;
        z = (unsigned)__ldg((const unsigned short *)(zero + at));
    }
}

extern "C" __global__ void __launch_bounds__(256, BPS)
w4_digits(const unsigned short *__restrict__ x, const unsigned char *__restrict__ packed,
          const unsigned short *__restrict__ scale, const unsigned char *__restrict__ zero,
          unsigned short *__restrict__ y)
{
    __shared__ __align__(128) unsigned char digits[kGroups * 512]; // of a group: [half][digit][t] 16 bytes
    __shared__ __align__(16) int4 info[kGroups * 4];               // of a group and t: two sums of digits, factor
    __shared__ float red[2][kVWarps][16];

    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const int g = lane >> 2;
    const int t = lane & 3;

    uint4 xv[kVX];
#pragma unroll
    for (int i = 0; i < kVX; ++i)
        xv[i] = load_nc(x + (i * 256 + tid) * 8);

    // the first tile's weights are under way while x is taken apart
    int tile = blockIdx.x;
    uint4 wa[kVU], wb[kVU];
    uint2 sa, sb;
    unsigned za, zb;
    {
        const int r0 = min(tile * 16 + g, NOUT - 1);
        const int r1 = min(tile * 16 + g + 8, NOUT - 1);
        const unsigned char *p0 = packed + (long long)r0 * (KDIM / 2) + warp * (kVU * 64) + t * 16;
        const unsigned char *p1 = packed + (long long)r1 * (KDIM / 2) + warp * (kVU * 64) + t * 16;
#pragma unroll
        for (int u = 0; u < kVU; ++u) {
            wa[u] = load_stream(p0 + u * 64);
            wb[u] = load_stream(p1 + u * 64);
        }
        vec_scales(sa, za, scale, zero, r0, warp * kVU);
        vec_scales(sb, zb, scale, zero, r1, warp * kVU);
    }

#pragma unroll
    for (int i = 0; i < kVX; ++i) {
        const int task = i * 256 + tid;
        const int group = task >> 4;
        const int kk = task & 15;
        const uint4 v = xv[i];
        unsigned m = max(max(abs_max(v.x), abs_max(v.y)), max(abs_max(v.z), abs_max(v.w)));
#pragma unroll
        for (int o = 8; o > 0; o >>= 1)
            m = max(m, __shfl_xor_sync(0xffffffffu, m, o));
        const unsigned ex = max(m >> 7, 30u);
        const float up = __uint_as_float((283u - ex) << 23);
        const float down = __uint_as_float(ex >= 255u ? 0x7fc00000u : (ex - 29u) << 23);
        unsigned e0, e1, e2, e3, o0, o1, o2, o3;
        digit_words(fixed_lo(v.x, up), fixed_lo(v.y, up), fixed_lo(v.z, up), fixed_lo(v.w, up), e0, e1, e2, e3);
        digit_words(fixed_hi(v.x, up), fixed_hi(v.y, up), fixed_hi(v.z, up), fixed_hi(v.w, up), o0, o1, o2, o3);
        const int c = kk & 3;
        unsigned char *at = digits + group * 512 + (c >> 1) * 256 + (kk >> 2) * 16 + (c & 1) * 8;
        *(uint2 *)(at) = make_uint2(e0, o0);
        *(uint2 *)(at + 64) = make_uint2(e1, o1);
        *(uint2 *)(at + 128) = make_uint2(e2, o2);
        *(uint2 *)(at + 192) = make_uint2(e3, o3);
        // sums of the digits over the group, two of 16 bits a word
        int s01 = digit_sum(e0, o0) + digit_sum(e1, o1) * 65536;
        int s23 = digit_sum(e2, o2) + digit_sum(e3, o3) * 65536;
#pragma unroll
        for (int o = 8; o > 0; o >>= 1) {
            s01 += __shfl_xor_sync(0xffffffffu, s01, o);
            s23 += __shfl_xor_sync(0xffffffffu, s23, o);
        }
        if (kk < 4) {
            const int s = kk == 0 ? s01 : s23;
            const int lo = (int)(short)(s & 0xffff);
            const int hi = (s - lo) >> 16;
            const float f = kk == 0 ? down : (kk == 1 ? down * 65536.0f : 0.0f);
            info[group * 4 + kk] = make_int4(lo, hi, __float_as_int(f), 0);
        }
    }
    __syncthreads();

    const unsigned char *mine = digits + warp * (kVU * 512) + (g & 3) * 64 + t * 16;
    const int4 *minfo = info + warp * (kVU * 4) + t;
    int buf = 0;
#pragma unroll 1
    for (; tile < kVTiles; tile += (int)gridDim.x) {
        const int next = tile + (int)gridDim.x;
        const bool more = next < kVTiles;
        const int r0 = min(next * 16 + g, NOUT - 1);
        const int r1 = min(next * 16 + g + 8, NOUT - 1);
        const unsigned char *p0 = packed + (long long)r0 * (KDIM / 2) + warp * (kVU * 64) + t * 16;
        const unsigned char *p1 = packed + (long long)r1 * (KDIM / 2) + warp * (kVU * 64) + t * 16;
        float s0 = 0.0f, s1 = 0.0f;
#pragma unroll
        for (int u = 0; u < kVU; ++u) {
            const uint4 b01 = *(const uint4 *)(mine + u * 512);
            const uint4 b23 = *(const uint4 *)(mine + u * 512 + 256);
            const int4 in = minfo[u * 4];
            const int na = -(int)((za >> (8 * u)) & 0xffu);
            const int nb = -(int)((zb >> (8 * u)) & 0xffu);
            int d0 = na * in.x, d1 = na * in.y, d2 = nb * in.x, d3 = nb * in.y;
            imma_words(d0, d1, d2, d3, wa[u].x, wb[u].x, b01.x, b01.y);
            imma_words(d0, d1, d2, d3, wa[u].y, wb[u].y, b01.z, b01.w);
            imma_words(d0, d1, d2, d3, wa[u].z, wb[u].z, b23.x, b23.y);
            imma_words(d0, d1, d2, d3, wa[u].w, wb[u].w, b23.z, b23.w);
            if (more) {
                wa[u] = load_stream(p0 + u * 64);
                wb[u] = load_stream(p1 + u * 64);
            }
            const unsigned qa = u < 2 ? sa.x : sa.y;
            const unsigned qb = u < 2 ? sb.x : sb.y;
            const float f = __int_as_float(in.z);
            const float fa = __uint_as_float((u & 1) ? (qa & 0xffff0000u) : (qa << 16)) * f;
            const float fb = __uint_as_float((u & 1) ? (qb & 0xffff0000u) : (qb << 16)) * f;
            s0 = fmaf((float)(d0 + d1 * 256), fa, s0);
            s1 = fmaf((float)(d2 + d3 * 256), fb, s1);
        }
        if (more) {
            vec_scales(sa, za, scale, zero, r0, warp * kVU);
            vec_scales(sb, zb, scale, zero, r1, warp * kVU);
        }
        // t = 0 has the two lower digits, t = 1 the two upper ones
        s0 += __shfl_xor_sync(0xffffffffu, s0, 1);
        s1 += __shfl_xor_sync(0xffffffffu, s1, 1);
        if (t == 0) {
            red[buf][warp][g] = s0;
            red[buf][warp][g + 8] = s1;
        }
        __syncthreads();
        if (tid < 16) {
            float s = 0.0f;
#pragma unroll
            for (int k = 0; k < kVWarps; ++k)
                s += red[buf][k][tid];
            const int row = tile * 16 + tid;
            if (row < NOUT)
                y[row] = to_bf16(s);
        }
        buf ^= 1;
    }
}

// ---------------------------------------------------------------- up to 64 rows a cluster

// src_size 0 reads nothing
__device__ __forceinline__ void cp_async16(unsigned dst, const void *src, int src_size)
{
    asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(src_size)
                 : "memory");
}

__device__ __forceinline__ void cp_commit()
{
    asm volatile("cp.async.commit_group;\n" ::: "memory");
}

template <int N> __device__ __forceinline__ void cp_wait()
{
    asm volatile("cp.async.wait_group %0;\n" ::"n"(N) : "memory");
}

__device__ __forceinline__ void cluster_barrier()
{
    asm volatile("barrier.cluster.arrive.aligned;\n" ::: "memory");
    asm volatile("barrier.cluster.wait.aligned;\n" ::: "memory");
}

__device__ __forceinline__ void fence_async()
{
#if USE_WGMMA
    asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
#endif
}

#if USE_WGMMA
__device__ __forceinline__ void wg_fence()
{
    asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}

__device__ __forceinline__ void wg_commit()
{
    asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}

template <int N> __device__ __forceinline__ void wg_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(N) : "memory");
}

__device__ __forceinline__ void wgmma64(float (&d)[32], const unsigned (&a)[4], unsigned long long desc)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.b32 p, %37, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "{%32, %33, %34, %35}, %36, p, 1, 1, 0;\n"
                 "}\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                   "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),
                   "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]),
                   "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]),
                   "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(desc), "r"(1));
}
#else
__device__ __forceinline__ void mma16816(float &d0, float &d1, float &d2, float &d3, unsigned a0, unsigned a1,
                                         unsigned a2, unsigned a3, unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};\n"
                 : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
#endif

// piece k (0 .. 1023) of 8 columns of a group of x, that begins at column col
__device__ __forceinline__ uint4 x_load(const unsigned short *x, int k, int m0, int col)
{
    const int n = m0 + (k >> 4);
    uint4 v = make_uint4(0u, 0u, 0u, 0u);
    if (MROWS % 64 == 0 || n < MROWS)
        v = load_nc(x + ((long long)n * KDIM + col + (k & 15) * 8));
    return v;
}

// its columns go where the nibbles' order wants them
__device__ __forceinline__ void x_store(unsigned char *slot, int k, const uint4 &e)
{
    unsigned char *at = slot + (k & 3) * (2 * kStep) + (k >> 4) * 16 + ((k >> 2) & 3) * 4;
    *(unsigned *)(at) = __byte_perm(e.x, e.z, 0x5410);
    *(unsigned *)(at + 1024) = __byte_perm(e.x, e.z, 0x7632);
    *(unsigned *)(at + kStep) = __byte_perm(e.y, e.w, 0x5410);
    *(unsigned *)(at + kStep + 1024) = __byte_perm(e.y, e.w, 0x7632);
}

extern "C" __global__ void __cluster_dims__(CL, 1, 1) __launch_bounds__(512)
w4_pair(const unsigned short *__restrict__ x, const unsigned char *__restrict__ packed,
        const unsigned short *__restrict__ scale, const unsigned char *__restrict__ zero,
        unsigned short *__restrict__ y)
{
    extern __shared__ __align__(128) unsigned char smem[];
    const unsigned sbase = (unsigned)__cvta_generic_to_shared(smem);
    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const int wg = warp >> 2;
    const int q = warp & 3;
    const int g = lane >> 2;
    const int t = lane & 3;
    const int slice = blockIdx.x % CL;
    const int n0 = (blockIdx.x / CL) * kRows;
    const int m0 = blockIdx.y * 64;
    const int col0 = slice * (KDIM / CL);

#if PREF
    if (tid < kRows) {
        const unsigned char *p =
            packed + (long long)min(n0 + tid, NOUT - 1) * (KDIM / 2) + slice * (KDIM / 2 / CL);
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;\n" ::"l"(p), "r"(KDIM / 2 / CL) : "memory");
    }
#endif

    // the first two groups of x
    uint4 f[4];
#pragma unroll
    for (int u = 0; u < 4; ++u)
        f[u] = x_load(x, (u & 1) * kThreads + tid, m0, col0 + (u >> 1) * 128);

    // the first stages of weights; each thread fills and reads places of its own
    const unsigned char *wp[MT][2];
#pragma unroll
    for (int m = 0; m < MT; ++m)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const int row = min(n0 + (wg * MT + m) * 64 + q * 16 + g + 8 * r, NOUT - 1);
            wp[m][r] = packed + (long long)row * (KDIM / 2) + slice * (KDIM / 2 / CL) + t * 16;
        }
#pragma unroll
    for (int s = 0; s < WST; ++s) {
        if (s < kSG) {
#pragma unroll
            for (int m = 0; m < MT; ++m)
#pragma unroll
                for (int r = 0; r < 2; ++r)
                    cp_async16(sbase + kWOff + (((s * MT + m) * 2 + r) * kThreads + tid) * 16, wp[m][r] + s * 64, 16);
        }
        cp_commit();
    }

    // scales and zero points of this block's rows and groups, four groups at a time
    for (int k = tid; k < kRows * (kSG / 4); k += kThreads) {
        const int r = k / (kSG / 4);
        const int j = k % (kSG / 4);
        const long long at = (long long)min(n0 + r, NOUT - 1) * kGroups + slice * kSG + j * 4;
        const uint2 sv = __ldg((const uint2 *)(scale + at));
        const unsigned zv = __ldg((const unsigned *)(zero + at));
        *(uint2 *)(smem + kScaleOff + r * kSStride + j * 8) = sv;
        *(unsigned *)(smem + kZeroOff + r * kSG + j * 4) = zv;
    }

    // the third group of x waits in registers
    uint4 e0 = x_load(x, tid, m0, col0 + 2 * 128);
    uint4 e1 = x_load(x, kThreads + tid, m0, col0 + 2 * 128);
#pragma unroll
    for (int u = 0; u < 4; ++u)
        x_store(smem + (u >> 1) * kXSlot, (u & 1) * kThreads + tid, f[u]);
    fence_async();

    float acc[MT][32];
#pragma unroll
    for (int m = 0; m < MT; ++m)
#pragma unroll
        for (int k = 0; k < 32; ++k)
            acc[m][k] = 0.0f;

    int stage = 0;
#pragma unroll 1
    for (int gi = 0; gi < kSG; ++gi) {
        __syncthreads(); // group gi of x is there, and nobody reads group gi - 2 any more
        cp_wait<WST - 1>();
        uint4 w[MT][2];
        unsigned sc[MT][2], nz[MT][2];
#pragma unroll
        for (int m = 0; m < MT; ++m)
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                w[m][r] = *(const uint4 *)(smem + kWOff + (((stage * MT + m) * 2 + r) * kThreads + tid) * 16);
                const int row = (wg * MT + m) * 64 + q * 16 + g + 8 * r;
                const unsigned s = *(const unsigned short *)(smem + kScaleOff + row * kSStride + gi * 2);
                const unsigned z = smem[kZeroOff + row * kSG + gi];
                sc[m][r] = s * 0x10001u;
                nz[m][r] = 0xC300C300u | (z * 0x10001u);
            }
        const int slot = (gi & 3) * kXSlot;
#pragma unroll
        for (int c = 0; c < 4; ++c) {
            if (c == 1) {
                // the words of this stage are in registers: fill it again
                const int ahead = gi + WST;
                const int size = ahead < kSG ? 16 : 0;
                const int from = (ahead < kSG ? ahead : 0) * 64;
#pragma unroll
                for (int m = 0; m < MT; ++m)
#pragma unroll
                    for (int r = 0; r < 2; ++r)
                        cp_async16(sbase + kWOff + (((stage * MT + m) * 2 + r) * kThreads + tid) * 16,
                                   wp[m][r] + from, size);
                cp_commit();
            }
            if (c == 2) {
                // group gi + 2 of x goes to its slot (past the end: old values, that nobody reads)
                unsigned char *to = smem + ((gi + 2) & 3) * kXSlot;
                x_store(to, tid, e0);
                x_store(to, kThreads + tid, e1);
                fence_async();
                const int col = col0 + min(gi + 3, kSG - 1) * 128;
                e0 = x_load(x, tid, m0, col);
                e1 = x_load(x, kThreads + tid, m0, col);
            }
#pragma unroll
            for (int h = 0; h < 2; h += kSub) {
#if USE_WGMMA
                wg_wait<1>();
#endif
                unsigned a[kSub][MT][4];
#pragma unroll
                for (int s = 0; s < kSub; ++s)
#pragma unroll
                    for (int m = 0; m < MT; ++m)
#pragma unroll
                        for (int r = 0; r < 2; ++r) {
                            const unsigned v = word_of(w[m][r], c) >> (8 * (h + s));
                            a[s][m][r] = weight(v, nz[m][r], sc[m][r]);
                            a[s][m][2 + r] = weight(v >> 4, nz[m][r], sc[m][r]);
                        }
#if USE_WGMMA
                wg_fence();
#pragma unroll
                for (int s = 0; s < kSub; ++s) {
                    const unsigned at = sbase + (unsigned)(slot + (c * 2 + h + s) * kStep);
                    const unsigned long long desc = (unsigned long long)((at >> 4) & 0x3fffu) |
                                                    ((unsigned long long)(1024 >> 4) << 16) |
                                                    ((unsigned long long)(128 >> 4) << 32);
#pragma unroll
                    for (int m = 0; m < MT; ++m)
                        wgmma64(acc[m], a[s][m], desc);
                }
                wg_commit();
#else
#pragma unroll
                for (int s = 0; s < kSub; ++s) {
                    const unsigned char *xb = smem + slot + (c * 2 + h + s) * kStep + lane * 4; // g * 16 + t * 4
#pragma unroll
                    for (int j = 0; j < 8; ++j) {
                        const unsigned b0 = *(const unsigned *)(xb + j * 128);
                        const unsigned b1 = *(const unsigned *)(xb + j * 128 + 1024);
#pragma unroll
                        for (int m = 0; m < MT; ++m)
                            mma16816(acc[m][4 * j], acc[m][4 * j + 1], acc[m][4 * j + 2], acc[m][4 * j + 3],
                                     a[s][m][0], a[s][m][1], a[s][m][2], a[s][m][3], b0, b1);
                    }
                }
#endif
            }
        }
        stage = stage + 1 == WST ? 0 : stage + 1;
    }
#if USE_WGMMA
    wg_wait<0>();
#pragma unroll
    for (int m = 0; m < MT; ++m)
#pragma unroll
        for (int k = 0; k < 32; ++k)
            asm volatile("" : "+f"(acc[m][k])::"memory");
#endif
    cp_wait<0>();
    __syncthreads(); // x and the weights are no longer needed: their place takes the partial sums

    float *part = (float *)smem;
#pragma unroll
    for (int m = 0; m < MT; ++m) {
        const int at = (wg * MT + m) * 64 + q * 16 + g;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            const int n = 8 * j + 2 * t;
            part[n * kPartLd + at] = acc[m][4 * j];
            part[(n + 1) * kPartLd + at] = acc[m][4 * j + 1];
            part[n * kPartLd + at + 8] = acc[m][4 * j + 2];
            part[(n + 1) * kPartLd + at + 8] = acc[m][4 * j + 3];
        }
    }
    cluster_barrier();

    // a block of the cluster sums 64 / CL of the rows of x
#pragma unroll
    for (int i = 0; i < (64 / CL) * (kRows / 4) / kThreads; ++i) {
        const int k = i * kThreads + tid;
        const int n = slice * (64 / CL) + k / (kRows / 4);
        const int c4 = (k % (kRows / 4)) * 4;
        const unsigned local = sbase + (unsigned)((n * kPartLd + c4) * 4);
        float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
#pragma unroll
        for (int r = 0; r < CL; ++r) {
            unsigned remote;
            float f0, f1, f2, f3;
            asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(local), "r"(r));
            asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(f0), "=f"(f1), "=f"(f2), "=f"(f3)
                         : "r"(remote)
                         : "memory");
            s0 += f0;
            s1 += f1;
            s2 += f2;
            s3 += f3;
        }
        const int row = m0 + n;
        const int col = n0 + c4;
        if (row < MROWS) {
            unsigned short *to = y + ((long long)row * NOUT + col);
            if (NOUT % 4 == 0) {
                if (col < NOUT)
                    *(uint2 *)to = make_uint2(to_bf16x2(s0, s1), to_bf16x2(s2, s3));
            } else {
                if (col < NOUT)
                    to[0] = to_bf16(s0);
                if (col + 1 < NOUT)
                    to[1] = to_bf16(s1);
                if (col + 2 < NOUT)
                    to[2] = to_bf16(s2);
                if (col + 3 < NOUT)
                    to[3] = to_bf16(s3);
            }
        }
    }
    cluster_barrier(); // no block leaves while another may read its shared memory
}
