"""Device code in a library: what is read is what NVIDIA's own tool reads."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from forewarp.gpu_runner.compilers.cubin import codes, embedded_cubins

SOURCE = """
__global__ void twice(float* x) { x[threadIdx.x] *= 2; }
template <int N> __global__ void plus(float* x) { x[threadIdx.x] += N; }
void run(float* x) { twice<<<1, 32>>>(x); plus<3><<<1, 32>>>(x); }
"""
ARCHS = ("-gencode=arch=compute_90,code=[sm_90,compute_90]", "-gencode=arch=compute_80,code=sm_80")
pytestmark = pytest.mark.skipif(not shutil.which("nvcc"), reason="needs nvcc")


def compiled(folder: Path, *flags: str) -> Path:
    (folder / "k.cu").write_text(SOURCE)
    command = ["nvcc", *flags, *ARCHS, "-Xcompiler", "-fPIC", "-c", "k.cu", "-o", "k.o"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder / "k.o"


def cuobjdump() -> str | None:
    triton = pytest.importorskip("triton")
    return shutil.which("cuobjdump", path=str(Path(triton.__file__).parent / "backends" / "nvidia" / "bin"))


def test_cubins_are_those_that_cuobjdump_extracts(tmp_path: Path) -> None:
    tool = cuobjdump()
    if tool is None:
        pytest.skip("needs cuobjdump")
    path = compiled(tmp_path, "--no-compress")
    for arch in ("sm_90", "sm_80"):
        found = embedded_cubins(path.read_bytes(), arch)
        folder = tmp_path / arch
        folder.mkdir()
        subprocess.run([tool, "-xelf", arch, str(path)], cwd=folder, check=True, capture_output=True)
        assert found == [p.read_bytes() for p in sorted(folder.iterdir())]
        assert found
        assert len(codes(found[0], arch)) == 2
    assert embedded_cubins(path.read_bytes(), "sm_100") == []


def test_compressed_code_is_not_mistaken_for_none(tmp_path: Path) -> None:
    path = compiled(tmp_path, "--compress-mode=size", "-Xfatbin", "-compress-all")
    assert embedded_cubins(path.read_bytes(), "sm_90") is None


def test_a_file_without_device_code_has_none(tmp_path: Path) -> None:
    (tmp_path / "host.cpp").write_text("int one() { return 1; }")
    subprocess.run(["c++", "-c", "host.cpp", "-o", "host.o"], cwd=tmp_path, check=True)
    assert embedded_cubins((tmp_path / "host.o").read_bytes(), "sm_90") == []
