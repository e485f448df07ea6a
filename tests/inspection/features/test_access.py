"""Addresses read off a kernel's text, against kernels whose walk through memory is known."""

from __future__ import annotations

import pytest

from forewarp.core.values import Candidate
from forewarp.inspection.features import access

CUDA = """/*forewarp
inputs = ["x"]
outputs = ["y"]
[tunables]
THREADS = [128]
[let]
n = "numel(x)"
cols = "x.shape[1]"
[[launch]]
kernel = "k"
args = ["x", "y", "n", "cols"]
grid = ["cdiv(n, THREADS)"]
block = ["THREADS"]
*/
%s
extern "C" __global__ void __launch_bounds__(THREADS)
k(const float* __restrict__ x, float* y, int n, int cols) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    %s
}
"""

TRITON = '''"""forewarp
inputs = ["x"]
outputs = ["y"]
[tunables]
BLOCK = [128]
[let]
n = "numel(x)"
cols = "x.shape[1]"
[[launch]]
kernel = "k"
args = ["x", "y", "n", "cols"]
grid = ["cdiv(n, BLOCK)"]
"""
import triton
import triton.language as tl

@triton.jit
def k(x, y, n, cols, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    %s
'''


def cuda(body: str, before: str = "") -> dict[str, float]:
    return access.columns(Candidate(CUDA % (before, body), "cuda", {"THREADS": 128}))


def triton(body: str) -> dict[str, float]:
    return access.columns(Candidate(TRITON % body.replace("\n", "\n    "), "triton", {"BLOCK": 128}))


@pytest.mark.parametrize(
    ("body", "load", "store"),
    [
        ("y[i] = x[i];", 0.0, 0.0),
        ("y[i] = x[8 * i];", 3.0, 0.0),
        ("y[i * 2] = x[i];", 0.0, 1.0),
        ("y[(size_t)i * cols] = __ldg(x + i);", 0.0, 3.0),
        ("for (int j = 0; j < cols; j++) y[j * cols + i] = x[i * cols + j];", 3.0, 0.0),
        ("reinterpret_cast<float4*>(y)[i] = reinterpret_cast<const float4*>(x)[i];", 0.0, 0.0),
        ("const float4 v = ((const float4*)x)[2 * i]; y[i] = v.x;", 1.0, 0.0),
        ("const float* row = x + i * 4; if (i < n) { y[i] = row[0] > 0 ? row[1] : row[2]; }", 2.0, 0.0),
        ("*(y + i) = *(x + 2 * i);", 1.0, 0.0),
        ("y[i] = x[blockIdx.x];", -2.0, 0.0),
    ],
)
def test_sectors_of_a_warp(body: str, load: float, store: float) -> None:
    found = cuda(body)
    assert found["access.blind"] == 0.0
    assert found["access.load_worst"] == pytest.approx(load)
    assert found["access.store_worst"] == pytest.approx(store)


def test_a_loaded_index_makes_an_address_random() -> None:
    found = cuda("y[i] = x[reinterpret_cast<const int*>(x)[i]];")
    assert found["access.random"] == pytest.approx(1 / 3)
    assert found["access.load_worst"] > 2


@pytest.mark.parametrize(("pad", "ways"), [(32, 5.0), (33, 0.0)])
def test_bank_conflicts(pad: int, ways: float) -> None:
    assert cuda(f"__shared__ float t[32][{pad}]; y[i] = t[threadIdx.x % 32][1];")["access.shared"] == ways


def test_types_of_the_text_are_known() -> None:
    found = cuda("reinterpret_cast<Pack*>(y)[i] = reinterpret_cast<const Pack*>(x)[i];", "struct alignas(16) Pack {};")
    assert found["access.load"] == 0.0
    assert cuda("y[(at)i] = x[i];", "typedef long long at;")["access.blind"] == 0.0


@pytest.mark.parametrize(
    ("body", "load", "store"),
    [
        ("tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)", 0.0, 0.0),
        ("tl.store(y + i * cols, tl.load(x + i))", 0.0, 3.0),
        ("tl.store(y + i, tl.load(x + i % cols * 8))", 3.0, 0.0),
        ("j = tl.arange(0, 64)\ntl.store(y + i, tl.sum(tl.load(x + i[:, None] * cols + j[None, :]), 1))", 0.0, 0.0),
        ("for s in range(0, cols):\n    tl.store(y + i, tl.load(x + i * cols + s))", 3.0, 0.0),
        ("p = tl.make_block_ptr(x, (n, cols), (cols, 1), (0, 0), (16, 64), (1, 0))\ntl.store(y + i, tl.load(p))", 0, 0),
    ],
)
def test_sectors_of_a_tile(body: str, load: float, store: float) -> None:
    found = triton(body)
    assert found["access.blind"] == 0.0
    assert found["access.load_worst"] == pytest.approx(load)
    assert found["access.store_worst"] == pytest.approx(store)


def test_what_is_not_understood_is_counted() -> None:
    assert triton("tl.store(y + strange(i), tl.load(x + i))")["access.blind"] == 0.5
    assert cuda("y[table(i)] = x[i];")["access.blind"] == 0.5


@pytest.mark.parametrize("text", ["", "no plan", CUDA % ("", "y[i = x["), CUDA % ("", "} }}} ((("), TRITON % "((("])
@pytest.mark.parametrize("language", ["cuda", "triton", "python", "cpp"])
def test_any_text_gives_an_answer(text: str, language: str) -> None:
    found = access.columns(Candidate(text, language))  # type: ignore[arg-type]
    assert set(found) <= set(access.COLUMNS)


def test_nothing_of_the_candidate_runs(tmp_path: object) -> None:
    body = f"open('{tmp_path}/seen', 'w')\n__import__('os').system('touch {tmp_path}/seen')"
    triton(body)
    assert not list(tmp_path.iterdir())  # type: ignore[attr-defined]


def test_hostile_sizes_end() -> None:
    assert triton("tl.load(x + tl.arange(0, 1 << 40))")["access.blind"] == 1.0
    assert triton("a = 2\n" + "\n".join("a = a << 39" for _ in range(20)) + "\ntl.load(x + a)")
    assert triton("\n".join("i = i[:, None] + i[None, :]" for _ in range(5)) + "\ntl.load(x + i)")
