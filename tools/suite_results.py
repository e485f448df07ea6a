"""Results of a suite: a row for each kernel, and the shares of problems that are solved, and solved faster."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from pydantic import Field

from forewarp.core.values import Status, Verdict
from forewarp.tools.parts import SCHEMA_VERSION, Device, Interval, Part
from forewarp.tools.requests import Baseline

RowStatus = Status | Literal["no_kernel", "problem_failed", "unreadable", "lost", "not_measured"]
THRESHOLDS = (1.0, 1.5, 2.0)
"""Speed-ups p for which KernelBench's score fast_p is computed."""


class SuiteRow(Part):
    """One kernel of one problem; a problem without kernels has one row, too."""

    problem: str
    kernel: str = Field(description="Path below the folder of kernels; empty where the problem has none.")
    status: RowStatus = Field(
        description="The kernel's status; or no_kernel, problem_failed (its reference), unreadable (its file), "
        "lost (the measuring process, twice), not_measured (the suite was interrupted before)."
    )
    verdict: Verdict | None = None
    correct: bool = Field(default=False, description="Its outputs are right.")
    trusted: bool = Field(default=False, description="It is correct, and its time is to be believed.")
    eager: Interval | None = Field(default=None, description="Speed-up over the reference as it is.")
    compile: Interval | None = Field(
        default=None,
        description="Speed-up over the reference under torch.compile: the ratio of two measurements against eager, "
        "with their intervals combined as those of independent errors.",
    )
    kernel_us: float | None = Field(default=None, description="Median time of a call, geometric mean over the shapes.")
    reference_us: float | None = Field(default=None, description="The same of the reference, in the same session.")
    flags: list[str] = Field(default_factory=list[str], description="What speaks against the time.")
    log: str = Field(default="", description="Why it failed.")
    sha256: str | None = Field(default=None, description="Identity of the kernel.")
    problem_sha256: str | None = Field(default=None, description="Identity of the problem.")
    measurement_id: int | None = Field(default=None, description="Its number in the archive.")
    seconds: float = 0.0


class CompileRow(Part):
    """The reference of one problem under torch.compile, measured against eager as a kernel is."""

    problem: str
    status: RowStatus
    verdict: Verdict | None = None
    speedup: Interval | None = Field(default=None, description="Over eager; null where it failed or is not trusted.")
    log: str = ""
    seconds: float = 0.0


class Shares(Part):
    """Shares of all problems, 0 to 1: by the speed-up itself, and by the lower end of its 95 % interval."""

    point: float = Field(description="The speed-up is above p, as KernelBench counts.")
    certain: float = Field(description="The whole 95 % interval is above p.")


class Score(Part):
    """Scores of the correct kernels against one baseline."""

    baseline: Baseline
    fast_1: Shares
    fast_1_5: Shares
    fast_2: Shares
    geomean: float | None = Field(description="Geometric mean of the speed-ups of correct kernels; null for none.")
    timed: int = Field(description="Kernels with a speed-up over this baseline that is to be believed.")

    def fast(self) -> dict[str, Shares]:
        """Return the shares by the names that KernelBench gives them."""
        return {"fast_1": self.fast_1, "fast_1.5": self.fast_1_5, "fast_2": self.fast_2}


class SuiteScores(Part):
    """The scores of one way to count several kernels for a problem."""

    correct: float = Field(description="Share of all problems with a correct kernel.")
    scores: list[Score] = Field(description="One for each baseline.")


class Unmatched(Part):
    """A file that is no part of the suite."""

    path: str
    reason: str


class SuiteResult(Part):
    """Result of a suite of problems."""

    summary: str
    schema_version: int = SCHEMA_VERSION
    status: Literal["finished", "interrupted"]
    device: Device
    versions: dict[str, str] = Field(description="Of what measured; empty for other machines.")
    baselines: list[Baseline]
    problems: int
    kernels: int
    best: SuiteScores = Field(description="The fastest correct kernel of each problem counts.")
    per_sample: SuiteScores = Field(
        description="One kernel of each problem, drawn at random: what pass@1 is to pass@k."
    )
    statuses: dict[str, int] = Field(description="Rows by status.")
    verdicts: dict[str, int] = Field(description="Kernels that were timed, by verdict.")
    rows: list[SuiteRow]
    compiled: list[CompileRow] = Field(description="References under torch.compile; empty without that baseline.")
    unmatched: list[Unmatched] = Field(description="Kernels whose name is that of no problem, and files that are none.")
    output: str = Field(description="Folder with the record and the tables.")
    seconds: float = Field(description="Of all measurements together, earlier processes included.")


def over(kernel: Interval, compiled: Interval) -> Interval:
    """Return the ratio of two speed-ups over the same reference, errors of the two taken as independent.

    The ends are those of MOVER (Zou and Donner, Statistics in Medicine 27, 2008) on logarithms: distances from
    estimate to limit add in squares, so that lopsided intervals stay so.
    """
    (k, k_low, k_high), (c, c_low, c_high) = (
        tuple(math.log(v) for v in (i.ratio, i.low, i.high)) for i in (kernel, compiled)
    )
    low = (k - c) - math.hypot(k - k_low, c_high - c)
    high = (k - c) + math.hypot(k_high - k, c - c_low)
    return Interval(ratio=math.exp(k - c), low=math.exp(low), high=math.exp(high))


def best_of(rows: Sequence[SuiteRow]) -> SuiteRow:
    """Return the fastest trusted row; without one a correct one, without that the first."""
    return max(rows, key=lambda r: (r.trusted, r.correct, r.eager.ratio if r.eager and r.trusted else 0.0))


def by_problem(rows: Iterable[SuiteRow]) -> dict[str, list[SuiteRow]]:
    grouped: dict[str, list[SuiteRow]] = {}
    for row in rows:
        grouped.setdefault(row.problem, []).append(row)
    return grouped


def view(groups: Sequence[Sequence[SuiteRow]], baselines: Sequence[Baseline]) -> SuiteScores:
    """Score problems, each by the mean over its rows; pass one row per problem to score the best kernels."""

    def share(counts: Callable[[SuiteRow], bool]) -> float:
        return sum(sum(map(counts, rows)) / len(rows) for rows in groups) / len(groups) if groups else 0.0

    def shares(baseline: Baseline, p: float) -> Shares:
        def above(low: bool) -> Callable[[SuiteRow], bool]:
            def counts(row: SuiteRow) -> bool:
                found = speedup_of(row, baseline)
                return found is not None and (found.low if low else found.ratio) > p

            return counts

        return Shares(point=share(above(False)), certain=share(above(True)))

    scores: list[Score] = []
    for baseline in baselines:
        ratios = [found.ratio for rows in groups for row in rows if (found := speedup_of(row, baseline)) is not None]
        one, half, two = (shares(baseline, p) for p in THRESHOLDS)
        mean = statistics.geometric_mean(ratios) if ratios else None
        scores.append(Score(baseline=baseline, fast_1=one, fast_1_5=half, fast_2=two, geomean=mean, timed=len(ratios)))
    return SuiteScores(correct=share(lambda row: row.correct), scores=scores)


def speedup_of(row: SuiteRow, baseline: Baseline) -> Interval | None:
    """Return a kernel's speed-up over a baseline; None if it is not correct, or its time is not trusted."""
    return (row.eager if baseline == "eager" else row.compile) if row.trusted else None


def counted(values: Iterable[str]) -> dict[str, int]:
    """Count values, the most frequent first."""
    return dict(sorted(Counter(values).items(), key=lambda item: (-item[1], item[0])))


def summarise(groups: Sequence[Sequence[SuiteRow]], best: SuiteScores, *, left: int) -> str:
    """Return the result in a few sentences; `groups` are the rows of each problem, `left` are still to be measured."""
    score = best.scores[0]
    solved = sum(any(r.correct for r in group) for group in groups)
    said = f"{solved} of {len(groups)} problems have a correct kernel. Against eager: "
    said += ", ".join(f"{name} {shares.point:.2f}" for name, shares in score.fast().items())
    said += f", geometric mean {score.geomean:.3g}× over those that are correct." if score.geomean else "."
    doubted = sum(any(r.correct for r in group) and not any(r.trusted for r in group) for group in groups)
    if doubted:
        said += (
            f" No time for {doubted} of them is to be trusted, which counts as not fast: measure again on a quieter "
        )
        said += "device, with another --output, or see what is said of them."
    failed = sum(all(r.status == "problem_failed" for r in group) for group in groups)
    if failed:
        said += f" The references of {failed} cannot be run here; these count as not solved."
    if left:
        said += f" {left} measurements are left: run the same command again to go on."
    return said
