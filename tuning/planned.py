"""Tunables of searched candidates, forecast: of Triton kernels with a plan, and of Inductor's code."""

from __future__ import annotations

import ast
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from forewarp.core.errors import CandidateError
from forewarp.core.trees import Array
from forewarp.core.values import Candidate, Signature, Target, Task, TensorSpec
from forewarp.gpu_runner.formats import plan as plans
from forewarp.gpu_runner.formats.plan import LaunchPlan, ResolvedPlan
from forewarp.tuning import feedback, forecasts, generated
from forewarp.tuning.counting import NotCounted
from forewarp.tuning.physics import fastest_first
from forewarp.tuning.space import MOST_PROPOSED, ArgumentValue, Configuration, Space, TensorArgument

Tunables = Mapping[str, int]
ENUMERATED = 50_000
"""Most choices that are listed; of more, so many are drawn."""


@dataclass(frozen=True, slots=True)
class ForecastChoices:
    """Choices of a plan's tunables with log2 of the seconds that each is forecast to take."""

    choices: Sequence[Tunables]
    octaves: Array

    def following(self, measured: Sequence[tuple[Tunables, float]]) -> list[Tunables]:
        """Return the choices that were not measured, the fastest by forecast first.

        `measured` holds choices with log2 of their times in any unit: errors of the forecasts that are alike for
        choices that are alike correct the others, and a level that all have in common tells nothing.
        """
        places = {tuple(c.values()): i for i, c in enumerate(self.choices)}
        known = {places[key]: time for c, time in measured if (key := tuple(c.values())) in places}
        order = fastest_first(2.0**self.octaves)
        points = [Configuration(c) for c in self.choices]
        return [self.choices[i] for i in feedback.following(order, self.octaves, points, known)]


class TunableForecaster:
    """Orders choices of Triton kernels' tunables for one target; `describe` gives a task's signatures."""

    def __init__(self, target: Target, describe: Callable[[Task], Sequence[Signature]]) -> None:
        self._target, self._describe = target, describe
        self._known: dict[tuple[str, str], ForecastChoices | None] = {}

    def fastest_first(
        self, task: Task, candidate: Candidate, measured: Sequence[tuple[Tunables, float]]
    ) -> Sequence[Tunables]:
        """Return choices for the candidate's source as `ForecastChoices.following`, none where it is not followed."""
        key = task.sha256, candidate.source
        if key not in self._known:
            self._known[key] = self.forecast(task, candidate)
        found = self._known[key]
        return found.following(measured) if found is not None else ()

    def forecast(self, task: Task, candidate: Candidate) -> ForecastChoices | None:
        """Return forecasts of the choices for a candidate's source; None where it is not followed."""
        if candidate.language not in ("triton", "python") or self._target.kind != "cuda":
            return None
        try:
            plan = plans.parse(candidate)
            if candidate.language == "python":
                seconds, fastest = zip(*generated.forecast(candidate.source, plan.tunables, self._target), strict=True)
                return ForecastChoices(fastest, np.log2(seconds))
            return forecast(candidate.source, plan, choices_of(plan)[0], self._describe(task), self._target)
        except (CandidateError, NotCounted):
            return None


def choices_of(plan: LaunchPlan, most: int = MOST_PROPOSED) -> tuple[list[dict[str, int]], int]:
    """Return the choices of a plan's tunables and their number; of more than `most`, its defaults and random others.

    The number of more than `ENUMERATED` is that without the constraints.
    """
    chance, default = random.Random(0), plan.defaults()
    number = math.prod(map(len, plan.tunables.values()))
    if number <= ENUMERATED:
        choices = list(plan.combinations())
        number = len(choices)
    else:
        drawn = ({n: chance.choice(values) for n, values in plan.tunables.items()} for _ in range(ENUMERATED))
        choices = [dict(c) for c in dict.fromkeys(tuple(c.items()) for c in drawn if plan.allows(c))]
    if number > most:
        others = [c for c in choices if c != default]
        choices = [default, *chance.sample(others, min(most - 1, len(others)))]
    return choices, number


def forecast(
    source: str, plan: LaunchPlan, choices: Sequence[Tunables], signatures: Sequence[Signature], target: Target
) -> ForecastChoices:
    """Forecast what each choice of a Triton kernel's tunables takes, the geometric mean over the workloads.

    Choices that the plan cannot be worked out for are left out. Raises `NotCounted` where the text cannot be followed.
    """
    functions = _functions(source)
    kept: list[Tunables] = []
    resolved: list[list[ResolvedPlan]] = []
    for choice in choices:
        try:
            resolved.append([plans.resolve(plan, s, choice) for s in signatures])
        except CandidateError:
            continue
        kept.append(choice)
    if not kept or not signatures:
        raise NotCounted("no choice of the tunables can be launched")
    octaves = np.zeros(len(kept))
    for signature, each in zip(signatures, zip(*resolved, strict=True), strict=True):
        buffers = plans.bind(plan, signature)
        spaces = [_space(functions, each, buffers, place) for place in range(len(plan.launches))]
        octaves += np.log2(sum(forecasts.forecast(s, target).seconds for s in spaces)) / len(signatures)
    return ForecastChoices(kept, octaves)


def _functions(source: str) -> dict[str, ast.FunctionDef]:
    try:
        return {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    except (SyntaxError, ValueError) as e:
        raise NotCounted(f"the source cannot be read: {e}") from e


def _space(
    functions: Mapping[str, ast.FunctionDef],
    each: Sequence[ResolvedPlan],
    buffers: Mapping[str, TensorSpec],
    place: int,
) -> Space:
    """Return the space of one launch, a configuration for each resolved plan.

    Numbers that depend on the tunables are values of the configurations, all others arguments.
    """
    launches = [plan.launches[place] for plan in each]
    kernel = functions.get(launches[0].kernel)
    if kernel is None:
        raise NotCounted(f"the source has no function {launches[0].kernel}")
    parameters = [a.arg for a in kernel.args.args if "constexpr" not in ast.unparse(a.annotation or ast.Constant(""))]
    arguments: dict[str, ArgumentValue] = {}
    varying: dict[str, list[object]] = {}
    for name, *given in zip(parameters, *(launch.args for launch in launches), strict=False):
        if given[0].kind == "ptr":
            buffer = buffers.get(given[0].name) or next(s for s in each[0].scratch if s.name == given[0].name)
            arguments[name] = TensorArgument(buffer.dtype, buffer.shape)
        elif len({g.value for g in given}) == 1:
            arguments[name] = given[0].value
        else:
            varying[name] = [g.value for g in given]
    configurations = [
        Configuration(
            {**plan.constants, **{n: values[i] for n, values in varying.items()}}, launch.num_warps, launch.num_stages
        )
        for i, (plan, launch) in enumerate(zip(each, launches, strict=True))
    ]
    helpers = {n: ast.unparse(f) for n, f in functions.items() if n != kernel.name}
    return Space(
        kernel.name, ast.unparse(kernel), arguments, configurations, [launch.grid for launch in launches], helpers
    )
