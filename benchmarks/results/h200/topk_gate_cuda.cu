/*forewarp
format = 1
inputs = ["logits"]
outputs = ["weights", "indices"]

[tunables]
NORMALISE = [1, 0]               # 0 softmax over all experts first, 1 over the chosen ones only
PACKED = [0, 1]                  # 1 compares value and index as one 64-bit key
LANES = [8, 32, 2, 4, 16]        # lanes of a warp per token
THREADS = [128, 64, 256, 512]    # threads per block
VEC = [4, 1, 2]                  # floats per load where rows are aligned to it

[let]
tokens = "logits.shape[0]"

[constants]
EXPERTS = "logits.shape[1]"
K = "weights.shape[1]"
WIDTH = "VEC if EXPERTS % VEC == 0 else 1"
PACKS = "cdiv(EXPERTS, LANES * WIDTH)"

[[launch]]
kernel = "topk_gate"
args = ["logits", "weights", "indices", "tokens"]
grid = ["cdiv(tokens * LANES, THREADS)"]
block = ["THREADS"]
*/

struct alignas(4 * WIDTH) Pack {
    float v[WIDTH];
};

constexpr int HELD = PACKS * WIDTH;
constexpr float LOWEST = -3.0e38f;

// The expert of a lane's held value: lanes take turns, one pack each.
__device__ int expert_of(int held, int lane) { return (held / WIDTH * LANES + lane) * WIDTH + held % WIDTH; }

__device__ float lanes_max(float v) {
    for (int offset = LANES / 2; offset > 0; offset /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, offset));
    return v;
}

__device__ float lanes_sum(float v) {
    for (int offset = LANES / 2; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffffu, v, offset);
    return v;
}

// The largest value of the token and its expert.
__device__ void lanes_best(float& value, int& expert) {
#if PACKED
    // Unsigned keys in the order of the floats; among equal values the lower expert wins.
    unsigned bits = __float_as_uint(value);
    bits ^= bits >> 31 ? 0xffffffffu : 0x80000000u;
    unsigned long long key = (unsigned long long)bits << 32 | (0xffffffffu - expert);
    for (int offset = LANES / 2; offset > 0; offset /= 2) {
        const unsigned long long other = __shfl_xor_sync(0xffffffffu, key, offset);
        key = other > key ? other : key;
    }
    bits = key >> 32;
    value = __uint_as_float(bits ^ (bits >> 31 ? 0x80000000u : 0xffffffffu));
    expert = 0xffffffffu - (unsigned)key;
#else
    for (int offset = LANES / 2; offset > 0; offset /= 2) {
        const float v = __shfl_xor_sync(0xffffffffu, value, offset);
        const int e = __shfl_xor_sync(0xffffffffu, expert, offset);
        if (v > value || (v == value && e < expert)) value = v, expert = e;
    }
#endif
}

extern "C" __global__ void __launch_bounds__(THREADS)
topk_gate(const float* __restrict__ logits, float* __restrict__ weights, long long* __restrict__ indices, int tokens) {
    const int token = (blockIdx.x * THREADS + threadIdx.x) / LANES, lane = threadIdx.x % LANES;
    const Pack* in = reinterpret_cast<const Pack*>(logits + (long long)token * EXPERTS);

    float held[HELD];
#pragma unroll
    for (int p = 0; p < PACKS; p++) {
        Pack pack;
        const bool inside = token < tokens && expert_of(p * WIDTH, lane) < EXPERTS;
        if (inside) pack = in[p * LANES + lane];
        for (int j = 0; j < WIDTH; j++) held[p * WIDTH + j] = inside ? pack.v[j] : LOWEST;
    }

#if NORMALISE == 0
    float top = LOWEST, all = 0.0f;
#pragma unroll
    for (int i = 0; i < HELD; i++) top = fmaxf(top, held[i]);
    top = lanes_max(top);
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        held[i] = held[i] == LOWEST ? LOWEST : expf(held[i] - top);
        if (held[i] != LOWEST) all += held[i];
    }
    all = lanes_sum(all);
#pragma unroll
    for (int i = 0; i < HELD; i++)
        if (held[i] != LOWEST) held[i] /= all;
#endif

    float chosen[K], sum = 0.0f;
    int experts[K];
#pragma unroll
    for (int k = 0; k < K; k++) {
        float value = LOWEST;
        int expert = EXPERTS;
#pragma unroll
        for (int i = 0; i < HELD; i++)
            if (held[i] > value) value = held[i], expert = expert_of(i, lane);
        lanes_best(value, expert);
#pragma unroll
        for (int i = 0; i < HELD; i++)
            if (expert_of(i, lane) == expert) held[i] = LOWEST;
        chosen[k] = value;
        experts[k] = expert;
    }
    const float peak = chosen[0];
#pragma unroll
    for (int k = 0; k < K; k++) {
        if (NORMALISE == 1) chosen[k] = expf(chosen[k] - peak);
        sum += chosen[k];
    }
    if (token < tokens && lane == 0)
#pragma unroll
        for (int k = 0; k < K; k++) {
            weights[(long long)token * K + k] = chosen[k] / sum;
            indices[(long long)token * K + k] = experts[k];
        }
}
