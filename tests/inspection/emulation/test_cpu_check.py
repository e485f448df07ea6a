"""Cases of one workload, put together."""

from __future__ import annotations

import pytest

from forewarp.core.checking import CheckedWorkload, CheckStatus, Finding
from forewarp.inspection.emulation.check import WorkloadJudgement, merged


def judged(
    status: CheckStatus, message: str = "", error: float = 0.0, slow: float = 0.0, *found: Finding
) -> WorkloadJudgement:
    return WorkloadJudgement(status, CheckedWorkload("w", {}, 1, 1, error, message), found, slow)


@pytest.mark.parametrize(
    ("status", "slow", "counts"),
    [
        ("failed", 0.0, True),
        ("failed", 16.0, True),
        ("incorrect", 0.0, True),
        ("unsupported", 0.0, True),
        ("unsupported", 9.0, False),
    ],
)
def test_a_later_case_that_fails_is_named_and_one_that_is_merely_slow_is_not(
    status: CheckStatus, slow: float, counts: bool
) -> None:
    both = judged("ok").with_case(judged(status, "no", slow=slow), "zeros")
    assert (both.status, both.workload.message) == ((status, "zeros: no") if counts else ("ok", ""))


def test_errors_and_findings_of_all_cases_count() -> None:
    race = Finding("race", "k, line 3", "first", 2)
    both = judged("ok", "", 0.1, 0.0, race).with_case(judged("ok", "", 0.4, 0.0, race), "zeros")
    assert both.workload.error == 0.4
    assert merged(both.findings) == (Finding("race", "k, line 3", "first", 4),)
