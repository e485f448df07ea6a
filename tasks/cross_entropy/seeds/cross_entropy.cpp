/*forewarp
format = 1
inputs = ["logits", "targets"]
outputs = ["loss"]

[tunables]
BLOCK = [0, 512, 2048, 8192]    # columns between updates of the running maximum; 0 takes the whole row at once
EXP = [0, 1]                    # 0 std::exp, 1 polynomial
WIDTH = [4, 8, 16]              # floats per vector
ACCUMULATORS = [1, 2, 4]        # independent partial results per row
CHUNK = [16, 1, 4, 64]          # rows per unit of work

[let]
rows = "logits.shape[0]"
cols = "logits.shape[1]"

[[launch]]
kernel = "cross_entropy"
args = ["logits", "targets", "loss", "rows", "cols"]
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

static float row_max(const float* x, int cols) {
    vec m[ACCUMULATORS];
    float top = -std::numeric_limits<float>::infinity();
    for (vec& v : m) v = splat(top);
    sweep(cols, [&](int c, int a) { m[a] = max(m[a], load(x + c)); }, [&](int c) { top = std::max(top, x[c]); });
    for (const vec& v : m)
        for (int i = 0; i < WIDTH; i++) top = std::max(top, v[i]);
    return top;
}

static float sum_exp(const float* x, int cols, float top) {
    vec s[ACCUMULATORS] = {};
    float sum = 0.0f;
    sweep(cols, [&](int c, int a) { s[a] += exp(load(x + c) - top); }, [&](int c) { sum += std::exp(x[c] - top); });
    for (const vec& v : s)
        for (int i = 0; i < WIDTH; i++) sum += v[i];
    return sum;
}

extern "C" void cross_entropy(const float* logits, const int64_t* targets, float* loss, int rows, int cols) {
    const int step = BLOCK > 0 ? BLOCK : cols;
#pragma omp parallel for schedule(dynamic, CHUNK)
    for (int r = 0; r < rows; r++) {
        const float* x = logits + int64_t(r) * cols;
        float top = -std::numeric_limits<float>::infinity(), sum = 0.0f;
        for (int c = 0; c < cols; c += step) {
            const int n = std::min(step, cols - c);
            const float next = std::max(top, row_max(x + c, n));
            sum = sum * std::exp(top - next) + sum_exp(x + c, n, next);
            top = next;
        }
        loss[r] = std::log(sum) + top - x[targets[r]];
    }
}
