"""Put the statistics of interleaved timings to the test on simulated noise, with no device.

    python benchmarks/statistics_simulation.py

Four tables: how far estimates of equal arms scatter when timed one after the other or in ABBA blocks; how centres and
intervals compare at a fixed number of blocks; what the full rule (up to five looks, ±1 % margin) gives for planted
gaps: coverage of the reported 95 % interval, verdicts, blocks used; and what known clocks and a control add.
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from provenance import write
from scipy.signal import lfilter
from scipy.stats import norm

from forewarp.gpu_runner.statistics import LEVEL, LOOKS, PairedSamples, Samples, compare, settled, timing

GAPS = (0.0, 0.005, 0.015, 0.02, 0.03, 0.05)
"""How much longer the candidate takes."""
CLOCKED = ((0.0, 0.0, 0.0), (0.03, 0.0, 0.0), (0.03, 0.1, 0.0), (0.0, 0.0, 0.03), (0.03, 0.0, 0.03))
"""Gap, share of blocks with a dip of the clock, and how much higher the candidate's clock is."""
RESAMPLES = 400


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise of log times. Both arms share `drift` (an AR(1) with a correlation of `tau` samples); `own` moves one arm.

    `outliers` is the share of samples that take up to 50 % longer (`candidate_outliers` that of the candidate, where
    it differs); a burst makes 20 samples in a row 20 % longer. `tick` is the timer's resolution in seconds.
    """

    white: float
    drift: float = 0.0
    tau: float = 1.0
    outliers: float = 0.01
    candidate_outliers: float | None = None
    bursts: float = 0.0
    own: float = 0.0
    own_tau: float = 1.0
    tick: float = 0.0
    anchor_s: float = 1e-4


NOISES: dict[str, Noise] = {
    "s 0.5 %, drift 0.5 %, tau 2000": Noise(0.005, 0.005, 2000),
    "s 1 %, drift 2 %, tau 500": Noise(0.01, 0.02, 500),
    "s 1 %, drift 2 %, tau 5000": Noise(0.01, 0.02, 5000),
    "s 3 %, drift 3 %, tau 200": Noise(0.03, 0.03, 200),
    "quiet: s 0.1 %": Noise(0.001, 0.005, 2000),
    "fast drift 3 %, tau 20": Noise(0.01, 0.03, 20),
    "10 % outliers": Noise(0.01, 0.02, 500, outliers=0.1),
    "outliers 5 % candidate, 1 % anchor": Noise(0.01, 0.02, 500, candidate_outliers=0.05),
    "bursts of 20 slow samples": Noise(0.01, 0.02, 500, bursts=0.005),
    "timer of 32 ns, 5 us": Noise(0.001, 0.002, 2000, tick=32e-9, anchor_s=5e-6),
    "timer of 1 us, 20 us": Noise(0.005, 0.005, 2000, tick=1.024e-6, anchor_s=20e-6),
    "one arm wanders 0.3 %, tau 40": Noise(0.01, 0.02, 500, own=0.003, own_tau=40),
    "one arm wanders 0.5 %, tau 500": Noise(0.01, 0.02, 500, own=0.005, own_tau=500),
}
TABLE = list(NOISES)[:4]


def wander(rng: np.random.Generator, shape: tuple[int, int], sd: float, tau: float) -> np.ndarray:
    """Stationary AR(1) along the last axis."""
    keep = math.exp(-1 / tau)
    steps = rng.normal(0.0, sd * math.sqrt(1 - keep**2), shape)
    steps[:, 0] = rng.normal(0.0, sd, shape[0])
    return np.asarray(lfilter([1.0], [1.0, -keep], steps, axis=1))


def slow_down(rng: np.random.Generator, shape: tuple[int, int], share: float) -> np.ndarray:
    return np.log1p(0.5 * rng.random(shape) * (rng.random(shape) < share))


def sessions(
    noise: Noise, gap: float, count: int, blocks: int, rng: np.random.Generator, *, interleaved: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """Candidate's and anchor's seconds, each of shape (count, 2 · blocks), in the order taken."""
    shape = (count, 4 * blocks)
    first = rng.random((count, blocks, 1)) < 0.5
    pattern = np.where(first, [True, False, False, True], [False, True, True, False]).reshape(shape)
    mine = pattern if interleaved else np.tile(np.arange(4 * blocks) < 2 * blocks, (count, 1))
    logs = rng.normal(0.0, noise.white, shape) + wander(rng, shape, noise.drift, noise.tau)
    other = noise.outliers if noise.candidate_outliers is None else noise.candidate_outliers
    logs += np.where(mine, slow_down(rng, shape, other), slow_down(rng, shape, noise.outliers))
    if noise.bursts:
        starts = (rng.random(shape) < noise.bursts / 20).astype(float)
        logs += math.log(1.2) * (np.asarray(lfilter(np.ones(20), [1.0], starts, axis=1)) > 0)
    logs += mine * (math.log1p(gap) + wander(rng, shape, noise.own, noise.own_tau))
    # Where the ticks fall differs from kernel to kernel.
    seconds = noise.anchor_s * np.exp(logs + rng.uniform(-0.1, 0.1, (count, 1)))
    if noise.tick:
        seconds = np.round(seconds / noise.tick) * noise.tick
    return seconds[mine].reshape(count, -1), seconds[~mine].reshape(count, -1)


def scatter(noise: Noise, blocks: int, count: int, rng: np.random.Generator) -> dict[str, float]:
    """Equal arms: spread of the estimate from run to run, and how often a 95 % interval excludes equality."""
    one, two = sessions(noise, 0.0, count, blocks, rng, interleaved=False)
    means = two.mean(axis=1) / one.mean(axis=1)
    error = np.sqrt((one.var(axis=1, ddof=1) + two.var(axis=1, ddof=1)) / (2 * blocks))
    one, two = sessions(noise, 0.0, count, blocks, rng)
    compared = [compare(PairedSamples(c, a)) for c, a in zip(one, two, strict=True)]
    return {
        "samples_per_arm": 2 * blocks,
        "cv_sequential_means": float(means.std() / means.mean()),
        "cv_abba": float(np.std([c.speedup for c in compared])),
        "differs_sequential_naive": float((np.abs(means - 1) * noise.anchor_s > 1.96 * error).mean()),
        "differs_abba": sum(not c.low <= 1.0 <= c.high for c in compared) / count,
    }


def percentile(ratios: np.ndarray, centre: Callable[[np.ndarray], np.ndarray], length: int) -> tuple[float, float]:
    """Percentile interval of a centre by the bootstrap with moving blocks of this length."""
    n, rng = len(ratios), np.random.default_rng(0)
    starts = rng.integers(0, n - length + 1, (RESAMPLES, math.ceil(n / length), 1))
    picks = (starts + np.arange(length)).reshape(RESAMPLES, -1)[:, :n]
    low, high = np.quantile(centre(ratios[picks]), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def trimmed(ratios: np.ndarray) -> np.ndarray:
    cut = int(0.2 * ratios.shape[-1])
    return np.sort(ratios, axis=-1)[..., cut : ratios.shape[-1] - cut].mean(axis=-1)


def median(ratios: np.ndarray) -> np.ndarray:
    return np.median(ratios, axis=-1)


def signed_rank(ratios: np.ndarray) -> tuple[float, float, float]:
    """Hodges–Lehmann centre with the interval of the signed-rank test."""
    n = len(ratios)
    i, j = np.triu_indices(n)
    walsh = np.sort((ratios[i] + ratios[j]) / 2)
    below = math.floor(n * (n + 1) / 4 - norm.ppf(0.5 + LEVEL / 2) * math.sqrt(n * (n + 1) * (2 * n + 1) / 24))
    return float(np.median(walsh)), float(walsh[below]), float(walsh[-1 - below])


def centres(noise: Noise, blocks: int, count: int, rng: np.random.Generator) -> dict[str, dict[str, float]]:
    """Equal arms at a fixed number of blocks: spread, coverage and half-width of each way to centre and interval."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    stretch = math.ceil(blocks ** (1 / 3))
    for one, two in zip(*sessions(noise, 0.0, count, blocks, rng), strict=True):
        ratios = np.log(two / one).reshape(-1, 2).mean(axis=1)
        compared = compare(PairedSamples(one, two))
        rows = {
            "median, bootstrap": (float(median(ratios)), *percentile(ratios, median, 1)),
            "median, moving blocks": (float(median(ratios)), *percentile(ratios, median, stretch)),
            "trimmed mean, moving blocks": (float(trimmed(ratios)), *percentile(ratios, trimmed, stretch)),
            "Hodges-Lehmann, signed ranks": signed_rank(ratios),
            "in use": (math.log(compared.speedup), math.log(compared.low), math.log(compared.high)),
        }
        for name, row in rows.items():
            found.setdefault(name, []).append(row)
    return {
        name: {
            "spread": float(np.std([c for c, _, _ in rows])),
            "coverage": sum(low <= 0.0 <= high for _, low, high in rows) / count,
            "half_width": float(np.mean([(high - low) / 2 for _, low, high in rows])),
        }
        for name, rows in found.items()
    }


def samples_of(one: np.ndarray, two: np.ndarray, blocks: int) -> Samples:
    candidate, anchor = (tuple(arm[: 2 * blocks].tolist()) for arm in (one, two))
    return Samples("w", candidate, anchor, 0.0, looks=len(LOOKS))


def full_rule(noise: Noise, gap: float, count: int, rng: np.random.Generator) -> dict[str, Any]:
    """Measure with up to five looks; count covered truths, verdicts, reasons to stop, blocks."""
    truth, covered = 1 / (1 + gap), 0
    verdicts, reasons, used = Counter[str](), Counter[str](), list[int]()
    for one, two in zip(*sessions(noise, gap, count, LOOKS[-1], rng), strict=True):
        reason, blocks = "", 0
        for blocks in LOOKS:
            reason = "last look" if blocks == LOOKS[-1] else settled(samples_of(one, two, blocks))
            if reason:
                break
        timed = timing(samples_of(one, two, blocks))
        covered += timed.low <= truth <= timed.high
        verdicts[timed.verdict] += 1
        reasons[reason] += 1
        used.append(blocks)
    wrong = {"faster", "slower"} if gap <= 0.01 else {"faster", "tie"}
    return {
        "coverage": covered / count,
        "false_verdicts": sum(verdicts[v] for v in wrong) / count,
        "verdicts": {v: c / count for v, c in sorted(verdicts.items())},
        "reasons": {r: c / count for r, c in sorted(reasons.items())},
        "blocks_mean": float(np.mean(used)),
        "blocks_median": float(np.median(used)),
    }


def doubts(gap: float, dips: float, uneven: float, count: int, rng: np.random.Generator) -> dict[str, float]:
    """Verdicts over 50 blocks with clocks read to 0.3 % and a control of 20 blocks.

    Times go with the clock, which drifts by 2 %. A share `dips` of blocks has one sample at 60 % of the clock; the
    candidate's clock is higher by `uneven`.
    """
    shape, blocks = (count, 50, 4), 50
    clock = wander(rng, (count, 200), 0.02, 500).reshape(shape)
    hit = (rng.random((count, blocks, 1)) < dips) & (rng.integers(0, 4, (count, blocks, 1)) == np.arange(4))
    mine = np.where(rng.random((count, blocks, 1)) < 0.5, [True, False, False, True], [False, True, True, False])
    clock += math.log(0.6) * hit + math.log1p(uneven) * mine
    seconds = 1e-4 * np.exp(math.log1p(gap) * mine - clock + rng.normal(0.0, 0.01, shape))
    hertz = 1.8e9 * np.exp(clock + rng.normal(0.0, 0.003, shape))
    control = sessions(NOISES[TABLE[1]], 0.0, count, 20, rng)
    said, covered = Counter[str](), 0
    for i in range(count):
        rows = [tuple(x[i][m].tolist()) for x in (seconds, hertz) for m in (mine[i], ~mine[i])]
        times, clocks = rows[:2], rows[2:]
        timed = timing(
            Samples(
                "w",
                times[0],
                times[1],
                0.0,
                looks=len(LOOKS),
                candidate_hz=clocks[0],
                anchor_hz=clocks[1],
                control_candidate_s=tuple(control[0][i].tolist()),
                control_anchor_s=tuple(control[1][i].tolist()),
            )
        )
        said[timed.verdict] += 1
        covered += timed.low <= (1 + uneven) / (1 + gap) <= timed.high
    return {"coverage": covered / count} | {v: c / count for v, c in sorted(said.items())}


def line(name: str, cells: Sequence[str]) -> None:
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    """Simulate, print the tables, write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=1500)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "statistics_simulation.json")
    args = parser.parse_args()
    began, rng = time.perf_counter(), np.random.default_rng(20260101)
    out: dict[str, Any] = {"sessions": args.sessions, "seed": 20260101, "source": "simulated", "looks": LOOKS}
    out["noises"] = {name: asdict(noise) for name, noise in NOISES.items()}

    out["scatter"] = {n: [scatter(NOISES[n], b, args.sessions, rng) for b in (25, 100)] for n in TABLE}
    line("equal arms", ("samples", "CV sequential", "CV ABBA", "differs, naive", "differs, ABBA"))
    for name, rows in out["scatter"].items():
        for row in rows:
            line(name, [f"{row['samples_per_arm']}", *(f"{100 * v:.2f} %" for v in list(row.values())[1:])])

    out["centres"] = {
        f"{b} blocks": centres(NOISES[TABLE[1]], b, max(args.sessions // (3 if b > 100 else 2), 1), rng)
        for b in (12, 50, 200)
    }
    line("centre, interval", ("blocks", "spread", "coverage", "half-width"))
    for blocks, rows in out["centres"].items():
        for name, row in rows.items():
            line(name, [blocks, *(f"{100 * v:.2f} %" for v in row.values())])

    out["full_rule"] = {}
    line("full rule", [f"{100 * g:.1f} % slower" for g in GAPS])
    for name, noise in NOISES.items():
        rows = {f"{gap:.3f}": full_rule(noise, gap, args.sessions, rng) for gap in GAPS}
        out["full_rule"][name] = rows
        line(f"{name}: coverage", [f"{100 * r['coverage']:.1f} %" for r in rows.values()])
        line("false verdicts", [f"{100 * r['false_verdicts']:.2f} %" for r in rows.values()])
        line("found slower", [f"{100 * r['verdicts'].get('slower', 0.0):.1f} %" for r in rows.values()])
        line("mean blocks", [f"{r['blocks_mean']:.0f}" for r in rows.values()])

    out["doubts"] = {
        f"{gap:.0%} slower, {dips:.0%} of blocks dip, clock uneven by {uneven:.0%}": doubts(
            gap, dips, uneven, args.sessions, rng
        )
        for gap, dips, uneven in CLOCKED
    }
    for name, row in out["doubts"].items():
        line(name, [f"{k} {100 * v:.1f} %" for k, v in row.items()])
    out["seconds"] = round(time.perf_counter() - began, 1)
    write(args.out, out)


if __name__ == "__main__":
    main()
