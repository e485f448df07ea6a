"""Precompiled headers: which commands share them, and that objects made with them are the same."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from forewarp.gpu_runner.compilers.extension import headers, precompiled, settings
from forewarp.gpu_runner.compilers.extension.builder import LeanBuild
from forewarp.gpu_runner.compilers.extension.precompiled import BINDINGS, HOST, arguments
from forewarp.gpu_runner.compilers.extension.torch_build import Recipe, Unit
from forewarp.gpu_runner.compilers.process import CompileError, run_all

CXX = ("c++",)
FLAGS = ("-DTORCH_EXTENSION_NAME=x", "-isystem", "/torch", "-fPIC", "-std=c++20")


def made(folder: Path, kind: precompiled.HeaderSet, flags: tuple[str, ...]) -> None:
    home = folder / precompiled.key(CXX, flags, kind)
    home.mkdir(parents=True)
    (home / "headers.h.gch").touch()


class TestWhichHeadersFit:
    @pytest.mark.parametrize(
        "flags",
        [
            FLAGS,
            ("-DTORCH_EXTENSION_NAME=other", "-DNDEBUG", "-Wall", "-w", *FLAGS[1:]),
            ("-std=c++20", "-fPIC", "-isystem", "/torch", "-O0", "-fPIC"),
        ],
    )
    def test_flags_that_say_the_same_share_them(self, flags: tuple[str, ...], tmp_path: Path) -> None:
        made(tmp_path, HOST, FLAGS)
        found = arguments(tmp_path, CXX, flags, [headers.BODIES])
        assert found is not None
        assert found[-2] == "-include"

    def test_each_level_of_optimisation_has_its_own(self, tmp_path: Path) -> None:
        made(tmp_path, HOST, (*FLAGS, "-O3"))
        assert arguments(tmp_path, CXX, (*FLAGS, "-O3"), [headers.BODIES]) is not None
        assert arguments(tmp_path, CXX, (*FLAGS, "-O2"), [headers.BODIES]) is None
        assert arguments(tmp_path, CXX, FLAGS, [headers.BODIES]) is None

    @pytest.mark.parametrize(
        "more", [("-std=c++17",), ("-I", "/mine"), ("-I/mine",), ("-g",), ("-Ofast",), ("-fopenmp",)]
    )
    def test_others_have_none(self, more: tuple[str, ...], tmp_path: Path) -> None:
        made(tmp_path, HOST, FLAGS)
        assert arguments(tmp_path, CXX, (*FLAGS, *more), [headers.BODIES]) is None

    def test_a_source_that_needs_more_has_none(self, tmp_path: Path) -> None:
        made(tmp_path, HOST, FLAGS)
        made(tmp_path, BINDINGS, FLAGS)
        assert arguments(tmp_path, CXX, FLAGS, [headers.PYTHON]) is not None
        assert arguments(tmp_path, CXX, FLAGS, [headers.PYTHON, headers.BODIES]) is None
        assert arguments(tmp_path, CXX, FLAGS, headers.ALL_PARTS) is None

    def test_without_a_folder_there_are_none(self, tmp_path: Path) -> None:
        assert arguments(None, CXX, FLAGS, [headers.PYTHON]) is None
        assert arguments(tmp_path / "missing", CXX, FLAGS, [headers.PYTHON]) is None


BINDING = """#include <torch/extension.h>
torch::Tensor matmul(torch::Tensor x);
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
m.def("matmul", torch::wrap_pybind_function(matmul), "matmul");
}
"""
BODY = """#include <torch/types.h>
torch::Tensor matmul(torch::Tensor x) {
  TORCH_CHECK(x.dim() == 2, "two dimensions");
  auto y = torch::zeros({x.size(0)}, x.options());
  y.copy_(x.sum(1));
  return y;
}
"""
FORGOTTEN = BODY.replace("return y;", "at::cuda::getCurrentCUDAStream(); return y;")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(
    not (shutil.which("nvcc") and shutil.which("ninja"))
    or not (headers.torch_include() / "c10" / "cuda" / "impl" / "cuda_cmake_macros.h").exists(),
    reason="needs nvcc, ninja and a torch with CUDA headers",
)
def test_objects_are_the_same_with_them_and_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(settings.ARCH_VARIABLE, "9.0")
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    recipe = precompiled.trial_recipe(tmp_path / "trial")
    assert recipe is not None
    ready = precompiled.make(tmp_path / "headers", recipe)
    assert len(ready) == 3
    assert not any(os.stat(p).st_mode & 0o222 for p in ready)
    stamps = [p.stat().st_mtime_ns for p in ready]
    assert [p.stat().st_mtime_ns for p in precompiled.make(tmp_path / "headers", recipe)] == stamps

    for name, text, level in (("binding", BINDING, ()), ("body", BODY, ()), ("body", BODY, ("-O3",))):
        source = tmp_path / f"{name}.cpp"
        source.write_text(text)
        unit = Unit(f"{name}.o", "compile", source)
        own = Recipe(tmp_path, name, recipe.cxx, (), (*recipe.cflags, *level), (), (), (unit,))
        job = LeanBuild(own, tmp_path / "headers").plain(unit)
        # g++ says so where it cannot use them.
        command = [*job.command, "-Winvalid-pch"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "gch" not in done.stderr
        with_them = job.output.read_bytes()
        (header,) = (Path(p) for p in command if p.endswith("headers.h"))
        hidden = Path(f"{header}.gch").rename(header.with_name("hidden"))
        subprocess.run(command, check=True)
        hidden.rename(f"{header}.gch")
        assert job.output.read_bytes() == with_them

    # A source that forgets a header is refused, as it is by torch.
    source = tmp_path / "forgotten.cpp"
    source.write_text(FORGOTTEN)
    unit = Unit("forgotten.o", "compile", source)
    own = Recipe(tmp_path, "forgotten", recipe.cxx, (), recipe.cflags, (), (), (unit,))
    with pytest.raises(CompileError, match="cuda"):
        run_all([LeanBuild(own, tmp_path / "headers").plain(unit)], tmp_path)
