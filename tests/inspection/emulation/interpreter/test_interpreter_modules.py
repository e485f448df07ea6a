"""Modules whose kernels read beside their arguments, and modules that only seem to."""

from __future__ import annotations

import pytest
from support import interpreted as tasks
from support import interpreted_modules as samples

from forewarp.core.values import Candidate, Task
from forewarp.gpu_runner.executors.local import LocalExecutor

DOUBLE = tasks.model("x * 2", "torch.randn(N)", N=1000)
SUM = tasks.model("x.sum(1)", "torch.randn(ROWS, COLS)", ROWS=12, COLS=200)
SUM_OF_VIEW = tasks.model("x[:, :60].sum(1)", "torch.randn(ROWS, COLS)", ROWS=12, COLS=64)
SUM_TURNED = tasks.model("x.t().sum(1)", "torch.randn(ROWS, COLS)", ROWS=12, COLS=20)
ADD = tasks.model("x + rest[0]", "torch.randn(N), torch.randn(N)", N=1000)
PACKED = tasks.model("x[:, :64] * x[:, 64:]", "torch.randn(ROWS, 128)", ROWS=12)
GATHER = tasks.model("x[rest[0]]", "torch.randn(N), torch.randint(0, N, (N,))", N=1000)
MATMUL = tasks.model("x @ rest[0]", "torch.randn(M, K), torch.randn(K, N)", M=32, K=40, N=32)

STORE = "tl.store(y + i, v * 2, mask=i < n)"
TOTAL = "tl.store(y + row, tl.sum(v, axis=0))"
BLOCKS = """
p = tl.make_block_ptr(x, (n,), (1,), (tl.program_id(0) * BLOCK,), (BLOCK,), (0,))
v = tl.load(p)
""".strip()
CHECKED = BLOCKS.replace("(p)", "(p, boundary_check=(0,), padding_option='zero')")
GATHERED = samples.module(
    "x, at, y, n, BLOCK: tl.constexpr\n"
    "i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
    "j = tl.load(at + i, mask=i < n, other=0)\n"
    "tl.store(y + i, tl.load(x + j, mask=i < n), mask=i < n)",
    "y = torch.empty_like(x)\nk[(triton.cdiv(x.numel(), 128),)](x, rest[0], y, x.numel(), BLOCK=128)\nreturn y",
)
PRODUCT = samples.module(
    "a, b, c, M, N, K, BLOCK: tl.constexpr, STEP: tl.constexpr\n"
    "m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
    "n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)\n"
    "s = tl.arange(0, STEP)\n"
    "total = tl.zeros((BLOCK, BLOCK), tl.float32)\n"
    "for start in range(0, K, STEP):\n"
    "    k = start + s\n"
    "    left = tl.load(a + m[:, None] * K + k[None, :], mask=k[None, :] < K, other=0.0)\n"
    "    right = tl.load(b + k[:, None] * N + n[None, :], mask=k[:, None] < K, other=0.0)\n"
    "    total += tl.dot(left, right, input_precision='ieee')\n"
    "tl.store(c + m[:, None] * N + n[None, :], total)",
    "a, b = x, rest[0]\n"
    "c = torch.empty(a.shape[0], b.shape[1])\n"
    "k[(a.shape[0] // 16, b.shape[1] // 16)](a, b, c, a.shape[0], b.shape[1], a.shape[1], BLOCK=16, STEP=16)\n"
    "return c",
)


def changed(candidate: Candidate, old: str, new: str) -> Candidate:
    assert old in candidate.source
    return Candidate(candidate.source.replace(old, new), "python")


NO_MASK = samples.flat(f"v = tl.load(x + i)\n{STORE}")
WRONG: dict[str, tuple[Task, Candidate, str]] = {
    "no mask": (DOUBLE, NO_MASK, "loads elements 1000 to 1023 of x"),
    "<= for <": (DOUBLE, samples.flat(f"v = tl.load(x + i, mask=i <= n)\n{STORE}"), "loads element 1000 of x"),
    "before the start": (
        DOUBLE,
        samples.flat(f"w = tl.load(x + i - 1, mask=i < n)\nv = tl.load(x + i, mask=i < n)\n{STORE}"),
        "loads element -1 of x",
    ),
    "a scalar at the end": (
        DOUBLE,
        samples.flat(f"w = tl.load(x + n)\nv = tl.load(x + i, mask=i < n)\n{STORE}"),
        "loads element 1000 of x",
    ),
    "a neighbouring buffer": (
        ADD,
        samples.flat(f"v = (tl.load(x + i, mask=i < n) + tl.load(x + 1024 + i, mask=i < n)) * 0.5\n{STORE}"),
        "loads elements 1024 to",
    ),
    "a block pointer unchecked": (
        DOUBLE,
        samples.flat(f"{BLOCKS}\n{STORE}"),
        "loads elements 1000 to 1023 of x",
    ),
    "the last row of a wide block": (
        SUM,
        samples.rows(f"v = tl.where(c < cols, tl.load(x + row * stride + c), 0.0)\n{TOTAL}"),
        "loads elements 2400 to 2455 of x",
    ),
    "the end of a view": (
        SUM_OF_VIEW,
        samples.rows(f"v = tl.load(x + row * stride + c)\n{TOTAL}", given="x[:, :60]"),
        "loads elements 60 to 63 of x, which is a view of 720 elements",
    ),
    "stride of another axis": (
        SUM_TURNED,
        changed(
            samples.rows(f"v = tl.load(x + row * stride + c, mask=c < cols, other=0.0)\n{TOTAL}", given="x.t()"),
            "v.stride(0)",
            "v.stride(1)",
        ),
        "loads elements 240 to",
    ),
    "an index too far": (GATHER, changed(GATHERED, "x + j", "x + j + 1000"), "of x, which holds 1000 elements"),
    "the rest of the sum": (MATMUL, changed(PRODUCT, ", mask=k[:, None] < K, other=0.0", ""), "of b"),
    "scratch of its own": (
        DOUBLE,
        samples.flat(f"v = tl.load(x + i)\n{STORE}", given="x.clone()"),
        "loads elements 1000 to 1023 of x",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_reads_beside_an_argument_is_named(executor: LocalExecutor, name: str) -> None:
    task, candidate, message = WRONG[name]
    check = executor.check(task, candidate)
    faults = [f for f in check.faults if f.kind == "out of bounds"]
    assert faults, check
    assert any(message in f.message and "program (" in f.message for f in faults), faults
    assert all(f.where.startswith("k, line ") for f in faults)


RIGHT: dict[str, tuple[Task, Candidate]] = {
    "masked": (DOUBLE, samples.flat(f"v = tl.load(x + i, mask=i < n, other=3.0)\n{STORE}")),
    "padded rows": (SUM, samples.rows(f"v = tl.load(x + row * stride + c, mask=c < cols, other=0.0)\n{TOTAL}")),
    "block pointers": (
        DOUBLE,
        samples.flat(f"{CHECKED}\n{STORE}"),
    ),
    "gathered": (GATHER, GATHERED),
    "product": (MATMUL, PRODUCT),
    "backwards": (
        DOUBLE,
        samples.flat("j = n - 1 - i\nv = tl.load(x - i + (n - 1), mask=i < n)\ntl.store(y + j, v * 2, mask=i < n)"),
    ),
    "a view": (
        SUM_OF_VIEW,
        samples.rows(f"v = tl.load(x + row * stride + c, mask=c < cols, other=0.0)\n{TOTAL}", given="x[:, :60]"),
    ),
    "a view with an offset, from which it goes back": (
        DOUBLE,
        samples.flat(f"v = tl.load(x + i - 1, mask=i < n)\n{STORE}", given="x[1:]"),
    ),
    "a view whose rest is loaded and not used": (
        SUM_OF_VIEW,
        samples.rows(f"v = tl.where(c < cols, tl.load(x + row * stride + c), 0.0)\n{TOTAL}", given="x[:, :60]"),
    ),
    "turned": (
        SUM_TURNED,
        changed(
            samples.rows(f"v = tl.load(x + row + c * stride, mask=c < cols, other=0.0)\n{TOTAL}", given="x.t()"),
            "v.stride(0)",
            "v.stride(1)",
        ),
    ),
    "expanded": (
        tasks.model("x.expand(8, 100).sum(1)", "torch.rand(1, 100)"),
        samples.rows(f"v = tl.load(x + row * stride + c, mask=c < cols, other=0.0)\n{TOTAL}", given="x.expand(8, 100)"),
    ),
    "chunks of one tensor": (
        PACKED,
        samples.module(
            "a, b, y, stride, D: tl.constexpr\n"
            "row = tl.program_id(0)\n"
            "c = tl.arange(0, D)\n"
            "at = row * stride + c\n"
            "tl.store(y + row * D + c, tl.load(a + at) * tl.load(b + at))",
            "a, b = x.chunk(2, 1)\n"
            "y = torch.empty(x.shape[0], 64)\n"
            "k[(x.shape[0],)](a, b, y, a.stride(0), D=64)\n"
            "return y",
        ),
    ),
    "in place": (
        DOUBLE,
        samples.module(
            "x, y, n, BLOCK: tl.constexpr\n"
            "i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
            f"v = tl.load(x + i, mask=i < n)\n{STORE}",
            "y = x.clone()\nk[(8,)](y, y, y.numel(), BLOCK=128)\nreturn y",
        ),
    ),
    "other element types": (
        DOUBLE,
        samples.flat(
            f"w = tl.load(x + i, mask=i < n)\nv = w.to(tl.float32, bitcast=True)\n{STORE}",
            given="x.view(torch.int32)",
        ),
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_stays_within_its_arguments_is_not_accused(executor: LocalExecutor, name: str) -> None:
    check = executor.check(*RIGHT[name])
    assert check.status == "ok", check
    assert check.faults == ()
