"""First half of low-rank adapters: each run of tokens times its own adapter's narrow matrix, split over the width."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "SPLIT_K": p}, num_warps=w, num_stages=s)
    for m, n, k, p, w, s in itertools.product((16, 32, 64), (16, 32), (64, 128, 256), (1, 4, 16, 64), (2, 4, 8), (2, 3))
    if not (m * n <= 16 * 32 and w == 8) and not (m * n >= 32 * 32 and w == 2)
]


@triton.autotune(configs=CONFIGS, key=["N", "K"], reset_to_zero=["out_ptr"])
@triton.jit
def lora_shrink(
    input_ptr,
    lora_ptr,
    out_ptr,
    M_LENS,
    N,
    K,
    seq_start_ptr,
    seq_lens_ptr,
    lora_ids_ptr,
    scaling,
    xm_stride,
    l0_stride,
    ln_stride,
    cm_stride,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SPLIT_K: tl.constexpr,
):
    pid = tl.program_id(0)
    pid_sk = tl.program_id(1)
    cur_batch = tl.program_id(2)
    cta_n_num = tl.cdiv(N, BLOCK_N)
    pid_m = pid // cta_n_num
    pid_n = pid % cta_n_num
    m_len = tl.load(seq_lens_ptr + cur_batch)
    if pid_m * BLOCK_M >= m_len:
        return
    lora_id = tl.load(lora_ids_ptr + cur_batch)
    start = tl.load(seq_start_ptr + cur_batch)
    offset_m = tl.arange(0, BLOCK_M) + pid_m * BLOCK_M
    offset_n = tl.arange(0, BLOCK_N) + pid_n * BLOCK_N
    offset_k = pid_sk * BLOCK_K + tl.arange(0, BLOCK_K)
    ram = tl.max_contiguous(tl.multiple_of(offset_m % m_len, BLOCK_M), BLOCK_M)
    rbn = tl.max_contiguous(tl.multiple_of(offset_n % N, BLOCK_N), BLOCK_N)
    a_ptr = input_ptr + (start + ram[:, None]) * xm_stride + offset_k[None, :]
    b_ptr = lora_ptr + lora_id * l0_stride + rbn[None, :] * ln_stride + offset_k[:, None]
    accumulator = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K * SPLIT_K)):
        k_remaining = K - k * (BLOCK_K * SPLIT_K)
        tiled_a = tl.load(a_ptr, mask=offset_k[None, :] < k_remaining, other=0.0)
        tiled_b = tl.load(b_ptr, mask=offset_k[:, None] < k_remaining, other=0.0)
        accumulator += tl.dot(tiled_a, tiled_b)
        a_ptr += BLOCK_K * SPLIT_K
        b_ptr += BLOCK_K * SPLIT_K
    accumulator *= scaling
    c_ptr = out_ptr + (start + offset_m[:, None]) * cm_stride + offset_n[None, :]
    c_mask = (offset_m[:, None] < m_len) & (offset_n[None, :] < N)
    if SPLIT_K == 1:
        tl.store(c_ptr, accumulator, mask=c_mask)
    else:
        tl.atomic_add(c_ptr, accumulator, mask=c_mask, sem="relaxed")


def inputs(runs, tokens, rank, k):
    torch.manual_seed(0)
    x = torch.randn(runs * tokens, k, device=DEVICE).bfloat16()
    adapters = (torch.randn(8, rank, k, device=DEVICE) * k**-0.5).bfloat16()
    starts = torch.arange(runs, device=DEVICE) * tokens
    return x, adapters, starts, torch.full_like(starts, tokens), torch.arange(runs, device=DEVICE) % 8


def run(runs=16, tokens=128, rank=32, k=4096):
    x, adapters, starts, lengths, which = inputs(runs, tokens, rank, k)
    out = torch.zeros(runs * tokens, rank, device=DEVICE)

    def grid(meta):
        return triton.cdiv(tokens, meta["BLOCK_M"]) * triton.cdiv(rank, meta["BLOCK_N"]), meta["SPLIT_K"], runs

    lora_shrink[grid](
        x,
        adapters,
        out,
        tokens,
        rank,
        k,
        starts,
        lengths,
        which,
        0.5,
        x.stride(0),
        adapters.stride(0),
        adapters.stride(1),
        out.stride(0),
    )
    return out


def expected(runs=16, tokens=128, rank=32, k=4096):
    x, adapters, _, _, which = inputs(runs, tokens, rank, k)
    out = x.float().view(runs, tokens, k) @ adapters[which].float().transpose(1, 2) * 0.5
    return out.view(runs * tokens, rank)
