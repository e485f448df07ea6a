"""Files of Triton kernels without a task: real compilers, real processes, no GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("triton")

from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.inspection.tracing.files.job import GUESSED
from forewarp.inspection.tracing.values import SourceFile, Trace

HEAD = "import torch, triton, triton.language as tl\n"
SCALE = """
@triton.jit
def scale(x_ptr, y_ptr, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * factor, mask=i < n)
"""
WRAPPER = """
def scaled(x, factor: float):
    y = torch.empty_like(x)
    scale[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), factor, BLOCK=1024)
    return y
"""
GRADIENT = """
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return scaled(x, 2.0)

    @staticmethod
    def backward(ctx, dy):
        dx = torch.empty_like(dy)
        scale[(7,)](dy, dx, dy.numel(), 2.0, BLOCK=128)
        return dx
"""
BROKEN = """
@triton.jit
def broken(x_ptr):
    tl.store(x_ptr, no_such_name)
"""


def traced(executor: LocalExecutor, source: str, **about: object) -> Trace:
    return executor.trace_file(SourceFile(HEAD + source, **about))  # type: ignore[arg-type]


def origins(trace: Trace) -> dict[str, str]:
    return {k.name: k.origin for k in trace.kernels}


@pytest.mark.slow
def test_a_kernel_that_nothing_calls_is_compiled_for_guessed_arguments(h200_executor: LocalExecutor) -> None:
    trace = traced(h200_executor, SCALE)
    (launch,) = trace.workloads[GUESSED].launches
    assert origins(trace) == {"scale": GUESSED}
    assert (launch.kernel, launch.grid, launch.block) == ("scale", None, (128, 1, 1))
    assert traced(h200_executor, SCALE).cached


def test_one_kernel_that_fails_takes_no_other_along(h200_executor: LocalExecutor) -> None:
    trace = traced(h200_executor, f"import no_such_package\n{BROKEN}{SCALE}")
    broken, scale = trace.kernels
    assert (broken.origin, scale.origin, scale.reason) == ("", GUESSED, "")
    assert "NameError('no_such_name is not defined')" in broken.reason
    assert "No module named 'no_such_package'" in trace.workloads["import"].problems[0]


@pytest.mark.slow
def test_what_the_file_itself_calls_comes_first(h200_executor: LocalExecutor) -> None:
    source = f"{SCALE}{WRAPPER}\nscaled(torch.ones(4096, device='cuda'), 2.0)\n"
    assert traced(h200_executor, source).workloads["import"].launches[0].grid == (4, 1, 1)
    main = f"{SCALE}{WRAPPER}\nif __name__ == '__main__':\n    scaled(torch.ones(2048, device='cuda'), 2.0)\n"
    assert traced(h200_executor, main).workloads["__main__"].launches[0].grid == (2, 1, 1)
    test = f"{SCALE}{WRAPPER}\ndef test_scaled(n=1024):\n    assert scaled(torch.ones(n).cuda(), 2.0).sum() == 1\n"
    assert traced(h200_executor, test).workloads["test_scaled()"].launches[0].grid == (1, 1, 1)


@pytest.mark.slow
def test_arguments_of_a_wrapper_are_guessed_or_given(h200_executor: LocalExecutor) -> None:
    guessed = traced(h200_executor, SCALE + WRAPPER)
    assert origins(guessed) == {"scale": "scaled(x=float32[1024,1024], factor=0.5)"}
    given = traced(h200_executor, SCALE + WRAPPER, call="scaled", arguments="x=float16[3,1024], factor=2.0")
    (launch,) = given.workloads["scaled(x=float16[3,1024], factor=2.0)"].launches
    assert (launch.grid, launch.bytes) == ((3, 1, 1), 12288)
    missing = traced(h200_executor, SCALE + WRAPPER, call="scald")
    assert "scald is no function or class of the file" in missing.workloads["scald"].problems[0]


@pytest.mark.slow
def test_a_gradient_is_traced_where_an_autograd_function_makes_the_output(h200_executor: LocalExecutor) -> None:
    (found,) = (
        w for w in traced(h200_executor, SCALE + WRAPPER + GRADIENT, call="Scaled").workloads.values() if w.backward
    )
    assert ([e.grid for e in found.launches], [e.grid for e in found.backward]) == ([(1024, 1, 1)], [(7, 1, 1)])
    without = traced(h200_executor, SCALE + WRAPPER + GRADIENT, call="Scaled", backward=False)
    assert not any(w.backward for w in without.workloads.values())


@pytest.mark.slow
def test_a_file_of_a_package_is_imported_as_such(h200_executor: LocalExecutor, tmp_path: Path) -> None:
    folder = tmp_path / "kernels_of_mine" / "ops"
    folder.mkdir(parents=True)
    for place in (folder, folder.parent):
        (place / "__init__.py").write_text("")
    (folder / "common.py").write_text("FACTOR = 3.0\n")
    source = f"from ..ops.common import FACTOR\n{SCALE}{WRAPPER}\ndef thrice(x):\n    return scaled(x, FACTOR)\n"
    path = folder / "thrice.py"
    path.write_text(HEAD + source)
    trace = traced(h200_executor, source, path=str(path))
    assert origins(trace) == {"scale": "thrice(x=float32[1024,1024])"}


@pytest.mark.slow
def test_a_decorator_that_is_missing_costs_no_kernel(h200_executor: LocalExecutor) -> None:
    trace = traced(h200_executor, SCALE.replace("@triton.jit", "@cached()\n@triton.jit"))
    assert origins(trace) == {"scale": GUESSED}
    assert "taken without its first decorator" in trace.workloads["import"].problems[0]


def test_text_that_is_no_python_is_a_problem(h200_executor: LocalExecutor) -> None:
    assert "SyntaxError" in traced(h200_executor, "def (").workloads["import"].problems[0]


@pytest.mark.slow
def test_what_was_tried_in_vain_is_said_where_nothing_came_of_a_file(h200_executor: LocalExecutor) -> None:
    helper = "@triton.jit\ndef helper(x):\n    return x\n\ndef use(x):\n    raise ValueError(f'no {helper}')\n"
    trace = traced(h200_executor, helper)
    assert not any(w.launches for w in trace.workloads.values())
    assert "ValueError" in "\n".join(trace.workloads["import"].problems)
