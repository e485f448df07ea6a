"""Plans that name a host function, plans that lie beside the file, and outputs that are an input's buffer."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest

from forewarp.core.errors import CandidateError
from forewarp.core.values import Candidate, Signature, TensorSpec
from forewarp.gpu_runner.compilers import compile_candidate, nvcc
from forewarp.gpu_runner.compilers.process import CompileError
from forewarp.gpu_runner.devices import known_targets
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import plan as plans

PLAN = """inputs = ["x"]
outputs = ["y"]
function = "solve"
args = ["x", "y", "n"]
[tunables]
THREADS = [256, 128]
[let]
n = "numel(x)"
"""
SOURCE = """#include <cuda_runtime.h>

__global__ void twice(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}

extern "C" void solve(const float* x, float* y, int n) {
    twice<<<(n + THREADS - 1) / THREADS, THREADS>>>(x, y, n);
}
"""
TENSOR = TensorSpec("0", (10, 100), "float32")
SIGNATURE = Signature("w", (TENSOR,), {}, {}, (), (TENSOR,), None, 0)
needs_nvcc = pytest.mark.skipif(nvcc.compiler() is None, reason="no nvcc")


def host(plan: str = PLAN, source: str = SOURCE, language: str = "cuda") -> Candidate:
    return candidates.from_source(f"/*forewarp\n{plan}*/\n{source}", language)


def test_a_host_function_is_one_launch() -> None:
    plan = plans.parse(host())
    assert plan.host_code
    (launch,) = plans.resolve(plan, SIGNATURE, {}).launches
    assert launch.kernel == "solve"
    assert [(a.kind, a.name, a.value) for a in launch.args] == [("ptr", "x", 0), ("ptr", "y", 0), ("i32", "n", 1000)]


def test_in_cpp_it_is_a_shorter_way_to_write_the_same() -> None:
    plan = plans.parse(host(language="cpp"))
    assert not plan.host_code
    assert (
        plan.launches
        == plans.parse(
            host(
                PLAN.replace('function = "solve"\nargs = ["x", "y", "n"]\n', "")
                + '[[launch]]\nkernel = "solve"\nargs = ["x", "y", "n"]\n',
                language="cpp",
            )
        ).launches
    )


@pytest.mark.parametrize(
    ("old", "new", "language", "message"),
    [
        ('"solve"', "3", "cuda", "name of an extern"),
        ('args = ["x", "y", "n"]\n', "", "cuda", "needs args"),
        ('function = "solve"\n', "", "cuda", "args stands in"),
        ("[tunables]", '[[launch]]\nkernel = "k"\n[tunables]', "cuda", "keep one|function and"),
        ('outputs = ["y"]', 'outputs = ["y", "y"]', "cuda", "two outputs"),
    ],
)
def test_wrong_signatures_are_named(old: str, new: str, language: str, message: str) -> None:
    with pytest.raises(CandidateError, match=message):
        host(PLAN.replace(old, new), language=language)


def test_triton_has_no_host_function() -> None:
    with pytest.raises(CandidateError, match="Triton plan has no function"):
        candidates.from_source(f'"""forewarp\n{PLAN}"""\n', "triton")


def test_a_plan_without_launches_is_told_of_both_ways() -> None:
    with pytest.raises(CandidateError, match=r"\[\[launch\]\]") as caught:
        host('inputs = ["x"]\noutputs = ["y"]\n')
    assert "function =" in caught.value.hint


def test_a_plan_beside_the_file_is_put_in_front(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(SOURCE)
    with pytest.raises(CandidateError, match="no launch plan") as caught:
        candidates.load(tmp_path / "k.cu")
    assert ".toml of the same name" in caught.value.hint
    (tmp_path / "k.toml").write_text(PLAN)
    loaded = candidates.load(tmp_path / "k.cu", {"THREADS": 128})
    assert (loaded.language, loaded.tunables) == ("cuda", {"THREADS": 128})
    assert loaded.source.endswith(SOURCE)
    assert plans.parse(loaded).host_code
    (tmp_path / "k.cu").write_text(host().source.replace("256, 128", "64"))
    assert candidates.load(tmp_path / "k.cu").tunables == {"THREADS": 64}
    (tmp_path / "k.cu").write_text(SOURCE)
    (tmp_path / "k.toml").write_text(f"# */\n{PLAN}")
    with pytest.raises(CandidateError, match="end the comment"):
        candidates.load(tmp_path / "k.cu")


IN_PLACE = Signature("w", (TENSOR, TENSOR), {"1": 2}, {}, (), (TENSOR,), None, 0, written=(1,), aliases={"0": 1})


@pytest.mark.parametrize("name", ["out", "y"])
def test_an_output_may_be_a_written_input(name: str) -> None:
    plan = plans.parse(
        host(f'inputs = ["x", "k", "out"]\noutputs = ["{name}"]\nfunction = "f"\nargs = ["{name}", "k"]\n')
    )
    resolved = plans.resolve(plan, IN_PLACE, {})
    assert resolved.aliases == {name: "out"}
    assert [(a.kind, a.value) for a in resolved.launches[0].args] == [("ptr", 0), ("i32", 2)]


def test_an_output_may_not_be_an_input_that_is_only_read() -> None:
    plan = plans.parse(host('inputs = ["x", "k", "out"]\noutputs = ["x"]\nfunction = "f"\nargs = []\n'))
    with pytest.raises(CandidateError, match="two things"):
        plans.resolve(plan, IN_PLACE, {})


@pytest.mark.slow
@needs_nvcc
class TestNvcc:
    def compile(self, folder: Path, source: str = SOURCE) -> dict[str, Any]:
        folder.mkdir(exist_ok=True)
        return compile_candidate(host(source=source), [SIGNATURE], known_targets()["h200"], folder)

    @pytest.mark.slow
    def test_a_library_for_the_target_the_same_each_time(self, tmp_path: Path) -> None:
        one, other = (self.compile(tmp_path / name) for name in ("one", "other"))
        assert one["binary_sha256"] == other["binary_sha256"]
        assert one["host_code"] is True
        assert ctypes.CDLL(str(tmp_path / "one" / "v0.so")).solve
        (variant,) = one["variants"].values()
        assert variant["codes"][0]["registers"] > 0
        assert len(variant["codes"]) == 1

    def test_errors_are_nvccs(self, tmp_path: Path) -> None:
        with pytest.raises(CompileError, match=r"kernel\.cu.*error"):
            self.compile(tmp_path, SOURCE.replace("2.0f * x", "2.0f * z"))

    def test_a_function_that_is_not_there_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(CompileError, match=r"'solve'.*extern"):
            self.compile(tmp_path, SOURCE.replace('extern "C" ', ""))


def test_without_nvcc_the_toolkit_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc, "compiler", lambda: None)
    with pytest.raises(CompileError, match=r"CUDA toolkit.*CUDA_HOME.*\[\[launch\]\]"):
        compile_candidate(host(), [SIGNATURE], known_targets()["h200"], tmp_path)


@pytest.mark.parametrize(("arch", "flag"), [("sm_89", "compute_89,code=sm_89"), ("sm_90", "compute_90a,code=sm_90a")])
def test_architectures(arch: str, flag: str) -> None:
    assert nvcc.architecture(arch) == f"-gencode=arch={flag}"


def test_the_documented_host_function_parses() -> None:
    text = (Path(__file__).parents[2] / "docs" / "tasks.md").read_text()
    source = text.partition("## Host functions")[2].partition("```cuda\n")[2].partition("```")[0]
    two = Signature("w", (TENSOR, TENSOR), {}, {}, (), (TENSOR,), None, 0)
    plan = plans.parse(candidates.from_source(source, "cuda"))
    assert plan.host_code
    assert plans.resolve(plan, two, {}).launches[0].kernel == "solve"
