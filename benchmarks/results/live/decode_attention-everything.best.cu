/*forewarp
format = 1
inputs = ["q", "k", "v"]
outputs = ["o"]
constraints = ["STAGES * (TILE * 4 + 640) + 1024 <= 232000", "WARPS * 2048 <= TILE"]

[tunables]
TILE = [8192, 16384, 4096]
WARPS = [4, 2, 8]
STAGES = [2, 3, 4, 6]
CTAS = [264, 132, 396]
HINT = [2, 0, 1]

[let]
pairs = "k.shape[0] * k.shape[1]"
keys = "k.shape[2]"
cluster = "min(8, max(1, CTAS // (k.shape[0] * k.shape[1])))"
qk_scale = "1.4426950408889634 * rsqrt(q.shape[2])"

[constants]
HEAD_DIM = "q.shape[2]"
GROUP = "q.shape[1] // k.shape[1]"
CLUS = "min(8, max(1, CTAS // (k.shape[0] * k.shape[1])))"
SMALL = "1 if numel(k) <= 64000000 else 0"

[[launch]]
kernel = "attend"
args = ["q", "k", "v", "o", "keys", "qk_scale:f32"]
grid = ["cluster", "pairs"]
block = ["WARPS * 32 + 32"]
shared = "STAGES * (TILE * 4 + 640) + 1024"
*/

// K and V of a stage have barriers of their own: K is refilled while V is still used. The first copies start before
// the block has met.
// One producer warp fills a ring of stages with bulk copies, WARPS consumer warps compute; full and empty mbarriers
// couple them. The blocks of a pair are a cluster that merges through distributed shared memory. A stage holds TILE / HEAD_DIM keys as 8 groups of KPG keys each, the groups padded against bank
// conflicts. Column c of score tile i is key c * KPG + i; a warp takes the score tiles [warp * MINE, warp * MINE + MINE).

typedef unsigned int u32;
typedef unsigned long long u64;

constexpr int KEYS = TILE / HEAD_DIM;
constexpr int KPG = KEYS / 8;
constexpr int MINE = KPG / WARPS;
constexpr int ROWB = HEAD_DIM * 2;
constexpr int KGS = KPG * ROWB + 64;
constexpr int VGS = KPG * ROWB + 16;
constexpr int SLOT = 8 * (KGS + VGS);
constexpr int NTHREADS = WARPS * 32 + 32;
constexpr int NV = HEAD_DIM / 64;
constexpr int NK = HEAD_DIM / 32;

static_assert(MINE >= 2 && MINE % 2 == 0, "too few keys for the warps");
static_assert(GROUP <= 8, "at most 8 query heads a group");

#if HINT == 1 || (HINT == 2 && SMALL)
#define HINTED 1
#else
#define HINTED 0
#endif

#define NEG_INF __int_as_float(0xff800000)

__device__ __forceinline__ u32 smem_addr(const void* p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void wait_bar(u32 bar, u32 parity) {
  u32 done = 0;
  while (!done) {
    asm volatile(
        "{\n"
        ".reg .pred p1;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p1, [%1], %2;\n"
        "selp.u32 %0, 1, 0, p1;\n"
        "}\n"
        : "=r"(done)
        : "r"(bar), "r"(parity)
        : "memory");
  }
}

__device__ __forceinline__ void mma(float* c, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ __forceinline__ float ex2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ u32 pack(float low, float high) {
  u32 y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  return y;
}

__device__ __forceinline__ unsigned short to_bf16(float x) { return (unsigned short)(pack(x, 0.f) & 0xffffu); }

__device__ __forceinline__ void cluster_barrier() {
#if CLUS > 1
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::: "memory");
#else
  __syncthreads();
#endif
}

__device__ __forceinline__ float peer(u32 addr) {
  float x;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(addr) : "memory");
  return x;
}

extern "C" __global__ void
#if CLUS > 1
__cluster_dims__(CLUS, 1, 1)
#endif
__launch_bounds__(WARPS * 32 + 32)
attend(const unsigned char* __restrict__ q, const unsigned char* __restrict__ k, const unsigned char* __restrict__ v,
       unsigned short* __restrict__ o, int keys, float qk_scale) {
  extern __shared__ __align__(128) unsigned char smem[];
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const int g = lane >> 2, t = lane & 3;
  const int split = blockIdx.x, pair = blockIdx.y;
  const int tiles = (keys + KEYS - 1) / KEYS;
  const int lo = (tiles * split / CLUS) * KEYS;
  const int hi = min((tiles * (split + 1) / CLUS) * KEYS, keys);
  const int count = hi > lo ? (hi - lo + KEYS - 1) / KEYS : 0;
  const u32 full = smem_addr(smem);  // of K, 128 bytes further of V
  const u32 empty = full + 256;
  unsigned char* ring = smem + 1024;

  // the producer: lanes 0..7 copy the groups of K, lanes 8..15 those of V
  const int grp = lane & 7;
  const unsigned char* src = (lane < 8 ? k : v) + ((size_t)pair * keys + lo + grp * KPG) * ROWB;
  const u32 dst = smem_addr(ring) + (lane < 8 ? grp * KGS : 8 * KGS + grp * VGS);
  u64 policy = 0;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  auto copy = [&](int which, int it, int slot) {
    const int valid = min(KEYS, hi - lo - it * KEYS);
    const u32 bar = full + which * 128 + slot * 8;
    if (lane == 0)
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"((u32)(valid * ROWB))
                   : "memory");
    __syncwarp();
    const int n = min(KPG, valid - grp * KPG);
    if ((lane >> 3) == which && n > 0) {
      const u64 from = (u64)__cvta_generic_to_global(src + (size_t)it * KEYS * ROWB);
#if HINTED
      asm volatile(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(
              dst + slot * SLOT),
          "l"(from), "r"((u32)(n * ROWB)), "r"(bar), "l"(policy)
          : "memory");
#else
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                       dst + slot * SLOT),
                   "l"(from), "r"((u32)(n * ROWB)), "r"(bar)
                   : "memory");
#endif
    }
  };

  if (warp == WARPS) {
    if (lane == 0) {
      for (int s = 0; s < STAGES; ++s)
        for (int which = 0; which < 2; ++which) {
          asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full + which * 128 + s * 8) : "memory");
          asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(empty + which * 128 + s * 8), "r"((u32)WARPS)
                       : "memory");
        }
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      asm volatile("fence.proxy.async;" ::: "memory");
    }
    __syncwarp();
    for (int it = 0; it < STAGES; ++it)
      if (it < count) {
        copy(0, it, it);
        copy(1, it, it);
      }
  }
  uint4 qf[NK];
#pragma unroll
  for (int j = 0; j < NK; ++j) {
    qf[j] = make_uint4(0u, 0u, 0u, 0u);
    if (warp < WARPS && g < GROUP)
      qf[j] = *(const uint4*)(q + (size_t)(pair * GROUP + g) * ROWB + j * 64 + t * 16);
  }
  __syncthreads();

  float acc[NV][4][4];
#pragma unroll
  for (int a = 0; a < NV; ++a)
#pragma unroll
    for (int e = 0; e < 4; ++e) acc[a][e][0] = acc[a][e][1] = acc[a][e][2] = acc[a][e][3] = 0.f;
  float m = NEG_INF, l = 0.f;

  if (warp == WARPS) {
    int slot = 0;
    u32 parity = 0;
    for (int it = STAGES; it < count; ++it) {
      wait_bar(empty + slot * 8, parity);
      copy(0, it, slot);
      wait_bar(empty + 128 + slot * 8, parity);
      copy(1, it, slot);
      if (++slot == STAGES) {
        slot = 0;
        parity ^= 1u;
      }
    }
  } else {
    const int i0 = warp * MINE;
    int slot = 0;
    u32 parity = 0;
    for (int it = 0; it < count; ++it) {
      wait_bar(full + slot * 8, parity);
      const unsigned char* kp = ring + slot * SLOT + g * KGS + t * 16 + i0 * ROWB;
      unsigned char* vs = ring + slot * SLOT + 8 * KGS;

      float s[MINE][4];
#pragma unroll
      for (int i = 0; i < MINE; ++i) s[i][0] = s[i][1] = s[i][2] = s[i][3] = 0.f;
#pragma unroll
      for (int j = 0; j < NK; ++j)
#pragma unroll
        for (int i = 0; i < MINE; ++i) {
          const uint4 x = *(const uint4*)(kp + i * ROWB + j * 64);
          mma(s[i], qf[j].x, 0u, qf[j].y, 0u, x.x, x.y);
          mma(s[i], qf[j].z, 0u, qf[j].w, 0u, x.z, x.w);
        }

      __syncwarp();
      if (lane == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(empty + slot * 8) : "memory");

      const int valid = hi - lo - it * KEYS;
      if (valid < KEYS) {
        // only the last stage of a block: rows that were not copied may hold anything
#pragma unroll
        for (int i = 0; i < MINE; ++i) {
          if (2 * t * KPG + i0 + i >= valid) s[i][0] = NEG_INF;
          if ((2 * t + 1) * KPG + i0 + i >= valid) s[i][1] = NEG_INF;
        }
      }

      float top = fmaxf(s[0][0], s[0][1]);
#pragma unroll
      for (int i = 1; i < MINE; ++i) top = fmaxf(top, fmaxf(s[i][0], s[i][1]));
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
      top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
      top *= qk_scale;
      if (__any_sync(0xffffffffu, top > m)) {
        const float up = fmaxf(m, top);
        const float alpha = m == NEG_INF ? 0.f : ex2(m - up);
        m = up;
        l *= alpha;
        const float al0 = __shfl_sync(0xffffffffu, alpha, 8 * t);
        const float al1 = __shfl_sync(0xffffffffu, alpha, 8 * t + 4);
#pragma unroll
        for (int a = 0; a < NV; ++a)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            acc[a][e][0] *= al0;
            acc[a][e][1] *= al1;
            acc[a][e][2] *= al0;
            acc[a][e][3] *= al1;
          }
      }
      const float base = m == NEG_INF ? 0.f : m;
      u32 p[MINE];
#pragma unroll
      for (int i = 0; i < MINE; ++i) {
        const float p0 = ex2(fmaf(s[i][0], qk_scale, -base));
        const float p1 = ex2(fmaf(s[i][1], qk_scale, -base));
        l += p0 + p1;
        p[i] = pack(p0, p1);
      }

      wait_bar(full + 128 + slot * 8, parity);
      if (valid < KEYS) {
        for (int c = 0; c < 8; ++c)
          for (int i = i0; i < i0 + MINE; ++i)
            if (c * KPG + i >= valid)
              for (int b = lane * 4; b < ROWB; b += 128) *(u32*)(vs + c * VGS + i * ROWB + b) = 0u;
        __syncwarp();
      }
      // out^T = V^T P^T: the rows of A are dimensions, the columns of B are heads
      const unsigned char* vp = vs + 2 * t * VGS + g * 16 + i0 * ROWB;
#pragma unroll
      for (int j = 0; j < MINE / 2; ++j)
#pragma unroll
        for (int a = 0; a < NV; ++a) {
          const unsigned char* at = vp + 2 * j * ROWB + a * 128;
          const uint4 x0 = *(const uint4*)(at);
          const uint4 x1 = *(const uint4*)(at + VGS);
          const uint4 y0 = *(const uint4*)(at + ROWB);
          const uint4 y1 = *(const uint4*)(at + VGS + ROWB);
          const u32 b0 = p[2 * j], b1 = p[2 * j + 1];
          mma(acc[a][0], __byte_perm(x0.x, x1.x, 0x5410), __byte_perm(x0.x, x1.x, 0x7632),
              __byte_perm(y0.x, y1.x, 0x5410), __byte_perm(y0.x, y1.x, 0x7632), b0, b1);
          mma(acc[a][1], __byte_perm(x0.y, x1.y, 0x5410), __byte_perm(x0.y, x1.y, 0x7632),
              __byte_perm(y0.y, y1.y, 0x5410), __byte_perm(y0.y, y1.y, 0x7632), b0, b1);
          mma(acc[a][2], __byte_perm(x0.z, x1.z, 0x5410), __byte_perm(x0.z, x1.z, 0x7632),
              __byte_perm(y0.z, y1.z, 0x5410), __byte_perm(y0.z, y1.z, 0x7632), b0, b1);
          mma(acc[a][3], __byte_perm(x0.w, x1.w, 0x5410), __byte_perm(x0.w, x1.w, 0x7632),
              __byte_perm(y0.w, y1.w, 0x5410), __byte_perm(y0.w, y1.w, 0x7632), b0, b1);
        }

      __syncwarp();
      if (lane == 0)
        asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(empty + 128 + slot * 8) : "memory");
      if (++slot == STAGES) {
        slot = 0;
        parity ^= 1u;
      }
    }
    l += __shfl_xor_sync(0xffffffffu, l, 1);
    l += __shfl_xor_sync(0xffffffffu, l, 2);
  }

  // merge the warps of this block: every copy has landed and was read
  __syncthreads();
  float* red = (float*)ring;
  float* red_m = red + WARPS * GROUP * HEAD_DIM;
  float* red_l = red_m + WARPS * GROUP;
  if (warp < WARPS) {
    float* to = red + warp * GROUP * HEAD_DIM;
#pragma unroll
    for (int a = 0; a < NV; ++a)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int dd = (a * 8 + g) * 8 + 2 * e;
        if (2 * t < GROUP) *(float2*)(to + (2 * t) * HEAD_DIM + dd) = make_float2(acc[a][e][0], acc[a][e][2]);
        if (2 * t + 1 < GROUP) *(float2*)(to + (2 * t + 1) * HEAD_DIM + dd) = make_float2(acc[a][e][1], acc[a][e][3]);
      }
    if (t == 0 && g < GROUP) {
      red_m[warp * GROUP + g] = m;
      red_l[warp * GROUP + g] = l;
    }
  }
  __syncthreads();

  // one partial per block, where its peers can read it
  float* own = red_l + WARPS * GROUP;
  float* own_m = own + GROUP * HEAD_DIM;
  float* own_l = own_m + GROUP;
  for (int i = tid; i < GROUP * HEAD_DIM; i += NTHREADS) {
    const int r = i / HEAD_DIM;
    float top = NEG_INF;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) top = fmaxf(top, red_m[w * GROUP + r]);
    float sum = 0.f, weight = 0.f;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
      const float mw = red_m[w * GROUP + r];
      const float e = mw == NEG_INF ? 0.f : ex2(mw - top);
      sum += e * red[w * GROUP * HEAD_DIM + i];
      weight += e * red_l[w * GROUP + r];
    }
#if CLUS == 1
    o[(size_t)pair * GROUP * HEAD_DIM + i] = to_bf16(sum / weight);
#else
    own[i] = sum;
    if (i % HEAD_DIM == 0) {
      own_m[r] = top;
      own_l[r] = weight;
    }
#endif
  }

#if CLUS > 1
  cluster_barrier();
  const u32 own_a = smem_addr(own);
  for (int i = split * NTHREADS + tid; i < GROUP * HEAD_DIM; i += CLUS * NTHREADS) {
    const int r = i / HEAD_DIM;
    float ms[CLUS], ls[CLUS], xs[CLUS];
#pragma unroll
    for (int c = 0; c < CLUS; ++c) {
      u32 at;
      asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(own_a), "r"((u32)c));
      ms[c] = peer(at + (GROUP * HEAD_DIM + r) * 4);
      ls[c] = peer(at + (GROUP * HEAD_DIM + GROUP + r) * 4);
      xs[c] = peer(at + i * 4);
    }
    float top = NEG_INF;
#pragma unroll
    for (int c = 0; c < CLUS; ++c) top = fmaxf(top, ms[c]);
    float sum = 0.f, weight = 0.f;
#pragma unroll
    for (int c = 0; c < CLUS; ++c) {
      const float e = ms[c] == NEG_INF ? 0.f : ex2(ms[c] - top);
      sum += e * xs[c];
      weight += e * ls[c];
    }
    o[(size_t)pair * GROUP * HEAD_DIM + i] = to_bf16(sum / weight);
  }
  cluster_barrier();
#endif
}
