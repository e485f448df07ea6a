"""Profiles of whole models, and kernels in them, by the verbs on the real CPU device; times are not judged."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.small_model import FLIPPED, TEXT

from forewarp.core.errors import DeviceError, TaskError, UsageError
from forewarp.gpu_runner.formats import task as tasks
from forewarp.models.patching import Replacement
from forewarp.tools.apply_model import LineKernel, PatchedModel, _winners, apply_model
from forewarp.tools.measure_kernel import measure_kernel
from forewarp.tools.optimize_model import why_not_judged
from forewarp.tools.parts import Interval, Kernel, Place
from forewarp.tools.profile_model import ProfileResult, model_task, open_model, profile_model
from forewarp.tools.requests import ApplyRequest, MeasureRequest, ProfileRequest, ValidateRequest
from forewarp.tools.session import Executors
from forewarp.tools.validate_task import validate_task

torch = pytest.importorskip("torch")

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
    return profile_model(ProfileRequest(model=folder / "small.py", place=HERE))


@pytest.mark.slow
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
    assert "outputs are wrong with it: " in result.kernels[0].why
    assert result.over_eager is None
    assert not (folder / "new.py").exists()
    assert (folder / "small.py").read_text() == TEXT


@pytest.mark.slow
def test_what_helps_is_kept_written_and_right(tmp_path: Path, executors: Executors) -> None:
    path = tmp_path / "flipped.py"
    path.write_text(FLIPPED)
    profile = profile_model(ProfileRequest(model=path, place=HERE))
    (line,) = profile.lines
    task, kernel, new = tmp_path / "task.py", tmp_path / "kernel.py", tmp_path / "new.py"
    profile_model(ProfileRequest(model=path, task=line.number, out=task, place=HERE))
    text, flips = re.subn(r"(\w+)\.flip\(\[-1\]\)|torch\.flip\((\w+), \[-1\]\)", r"\1\2", task.read_text())
    assert flips == 16
    kernel.write_text(text + SELF)
    result = apply_model(ApplyRequest(model=path, winners=[str(kernel)], write=new, place=HERE), executors=executors)
    (found,) = result.kernels
    if "too noisy to tell" in found.why:  # on a machine that is too busy
        assert not found.kept
        return
    assert found.verdict == "faster"
    assert result.over_eager is not None
    assert result.over_eager.low > 1
    assert result.measurements == 3
    assert result.peak_bytes
    assert result.model_peak_bytes
    assert new.read_text().startswith(FLIPPED.rstrip())
    again = measure_kernel(
        MeasureRequest(task=str(path), kernel=Kernel(path=str(new)), place=HERE), executors=executors
    )
    assert again.status == "ok"


CALLED = """
import torch


class Cached(torch.nn.Linear):
    def forward(self, input):
        return {"y": super().forward(input), "cache": object()}


def build():
    return Cached(8, 4), {"input": torch.rand(3, 8)}
"""


@pytest.mark.slow
def test_a_function_may_give_the_module_and_its_inputs(tmp_path: Path) -> None:
    path = tmp_path / "called.py"
    head, _, end = CALLED.partition("\n\ndef build")  # a script with arguments, whose model lies beside it
    (tmp_path / "cached.py").write_text(head)
    script = "import argparse\nimport torch\nfrom cached import Cached\nargparse.ArgumentParser().parse_args()\n"
    loader = "next(iter(torch.utils.data.DataLoader(torch.rand(3, 8), 3, num_workers=2, persistent_workers=True)))"
    path.write_text(f"{script}\n\ndef build{end.replace('torch.rand(3, 8)', loader)}")
    result = profile_model(ProfileRequest(model=path, call="build", place=HERE))
    assert [line.operations for line in result.lines] == ["linear"]
    with pytest.raises(UsageError, match="defines no function other"):
        model_task(str(path), "other")
    path.write_text(CALLED + "\n\nclass Model: ...\n")
    with pytest.raises(UsageError, match="defines Model already"):
        model_task(str(path), "build")


def test_such_a_function_adds_no_break_of_its_own_to_the_graph(tmp_path: Path) -> None:
    path = tmp_path / "called.py"
    path.write_text("import torch\n\n\ndef build():\n    return torch.nn.Linear(8, 4).eval(), torch.rand(3, 8)\n")
    namespace: dict[str, Any] = {}
    exec(model_task(str(path), "build").reference, namespace)
    model = namespace["Model"]()
    assert not model.training  # as the function leaves it
    assert torch.compile(model, backend="eager", fullgraph=True)(*namespace["get_inputs"]()).shape == (3, 4)


@pytest.mark.slow
def test_a_model_that_fails_tells_why(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text(CALLED.replace("torch.rand(3, 8)", "torch.rand(3, 9)"))
    with pytest.raises(TaskError, match=r"broken cannot be run: .*shapes cannot be multiplied"):
        profile_model(ProfileRequest(model=path, call="build", place=HERE))
    path.write_text("open('/etc/passwd').read()\n" + CALLED)
    with pytest.raises(TaskError, match=r"No such file|Permission denied"):
        profile_model(ProfileRequest(model=path, call="build", place=HERE))


@pytest.mark.slow
def test_requests_that_cannot_be_met(folder: Path, profiled: ProfileResult, tmp_path: Path) -> None:
    model = folder / "small.py"
    with pytest.raises(UsageError, match="a line becomes a task in a file"):
        profile_model(ProfileRequest(model=model, task=1, place=HERE))
    with pytest.raises(UsageError, match="there is no line 99"):
        profile_model(ProfileRequest(model=model, task=99, out=tmp_path / "x.py", place=HERE))
    with pytest.raises(DeviceError, match="a CPU has no CUDA graphs"):
        profile_model(ProfileRequest(model=model, graphs=True, place=HERE))
    with pytest.raises(UsageError, match="profiled on one device of this machine"):
        profile_model(ProfileRequest(model=model, place=Place(device="cpu", executor="ssh:host")))
    (tmp_path / "other.py").write_text("class ModelNew: ...\n")
    with pytest.raises(UsageError, match="belongs to no line"):
        apply_model(ApplyRequest(model=model, winners=[str(tmp_path / "other.py")], place=HERE))


@pytest.mark.slow
def test_evidence_beside_a_module_tells_its_line(
    folder: Path, profiled: ProfileResult, tmp_path: Path, executors: Executors
) -> None:
    model = open_model(str(folder / "small.py"), "", HERE, executors)
    subgraph, line = model.lines[1]
    (tmp_path / "best_module.py").write_text("class ModelNew: ...\n")
    sha256 = tasks.from_source(subgraph.problem, "line2").sha256
    (tmp_path / "evidence.json").write_text(json.dumps({"task_sha256": sha256}))
    (winner,) = _winners([str(tmp_path / "best_module.py")], model)
    assert winner.line == line.number


@pytest.mark.slow
def test_judgements_end_with_the_deadline(tmp_path: Path, executors: Executors) -> None:
    path, kernel, new = tmp_path / "slow.py", tmp_path / "kernel.py", tmp_path / "new.py"
    path.write_text(FLIPPED.replace("import torch\n", "import time\n\nimport torch\n", 1))
    path.write_text(path.read_text().replace("        x = x * self", "        time.sleep(0.3)\n        x = x * self"))
    model = open_model(str(path), "", HERE, executors, deadline=10.0)
    (subgraph, _), *_ = model.lines
    kernel.write_text(subgraph.problem + SELF)
    request = ApplyRequest(model=path, winners=[str(kernel)], deadline=2.0, write=new, place=HERE)
    begun = time.monotonic()
    (judged,) = apply_model(request, executors=executors).kernels
    assert (judged.kept, judged.verdict, judged.why) == (False, "not judged", "the deadline came first")
    assert time.monotonic() - begun < 20  # a measurement of it takes a minute
    late = PatchedModel(model, HERE, executors, under_compile=False, end=time.monotonic())
    late.keep(winner := LineKernel(str(kernel), 1, Replacement(subgraph, kernel.read_text())))
    (whole,) = late.result([winner.judged("faster", None, "")], str(new), lambda _: None).kernels
    assert not whole.kept
    assert "the deadline came first" in whole.why
    assert late.spent.measurements == 0
    assert not new.exists()


@pytest.mark.slow
def test_a_profile_keeps_its_deadline(folder: Path) -> None:
    with pytest.raises(TaskError, match="stopped after") as raised:
        profile_model(ProfileRequest(model=folder / "small.py", deadline=0.05, place=HERE))
    assert "--deadline" in raised.value.hint


def test_what_a_line_gains_by_torch_compile_alone_is_to_be_reached() -> None:
    best = Interval(ratio=1.5, low=1.4, high=1.6)
    assert why_not_judged(best, None) == why_not_judged(best, 1.55) == ""
    assert "torch.compile makes of the line (2×)" in why_not_judged(best, 2.0)
    assert "faster than the line" in why_not_judged(Interval(ratio=0.9, low=0.8, high=1.1), None)
