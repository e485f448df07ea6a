/*forewarp
format = 1
inputs = ["x"]
outputs = ["y"]

[params]
weight = "norm.weight"
bias = "norm.bias"

[tunables]
WIDTH = [16, 8]         # floats per vector
PREFETCH = [0, 1, 2]    # fetches the next row while this one is in its GELU pass, 1 into L2, 2 into L1, 0 does not
CHUNK = [0, 8, 32]      # rows per unit of work, 0 splits the rows evenly in advance

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[[launch]]
kernel = "layernorm_gelu"
args = ["x", "weight", "bias", "y", "rows", "cols"]
*/
#include <immintrin.h>
#include <cmath>
#include <cstdint>

#pragma GCC diagnostic ignored "-Wpsabi"

typedef float vec __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));

static inline vec load(const float* p) { return *reinterpret_cast<const vec*>(p); }
static inline void store(float* p, vec v) { *reinterpret_cast<vec*>(p) = v; }
static inline void stream(float* p, vec v) {
#if WIDTH == 16 && defined(__AVX512F__)
    _mm512_stream_ps(p, (__m512)v);
#elif WIDTH == 8 && defined(__AVX__)
    _mm256_stream_ps(p, (__m256)v);
#else
    store(p, v);
#endif
}

static inline void prefetch(const float* p) {
#if PREFETCH == 1
    _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T1);
#elif PREFETCH == 2
    _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0);
#endif
}

static inline float hsum(vec v) {
    float s = 0.0f;
    for (int i = 0; i < WIDTH; i++) s += v[i];
    return s;
}

// erf as a rational function, clamped to [-4, 4]; error of a few float roundings.
static inline vec erf_vec(vec x) {
    x = x > -4.0f ? x : vec{} - 4.0f;
    x = x < 4.0f ? x : vec{} + 4.0f;
    const vec s = x * x;
    vec p = vec{} - 2.72614225801306e-10f;
    p = p * s + 2.77068142495902e-08f;
    p = p * s - 2.10102402082508e-06f;
    p = p * s - 5.69250639462346e-05f;
    p = p * s - 7.34990630326855e-04f;
    p = p * s - 2.95459980854025e-03f;
    p = p * s - 1.60960333262415e-02f;
    vec q = vec{} - 1.45660718464996e-05f;
    q = q * s - 2.13374055278905e-04f;
    q = q * s - 1.68282697438203e-03f;
    q = q * s - 7.37332916720468e-03f;
    q = q * s - 1.42647390514189e-02f;
    return x * p / q;
}

static inline vec gelu(vec v) {
    const vec h = 0.5f * v;
    return h + h * erf_vec(v * 0.70710678f);
}

// The sum of f over a row; the last vector overlaps the one before it, and its lanes already counted become 0.
template <class F>
static inline float row_sum(const float* x, int cols, F f) {
    vec s0 = {}, s1 = {}, s2 = {}, s3 = {};
    int c = 0;
    for (; c + 4 * WIDTH <= cols; c += 4 * WIDTH) {
        s0 += f(load(x + c));
        s1 += f(load(x + c + WIDTH));
        s2 += f(load(x + c + 2 * WIDTH));
        s3 += f(load(x + c + 3 * WIDTH));
    }
    for (; c + WIDTH <= cols; c += WIDTH) s0 += f(load(x + c));
    if (c < cols) {
        vec v = f(load(x + cols - WIDTH));
        const int counted = c - (cols - WIDTH);
        for (int i = 0; i < WIDTH; i++) v[i] = i < counted ? 0.0f : v[i];
        s1 += v;
    }
    return hsum((s0 + s1) + (s2 + s3));
}

static void row_short(const float* x, const float* weight, const float* bias, float* y, int cols) {
    float mean = 0, var = 0;
    for (int c = 0; c < cols; c++) mean += x[c];
    mean /= cols;
    for (int c = 0; c < cols; c++) var += (x[c] - mean) * (x[c] - mean);
    const float scale = 1.0f / std::sqrt(var / cols + 1e-5f);
    for (int c = 0; c < cols; c++) {
        const float v = (x[c] - mean) * scale * weight[c] + bias[c];
        y[c] = 0.5f * v * (1.0f + std::erf(v * 0.70710678f));
    }
}

static void row_gelu(const float* x, const float* weight, const float* bias, float* y, int cols) {
    if (cols < WIDTH) return row_short(x, weight, bias, y, cols);
    const float mean = row_sum(x, cols, [](vec v) { return v; }) / cols;
    const float var = row_sum(x, cols, [mean](vec v) { const vec d = v - mean; return d * d; }) / cols;
    const float scale = 1.0f / std::sqrt(var + 1e-5f);
    const float shift = -mean * scale;
    auto at = [&](int c) { return gelu((load(x + c) * scale + shift) * load(weight + c) + load(bias + c)); };
    int c = 0;
    const int misaligned = (reinterpret_cast<uintptr_t>(y) / 4) % WIDTH;
    if (misaligned) {
        store(y, at(0));
        c = WIDTH - misaligned;
    }
    for (; c + WIDTH <= cols; c += WIDTH) {
        prefetch(x + cols + c);
        stream(y + c, at(c));
    }
    if (c < cols) store(y + cols - WIDTH, at(cols - WIDTH));
}

extern "C" void layernorm_gelu(
    const float* x, const float* weight, const float* bias, float* y, int rows, int cols) {
#if CHUNK == 0
#pragma omp parallel for schedule(static)
#else
#pragma omp parallel for schedule(dynamic, CHUNK)
#endif
    for (int r = 0; r < rows; r++)
        row_gelu(x + int64_t(r) * cols, weight, bias, y + int64_t(r) * cols, cols);
}
