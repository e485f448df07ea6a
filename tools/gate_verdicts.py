"""Verdicts of the gate: on machine code and forecasts, on times of another card or day, and on paired rounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, stdev
from typing import Final, Literal

from forewarp.tools.gate_lock import LockedForecast, LockedLaunch, LockedMeasurement
from forewarp.tools.wording import NOTICED

GateVerdict = Literal[
    "same", "faster", "slower", "likely slower", "wrong", "does not compile", "too noisy", "not compared"
]
WORSE: Final = ("slower", "likely slower", "wrong", "does not compile")
"""Verdicts that the gate does not let through."""
OPEN: Final = ("too noisy", "not compared")
"""Verdicts that say nothing of the kernel."""
ALARM_ERROR: Final = 0.05
"""Chance that any shape is called slower, or faster, whose median round differs by the threshold at most."""
ROUNDS: Final = (2, 3, 5, 8, 10, 12, 15, 19)
"""Numbers of rounds after which a shape may be called the same."""
ALARM_ROUNDS: Final = ROUNDS[3:]
"""Those after which it may be called slower or faster: of fewer rounds, all lie to one side too often by chance."""
_FIRST_LOOK: Final = 0.4
"""Share of `ALARM_ERROR` that `same` may err by after the first two rounds, which tell little of the noise."""
CARD_SPREAD: Final = 0.0442
"""Distance (log-ratio) within which 95 % of the shapes came out again on another GPU of the same kind, or another day.

From `benchmarks/results/repeat_agreement.json`: 350 shapes of 175 kernels, speed-ups over the reference.
"""
REGISTER_STEP: Final = 8
"""Registers are given to a thread in units of this many; fewer more cost nothing."""
_ROUNDED: Final = 1e-6
_Z95: Final = 1.96
"""Half-width of a normal's central 95 % interval, in standard deviations."""


@dataclass(frozen=True, slots=True)
class PairedRatio:
    """New time / old time of one shape with its 95 % interval; `verdict` is None while it is open."""

    ratio: float
    low: float
    high: float
    verdict: Literal["same", "faster", "slower"] | None


def judge(log_ratios: Sequence[float], threshold: float, tests: int) -> PairedRatio:
    """Judge one of `tests` shapes by one log-ratio (new / old) a round; each round has new processes of both sides.

    `slower` and `faster` are said where the mean lies beyond the threshold, and so many rounds do that a sign test
    rejects a median within it, whatever the noise, at a level that leaves `ALARM_ERROR` for all tests (Bonferroni) and
    all of `ALARM_ROUNDS` together (`_most_by_chance`). `same` is said where Student's interval over the rounds lies
    within the threshold, at a level for this shape's looks alone (Bonferroni): each `same` stands for its own kernel.
    Between looks, nothing is decided. Raises ValueError below two rounds.
    """
    n = len(log_ratios)
    centre, shown = fmean(log_ratios), _student(log_ratios, 0.025)
    margin, verdict = math.log1p(threshold), None
    beyond = sum((ratio if centre > 0 else -ratio) > margin for ratio in log_ratios)
    if n in ALARM_ROUNDS and abs(centre) > margin and beyond > _most_by_chance(tests)[n]:
        verdict = "slower" if centre > 0 else "faster"
    elif n in ROUNDS and decided_within(log_ratios) <= threshold:
        verdict = "same"
    return PairedRatio(math.exp(centre), math.exp(centre - shown), math.exp(centre + shown), verdict)


def first_verdict(log_ratios: Sequence[float], threshold: float, tests: int) -> PairedRatio:
    """Judge a shape at each look that was reached, and return the first verdict; without one, all rounds' ratio."""
    for n in ROUNDS:
        if n <= len(log_ratios) and (found := judge(log_ratios[:n], threshold, tests)).verdict is not None:
            return found
    return judge(log_ratios, threshold, tests)


def decided_within(log_ratios: Sequence[float]) -> float:
    """Return the least threshold at which the last look at a shape's rounds says `same`, at the error rate of `judge`.

    It needs no correction for having been chosen afterwards: it is where the interval of that look ends.
    """
    n = max(n for n in ROUNDS if n <= len(log_ratios))
    at_look = log_ratios[:n]
    share = _FIRST_LOOK if n == ROUNDS[0] else (1 - _FIRST_LOOK) / (len(ROUNDS) - 1)
    return math.expm1(abs(fmean(at_look)) + _student(at_look, ALARM_ERROR * share))


def _student(values: Sequence[float], p: float) -> float:
    """Return half the width of Student's interval for the mean; `p` is the chance that it is missed on one side."""
    n = len(values)
    return stdev(values) / math.sqrt(n) * _quantile(1 - p, n - 1)


@cache
def _most_by_chance(tests: int) -> Mapping[int, int]:
    """Return for each of `ALARM_ROUNDS` how many rounds may lie beyond the threshold without an alarm.

    It is exact for a median at the threshold: the chance that any look finds more is that of a walk of fair coins, of
    which each look may spend its share of one test's level, and what earlier ones have left.
    """
    most: dict[int, int] = {}
    chances, spent = [1.0], 0.0  # of each number beyond, while no look has found more than its `most`
    for number, n in enumerate(ALARM_ROUNDS, 1):
        while len(chances) <= n:
            chances = [(a + b) / 2 for a, b in zip([*chances, 0.0], [0.0, *chances], strict=True)]
        most[n] = n
        while spent + chances[most[n]] <= ALARM_ERROR / tests * number / len(ALARM_ROUNDS):
            spent += chances[most[n]]
            chances[most[n]] = 0.0
            most[n] -= 1
    return most


@cache
def _quantile(p: float, freedom: int) -> float:
    """Return Student's t quantile, for levels and degrees of freedom for which `statistics.student_quantile` is not."""
    from scipy.stats import t as student  # slow to import, and a check against the lock needs none

    return float(student.ppf(p, freedom))


def signs_of_slower(before: Sequence[LockedLaunch], after: Sequence[LockedLaunch]) -> list[str]:
    """Say what of the machine code is likely to cost time; empty where the launches are others altogether."""
    found: list[str] = []
    for old, new in _pairs(before, after):
        if new.local_bytes > old.local_bytes:
            found.append(f"{_named(new)} spills: {old.local_bytes} → {new.local_bytes} bytes of local memory a thread")
        if _steps(new.registers) > _steps(old.registers):
            found.append(f"{_named(new)} takes more registers: {old.registers} → {new.registers}")
        if old.occupancy is not None and new.occupancy is not None and new.occupancy < old.occupancy - _ROUNDED:
            found.append(f"{_named(new)} has less occupancy: {old.occupancy:.0%} → {new.occupancy:.0%}")
    return found


def differences(before: Sequence[LockedLaunch], after: Sequence[LockedLaunch]) -> list[str]:
    """Say all that differs in the machine code."""
    if not _pairs(before, after) and (before or after):
        return [
            f"other launches: {', '.join(map(_named, before)) or 'none'} → {', '.join(map(_named, after)) or 'none'}"
        ]
    found: list[str] = []
    for old, new in _pairs(before, after):
        parts = [
            f"{what} {was} → {now}"
            for what, was, now in (
                ("registers", old.registers, new.registers),
                ("local memory", old.local_bytes, new.local_bytes),
                ("shared memory", old.shared_bytes, new.shared_bytes),
                ("occupancy", old.occupancy, new.occupancy),
                ("instructions", sum(old.instructions.values()), sum(new.instructions.values())),
            )
            if was != now
        ]
        if not parts and old.instructions != new.instructions:
            parts = ["other instructions"]
        if parts:
            found.append(f"{_named(new)}: {', '.join(parts)}")
    return found


def forecast_sign(before: LockedForecast | None, after: LockedForecast | None, threshold: float) -> str:
    """Say that the forecast has fallen by more than the threshold; "" where not, or another forewarp made it."""
    if before is None or after is None or before.forewarp != after.forewarp:
        return ""
    fallen = before.median.ratio / after.median.ratio > 1 + threshold
    return f"the forecast has fallen: {before.median.ratio:.3g}× → {after.median.ratio:.3g}×" if fallen else ""


def times_sign(before: LockedMeasurement, after: LockedMeasurement, threshold: float) -> str:
    """Say which shapes are slower than locked, beyond what another card of the kind or another day explains.

    Whole intervals of the speed-up over the anchor must be apart by the threshold and `CARD_SPREAD`, or by what equal
    kernels differ from session to session where that is more, as that of modules on a CPU is.
    """
    slower: list[str] = []
    for old in before.shapes:
        for new in (s for s in after.shapes if s.name == old.name):
            spread = max(CARD_SPREAD, _Z95 * math.hypot(old.session_sd, new.session_sd))
            if math.log(old.speedup.low / new.speedup.high) > math.log1p(threshold) + spread:
                slower.append(f"{old.name}: {old.speedup} → {new.speedup}")
    return f"the speed-up has fallen since {before.date[:10]}, {'; '.join(slower)}" if slower else ""


def disturbed_words(before: LockedMeasurement, after: LockedMeasurement) -> str:
    """Say that other work kept processors busy, which slows kernel and reference unlike; "" where it did not."""
    busy = [f"{m.other_processors or 0:.1f} {when}" for m, when in ((before, "then"), (after, "now"))]
    if max(before.other_processors or 0, after.other_processors or 0) < NOTICED:
        return ""
    return f"; but processors were busy with something else ({', '.join(busy)}), so lock and check on a quiet machine"


def _pairs(before: Sequence[LockedLaunch], after: Sequence[LockedLaunch]) -> list[tuple[LockedLaunch, LockedLaunch]]:
    """Return launches that belong together; none where their order or number is another."""
    names = [[(launch.workload, launch.kernel) for launch in launches] for launches in (before, after)]
    return list(zip(before, after, strict=True)) if names[0] == names[1] else []


def _named(launch: LockedLaunch) -> str:
    return f"{launch.kernel} ({launch.workload})" if launch.workload else launch.kernel


def _steps(registers: int) -> int:
    return -(-registers // REGISTER_STEP)
