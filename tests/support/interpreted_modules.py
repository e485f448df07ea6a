"""Modules with one Triton kernel each, for tasks of `interpreted.model`, that stay within their arguments or do not."""

from __future__ import annotations

from forewarp.core.values import Candidate

HEAD = "import torch\nimport triton\nimport triton.language as tl\n"


def module(kernel: str, forward: str, init: str = "pass") -> Candidate:
    """Return a module whose `forward` launches the kernel, of which `kernel` is parameters and body."""
    parameters, _, body = kernel.strip().partition("\n")
    lines = ["@triton.jit", f"def k({parameters}):", *(f"    {line}" for line in body.splitlines())]
    lines += ["", "", "class ModelNew(torch.nn.Module):", "    def __init__(self):", "        super().__init__()"]
    lines += [f"        {line}" for line in init.strip().splitlines()]
    lines += ["", "    def forward(self, x, *rest):", *(f"        {line}" for line in forward.strip().splitlines())]
    return Candidate(HEAD + "\n".join(lines) + "\n", "python")


def flat(body: str, *, given: str = "x", size: str = "x.numel()", block: int = 128) -> Candidate:
    """Return a module that fills y, which is like x, in blocks; the kernel sees x, y, n and BLOCK."""
    head = "i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)"
    launch = f"k[(triton.cdiv(x.numel(), {block}),)]({given}, y, {size}, BLOCK={block})"
    return module(f"x, y, n, BLOCK: tl.constexpr\n{head}\n{body}", f"y = torch.empty_like(x)\n{launch}\nreturn y")


def rows(body: str, *, given: str = "x", wide: str = "triton.next_power_of_2(x.shape[1])") -> Candidate:
    """Return a module that sums rows; the kernel sees x, y, the stride of rows, the columns, and WIDE."""
    head = "row = tl.program_id(0)\nc = tl.arange(0, WIDE)"
    forward = (
        f"v = {given}\ny = torch.empty(v.shape[0])\n"
        f"k[(v.shape[0],)](v, y, v.stride(0), v.shape[1], WIDE={wide})\nreturn y"
    )
    return module(f"x, y, stride, cols, WIDE: tl.constexpr\n{head}\n{body}", forward)
