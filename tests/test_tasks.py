from __future__ import annotations

import ctypes
import re
import shutil
from pathlib import Path

import pytest

from forewarp.core.errors import TaskError
from forewarp.core.values import Candidate, Target, Workload
from forewarp.gpu_runner.compilers import cpp
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import plan as plans
from forewarp.gpu_runner.formats import task as tasks

torch = pytest.importorskip("torch")

from support.jobs import describe  # noqa: E402

from forewarp.gpu_runner.worker import check, problem  # noqa: E402
from forewarp.gpu_runner.worker.oracle import oracle  # noqa: E402

ROOT = Path(__file__).parents[1]
NAMES = ["cross_entropy", "layernorm_gelu", "matmul", "rmsnorm", "softmax", "topk_gate"]
TINY: dict[str, dict[str, int]] = {
    "cross_entropy": {"ROWS": 5, "VOCAB": 203},
    "layernorm_gelu": {"ROWS": 5, "COLS": 203},
    "matmul": {"M": 37, "N": 53, "K": 71},
    "rmsnorm": {"ROWS": 5, "COLS": 203},
    "softmax": {"ROWS": 5, "COLS": 203},
    "topk_gate": {"TOKENS": 9, "EXPERTS": 19, "TOP_K": 4},
}
CPU = Target("cpu", "cpu", "native", 1)
CTYPES = {"i32": ctypes.c_int32, "i64": ctypes.c_int64, "f32": ctypes.c_float, "f64": ctypes.c_double}


def test_all_tasks_are_bundled() -> None:
    assert tasks.bundled() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_task_has_workloads_and_a_seed_per_language(name: str) -> None:
    task = tasks.load(name)
    assert task.title != name
    assert len(task.workloads["cpu"]) == 2
    assert len(task.workloads["cuda"]) == 3
    assert {s.language for s in task.seeds} == {"cpp", "cuda", "triton"}


@pytest.mark.parametrize("name", NAMES)
def test_seed_opens_a_space_around_an_allowed_default(name: str) -> None:
    for seed in tasks.load(name).seeds:
        plan = plans.parse(seed)
        first = {tunable: choices[0] for tunable, choices in plan.tunables.items()}
        assert plan.allows(first)
        assert seed.tunables == first
        assert 3 <= len(plan.tunables) <= 7
        assert 50 <= sum(1 for _ in plan.combinations()) <= 1000
        for tunable in plan.tunables:
            assert re.search(rf"\b{tunable}\b", seed.source.split("\n[let]")[1]), f"{tunable} is not used"


@pytest.mark.parametrize("name", NAMES)
def test_workloads_describe_without_a_device(name: str) -> None:
    task = tasks.load(name)
    for kind, language in (("cpu", "cpp"), ("cuda", "cuda"), ("cuda", "triton")):
        (seed,) = (s for s in task.seeds if s.language == language)
        for workload in task.workloads[kind]:  # type: ignore[index]
            signature = describe(task.reference, workload)
            assert plans.resolve(plans.parse(seed), signature, seed.tunables).launches
            largest = max(signature.inputs[0].shape[0], *signature.inputs[0].shape)
            assert largest > 100


@pytest.mark.parametrize("name", NAMES)
def test_inputs_and_weights_are_random_and_matter(name: str) -> None:
    loaded = problem.Problem.load(tasks.load(name).reference, Workload("tiny", TINY[name]), 0)
    with torch.no_grad():
        model = loaded.model("cpu")
        one, two = (problem.outputs_of(model(*loaded.inputs(seed, "cpu"))) for seed in (1, 2))
        assert not any(torch.equal(a, b) for a, b in zip(one, two, strict=True))
        for parameter in model.parameters():
            assert parameter.std() > 0.1


def test_the_gate_has_one_right_answer() -> None:
    loaded = problem.Problem.load(tasks.load("topk_gate").reference, Workload("t", TINY["topk_gate"]), 0)
    (logits,) = loaded.inputs(0, "cpu")
    gaps = logits.sort(dim=-1).values.diff(dim=-1)
    assert gaps.min() > 1e-3


def error_of(seed: Candidate, reference: str, workload: Workload, folder: Path) -> float:
    """Compile for one workload, call once on poisoned outputs, return the error as a fraction of what is allowed."""
    loaded = problem.Problem.load(reference, workload, 0)
    model, inputs = loaded.model("cpu"), loaded.inputs(0, "cpu")
    with torch.no_grad():
        expected = problem.outputs_of(model(*inputs))
        exact, _ = oracle(model, inputs)
    plan = plans.resolve(plans.parse(seed), describe(reference, workload), seed.tunables)
    built = cpp.build(seed.source, plan, CPU, folder, "seed")
    library = ctypes.CDLL(str(folder / built["files"][0]))
    outputs = [torch.empty_like(e) for e in expected]
    for output in outputs:
        output.view(torch.uint8).fill_(check.POISON_BYTE)
    state = model.state_dict()
    buffers = dict(zip(plan.inputs, inputs, strict=True)) | dict(zip(plan.outputs, outputs, strict=True))
    buffers |= {local: state[key] for local, key in plan.params.items()}
    buffers |= {s.name: torch.zeros(s.shape, dtype=getattr(torch, s.dtype)) for s in plan.scratch}
    for launch in plan.launches:
        arguments = [
            ctypes.c_void_p(buffers[a.name].data_ptr()) if a.kind == "ptr" else CTYPES[a.kind](a.value)
            for a in launch.args
        ]
        getattr(library, launch.kernel)(*arguments)
    return check.Expected(exact, expected, None).compare(outputs)


needs_compiler = pytest.mark.skipif(cpp.compiler() is None, reason="needs a C++ compiler")


@needs_compiler
@pytest.mark.parametrize("name", NAMES)
def test_cpp_default_agrees_with_the_reference(name: str, tmp_path: Path) -> None:
    task = tasks.load(name)
    (seed,) = (s for s in task.seeds if s.language == "cpp")
    assert error_of(seed, task.reference, Workload("tiny", TINY[name]), tmp_path) < 1.0


@needs_compiler
def test_the_example_candidate_agrees_with_the_example_problem(tmp_path: Path) -> None:
    task = tasks.load(str(ROOT / "examples/problem.py"))
    seed = candidates.load(ROOT / "examples/problem.cpp")
    assert error_of(seed, task.reference, Workload("tiny", {"ROWS": 7, "COLS": 45}), tmp_path) < 1.0


def test_the_example_module_agrees_with_the_example_problem() -> None:
    task = tasks.load(str(ROOT / "examples/problem.py"))
    candidate = candidates.load(ROOT / "examples/model_new.py")
    assert candidate.language == "python"
    loaded = problem.Problem.load(task.reference, Workload("tiny", {"ROWS": 7, "COLS": 45}), 0)
    model = problem.build_model(
        problem.load_module(candidate.source, "candidate", {}), "ModelNew", loaded.module, "cpu", 0
    )
    inputs = loaded.inputs(0, "cpu")
    before = [i.clone() for i in inputs]
    torch.testing.assert_close(model(*inputs), loaded.model("cpu")(*inputs))
    assert all(torch.equal(a, b) for a, b in zip(inputs, before, strict=True))


def documented() -> list[tuple[str, str]]:
    text = (ROOT / "docs/tasks.md").read_text()
    return re.findall(r"### (cpp|cuda|triton|python)\n+```\w+\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize(("language", "source"), documented(), ids=lambda v: v if len(v) < 10 else "")
def test_the_documented_examples_parse(language: str, source: str) -> None:
    assert candidates.language_of(source, {"cpp": ".cpp", "cuda": ".cu"}.get(language, ".py")) == language
    candidate = candidates.from_source(source, language)
    if language != "python":
        signature = describe((ROOT / "examples/problem.py").read_text(), Workload("default"))
        assert plans.resolve(plans.parse(candidate), signature, {}).launches


def test_every_language_is_documented() -> None:
    assert [language for language, _ in documented()] == ["cpp", "cuda", "triton", "python"]


@needs_compiler
def test_the_documented_cpp_example_works(tmp_path: Path) -> None:
    candidate = candidates.from_source(dict(documented())["cpp"], "cpp")
    reference = (ROOT / "examples/problem.py").read_text()
    assert error_of(candidate, reference, Workload("tiny", {"ROWS": 7, "COLS": 45}), tmp_path) < 1.0


def test_a_file_is_a_task_with_one_workload_per_kind(tmp_path: Path) -> None:
    task = tasks.load(str(ROOT / "examples/problem.py"))
    assert task.name == "problem"
    assert task.workloads == {"cpu": (Workload("default"),), "cuda": (Workload("default"),)}


def test_a_folder_is_a_task(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(ROOT / "tasks/softmax", folder)
    (folder / "task.toml").write_text("[tolerance]\nrtol = 1e-3\natol = 1e-5\n[workloads.cpu]\none = { ROWS = 3 }\n")
    task = tasks.load(str(folder))
    assert (task.name, task.title) == ("mine", "mine")
    assert task.tolerance is not None
    assert task.tolerance.rtol == 1e-3
    assert task.workloads["cpu"] == (Workload("one", {"ROWS": 3}),)
    assert task.workloads["cuda"] == (Workload("default"),)
    assert task.sha256 != tasks.load("softmax").sha256
    assert task.perturb
    (folder / "task.toml").write_text("perturb = false\n")
    assert not tasks.load(str(folder)).perturb


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("task.toml", "title = softmax", "not valid TOML"),
        ("task.toml", "perturb = 0", "perturb must be true or false"),
        ("task.toml", "[workloads]\ncpu = 3", "workloads.cpu must be a table"),
        ("reference.py", "def get_inputs(): ...", "does not define Model, get_init_inputs"),
        ("reference.py", "class Model(", "is not a Python file"),
    ],
)
def test_a_broken_folder_says_what_is_wrong(name: str, text: str, message: str, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(ROOT / "tasks/softmax", folder)
    (folder / name).write_text(text)
    with pytest.raises(TaskError, match=message):
        tasks.load(str(folder))


def test_an_unknown_task_lists_the_bundled_ones() -> None:
    with pytest.raises(TaskError, match="no task is called 'sofmax'") as e:
        tasks.load("sofmax")
    assert e.value.hint.startswith("did you mean softmax? bundled tasks: cross_entropy, ")
