"""Exported ops stand alone: the tests that a package brings pass without forewarp, and vLLM's file registers its op."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from support.jobs import task_job

from forewarp.core.errors import CandidateError, UsageError
from forewarp.core.values import Candidate, DeviceKind, Target, Task, Workload
from forewarp.export import package
from forewarp.export.module_text import ExportedShape, Winning
from forewarp.gpu_runner import devices
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import task as tasks
from forewarp.gpu_runner.worker.signatures import describe_job
from forewarp.tools.export import package_name

H200 = devices.known_targets()["h200"]
SMALL = {"cpu": (Workload("small", {"ROWS": 8, "COLS": 64}), Workload("odd", {"ROWS": 13, "COLS": 97}))}
EVIDENCE = ["softmax: 1.5×", 'a """ and a \\ in it']
GELU = """
import torch
import torch.nn as nn

BATCH = 6


class Model(nn.Module):
    def __init__(self, inside, out, scale):
        super().__init__()
        self.linear = nn.Linear(inside, out)
        self.scale = scale

    def forward(self, x):
        return nn.functional.gelu(self.linear(x) * self.scale)


def get_inputs():
    return [torch.randn(BATCH, 16)]


def get_init_inputs():
    return [16, 24, 0.5]
"""
GELU_NEW = GELU.replace("class Model(", "class ModelNew(").replace("gelu(", "gelu(1.0 * ")


def winning(task: Task, candidate: Candidate, kind: DeviceKind = "cpu", target: Target | None = None) -> Winning:
    job = task_job(task, kind)
    shapes = [ExportedShape(w.name, w.constants, describe_job(job, w, flops=False)) for w in task.workloads[kind]]
    return Winning(task, target or devices.detect_cpu(), candidate, tuple(shapes))


def small(name: str) -> Winning:
    task = tasks.load(name)
    seed = next(s for s in task.seeds if s.language == "cpp")
    return winning(replace(task, workloads=SMALL), seed)


def backward_of(one: Winning) -> package.BackwardKernel:
    task = replace(one.task, gradients="only", seeds=())
    kernel = candidates.load(Path(__file__).parents[1] / "honest/kernels/norm_backward.cpp")
    return package.BackwardKernel(winning(task, kernel), ["gradients"], "{}\n")


def gelu(source: str = GELU, **fields: str) -> Winning:
    task = replace(tasks.from_source(source, "gelu"), **fields)
    return winning(task, candidates.from_source(GELU_NEW, "python"))


def written(files: Mapping[str, str], folder: Path) -> Path:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def run(arguments: list[str], folder: Path, *paths: Path) -> str:
    """Run Python where only a package's own folder and installed packages can be imported, forewarp not among them."""
    hidden = "import sys; sys.modules['forewarp'] = None; import runpy; del sys.argv[0]; "
    code = hidden + "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
    extensions = {"TORCH_EXTENSIONS_DIR": str(folder / "extensions"), "PYTHONPATH": os.pathsep.join(map(str, paths))}
    # Inductor's cache does not see that an op of the same name has become another.
    extensions["TORCHINDUCTOR_CACHE_DIR"] = str(folder / "inductor")
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env=os.environ | extensions,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cpp", "python"])
def test_an_installed_package_passes_the_tests_that_it_brings(kind: str, tmp_path: Path) -> None:
    one = small("rmsnorm") if kind == "cpp" else gelu()
    backward = backward_of(one) if kind == "cpp" else None
    project = written(package.package(one, "my_op", EVIDENCE, "{}\n", backward), tmp_path / "project")
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", str(site)]
    subprocess.run([*pip, str(project)], check=True, timeout=120)
    told = run(["pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "tests"], project, site)
    assert "failed" not in told
    assert int(told.rsplit(" passed")[0].split()[-1]) >= 8
    assert "reference" in run(["benchmark"], project, site, project)


@pytest.mark.slow
@pytest.mark.parametrize("first", ["jvp", "compiled jvp", "vmap", "inference", "threads"])
def test_what_comes_first_changes_no_later_answer(first: str, tmp_path: Path) -> None:
    project = written(package.package(gelu(), "my_op", EVIDENCE, "{}\n"), tmp_path)
    check = """
import sys, threading, torch
from my_op import Model, my_op as op
sys.setswitchinterval(1e-5)
model = Model(16, 24, 0.5).requires_grad_(False)
W, B, x = model.linear.weight, model.linear.bias, torch.randn(6, 16)

def new(x, w=W):
    return op(x, w, B)

def old(x, w=W):
    return torch.nn.functional.gelu(torch.nn.functional.linear(x, w, B) * 0.5)

def jvp(call):
    return torch.func.jvp(call, (x,), (x,))[1]

def in_threads():
    wrong = []
    def work(k):
        for _ in range(100):
            for rows in (x, x[:3]):
                if not torch.allclose(new(rows, k * W), old(rows, k * W), atol=1e-5):
                    wrong.append(k)
    workers = [threading.Thread(target=work, args=(k,)) for k in (1, 2, 3)]
    [w.start() for w in workers], [w.join() for w in workers]
    assert not wrong, len(wrong)

match sys.argv[1]:
    case "jvp": torch.testing.assert_close(jvp(new), jvp(old))
    case "compiled jvp": torch.testing.assert_close(torch.compile(lambda: jvp(new), fullgraph=True)(), jvp(old))
    case "vmap": torch.testing.assert_close(torch.vmap(new)(x[:, None]), torch.vmap(old)(x[:, None]))
    case "threads": in_threads()
    case "inference":
        with torch.inference_mode():
            torch.testing.assert_close(new(x[:2]), old(x[:2]))
            torch.testing.assert_close(new(x), old(x))
torch.testing.assert_close(new(x, 2 * W), old(x, 2 * W))
torch.testing.assert_close(jvp(new), jvp(old))
wants, same = x.clone().requires_grad_(), x.clone().requires_grad_()
new(wants).sum().backward(), old(same).sum().backward()
torch.testing.assert_close(wants.grad, same.grad)
"""
    (tmp_path / "check.py").write_text(check)
    run(["check", first], tmp_path, project / "src", tmp_path)


@pytest.mark.parametrize("name", tasks.bundled())
@pytest.mark.parametrize("language", ["cuda", "triton", "cpp"])
def test_every_seed_becomes_files_that_python_reads(name: str, language: str) -> None:
    task = tasks.load(name)
    seed = next(s for s in task.seeds if s.language == language)
    kind: DeviceKind = "cpu" if language == "cpp" else "cuda"
    one = winning(task, seed, kind, None if kind == "cpu" else H200)
    files = package.package(one, "my_op", EVIDENCE, "{}\n")
    texts = [text for path, text in files.items() if path.endswith(".py")] + [package.vllm_op(one, "my_op", EVIDENCE)]
    for text in texts:
        imported = {a.name for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Import) for a in n.names}
        assert "forewarp" not in {i.partition(".")[0] for i in imported}
    assert max(len(line) for line in files["src/my_op/op.py"].splitlines()) <= 160


def test_numbers_of_the_constructor_are_parameters_where_they_differ() -> None:
    op = package.op_of(small("rmsnorm"), "my_op")
    assert [p.typed for p in op.parameters] == ["x: torch.Tensor", "weight: torch.Tensor", "size: int = 64"]
    assert op.backward == "(Tensor[] grads, int[] places, Tensor x, Tensor weight, SymInt size=64) -> Tensor[]"


def test_a_kernel_of_gradients_must_be_of_the_same_task() -> None:
    one = small("rmsnorm")
    right = backward_of(one)
    files = package.package(one, "my_op", EVIDENCE, "{}\n", right)
    assert "_BACKWARD = _backward_module._GUARD" in files["src/my_op/op.py"]
    assert "_GIVEN = (0, 1)" in files["src/my_op/op.py"]
    for winner, backward in ((small("softmax"), right), (one, replace(right, winning=one))):
        with pytest.raises(CandidateError, match="not of the gradients of this task"):
            package.package(winner, "my_op", EVIDENCE, "{}\n", backward)
    with pytest.raises(CandidateError, match="the kernel gives gradients"):
        package.op_of(right.winning, "my_op")


def test_names_of_parameters_are_free_and_readable() -> None:
    op = package.op_of(
        gelu(GELU.replace("forward(self, x)", "forward(self, grads)").replace("(x)", "(grads)")), "torch_op"
    )
    assert [p.name for p in op.parameters] == ["grads_", "linear_weight", "linear_bias"]


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (GELU.replace("forward(self, x):", "forward(self, *x):\n        x = x[0]"), "nested"),
        (GELU.replace("return nn", "x.mul_(2)\n        return nn"), "writes to its inputs"),
        (GELU.replace("return nn", "x = nn.functional.dropout(x, 0.5)\n        return nn"), "random"),
        (
            GELU.replace("self.scale = scale", "self.scale = scale\n        self.norm = nn.BatchNorm1d(16)").replace(
                "self.linear(x)", "self.linear(self.norm(x))"
            ),
            "changes its buffers",
        ),
    ],
)
def test_what_is_no_op_is_refused(source: str, why: str) -> None:
    with pytest.raises(CandidateError, match=why):
        package.op_of(gelu(source), "my_op")


@pytest.mark.parametrize("name", ["9lives", "class", "a-b", "_op", "op"])
def test_names_that_python_does_not_take_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="no name of a package"):
        package.op_of(gelu(), name)


@pytest.mark.slow
def test_a_file_for_vllm_registers_its_op_with_and_without_vllm(tmp_path: Path) -> None:
    one = small("softmax")
    written({"my_op.py": package.vllm_op(one, "my_op", EVIDENCE)}, tmp_path)
    check = """
import torch, my_op
x = torch.randn(8, 64)
compiled = torch.compile(torch.ops.vllm.my_op, fullgraph=True, dynamic=True)
for values in (x, x[:3]):
    torch.testing.assert_close(compiled(values), torch.softmax(values, -1))
print(my_op._GUARD.calls, my_op._LIBRARY is None)
"""
    (tmp_path / "check.py").write_text(check)
    assert run(["check"], tmp_path, tmp_path) == "1 False\n"
    stand_in = """
def direct_register_custom_op(op_name, op_func, mutates_args=None, fake_impl=None, target_lib=None, dispatch_key=None):
    import torch
    global library
    library = torch.library.Library("vllm", "FRAGMENT")
    library.define(op_name + torch.library.infer_schema(op_func, mutates_args=mutates_args))
    library.impl(op_name, op_func, dispatch_key=dispatch_key or "CPU")
    library._register_fake(op_name, fake_impl)
"""
    written({"vllm/__init__.py": "", "vllm/utils/__init__.py": "", "vllm/utils/torch_utils.py": stand_in}, tmp_path)
    assert run(["check"], tmp_path, tmp_path) == "1 True\n"


def test_names_that_reference_and_module_both_define_are_refused_for_vllm() -> None:
    one = gelu()
    same = package.vllm_op(one, "my_op", EVIDENCE)  # get_inputs is the same text in both
    assert same.count("class Model(") == 1
    other = replace(one, candidate=candidates.from_source(GELU_NEW.replace("BATCH, 16", "BATCH, 8"), "python"))
    with pytest.raises(CandidateError, match="get_inputs"):
        package.vllm_op(other, "my_op", EVIDENCE)


@pytest.mark.slow
def test_a_triton_kernel_may_have_the_name_of_the_op(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = replace(tasks.load("softmax"), workloads=SMALL)
    one = winning(task, next(s for s in task.seeds if s.language == "triton"))
    assert "\ndef softmax(" in one.candidate.source
    project = written(package.package(one, "softmax", EVIDENCE, "{}\n"), tmp_path)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    (tmp_path / "check.py").write_text(
        "import torch\nfrom softmax import op, softmax\nx = torch.randn(8, 64)\n"
        "torch.testing.assert_close(softmax(x), torch.softmax(x, -1))\nprint(op._GUARD.calls)\n"
    )
    assert run(["check"], tmp_path, project / "src", tmp_path) == "1\n"


@pytest.mark.parametrize(
    ("task", "name"),
    [("softmax", "softmax"), ("23_Softmax", "softmax"), ("10_3D-tensor", "op_3d_tensor"), ("7", "op_7")],
)
def test_a_package_is_called_as_its_task_but_for_numbers_in_front(task: str, name: str) -> None:
    assert package_name(task) == name
