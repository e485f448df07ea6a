"""Captured inputs: reading a file of calls, drawing from it, tasks and measurements on it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.jobs import task_job
from support.shared_executors import limited

from forewarp.core.errors import TaskError
from forewarp.core.values import CAPTURED, Candidate, Task, Workload
from forewarp.gpu_runner.executors.captured import with_inputs
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor
from forewarp.gpu_runner.formats import task as tasks
from forewarp.gpu_runner.worker import captured
from forewarp.gpu_runner.worker.captured import Call
from forewarp.gpu_runner.worker.loading import load_problem
from forewarp.gpu_runner.worker.problem import Problem
from forewarp.search import near

SOURCE = """\
import torch
import torch.nn as nn

ROWS = 64


class Model(nn.Module):
    def forward(self, x, rows, scale):
        return x[rows] * scale


def get_inputs():
    return [torch.randn(ROWS, 32), torch.randint(0, ROWS, (16,)), 2.0]


def get_init_inputs():
    return []
"""
QUICK = Limits(time_s=0.05, looks=(12,))


def values(rows: int = 5, count: int = 16) -> tuple[Any, ...]:
    return torch.randn(64, 32) * 3 + 1, torch.arange(count) % rows, 2.0


def saved(folder: Path, data: Any, name: str = "calls.pt") -> Path:
    torch.save(data, folder / name)
    return folder / name


def reread(folder: Path, data: Any) -> dict[str, Any]:
    return captured.read(str(saved(folder, data)), "0")


def call_of(folder: Path, *given: Any, **more: Any) -> Call:
    text = reread(folder, [{"name": "one", "values": given, **more}])
    found = Call.of_task(Task("task", "task", "", {}, files={CAPTURED: text["text"]}), "one")
    assert found is not None
    return found


def loaded(task: Task, workload: int = 0) -> Problem:
    return load_problem(task_job(task), task.workloads["cpu"][workload], 0)


class TestDraw:
    def test_integers_and_truth_values_stay_and_floats_are_drawn_anew_alike(self, tmp_path: Path) -> None:
        x, rows, mask = torch.randn(300, 400) * 3 + 1, torch.randperm(300), torch.rand(300) < 0.5
        call = call_of(tmp_path, x, rows, mask)
        first, again, other = call.draw(1, "cpu"), call.draw(1, "cpu"), call.draw(2, "cpu")
        assert torch.equal(first[1], rows)
        assert torch.equal(other[2], mask)
        assert torch.equal(first[0], again[0])
        assert not torch.equal(first[0], other[0])
        assert not torch.equal(first[0], x)
        assert first[0].mean().item() == pytest.approx(x.mean().item(), abs=0.05)
        assert first[0].std().item() == pytest.approx(x.std().item(), rel=0.02)

    def test_values_within_0_and_1_stay_there(self, tmp_path: Path) -> None:
        for x in (torch.rand(200, 200), torch.randn(200, 200).softmax(1)):
            (drawn,) = call_of(tmp_path, x).draw(3, "cpu")
            assert 0.0 <= drawn.min().item() <= drawn.max().item() <= 1.0
            assert drawn.mean().item() == pytest.approx(x.mean().item(), rel=0.05)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.float8_e4m3fn])
    def test_every_float_is_drawn(self, tmp_path: Path, dtype: torch.dtype) -> None:
        x = torch.randn(64, 64).to(dtype)
        (drawn,) = call_of(tmp_path, x).draw(3, "cpu")
        assert (drawn.dtype, drawn.shape) == (x.dtype, x.shape)
        assert drawn.float().std().item() == pytest.approx(1.0, rel=0.1)

    def test_masks_and_constants_stay(self, tmp_path: Path) -> None:
        causal = torch.full((8, 8), float("-inf")).triu(1)
        padding, zeros = torch.tensor([1.0, 0.0, 1.0]), torch.zeros(5)
        drawn = call_of(tmp_path, causal, padding, zeros, torch.empty(0, 3)).draw(3, "cpu")
        for one, other in zip(drawn, (causal, padding, zeros, torch.empty(0, 3)), strict=True):
            assert torch.equal(one, other)

    def test_kept_as_captured_where_the_file_says_so_but_never_the_same_memory(self, tmp_path: Path) -> None:
        x = torch.randn(8, 8)
        call = call_of(tmp_path, x, redraw=False)
        call.draw(1, "cpu")[0].zero_()
        assert torch.equal(call.draw(2, "cpu")[0], x)

    def test_nests_strides_and_shared_tensors_come_back(self, tmp_path: Path) -> None:
        x = torch.randn(6, 4).t()
        given = ({"a": [x, None], 3: "text"}, (x, True, torch.float16), torch.tensor(7))
        nest, pair, seven = call_of(tmp_path, *given).draw(1, "cpu")
        assert nest["a"][0] is pair[0]
        assert nest["a"][0].stride() == x.stride()
        assert nest["a"][1] is None
        assert (nest[3], pair[1:], seven.item()) == ("text", (True, torch.float16), 7)

    def test_shapes_alone_without_elements(self, tmp_path: Path) -> None:
        drawn = call_of(tmp_path, *values()).draw(0, "meta")
        assert [v.device.type for v in drawn[:2]] == ["meta", "meta"]

    @pytest.mark.gpu
    def test_on_a_gpu(self, tmp_path: Path) -> None:
        x, rows, _ = values()
        drawn, kept = call_of(tmp_path, x, rows).draw(1, "cuda")
        assert (drawn.is_cuda, kept.is_cuda, torch.equal(kept.cpu(), rows)) == (True, True, True)


class TestBadFiles:
    @pytest.mark.parametrize(
        ("data", "message"),
        [
            ({"x": 1}, "it holds a dict, not a list of calls"),
            ([], "it holds an empty list"),
            ([3], "call call0 has no tuple or list of values, but int"),
            ([{"name": "a"}], "call a has no tuple or list of values, but NoneType"),
            ([{"values": (), "wieght": 2}], "call 0 has wieght; a call may have name, weight, values, redraw"),
            ([{"values": (), "weight": 0}], "the weight of call call0 is 0; a weight is a number above 0"),
            ([{"values": (), "weight": True}], "the weight of call call0 is True"),
            ([{"values": (), "name": ""}], "call 0 has the name ''"),
            ([{"values": (), "redraw": 0}], "redraw of call call0 is 0"),
            ([{"name": "a", "values": ()}] * 2, "several calls are named a"),
            ([({1, 2},)], "call call0 holds a set"),
            ([({(1, 2): 3},)], "call call0 holds a dict whose keys"),
            ([(torch.eye(3).to_sparse(),)], "call call0 holds a tensor that is not dense"),
        ],
    )
    def test_what_is_no_call_is_named(self, tmp_path: Path, data: Any, message: str) -> None:
        assert message in reread(tmp_path, data)["error"]

    def test_code_in_a_pickle_is_not_run(self, tmp_path: Path) -> None:
        error = reread(tmp_path, [(Exploding(tmp_path / "ran"),)])["error"]
        assert "code in a pickle is not run" in error
        assert not (tmp_path / "ran").exists()

    def test_what_torch_did_not_write(self, tmp_path: Path) -> None:
        (tmp_path / "no.pt").write_text("hello")
        assert "no file that torch.save wrote" in captured.read(str(tmp_path / "no.pt"), "")["error"]

    def test_too_much_to_keep(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(captured, "MOST_BYTES", 1 << 12)
        assert "MiB compressed" in reread(tmp_path, [{"values": (torch.randn(64, 64),), "redraw": False}])["error"]
        assert "text" in reread(tmp_path, [(torch.randn(64, 64),)])


class Exploding:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


class TestTask:
    def test_each_call_is_a_workload_with_its_weight(self, tmp_path: Path) -> None:
        path = saved(tmp_path, [{"name": "decode", "weight": 30, "values": values()}, values(count=400)])
        path.chmod(0o600)
        plain = tasks.from_source(SOURCE, "gather", workloads={"a": {"ROWS": 8}, "b": {}})
        task = with_inputs(plain, path, cache=tmp_path / "cache")
        for kind in ("cpu", "cuda"):
            assert [(w.name, w.weight, dict(w.constants)) for w in task.workloads[kind]] == [
                ("decode", 30.0, {"ROWS": 8}),
                ("call1", 1.0, {"ROWS": 8}),
            ]
        assert [len(loaded(task, i).inputs(1, "cpu")[1]) for i in (0, 1)] == [16, 400]
        assert task.repeated_inputs == []

    @pytest.mark.slow
    def test_the_files_contents_are_part_of_the_identity(self, tmp_path: Path) -> None:
        plain, data = tasks.from_source(SOURCE, "gather"), {"a": [values(5)], "b": [values(6)]}
        paths = {name: saved(tmp_path, calls, f"{name}.pt") for name, calls in data.items()}
        one, other = (with_inputs(plain, path, cache=tmp_path / "cache") for path in paths.values())
        same = with_inputs(plain, paths["a"], "/no/such/python", tmp_path / "cache")  # what was read once is kept
        assert len({plain.sha256, one.sha256, other.sha256}) == 3
        assert one.sha256 != replace(one, files=other.files).sha256
        assert same == one

    def test_weights_are_part_of_the_identity(self) -> None:
        task = tasks.from_source(SOURCE, "gather")
        (only,) = task.workloads["cpu"]
        assert replace(task, workloads={"cpu": (replace(only, weight=2.0),)}).sha256 != (
            replace(task, workloads={"cpu": (only,)}).sha256
        )

    def test_a_folder_may_name_a_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FOREWARP_CACHE", str(tmp_path / "cache"))
        (tmp_path / "reference.py").write_text(SOURCE)
        (tmp_path / "task.toml").write_text('inputs = "calls.pt"')
        saved(tmp_path, [{"name": "decode", "values": values()}])
        assert [w.name for w in tasks.load(str(tmp_path), with_inputs).workloads["cuda"]] == ["decode"]
        (tmp_path / "task.toml").write_text("inputs = 3")
        with pytest.raises(TaskError, match="inputs must be the name of a file"):
            tasks.load(str(tmp_path), with_inputs)

    def test_a_missing_file_and_a_gpu_mode_task(self, tmp_path: Path) -> None:
        plain = tasks.from_source(SOURCE, "gather")
        with pytest.raises(TaskError, match=r"captured inputs .*none\.pt cannot be read: No such file"):
            with_inputs(plain, tmp_path / "none.pt")
        with pytest.raises(TaskError, match="GPU MODE"):
            with_inputs(replace(plain, format="kernelbot"), tmp_path / "none.pt")

    def test_a_bad_file_is_named_with_the_workers_reason(self, tmp_path: Path) -> None:
        path = saved(tmp_path, {"x": 1})
        with pytest.raises(TaskError, match=r"calls\.pt holds no captured inputs: it holds a dict"):
            with_inputs(tasks.from_source(SOURCE, "gather"), path, cache=tmp_path / "cache")


def task_on(folder: Path, data: Any) -> Task:
    """Return the task on captured inputs, read in this process."""
    text = reread(folder, data)["text"]
    workloads = tuple(Workload(c["name"], {}, c["weight"]) for c in json.loads(text)["calls"])
    return replace(tasks.from_source(SOURCE, "gather"), workloads={"cpu": workloads}, files={CAPTURED: text})


class TestMeasuring:
    def measured(self, executor: LocalExecutor, folder: Path, data: Any) -> Any:
        task = task_on(folder, data)
        candidate = Candidate(SOURCE.replace("class Model(", "class ModelNew("), "python")
        with limited(executor, QUICK) as quick:
            return quick.measure(task, candidate, quick.compile(task, candidate))

    def test_calls_are_checked_and_timed_with_their_weights(self, cpu_executor: LocalExecutor, tmp_path: Path) -> None:
        found = self.measured(cpu_executor, tmp_path, [{"weight": 3, "values": values()}, values(count=64)])
        assert found.status == "ok", found.log
        assert [(t.workload, t.weight) for t in found.workloads] == [("call0", 3.0), ("call1", 1.0)]
        assert not [c for c in found.checks if "inputs repeat" in c]

    def test_inputs_that_repeat_are_told(self, cpu_executor: LocalExecutor, tmp_path: Path) -> None:
        found = self.measured(cpu_executor, tmp_path, [{"values": values(), "redraw": False}])
        assert found.status == "ok", found.log
        assert "inputs repeat, captured and not drawn anew: call0" in found.checks

    def test_another_number_of_arguments_is_named(self, cpu_executor: LocalExecutor, tmp_path: Path) -> None:
        with pytest.raises(TaskError, match=r"captured call call0 has 2 values, which forward\(x, rows, scale\)"):
            self.measured(cpu_executor, tmp_path, [values()[:2]])

    def test_values_that_forward_refuses_are_named_by_their_call(
        self, cpu_executor: LocalExecutor, tmp_path: Path
    ) -> None:
        with pytest.raises(TaskError, match="on the captured call odd: "):
            self.measured(cpu_executor, tmp_path, [values(), {"name": "odd", "values": (*values()[:2], "2")}])

    def test_no_near_shapes_are_tried(self, cpu_executor: LocalExecutor, tmp_path: Path) -> None:
        plain, tried = tasks.from_source(SOURCE, "gather"), list[Task]()

        def describe(task: Task) -> Any:
            tried.append(task)
            return cpu_executor.describe(task)

        assert near.near_shapes(plain, "cpu", cpu_executor.describe(plain), describe)
        task = task_on(tmp_path, [values()])
        tried.clear()
        assert not near.near_shapes(task, "cpu", cpu_executor.describe(task), describe)
        assert not tried
