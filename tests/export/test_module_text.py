"""Exported modules stand in for the reference: the kernel on judged shapes, the reference on all others."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from support.jobs import task_job

from forewarp.core.errors import CandidateError
from forewarp.core.values import Candidate, DeviceKind, Target, Task
from forewarp.export import module_text
from forewarp.export.module_text import ExportedShape, Winning
from forewarp.gpu_runner import devices
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import task as tasks
from forewarp.gpu_runner.worker.signatures import describe_job

ROOT = Path(__file__).parents[2]
H200 = devices.known_targets()["h200"]
EVIDENCE = ["softmax: 1.5×", 'a """ and a \\ in it']
AXPY = """/*forewarp
inputs = ["x", "y", "alpha", "out"]
outputs = ["out"]
[[launch]]
kernel = "axpy"
args = ["x", "y", "alpha:f32", "out", "numel(x)"]
*/
extern "C" void axpy(const float* x, const float* y, float alpha, float* out, int n) {
    for (int i = 0; i < n; i++) out[i] = x[i] + alpha * y[i];
}
"""
WIDE = '''"""forewarp
inputs = ["x"]
outputs = ["y"]
[tunables]
BLOCK = [64, 128]
[[launch]]
kernel = "doubled"
args = ["x", "y", "numel(x):i64"]
grid = ["cdiv(numel(x), BLOCK)"]
"""
import triton
import triton.language as tl


@triton.jit
def doubled(x, BLOCK: tl.constexpr, y, n):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)
'''
DOUBLE = """
import torch
import torch.nn as nn
N = 200


class Model(nn.Module):
    def forward(self, x):
        return 2 * x


def get_inputs():
    return [torch.randn(N)]


def get_init_inputs():
    return []
"""


def exported(task: Task, candidate: Candidate, kind: DeviceKind = "cpu", target: Target | None = None) -> str:
    job = task_job(task, kind)
    shapes = [ExportedShape(w.name, w.constants, describe_job(job, w, flops=False)) for w in task.workloads[kind]]
    return module_text.of(Winning(task, target or devices.detect_cpu(), candidate, tuple(shapes)), EVIDENCE)


def seed(task: Task, language: str) -> Candidate:
    return next(s for s in task.seeds if s.language == language)


def imported(text: str, folder: Path) -> ModuleType:
    path = folder / "best_module.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("best_module", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _own_extensions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "extensions"))


@pytest.fixture
def swish(tmp_path: Path) -> Any:
    task = tasks.load(str(ROOT / "examples" / "problem.py"))
    task = replace(task, reference=task.reference.replace("ROWS = 512", "ROWS = 8").replace("4096", "64"))
    return imported(exported(task, candidates.load(ROOT / "examples" / "problem.cpp")), tmp_path)


def test_a_cpp_module_runs_its_kernel_where_it_was_judged_and_the_reference_elsewhere(swish: Any) -> None:
    model, reference = swish.ModelNew(), swish.Model()

    def answered_by_kernel(*values: torch.Tensor, **named: torch.Tensor) -> bool:
        before = swish._GUARD.calls
        torch.testing.assert_close(model(*values, **named), reference(*values, **named))
        return swish._GUARD.calls > before

    with torch.no_grad():
        x, gate = torch.randn(8, 64), torch.randn(8, 64)
        assert answered_by_kernel(x, gate)
        assert answered_by_kernel(x, gate=gate)
        assert answered_by_kernel(gate, x.clone().requires_grad_())
        assert not answered_by_kernel(x[:7], gate[:7])
        assert not answered_by_kernel(x.double(), gate.double())
        assert not answered_by_kernel(torch.randn(64, 8).T, gate)
        assert not answered_by_kernel(torch.randn(8 * 64 + 1)[1:].view(8, 64), gate)
    with pytest.raises(TypeError, match="missing"):
        model(x)
    with torch.enable_grad():
        wants = x.clone().requires_grad_()
        assert not answered_by_kernel(wants, gate)
        model(wants, gate).sum().backward()
    assert wants.grad is not None


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # by torch.func itself
def test_what_torch_follows_in_other_ways_goes_to_the_reference(swish: Any) -> None:
    model, reference = swish.ModelNew(), swish.Model()
    x, gate = torch.randn(8, 64), torch.randn(8, 64)
    wanted = torch.func.jvp(reference, (x, gate), (x, gate))[1]
    torch.testing.assert_close(torch.func.jvp(model, (x, gate), (x, gate))[1], wanted)
    with torch.autograd.forward_ad.dual_level(), torch.no_grad():
        found = model(torch.autograd.forward_ad.make_dual(x, x), torch.autograd.forward_ad.make_dual(gate, gate))
        torch.testing.assert_close(torch.autograd.forward_ad.unpack_dual(found).tangent, wanted)
    torch.testing.assert_close(torch.vmap(model)(x[None], gate[None])[0], reference(x, gate))
    assert swish._GUARD.calls == 0


def test_a_kernel_that_cannot_be_compiled_here_leaves_the_reference_in_place(
    swish: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(swish, "_COMPILERS", ("no-such-compiler",))
    x, gate = torch.randn(8, 64), torch.randn(8, 64)
    with pytest.warns(RuntimeWarning, match="no-such-compiler"):
        first = swish.ModelNew()(x, gate)
    torch.testing.assert_close(first, swish.Model()(x, gate))


@pytest.mark.slow
@pytest.mark.parametrize("name", tasks.bundled())
def test_every_bundled_cpp_seed_becomes_a_module_that_agrees(name: str, tmp_path: Path) -> None:
    task = tasks.load(name)
    module: Any = imported(exported(task, seed(task, "cpp")), tmp_path)
    for count, workload in enumerate(task.workloads["cpu"], start=1):
        vars(module).update(workload.constants)
        reference, model = module.Model(*module.get_init_inputs()), module.ModelNew(*module.get_init_inputs())
        model.load_state_dict(reference.state_dict())
        values = module.get_inputs()
        with torch.no_grad():
            torch.testing.assert_close(model.eval()(*values), reference.eval()(*values), atol=1e-3, rtol=1e-3)
        assert module._GUARD.calls == count


@pytest.mark.parametrize("language", ["cuda", "triton"])
@pytest.mark.parametrize("name", tasks.bundled())
def test_modules_of_gpu_kernels_stand_alone(name: str, language: str) -> None:
    task = tasks.load(name)
    text = exported(task, seed(task, language), "cuda", H200)
    compile(text, "best_module.py", "exec")
    tree = ast.parse(text)
    imports = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    imports |= {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert {i.split(".")[0] for i in imports} <= {*sys.stdlib_module_names, "torch", "triton"}
    assert ast.get_docstring(tree) == "softmax: 1.5×\na ''' and a \\ in it"


def test_a_cuda_module_compiles_what_it_holds(tmp_path: Path) -> None:
    task = tasks.load("softmax")
    module: Any = imported(exported(task, seed(task, "cuda"), "cuda", H200), tmp_path)
    defines = [f"-D{name}={value}" for name, value in module._CASES[0]["defines"].items()]
    assert module._cubin(defines)[0].startswith(b"\x7fELF")
    with pytest.raises(RuntimeError, match=r"error"):
        module._cubin([*defines, "-Dfloat=nonsense"])
    assert module.ModelNew()(torch.ones(2, 2)).tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_a_module_keeps_the_tensor_maps_of_its_kernel(tmp_path: Path) -> None:
    task = tasks.load("matmul")
    candidate = Candidate((ROOT / "prompts" / "cards" / "hopper_gemm.cu").read_text(), "cuda")
    module: Any = imported(exported(task, candidate, "cuda", H200), tmp_path)
    (square,) = (case for case in module._CASES if case["name"] == "square")
    (launch,) = square["launches"]
    assert launch["args"][:2] == [
        ("map", ("a", "bfloat16", (4096, 4096), (128, 64), 128)),
        ("map", ("b", "bfloat16", (4096, 4096), (64, 64), 128)),
    ]
    assert module._cubin([f"-D{name}={value}" for name, value in square["defines"].items()])[0].startswith(b"\x7fELF")


@pytest.mark.gpu
@pytest.mark.parametrize("language", ["cuda", "triton"])
@pytest.mark.parametrize("name", ["softmax", "rmsnorm"])
def test_a_gpu_module_runs_its_kernel_where_it_was_judged(name: str, language: str, tmp_path: Path) -> None:
    task = tasks.load(name)
    target = devices.choose("cuda")
    module: Any = imported(exported(task, seed(task, language), "cuda", target), tmp_path)
    vars(module).update(task.workloads["cuda"][-1].constants)
    with torch.device("cuda"), torch.no_grad():
        reference, model = module.Model(*module.get_init_inputs()), module.ModelNew(*module.get_init_inputs())
        model.load_state_dict(reference.state_dict())
        values = module.get_inputs()
        torch.testing.assert_close(model(*values), reference(*values), atol=1e-3, rtol=1e-3)
        assert module._GUARD.calls == 1
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.testing.assert_close(model(*values), reference(*values), atol=1e-3, rtol=1e-3)
        less = values[0][:-1]
        torch.testing.assert_close(model(less, *values[1:]), reference(less, *values[1:]), atol=1e-3, rtol=1e-3)
        assert module._GUARD.calls == 2


def test_constants_and_arguments_that_mean_more_than_a_size_are_guarded() -> None:
    task = tasks.load("topk_gate")
    text = exported(task, seed(task, "cuda"), "cuda", H200)
    cases = [
        n.value for n in ast.parse(text).body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "_CASES"
    ]
    constants = [case["constants"] | case["init"] for case in ast.literal_eval(cases[0])]
    assert [2 in c.values() for c in constants] == [True, False, False]
    assert all("TOKENS" not in c for c in constants)


@pytest.mark.slow
def test_a_triton_module_agrees_in_the_interpreter_and_keeps_wide_numbers_wide(tmp_path: Path) -> None:
    (tmp_path / "double.py").write_text(DOUBLE)
    text = exported(tasks.load(str(tmp_path / "double.py")), candidates.from_source(WIDE, "triton", {"BLOCK": 128}))
    assert 'def doubled(x, BLOCK: tl.constexpr, y, n: "i64"):' in text
    (tmp_path / "best_module.py").write_text(text)
    script = "import best_module as m, torch, json; x = torch.randn(200); y = torch.randn(7); n = m.ModelNew()\n"
    script += "print(json.dumps([torch.equal(n(x), 2 * x), m._GUARD.calls, torch.equal(n(y), 2 * y), m._GUARD.calls]))"
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, check=True
    )
    assert json.loads(done.stdout) == [True, 1, True, 1]


def _said_by_reference(data: Any) -> str:
    del data
    return "the reference"


@pytest.mark.slow
def test_a_submission_writes_where_the_reference_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = tasks.load(str(ROOT / "examples" / "gpumode_vectoradd"))
    module: Any = imported(exported(task, candidates.from_source(AXPY, "cpp")), tmp_path)
    x, y, out = torch.randn(1000003), torch.randn(1000003), torch.empty(1000003)
    assert module.custom_kernel((x, y, {"alpha": 0.75}, out)) is out
    torch.testing.assert_close(out, x + 0.75 * y)
    known = ModuleType("reference")
    vars(known)["ref_kernel"] = _said_by_reference
    monkeypatch.setitem(sys.modules, "reference", known)
    for data in ((x, y, {"alpha": 0.5}, out), (x, x, {"alpha": 0.75}, x), (x[:4], y[:4], {"alpha": 0.75}, out[:4])):
        assert module.custom_kernel(data) == "the reference"
    assert module.custom_kernel((x, y, {"alpha": 0.75, "mode": "fast"}, out)) == "the reference"


def test_a_python_candidate_is_itself_with_the_evidence_above() -> None:
    task = tasks.load(str(ROOT / "examples" / "problem.py"))
    candidate = candidates.load(ROOT / "examples" / "model_new.py")
    text = exported(task, candidate)
    assert text.endswith(candidate.source)
    assert text.startswith("# softmax: 1.5×\n")
    compile(text, "best_module.py", "exec")


def test_names_that_two_parts_define_are_refused() -> None:
    task = tasks.load(str(ROOT / "examples" / "problem.py"))
    clash = replace(task, reference=task.reference + "\ndef _prepare():\n    pass\n")
    with pytest.raises(CandidateError, match="_prepare"):
        exported(clash, candidates.load(ROOT / "examples" / "problem.cpp"))


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_a_module_keeps_to_the_mode_that_it_was_judged_in(mode: str, tmp_path: Path) -> None:
    (tmp_path / "modes.py").write_text(DOUBLE.replace("2 * x", "2 * x if self.training else 3 * x"))
    factor, other = (2, 3) if mode == "train" else (3, 2)
    task = replace(tasks.load(str(tmp_path / "modes.py")), mode=mode)
    kernel = f"""/*forewarp
inputs = ["x"]
outputs = ["y"]
[[launch]]
kernel = "times"
args = ["x", "y", "numel(x)"]
*/
extern "C" void times(const float* x, float* y, int n) {{ for (int i = 0; i < n; i++) y[i] = {factor} * x[i]; }}
"""
    module: Any = imported(exported(task, candidates.from_source(kernel, "cpp")), tmp_path)
    model, x = module.ModelNew(), torch.randn(200)
    assert torch.equal(model.train(mode == "train")(x), factor * x)
    assert module._GUARD.calls == 1
    assert torch.equal(model.train(mode != "train")(x), other * x)
    assert module._GUARD.calls == 1


def test_a_reference_that_changes_its_buffers_has_no_module(tmp_path: Path) -> None:
    counted = 'self.register_buffer("calls", torch.zeros(1))'
    text = DOUBLE.replace(
        "    def forward", f"    def __init__(self):\n        super().__init__()\n        {counted}\n\n    def forward"
    )
    (tmp_path / "counts.py").write_text(text.replace("return 2 * x", "self.calls += 1\n        return 2 * x"))
    candidate = candidates.from_source(WIDE, "triton", {"BLOCK": 128})
    with pytest.raises(CandidateError, match="changes its buffers"):
        exported(tasks.load(str(tmp_path / "counts.py")), candidate)
