"""Which cubins count as the same code."""

from __future__ import annotations

import pytest

from forewarp.gpu_runner.compilers import cubin, nvrtc

SOURCE = """#line 1 "{path}"
extern "C" __global__ void add(float* x) {{ x[threadIdx.x] += {term}; }}
"""


def compiled(path: str, term: str, arch: str = "sm_90") -> bytes:
    if nvrtc.library() is None:
        pytest.skip("NVRTC is not installed")
    return nvrtc.compile_source(SOURCE.format(path=path, term=term), [f"--gpu-architecture={arch}", "-lineinfo"])


def test_code_is_the_same_wherever_its_source_lies() -> None:
    one, other = compiled("/a/kernel.cu", "1.0f"), compiled("/another/folder/kernel.cu", "1.0f")
    assert one != other
    assert cubin.digest(one) == cubin.digest(other)


def test_other_code_is_another() -> None:
    one = compiled("/a/kernel.cu", "1.0f")
    assert cubin.digest(one) != cubin.digest(compiled("/a/kernel.cu", "2.0f"))
    assert cubin.digest(one) != cubin.digest(compiled("/a/kernel.cu", "1.0f", "sm_80"))


@pytest.mark.parametrize("image", [b"", b"\x7fELF", b"ptx" * 100, b"\x7fELF" + b"\xff" * 200])
def test_of_what_is_no_cubin_all_counts(image: bytes) -> None:
    assert cubin.digest(image) == cubin.digest(bytes(image))
    assert cubin.digest(image) != cubin.digest(image + b"x")
