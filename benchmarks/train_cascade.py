"""Fit the cascade's weights on validation families: the learned forecaster run live, a language model's as recorded.

    python benchmarks/train_cascade.py --pool pool/validation.parquet --llm FORECASTS.parquet --history 6 --write

Both tiers are asked about the same kernels; the learned one sees `--history` measured kernels of each task, drawn as
`forewarp evaluate --history` draws them: give the number and the seed under which the model's forecasts were recorded.
Without `--write` the weights are printed only. A pool that holds rows of the test split is refused.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from forewarp.archive.forecasts import read_forecasts
from forewarp.archive.pools import read_pool
from forewarp.core.errors import ForewarpError, UsageError
from forewarp.surrogate import calibration, evaluation, pooling
from forewarp.surrogate.evaluation import Answers
from forewarp.surrogate.pooling import Outcome, Weights
from forewarp.tools.session import make_forecaster

SHIPPED = Path(pooling.__file__).with_name("cascade.json")
DEFAULT = Weights({"learned": 0.5, "llm": 0.5}, sharpness=1.2, valid={"learned": 0.5, "llm": 0.5})


def outcomes(learned: Answers, llm: Answers) -> list[Outcome]:
    """Return what both said of the kernels that both were asked about, corrected as they are when in use."""
    cheap, dear = evaluation.common([learned, llm])
    corrected = calibration.shipped(llm.name)
    return [
        Outcome(
            task=a.case.task,
            forecasts={"learned": a.forecast, "llm": corrected.apply(b.forecast)},
            speedup=a.case.speedup,
            valid=a.case.speedup is not None if b.validity else None,
        )
        for a, b in zip(cheap.rows, dear.rows, strict=True)
        if b.forecast.raw_sum > 0
    ]


def chosen(recorded: Sequence[Answers], name: str | None) -> Answers:
    known = ", ".join(a.name for a in recorded) or "none that fits the pool"
    fitting = [a for a in recorded if name is None or a.name == name]
    if len(fitting) != 1:
        raise UsageError("name one of the recorded forecasters with --name", hint=f"recorded: {known}")
    return fitting[0]


def train(arguments: argparse.Namespace) -> Weights:
    rows = read_pool(arguments.pool)
    if any(row.origin.split == "test" for row in rows):
        raise UsageError(f"{arguments.pool} holds rows of the test split", hint="weights are fitted on validation only")
    plan = evaluation.plan(rows, arguments.history, arguments.seed)
    cases = [case for group in plan.groups for case in group.cases]
    llm = chosen(evaluation.recorded(read_forecasts(arguments.llm), cases), arguments.name)
    asked = {row.case.key for row in llm.rows}
    groups = [group for group in plan.groups if any(case.key in asked for case in group.cases)]
    live = make_forecaster("learned", None)
    if live is None:
        raise UsageError("there is no learned forecaster")
    learned = evaluation.run(live, groups)
    origin = f"fitted by {arguments.loss} on {arguments.pool.name} and {arguments.llm.name}: {llm.name}"
    return pooling.fit_weights(outcomes(learned, llm), DEFAULT, loss=arguments.loss, origin=origin)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pool", type=Path, default=Path("pool/validation.parquet"))
    parser.add_argument("--llm", type=Path, required=True, help="recorded forecasts of a language model")
    parser.add_argument("--name", help="which of the recorded forecasters, where there are several")
    parser.add_argument("--history", type=int, default=0, help="measured kernels that were shown of each task")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--loss", choices=("nll", "crps"), default="nll")
    parser.add_argument("--write", nargs="?", type=Path, const=SHIPPED, help="file to write; the shipped one if bare")
    arguments = parser.parse_args()
    try:
        weights = train(arguments)
    except ForewarpError as e:
        print(e, file=sys.stderr)
        return 2
    print(json.dumps(asdict(weights), indent=2))
    if arguments.write is not None:
        pooling.write_weights(weights, arguments.write)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
