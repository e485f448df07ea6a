"""A model as statements and subgraphs, and back as a module with some of them replaced; in this process."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from support.small_model import TEXT  # noqa: E402

from forewarp.core.values import Workload  # noqa: E402
from forewarp.gpu_runner.devices import detect_cpu  # noqa: E402
from forewarp.gpu_runner.formats import task as tasks  # noqa: E402
from forewarp.gpu_runner.worker.problem import Problem, ReferenceFailed, import_text, load_module  # noqa: E402
from forewarp.models import profiling  # noqa: E402
from forewarp.models.graph import record  # noqa: E402
from forewarp.models.jobs import ModelProfile, ProfileJob  # noqa: E402
from forewarp.models.patching import Replacement, compiled, patched  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning", "ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def problem() -> Problem:
    return Problem.load(TEXT, Workload("default"), 1)


@pytest.fixture(scope="module")
def profile(problem: Problem) -> ModelProfile:
    job = ProfileJob(task=tasks.from_source(TEXT, "small"), target=detect_cpu(), seconds=10.0)
    with torch.no_grad():
        return profiling._profile(job, problem.module.Model(2), problem.arguments(1, "cpu"))


def test_statements_are_the_model_in_readable_torch(profile: ModelProfile) -> None:
    texts = [s.text for s in profile.graph.statements]
    assert any(t.startswith("F.linear(") for t in texts)
    assert any(t.startswith("F.scaled_dot_product_attention(") for t in texts)
    assert any(".permute(" in t for t in texts)
    assert not any("relu_(" in t for t in texts)  # it writes to no value
    assert profile.graph.weights["p_layers_0_qkv_weight"] == "layers.0.qkv.weight"
    assert profile.graph.weights["b_scale"] == "scale"


def test_repeats_of_a_subgraph_are_one_with_several_places(profile: ModelProfile) -> None:
    qkv = next(s for s in profile.subgraphs if "layer_norm" in s.title)
    assert len(qkv.places) == 2
    assert {w.split(".")[1] for w in qkv.places[0].weights} == {"0"}
    assert {w.split(".")[1] for w in qkv.places[1].weights} == {"1"}
    assert len(profile.calls_s) == len(profile.device_s) >= profiling._LEAST_CALLS
    assert all(len(s.samples_s) >= profiling._LEAST_CALLS for s in profile.subgraphs)


def test_each_subgraph_is_a_task_that_gives_tensors_of_its_own(profile: ModelProfile) -> None:
    for s in profile.subgraphs:
        assert s.problem, s.why_not
        module = load_module(s.problem, "line", {})
        torch.manual_seed(0)
        model, values = module.Model(), module.get_inputs()
        made = model(*values)
        made = [made] if isinstance(made, torch.Tensor) else made
        assert [(tuple(t.shape), t.stride()) for t in made] == [(shape, stride) for shape, stride, _ in s.layouts]
        storages = {v.untyped_storage().data_ptr() for v in values}
        assert not storages & {t.untyped_storage().data_ptr() for t in made}
        assert sorted(model.state_dict()) == sorted(s.parameters)


def test_weights_that_are_all_equal_are_spread(profile: ModelProfile) -> None:
    text = next(s.problem for s in profile.subgraphs if "norm_weight" in s.parameters)
    model = load_module(text, "line", {}).Model()
    assert float(model.norm_weight.detach().std()) > 0.05


_DECAYS = """
import torch


class Model(torch.nn.Module):
    def forward(self, steps, x):
        total = steps.cumsum(-1)
        decay = total[..., :, None] - total[..., None, :]
        later = torch.ones(decay.shape[-2:], dtype=torch.bool).triu(1)
        return torch.softmax(decay.masked_fill(later, -torch.inf).exp() @ x @ x.transpose(-1, -2), -1)


def get_inputs():
    return [-40 * torch.rand(2, 33), torch.randn(2, 33, 8)]


def get_init_inputs():
    return []
"""


def test_tasks_are_finite_where_the_model_is_and_keep_its_masks() -> None:
    loaded = Problem.load(_DECAYS, Workload("default"), 1)
    job = ProfileJob(task=tasks.from_source(_DECAYS, "decays"), target=detect_cpu(), seconds=5.0)
    with torch.no_grad():
        found = profiling._profile(job, loaded.module.Model(), loaded.arguments(1, "cpu"))
    texts = [s.problem for s in found.subgraphs if s.problem]
    assert any("triu(1)" in text for text in texts)
    for text in texts:
        module = load_module(text, "line", {})
        assert bool(module.Model()(*module.get_inputs()).isfinite().all()), text


def both(profile: ModelProfile, text: str) -> tuple[Any, Any, list[Any]]:
    module = import_text(text)
    torch.manual_seed(3)
    old, new = module.Model(2), module.ModelNew(2)
    assert old.state_dict().keys() == new.state_dict().keys()
    new.load_state_dict(old.state_dict())
    return old, new, module.get_inputs()


def own(s: Any) -> Replacement:
    """Its own reference as the kernel, which counts its calls."""
    return Replacement(s, s.problem.replace("    def forward(", "    calls = 0\n\n    def forward(") + _COUNTING)


_COUNTING = """

class ModelNew(Model):
    def forward(self, *inputs):
        ModelNew.calls += 1
        return super().forward(*inputs)
"""


def test_replaced_everywhere_it_computes_the_same_with_the_models_weights(profile: ModelProfile) -> None:
    old, new, values = both(profile, patched(TEXT, profile.graph, [own(s) for s in profile.subgraphs]))
    with torch.no_grad():
        expected, made = old(*values), new(*values)
        torch.testing.assert_close(made, expected)
        assert sum(type(k).calls for k in {type(k): k for k in new._kernels}.values()) == sum(
            len(s.places) for s in profile.subgraphs
        )
        # Weights are shared, not copied, also after the module was converted.
        new.float()
        new.layers[1].out.weight.mul_(2)
        old.layers[1].out.weight.mul_(2)
        torch.testing.assert_close(new(*values), old(*values))


def test_on_other_inputs_and_with_gradients_it_is_the_model_as_it_was(profile: ModelProfile) -> None:
    _, new, values = both(profile, patched(TEXT, profile.graph, [own(s) for s in profile.subgraphs]))
    with torch.enable_grad():
        new(*values)["x"].sum().backward()
    assert new.layers[0].qkv.weight.grad is not None
    with torch.no_grad(), pytest.warns(UserWarning, match="kernels are not used, because the inputs are others"):
        new(torch.randn(5, 16, 32), values[1])
    assert all(type(k).calls == 0 for k in new._kernels)
    with torch.no_grad():
        new.eval()(*values)  # which computes the same
    assert all(type(k).calls for k in new._kernels)


def test_in_another_mode_it_is_the_model_as_it_was_where_the_mode_matters() -> None:
    class Normed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(4)

        def forward(self, x: Any) -> Any:
            return self.norm(x)

    graph = record(Normed(), [torch.rand(3, 4)]).graph
    assert graph.training is True
    text = "import torch\n\n\nclass Model(torch.nn.BatchNorm1d):\n    pass\n"
    new = import_text(patched(text, graph, [])).ModelNew(4)
    with torch.no_grad(), pytest.warns(UserWarning, match=r"the model in training mode: call \.train\(\)"):
        new.eval()(torch.rand(3, 4))


class Switched(torch.nn.Linear):
    def train(self, mode: bool = True) -> Any:
        self.shift = 1.0 if mode else 2.0
        return super().train(mode)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return super().forward(input) + self.shift


@pytest.mark.parametrize(
    ("module", "training", "exports"),
    [
        (torch.nn.Linear(4, 4), None, 1),
        (torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.0)), None, 2),
        (torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5)), True, 2),
        (Switched(4, 4).train(), True, 2),
    ],
)
def test_a_model_is_exported_in_its_other_mode_where_it_may_look_at_it(
    module: torch.nn.Module, training: bool | None, exports: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, export = [], torch.export.export
    monkeypatch.setattr(torch.export, "export", lambda *args, **given: calls.append(args) or export(*args, **given))
    assert record(module, [torch.rand(3, 4)]).graph.training is training
    assert len(calls) == exports
    assert "training" not in vars(torch.nn.Module)


def test_a_kernel_that_takes_other_weights_is_refused(profile: ModelProfile) -> None:
    s = next(s for s in profile.subgraphs if s.parameters)
    text = "import torch\nclass ModelNew(torch.nn.Module):\n    pass\n"
    with pytest.raises(RuntimeError, match=r"has no weight \w+ to take the model's layers\.0"):
        import_text(patched(TEXT, profile.graph, [Replacement(s, text)])).ModelNew(2)


def test_torch_compile_gets_the_model_as_it_was_where_kernels_do_not_help_it(profile: ModelProfile) -> None:
    for under_compile in (True, False):
        text = patched(TEXT, profile.graph, [own(profile.subgraphs[1])], under_compile=under_compile)
        old, new, values = both(profile, text)
        with torch.no_grad():
            made = torch.compile(new, fullgraph=True, backend="eager")(*values)
            torch.testing.assert_close(made, old(*values))
            assert bool(type(new._kernels[0]).calls) == under_compile
            new(*values)
        assert type(new._kernels[0]).calls


_TABLE = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.positions = torch.randn(64, 32)  # neither parameter nor buffer

    def forward(self, x):
        return torch.softmax(x + self.positions, -1)


def get_inputs():
    return [torch.randn(4, 64, 32)]


def get_init_inputs():
    return []
"""


def test_large_tensors_that_are_no_buffers_are_taken_from_the_model() -> None:
    loaded = Problem.load(_TABLE, Workload("default"), 1)
    job = ProfileJob(task=tasks.from_source(_TABLE, "table"), target=detect_cpu(), seconds=5.0)
    with torch.no_grad():
        found = profiling._profile(job, loaded.module.Model(), loaded.arguments(1, "cpu"))
        module = import_text(patched(_TABLE, found.graph, [own(s) for s in found.subgraphs]))
        torch.manual_seed(0)
        old = module.Model()
        torch.manual_seed(0)
        new, values = module.ModelNew(), module.get_inputs()
        torch.testing.assert_close(new(*values), old(*values))
    assert type(new._kernels[0]).calls


@pytest.mark.slow
def test_under_torch_compile_lines_are_timed_as_it_compiles_each(problem: Problem) -> None:
    job = ProfileJob(task=tasks.from_source(TEXT, "small"), target=detect_cpu(), seconds=200.0, compiled=True)
    with torch.no_grad():
        found = profiling._profile(job, problem.module.Model(2), problem.arguments(1, "cpu"))
    assert not found.problems
    assert all(len(s.samples_s) == len(s.eager_s) == len(found.graph_s) for s in found.subgraphs)
    assert all(s.problem for s in found.subgraphs)


@pytest.mark.slow
def test_under_torch_compile_kernels_are_operations_without_a_break(profile: ModelProfile) -> None:
    text = patched(TEXT, profile.graph, [own(profile.subgraphs[1])])
    old, new, values = both(profile, text)
    with torch.no_grad():
        made = torch.compile(new, fullgraph=True)(*values)
        torch.testing.assert_close(made, old(*values), rtol=1e-4, atol=1e-4)
    assert "torch.compile" in compiled(text, "ModelNew")


def test_a_model_whose_graph_depends_on_elements_is_refused() -> None:
    class Strange(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x * 2 if float(x.sum()) > 0 else x

    with torch.no_grad(), pytest.raises(ReferenceFailed, match=r"torch\.export makes no graph of the model"):
        record(Strange(), [torch.randn(3)])


def test_state_that_changes_is_changed(profile: ModelProfile) -> None:
    text = TEXT.replace("nn.LayerNorm(WIDTH)", "nn.BatchNorm1d(LENGTH)")
    loaded = Problem.load(text, Workload("default"), 1)
    with torch.no_grad():
        recorded = record(loaded.module.Model(2), loaded.arguments(1, "cpu"))
        old, new, values = both(profile, patched(text, recorded.graph, []))
        torch.testing.assert_close(new(*values), old(*values))
    torch.testing.assert_close(new.state_dict(), old.state_dict())
