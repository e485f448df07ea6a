"""States of the chunks of a selective scan: a product over time of keys and decayed values."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}, num_warps=w, num_stages=s)
    for m, n, k, w, s in itertools.product((32, 64, 128), (32, 64, 128), (16, 32, 64), (2, 4, 8), (2, 3, 5))
    if not (m * n >= 128 * 128 and w == 2) and not (m * n <= 32 * 64 and w == 8)
]


@triton.autotune(configs=CONFIGS, key=["HEAD", "STATE", "CHUNK"])
@triton.jit
def chunk_state(
    x_ptr,
    b_ptr,
    decay_ptr,
    out_ptr,
    HEAD,
    STATE,
    CHUNK,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    chunk = tl.program_id(1).to(tl.int64)
    num_n = tl.cdiv(STATE, BLOCK_N)
    rows = (tl.program_id(0) // num_n) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = (tl.program_id(0) % num_n) * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    x = x_ptr + (chunk * CHUNK + ks)[None, :] * HEAD + rows[:, None]
    b = b_ptr + (chunk * CHUNK + ks)[:, None] * STATE + cols[None, :]
    end = tl.load(decay_ptr + chunk * CHUNK + CHUNK - 1)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, CHUNK, BLOCK_K):
        fade = tl.exp(end - tl.load(decay_ptr + chunk * CHUNK + k + ks))
        left = tl.load(x, mask=rows[:, None] < HEAD, other=0.0)
        right = tl.load(b, mask=cols[None, :] < STATE, other=0.0).to(tl.float32) * fade[:, None]
        acc = tl.dot(left, right.to(tl.bfloat16), acc)
        x += BLOCK_K * HEAD
        b += BLOCK_K * STATE
    out = out_ptr + chunk * HEAD * STATE + rows[:, None] * STATE + cols[None, :]
    tl.store(out, acc, mask=(rows[:, None] < HEAD) & (cols[None, :] < STATE))


def inputs(chunks, head, state, chunk):
    torch.manual_seed(0)
    x = torch.randn(chunks, chunk, head, device=DEVICE).bfloat16()
    b = torch.randn(chunks, chunk, state, device=DEVICE).bfloat16()
    return x, b, (-torch.rand(chunks, chunk, device=DEVICE) / 32).cumsum(1)


def run(chunks=2048, head=64, state=128, chunk=256):
    x, b, decay = inputs(chunks, head, state, chunk)
    out = torch.empty(chunks, head, state, device=DEVICE)
    chunk_state[lambda meta: (triton.cdiv(head, meta["BLOCK_M"]) * triton.cdiv(state, meta["BLOCK_N"]), chunks)](
        x, b, decay, out, head, state, chunk
    )
    return out


def expected(chunks=2048, head=64, state=128, chunk=256):
    x, b, decay = inputs(chunks, head, state, chunk)
    fade = torch.exp(decay[:, -1:] - decay)[..., None]
    return x.float().transpose(1, 2) @ (b.float() * fade)
