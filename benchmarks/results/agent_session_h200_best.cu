/*forewarp
format = 1
inputs = ["x"]
outputs = ["y"]

[params]
weight = "norm.weight"
bias = "norm.bias"

[tunables]
PER = [16, 8, 4]          # floats of a row per thread, which it holds in registers
VEC = [2, 4]              # floats per load and store, on unaligned rows too
GELU = [2, 1, 0]          # see gelu()
MOMENTS = [1, 2]          # 1 takes mean and variance in one pass about the row's first value, with one barrier less
STREAM = [0, 2, 1]        # 1 marks x and y as touched once, 2 only y
RESIDENT = [64, 0, 48]    # warps per multiprocessor that registers are rationed for; 0 leaves it to the compiler

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[constants]
COLS = "cols"
RAGGED = "1 if cols % VEC != 0 else 0"
THREADS = "min(1024, max(32, 32 * cdiv(cols, 32 * PER)))"
PACKS = "cdiv(cols + (VEC - 1 if cols % VEC != 0 else 0), VEC * THREADS)"
BLOCKS = "max(1, min(32, 32 * RESIDENT // THREADS))"

[[launch]]
kernel = "layernorm_gelu"
args = ["x", "weight", "bias", "y"]
grid = ["rows"]
block = ["THREADS"]
*/
// A block per row, and wide loads and stores for every row: see is_whole().

#if VEC == 4
typedef float4 Raw;
#elif VEC == 2
typedef float2 Raw;
#else
typedef float Raw;
#endif

union Pack {
    Raw raw;
    float v[VEC];
};

__device__ __forceinline__ Raw load_pack(const Raw* p) {
#if STREAM == 1
    return __ldcs(p);
#else
    return __ldg(p);
#endif
}

__device__ __forceinline__ void store_pack(Raw* p, Raw value) {
#if STREAM
    __stcs(p, value);
#else
    *p = value;
#endif
}

// x * Phi(x). GELU 0: erff; 1: a rational formula with one exp and one reciprocal (1e-7); 2: a polynomial on [-4.5, 4.5]
// that uses FMA only (its error times x stays below 2e-5), saturated to [0, 1].
__device__ __forceinline__ float gelu(float x) {
#if GELU == 0
    return 0.5f * x * (1.0f + erff(x * 0.70710678f));
#elif GELU == 1
    const float a = fabsf(x) * 0.70710678f;
    const float t = __fdividef(1.0f, fmaf(0.3275911f, a, 1.0f));
    float p = fmaf(1.061405429f, t, -1.453152027f);
    p = fmaf(p, t, 1.421413741f);
    p = fmaf(p, t, -0.284496736f);
    p = fmaf(p, t, 0.254829592f);
    const float tail = 0.5f * p * t * __expf(-a * a);
    return x * (x > 0.0f ? 1.0f - tail : tail);
#else
    const float u = fminf(fmaxf(x, -4.5f), 4.5f);
    const float s = u * u;
    float p = -8.522700497e-13f;
    p = fmaf(p, s, 1.160254427e-10f);
    p = fmaf(p, s, -6.965818798e-09f);
    p = fmaf(p, s, 2.449996373e-07f);
    p = fmaf(p, s, -5.667761537e-06f);
    p = fmaf(p, s, 9.201132022e-05f);
    p = fmaf(p, s, -1.093121049e-03f);
    p = fmaf(p, s, 9.749464343e-03f);
    p = fmaf(p, s, -6.622185260e-02f);
    p = fmaf(p, s, 3.988298362e-01f);
    return x * __saturatef(fmaf(u, p, 0.5f));
#endif
}

// A row that does not start at a pack is read from the pack that it starts in; `shift` floats of that pack belong to the
// row before. Pack i holds the columns from i * VEC - shift on.
__device__ __forceinline__ bool is_whole(int i, int shift) {
#if RAGGED
    return i * VEC >= shift && (i + 1) * VEC <= COLS;    // and its weights are in two packs that exist
#else
    return i * VEC < COLS;
#endif
}

__device__ __forceinline__ bool is_inside(int column) { return RAGGED && (unsigned)column < (unsigned)COLS; }

// Sums N values over the block with one barrier; each use needs its own slots.
template <int N>
__device__ __forceinline__ void block_sum(float (&value)[N], float (*slots)[32]) {
#pragma unroll
    for (int n = 0; n < N; n++) {
#pragma unroll
        for (int offset = 16; offset > 0; offset /= 2) value[n] += __shfl_xor_sync(0xffffffffu, value[n], offset);
    }
#if THREADS > 32
    if (threadIdx.x % 32 == 0) {
#pragma unroll
        for (int n = 0; n < N; n++) slots[n][threadIdx.x / 32] = value[n];
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < N; n++) {
        value[n] = 0.0f;
#pragma unroll
        for (int w = 0; w < THREADS / 32; w++) value[n] += slots[n][w];
    }
#endif
}

// The last step for rows with this shift: SHIFT is a constant, so that the weights of a pack are picked from two aligned
// packs without moving anything.
template <int SHIFT>
__device__ __forceinline__ void finish(const Pack* held, float centre, float scale, const float* __restrict__ weight,
                                       const float* __restrict__ bias, float* row) {
    const Raw* factors = reinterpret_cast<const Raw*>(weight);
    const Raw* offsets = reinterpret_cast<const Raw*>(bias);
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        const int i = threadIdx.x + k * THREADS;
        if (is_whole(i, SHIFT)) {
            Pack f, o, r;
            f.raw = __ldg(factors + i);
            o.raw = __ldg(offsets + i);
            if constexpr (SHIFT > 0) {
                Pack g = f, q = o, e, p;
                e.raw = __ldg(factors + i - 1);
                p.raw = __ldg(offsets + i - 1);
#pragma unroll
                for (int j = 0; j < VEC; j++) {
                    f.v[j] = j < SHIFT ? e.v[(VEC - SHIFT + j) % VEC] : g.v[(VEC + j - SHIFT) % VEC];
                    o.v[j] = j < SHIFT ? p.v[(VEC - SHIFT + j) % VEC] : q.v[(VEC + j - SHIFT) % VEC];
                }
            }
#pragma unroll
            for (int j = 0; j < VEC; j++) r.v[j] = gelu(fmaf((held[k].v[j] - centre) * scale, f.v[j], o.v[j]));
            store_pack(reinterpret_cast<Raw*>(row - SHIFT) + i, r.raw);
        } else {
#pragma unroll
            for (int j = 0; j < VEC; j++) {
                const int c = i * VEC - SHIFT + j;
                if (is_inside(c)) row[c] = gelu(fmaf((held[k].v[j] - centre) * scale, __ldg(weight + c), __ldg(bias + c)));
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
layernorm_gelu(const float* __restrict__ x, const float* __restrict__ weight, const float* __restrict__ bias,
               float* __restrict__ y) {
    __shared__ __align__(16) float slots[2][32];
    const long long at = (long long)blockIdx.x * COLS;
    const int shift = RAGGED ? (int)(at % VEC) : 0;
    const float* row = x + at;
    const Raw* in = reinterpret_cast<const Raw*>(row - shift);

    Pack held[PACKS];
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        const int i = threadIdx.x + k * THREADS;
        if (is_whole(i, shift)) {
            held[k].raw = load_pack(in + i);
        } else {
#pragma unroll
            for (int j = 0; j < VEC; j++) {
                const int c = i * VEC - shift + j;
                held[k].v[j] = is_inside(c) ? row[c] : 0.0f;
            }
        }
    }

#if MOMENTS == 1
    const float origin = __ldg(row);
#else
    float sum[1] = {0.0f};
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
#pragma unroll
        for (int j = 0; j < VEC; j++) sum[0] += held[k].v[j];
    }
    block_sum<1>(sum, slots);
    const float origin = sum[0] * (1.0f / COLS);
#endif

    // The values less the origin; what is not of this row is zero again and adds nothing.
    float first = 0.0f, squares = 0.0f;
#pragma unroll
    for (int k = 0; k < PACKS; k++) {
        const int i = threadIdx.x + k * THREADS;
#pragma unroll
        for (int j = 0; j < VEC; j++) held[k].v[j] -= origin;
        if (!is_whole(i, shift)) {
#pragma unroll
            for (int j = 0; j < VEC; j++) {
                if (!is_inside(i * VEC - shift + j)) held[k].v[j] = 0.0f;
            }
        }
#pragma unroll
        for (int j = 0; j < VEC; j++) {
            first += held[k].v[j];
            squares = fmaf(held[k].v[j], held[k].v[j], squares);
        }
    }
#if MOMENTS == 1
    float both[2] = {first, squares};
    block_sum<2>(both, slots);
    const float centre = both[0] * (1.0f / COLS);
    const float scale = rsqrtf(fmaxf(both[1] * (1.0f / COLS) - centre * centre, 0.0f) + 1e-5f);
#else
    float one[1] = {squares};
    block_sum<1>(one, slots + 1);
    const float centre = 0.0f;
    const float scale = rsqrtf(one[0] * (1.0f / COLS) + 1e-5f);
#endif

    float* out = y + at;
#if RAGGED
    if (shift == 1) return finish<1>(held, centre, scale, weight, bias, out);
#if VEC == 4
    if (shift == 2) return finish<2>(held, centre, scale, weight, bias, out);
    if (shift == 3) return finish<3>(held, centre, scale, weight, bias, out);
#endif
#endif
    finish<0>(held, centre, scale, weight, bias, out);
}
