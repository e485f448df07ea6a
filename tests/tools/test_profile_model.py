"""Profiles of whole models, and kernels in them, by the verbs on the real CPU device; times are not judged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.small_model import TEXT

from forewarp.core.errors import DeviceError, TaskError, UsageError
from forewarp.gpu_runner.formats import task as tasks
from forewarp.tools.apply_model import apply_model
from forewarp.tools.measure_kernel import measure_kernel
from forewarp.tools.parts import Kernel, Place
from forewarp.tools.profile_model import ProfileResult, model_task, profile_model
from forewarp.tools.requests import ApplyRequest, MeasureRequest, ProfileRequest, ValidateRequest
from forewarp.tools.session import Executors
from forewarp.tools.validate_task import validate_task

pytest.importorskip("torch")

HERE = Place(device="cpu")
SELF = "\n\nclass ModelNew(Model):\n    pass\n"
WRONG = """

class ModelNew(Model):
    def forward(self, *inputs):
        made = super().forward(*inputs)
        return made + 1 if torch.is_tensor(made) else tuple(m + 1 for m in made)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model")
    (path / "small.py").write_text(TEXT)
    return path


@pytest.fixture(scope="module")
def executors() -> Iterator[Executors]:
    with Executors() as warm:
        yield warm


@pytest.fixture(scope="module")
def profiled(folder: Path) -> ProfileResult:
    return profile_model(ProfileRequest(model=folder / "small.py", max_seconds=0.5, place=HERE))


def test_lines_divide_the_device_time_and_are_ranked_by_what_they_should_gain(profiled: ProfileResult) -> None:
    assert sum(line.share.value for line in profiled.lines) == pytest.approx(1.0)
    gains = [line.gain.value for line in profiled.lines]
    assert gains == sorted(gains, reverse=True)
    assert [line.number for line in profiled.lines] == list(range(1, len(gains) + 1))
    for line in profiled.lines:
        assert line.share.low <= line.share.value <= line.share.high
        assert line.headroom.low <= line.headroom.ratio <= line.headroom.high
        assert line.gain.value <= line.share.value
        assert line.roofline_us > 0
    assert "roofline and best of" in profiled.forecasts
    assert profiled.kernels


@pytest.mark.slow
def test_a_line_becomes_a_task_that_is_sound(folder: Path, profiled: ProfileResult, executors: Executors) -> None:
    line = next(line for line in profiled.lines if "relu" in line.operations)
    out = folder / "line.py"
    made = profile_model(ProfileRequest(model=folder / "small.py", task=line.number, out=out, place=HERE))
    assert made.task == str(out)
    assert f'SUBGRAPH = "{line.subgraph}"' in out.read_text()
    assert [x.subgraph for x in made.lines] == [x.subgraph for x in profiled.lines]  # nothing was profiled anew
    assert validate_task(ValidateRequest(task=str(out), place=HERE), executors=executors).verdict == "sound"


@pytest.mark.slow
def test_what_is_wrong_or_does_not_help_is_dropped_with_the_reason(
    folder: Path, profiled: ProfileResult, executors: Executors
) -> None:
    numbers = [line.number for line in profiled.lines[:2]]
    for number in numbers:
        out = folder / f"task{number}.py"
        profile_model(ProfileRequest(model=folder / "small.py", task=number, out=out, place=HERE))
        (folder / f"wrong{number}.py").write_text(out.read_text() + WRONG)
        (folder / f"nothing{number}.py").write_text("import torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n")
    request = ApplyRequest(
        model=folder / "small.py",
        winners=[str(folder / "wrong1.py"), f"{folder / 'nothing2.py'}:2"],
        write=folder / "new.py",
        place=HERE,
    )
    result = apply_model(request, executors=executors)
    assert [(k.line, k.kept, k.verdict) for k in result.kernels] == [(1, False, "incorrect"), (2, False, "failed")]
    assert "incorrect" in result.kernels[0].why
    assert result.over_eager is None
    assert not (folder / "new.py").exists()
    assert (folder / "small.py").read_text() == TEXT


SLOW = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(64))

    def forward(self, x):
        for _ in range(2):
            x = ((x * self.weight).sort(-1).values + (x * 0.5).sort(-1).values).tanh()
        return x


def get_inputs():
    return [torch.randn(4096, 64)]


def get_init_inputs():
    return []
"""
SORTED = """
def _sorted(x):
    import numpy as np

    made = torch.from_numpy(np.sort(x.numpy(), -1))
    return made, made


"""


@pytest.mark.slow
def test_what_helps_is_kept_written_and_right(tmp_path: Path, executors: Executors) -> None:
    path = tmp_path / "slow.py"
    path.write_text(SLOW)
    profile = profile_model(ProfileRequest(model=path, max_seconds=1, place=HERE))
    line = profile.lines[0]
    assert "sort" in line.operations
    task, kernel, new = tmp_path / "task.py", tmp_path / "kernel.py", tmp_path / "new.py"
    profile_model(ProfileRequest(model=path, task=line.number, out=task, place=HERE))
    # NumPy's sort is several times as fast.
    text = task.read_text()
    assert text.count(".sort(") >= 1
    fast = text.replace("class Model(", SORTED + "class Model(", 1)
    kernel.write_text(re.sub(r"(\w+)\.sort\(-1\)", r"_sorted(\1)", fast) + SELF)
    result = apply_model(ApplyRequest(model=path, winners=[str(kernel)], write=new, place=HERE), executors=executors)
    (found,) = result.kernels
    assert found.verdict in ("faster", "inconclusive", "ambiguous")  # how much faster NumPy sorts is up to the machine
    if found.kept:
        assert result.over_eager is not None
        assert result.peak_bytes
        assert result.model_peak_bytes
        assert new.read_text().startswith(SLOW.rstrip())
        again = measure_kernel(
            MeasureRequest(task=str(path), kernel=Kernel(path=str(new)), place=HERE), executors=executors
        )
        assert again.status == "ok"


CALLED = """
import torch


def build():
    return torch.nn.Linear(8, 4), {"input": torch.rand(3, 8)}
"""


def test_a_function_may_give_the_module_and_its_inputs(tmp_path: Path) -> None:
    path = tmp_path / "called.py"
    path.write_text(CALLED)
    result = profile_model(ProfileRequest(model=path, call="build", max_seconds=0.1, place=HERE))
    assert [line.operations for line in result.lines] == ["linear"]
    with pytest.raises(UsageError, match="defines no function other"):
        model_task(str(path), "other")
    path.write_text(CALLED + "\n\nclass Model: ...\n")
    with pytest.raises(UsageError, match="defines Model already"):
        model_task(str(path), "build")


def test_a_model_that_fails_tells_why(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text(CALLED.replace("torch.rand(3, 8)", "torch.rand(3, 9)"))
    with pytest.raises(TaskError, match=r"broken cannot be profiled: .*shapes cannot be multiplied"):
        profile_model(ProfileRequest(model=path, call="build", max_seconds=0.1, place=HERE))
    path.write_text("open('/etc/passwd').read()\n" + CALLED)
    with pytest.raises(TaskError, match="Permission denied"):
        profile_model(ProfileRequest(model=path, call="build", max_seconds=0.1, place=HERE))


def test_requests_that_cannot_be_met(folder: Path, profiled: ProfileResult, tmp_path: Path) -> None:
    model = folder / "small.py"
    with pytest.raises(UsageError, match="a line becomes a task in a file"):
        profile_model(ProfileRequest(model=model, task=1, place=HERE))
    with pytest.raises(UsageError, match="there is no line 99"):
        profile_model(ProfileRequest(model=model, task=99, out=tmp_path / "x.py", place=HERE))
    with pytest.raises(DeviceError, match="a CPU has no CUDA graphs"):
        profile_model(ProfileRequest(model=model, graphs=True, place=HERE))
    with pytest.raises(UsageError, match="profiled on this machine"):
        profile_model(ProfileRequest(model=model, place=Place(device="cpu", executor="ssh:host")))
    (tmp_path / "other.py").write_text("class ModelNew: ...\n")
    with pytest.raises(UsageError, match="belongs to no line"):
        apply_model(ApplyRequest(model=model, winners=[str(tmp_path / "other.py")], place=HERE))


def test_evidence_beside_a_module_tells_its_line(folder: Path, profiled: ProfileResult, tmp_path: Path) -> None:
    from forewarp.models.profiler import ModelWorker
    from forewarp.tools.apply_model import _winners

    task = model_task(str(folder / "small.py"))
    with ModelWorker("cpu") as worker:
        profile = worker.profile(task, 0.5, kept=True)
        from forewarp.tools.profile_model import rank, with_rates

        subgraph, line = rank(profile, with_rates(worker.target, profile))[1]
        (tmp_path / "best_module.py").write_text("class ModelNew: ...\n")
        sha256 = tasks.from_source(subgraph.problem, "line2").sha256
        (tmp_path / "evidence.json").write_text(json.dumps({"task_sha256": sha256}))
        (winner,) = _winners([str(tmp_path / "best_module.py")], profile, worker)
    assert winner.line == line.number
