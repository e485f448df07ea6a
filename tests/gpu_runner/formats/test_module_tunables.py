"""Tunables of Python modules: constants at their top level."""

from __future__ import annotations

import ast

import pytest

from forewarp.core.errors import CandidateError
from forewarp.core.values import Candidate
from forewarp.gpu_runner.formats import candidate as candidates

MODULE = (
    '"""forewarp\n[tunables]\nBLOCK = [64, 128]\nÄ = [-1, 2]\n"""\nBLOCK = 64; Ä = -1\nclass ModelNew: ...\n'.replace(
        "Ä", "A"
    )
)


def test_a_module_runs_with_the_chosen_values_as_its_constants() -> None:
    candidate = candidates.from_source(MODULE, "python", {"BLOCK": 128, "A": 2})
    run = candidates.with_chosen(candidate)
    assert "\nBLOCK = 128; A = 2\n" in run.source
    assert run.tunables == {}
    assert ast.parse(run.source)
    plain = Candidate("class ModelNew: ...\n", "python")
    assert candidates.with_chosen(plain) is plain


def test_the_first_assignment_counts_also_beside_letters_of_several_bytes() -> None:
    source = MODULE.replace("BLOCK = 64;", "s = 'äöü'; BLOCK = 64;") + "BLOCK = 7\n"
    run = candidates.with_chosen(candidates.from_source(source, "python", {"BLOCK": 128, "A": -1}))
    assert "s = 'äöü'; BLOCK = 128; A = -1\n" in run.source
    assert run.source.endswith("BLOCK = 7\n")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (MODULE.replace("BLOCK = 64; ", ""), "no constant BLOCK"),
        (MODULE.replace("BLOCK = 64;", "BLOCK = 64.0;"), "no constant BLOCK"),
        (MODULE.replace("class", "("), "no Python"),
        (MODULE.replace("[tunables]", 'inputs = ["x"]\n[tunables]'), "unknown keys"),
    ],
)
def test_a_module_whose_tunables_are_no_constants_is_malformed(source: str, message: str) -> None:
    with pytest.raises(CandidateError, match=message):
        candidates.from_source(source, "python")


def test_an_unknown_choice_is_refused() -> None:
    with pytest.raises(CandidateError):
        candidates.from_source(MODULE, "python", {"TILE": 1})
