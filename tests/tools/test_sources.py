"""Hostile sources are refused at once and by name; what people write passes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from forewarp.core.errors import CandidateError, TaskError
from forewarp.tools import session as sessions
from forewarp.tools import sources
from forewarp.tools.forecast_kernel import ForecastRequest, forecast_kernel
from forewarp.tools.parts import Kernel, Place

TASKS = Path(sessions.__file__).parents[1] / "tasks"
MODULE = "class ModelNew:\n    def forward(self, x):\n        return "


def test_every_bundled_kernel_passes() -> None:
    seeds = [p for p in TASKS.glob("*/seeds/*") if p.suffix in (".cpp", ".cu", ".py")]
    assert len(seeds) > 10
    for seed in seeds:
        sources.check_depth(seed.read_text())


@pytest.mark.parametrize("expression", ["+".join(["x"] * 40_000), "-" * 90_000 + "x", "x" + ".a" * 90_000])
def test_deep_python_is_the_candidates_fault(expression: str) -> None:
    with pytest.raises(CandidateError, match="levels deep"):
        sessions.choose_candidate(Kernel(source=MODULE + expression + "\n", language="python"))


def test_python_of_some_depth_passes() -> None:
    sources.check_depth("x = " + "+".join(["x"] * 250))


def test_a_launch_plan_that_nests_deeply_is_the_candidates_fault() -> None:
    plan = "x = " + "[" * 20_000 + "]" * 20_000
    with pytest.raises(CandidateError):
        sessions.choose_candidate(Kernel(source=f'/*forewarp\n{plan}\n*/\nextern "C" void f() {{}}\n', language="cpp"))


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def sparse(path: Path) -> Path:
    with path.open("wb") as file:
        file.truncate(1 << 40)
    return path


Made = Callable[[Path], Path]


@pytest.mark.parametrize(
    ("made", "says"), [(pipe, "no regular file"), (sparse, "at most"), (lambda _: Path("/dev/zero"), "no regular file")]
)
def test_only_regular_files_of_limited_size_are_read(tmp_path: Path, made: Made, says: str) -> None:
    path = made(tmp_path / "kernel.cpp")
    with pytest.raises(CandidateError, match=says):
        sessions.choose_candidate(Kernel(path=str(path)))
    with pytest.raises(TaskError, match=says):
        sessions.load_task(str(path), Place(device="cpu"))
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "task.toml").write_text("")
    made(tmp_path / "task" / "reference.py")
    if path.parent == tmp_path:
        with pytest.raises(TaskError, match=says):
            sessions.load_task(str(tmp_path / "task"), Place(device="cpu"))


def test_a_plan_beside_a_kernel_is_looked_at_first(tmp_path: Path) -> None:
    (tmp_path / "kernel.cpp").write_text('extern "C" void f() {}')
    pipe(tmp_path / "kernel.toml")
    with pytest.raises(CandidateError, match="no regular file"):
        sessions.choose_candidate(Kernel(path=str(tmp_path / "kernel.cpp")))


def test_a_deep_reference_is_the_tasks_fault(tmp_path: Path) -> None:
    names = "class Model: pass\ndef get_inputs(): pass\ndef get_init_inputs(): pass\n"
    for expression in ("-" * 90_000 + "x", "+".join(["x"] * 3_000)):
        (tmp_path / "task.py").write_text(f"{names}y = {expression}\n")
        with pytest.raises(TaskError, match="deep"):
            sessions.load_task(str(tmp_path / "task.py"), Place(device="cpu"))


TEMPLATES = """
template<int N, int M> struct F { static constexpr long v = F<N - 1, 2 * M>::v + F<N - 1, 2 * M + 1>::v; };
template<int M> struct F<0, M> { static constexpr long v = M; };
"""
BOMBS = {
    # Each level reads the file twice: nothing that is counted beforehand.
    "includes.cpp": "\n#if __INCLUDE_LEVEL__ < 60\n#include __FILE__\n#include __FILE__\n#endif\n",
    "templates.cpp": f"{TEMPLATES}long bomb = F<28, 1>::v;\n",
    "templates.cu": f"{TEMPLATES}__device__ long bomb = F<28, 1>::v;\n",
    "import.py": "\nwhile True:\n    pass\n",
}


@pytest.mark.parametrize(
    "name", ["includes.cpp", *(pytest.param(n, marks=pytest.mark.slow) for n in BOMBS if n != "includes.cpp")]
)
@pytest.mark.slow
def test_a_source_that_takes_all_of_a_forecasts_time_is_to_blame(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forewarp.tools.forecast_kernel.COMPILE_CPU_S", 2)
    if not name.endswith("cpp"):
        pytest.importorskip("triton")
    suffix = Path(name).suffix
    seed = (TASKS / "softmax" / "seeds" / f"softmax{suffix}").read_text()
    kernel = Kernel(source=seed + BOMBS[name], language={".cpp": "cpp", ".cu": "cuda", ".py": "triton"}[suffix])
    more = {"place": Place(device="cpu")} if suffix == ".cpp" else {"target": "h200"}
    found = forecast_kernel(ForecastRequest(task="softmax", kernels=[kernel], **more))
    assert (found.status, found.recommendation) == ("timeout", "skip")
    assert "longer than a forecast waits" in found.summary
    assert "It is to blame, not this machine" in found.summary
