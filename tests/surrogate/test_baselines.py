import pytest
from contracts.forecaster_contract import TARGET, TASK, ForecasterContract, failed, measured, subject

from forewarp.core.protocols import Forecaster
from forewarp.surrogate import baselines


class TestUniform(ForecasterContract):
    @pytest.fixture
    def forecaster(self) -> Forecaster:
        return baselines.uniform()


class TestClimatology(ForecasterContract):
    @pytest.fixture
    def forecaster(self) -> Forecaster:
        return baselines.climatology([measured(1.2), measured(3.0), failed()])


def test_climatology_counts_with_half_a_count_more():
    # Bins 4, 4, 6 and one failure: (2.5, 1.5, six halves)/7 over the bins, (3 + ½)/(4 + 1) valid.
    found = baselines.climatology([measured(1.2), measured(1.3), measured(3.0), failed()])
    said = found.forecast(TASK, TARGET, [subject()], [])[0]
    assert said.probabilities == pytest.approx([p / 7 for p in (0.5, 0.5, 0.5, 0.5, 2.5, 0.5, 1.5, 0.5)])
    assert said.p_valid == pytest.approx(0.7)


def test_nothing_measured_is_uniform():
    said = baselines.climatology([]).forecast(TASK, TARGET, [subject()], [])[0]
    assert said.probabilities == pytest.approx([1 / 8] * 8)
    assert said.p_valid == 0.5
