"""Reading a file's kernels from its text."""

from __future__ import annotations

import ast
from textwrap import dedent

from forewarp.inspection.tracing.files.kernels import FileText, KernelText, read

FILE = """
    import torch, triton, triton.language as tl

    @triton.jit
    def load_row(base, row, n, BLOCK: tl.constexpr):
        at = tl.arange(0, BLOCK)
        return tl.load(base + row * n + at, mask=at < n)

    @library.cached
    @triton.jit
    def gather(X, rows, lens, out_ptr, out_ptr_stride, offset, n, eps=1e-6, BLOCK: tl.constexpr = 64):
        pid = tl.program_id(0)
        row = tl.load(rows + pid)
        for _ in range(0, tl.load(lens + offset)):
            v = load_row(X, row, n, BLOCK)
        Out = out_ptr
        Out += pid * out_ptr_stride + row
        tl.store(Out + tl.arange(0, BLOCK), v + eps)

    @triton.jit
    def product(A, B, C, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        a, b = tl.load(A + i[:, None]), tl.load(B + i[None, :])
        tl.store(C + i[:, None], tl.dot(a, b))

    def inner(x):
        gather[(1,)](x, x, x, x, 1, 0, 4)

    def outer(x):
        return inner(x)

    def aside(x):
        return x

    class Layer:
        def forward(self, x):
            return product[(1,)](x, x, x, 64)
"""


def text() -> FileText:
    return read(ast.parse(dedent(FILE)))


def kernel(name: str) -> KernelText:
    return text().jitted[name]


def test_helpers_are_no_kernels() -> None:
    assert list(text().jitted) == ["load_row", "gather", "product"]
    assert text().kernels == ("gather", "product")


def test_pointers_are_what_addresses_begin_at_also_in_helpers() -> None:
    assert kernel("load_row").pointers == {"base"}
    assert kernel("gather").pointers == {"X", "rows", "lens", "out_ptr"}
    assert kernel("product").pointers == {"A", "B", "C"}


def test_pointers_to_places_and_bounds_hold_whole_numbers() -> None:
    assert kernel("product").indices == frozenset()
    assert kernel("gather").indices == {"rows", "lens"}


def test_parameters() -> None:
    assert [(p.name, p.constexpr, p.default) for p in kernel("gather").parameters[-3:]] == [
        ("n", False, False),
        ("eps", False, True),
        ("BLOCK", True, True),
    ]


def test_callers_come_outermost_first() -> None:
    assert text().reaching(["gather"]) == ["outer", "inner"]
    assert text().reaching(["product"]) == ["Layer"]
