"""What forecasting itself costs: milliseconds a kernel in the learned tier, and in the language model's.

    python benchmarks/forecast_speed.py pool --out benchmarks/results/forecast_speed.json

The language model is a function that answers at once, so what is left is forewarp's and the SDK's own time: building
the prompt, sending it through the agent, reading the answer. The first call is left out: it imports.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from provenance import write
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from forewarp.archive.pools.parquet import read_pool
from forewarp.core.protocols import Forecaster, Subject, Trial
from forewarp.surrogate.learned import LearnedForecaster
from forewarp.surrogate.llm import LlmForecaster


def at_once(messages: Any, info: Any) -> ModelResponse:
    """Answer for every candidate of a prompt."""
    text = "\n".join(c for c in messages[0].parts[0].content if isinstance(c, str))
    one = {"rationale": "", "median": 1.0, "p": [0.125] * 8, "p_valid": 0.9}
    said = [{"candidate": name} | one for name in re.findall(r"(?m)^### (c\d+): ", text)]
    return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, {"analysis": "", "forecasts": said})])


def main() -> None:
    """Time both tiers on the validation tasks, with and without trials."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool", type=Path)
    parser.add_argument("--kernels", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows = [r for r in read_pool(args.pool) if r.origin.split == "validation"]
    found: dict[str, float] = {}
    makers: dict[str, Callable[[], Forecaster]] = {
        "learned": LearnedForecaster,
        "llm": lambda: LlmForecaster(FunctionModel(at_once), batch=args.kernels),
    }
    for name, make in makers.items():
        for trials in (0, 12):
            times: list[float] = []
            for task in sorted({r.task.name for r in rows}):
                mine = [r for r in rows if r.task.name == task]
                subjects = [Subject(r.candidate, r.build) for r in mine[: args.kernels]]
                after = mine[args.kernels : args.kernels + trials]
                history = [Trial(Subject(r.candidate, r.build), r.measurement) for r in after]
                for turn in range(args.rounds):
                    forecaster = make()
                    start = time.perf_counter()
                    forecaster.forecast(mine[0].task, mine[0].target, subjects, history)
                    if turn:
                        times.append(1e3 * (time.perf_counter() - start))
            per_kernel = statistics.median(times) / args.kernels
            found[f"{name}, {trials} trials"] = per_kernel
            print(f"{name}, {trials} trials known: {per_kernel:.2f} ms a kernel, {args.kernels} at once")
    if args.out:
        write(args.out, {"kernels": args.kernels, "ms_per_kernel": found})


if __name__ == "__main__":
    main()
