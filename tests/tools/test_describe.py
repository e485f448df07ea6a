"""What a face can tell before anything is asked."""

from __future__ import annotations

from forewarp.gpu_runner.worker.check import DEFAULTS
from forewarp.tools import describe
from forewarp.tools.parts import Place


def test_the_tolerances_told_are_those_of_the_check() -> None:
    for dtype, tolerance in DEFAULTS.items():
        name = str(dtype).removeprefix("torch.")
        assert f"{tolerance.rtol:g} + {tolerance.atol:g} for {name}" in describe.tolerance(None)


def test_a_processor_comes_with_what_its_kernels_are_compiled_by() -> None:
    found = describe.device_of(Place(device="cpu"))
    assert "-march=native" in (found.compiler or "")
    assert found.instruction_sets is not None
    assert set(found.instruction_sets) <= set(describe.VECTOR_SETS)
