"""Following an extension's host code, on values and without any."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
import torch

from forewarp.inspection.tracing.cuda_source import CudaSource, NotFollowed
from forewarp.inspection.tracing.host_code import HostCode, HostLaunch
from forewarp.inspection.tracing.host_values import UNKNOWN

KERNELS = "template <typename T> __global__ void k(T* x) {}\n__global__ void plain(float* x) {}\n"


def follow(
    body: str, *arguments: Any, head: str = "", parameters: str = "torch::Tensor x, int n"
) -> tuple[Any, list[HostLaunch]]:
    launches: list[HostLaunch] = []
    source = CudaSource.read(f"{KERNELS}{head}\ntorch::Tensor run({parameters}) {{\n{body}\n}}\n")
    return HostCode(source, launches.append).call("run", arguments), launches


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("(n + 255) / 256", 40),
        ("n / 3 * 3 - -n % 7", 10003),
        ("n > 5 && !(n == 7) ? 1 << 4 : 2", 16),
        ("static_cast<int>(ceil((float)n / 256.0f))", 40),
        ("std::min<int64_t>(x.numel() / x.size(-1), 65535)", 6),
        ("sizeof(float) * 3 + sizeof(double)", 20),
        ("CEIL(n, LIMIT)", 20),
        ("twice(n)", 20000),
        ("x.sizes()[1] + x.dim()", 10),
        ("0x10 + 1'000 + 2e2f", 1216.0),
        ("x.scalar_type() == torch::kFloat32", True),
        ('mode == "mean"', True),
        ("blockDim.x + n", UNKNOWN),
    ],
)
def test_expressions(expression: str, value: Any) -> None:
    head = (
        "#define LIMIT 512 // so many\n#define CEIL(a, b) (((a) + (b) - 1) / (b))\nint twice(int v) { return 2 * v; }\n"
    )
    parameters = "torch::Tensor x, int n, std::string mode"
    result, _ = follow(f"return {expression};", torch.zeros(6, 8), 10000, "mean", head=head, parameters=parameters)
    assert result == value


def test_launches_in_macros_and_where_a_product_reads_like_a_pointer() -> None:
    head = "#define LAUNCH(blocks) const int threads = 96; plain<<<blocks, threads>>>(x.data_ptr<float>());\n"
    body = "int a = 3; dim3 grid(a * n, a); LAUNCH(grid) if (n) { LAUNCH(a * n); } return x;"
    _, launches = follow(body, torch.zeros(2), 4, head=head)
    assert [(e.grid, e.block) for e in launches] == [((12, 3, 1), (96, 1, 1)), ((12, 1, 1), (96, 1, 1))]


def test_control_flow_is_followed_where_it_is_known() -> None:
    body = """
    int threads = 64;
    if (n > 100) { threads = 128; } else threads = 32;
    for (int s = 1; s <= 4; s *= 2) {
      plain<<<n / s, threads, s * 4>>>(x.data_ptr<float>());
    }
    auto blocks = n; blocks += 2;
    while (blocks > 1000) blocks /= 2;
    k<<<blocks, {16, 2}>>>(x.data_ptr<float>());
    return torch::zeros({x.size(0), n}, x.options().dtype(torch::kHalf));
    """
    result, launches = follow(body, torch.zeros(6, 8), 1000)
    assert (result.shape, result.dtype) == ((6, 1000), torch.float16)
    assert [(e.grid, e.block, e.shared) for e in launches[:3]] == [
        ((1000, 1, 1), (128, 1, 1), 4),
        ((500, 1, 1), (128, 1, 1), 8),
        ((250, 1, 1), (128, 1, 1), 16),
    ]
    assert launches[3].kernel.arguments == ("float",)
    assert (launches[3].grid, launches[3].block) == ((501, 1, 1), (16, 2, 1))


def test_what_cannot_be_told_is_unknown() -> None:
    body = """
    int threads = 64;
    if (x.item<float>() > 0) threads = 128;
    plain<<<n, threads>>>(nullptr);
    if (getenv("FAST")) { plain<<<n, 32>>>(nullptr); return x; }
    return somewhere(x);
    """
    result, launches = follow(body, torch.zeros(2), 4)
    assert result is UNKNOWN
    assert [(e.grid, e.block, e.certain) for e in launches] == [((4, 1, 1), None, True), ((4, 1, 1), (32, 1, 1), False)]


def test_helpers_templates_and_the_runtime_are_followed() -> None:
    head = """
    template <typename T, int B> void launch(torch::Tensor x, int n) { k<T><<<n, B>>>((T*)x.data_ptr()); }
    """
    body = """
    switch (n) { default: break; }
    launch<float, 96>(x, n);
    void* arguments[] = {&x};
    cudaLaunchCooperativeKernel((void*)plain, dim3(3), dim3(64), arguments, 128, 0);
    return x + x;
    """
    result, launches = follow(body, torch.ones(2), 5, head=head)
    assert result.tolist() == [2.0, 2.0]
    assert [(e.kernel.name, e.kernel.arguments, e.grid, e.block, e.shared) for e in launches] == [
        ("k", ("float",), (5, 1, 1), (96, 1, 1), 0),
        ("plain", (), (3, 1, 1), (64, 1, 1), 128),
    ]


def test_host_code_that_goes_on_for_ever_is_left() -> None:
    with pytest.raises(NotFollowed):
        follow("for (int i = 0; i >= 0; i++) { for (int j = 0; j >= 0; j++) { n = n; } } return x;", torch.ones(1), 1)
