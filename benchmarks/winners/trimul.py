"""forewarp
[tunables]
FUSED = [1, 3]
ROWS = [64, 128]
COLS = [128, 64, 32]
WARPS = [4, 8]
STAGES = [2, 3]
ROWS_NORM = [8, 4, 16]
ROWS_OUT = [64, 32]
COLS_OUT = [64, 128]
WARPS_OUT = [4, 8]
STAGES_OUT = [1, 2]
"""

# Triangle multiplicative update, outgoing: layer norm, five projections, gates and mask in one kernel (in two where
# rows are wide), the products over k by cuBLAS in fp16, layer norm, gate and last projection in another. Weights are
# rounded to fp16 in each call.

import torch
import triton
import triton.language as tl

FUSED = 1  # up to so many times 128 channels, layer norm and projections are one kernel
ROWS = 64
COLS = 128
WARPS = 4
STAGES = 2
ROWS_NORM = 8
ROWS_OUT = 64
COLS_OUT = 64
WARPS_OUT = 4
STAGES_OUT = 1


@triton.jit
def pack(
    left,
    left_gate,
    right,
    right_gate,
    gate,
    out,
    packed,
    packed_out,
    DIM: tl.constexpr,
    HIDDEN: tl.constexpr,
    WIDTH: tl.constexpr,
):
    """Round one row of weights to fp16: rows of left and its gate take turns, right likewise, then gate, then out."""
    row = tl.program_id(0)
    k = tl.arange(0, WIDTH)
    if row < 4 * HIDDEN:
        place = (row % (2 * HIDDEN)) // 2 * DIM + k
        mine = k < DIM
        value = tl.load(left + place, mask=mine & (row < 2 * HIDDEN) & (row % 2 == 0), other=0.0)
        value += tl.load(left_gate + place, mask=mine & (row < 2 * HIDDEN) & (row % 2 == 1), other=0.0)
        value += tl.load(right + place, mask=mine & (row >= 2 * HIDDEN) & (row % 2 == 0), other=0.0)
        value += tl.load(right_gate + place, mask=mine & (row >= 2 * HIDDEN) & (row % 2 == 1), other=0.0)
        tl.store(packed + row * DIM + k, value.to(tl.float16), mask=mine)
    elif row < 5 * HIDDEN:
        value = tl.load(gate + (row - 4 * HIDDEN) * DIM + k, mask=k < DIM, other=0.0)
        tl.store(packed + row * DIM + k, value.to(tl.float16), mask=k < DIM)
    else:
        place = (row - 5 * HIDDEN) * HIDDEN + k
        value = tl.load(out + place, mask=k < HIDDEN, other=0.0)
        tl.store(packed_out + place, value.to(tl.float16), mask=k < HIDDEN)


@triton.jit
def normalised(x, weight, bias, own, inside, mean, scale, start, DIM: tl.constexpr, K: tl.constexpr):
    k = start + tl.arange(0, K)
    value = tl.load(x + own[:, None] * DIM + k[None, :], mask=inside[:, None] & (k < DIM)[None, :], other=0.0)
    w = tl.load(weight + k, mask=k < DIM, other=0.0)
    b = tl.load(bias + k, mask=k < DIM, other=0.0)
    return ((value - mean[:, None]) * scale[:, None] * w[None, :] + b[None, :]).to(tl.float16)


@triton.jit(do_not_specialize=["batches"])
def project(
    x,
    mask,
    weight,
    bias,
    packed,
    sides,
    gates,
    count,
    batches,
    DIM: tl.constexpr,
    HIDDEN: tl.constexpr,
    K: tl.constexpr,
    PIECES: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Write left and right of one block of rows (gated, masked) and the output's gates, channels first."""
    batch = tl.program_id(1).to(tl.int64)
    own = tl.arange(0, ROWS)
    rows = tl.program_id(0) * ROWS + own
    inside = rows < count
    x += (batch * count + tl.program_id(0) * ROWS) * DIM
    # Mean and variance: all pieces of the rows are read here; the second read below finds them in the caches.
    total = tl.zeros([ROWS], tl.float32)
    for p in tl.static_range(PIECES):
        k = p * K + tl.arange(0, K)
        total += tl.sum(
            tl.load(x + own[:, None] * DIM + k[None, :], mask=inside[:, None] & (k < DIM)[None, :], other=0.0), 1
        )
    mean = total / DIM
    total = tl.zeros([ROWS], tl.float32)
    for p in tl.static_range(PIECES):
        k = p * K + tl.arange(0, K)
        there = inside[:, None] & (k < DIM)[None, :]
        away = tl.where(there, tl.load(x + own[:, None] * DIM + k[None, :], mask=there, other=0.0) - mean[:, None], 0.0)
        total += tl.sum(away * away, 1)
    scale = tl.rsqrt(total / DIM + 1e-5)
    a0 = normalised(x, weight, bias, own, inside, mean, scale, 0, DIM, K)
    if PIECES > 1:
        a1 = normalised(x, weight, bias, own, inside, mean, scale, K, DIM, K)
    if PIECES > 2:
        a2 = normalised(x, weight, bias, own, inside, mean, scale, 2 * K, DIM, K)
    kept = tl.load(mask + batch * count + rows, mask=inside, other=0).to(tl.float32)
    k = tl.arange(0, K)
    for start in tl.range(0, 4 * HIDDEN, COLS, num_stages=STAGES):
        n = start + tl.arange(0, COLS)
        w = packed + n[None, :] * DIM + k[:, None]
        wide = (n < 4 * HIDDEN)[None, :]
        acc = tl.dot(a0, tl.load(w, mask=(k < DIM)[:, None] & wide, other=0.0))
        if PIECES > 1:
            acc = tl.dot(a1, tl.load(w + K, mask=(k + K < DIM)[:, None] & wide, other=0.0), acc)
        if PIECES > 2:
            acc = tl.dot(a2, tl.load(w + 2 * K, mask=(k + 2 * K < DIM)[:, None] & wide, other=0.0), acc)
        value, gate = tl.split(tl.reshape(acc, [ROWS, COLS // 2, 2]))
        value = value * kept[:, None] * tl.sigmoid(gate)
        channel = start // 2 + tl.arange(0, COLS // 2)
        # Left of all batches, then right of all batches.
        place = (channel // HIDDEN * batches + batch) * HIDDEN + channel % HIDDEN
        tl.store(
            sides + place[None, :].to(tl.int64) * count + rows[:, None],
            value.to(tl.float16),
            mask=inside[:, None] & (channel < 2 * HIDDEN)[None, :],
        )
    for start in tl.range(0, HIDDEN, COLS, num_stages=STAGES):
        n = start + tl.arange(0, COLS)
        w = packed + (4 * HIDDEN + n)[None, :] * DIM + k[:, None]
        wide = (n < HIDDEN)[None, :]
        acc = tl.dot(a0, tl.load(w, mask=(k < DIM)[:, None] & wide, other=0.0))
        if PIECES > 1:
            acc = tl.dot(a1, tl.load(w + K, mask=(k + K < DIM)[:, None] & wide, other=0.0), acc)
        if PIECES > 2:
            acc = tl.dot(a2, tl.load(w + 2 * K, mask=(k + 2 * K < DIM)[:, None] & wide, other=0.0), acc)
        place = batch * HIDDEN + n
        tl.store(
            gates + place[None, :] * count + rows[:, None], tl.sigmoid(acc).to(tl.float16), mask=inside[:, None] & wide
        )


@triton.jit
def normalise(x, weight, bias, normed, count, DIM: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    """Layer norm of rows, in fp16."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    k = tl.arange(0, WIDTH)
    there = (rows < count)[:, None] & (k < DIM)[None, :]
    value = tl.load(x + rows[:, None] * DIM + k[None, :], mask=there, other=0.0)
    away = tl.where(there, value - (tl.sum(value, 1) / DIM)[:, None], 0.0)
    scale = tl.rsqrt(tl.sum(away * away, 1) / DIM + 1e-5)
    w = tl.load(weight + k, mask=k < DIM, other=0.0)
    b = tl.load(bias + k, mask=k < DIM, other=0.0)
    out = away * scale[:, None] * w[None, :] + b[None, :]
    tl.store(normed + rows[:, None] * DIM + k[None, :], out.to(tl.float16), mask=there)


@triton.jit(do_not_specialize=["batches"])
def multiply(
    normed,
    mask,
    packed,
    sides,
    gates,
    count,
    batches,
    DIM: tl.constexpr,
    HIDDEN: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    K: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Write one block of rows and columns of what `project` writes, from rows that are normalised already."""
    batch = tl.program_id(2).to(tl.int64)
    own = tl.arange(0, ROWS)
    rows = tl.program_id(1) * ROWS + own
    inside = rows < count
    paired = (4 * HIDDEN + COLS - 1) // COLS  # blocks of columns that are left and right with their gates
    block = tl.program_id(0)
    n = tl.where(block < paired, block * COLS, 4 * HIDDEN + (block - paired) * COLS) + tl.arange(0, COLS)
    wide = n < tl.where(block < paired, 4 * HIDDEN, 5 * HIDDEN)
    k = tl.arange(0, K)
    a = normed + (batch * count + tl.program_id(1) * ROWS) * DIM + own[:, None] * DIM + k[None, :]
    w = packed + n[None, :] * DIM + k[:, None]
    acc = tl.zeros([ROWS, COLS], tl.float32)
    for start in tl.range(0, DIM, K, num_stages=STAGES):
        here = k + start < DIM
        acc = tl.dot(
            tl.load(a + start, mask=inside[:, None] & here[None, :], other=0.0),
            tl.load(w + start, mask=here[:, None] & wide[None, :], other=0.0),
            acc,
        )
    if block < paired:
        kept = tl.load(mask + batch * count + rows, mask=inside, other=0).to(tl.float32)
        value, gate = tl.split(tl.reshape(acc, [ROWS, COLS // 2, 2]))
        value = value * kept[:, None] * tl.sigmoid(gate)
        channel = block * (COLS // 2) + tl.arange(0, COLS // 2)
        side = (channel // HIDDEN * batches + batch) * HIDDEN + channel % HIDDEN
        tl.store(
            sides + side[None, :].to(tl.int64) * count + rows[:, None],
            value.to(tl.float16),
            mask=inside[:, None] & (channel < 2 * HIDDEN)[None, :],
        )
    else:
        place = batch * HIDDEN + n - 4 * HIDDEN
        tl.store(
            gates + place[None, :] * count + rows[:, None],
            tl.sigmoid(acc).to(tl.float16),
            mask=inside[:, None] & wide[None, :],
        )


@triton.jit
def finish(
    product,
    gates,
    weight,
    bias,
    packed,
    y,
    count,
    DIM: tl.constexpr,
    HIDDEN: tl.constexpr,
    H: tl.constexpr,
    ROWS: tl.constexpr,
    COLS: tl.constexpr,
    STAGES: tl.constexpr,
):
    """Layer norm over channels, gate and projection of a block of rows."""
    batch = tl.program_id(1).to(tl.int64)
    own = tl.arange(0, ROWS)
    rows = tl.program_id(0) * ROWS + own
    h = tl.arange(0, H)
    there = (rows < count)[:, None] & (h < HIDDEN)[None, :]
    place = (batch * HIDDEN + h)[None, :] * count + rows[:, None]
    value = tl.load(product + place, mask=there, other=0.0).to(tl.float32)
    gate = tl.load(gates + place, mask=there, other=0.0).to(tl.float32)
    mean = tl.sum(value, 1) / HIDDEN
    away = tl.where(there, value - mean[:, None], 0.0)
    scale = tl.rsqrt(tl.sum(away * away, 1) / HIDDEN + 1e-5)
    w = tl.load(weight + h, mask=h < HIDDEN, other=0.0)
    b = tl.load(bias + h, mask=h < HIDDEN, other=0.0)
    a = ((away * scale[:, None] * w[None, :] + b[None, :]) * gate).to(tl.float16)
    y += (batch * count + tl.program_id(0) * ROWS) * DIM
    for start in tl.range(0, DIM, COLS, num_stages=STAGES):
        n = start + tl.arange(0, COLS)
        wide = (n < DIM)[None, :]
        out = tl.load(packed + n[None, :] * HIDDEN + h[:, None], mask=wide & (h < HIDDEN)[:, None], other=0.0)
        tl.store(y + own[:, None] * DIM + n[None, :], tl.dot(a, out), mask=(rows < count)[:, None] & wide)


def custom_kernel(data):
    x, mask, weights, config = data
    dim, hidden = config["dim"], config["hidden_dim"]
    batches, length = x.shape[0], x.shape[1]
    count = length * length
    half = {"dtype": torch.float16, "device": x.device}
    packed, packed_out = torch.empty(5 * hidden, dim, **half), torch.empty(dim, hidden, **half)
    sides = torch.empty(2, batches * hidden, length, length, **half)
    gates = torch.empty(batches * hidden, count, **half)
    y = torch.empty_like(x)
    pack[(5 * hidden + dim,)](
        weights["left_proj.weight"],
        weights["left_gate.weight"],
        weights["right_proj.weight"],
        weights["right_gate.weight"],
        weights["out_gate.weight"],
        weights["to_out.weight"],
        packed,
        packed_out,
        dim,
        hidden,
        triton.next_power_of_2(max(dim, hidden)),
    )
    norm = weights["norm.weight"], weights["norm.bias"]
    if dim <= 128 * FUSED:
        project[(triton.cdiv(count, ROWS), batches)](
            x,
            mask,
            *norm,
            packed,
            sides,
            gates,
            count,
            batches,
            dim,
            hidden,
            128,
            triton.cdiv(dim, 128),
            ROWS,
            COLS,
            STAGES,
            num_warps=WARPS,
        )
    else:
        normed = torch.empty(batches * count, dim, **half)
        normalise[(triton.cdiv(batches * count, ROWS_NORM),)](
            x, *norm, normed, batches * count, dim, triton.next_power_of_2(dim), ROWS_NORM, num_warps=4
        )
        multiply[(triton.cdiv(4 * hidden, 128) + triton.cdiv(hidden, 128), triton.cdiv(count, 128), batches)](
            normed, mask, packed, sides, gates, count, batches, dim, hidden, 128, 128, 64, 3, num_warps=8
        )
    product = torch.bmm(sides[0], sides[1].transpose(1, 2))
    finish[(triton.cdiv(count, ROWS_OUT), batches)](
        product,
        gates,
        weights["to_out_norm.weight"],
        weights["to_out_norm.bias"],
        packed_out,
        y,
        count,
        dim,
        hidden,
        max(16, triton.next_power_of_2(hidden)),
        ROWS_OUT,
        COLS_OUT,
        STAGES_OUT,
        num_warps=WARPS_OUT,
    )
    return y
