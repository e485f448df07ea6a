import math

import numpy as np
import pytest
from contracts.forecaster_contract import TARGET, TASK, source, subject

from forewarp.core.protocols import Subject
from forewarp.core.values import Build, Candidate, Evidence, Target
from forewarp.inspection.features.features import Columns, features, program_of


def test_tunables_are_log2_and_facts_are_generic():
    found = features(TASK, TARGET, subject(64, facts={"registers": 31.0, "never_heard_of": -3.0}))
    assert found["tunable.BLOCK"] == 6.0
    assert found["fact.registers"] == 5.0
    assert found["fact.never_heard_of"] == -2.0


@pytest.mark.parametrize(("low", "high"), [(-4, -1), (-1, 0), (0, 1), (1, 2)])
def test_tunables_keep_their_order_through_zero(low: int, high: int):
    def value(v: int) -> float:
        return features(TASK, TARGET, Subject(Candidate("x", "cpp", {"V": v}), Build("ok", 0.0)))["tunable.V"]

    assert value(low) < value(high)


def test_infinite_and_missing_facts_are_left_out():
    found = features(TASK, TARGET, subject(facts={"waves": math.inf, "occupancy": math.nan}))
    assert not [name for name in found if name.startswith("fact.")]


def test_facts_are_set_against_the_target():
    gpu = Target("g", "cuda", "sm_90", 132, shared_bytes=228 * 1024)
    found = features(TASK, gpu, subject(facts={"blocks": 264.0, "shared_bytes": 57 * 1024.0}))
    assert found["relative.blocks_per_processor"] == 1.0
    assert found["relative.shared_share"] == 0.25


def test_sizes_are_the_mean_over_the_workloads():
    assert features(TASK, TARGET, subject())["size.N"] == pytest.approx((10 + math.log2(1021)) / 2)


def test_program_ignores_tunables_and_comments():
    plain = Candidate(source(), "cpp", {"BLOCK": 16})
    remarked = Candidate(source("/* target 4x */ y[i] = 2 * x[i];"), "cpp", {"BLOCK": 64})
    other = Candidate(source("y[i] = x[i] + x[i];"), "cpp", {"BLOCK": 16})
    assert program_of(plain) == program_of(remarked) != program_of(other)


def test_columns_drop_constants_and_repeats_tunables_first():
    rows = [
        {"fact.twice": 2.0 * v + 1, "tunable.T": float(v), "fact.same": 7.0, "fact.z": (v - 1.0) ** 2} for v in range(4)
    ]
    assert Columns.over(rows).names == ("tunable.T", "fact.z")


def test_matrix_is_standardised_and_missing_is_the_mean():
    rows = [{"a": 1.0}, {"a": 3.0}, {}]
    columns = Columns.over(rows)
    matrix = columns.matrix(rows)
    assert matrix[2, 0] == 0.0
    assert matrix[:2, 0] == pytest.approx([-math.sqrt(1.5), math.sqrt(1.5)])
    assert columns.matrix([{"b": 4.0}]).tolist() == [[0.0]]


def test_no_columns_at_all():
    assert Columns.over([]).names == ()
    assert Columns.over([{}, {}]).matrix([{}]).shape == (1, 0)


def test_missing_language_is_not_that_language():
    rows = [{"language.cpp": 1.0}, {"language.cuda": 1.0}, {"language.cpp": 1.0}]
    columns = Columns.over(rows)
    matrix = columns.matrix(rows)
    assert np.allclose(matrix[0], matrix[2])
    assert not np.allclose(matrix[0], matrix[1])


def test_problems_are_counted():
    noted = Subject(Candidate("x", "cpp"), Build("ok", 0.0, evidence=Evidence({}, ("spills", "tiny grid"))))
    assert features(TASK, TARGET, noted)["problems"] == 2.0


def test_facts_of_single_kernels_are_for_reading_only():
    found = features(TASK, TARGET, subject(facts={"registers": 31.0, "kernel.rows.registers": 31.0}))
    assert [n for n in found if n.startswith("fact.")] == ["fact.registers"]
