/*forewarp
format = 1
inputs = ["x"]
outputs = ["y"]

[params]
weight = "norm.weight"
bias = "norm.bias"

[tunables]
FUSED = [0, 1]              # 0 normalises a row into y and then applies GELU to y, 1 does both at once
MOMENTS = [2, 1]            # passes over a row for its mean and variance
ERF = [0, 1]                # 0 std::erf, 1 polynomial
WIDTH = [4, 8, 16]          # floats per vector
ACCUMULATORS = [1, 2, 4]    # independent partial sums per row
CHUNK = [16, 1, 64, 512]    # rows per unit of work

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[[launch]]
kernel = "layernorm_gelu"
args = ["x", "weight", "bias", "y", "rows", "cols"]
*/
#include <cmath>
#include <cstdint>

#pragma GCC diagnostic ignored "-Wpsabi"

typedef float vec __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(4 * WIDTH)));

static inline vec load(const float* p) { return *reinterpret_cast<const vec*>(p); }
static inline void store(float* p, vec v) { *reinterpret_cast<vec*>(p) = v; }
static inline vec splat(float f) { return vec{} + f; }
[[maybe_unused]] static inline vec max(vec a, vec b) { return a > b ? a : b; }

static inline vec erf(vec x) {
#if ERF == 0
    for (int i = 0; i < WIDTH; i++) x[i] = std::erf(x[i]);
    return x;
#else
    // Abramowitz and Stegun 7.1.26: absolute error below 1.5e-7.
    const vec size = x < 0.0f ? -x : x;
    const vec t = 1.0f / (1.0f + 0.3275911f * size);
    vec p = splat(1.061405429f);
    p = p * t - 1.453152027f;
    p = p * t + 1.421413741f;
    p = p * t - 0.284496736f;
    p = p * t + 0.254829592f;
    // exp(-x^2) = 2^n q(r) with |r| <= ln(2) / 2; adding 1.5 * 2^23 rounds to the nearest integer.
    const vec z = max(-size * size, splat(-87.0f));
    const vec n = (z * 1.44269504f + 12582912.0f) - 12582912.0f;
    const vec r = (z - n * 0.693359375f) + n * 2.12194440e-4f;
    vec q = splat(1.3981999507e-3f);
    q = q * r + 8.3334519073e-3f;
    q = q * r + 4.1665795894e-2f;
    q = q * r + 1.6666665459e-1f;
    q = q * r + 5.0000001201e-1f;
    q = q * r * r + r + 1.0f;
    const ivec bits = (__builtin_convertvector(n, ivec) + 127) << 23;
    const vec y = 1.0f - p * t * q * reinterpret_cast<const vec&>(bits);
    return x < 0.0f ? -y : y;
#endif
}

static inline vec gelu(vec x) { return 0.5f * x * (1.0f + erf(x * 0.70710678f)); }
static inline float gelu(float x) { return 0.5f * x * (1.0f + std::erf(x * 0.70710678f)); }

// The sum over a row of x[c] - shift, or of its square.
template <bool SQUARE>
static float row_sum(const float* x, int cols, float shift) {
    vec s[ACCUMULATORS] = {};
    float sum = 0.0f;
    int c = 0;
    for (; c + WIDTH * ACCUMULATORS <= cols; c += WIDTH * ACCUMULATORS)
#pragma GCC unroll 8
        for (int a = 0; a < ACCUMULATORS; a++) {
            const vec v = load(x + c + a * WIDTH) - shift;
            s[a] += SQUARE ? v * v : v;
        }
    for (; c < cols; c++) sum += SQUARE ? (x[c] - shift) * (x[c] - shift) : x[c] - shift;
    for (const vec& v : s)
        for (int i = 0; i < WIDTH; i++) sum += v[i];
    return sum;
}

// The sums over a row of x[c] - shift and of its square.
static void row_sums(const float* x, int cols, float shift, float& sum, float& squares) {
    vec s[ACCUMULATORS] = {}, q[ACCUMULATORS] = {};
    int c = 0;
    for (; c + WIDTH * ACCUMULATORS <= cols; c += WIDTH * ACCUMULATORS)
#pragma GCC unroll 8
        for (int a = 0; a < ACCUMULATORS; a++) {
            const vec v = load(x + c + a * WIDTH) - shift;
            s[a] += v;
            q[a] += v * v;
        }
    for (; c < cols; c++) sum += x[c] - shift, squares += (x[c] - shift) * (x[c] - shift);
    for (int a = 0; a < ACCUMULATORS; a++)
        for (int i = 0; i < WIDTH; i++) sum += s[a][i], squares += q[a][i];
}

static void layernorm_gelu_row(const float* x, const float* weight, const float* bias, float* y, int cols) {
    float mean, variance;
    if (MOMENTS == 2) {
        mean = row_sum<false>(x, cols, 0.0f) / cols;
        variance = row_sum<true>(x, cols, mean) / cols;
    } else {
        // About any of the row's elements, unlike about zero, the difference does not cancel far from zero.
        float sum = 0.0f, squares = 0.0f;
        row_sums(x, cols, x[0], sum, squares);
        mean = sum / cols;
        variance = squares / cols - mean * mean;
        mean += x[0];
    }
    const float scale = 1.0f / std::sqrt(variance + 1e-5f);
    int c = 0;
    for (; c + WIDTH <= cols; c += WIDTH) {
        const vec v = (load(x + c) - mean) * scale * load(weight + c) + load(bias + c);
        store(y + c, FUSED ? gelu(v) : v);
    }
    for (; c < cols; c++) {
        const float v = (x[c] - mean) * scale * weight[c] + bias[c];
        y[c] = FUSED ? gelu(v) : v;
    }
    if (FUSED) return;
    for (c = 0; c + WIDTH <= cols; c += WIDTH) store(y + c, gelu(load(y + c)));
    for (; c < cols; c++) y[c] = gelu(y[c]);
}

extern "C" void layernorm_gelu(
    const float* x, const float* weight, const float* bias, float* y, int rows, int cols) {
#pragma omp parallel for schedule(dynamic, CHUNK)
    for (int r = 0; r < rows; r++)
        layernorm_gelu_row(x + int64_t(r) * cols, weight, bias, y + int64_t(r) * cols, cols);
}
