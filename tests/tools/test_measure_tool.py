from __future__ import annotations

import random
from pathlib import Path

import pytest
from support import synthetic_executor as synthetic
from support.recorded_pool import record

from forewarp.archive.store import Archive, default_path
from forewarp.core.errors import CandidateError, DeviceError, TaskError, UsageError
from forewarp.core.protocols import Executor
from forewarp.core.values import Task
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.tools.measure_kernel import (
    MeasureManyRequest,
    MeasureManyResult,
    MeasureRequest,
    MeasureStage,
    measure_kernel,
    measure_kernels,
)
from forewarp.tools.measured import MeasureResult, median_interval
from forewarp.tools.parts import Kernel, Place
from forewarp.tools.session import Executors


class Synthetic(Executors):
    def get(self, place: Place, task: Task) -> Executor:
        return synthetic.SyntheticExecutor()


def measure(source: str, **tunables: int) -> MeasureResult:
    request = MeasureRequest(task="softmax", kernel=Kernel(source=source, tunables=tunables))
    return measure_kernel(request, executors=Synthetic())


def test_gives_the_speed_up_with_its_interval_and_records_it() -> None:
    found = measure(synthetic.SOURCE, **synthetic.BEST)
    assert (found.status, found.verdict, found.source) == ("ok", "faster", "measured")
    assert found.speedup is not None
    assert found.speedup.low < found.speedup.ratio < found.speedup.high
    assert str(found.speedup) in found.summary
    assert [w.name for w in found.workloads] == ["small"]
    with Archive(default_path()) as archive:
        (row,) = archive.measurements()
        assert row.id == found.measurement_id
        assert (row.state, row.purpose, row.run) == ("done", "direct", None)


def test_is_announced_before_it_starts() -> None:
    states: list[str] = []

    def look(stage: MeasureStage) -> None:
        states.append(stage)

    request = MeasureRequest(task="softmax", kernel=Kernel(source=synthetic.SOURCE))

    class Dies(synthetic.SyntheticExecutor):
        def measure(self, *args: object, **more: object) -> object:  # type: ignore[override]
            raise KeyboardInterrupt

    class Kept(Executors):
        def get(self, place: Place, task: Task) -> Executor:
            return Dies()  # type: ignore[return-value]

    with pytest.raises(KeyboardInterrupt):
        measure_kernel(request, stage=look, executors=Kept())
    assert states == ["starting the device", "compiling", "measuring"]
    with Archive(default_path()) as archive:
        (row,) = archive.measurements()
        assert (row.state, row.measurement) == ("started", None)


@pytest.mark.parametrize(
    ("addition", "status", "says"),
    [
        ("#error\n", "compile_error", "does not compile"),
        ("// crash\n", "crashed", "crashed"),
        ("// wrong\n", "incorrect", "Wrong result"),
    ],
)
def test_a_kernel_that_fails_is_an_answer(addition: str, status: str, says: str) -> None:
    found = measure(synthetic.SOURCE + addition)
    assert (found.status, found.speedup) == (status, None)
    assert says in found.summary
    with Archive(default_path()) as archive:
        assert len(archive.measurements()) == (0 if status == "compile_error" else 1)


def several(tmp_path: Path, texts: dict[str, str], against: str | None = None) -> MeasureManyResult:
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    kernels = [Kernel(path=str(tmp_path / name)) for name in (*texts, "missing.cpp")]
    other = Kernel(path=str(tmp_path / against)) if against else None
    return measure_kernels(MeasureManyRequest(task="softmax", kernels=kernels, against=other), executors=Synthetic())


def test_several_kernels_are_answered_in_order_and_none_stops_another(tmp_path: Path) -> None:
    best = "\n".join(f"{k} = [{v}]" for k, v in synthetic.BEST.items())
    fast = synthetic.SOURCE.replace(
        "TILE = [64, 16, 32, 128, 256, 512]\nUNROLL = [1, 2, 4, 8, 16]\nWIDTH = [4, 1, 2, 8]", best
    )
    additions = {"plain.cpp": "", "broken.cpp": "#error\n", "same.cpp": "", "crash.cpp": "// crash\n"}
    texts = {name: synthetic.SOURCE + addition for name, addition in additions.items()}
    found = several(tmp_path, texts | {"fast.cpp": fast})
    assert [Path(a.path).name for a in found.kernels] == [*texts, "fast.cpp", "missing.cpp"]
    statuses = [a.result.status if a.result else a.problem for a in found.kernels]
    assert statuses[:5] == ["ok", "compile_error", "ok", "crashed", "ok"]
    assert "missing.cpp cannot be read" in statuses[5]
    assert found.kernels[0].result == found.kernels[2].result
    assert "3 failed" in found.summary
    assert "The fastest is fast.cpp" in found.summary
    with Archive(default_path()) as archive:
        rows = archive.measurements()
    assert [r.state for r in rows] == ["done"] * 3
    numbers = {a.result.measurement_id for a in found.kernels if a.result}
    assert numbers == {None, *(r.id for r in rows)}


def test_one_kernel_is_timed_against_another(tmp_path: Path) -> None:
    other = tmp_path / "other.cpp"
    other.write_text(synthetic.SOURCE)
    anchor = candidates.load(other)
    request = MeasureRequest(task="softmax", kernel=Kernel(source=synthetic.SOURCE), against=Kernel(path=str(other)))
    found = measure_kernel(request, executors=Synthetic())
    assert found.anchor == anchor.sha256
    assert f"over kernel {anchor.short}" in found.summary
    many = several(tmp_path, {"crash.cpp": synthetic.SOURCE + "// crash\n"}, against="other.cpp")
    assert [a.result.anchor for a in many.kernels if a.result] == [anchor.sha256]
    with Archive(default_path()) as archive:
        assert [r.anchor for r in archive.measurements()] == [anchor.sha256] * 2
        assert archive.recorded() == []


def test_a_kernel_to_measure_against_must_be_of_use(tmp_path: Path) -> None:
    broken = Kernel(source=synthetic.SOURCE + "#error\n")
    request = MeasureRequest(task="softmax", kernel=Kernel(source=synthetic.SOURCE), against=broken)
    with pytest.raises(CandidateError, match="to measure against does not compile"):
        measure_kernel(request, executors=Synthetic())
    place = Place(device="replay", pool=str(tmp_path))
    with pytest.raises(UsageError, match="against the reference only"):
        measure_kernel(request.model_copy(update={"place": place}))
    with Archive(default_path()) as archive:
        assert archive.measurements() == []


def test_replayed_numbers_are_labelled(tmp_path_factory: pytest.TempPathFactory) -> None:
    recorded = record(tmp_path_factory.mktemp("pool"), every=200)
    place = Place(device="replay", pool=recorded.pool)
    found = measure_kernel(MeasureRequest(task=recorded.task, kernel=Kernel(path=recorded.seed), place=place))
    assert found.source == "replay"
    assert "replay" in found.summary
    other = Kernel(path=recorded.seed, tunables={"TILE": 16, "UNROLL": 2, "WIDTH": 1})
    with pytest.raises(UsageError, match="does not hold kernel"):
        measure_kernel(MeasureRequest(task=recorded.task, kernel=other, place=place))
    with pytest.raises(TaskError, match="no measurement of softmax"):
        measure_kernel(MeasureRequest(task="softmax", kernel=Kernel(path=recorded.seed), place=place))


def test_a_kernel_for_another_device_is_refused() -> None:
    with pytest.raises(CandidateError, match="does not run on"):
        measure(
            '"""forewarp\ninputs=["x"]\noutputs=["y"]\n[[launch]]\nkernel="k"\nargs=[]\ngrid=[1]\n"""\n'
            "# triton: @triton.jit"
        )


TRITON_MODULE = """import torch, triton
@triton.jit
def k(x):
    pass
class ModelNew(torch.nn.Module):
    def forward(self, x):
        k[(1,)](x)
        return x
"""


def test_a_module_of_triton_kernels_is_refused_on_a_cpu_and_not_recorded(tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text(TRITON_MODULE)
    kernel, size = Kernel(path=str(tmp_path / "k.py")), {"ROWS": 8, "COLS": 8}
    place = Place(device="cpu")
    with pytest.raises(DeviceError, match=r"cannot run on .* launches Triton kernels, which need a GPU") as error:
        measure_kernel(MeasureRequest(task="softmax", kernel=kernel, place=place, size=size))
    assert "--target" in error.value.hint
    many = measure_kernels(MeasureManyRequest(task="softmax", kernels=[kernel], place=place, size=size))
    assert (many.kernels[0].result, "need a GPU" in many.kernels[0].problem) == (None, True)
    with Archive(default_path()) as archive:
        assert {row.state for row in archive.measurements()} == {"started"}


def test_the_interval_of_a_median_holds_it_95_times_in_100() -> None:
    rng = random.Random(1)
    held = 0
    for _ in range(1000):
        found = median_interval([rng.expovariate(1.0) for _ in range(15)])
        assert found is not None
        held += found[0] <= 0.693147 <= found[1]
    assert 945 <= held <= 990
    assert median_interval([1.0] * 5) is None
