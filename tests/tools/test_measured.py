from __future__ import annotations

from dataclasses import replace

import pytest
from support import synthetic_executor as synthetic
from support.full_measurement import BLOCKS, full_measurement

from forewarp.core.values import Build, Comparison, Measurement, Verdict
from forewarp.tools.measured import MeasureResult, result_of, workload_result

KERNEL = synthetic.seed()


def shown(m: Measurement) -> MeasureResult:
    return result_of("toy", synthetic.TARGET, KERNEL, Build("ok", 0.1), m, 7)


def test_every_shape_says_how_far_to_trust_it() -> None:
    found = shown(full_measurement())
    assert next(iter(MeasureResult.model_fields)) == "summary"
    assert len(found.workloads) == 4
    for w in found.workloads:
        assert (w.verdict, w.mode, w.blocks, w.blocks_left_out, w.stopped_early) == (
            "faster",
            "graph",
            BLOCKS,
            0,
            False,
        )
        assert w.control is not None
        assert w.noise_percent == pytest.approx(100 * (1 / 0.99 - 1))
        assert (w.warm and w.warm.ratio, w.launched and w.launched.ratio) == (1.4, 1.1)
        assert w.cycles is not None
        assert w.candidate_mhz in (1965.0, 1972.5, 1980.0)
    assert found.checks == ["fresh inputs", "bit-identical when repeated"]
    assert found.flags == ["candidate's clock differs"]
    state = found.device_state
    assert state is not None
    assert (state.temperature_c, state.temperature_before_c, state.sm_mhz) == (61.0, 52.0, 1980.0)
    assert (state.slowed_by, state.other_processes) == (["power cap"], 1)


def test_no_raw_samples_are_shown() -> None:
    text = shown(full_measurement()).model_dump_json()
    assert len(text) < 6000
    assert "candidate_s" not in text


def test_what_is_not_known_is_not_shown() -> None:
    bare = replace(full_measurement(), conditions={"round_trip_s": 2e-5}, workloads=())
    state = shown(bare).device_state
    assert state is not None
    assert (state.slowed_by, state.temperature_c, state.round_trip_us) == (None, None, pytest.approx(20.0))
    assert shown(replace(bare, conditions={})).device_state is None


def test_blocks_that_were_spared_or_left_out_are_counted() -> None:
    whole = full_measurement().workloads[0]
    early = replace(whole, candidate_s=whole.candidate_s[:50], log_ratios=whole.log_ratios[:23])
    found = workload_result(early)
    assert (found.blocks, found.blocks_left_out, found.stopped_early) == (23, 2, True)
    assert not workload_result(replace(early, looks=1)).stopped_early


def test_the_noise_floor_is_the_far_end_of_the_control() -> None:
    timing = replace(full_measurement().workloads[0], control=Comparison(1.0, 0.998, 1.03, 1.0, 1.0))
    assert workload_result(timing).noise_percent == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("verdict", "says", "trusted"),
    [
        ("faster", "keep it", True),
        ("slower", "no gain", True),
        ("ambiguous", "measure again", True),
        ("inconclusive", "the wider interval that decides, [1.25, 1.25], lies neither all above 1.01 nor", True),
        ("suspicious", "do not trust", False),
        ("impossible", "do not trust", False),
    ],
)
def test_the_summary_says_what_to_do(verdict: Verdict, says: str, trusted: bool) -> None:
    found = shown(full_measurement(verdict))
    assert says in found.summary
    assert "reference of toy" in found.summary
    assert found.trusted is trusted


def test_the_summary_names_the_other_kernel() -> None:
    found = shown(replace(full_measurement("slower"), anchor="ab" * 32))
    assert "kernel ababababab on toy" in found.summary
    assert "Slower than the other kernel" in found.summary


@pytest.mark.parametrize(("high", "trusted"), [(1.4, True), (2.5, False)])
def test_a_number_is_not_trusted_where_equal_kernels_come_out_far_apart(high: float, trusted: bool) -> None:
    whole = full_measurement()
    loud = replace(whole.workloads[-1], control=Comparison(1.0, 0.9, high, 1.0, 1.0))
    found = shown(replace(whole, workloads=(*whole.workloads[:-1], loud)))
    assert found.trusted is trusted
    assert ("equal kernels came out up to 150 % apart" in found.summary) is not trusted
