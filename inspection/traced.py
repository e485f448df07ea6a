"""Inspection of a traced module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from forewarp.core.inspection import Code, Inspection, Launch
from forewarp.core.values import Evidence, Signature, Target
from forewarp.gpu_runner.compilers import cubin
from forewarp.gpu_runner.compilers.facts import facts, facts_of_kernels
from forewarp.gpu_runner.compilers.inspection import inspection
from forewarp.gpu_runner.compilers.occupancy import launch
from forewarp.inspection.tracing.values import Trace, TracedLaunch, WorkloadTrace

_HOW = {"cpu": "traced", "fake": "traced by shapes", "source": "compiled from the module's text"}


class _Reader:
    """Reads the cubins of a trace, each once; what is wrong with a launch goes to `problems`."""

    def __init__(self, trace: Trace, target: Target) -> None:
        self._folder, self._target = Path(trace.folder), target
        self._images: dict[str, dict[str, Code]] = {}
        self.problems: list[str] = []

    def launches(self, traced: Sequence[TracedLaunch]) -> tuple[Launch, ...]:
        return tuple(found for one in traced if (found := self._launch(one)) is not None)

    def _launch(self, one: TracedLaunch) -> Launch | None:
        if not one.cubin:
            return None
        try:
            code = self._codes(one.cubin).get(one.symbol)
        except (OSError, ValueError, IndexError, KeyError) as e:
            self.problems.append(f"{one.kernel}: its machine code cannot be read: {type(e).__name__}: {e}")
            return None
        if code is None:
            self.problems.append(f"{one.kernel}: its machine code has no {one.symbol}")
            return None
        grid = one.grid
        if grid is not None and not all(grid):
            shown = "×".join(str(n) for n in grid)
            self.problems.append(
                f"{one.kernel}: its grid is {shown} in the trace, which is no block; values that it lacks may decide"
            )
            grid = None
        # The symbol of a C++ kernel is mangled; its author knows it by another name.
        named = replace(code, kernel=one.kernel)
        found = launch(named, grid, one.block, one.shared, self._target, one.times)
        return replace(found, argument_bytes=one.bytes)

    def _codes(self, name: str) -> dict[str, Code]:
        if name not in self._images:
            self._images[name] = cubin.codes((self._folder / name).read_bytes(), self._target.arch)
        return self._images[name]


def of_trace(trace: Trace, signatures: Sequence[Signature], target: Target) -> Inspection:
    """Describe a module's launches; failed compiles and what was taken for granted are problems."""
    workloads, reader = trace.workloads, _Reader(trace, target)
    launches = {name: reader.launches(w.launches) for name, w in workloads.items()}
    calls = {name: [str(c) for c in w.calls] for name, w in workloads.items()}
    return inspection(
        target, "python", _how(workloads), signatures, launches, calls, [*reader.problems, *_said(workloads)]
    )


def evidence(trace: Trace, describe: Callable[[], Sequence[Signature]], target: Target) -> Evidence:
    """Return the evidence about a traced module before it runs, in the form that any compiled kernel has."""
    seen = of_trace(trace, describe(), target)
    return Evidence(facts(seen) | facts_of_kernels(seen), seen.problems)


def _how(workloads: Mapping[str, WorkloadTrace]) -> str:
    return ", ".join(dict.fromkeys(_HOW[w.strategy] for w in workloads.values()))


def _said(workloads: Mapping[str, WorkloadTrace]) -> list[str]:
    return [text for w in workloads.values() for text in (*w.problems, *w.notes)]
