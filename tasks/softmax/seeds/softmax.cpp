/*forewarp
format = 1
inputs = ["x"]
outputs = ["y"]

[tunables]
PASSES = [0, 1, 2]          # 0 keep the exponentials in y, 1 compute them twice, 2 running maximum and sum
EXP = [0, 1]                # 0 std::exp, 1 polynomial
WIDTH = [4, 8, 16]          # floats per vector
ACCUMULATORS = [1, 2, 4]    # independent partial results per row
CHUNK = [16, 1, 64, 256]    # rows per unit of work

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"

[[launch]]
kernel = "softmax"
args = ["x", "y", "rows", "cols"]
*/
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#pragma GCC diagnostic ignored "-Wpsabi"

typedef float vec __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(4 * WIDTH)));

static inline vec load(const float* p) { return *reinterpret_cast<const vec*>(p); }
static inline void store(float* p, vec v) { *reinterpret_cast<vec*>(p) = v; }
static inline vec splat(float f) { return vec{} + f; }
static inline vec max(vec a, vec b) { return a > b ? a : b; }

static inline vec exp(vec x) {
#if EXP == 0
    for (int i = 0; i < WIDTH; i++) x[i] = std::exp(x[i]);
    return x;
#else
    // Cephes: exp(x) = 2^n p(r) with |r| <= ln(2) / 2; adding 1.5 * 2^23 rounds to the nearest integer.
    x = max(x, splat(-87.0f));
    const vec n = (x * 1.44269504f + 12582912.0f) - 12582912.0f;
    const vec r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    vec p = splat(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    const ivec bits = (__builtin_convertvector(n, ivec) + 127) << 23;
    return p * reinterpret_cast<const vec&>(bits);
#endif
}

// Calls vector(column, accumulator) for whole vectors and scalar(column) for what is left of the row.
template <class Vector, class Scalar>
static inline void sweep(int cols, Vector vector, Scalar scalar) {
    int c = 0;
    for (; c + WIDTH * ACCUMULATORS <= cols; c += WIDTH * ACCUMULATORS)
#pragma GCC unroll 8
        for (int a = 0; a < ACCUMULATORS; a++) vector(c + a * WIDTH, a);
    for (; c + WIDTH <= cols; c += WIDTH) vector(c, 0);
    for (; c < cols; c++) scalar(c);
}

[[maybe_unused]] static float row_max(const float* x, int cols) {
    vec m[ACCUMULATORS];
    float top = -std::numeric_limits<float>::infinity();
    for (vec& v : m) v = splat(top);
    sweep(cols, [&](int c, int a) { m[a] = max(m[a], load(x + c)); }, [&](int c) { top = std::max(top, x[c]); });
    for (const vec& v : m)
        for (int i = 0; i < WIDTH; i++) top = std::max(top, v[i]);
    return top;
}

static void softmax_row(const float* x, float* y, int cols) {
    vec s[ACCUMULATORS] = {};
    float sum = 0.0f;
#if PASSES == 2
    vec m[ACCUMULATORS];
    float top = -std::numeric_limits<float>::infinity();
    for (vec& v : m) v = splat(-1e30f);
    sweep(
        cols,
        [&](int c, int a) {
            const vec v = load(x + c), next = max(m[a], v);
            s[a] = s[a] * exp(m[a] - next) + exp(v - next);
            m[a] = next;
        },
        [&](int c) {
            const float next = std::max(top, x[c]);
            sum = sum * std::exp(top - next) + std::exp(x[c] - next);
            top = next;
        });
    for (int a = 0; a < ACCUMULATORS; a++)
        for (int i = 0; i < WIDTH; i++) {
            const float next = std::max(top, m[a][i]);
            sum = sum * std::exp(top - next) + s[a][i] * std::exp(m[a][i] - next);
            top = next;
        }
#else
    const float top = row_max(x, cols);
    sweep(
        cols,
        [&](int c, int a) {
            const vec e = exp(load(x + c) - top);
            s[a] += e;
            if (PASSES == 0) store(y + c, e);
        },
        [&](int c) {
            const float e = std::exp(x[c] - top);
            sum += e;
            if (PASSES == 0) y[c] = e;
        });
    for (const vec& v : s)
        for (int i = 0; i < WIDTH; i++) sum += v[i];
#endif
    const float scale = 1.0f / sum;
    sweep(
        cols,
        [&](int c, int) { store(y + c, (PASSES == 0 ? load(y + c) : exp(load(x + c) - top)) * scale); },
        [&](int c) { y[c] = (PASSES == 0 ? y[c] : std::exp(x[c] - top)) * scale; });
}

extern "C" void softmax(const float* x, float* y, int rows, int cols) {
#pragma omp parallel for schedule(dynamic, CHUNK)
    for (int r = 0; r < rows; r++) softmax_row(x + int64_t(r) * cols, y + int64_t(r) * cols, cols);
}
