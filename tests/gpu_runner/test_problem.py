"""References: nested data, inputs that they write to, code that names "cuda", and the task's own check."""

from __future__ import annotations

import ast
import inspect
import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from support.jobs import describe, task_job
from support.small_tasks import WITHIN

from forewarp.core.values import Task, Workload
from forewarp.gpu_runner.worker import problem, signatures
from forewarp.gpu_runner.worker.kernelbot import KernelBotProblem, retarget
from forewarp.gpu_runner.worker.loading import load_problem
from forewarp.gpu_runner.worker.nest import flatten, leaves
from forewarp.gpu_runner.worker.oracle import oracle
from forewarp.gpu_runner.worker.problem import Problem, ReferenceFailed, import_text, load_module
from forewarp.gpu_runner.worker.requests import TaskJob


@pytest.fixture(autouse=True)
def imports_put_back() -> Iterator[None]:
    finders, modules = list(sys.meta_path), dict(sys.modules)
    yield
    sys.meta_path[:] = finders
    for name in ("reference", "task", "utils"):
        sys.modules.pop(name, None)
        if name in modules:
            sys.modules[name] = modules[name]


KERNELBOT = """
import torch
from utils import scaled
from task import input_t


def generate_input(rows: int, cols: int, seed: int) -> input_t:
    gen = torch.Generator(device="cuda")
    gen.manual_seed(seed)
    x = torch.randn(rows, cols, device="cuda", generator=gen)
    w = torch.randn(2, cols, rows, generator=gen, device=torch.device("cuda:0")).permute(2, 1, 0)
    torch.cuda.synchronize()
    return x, {"w": w, "factor": 2, "name": "sum"}, torch.empty(rows, cols).cuda()


def ref_kernel(data: input_t) -> torch.Tensor:
    x, options, out = data
    out[...] = scaled(x, options["factor"]) + options["w"].sum(-1)
    return out


def check_implementation(data, output):
    expected = ref_kernel(data)
    good = torch.allclose(output, expected, rtol=1e-4, atol=1e-4)
    return good, "" if good else "not the sum"
"""
FILES = {
    "task.py": "import torch\ninput_t = tuple[torch.Tensor, dict, torch.Tensor]\n",
    "utils.py": "from task import input_t\n\ndef scaled(x, factor):\n    return x * factor\n",
}
SHAPE = Workload("w", {"rows": 5, "cols": 3})


def job(reference: str = KERNELBOT, files: Mapping[str, str] = FILES) -> TaskJob:
    return task_job(Task("task", "task", reference, {"cpu": (SHAPE,)}, format="gpumode", files=files))


def test_a_size_that_the_reference_does_not_have_is_named() -> None:
    with pytest.raises(ReferenceFailed, match="the workload sets COLS, ROWS, which the reference does not define"):
        load_module("ROW = 3", "reference", {"ROWS": 4, "COLS": 5})


def test_a_kernelbot_reference_is_described() -> None:
    signature = signatures.describe_job(job(), SHAPE)
    assert [i.shape for i in signature.inputs] == [(5, 3), (2, 3, 5), (5, 3)]
    assert signature.scalars == {"2": 2}
    assert signature.written == (2,)
    assert signature.aliases == {"0": 2}
    # The out buffer is written and never read, and it is the output.
    assert signature.bytes_moved == 4 * (15 + 30 + 15)
    assert (signature.params, signature.init) == ((), {})


def test_an_input_that_is_read_and_written_moves_twice() -> None:
    source = KERNELBOT.replace("out[...] =", "out.zero_(); x +=")
    signature = signatures.describe_job(
        job(source.replace("return out\n\n\ndef check", "return x\n\n\ndef check")), SHAPE
    )
    assert signature.written == (0, 2)
    assert signature.aliases == {"0": 0}
    assert signature.bytes_moved == 4 * (15 + 30 + 15 + 15)


def test_data_are_built_as_they_were_for_reference_and_submission() -> None:
    loaded = load_problem(job(), SHAPE, 0)
    values = loaded.inputs(7, "cpu")
    exact, how = oracle(loaded.model("cpu"), values)
    assert how == "fp64"
    submission = """
from task import input_t
def custom_kernel(data: input_t):
    x, options, out = data
    assert options["w"].shape == (*x.shape, 2) and options["w"].stride(-1) == x.numel()
    assert options["name"] == "sum" and type(options["factor"]) is int
    return {"only": x * options["factor"] + options["w"].sum(-1)}
"""
    (result,) = loaded.bind(import_text(submission), "cpu", {})(*values)
    assert torch.allclose(result.double(), exact[0], atol=1e-5)


def test_random_numbers_that_are_overwritten_do_not_make_a_reference_random() -> None:
    assert not signatures.describe_job(job(WITHIN, {}), SHAPE).random
    kept = WITHIN.replace("layer.weight = ", "layer.other = ")
    assert signatures.describe_job(job(kept, {}), SHAPE).random


@pytest.mark.parametrize(
    ("draw", "where"), [("torch.randn(rows, cols)", "meta"), ("torch.tensor(torch.randn(rows, cols).tolist())", "cpu")]
)
def test_inputs_are_drawn_on_the_device_where_the_task_allows_it(draw: str, where: str) -> None:
    text = WITHIN.replace("torch.distributions.Cauchy(0, 2).sample((rows, cols))", draw)
    module = load_problem(job(text, {}), SHAPE, 0).module
    loaded = KernelBotProblem(module, "w", 0, SHAPE.constants, device="meta")
    loaded.inputs(1, "meta")
    assert loaded.known["drawn on"] == where


def test_the_source_of_a_task_is_known_to_inspect() -> None:
    for text in ("return x * factor", "return factor * x"):
        files = FILES | {"utils.py": FILES["utils.py"].replace("return x * factor", text)}
        loaded = load_problem(job(files=files), SHAPE, 0)
        assert text in inspect.getsource(loaded.module.scaled)


def test_the_same_seed_gives_the_same_inputs_and_another_does_not() -> None:
    loaded = load_problem(job(), SHAPE, 0)
    one, same, other = (loaded.inputs(s, "cpu") for s in (1, 1, 2))
    assert torch.equal(one[0], same[0])
    assert not torch.equal(one[0], other[0])


def test_generate_input_without_seed_follows_torchs() -> None:
    source = KERNELBOT.replace("cols: int, seed: int", "cols: int").replace(
        "gen.manual_seed(seed)", "gen.manual_seed(torch.initial_seed())"
    )
    loaded = load_problem(job(source), SHAPE, 0)
    assert torch.equal(loaded.inputs(1, "cpu")[0], loaded.inputs(1, "cpu")[0])
    assert not torch.equal(loaded.inputs(1, "cpu")[0], loaded.inputs(2, "cpu")[0])


def test_seeds_suit_numpy() -> None:
    source = KERNELBOT.replace("gen.manual_seed(seed)", "assert seed < 2**31; gen.manual_seed(seed)")
    load_problem(job(source), SHAPE, 0).inputs(2**47 + 5, "cpu")


@pytest.mark.parametrize(
    ("old", "new"),
    [('"factor": 2', '"factor": seed'), ("torch.empty(rows, cols)", "torch.empty(rows + seed % 7, cols)")],
)
def test_what_depends_on_the_seed_beside_elements_is_refused(old: str, new: str) -> None:
    loaded = load_problem(job(KERNELBOT.replace(old, new)), SHAPE, 0)
    with pytest.raises(ValueError, match="follow from the arguments alone"):
        loaded.inputs(5, "cpu")


def test_data_without_a_tensor_are_refused() -> None:
    source = KERNELBOT.replace("return x, {", "return 1\n    return x, {")
    with pytest.raises(ValueError, match="without a tensor"):
        signatures.describe_job(job(source), SHAPE)


def test_the_check_takes_outputs_and_changes_nothing() -> None:
    loaded = load_problem(job(), SHAPE, 0)
    values = loaded.inputs(7, "cpu")
    before = problem.copies(values)
    (right,) = loaded.model("cpu")(*problem.copies(values))
    check = loaded.checker()
    assert check is not None
    assert check(values, [right]) == ""
    assert check(values, [right + 1]) == "not the sum"
    assert all(torch.equal(values[i], before[i]) for i in (0, 1))


def test_results_of_other_strides_are_checked_by_their_shape() -> None:
    source = KERNELBOT.replace("    return out\n", "    return out.T\n", 1)
    loaded = load_problem(job(source), SHAPE, 0)
    values = loaded.inputs(7, "cpu")
    (right,) = loaded.model("cpu")(*problem.copies(values))
    assert right.shape == (3, 5)
    check = loaded.checker()
    assert check is not None
    assert check(values, [right.contiguous()]) == ""


@pytest.mark.parametrize(
    ("body", "good", "message"),
    [
        ("return good", True, "output is wrong"),
        ("return '' if good else 'bad'", True, "bad"),
        ("return (good, ['too', 'far'])", True, "too far"),
        ("return (good,)", True, "output is wrong"),
        ("return [] if good else ['a', 'b']", True, "a b"),
        ("assert good, 'asserted'", True, "AssertionError: asserted"),
        ("return torch.tensor(good)", True, "output is wrong"),
    ],
)
def test_checks_of_every_form(body: str, good: bool, message: str) -> None:
    head, _, _ = KERNELBOT.partition('    return good, ""')
    loaded = load_problem(job(f"{head}    {body}\n"), SHAPE, 0)
    values = loaded.inputs(7, "cpu")
    (right,) = loaded.model("cpu")(*problem.copies(values))
    check = loaded.checker()
    assert check is not None
    assert (check(values, [right]) == "") is good
    assert message in check(values, [right * 2 + 1])


def test_a_submission_without_custom_kernel_is_named() -> None:
    with pytest.raises(TypeError, match="custom_kernel"):
        load_problem(job(), SHAPE, 0).bind(import_text("class ModelNew: ..."), "cpu", {})


IN_PLACE = """
import torch
SIZE = 8
class Model(torch.nn.Module):
    def forward(self, x, count):
        x.add_(1)
        count += 1
        return x.sum(dim=-1, keepdim=True)
def get_inputs():
    return [torch.randn(SIZE, SIZE), torch.zeros(3, dtype=torch.int64)]
def get_init_inputs():
    return []
"""


def test_a_kernelbench_reference_that_writes_its_inputs() -> None:
    signature = describe(IN_PLACE, Workload("default"))
    assert signature.written == (0, 1)
    assert signature.aliases == {}
    loaded = Problem.load(IN_PLACE, Workload("default"), 0)
    assert loaded.checker() is None
    values = loaded.inputs(1, "cpu")
    kept = values[0].clone()
    exact, _ = oracle(loaded.model("cpu"), values)
    assert torch.equal(values[0], kept)
    assert torch.allclose(exact[0], (kept.double() + 1).sum(-1, keepdim=True))


def test_whatever_refuses_fp64_is_computed_in_its_own_precision() -> None:
    source = IN_PLACE.replace("x.add_(1)", "assert x.dtype == torch.float32")
    loaded = Problem.load(source, Workload("default"), 0)
    _, how = oracle(loaded.model("cpu"), loaded.inputs(1, "cpu"))
    assert how == "fp32 highest"


class Pair(NamedTuple):
    left: torch.Tensor
    right: int


@dataclass
class Config:
    size: int
    weight: torch.Tensor
    me: Any = None


class Cache(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("data", torch.ones(2))
        self.used = 0


def test_nests_of_every_kind_come_back() -> None:
    shared = torch.arange(3.0)
    config = Config(4, torch.ones(1))
    config.me = config
    nest = (
        [shared, {"a": 1.5, "b": [True, None, "text"]}],
        Pair(shared, 2),
        OrderedDict(z=torch.zeros(2), y=torch.float16),
        config,
        Cache(),
        torch.ones(4, 1).expand(4, 3),
    )
    values, build = flatten(nest)
    shapes = [tuple(v.shape) if isinstance(v, torch.Tensor) else v for v in values]
    assert shapes == [(3,), 1.5, True, 2, (2,), (1,), (2,), (4, 3)]
    changed = [v + 1 if isinstance(v, torch.Tensor) else v for v in values]
    made = build(changed)
    assert made[0][0] is made[1].left is changed[0]
    assert made[0][1] == {"a": 1.5, "b": [True, None, "text"]}
    assert isinstance(made[1], Pair)
    assert list(made[2]) == ["z", "y"]
    assert made[3].weight is changed[5]
    assert (made[3].size, config.weight.item()) == (4, 1.0)
    made[4].used += 1
    assert build(values)[4].used == 0
    assert torch.equal(made[4].data, torch.full((2,), 2.0))
    assert made[5].shape == (4, 3)


def test_leaves_are_those_of_containers() -> None:
    assert leaves({"a": (1, [2]), "b": 3}) == [1, 2, 3]
    assert leaves(4) == [4]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("torch.randn(3, device='cuda')", "torch.randn(3, device='cpu')"),
        ("torch.device('cuda:1')", "torch.device('cpu:1')"),
        ("x.cuda()", "x.to('cpu')"),
        ("x.cuda(0).sum()", "x.to('cpu').sum()"),
        ("torch.cuda.synchronize()", "torch.cpu.synchronize()"),
        ("torch.cuda.manual_seed(1)", "torch.cuda.manual_seed(1)"),
        ("torch.backends.cuda.matmul.allow_tf32", "torch.backends.cuda.matmul.allow_tf32"),
        ("print('about cuda')", "print('about cuda')"),
    ],
)
def test_cuda_becomes_another_device(before: str, after: str) -> None:
    assert ast.unparse(retarget(before, "f", "cpu")) == after
    assert ast.unparse(retarget(before, "f", "cuda")) == before


def test_outputs_on_several_devices_are_refused() -> None:
    with pytest.raises(TypeError, match="tensors on cpu and meta: make all of them on the inputs' device"):
        problem.outputs_of((torch.ones(2), torch.ones(2, device="meta")))


@pytest.mark.parametrize("draw", [torch.nn.init.kaiming_uniform_, torch.nn.init.normal_, torch.Tensor.random_])
def test_weights_made_elsewhere_are_drawn_by_the_device(draw: Any) -> None:
    following: list[Any] = []
    for place in ("cpu", "meta"):  # torch.Tensor(…) lies on the CPU while a module is built for a GPU
        torch.manual_seed(1)
        with torch.no_grad(), problem.DrawnOn("cpu"):
            assert draw(torch.empty(4, 3, device=place)).device.type == place
        following.append(torch.rand(3))
    assert torch.equal(*following)


def test_what_is_drawn_by_probabilities_into_another_tensor_reads_them() -> None:
    with problem.DrawnOn("meta"):
        assert torch.equal(torch.bernoulli(torch.ones(3), out=torch.empty(3)), torch.ones(3))


@pytest.mark.parametrize("future", ["", "from __future__ import annotations\n"])
def test_dataclasses_in_a_task_and_a_candidate_are_what_they_are_in_a_script(future: str) -> None:
    text = f"{future}from dataclasses import dataclass, fields\n\n@dataclass\nclass Config:\n    width: int = 8\n"
    for module in (load_module(text, "reference", {}), import_text(text)):
        (field,) = module.fields(module.Config)
        assert field.type == ("int" if future else int)
