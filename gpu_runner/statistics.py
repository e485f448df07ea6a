"""Speed-ups from interleaved samples: block log-ratios, a trimmed mean, its interval, when to stop, and a verdict.

Candidate (A) and anchor (B) alternate in ABBA or BAAB blocks, so that slow drift of clocks cancels within a block. Each
block gives one log-ratio; blocks are the unit of analysis, because samples inside one are not independent. An arm's
two samples in a block are averaged; of native code on a CPU the shorter one counts, because a call that another process
held up, by a tenth or by half, says nothing of the kernel. That holds as long as both arms are held up alike: where one
arm's calls differ more from each other than the other's, they do so by themselves, and all calls count, untrimmed.

The centre is the 20 % trimmed mean. Its interval is Tukey and McLaughlin's t interval (Sankhya A 25, 1963) with one
change: the variance of the winsorised log-ratios is the one that a moving-block bootstrap has (Künsch, Annals of
Statistics 17, 1989), in closed form instead of by resampling, so that neighbouring blocks may resemble each other.
Stretches of resampling are 1.3 √n log-ratios long (Lazarus, Lewis, Stock and Watson, J. Business & Economic Statistics
36, 2018). `benchmarks/statistics_simulation.py` compares this with the percentile bootstraps that cover worse.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Final

import numpy as np

from forewarp.core.values import Comparison, TimingMode, Verdict, WorkloadTiming

LOOKS: Final = (12, 25, 50, 100, 200)
"""Numbers of blocks at which a measurement may stop."""
LEVEL: Final = 0.95
"""Level of every interval that is reported."""
STOPPED_LEVEL: Final = 0.958
"""Nominal level that leaves `LEVEL` after stopping at a look, which favours intervals that came out short.

Set by `benchmarks/statistics_simulation.py`: at 0.95, coverage went down to 92.6 %.
"""
MARGIN: Final = math.log(1.01)
"""Two kernels within ±1 % of each other are a tie."""
MIN_BLOCKS: Final = 4
"""Fewer blocks than this give no interval."""
PRECISE: Final = 0.0025
"""A 95 % interval of this half-width (log-ratio) needs no more samples, whatever it says."""
SLIGHT: Final = 0.6
"""Share of the spread from session to session: a standard error below it would hardly narrow the interval further."""
CLEAR: Final = 0.01
"""A verdict ends a measurement only once the 95 % half-width (log-ratio) is this small."""
HOPELESS: Final = math.log(0.5)
"""A candidate that is surely slower than this speed-up is not worth a precise number."""
SLOW_CLOCK: Final = 0.75
"""Blocks with a sample below this share of the median clock are left out."""
DECISIVE_LEVELS: Final = (0.95, 0.97085, 0.97934, 0.98406, 0.98707, 0.98881)
"""Level of each interval that gives 95 % over one to six looks.

Pocock's constant boundary (Biometrika 64, 1977), solved for the spacing of `LOOKS`: one level for all looks, because a
clear case should end early and the reader should not have to know at which look it did. The sixth is a sighting before
the others.
"""
TRIMMED: Final = 0.2
UNEVEN: Final = 3.0
"""Standard errors by which one arm's calls must differ more from each other than the other's to be called uneven.

Whatever the noise is like, as long as it does not prefer an arm, chance exceeds this with less than 2 exp(-UNEVEN²/2),
2.2 % (Hoeffding's bound for random signs), and usually 0.3 %.
"""
USUAL: Final[Mapping[TimingMode, float]] = {"native": 0.1}
"""Share of `session_sd` that a reported interval allows for, by the way of timing (else all of it).

Sessions of native code mostly differ by little and seldom by much: a verdict must hold in the rare ones as well, an
interval in 95 %. Chosen on 484 measurements, of which the samples alone covered 94.6 % and these intervals 97.3 %; of
1,841 later ones (`benchmarks/results/busy_machine.json`) they covered 96.3 %.
"""
NO_TIME: Final = 1e-9
"""Seconds, or fewer, that stand for a sample from which no time was left once the timer's own part was taken off."""
Z90: Final = 3.2897
"""Width of a normal's central 90 %, in standard deviations."""
CLOCK_DIGIT: Final = 1e-10
"""Times that differ by less than this (seconds) differ by the rounding of floating point only."""
DEFINITE: Final[tuple[Verdict, ...]] = ("faster", "slower", "tie")


@dataclass(frozen=True, slots=True)
class Samples:
    """All that was timed on one workload: seconds in the order taken, two samples of each arm per block.

    `looks` is the number of looks that were planned. `candidate_hz`/`anchor_hz` are the SM clock just before each
    sample (0 where a reading failed). `control_*` is the anchor in both roles, `warm_*` the pair with the L2 cache left
    as it is, `launched_*` with the host's launch included. What was not taken is empty.
    `session_sd` is known from earlier sessions (`WorkloadTiming`).
    """

    workload: str
    candidate_s: tuple[float, ...]
    anchor_s: tuple[float, ...]
    error_ratio: float
    looks: int = 1
    mode: TimingMode = "call"
    candidate_hz: tuple[float, ...] = ()
    anchor_hz: tuple[float, ...] = ()
    control_candidate_s: tuple[float, ...] = ()
    control_anchor_s: tuple[float, ...] = ()
    warm_candidate_s: tuple[float, ...] = ()
    warm_anchor_s: tuple[float, ...] = ()
    launched_candidate_s: tuple[float, ...] = ()
    launched_anchor_s: tuple[float, ...] = ()
    session_sd: float = 0.0


@dataclass(frozen=True, slots=True)
class PairedSamples:
    """Seconds of both arms, two samples of each per block, and how calls were made."""

    candidate_s: Sequence[float]
    anchor_s: Sequence[float]
    mode: TimingMode = "call"

    def blocks(self) -> tuple[np.ndarray, np.ndarray]:
        """Return both arms' seconds, each of shape (blocks, 2); raises ValueError where they are no such blocks."""
        arms = [np.asarray(arm, dtype=float).reshape(-1, 2) for arm in (self.candidate_s, self.anchor_s)]
        if not all((np.isfinite(arm) & (arm > 0)).all() for arm in arms):
            raise ValueError(
                "a sample is not a positive, finite number of seconds; the timer cannot resolve this kernel"
            )
        if arms[0].shape != arms[1].shape:
            raise ValueError(f"the arms differ in shape: {arms[0].shape} and {arms[1].shape}")
        return arms[0], arms[1]

    def uneven(self) -> bool:
        """Return whether one arm's calls differ more from each other than the other's, or too few tell.

        Each block says which arm's two calls are further apart, and by how much; noise gives that a random sign.
        """
        candidate, anchor = (np.abs(np.diff(np.log(arm), axis=1))[:, 0] for arm in self.blocks())
        excess = candidate - anchor
        return len(excess) < LOOKS[0] or abs(float(excess.sum())) > UNEVEN * math.sqrt(float(excess @ excess))

    def all_count(self) -> bool:
        """Return whether every call counts by its time: native code whose calls are uneven."""
        return self.mode == "native" and self.uneven()

    def log_ratios(self) -> np.ndarray:
        """Return log(anchor / candidate) per block; shape (blocks,). Raises ValueError as `blocks` does."""
        candidate, anchor = self.blocks()
        if self.all_count():
            # The log of the quotient of both mean times, and how each block moves it: its error is the delta method's.
            of_all = math.log(anchor.mean() / candidate.mean())
            return of_all + anchor.mean(axis=1) / anchor.mean() - candidate.mean(axis=1) / candidate.mean()
        logs = np.log(anchor), np.log(candidate)
        each = [arm.min(axis=1) if self.mode == "native" else arm.mean(axis=1) for arm in logs]
        return each[0] - each[1]

    def estimate(self) -> _Estimate:
        return _estimate(self.log_ratios(), self.grain(), 0.0 if self.all_count() else TRIMMED)

    def grain(self) -> float:
        """Return the variance that a coarse timer adds to a mean log-ratio and that no number of samples removes.

        The tick is the smallest step between times seen. Noise of a tick averages rounding out; what less noise leaves
        of the rounding error's variance falls off as exp(−(2π noise / tick)²), after its first harmonic. Rounding
        widens the range of the times too, by up to a tick: half of one is taken off before the range stands for the
        noise.
        """
        arms = [np.asarray(arm, dtype=float) for arm in (self.candidate_s, self.anchor_s)]
        steps = np.diff(np.unique(np.round(np.concatenate([[0.0], *arms]) / CLOCK_DIGIT)))
        tick = float(steps.min()) * CLOCK_DIGIT
        total = 0.0
        for arm in arms:
            low, middle, high = np.quantile(arm, [0.05, 0.5, 0.95]).tolist()
            noise = max(0.0, high - low - tick / 2) / Z90
            total += (tick / middle) ** 2 / 12 * math.exp(-((2 * math.pi * noise / tick) ** 2))
        return total


@dataclass(frozen=True, slots=True)
class _Estimate:
    """A mean log-ratio with its standard error and degrees of freedom."""

    centre: float
    error: float
    freedom: float

    def half_width(self, level: float) -> float:
        return self.error * student_quantile(0.5 + level / 2, self.freedom)

    def interval(self, level: float) -> tuple[float, float]:
        half = self.half_width(level)
        return self.centre - half, self.centre + half


@dataclass(frozen=True, slots=True)
class _Series:
    """Log-ratios of the blocks in use, in time and (empty where unknown) in cycles; `kept` is the mask of blocks."""

    time: np.ndarray
    cycles: np.ndarray
    kept: np.ndarray
    steady: bool
    grain: float
    trimmed: float

    def in_time(self) -> _Estimate:
        return _estimate(self.time, self.grain, self.trimmed)

    def in_cycles(self) -> _Estimate | None:
        return _estimate(self.cycles, self.grain, self.trimmed) if len(self.cycles) >= MIN_BLOCKS else None


def pairs_of(timed: WorkloadTiming | Samples) -> PairedSamples:
    return PairedSamples(timed.candidate_s, timed.anchor_s, timed.mode)


def compare(pairs: PairedSamples) -> Comparison:
    """Compare two arms; raises ValueError below `MIN_BLOCKS` blocks."""
    return _comparison(pairs.estimate(), LEVEL, pairs.candidate_s, pairs.anchor_s, keep=True)


def settled(samples: Samples, *, late: bool = False) -> str:
    """Say at a look why to stop, or "" to go on.

    "precise": the 95 % interval is within ±0.25 %, or it is `late` and `session_sd` outweighs what these samples leave
    open. "settled": the verdict is clear at the corrected level, and the 95 % interval within ±1 %, or it is `late`.
    "futile": the whole corrected interval is below half the anchor's speed. The verdict allows for the spread from
    session to session (`Samples.session_sd`), the widths do not: no more blocks would lessen it.
    """
    series = _series(samples)
    if len(series.time) < MIN_BLOCKS:
        return ""
    time, level = series.in_time(), _decisive_level(samples.looks)
    here = replace(series, grain=series.grain - samples.session_sd**2).in_time()
    half = here.half_width(_reported_level(samples.looks))
    if half <= PRECISE or (late and here.error <= SLIGHT * samples.session_sd):
        return "precise"
    if (late or half <= CLEAR) and _decide(time, series.in_cycles(), None, series.steady, level) in DEFINITE:
        return "settled"
    return "futile" if time.interval(level)[1] < HOPELESS else ""


def timing(samples: Samples) -> WorkloadTiming:
    """Summarise one workload's samples; raises ValueError below `MIN_BLOCKS` blocks.

    Blocks with a sample below 75 % of the median clock are left out of every number, but `candidate_s` and `anchor_s`
    keep all samples; `log_ratios` has the blocks in use. `cycles` gives medians in cycles and repeats no samples.
    """
    series = _series(samples)
    used = np.repeat(series.kept, 2)
    candidate, anchor = np.asarray(samples.candidate_s)[used], np.asarray(samples.anchor_s)[used]
    time, cycles = series.in_time(), series.in_cycles()
    level, reported = _decisive_level(samples.looks), _reported_level(samples.looks)
    shown = _comparison(_usual(samples), reported, candidate, anchor)
    low, high = time.interval(level)
    in_cycles = None
    if cycles is not None:
        hz = np.asarray(samples.candidate_hz)[used], np.asarray(samples.anchor_hz)[used]
        in_cycles = _comparison(cycles, reported, (candidate * hz[0])[hz[0] > 0], (anchor * hz[1])[hz[1] > 0])
    control = _pair(samples.control_candidate_s, samples.control_anchor_s, samples.mode)
    return WorkloadTiming(
        workload=samples.workload,
        speedup=shown.speedup,
        low=shown.low,
        high=shown.high,
        candidate_median_s=shown.candidate_median_s,
        anchor_median_s=shown.anchor_median_s,
        error_ratio=samples.error_ratio,
        log_ratios=tuple(series.time.tolist()),
        candidate_s=samples.candidate_s,
        anchor_s=samples.anchor_s,
        verdict=_decide(time, cycles, _control(control, samples.mode), series.steady, level),
        decisive_low=math.exp(low),
        decisive_high=math.exp(high),
        looks=samples.looks,
        mode=samples.mode,
        control=control,
        warm=_pair(samples.warm_candidate_s, samples.warm_anchor_s),
        cycles=in_cycles,
        launched=_pair(samples.launched_candidate_s, samples.launched_anchor_s),
        candidate_hz=samples.candidate_hz,
        anchor_hz=samples.anchor_hz,
        session_sd=samples.session_sd,
    )


def geometric_mean(timings: Sequence[WorkloadTiming], level: float | None = None) -> tuple[float, float, float]:
    """Return the geometric mean of the speed-ups with the reported interval, or one that decides, of the `level`."""
    mean = _mean([_series(t).in_time() if level else _usual(t) for t in timings])
    low, high = mean.interval(level or _reported_level(max(t.looks for t in timings)))
    return math.exp(mean.centre), math.exp(low), math.exp(high)


def deciding_interval(timings: Sequence[WorkloadTiming]) -> tuple[float, float, float]:
    """Return the interval, wider than the reported one, that `overall` holds against the margin, and its level."""
    level = _decisive_level(max(t.looks for t in timings))
    return *geometric_mean(timings, level)[1:], level


def overall(timings: Sequence[WorkloadTiming]) -> Verdict:
    """Judge the geometric mean as `timing` judges one workload; cycles count where all workloads have them."""
    series = [_series(t) for t in timings]
    cycles = [known for s in series if (known := s.in_cycles()) is not None]
    controls = [control for t in timings if (control := _control(t.control, t.mode)) is not None]
    return _decide(
        _mean([s.in_time() for s in series]),
        _mean(cycles) if len(cycles) == len(series) else None,
        _mean(controls) if controls else None,
        all(s.steady for s in series),
        _decisive_level(max(t.looks for t in timings)),
    )


def student_quantile(p: float, freedom: float) -> float:
    """Return Student's t quantile for p in (0.5, 0.999) and at least three degrees of freedom, to 3 % or better.

    To p = 0.9999 from five degrees on. The expansion is 26.7.5 of Abramowitz and Stegun; a worker need not have scipy.
    """
    z = NormalDist().inv_cdf(p)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / freedom ** (i + 1) for i, term in enumerate(terms))


def _series(timed: WorkloadTiming | Samples) -> _Series:
    """Turn samples into log-ratios without slow-clock blocks; where most are slow, all stay, and it is not steady."""
    pairs = pairs_of(timed)
    time, grain = pairs.log_ratios(), pairs.grain() + timed.session_sd**2
    trimmed = 0.0 if pairs.all_count() else TRIMMED
    every = np.ones(len(time), dtype=bool)
    arms = timed.candidate_hz, timed.anchor_hz
    hz = np.concatenate([np.asarray(arm, dtype=float).reshape(-1, 2) for arm in arms], axis=1)
    seen = hz > 0
    if not seen.any():
        return _Series(time, time[:0], every, True, grain, trimmed)
    kept = (~seen | (hz >= SLOW_CLOCK * np.median(hz[seen]))).all(axis=1)
    steady = bool(kept.sum() >= max(MIN_BLOCKS, len(time) / 2))
    kept = kept if steady else every
    known = kept & seen.all(axis=1)
    logs = np.log(hz[known])
    cycles = time[known] + logs[:, 2:].mean(axis=1) - logs[:, :2].mean(axis=1)
    return _Series(time[kept], cycles, kept, steady, grain, trimmed)


def _usual(timed: WorkloadTiming | Samples) -> _Estimate:
    """Return the estimate whose interval is reported: `USUAL` says how much of the spread of sessions is in it."""
    series = _series(timed)
    share = 1.0 if pairs_of(timed).all_count() else USUAL.get(timed.mode, 1.0)
    return replace(series, grain=series.grain - (1 - share**2) * timed.session_sd**2).in_time()


def _estimate(ratios: np.ndarray, grain: float, trimmed: float) -> _Estimate:
    """Return a trimmed mean of log-ratios with its standard error; `grain` is variance that does not average out."""
    n = len(ratios)
    if n < MIN_BLOCKS:
        raise ValueError(f"{n} blocks give no interval; {MIN_BLOCKS} or more do")
    cut = int(trimmed * n)
    ordered = np.sort(ratios)
    centre = float(ordered[cut : n - cut].mean())
    around = np.clip(ratios, ordered[cut], ordered[n - cut - 1])
    around -= around.mean()
    alone = float(around @ around) / (n - 1)
    length = math.ceil(1.3 * math.sqrt(n))
    shared = sum((1 - lag / length) * float(around[lag:] @ around[:-lag]) for lag in range(1, length)) * 2 / (n - 1)
    # Blocks that alternate would make the interval narrower than independent ones: that much is never claimed.
    variance = (alone + max(0.0, shared)) / ((1 - 2 * cut / n) ** 2 * n)
    return _Estimate(centre, math.sqrt(variance + grain), n - 2 * cut - 1)


def _mean(estimates: Sequence[_Estimate]) -> _Estimate:
    """Average independent estimates; degrees of freedom by Welch and Satterthwaite."""
    parts = [(e.error / len(estimates)) ** 2 for e in estimates]
    total = sum(parts)
    spread = sum(part**2 / e.freedom for part, e in zip(parts, estimates, strict=True))
    freedom = total**2 / spread if spread else min(e.freedom for e in estimates)
    centre = sum(e.centre for e in estimates) / len(estimates)
    return _Estimate(centre, math.sqrt(total), freedom)


def _control(control: Comparison | None, mode: TimingMode) -> _Estimate | None:
    return None if control is None else PairedSamples(control.candidate_s, control.anchor_s, mode).estimate()


def _pair(candidate_s: Sequence[float], anchor_s: Sequence[float], mode: TimingMode = "call") -> Comparison | None:
    return compare(PairedSamples(candidate_s, anchor_s, mode)) if len(candidate_s) >= 2 * MIN_BLOCKS else None


def _comparison(
    estimate: _Estimate,
    level: float,
    candidate: Sequence[float] | np.ndarray,
    anchor: Sequence[float] | np.ndarray,
    *,
    keep: bool = False,
) -> Comparison:
    low, high = estimate.interval(level)
    return Comparison(
        speedup=math.exp(estimate.centre),
        low=math.exp(low),
        high=math.exp(high),
        candidate_median_s=float(np.median(candidate)),
        anchor_median_s=float(np.median(anchor)),
        candidate_s=tuple(candidate) if keep else (),
        anchor_s=tuple(anchor) if keep else (),
    )


def _reported_level(looks: int) -> float:
    return LEVEL if looks <= 1 else STOPPED_LEVEL


def _decisive_level(looks: int) -> float:
    return DECISIVE_LEVELS[min(max(looks, 1), len(DECISIVE_LEVELS)) - 1]


def _decide(
    time: _Estimate, cycles: _Estimate | None, control: _Estimate | None, steady: bool, level: float
) -> Verdict:
    """Judge in time; doubt it where the cycles contradict, the clock was unsteady, or equal arms came out unequal.

    Where equal arms differ by more than the margin, only what exceeds that difference as well is believed.
    """
    said = _against_margin(time, level)
    if said == "inconclusive":
        return said
    if control is not None and _against_margin(control, level) in ("faster", "slower"):
        excess = max(abs(bound) for bound in control.interval(level))
        if said == "tie" or _against_margin(time, level, MARGIN + excess) != said:
            return "ambiguous"
    seen = said if cycles is None else _against_margin(cycles, level)
    return said if steady and seen in (said, "inconclusive") else "ambiguous"


def _against_margin(estimate: _Estimate, level: float, margin: float = MARGIN) -> Verdict:
    low, high = estimate.interval(level)
    if low > margin:
        return "faster"
    if high < -margin:
        return "slower"
    return "tie" if low >= -margin and high <= margin else "inconclusive"
