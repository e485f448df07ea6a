"""The modules under `benchmarks/modules` belong together: problems, kernels, twins."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

MODULES = Path(__file__).parents[1] / "benchmarks" / "modules"
plant = SimpleNamespace(**runpy.run_path(str(MODULES / "plant.py")))


def test_each_operation_has_a_problem_and_kernels():
    operations = {p.name for p in (MODULES / "kernels").iterdir()}
    assert operations == {p.stem for p in (MODULES / "problems").glob("*.py")}
    kernels = list((MODULES / "kernels").glob("*/*.py"))
    assert len(kernels) >= 96
    assert all("class ModelNew" in p.read_text() for p in kernels)


@pytest.mark.parametrize("folder", ["planted", "short"])
def test_twins_differ_in_the_marked_line_only(folder: str):
    pairs = plant.pairs(folder)
    share = plant.SHARES[folder]
    assert len(pairs) >= 10
    for problem, module, twin in pairs:
        assert problem.is_file()
        lines = zip(module.read_text().splitlines(), twin.splitlines(), strict=True)
        ((old, new),) = [(old, new) for old, new in lines if old != new]
        assert new == old.replace("EXTRA = 0.0 ", f"EXTRA = {share} "), module


def test_a_module_without_the_marked_line_has_no_twin():
    with pytest.raises(ValueError, match="0 lines"):
        plant.plant("EXTRA = 0.0\n", 0.03)


def test_listed_problems_are_distinct():
    listed = json.loads((MODULES / "kernelbench_problems.json").read_text())["problems"]
    assert len(set(listed)) == len(listed) == 72
