"""Smaller shapes of a workload: small enough to be interpreted, large enough to be several programs with odd ends."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from forewarp.core.values import Candidate, Constant, Signature, Workload
from forewarp.gpu_runner.formats import plan as plans
from forewarp.gpu_runner.worker.loading import load_problem
from forewarp.gpu_runner.worker.problem import tensors_of
from forewarp.gpu_runner.worker.requests import TaskJob
from forewarp.gpu_runner.worker.signatures import describe_shapes
from forewarp.inspection.describing import describe

_LARGE = 1 << 26
"""Elements beyond which a reference is not run to learn its outputs' shapes."""
_BEYOND = 1 << 50
"""Added to the elements of inputs where those of the outputs were not looked at."""
_WORTH_HALVING, _LEAST_HALVED = 32, 8
"""Constants from the first on are halved; where that is not enough, from the second on."""
_PHASES = ((_WORTH_HALVING, True), (_LEAST_HALVED, True), (_WORTH_HALVING, False), (_LEAST_HALVED, False))
"""Least constant to halve, and whether what suits the candidate's code has to go on doing so."""

Constants = Mapping[str, Constant]


@dataclass(frozen=True, slots=True)
class Size:
    """Elements of inputs, parameters and outputs, and program instances of all launches; 0 where these are unknown."""

    elements: int
    programs: int

    def holds(self, other: Size) -> bool:
        return other.elements <= self.elements and other.programs <= self.programs


@dataclass(frozen=True, slots=True)
class _Dial:
    """A whole number among the constants, by itself or in a list."""

    name: str
    position: int | None

    def read(self, constants: Constants) -> int:
        value: Any = constants[self.name]
        return int(value if self.position is None else value[self.position])

    def halve(self, constants: Constants) -> dict[str, Constant]:
        """Return the constants with this one halved; an odd number stays odd."""
        old = self.read(constants)
        return self.set(constants, old // 2 + (1 if old % 2 and old // 2 % 2 == 0 else 0))

    def set(self, constants: Constants, number: int) -> dict[str, Constant]:
        if self.position is None:
            return {**constants, self.name: number}
        whole: Any = list(constants[self.name])  # pyright: ignore[reportArgumentType]
        whole[self.position] = number
        return {**constants, self.name: whole}


def defaults(job: TaskJob, workload: Workload) -> dict[str, Constant]:
    """Return every constant of the reference that may give a shape, as the workload sets it."""
    if job.task.format != "kernelbench":
        return dict(workload.constants)
    module = load_problem(job, workload, 0).module
    found: dict[str, Constant] = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in vars(module).items()
        if not name.startswith("_") and _is_shape(value)
    }
    return found | dict(workload.constants)


def _is_shape(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return 0 < len(value) <= 8 and all(type(v) is int for v in value)  # pyright: ignore[reportUnknownVariableType]
    return type(value) is int


def _dials(constants: Constants) -> Iterator[_Dial]:
    for name, value in constants.items():
        if isinstance(value, list):
            yield from (_Dial(name, i) for i, v in enumerate(value) if type(v) is int)
        elif type(value) is int:
            yield _Dial(name, None)


class Shrinker:
    """Halves the constants of one workload."""

    def __init__(self, job: TaskJob, workload: Workload, candidate: Candidate) -> None:
        self._job, self._workload, self._candidate = job, workload, candidate
        self.original = defaults(job, workload)
        self._units = _units(candidate)
        self._signatures: dict[str, Signature] = {}
        self._built_for = self._compiled(self.original)
        self.why_not = ""
        """Problem of the last shapes that did not work."""

    def with_constants(self, constants: Constants) -> Workload:
        """Return the workload with other constants; what it does not set itself only where that was changed."""
        own = defaults(self._job, self._workload)
        changed = {k: v for k, v in constants.items() if k in self._workload.constants or own.get(k) != v}
        return Workload(self._workload.name, changed)

    def measure(self, constants: Constants) -> Size | None:
        """Return how large the workload is with these constants; None where reference or plan do not go with them."""
        workload = self.with_constants(constants)
        try:
            known = self._inputs(workload, constants)
            if known > _LARGE:
                return Size(_BEYOND + known, 0)
            signature = self._described(workload)
            tensors = (*signature.inputs, *signature.params, *signature.outputs)
            return Size(sum(math.prod(t.shape) for t in tensors), self._programs(signature))
        except Exception as e:  # the reference's own code may refuse in any way
            self.why_not = f"{type(e).__name__}: {e}"
            return None

    def signature(self, constants: Constants) -> Signature:
        """Describe the workload with these constants, above `_LARGE` by shapes; raises what the reference raises."""
        workload = self.with_constants(constants)
        large = self._inputs(workload, constants) > _LARGE
        return describe_shapes(self._job, workload) if large else self._described(workload)

    def _described(self, workload: Workload) -> Signature:
        """Describe a shape, once: it is asked for its size and for what is compiled for it."""
        key = repr(sorted(workload.constants.items()))
        if key not in self._signatures:
            self._signatures[key] = describe(self._job, workload, flops=False)
        return self._signatures[key]

    def _inputs(self, workload: Workload, constants: Constants) -> int:
        try:
            values = load_problem(self._job, workload, 0).inputs(0, "meta")
        except Exception:  # it needs values; then the constants' product has to do
            return math.prod(max(1, dial.read(constants)) for dial in _dials(constants))
        return sum(t.numel() for t in tensors_of(values))

    def _programs(self, signature: Signature) -> int:
        if self._candidate.language == "python":
            return 0
        return plans.resolve(plans.parse(self._candidate), signature, self._candidate.tunables).programs

    def shrink(
        self,
        constants: Constants,
        fits: Callable[[Size], bool],
        *,
        whole_blocks: bool = False,
        keep: _Dial | None = None,
    ) -> Constants | None:
        """Halve the largest constants, but `keep`, until the size fits, or as far as that goes; None if nothing works.

        At first, shapes stay ones that the candidate's code suits (`cuts_blocks`); with `whole_blocks`, always.
        """
        size = self.measure(constants)
        if size is None:
            return None
        for least, strict in _PHASES[: 2 if whole_blocks else 4]:
            fixed = {keep}
            while not fits(size):
                free = [d for d in _dials(constants) if d not in fixed and d.read(constants) >= least]
                if not free:
                    break
                dial = max(free, key=lambda d: d.read(constants))
                smaller = self._halved(constants, size, dial, keep)
                if smaller is None or not _helps(fits, size, smaller[1]) or (strict and self.cuts_blocks(smaller[0])):
                    fixed.add(dial)
                else:
                    constants, size = smaller
        return constants

    def cuts_blocks(self, constants: Constants) -> bool:
        """Return whether a block size divides a constant of the task, not the one here, or CUDA code would differ."""
        if self._compiled(constants) != self._built_for:
            return True
        pairs = [(d.read(self.original), d.read(constants)) for d in _dials(constants) if d.name in self.original]
        return any(before % unit == 0 and now % unit for before, now in pairs for unit in self._units)

    def written_into_code(self, constants: Constants) -> str:
        """Name the constants that differ from the task's and stand in the candidate's code with the task's value."""
        own = {d: d.read(self.original) for d in _dials(constants) if d.name in self.original}
        code = set(re.findall(r"\b\d+\b", self._candidate.source.replace("_", "")))
        changed = [d for d, value in own.items() if value != d.read(constants) and str(value) in code]
        return ", ".join(f"{d.name} = {own[d]}" for d in changed)

    def larger(self, constants: Constants) -> Iterator[Constants]:
        """Yield the constants with one of them nearer to the task's own, for each of them from near to far."""
        for dial in [d for d in _dials(constants) if d.name in self.original]:
            for number in self._towards_own(dial, dial.read(constants) + 1):
                yield dial.set(constants, number)

    def stretched(self, constants: Constants, fits: Callable[[Size], bool]) -> Iterator[Constants]:
        """Yield shapes with one constant near the task's own, four times the given or more, the smallest first.

        For that the others are halved further, as long as they suit the candidate's code as now.
        """
        dials = [d for d in _dials(constants) if d.name in self.original]
        for dial in sorted(dials, key=lambda d: d.read(constants) / max(1, d.read(self.original))):
            nearest, shape = None, constants
            for number in self._towards_own(dial, 4 * max(1, dial.read(constants))):
                suited = Shrinker(self._job, self.with_constants(dial.set(shape, number)), self._candidate)
                shrunk = suited.shrink(suited.original, fits, whole_blocks=True, keep=dial)
                size = self.measure(shrunk) if shrunk is not None else None
                if shrunk is None or size is None:
                    continue  # the reference may take other numbers only
                if not fits(size):
                    break
                shape = shrunk
                if not self.cuts_blocks(dial.set(self.original, number)):
                    nearest = shape
            if nearest is not None:
                yield nearest

    def _towards_own(self, dial: _Dial, least: int) -> list[int]:
        """Return the task's own number and its halves, down to `least`, in ascending order."""
        numbers, now = list[int](), self.original
        while dial.read(now) >= least:
            numbers.insert(0, dial.read(now))
            now = dial.halve(now)
        return numbers

    def _compiled(self, constants: Constants) -> dict[str, int | float]:
        """Return what a CUDA plan compiles in besides its tunables; empty for other candidates and refused shapes."""
        if self._candidate.language != "cuda":
            return {}
        try:
            signature = self._described(self.with_constants(constants))
            resolved = plans.resolve(plans.parse(self._candidate), signature, self._candidate.tunables)
        except Exception:  # the reference's own code may refuse in any way; `measure` says why
            return {}
        return dict(resolved.constants)

    def _halved(
        self, constants: Constants, size: Size, dial: _Dial, keep: _Dial | None
    ) -> tuple[Constants, Size] | None:
        """Halve one constant, or else all of its value but `keep` together, because some must stay equal."""
        value = dial.read(constants)
        alone = dial.halve(constants)
        together = alone
        for other in _dials(constants):
            if other not in (dial, keep) and other.read(constants) == value:
                together = other.halve(together)
        for trial in (alone, together):
            found = self.measure(trial)
            if found is not None and found != size and found.elements <= size.elements:
                return trial, found
        return None


def _units(candidate: Candidate) -> set[int]:
    """Return what may be a block size: the tunables chosen, products of two, and every whole number in the code."""
    code = candidate.source
    chosen = dict(candidate.tunables)
    if candidate.language != "python" and plans.has_block(code):
        chosen = plans.parse(candidate).defaults() | chosen
        code = plans.without_block(code)
    products = (a * b for a, b in combinations(chosen.values(), 2))
    return {u for u in (*chosen.values(), *products, *map(int, re.findall(r"\b\d{1,6}\b", code))) if u > 1}


def _helps(fits: Callable[[Size], bool], before: Size, after: Size) -> bool:
    """Return whether a halving brings down what there is too much of."""
    elements, programs = not fits(Size(before.elements, 0)), not fits(Size(0, before.programs))
    # Of a fixed number of programs, a launch more or less is no help.
    fewer_elements, fewer_programs = after.elements < before.elements, after.programs < 0.9 * before.programs
    if elements == programs:
        return fewer_elements or fewer_programs
    return fewer_elements if elements else fewer_programs
