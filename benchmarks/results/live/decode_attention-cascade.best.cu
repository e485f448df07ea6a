/*forewarp
format = 1
inputs = ["q", "k", "v"]
outputs = ["o"]
constraints = ["WARPS * STAGES * SUB <= 27"]

[tunables]
WARPS = [8, 4, 2]
STAGES = [3, 2, 4, 6]
SUB = [1, 2]
EVICT = [1, 0]
CTAS = [132, 264, 528]

[let]
pairs = "k.shape[0] * k.shape[1]"
keys = "k.shape[2]"
qk_scale = "1.4426950408889634 * rsqrt(q.shape[2])"

[constants]
HEAD_DIM = "q.shape[2]"
GROUP = "q.shape[1] // k.shape[1]"
SUBS = "SUB * 128 // q.shape[2]"
CLUSTER = "max(1, min(8, CTAS // (k.shape[0] * k.shape[1])))"

[[launch]]
kernel = "attend"
args = ["q", "k", "v", "o", "keys", "qk_scale:f32"]
grid = ["CLUSTER", "pairs"]
block = ["WARPS * 32"]
shared = "WARPS * STAGES * SUBS * 64 * HEAD_DIM"
*/

#include <cuda_bf16.h>

// HEAD_DIM is 64 or 128, GROUP is at most 8. A block cluster works on one (sequence, kv head) pair.
#define NKP (HEAD_DIM / 32)
#define NVP (HEAD_DIM / 64)
#define KT (16 * (SUBS))                 // keys of one stage of one warp
#define ROW (2 * HEAD_DIM)               // bytes of a row
#define CPR (HEAD_DIM / 8)               // 16 byte chunks of a row
#define TILE_BYTES (KT * ROW)            // bytes of the keys, and of the values, of one stage
#define STAGE_BYTES (2 * TILE_BYTES)
#define NEG_INF __int_as_float(0xff800000)

__device__ __forceinline__ void mma(float* c, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ __forceinline__ float ex2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ unsigned pack_transposed(float low, float high) {
  unsigned y, z;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(z) : "r"(y));
  return z;
}

__device__ __forceinline__ float remote(unsigned addr, int rank) {
  unsigned there;
  float y;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(addr), "r"(rank));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(y) : "r"(there) : "memory");
  return y;
}

__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(WARPS * 32)
attend(const __nv_bfloat16* __restrict__ q, const __nv_bfloat16* __restrict__ k, const __nv_bfloat16* __restrict__ v,
       __nv_bfloat16* __restrict__ o, int keys, float qk_scale) {
  extern __shared__ __align__(128) unsigned char ring[];
  const int tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
  const int g = lane >> 2, t = lane & 3;
  const int rank = blockIdx.x, pair = blockIdx.y;

  const unsigned char* my_ring = ring + warp * (STAGES * STAGE_BYTES);
  const unsigned ring_s = (unsigned)__cvta_generic_to_shared(my_ring);
  unsigned long long policy = 0;
#if EVICT
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
#endif

  // A warp copies its tile of whole, contiguous rows; chunks are swizzled within 128 bytes so that copies and reads
  // are free of bank conflicts.
  const unsigned char* k_src = reinterpret_cast<const unsigned char*>(k) + (long long)pair * keys * ROW + lane * 16;
  const unsigned char* v_src = reinterpret_cast<const unsigned char*>(v) + (long long)pair * keys * ROW + lane * 16;

  auto copy = [&](unsigned dst, const unsigned char* src, int bytes) {
#if EVICT
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(dst), "l"(src), "r"(bytes), "l"(policy)
                 : "memory");
#else
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dst), "l"(src), "r"(bytes) : "memory");
#endif
  };
  auto issue = [&](int tile, int stage) {
    const int n = keys - tile * KT;
    const unsigned dst = ring_s + stage * STAGE_BYTES;
    const unsigned char* ks = k_src + (long long)tile * TILE_BYTES;
    const unsigned char* vs = v_src + (long long)tile * TILE_BYTES;
    if (n >= KT) {
#pragma unroll
      for (int i = 0; i < KT * CPR / 32; ++i) {
        const int row = (i * 32 + lane) / CPR, at = (i * 32 + lane) % CPR;
        copy(dst + row * ROW + ((at ^ ((row & 1) << 2)) << 4), ks + i * 512, 16);
      }
#pragma unroll
      for (int i = 0; i < KT * CPR / 32; ++i) {
        const int row = (i * 32 + lane) / CPR, at = (i * 32 + lane) % CPR;
        copy(dst + TILE_BYTES + row * ROW + ((at ^ (((row >> 1) & 3) << 1)) << 4), vs + i * 512, 16);
      }
    } else {
#pragma unroll 1
      for (int i = 0; i < KT * CPR / 32; ++i) {
        const int row = (i * 32 + lane) / CPR, at = (i * 32 + lane) % CPR;
        const bool here = row < n;  // rows past the end are filled with zeros
        copy(dst + row * ROW + ((at ^ ((row & 1) << 2)) << 4), here ? ks + i * 512 : ks, here ? 16 : 0);
        copy(dst + TILE_BYTES + row * ROW + ((at ^ (((row >> 1) & 3) << 1)) << 4), here ? vs + i * 512 : vs, here ? 16 : 0);
      }
    }
  };

  const int tiles = (keys + KT - 1) / KT;
  const int begin = (int)((long long)tiles * rank / CLUSTER) + warp;
  const int end = (int)((long long)tiles * (rank + 1) / CLUSTER);

#pragma unroll 1
  for (int s = 0; s < STAGES; ++s) {
    if (begin + s * WARPS < end) issue(begin + s * WARPS, s);
    asm volatile("cp.async.commit_group;" ::: "memory");
  }

  uint4 qf[NKP];
#pragma unroll
  for (int j = 0; j < NKP; ++j) {
    qf[j] = make_uint4(0u, 0u, 0u, 0u);
    if (g < GROUP) qf[j] = *reinterpret_cast<const uint4*>(q + (pair * GROUP + g) * HEAD_DIM + 32 * j + 8 * t);
  }

  const int off_k = g * ROW;
  const int k_swap = (g & 1) << 2;
  const int off_v = TILE_BYTES + 2 * t * ROW + ((g ^ (t << 1)) << 4);

  float acc[NVP * 4][4];
#pragma unroll
  for (int i = 0; i < NVP * 4; ++i) acc[i][0] = acc[i][1] = acc[i][2] = acc[i][3] = 0.f;
  float m0 = NEG_INF, m1 = NEG_INF, l0 = 0.f, l1 = 0.f;

  int stage = 0;
#pragma unroll 1
  for (int tile = begin; tile < end; tile += WARPS) {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1) : "memory");
    __syncwarp();
    const unsigned char* st = my_ring + stage * STAGE_BYTES;
    const int n = keys - tile * KT;
#pragma unroll
    for (int sub = 0; sub < (SUBS); ++sub) {
      const unsigned char* sp = st + sub * (16 * ROW);
      float sa[4] = {0.f, 0.f, 0.f, 0.f}, sb[4] = {0.f, 0.f, 0.f, 0.f};
#pragma unroll
      for (int j = 0; j < NKP; ++j) {
        const uint4 x = *reinterpret_cast<const uint4*>(sp + off_k + (((4 * j + t) ^ k_swap) << 4));
        const uint4 y = *reinterpret_cast<const uint4*>(sp + off_k + 8 * ROW + (((4 * j + t) ^ k_swap) << 4));
        mma(sa, x.x, y.x, x.y, y.y, qf[j].x, qf[j].y);
        mma(sb, x.z, y.z, x.w, y.w, qf[j].z, qf[j].w);
      }
      float x0 = (sa[0] + sb[0]) * qk_scale, x1 = (sa[1] + sb[1]) * qk_scale;
      float x2 = (sa[2] + sb[2]) * qk_scale, x3 = (sa[3] + sb[3]) * qk_scale;
      if (n < KT) {
        if (16 * sub + g >= n) x0 = x1 = NEG_INF;
        if (16 * sub + g + 8 >= n) x2 = x3 = NEG_INF;
      }
      // The reference point of the exponentials moves only where a score exceeds it by 2^8.
      float top0 = fmaxf(x0, x2), top1 = fmaxf(x1, x3);
      if (__any_sync(0xffffffffu, top0 > m0 + 8.f || top1 > m1 + 8.f)) {
#pragma unroll
        for (int w = 4; w < 32; w *= 2) {
          top0 = fmaxf(top0, __shfl_xor_sync(0xffffffffu, top0, w));
          top1 = fmaxf(top1, __shfl_xor_sync(0xffffffffu, top1, w));
        }
        top0 = fmaxf(top0, m0);
        top1 = fmaxf(top1, m1);
        const float a0 = ex2(m0 - top0), a1 = ex2(m1 - top1);
        m0 = top0;
        m1 = top1;
        l0 *= a0;
        l1 *= a1;
#pragma unroll
        for (int i = 0; i < NVP * 4; ++i) {
          acc[i][0] *= a0;
          acc[i][1] *= a1;
          acc[i][2] *= a0;
          acc[i][3] *= a1;
        }
      }
      x0 = ex2(x0 - m0);
      x1 = ex2(x1 - m1);
      x2 = ex2(x2 - m0);
      x3 = ex2(x3 - m1);
      l0 += x0 + x2;
      l1 += x1 + x3;
      const unsigned b0 = pack_transposed(x0, x1), b1 = pack_transposed(x2, x3);
#pragma unroll
      for (int h = 0; h < NVP; ++h) {
        const uint4 u0 = *reinterpret_cast<const uint4*>(sp + off_v + 128 * h);
        const uint4 u1 = *reinterpret_cast<const uint4*>(sp + off_v + ROW + 128 * h);
        const uint4 u2 = *reinterpret_cast<const uint4*>(sp + off_v + 8 * ROW + 128 * h);
        const uint4 u3 = *reinterpret_cast<const uint4*>(sp + off_v + 9 * ROW + 128 * h);
        mma(acc[4 * h + 0], __byte_perm(u0.x, u1.x, 0x5410), __byte_perm(u0.x, u1.x, 0x7632),
            __byte_perm(u2.x, u3.x, 0x5410), __byte_perm(u2.x, u3.x, 0x7632), b0, b1);
        mma(acc[4 * h + 1], __byte_perm(u0.y, u1.y, 0x5410), __byte_perm(u0.y, u1.y, 0x7632),
            __byte_perm(u2.y, u3.y, 0x5410), __byte_perm(u2.y, u3.y, 0x7632), b0, b1);
        mma(acc[4 * h + 2], __byte_perm(u0.z, u1.z, 0x5410), __byte_perm(u0.z, u1.z, 0x7632),
            __byte_perm(u2.z, u3.z, 0x5410), __byte_perm(u2.z, u3.z, 0x7632), b0, b1);
        mma(acc[4 * h + 3], __byte_perm(u0.w, u1.w, 0x5410), __byte_perm(u0.w, u1.w, 0x7632),
            __byte_perm(u2.w, u3.w, 0x5410), __byte_perm(u2.w, u3.w, 0x7632), b0, b1);
      }
    }
    __syncwarp();
    if (tile + STAGES * WARPS < end) issue(tile + STAGES * WARPS, stage);
    asm volatile("cp.async.commit_group;" ::: "memory");
    if (++stage == STAGES) stage = 0;
  }
  asm volatile("cp.async.wait_group 0;" ::: "memory");
#pragma unroll
  for (int w = 4; w < 32; w *= 2) {
    l0 += __shfl_xor_sync(0xffffffffu, l0, w);
    l1 += __shfl_xor_sync(0xffffffffu, l1, w);
  }

  // merge the warps in shared memory, then the blocks of the cluster through distributed shared memory
  __syncthreads();
  float* red = reinterpret_cast<float*>(ring);
  float* red_m = red + WARPS * GROUP * HEAD_DIM;
  float* red_l = red_m + WARPS * GROUP;
  float* sum_o = red_l + WARPS * GROUP;
  float* sum_m = sum_o + GROUP * HEAD_DIM;
  float* sum_l = sum_m + GROUP;
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    const int head = 2 * t + c;
    if (head < GROUP) {
      float* to = red + (warp * GROUP + head) * HEAD_DIM + 8 * g;
#pragma unroll
      for (int h = 0; h < NVP; ++h)
#pragma unroll
        for (int w = 0; w < 4; ++w) {
          to[64 * h + 2 * w] = acc[4 * h + w][c];
          to[64 * h + 2 * w + 1] = acc[4 * h + w][2 + c];
        }
      if (g == 0) {
        red_m[warp * GROUP + head] = c ? m1 : m0;
        red_l[warp * GROUP + head] = c ? l1 : l0;
      }
    }
  }
  __syncthreads();
  for (int i = tid; i < GROUP * HEAD_DIM; i += WARPS * 32) {
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
    if (CLUSTER == 1) {
      o[pair * GROUP * HEAD_DIM + i] = __float2bfloat16(sum / weight);
    } else {
      sum_o[i] = sum;
      if (i % HEAD_DIM == 0) {
        sum_m[r] = top;
        sum_l[r] = weight;
      }
    }
  }
  if (CLUSTER > 1) {
    cluster_sync();
    const unsigned so = (unsigned)__cvta_generic_to_shared(sum_o);
    const unsigned sm = (unsigned)__cvta_generic_to_shared(sum_m);
    const unsigned sl = (unsigned)__cvta_generic_to_shared(sum_l);
    for (int i = rank * (WARPS * 32) + tid; i < GROUP * HEAD_DIM; i += CLUSTER * WARPS * 32) {
      const int r = i / HEAD_DIM;
      float ms[CLUSTER], top = NEG_INF, sum = 0.f, weight = 0.f;
#pragma unroll
      for (int c = 0; c < CLUSTER; ++c) {
        ms[c] = remote(sm + 4 * r, c);
        top = fmaxf(top, ms[c]);
      }
#pragma unroll
      for (int c = 0; c < CLUSTER; ++c) {
        const float e = ms[c] == NEG_INF ? 0.f : ex2(ms[c] - top);
        sum += e * remote(so + 4 * i, c);
        weight += e * remote(sl + 4 * r, c);
      }
      o[pair * GROUP * HEAD_DIM + i] = __float2bfloat16(sum / weight);
    }
    cluster_sync();
  }
}
