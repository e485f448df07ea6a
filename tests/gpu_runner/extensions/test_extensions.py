"""Extensions of Python candidates on the CPU: real compilers, and the executor from end to end."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.small_tasks import REFERENCE, small_task

from forewarp.core.values import Candidate
from forewarp.gpu_runner.compilers.extension import capture, headers, torch_build
from forewarp.gpu_runner.devices import detect_cpu
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor

LIMITS = Limits(compile_s=60, measure_s=60, call_s=5, memory=4 << 30, time_s=0.05, looks=(4, 8))
MODEL = REFERENCE.replace("class Model(", "class ModelNew(").replace("return torch.softmax(", "return ext.soft(")
SOFT = "torch::Tensor soft(torch::Tensor x, int64_t dim) { return torch::softmax(x, dim); }"
LOAD = f"from torch.utils.cpp_extension import load_inline\nSOURCE = '{SOFT}'\n"
CALL = "ext = load_inline(name='soft_ext', cpp_sources=SOURCE, functions=['soft'])\n"
MODULE = LOAD + CALL + MODEL.replace("dim=-1", "-1")

needs_compiler = pytest.mark.skipif(not (shutil.which("c++") and shutil.which("ninja")), reason="no compiler or ninja")


def captured(source: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the main sources of the extensions that a module asks for, without building any."""
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(folder / "torch"))
    found: list[str] = []

    def run(directory: str, verbose: bool, error_prefix: str) -> None:
        found.append((Path(directory) / "main.cpp").read_text())
        raise RuntimeError("not built")

    with torch_build.installed(run, lambda *_: None):
        folder.mkdir(exist_ok=True)
        capture.run_module(source, folder / "candidate.py")
    return found


@needs_compiler
class TestCapture:
    @pytest.mark.filterwarnings("ignore")
    def test_calls_at_the_top_in_functions_and_behind_failures(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source = (
            "from torch.utils.cpp_extension import load_inline\nimport missing_package\nname = 'a'\n"
            "missing_package.call()\n"
            "one = load_inline(name=f'{name}1', cpp_sources='int one();')\n"
            "class ModelNew:\n"
            "    def __init__(self):\n"
            "        source = 'int ' + 'two();'\n"
            "        self.ext = load_inline(name='a2', cpp_sources=source)\n"
            "        if self.ready():\n"
            "            try:\n"
            "                three = 'int three();'\n"
            "                self.ext = load_inline(name='a3', cpp_sources=three)\n"
            "            except RuntimeError:\n"
            "                self.ext = None\n"
        )
        found = captured(source, tmp_path / "scratch", monkeypatch)
        assert [text.splitlines()[1] for text in found] == ["int one();", "int two();", "int three();"]

    def test_what_a_module_builds_only_where_there_is_a_gpu(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        compiler = tmp_path / "refuses"  # since torch's headers take seconds
        compiler.write_text('#!/bin/sh\n[ "$1" = --version ] && exec c++ --version\nexit 1\n')
        compiler.chmod(0o755)
        monkeypatch.setenv("CXX", str(compiler))
        source = (
            "import torch\nfrom torch.utils.cpp_extension import load_inline\n"
            "if torch.cuda.is_available():\n    one = load_inline(name='guarded', cpp_sources='int one();')\n"
        )
        for arch, count in (("sm_90", 1), ("", 0)):
            folder = tmp_path / f"for{arch}"
            folder.mkdir()
            found = capture.compile_module(source, folder, folder / "scratch", arch=arch)
            assert len(found["extensions"]) == count


@needs_compiler
def test_a_module_may_name_a_folder_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("beside").mkdir()
    source = (
        "from torch.utils.cpp_extension import load_inline\n"
        "one = load_inline(name='one', cpp_sources='int one();', build_directory='beside')\n"
    )
    folders: list[str] = []
    with torch_build.installed(lambda directory, *_: folders.append(directory), lambda *_: None):
        capture.run_module(source, tmp_path / "candidate.py")
    # Torch's Ninja file names sources by absolute paths, in which the folder is to be found.
    assert folders == [str(tmp_path / "beside")]


class TestHeaders:
    def test_only_what_a_source_names(self) -> None:
        assert headers.parts("torch::Tensor f(torch::Tensor x);\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}") == (
            "FOREWARP_PYTHON",
        )
        parts = headers.parts("at::Tensor f(at::Tensor x) { return torch::empty_like(x); }")
        assert set(parts) == {"FOREWARP_FACTORIES", "FOREWARP_BODIES"}
        used = "#pragma once\n#include <ATen/ops/matmul.h>\n"
        assert headers.operators("auto f() { return x.matmul(y); }") == used

    def test_in_bindings_alone_an_operator_is_named_in_full(self) -> None:
        text = "torch::Tensor matmul(torch::Tensor x);\nPYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {"
        assert headers.operators(text + "}") == "#pragma once\n"
        assert "ops/softmax.h" in headers.operators(text + 'm.def("s", &at::softmax);}')

    def test_unread_files_bring_everything(self) -> None:
        assert headers.parts('#include "mine.h"') == headers.ALL_PARTS


@needs_compiler
class TestExecutor:
    @pytest.mark.slow
    def test_a_module_is_built_once_before_the_measurement(self, tmp_path: Path) -> None:
        executor = LocalExecutor(detect_cpu(), limits=LIMITS, cache=tmp_path)
        task, candidate = small_task(), Candidate(MODULE, "python")
        try:
            build = executor.compile(task, candidate)
            assert build.status == "ok", build.log
            (entry,) = json.loads((Path(build.artefact) / "build.json").read_text())["extensions"].values()
            assert (entry["name"], entry["way"]) == ("soft_ext", "lean")
            assert executor.compile(task, candidate).cached
            result = executor.measure(task, candidate, build)
            assert result.status == "ok", result.log
            # Nothing is compiled where the device is held.
            assert "not built ahead" not in result.log
            assert result.phases["setup"] < entry["seconds"]
        finally:
            executor.close()

    @pytest.mark.slow
    @pytest.mark.timeout(300)
    def test_a_source_that_no_compiler_takes_is_a_compile_error(self, tmp_path: Path) -> None:
        executor = LocalExecutor(detect_cpu(), limits=LIMITS, cache=tmp_path)
        try:
            build = executor.compile(small_task(), Candidate(MODULE.replace("return torch", "retrun torch"), "python"))
            assert build.status == "compile_error"
            assert "retrun" in build.log
        finally:
            executor.close()
