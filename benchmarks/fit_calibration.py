"""Fit the calibrations that come with forewarp to pools of measured kernels.

    python benchmarks/fit_calibration.py pool/validation.parquet
    python benchmarks/fit_calibration.py pool/validation.parquet --recorded answers.parquet --comparison full

The learned forecaster is asked at several numbers of shown trials; recorded forecasts (of a language model) are taken
as they are. Writes `surrogate/calibrations.json`, keeping tiers that were not fitted now, and
`results/calibration.json`: what each calibration does to tasks that its fit has not seen. A part that makes those no
better (NLL of the bins; Brier score of `p_valid`) is not shipped.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from forewarp.archive.forecasts import read_forecasts
from forewarp.archive.pools.parquet import read_pool
from forewarp.core import serde
from forewarp.surrogate import calibration
from forewarp.surrogate.calibration import Calibration, Outcome
from forewarp.surrogate.evaluation import backtest
from forewarp.tools.calibration import CalibrationScores, scores
from forewarp.tools.session import make_forecaster

ROOT = Path(__file__).parents[1]
SHIPPED = ROOT / "surrogate" / "calibrations.json"
RESULT = Path(__file__).parent / "results" / "calibration.json"
SHOWN = (0, 4, 8, 16)
ASKED = 40
_FOLDS = 5


def outcomes_of(answers: backtest.Answers) -> list[Outcome]:
    return [Outcome(r.forecast, r.case.speedup, r.case.task) for r in answers.rows]


def learned(pools: list[Path]) -> list[Outcome]:
    found: list[Outcome] = []
    for pool in pools:
        for shown in SHOWN:
            groups = backtest.plan(read_pool(pool), shown).groups
            asked = [replace(g, subjects=g.subjects[:ASKED], cases=g.cases[:ASKED]) for g in groups]
            forecaster = make_forecaster("learned", None, calibrated=False)
            assert forecaster is not None
            found += outcomes_of(backtest.run(forecaster, asked))
    return found


def corrected_by_others(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Correct each outcome's forecast by cross-validation: the fit has not seen the outcome.

    With at least `_FOLDS` tasks, the fit has not seen the outcome's task either.
    """
    tasks = {task: place for place, task in enumerate(dict.fromkeys(o.task for o in outcomes))}
    places = [tasks[o.task] for o in outcomes] if len(tasks) >= _FOLDS else range(len(outcomes))
    folds = [place % _FOLDS for place in places]
    fits = [
        calibration.fit([o for o, f in zip(outcomes, folds, strict=True) if f != fold], calibration.IDENTITY)
        for fold in range(_FOLDS)
    ]
    return [replace(o, forecast=fits[f].apply(o.forecast)) for o, f in zip(outcomes, folds, strict=True)]


def worth_it(found: Calibration, before: CalibrationScores, after: CalibrationScores) -> Calibration:
    """Return the calibration without the parts that made forecasts of other tasks no better."""
    if (after.nll or 0.0) >= (before.nll or 0.0):
        found = replace(found, spread=0.0, tilt=0.0, tails=0.0)
    if after.brier_valid >= before.brier_valid:
        found = replace(found, valid_shift=0.0, valid_slope=0.0)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pools", type=Path, nargs="+")
    parser.add_argument("--recorded", type=Path, action="append", default=[])
    parser.add_argument("--comparison", default="", help="condition of the recorded forecasts; all if left out")
    parser.add_argument("--tier", default="llm", help="name under which the recorded forecasts' calibration is kept")
    given = parser.parse_args()
    tiers = {"learned": learned(given.pools)}
    if given.recorded:
        records = [f for path in given.recorded for f in read_forecasts(path)]
        records = [r for r in records if given.comparison in ("", r.comparison)]
        cases = [c for p in given.pools for g in backtest.plan(read_pool(p)).groups for c in g.cases]
        tiers[given.tier] = [o for a in backtest.recorded(records, cases) for o in outcomes_of(a)]
    kept = {c["tier"]: c for c in json.loads(SHIPPED.read_text())} if SHIPPED.exists() else {}
    results = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    for tier, outcomes in tiers.items():
        before, after = scores(outcomes), scores(corrected_by_others(outcomes))
        found = calibration.fit(outcomes, Calibration(tier))
        shipped = worth_it(found, before, after)
        kept[tier] = serde.to_data(shipped)
        leave = {"confidence", "faster"}
        results[tier] = {
            "pools": [p.name for p in given.pools],
            "before": before.model_dump(exclude=leave),
            "after": after.model_dump(exclude=leave),
            "fitted": serde.to_data(found),
            "shipped": kept[tier],
        }
        print(json.dumps(results[tier], indent=1))
    SHIPPED.write_text(json.dumps(list(kept.values()), indent=2) + "\n")
    RESULT.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
