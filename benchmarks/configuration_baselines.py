"""Ways to choose among listed configurations without forewarp's forecasts, on the recorded spaces.

    python benchmarks/configuration_baselines.py --out benchmarks/results/tune.json

adds to the figures of `fit_configurations.py`, with the same counting: `searches`, cold Bayesian searches by Optuna,
and `published`, what Triton's own model of matrix products and the rules of its tutorial on attention keep. Searches
see only configurations that run, which spares them the failures that they would meet on a GPU.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from fit_configurations import POOL, UNSEEN, Measured, averaged, figures, geometric, read
from numpy.typing import NDArray
from provenance import provenance

from forewarp.core.values import Target
from forewarp.tuning.counting import item_bytes
from forewarp.tuning.physics import UNIT_RATES
from forewarp.tuning.space import Configuration, Space, TensorArgument

SEEDS = 5
STARTS = 4
"""Configurations drawn at random before a model chooses; Optuna's own 10 would leave eight measurements to chance."""
NEAR, LEAST, MOST = 1.05, 8, 32
"""A search ends within `NEAR` of the best, after `LEAST` measurements or more, and goes on at random after `MOST`."""
SAMPLERS = ("tpe", "gp")
SATURATING, FULL, IN_CACHE = 32, 108, 0.8
"""Programs that nearly saturate and that saturate the memory, and share of repeated loads that the L2 cache serves, as
Triton's model of matrix products has them."""
LOAD_CYCLES, MMA_CYCLES, MMA = 300, 8, 16 * 8 * 16


def main() -> None:
    """Judge them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rules", action="store_true", help="the published rules alone; searches take an hour")
    chosen = parser.parse_args()
    out, spaces = chosen.out, [s for s in read(POOL) if s.kernel not in UNSEEN]
    by_search = {} if chosen.rules else {"searches": {"provenance": provenance()} | searches(spaces)}
    result = json.loads(out.read_text())
    result |= {"published": published(spaces, result["rows"])} | by_search
    out.write_text(json.dumps(result, indent=1) + "\n")


def searches(spaces: Sequence[Measured]) -> dict[str, Any]:
    """Return the figures of each sampler: means over seeds within a space, then as for random order."""
    found: dict[str, list[dict[str, Any]]] = {sampler: [] for sampler in SAMPLERS}
    for place, s in enumerate(spaces):
        run = np.flatnonzero(np.isfinite(s.us))
        configurations = [s.space.configurations[i] for i in run.tolist()]
        for sampler, each in found.items():
            seeds = [
                figures([s], [run[searched(configurations, s.us[run], sampler, place * SEEDS + n)]])
                for n in range(SEEDS)
            ]
            share = {k: geometric([f["share"][k] for f in seeds]) for k in ("0", "8")}
            each.append({"share": share, "needed": float(np.mean([f["needed"] for f in seeds]))})
        print(
            s.card,
            s.kernel,
            s.call,
            *(f"{name} {each[-1]['share']['8']:.3f}" for name, each in found.items()),
            flush=True,
        )
    return {
        "spaces": len(spaces),
        "seeds": SEEDS,
        "starts": STARTS,
        **{sampler: averaged(each) for sampler, each in found.items()},
    }


def published(spaces: Sequence[Measured], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures of published rules where they apply, and beside them those of our forecasts there.

    `best_kept` is the best time over that of the best configuration that a rule keeps. A rule that keeps without
    ranking has the listed order; what no rule keeps comes last.
    """
    result: dict[str, Any] = {}
    rules: dict[str, Callable[[Space, Target], list[int] | None]] = {
        "matmul": matmul_model,
        "attention": attention_rule,
    }
    for name, rule in rules.items():
        kept = [(s, row, places) for s, row in zip(spaces, rows, strict=True) if (places := rule(s.space, s.target))]
        orders = [[*places, *(i for i in range(len(s.us)) if i not in places)] for s, _, places in kept]
        result[name] = figures([s for s, _, _ in kept], orders) | {
            "spaces": len(kept),
            "kept": float(np.mean([len(places) / len(s.us) for s, _, places in kept])),
            "best_kept": geometric([float(s.us.min() / s.us[places].min()) for s, _, places in kept]),
            "beside": {n: averaged([row[n] for _, row, _ in kept]) for n in ("uncompiled", "two_stages", "random")},
        }
    return result


def searched(configurations: Sequence[Configuration], us: NDArray[np.float64], sampler: str, seed: int) -> list[int]:
    """Return the places of configurations in the order in which a cold Bayesian search measures them.

    Optuna proposes values freely; the nearest listed configuration that was not measured is taken for them, and it is
    told that one's values.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    rows, distributions = _coordinates(configurations)
    scale = np.maximum(rows.max(axis=0), 1)
    chance = random.Random(seed)
    samplers = {
        "tpe": lambda: optuna.samplers.TPESampler(multivariate=True, n_startup_trials=STARTS, seed=seed),
        "gp": lambda: optuna.samplers.GPSampler(n_startup_trials=STARTS, deterministic_objective=True, seed=seed),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        study = optuna.create_study(sampler=samplers[sampler]())
    left = list(range(len(us)))
    chance.shuffle(left)
    order: list[int] = []
    while left and len(order) < MOST and (len(order) < LEAST or us[order].min() > NEAR * us.min()):
        place = left[0]
        if len(order) >= STARTS:
            trial = study.ask(distributions)
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            proposed = np.array([trial.params[name] for name in distributions])
            place = min(left, key=lambda i: float((((rows[i] - proposed) / scale) ** 2).sum()))
        left.remove(place)
        order.append(place)
        params = dict(zip(distributions, map(int, rows[place]), strict=True))
        value = math.log2(us[place])
        study.add_trial(optuna.create_trial(params=params, distributions=distributions, value=value))
    return [*order, *left]


def _coordinates(configurations: Sequence[Configuration]) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """Return each configuration's values as places in the sorted list of them, and Optuna's distributions of these.

    For powers of two the places are logarithms.
    """
    from optuna.distributions import IntDistribution

    rows = [{**c.values, "warps": c.warps, "stages": c.stages, "registers": c.registers or 255} for c in configurations]
    values = {name: sorted({row[name] for row in rows}) for name in rows[0]}
    varied = {name: known for name, known in values.items() if len(known) > 1}
    places = [[known.index(row[name]) for name, known in varied.items()] for row in rows]
    return np.array(places), {name: IntDistribution(0, len(known) - 1) for name, known in varied.items()}


def matmul_model(space: Space, target: Target) -> list[int] | None:
    """Return the places that Triton's model of matrix products keeps, the fastest first; None for other kernels.

    Its `early_config_prune` leaves out what needs too much shared memory, splits of K where atomic addition is not
    possible, and all but the two pipelines nearest to hiding a load; its `estimate_matmul_time` is the longer of
    computing and loading, and storing (triton.ops.matmul_perf_model). Rates are those of the data sheet.
    """
    sizes = [space.arguments.get(name) for name in ("M", "N", "K")]
    tensor = space.arguments.get("a_ptr")
    if not isinstance(tensor, TensorArgument) or not all(isinstance(size, int) for size in sizes):
        return None
    if math.prod(tensor.shape) != sizes[0] * sizes[2]:
        return None  # a batch, or packed numbers
    item, atomic = item_bytes(tensor.dtype), tensor.dtype in ("float16", "float32")
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for i, c in enumerate(space.configurations):
        m, n, k, split = _tile(c)
        if (m + n) * k * c.stages * item <= (target.shared_bytes or 0) and (split == 1 or atomic):
            groups[m, n, k, split, c.warps].append(i)
    kept: list[int] = []
    for (m, n, k, _, warps), places in groups.items():
        enough = LOAD_CYCLES / (m * n * k / MMA / min(4, warps) * MMA_CYCLES)
        excess = {i: space.configurations[i].stages - enough for i in places}
        kept += sorted(places, key=lambda i: (excess[i] < 0, abs(excess[i])))[:2]  # rather too deep than too shallow
    rate = (target.tensor_flops or math.nan) * UNIT_RATES[_UNITS.get(tensor.dtype, "fp16")]
    return sorted(kept, key=lambda i: _matmul_seconds(space.configurations[i], sizes, item, rate, target))


_UNITS: Mapping[str, str] = {"float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "int8": "int8", "float32": "tf32"}


def _tile(c: Configuration) -> tuple[int, int, int, int]:
    return c.values["BLOCK_M"], c.values["BLOCK_N"], c.values["BLOCK_K"], c.values.get("SPLIT_K", 1)


def _matmul_seconds(c: Configuration, sizes: Sequence[int], item: int, rate: float, target: Target) -> float:
    tile_m, tile_n, _, split = _tile(c)
    rows, columns = math.ceil(sizes[0] / tile_m), math.ceil(sizes[1] / tile_n)
    programs = rows * columns * split
    m, n, k = max(sizes[0], tile_m), max(sizes[1], tile_n), sizes[2]
    busy = min(1.0, programs * min(c.warps, 4) / (4 * target.processors))
    filled = min(1.0, programs / SATURATING), min(1.0, max(0.0, (programs - SATURATING) / (FULL - SATURATING)))
    bandwidth = (target.memory_bandwidth or math.nan) * (0.95 * filled[0] + 0.05 * filled[1])
    again = m * k * item * (columns - 1) + n * k * item * (rows - 1)
    from_memory = (m + n) * k * item + (1 - IN_CACHE) * again
    loading = from_memory / bandwidth + IN_CACHE * again / (4 * bandwidth)
    stored = m * n * (item * split + (2 if split > 1 else 0))
    return max(2 * m * n * k / (rate * busy), loading) + stored / (0.6 * bandwidth)


def attention_rule(space: Space, target: Target) -> list[int] | None:
    """Return the places that Triton's tutorial on attention keeps on Hopper, as listed; None for other kernels.

    Eight warps only for tiles of 128 by 128 or more, no tile beyond the sequence, and none wider than high where
    attention is causal, as the recorded kernel's is (`keep` and `prune_invalid_configs` of 06-fused-attention).
    """
    if space.kernel != "attention_forward" or not target.arch.startswith("sm_90"):
        return None
    return [
        i
        for i, c in enumerate(space.configurations)
        if not (c.values["BLOCK_M"] * c.values["BLOCK_N"] < 128 * 128 and c.warps == 8)
        and c.values["BLOCK_N"] <= c.values["BLOCK_M"] <= space.arguments["N_CTX"]
    ]


if __name__ == "__main__":
    main()
