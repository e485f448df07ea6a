"""What searching for several cards together gives, on recorded grids of real ones.

    python benchmarks/several_targets.py HUB --out benchmarks/results/several_targets.json

HUB is a checkout of AutoTuningAssociation/benchmark_hub: all configurations of kernels, timed by Kernel Tuner on
several cards. Nothing runs on a device here; what is "measured" is looked up. No reference was timed, so that a
speed-up is over the card's own median configuration; which kernel is better does not depend on that. Arms, with equal
numbers of measurements per card: `together` is one search for all cards, in which forecasts learn from all of them,
kernels migrate and winners visit; `apart` is a search per card, whose winners are then looked up on the other cards.
A third line says what the winner of one card alone is worth on the others, without any measurement there.
"""

from __future__ import annotations

import argparse
import math
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from provenance import write
from published_sets import kernel_tuner
from published_sets.made import ImportOptions

from forewarp.archive.pools.parquet import write_rows
from forewarp.archive.pools.replay import ReplayExecutor
from forewarp.archive.rows import RecordedRow
from forewarp.archive.store import Archive
from forewarp.core.budget import Budget
from forewarp.core.values import Candidate, Task, Workload
from forewarp.search.compromise import compare
from forewarp.search.islands import Islands
from forewarp.search.loop import Search
from forewarp.search.proposers.recorded import PoolProposer
from forewarp.search.settings import SearchSettings
from forewarp.surrogate.calibration import Recalibrated
from forewarp.surrogate.learned import LearnedForecaster

KERNELS = {
    "convolution": ("convolution_milo", "convolution_milo.cu"),
    "dedispersion": ("dedispersion_milo", "dedisp_milo/dedispersion.cu"),
}
ARMS = ("together", "apart")

Grid = Mapping[str, Sequence[RecordedRow]]
Speedups = Mapping[str, Mapping[str, float]]


def grid(hub: Path, kernel: str, cards: Sequence[str]) -> dict[str, list[RecordedRow]]:
    """Return the rows of a kernel by card, as measurements of one task over a reference."""
    folder, source = KERNELS[kernel]
    shape = (Workload("recorded"),)
    task = Task(kernel, kernel, f"# {kernel}: the reference program is not known.\n", {"cpu": shape, "cuda": shape})
    found: dict[str, list[RecordedRow]] = {}
    for card in cards:
        options = ImportOptions(device=card, kernel=hub / "kernels" / source)
        rows = kernel_tuner.read([hub / "cachefiles" / folder / f"{card}_T4.json.gz"], options).rows
        found[card] = [
            replace(r, task=task, against=None, measurement=replace(r.measurement, anchor="reference")) for r in rows
        ]
    # A kernel that was refused on a card before it ran is not in that card's grid.
    return found


def true_speedups(rows: Grid) -> Speedups:
    """Return what is on record, by card and kernel, of the kernels that worked."""
    return {
        card: {r.candidate.sha256: r.measurement.speedup for r in of if r.measurement.speedup}
        for card, of in rows.items()
    }


def search(archive: Archive, rows: Grid, settings: SearchSettings, *, together: bool) -> dict[str, str]:
    """Run one search per card, side by side where they are together; returns the runs by card."""
    islands = Islands(archive)
    made: dict[str, Search] = {}
    for number, (card, of) in enumerate(rows.items()):
        executor, held = ReplayExecutor(of, of[0].target), {r.candidate.sha256 for r in of}
        proposer = PoolProposer(executor.candidates(of[0].task))
        island = islands.open(card, lambda c, held=held: c.sha256 in held) if together else None
        forecaster = Recalibrated(LearnedForecaster())
        own = replace(settings, seed=settings.seed * len(rows) + number)
        made[card] = Search.start(archive, of[0].task, executor, proposer, forecaster, own, island)
    with ThreadPoolExecutor(len(made)) as pool:
        for done in [pool.submit(s.run) for s in made.values()]:
            done.result()
    return {card: s.run_id for card, s in made.items()}


def one(rows: Grid, truth: Speedups, arm: str, budget: int, seed: int) -> dict[str, Any]:
    """Return what one search of an arm finds, as shares of what there is to be found."""
    others = len(rows) - 1
    together = arm == "together"
    settings = SearchSettings(
        seed=seed, budget=Budget(measurements=budget if together else budget - others), confirm=False, holdout=False
    )
    settings = replace(settings, visitors=others, group="benchmark") if together else settings
    with tempfile.TemporaryDirectory() as folder, Archive(Path(folder) / "archive.db") as archive:
        runs = search(archive, rows, settings, together=together)
        found = compare(archive, runs)
        spent = {card: archive.spend(run).measurements for card, run in runs.items()}
    winners = {card: next(e.candidate for e in found if card in e.won) for card in rows}
    tried = [e.candidate for e in found if e.mean] if together else list(winners.values())
    best = max((mean_of(c, truth) for c in tried), default=0.0)
    top = ceiling(truth)
    return {
        "spent": spent,
        "winner": {card: truth[card][w.sha256] / max(truth[card].values()) for card, w in winners.items()},
        "compromise": best / top,
        "portable": {
            card: statistics.fmean(truth[c].get(w.sha256, 0.0) / max(truth[c].values()) for c in rows if c != card)
            for card, w in winners.items()
        },
    }


def mean_of(candidate: Candidate, truth: Speedups) -> float:
    """Return a kernel's geometric mean over all cards, 0 where it does not work on one."""
    found = [of.get(candidate.sha256, 0.0) for of in truth.values()]
    return math.exp(statistics.fmean(map(math.log, found))) if all(found) else 0.0


def ceiling(truth: Speedups) -> float:
    """Return the highest geometric mean in the grids."""
    everywhere = set.intersection(*(set(of) for of in truth.values()))
    return max(math.exp(statistics.fmean(math.log(of[k]) for of in truth.values())) for k in everywhere)


def interval(values: Sequence[float], seed: int = 0) -> list[float]:
    """Return mean and 95 % bootstrap interval over seeds."""
    drawn = np.random.default_rng(seed).choice(np.array(values), (4000, len(values))).mean(axis=1)
    return [float(np.mean(values)), *(float(v) for v in np.quantile(drawn, (0.025, 0.975)))]


def figures(found: Mapping[str, Sequence[dict[str, Any]]]) -> dict[str, Any]:
    """Return each arm's means with intervals, and the paired difference of the two."""
    winner = {arm: [statistics.fmean(r["winner"].values()) for r in runs] for arm, runs in found.items()}
    compromise = {arm: [r["compromise"] for r in runs] for arm, runs in found.items()}
    return {
        "winner": {arm: interval(v) for arm, v in winner.items()},
        "compromise": {arm: interval(v) for arm, v in compromise.items()},
        "winner, together - apart": interval([a - b for a, b in zip(*(winner[arm] for arm in ARMS), strict=True)]),
        "compromise, together - apart": interval(
            [a - b for a, b in zip(*(compromise[arm] for arm in ARMS), strict=True)]
        ),
        "winner of one card on the others": interval(
            [statistics.fmean(r["portable"].values()) for r in found["apart"]]
        ),
    }


def main() -> None:
    """Run all arms and write the figures; with --pool, only write the grids as one pool."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hub", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--pool", type=Path, help="write the grids as one pool, and do nothing else")
    parser.add_argument("--kernels", default=",".join(KERNELS))
    parser.add_argument("--cards", default="A100,A4000,A6000")
    parser.add_argument("--budget", type=int, default=20, help="measurements per card")
    parser.add_argument("--seeds", type=int, default=12)
    given = parser.parse_args()
    cards = given.cards.split(",")
    grids = {kernel: grid(given.hub, kernel, cards) for kernel in given.kernels.split(",")}
    if given.pool is not None:
        write_rows((r for rows in grids.values() for of in rows.values() for r in of), given.pool)
        return
    results: dict[str, Any] = {}
    for kernel, rows in grids.items():
        truth = true_speedups(rows)
        found = {arm: [one(rows, truth, arm, given.budget, s) for s in range(given.seeds)] for arm in ARMS}
        results[kernel] = {
            "configurations": {card: len(of) for card, of in truth.items()},
            "best over median": {card: max(of.values()) for card, of in truth.items()},
            "best compromise, share of each best": share_of_ceiling(truth),
            **figures(found),
            "runs": found,
        }
        print(kernel, {k: v for k, v in results[kernel].items() if k != "runs"}, flush=True)
    about = {"cards": cards, "budget per card": given.budget, "seeds": given.seeds}
    write(given.out, {**about, "source": "replay of recorded grids", "kernels": results})


def share_of_ceiling(truth: Speedups) -> float:
    """Return how close the best compromise of the grids comes to the cards' own best kernels, geometric mean."""
    tops = math.exp(statistics.fmean(math.log(max(of.values())) for of in truth.values()))
    return ceiling(truth) / tops


if __name__ == "__main__":
    main()
