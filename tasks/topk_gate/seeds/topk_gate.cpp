/*forewarp
format = 1
inputs = ["logits"]
outputs = ["weights", "indices"]
constraints = ["NORMALISE == 0 or EXP == 0"]

[tunables]
NORMALISE = [0, 1]               # 0 softmax over all experts first, 1 over the chosen ones only
SELECT = [0, 1, 2, 3]            # 0 partial sort, 1 one scan per choice, 2 insertion, 3 insertion by vectors
EXP = [0, 1]                     # 0 std::exp, 1 polynomial
WIDTH = [4, 8, 16]               # floats per vector
CHUNK = [64, 1, 8, 512, 4096]    # tokens per unit of work

[let]
tokens = "logits.shape[0]"

[constants]
EXPERTS = "logits.shape[1]"
K = "weights.shape[1]"

[[launch]]
kernel = "topk_gate"
args = ["logits", "weights", "indices", "tokens"]
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

// Keeps the K largest of what is offered, the largest first.
struct Best {
    float value[K];
    int index[K];

    Best() { std::fill_n(value, K, -std::numeric_limits<float>::infinity()); }

    void offer(float v, int i) {
        if (v <= value[K - 1]) return;
        int at = K - 1;
        for (; at > 0 && value[at - 1] < v; at--) value[at] = value[at - 1], index[at] = index[at - 1];
        value[at] = v, index[at] = i;
    }
};

static inline float largest(vec v) {
    float top = v[0];
    for (int i = 1; i < WIDTH; i++) top = std::max(top, v[i]);
    return top;
}

static Best choose(const float* x) {
    Best best;
#if SELECT == 1
    float left[EXPERTS];
    std::copy_n(x, EXPERTS, left);
    for (int k = 0; k < K; k++) {
        const int at = std::max_element(left, left + EXPERTS) - left;
        best.value[k] = left[at], best.index[k] = at;
        left[at] = -std::numeric_limits<float>::infinity();
    }
#elif SELECT == 0
    int order[EXPERTS];
    for (int e = 0; e < EXPERTS; e++) order[e] = e;
    std::partial_sort(order, order + K, order + EXPERTS, [&](int a, int b) { return x[a] > x[b]; });
    for (int k = 0; k < K; k++) best.value[k] = x[order[k]], best.index[k] = order[k];
#else
    int e = 0;
#if SELECT == 3
    for (; e + WIDTH <= EXPERTS; e += WIDTH)
        if (largest(load(x + e)) > best.value[K - 1])
            for (int i = 0; i < WIDTH; i++) best.offer(x[e + i], e + i);
#endif
    for (; e < EXPERTS; e++) best.offer(x[e], e);
#endif
    return best;
}

[[maybe_unused]] static void softmax(const float* x, float* y) {
    const float top = *std::max_element(x, x + EXPERTS);
    float sum = 0.0f;
    int e = 0;
    for (; e + WIDTH <= EXPERTS; e += WIDTH) store(y + e, exp(load(x + e) - top));
    for (; e < EXPERTS; e++) y[e] = std::exp(x[e] - top);
    for (e = 0; e < EXPERTS; e++) sum += y[e];
    for (e = 0; e < EXPERTS; e++) y[e] /= sum;
}

extern "C" void topk_gate(const float* logits, float* weights, int64_t* indices, int tokens) {
#pragma omp parallel for schedule(dynamic, CHUNK)
    for (int t = 0; t < tokens; t++) {
        const float* x = logits + int64_t(t) * EXPERTS;
#if NORMALISE == 0
        float probabilities[EXPERTS];
        softmax(x, probabilities);
        Best best = choose(probabilities);
#else
        Best best = choose(x);
        const float top = best.value[0];
        for (float& v : best.value) v = std::exp(v - top);
#endif
        float sum = 0.0f;
        for (float v : best.value) sum += v;
        for (int k = 0; k < K; k++) {
            weights[int64_t(t) * K + k] = best.value[k] / sum;
            indices[int64_t(t) * K + k] = best.index[k];
        }
    }
}
