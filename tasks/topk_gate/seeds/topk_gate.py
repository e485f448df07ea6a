"""forewarp
format = 1
inputs = ["logits"]
outputs = ["weights", "indices"]
constraints = ["TOKENS <= (2 if SELECT == 2 else 8) * WARPS", "SELECT == 2 or WARPS <= TOKENS"]

[tunables]
NORMALISE = [0, 1]                   # 0 softmax over all experts first, 1 over the chosen ones only
SELECT = [0, 1, 2]                   # 0 largest with index, 1 largest of 64-bit keys, 2 sort of 64-bit keys
TOKENS = [4, 1, 2, 8, 16, 32, 64]    # tokens per step
WARPS = [4, 1, 2, 8]
PROGRAMS = [0, 264, 1056, 4224]      # programs that share the tokens; 0 is one program per step

[let]
tokens = "logits.shape[0]"
steps = "cdiv(tokens, TOKENS)"

[constants]
EXPERTS = "logits.shape[1]"
EXPERTS_POW2 = "next_pow2(EXPERTS)"
K = "weights.shape[1]"
K_POW2 = "next_pow2(K)"

[[launch]]
kernel = "topk_gate"
args = ["logits", "weights", "indices", "tokens"]
grid = ["min(PROGRAMS, steps) if PROGRAMS > 0 else steps"]
num_warps = "WARPS"
"""

import triton
import triton.language as tl


@triton.jit
def to_keys(v, e, EXPERTS_POW2: tl.constexpr):
    # Signed keys in the order of the floats; among equal values the lower expert wins.
    bits = v.to(tl.int32, bitcast=True)
    bits = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    return (bits.to(tl.int64) << 32) | (EXPERTS_POW2 - 1 - e).to(tl.int64)


@triton.jit
def value_of(key):
    bits = (key >> 32).to(tl.int32)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits).to(tl.float32, bitcast=True)


@triton.jit
def expert_of(key, EXPERTS_POW2: tl.constexpr):
    return EXPERTS_POW2 - 1 - (key & (EXPERTS_POW2 - 1))


@triton.jit
def topk_gate(
    logits, weights, indices, tokens,
    NORMALISE: tl.constexpr, SELECT: tl.constexpr, TOKENS: tl.constexpr,
    EXPERTS: tl.constexpr, EXPERTS_POW2: tl.constexpr, K: tl.constexpr, K_POW2: tl.constexpr,
):
    for step in range(tl.program_id(0), tl.cdiv(tokens, TOKENS), tl.num_programs(0)):
        token = step * TOKENS + tl.arange(0, TOKENS)[:, None]
        e = tl.arange(0, EXPERTS_POW2)[None, :]
        at = token.to(tl.int64)
        v = tl.load(logits + at * EXPERTS + e, mask=(token < tokens) & (e < EXPERTS), other=-3.0e38)
        if NORMALISE == 0:
            p = tl.exp(v - tl.max(v, axis=1)[:, None])
            v = tl.where(e < EXPERTS, p / tl.sum(p, axis=1)[:, None], -1.0)

        if SELECT == 2:
            ranked = tl.sort(to_keys(v, e, EXPERTS_POW2), dim=1, descending=True)
            slot = e
            chosen = value_of(ranked)
            experts = expert_of(ranked, EXPERTS_POW2)
        else:
            slot = tl.arange(0, K_POW2)[None, :]
            chosen = tl.full([TOKENS, K_POW2], -3.0e38, tl.float32)
            experts = tl.zeros([TOKENS, K_POW2], tl.int64)
            for k in tl.static_range(K):
                if SELECT == 0:
                    best, index = tl.max(v, axis=1, return_indices=True)
                    index = index.to(tl.int64)
                else:
                    key = tl.max(to_keys(v, e, EXPERTS_POW2), axis=1)
                    best, index = value_of(key), expert_of(key, EXPERTS_POW2)
                chosen = tl.where(slot == k, best[:, None], chosen)
                experts = tl.where(slot == k, index[:, None], experts)
                v = tl.where(e == index[:, None], -3.0e38, v)

        if NORMALISE == 1:
            chosen = tl.exp(chosen - tl.max(chosen, axis=1)[:, None])
        chosen = tl.where(slot < K, chosen, 0.0)
        chosen /= tl.sum(chosen, axis=1)[:, None]
        tl.store(weights + at * K + slot, chosen, mask=(token < tokens) & (slot < K))
        tl.store(indices + at * K + slot, experts, mask=(token < tokens) & (slot < K))
