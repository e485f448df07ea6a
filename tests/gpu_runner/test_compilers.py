"""Compiling for a GPU needs none: Triton and NVRTC for a named target, and the facts read off their cubins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.small_tasks import cpp, small_task

from forewarp.core.errors import DeviceError
from forewarp.core.values import Candidate, Task, Workload
from forewarp.gpu_runner.compilers import nvrtc, triton
from forewarp.gpu_runner.compilers.process import CompileError
from forewarp.gpu_runner.devices import detect_cpu, known_targets
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.gpu_runner.formats import plan as plans

H200 = known_targets()["h200"]
REFERENCE = """
import torch
N = 4096
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2
def get_inputs():
    return [torch.rand(N)]
def get_init_inputs():
    return []
"""
TRITON = '''"""forewarp
inputs = ["x"]
outputs = ["y"]
[tunables]
BLOCK = [1024, 4096]
WARPS = [4, 8]
[let]
n = "numel(x)"
[[launch]]
kernel = "double"
grid = ["cdiv(n, BLOCK)"]
args = ["x", "y", "n"]
num_warps = "WARPS"
"""
import triton
import triton.language as tl


@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)
'''
CUDA = """/*forewarp
inputs = ["x"]
outputs = ["y"]
[let]
n = "numel(x)"
[[launch]]
kernel = "twice"
grid = ["cdiv(n, 256)"]
block = [256]
shared = "n"
args = ["x", "y", "n"]
*/
extern "C" __global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * 256 + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
"""


@pytest.fixture(scope="module")
def executor(h200_executor: LocalExecutor) -> LocalExecutor:
    return h200_executor


@pytest.fixture(scope="module")
def task() -> Task:
    return Task("double", "", REFERENCE, {"cpu": (), "cuda": (Workload("small"), Workload("large", {"N": 8192}))})


def test_triton_compiles_without_a_gpu(executor: LocalExecutor, task: Task) -> None:
    build = executor.compile(task, Candidate(TRITON, "triton", {"BLOCK": 1024, "WARPS": 4}))
    assert build.status == "ok", build.log
    facts = build.evidence.facts
    assert facts["threads"] == 128
    assert facts["blocks"] == pytest.approx((4 * 8) ** 0.5)  # the geometric mean over both workloads
    assert 0 < facts["registers"] <= 255
    assert any("4 blocks for 132" in p for p in build.evidence.problems)


def test_a_triton_that_is_too_old_is_named(
    executor: LocalExecutor, task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import triton as installed

    monkeypatch.setattr(installed, "__version__", "3.2.0")
    candidate = Candidate(TRITON, "triton", {"BLOCK": 1024, "WARPS": 4})
    plan = plans.resolve(plans.parse(candidate), executor.describe(task)[0], candidate.tunables)
    with pytest.raises(CompileError, match=r"3\.2\.0 is too old"):
        triton.build(candidate.source, plan, H200, tmp_path, "kernel")


def test_tunables_make_other_code(executor: LocalExecutor, task: Task) -> None:
    one, other = (executor.compile(task, Candidate(TRITON, "triton", {"BLOCK": 1024, "WARPS": w})) for w in (4, 8))
    assert one.binary_sha256 != other.binary_sha256


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('kernel = "double"', 'kernel = "triple"', "no @triton.jit function"),
        ('args = ["x", "y", "n"]', 'args = ["x", "y"]', "end before it"),
        ('args = ["x", "y", "n"]', 'args = ["x", "y", "n", "n"]', "takes no more"),
        ("tl.load(x", "tl.no_such_thing(x", "no_such_thing"),
        ("import triton\n", "import triton\nraise ValueError('at import')\n", "at import"),
        ("BLOCK: tl.constexpr", "BLOCK: tl.constexpr, MISSING: tl.constexpr", "neither a tunable"),
    ],
)
def test_what_triton_refuses_is_a_compile_error(
    executor: LocalExecutor, task: Task, old: str, new: str, words: str
) -> None:
    assert old in TRITON
    build = executor.compile(task, Candidate(TRITON.replace(old, new), "triton"))
    assert build.status == "compile_error"
    assert words in build.log


needs_nvrtc = pytest.mark.skipif(nvrtc.library() is None, reason="NVRTC is not installed")


@needs_nvrtc
def test_cuda_compiles_without_a_gpu(executor: LocalExecutor, task: Task) -> None:
    build = executor.compile(task, Candidate(CUDA, "cuda"))
    assert build.status == "ok", build.log
    assert build.evidence.facts["threads"] == 256


@needs_nvrtc
def test_shared_memory_is_that_of_each_workload(executor: LocalExecutor, task: Task) -> None:
    # Both workloads compile to the same code, but the second one needs twice the shared memory.
    build = executor.compile(task, Candidate(CUDA, "cuda"))
    manifest = json.loads((Path(build.artefact) / "build.json").read_text())
    shared = {
        name: manifest["variants"][entry["variant"]]["kernels"]["0"]["shared"]
        for name, entry in manifest["workloads"].items()
    }
    assert shared == {"small": 4096, "large": 8192}


@needs_nvrtc
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("int i = ", "int i == ", "error"),
        ('extern "C" ', "", 'must be extern "C"'),
        ('shared = "n"', "shared = 300000", "shared memory"),
        ("int n) {", "int n) {\n  #include </etc/hostname>\n", "error"),
    ],
)
def test_what_nvrtc_refuses_is_a_compile_error(
    executor: LocalExecutor, task: Task, old: str, new: str, words: str
) -> None:
    build = executor.compile(task, Candidate(CUDA.replace(old, new), "cuda"))
    assert build.status == "compile_error"
    assert words in build.log


@needs_nvrtc
def test_a_templates_instance_takes_tunables_constants_and_types(executor: LocalExecutor, task: Task) -> None:
    source = CUDA.replace('"twice"', '"twice<THREADS, true, float>"').replace("256", "THREADS")
    source = source.replace("[let]", "[tunables]\nTHREADS = [64, 128]\n[let]").replace(
        "block = [THREADS]", 'block = ["THREADS"]'
    )
    source = source.replace('extern "C"', "template <int THREADS, bool ON, class T>").replace("float* y", "T* y")
    builds = [executor.compile(task, Candidate(source, "cuda", {"THREADS": n})) for n in (64, 128)]
    assert [b.evidence.facts["threads"] for b in builds if b.status == "ok"] == [64, 128], builds[0].log
    assert builds[0].binary_sha256 != builds[1].binary_sha256
    wrong = executor.compile(task, Candidate(source.replace("true, float", "true, double"), "cuda"))
    assert "args[1] of twice<64,true,double>, 'y', is a pointer to float32" in wrong.log
    check = executor.check(task, Candidate(source, "cuda", {"THREADS": 64}), 20.0)
    assert check.status in ("ok", "unsupported"), check.message


def test_cpp_does_not_run_on_a_gpu(executor: LocalExecutor, task: Task) -> None:
    build = executor.compile(task, Candidate(CUDA, "cpp"))
    assert build.status == "compile_error"
    assert "does not run on NVIDIA H200" in build.log


def test_a_machine_without_a_compiler_is_not_the_kernels_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    executor = LocalExecutor(detect_cpu())
    try:
        with pytest.raises(DeviceError, match="no C\\+\\+ compiler"):
            executor.compile(small_task(), cpp(before="// Built by no other test, so that no cache has it.\n"))
    finally:
        executor.close()


def test_the_process_that_compiles_is_not_ours(executor: LocalExecutor, task: Task) -> None:
    # A source that ends its process ends the child, and the executor lives on.
    build = executor.compile(task, Candidate(TRITON.replace("import triton\n", "import os; os._exit(0)\n"), "triton"))
    assert build.status == "crashed"
    assert executor.compile(task, Candidate(TRITON, "triton")).status == "ok"
