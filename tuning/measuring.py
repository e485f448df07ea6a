"""Device time of each configuration of a caught launch, and whether its results are those of the first."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import torch

from forewarp.tuning.catching import TunedLaunch, catching

ROUNDS = 7
"""Samples of each configuration that is not left behind."""
BEHIND = 2.0
"""A configuration of which every sample takes so many times the best one's time, two at least, gets no more."""
FLUSH_BYTES = 768 << 20
"""Written before each sample: many times the L2 cache, and long enough for the host to enqueue the launch meanwhile."""
BATCH = 32
"""Samples that are enqueued before the first of them is read."""
CHECK_S, CHECKED = 10.0, 3
"""Seconds after which no more results are compared, but those of so many configurations in any case."""
_TOLERANCE = {torch.float64: 1e-8, torch.float32: 2e-3, torch.float16: 1e-2, torch.bfloat16: 2e-2}


@dataclass(slots=True)
class Timing:
    """Samples of one configuration in seconds, or the reason why there are none."""

    place: int
    samples: list[float] = field(default_factory=list[float])
    problem: str = ""
    registers: int = 0
    spills: int = 0
    shared: int = 0

    @property
    def seconds(self) -> float:
        """Median of the samples; infinite where there are none."""
        return median(self.samples) if self.samples and not self.problem else float("inf")


class Timer:
    """Times configurations of one launch against each other, in rounds of random order."""

    def __init__(self, launch: TunedLaunch, written: Sequence[str] = (), *, seed: int = 0) -> None:
        """`written` names the tensors that the kernel writes; all are compared where it is empty."""
        self.launch, self._chance = launch, random.Random(seed)
        tensors = {n: v for n, v in launch.arguments.items() if isinstance(v, torch.Tensor)}
        self._outputs = {n: v for n, v in tensors.items() if n in written} or tensors
        self._before: dict[str, torch.Tensor] = {}
        self._expected: dict[str, torch.Tensor] = {}
        self._flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")

    def check(self, place: int, *, compare: bool = True) -> Timing:
        """Launch a configuration once on the outputs as they were, and compare with what the first one wrote.

        Without `compare` it is only launched, and no tensor is copied: some kernels write parts, as many as the
        configuration says, that are added up later.
        """
        config = self.launch.configs[place]
        timing = Timing(place)
        if compare and not self._before:
            self._before = {n: v.clone() for n, v in self._outputs.items()}
        try:
            for name, tensor in self._before.items():
                self._outputs[name].copy_(tensor)
            self.launch.prepare(config)
            kernel = self.launch.run(config)
            torch.cuda.synchronize()
            timing.registers, timing.spills = getattr(kernel, "n_regs", 0) or 0, getattr(kernel, "n_spills", 0) or 0
            timing.shared = getattr(getattr(kernel, "metadata", None), "shared", 0) or 0
        except Exception as e:
            if "illegal" in str(e) or "misaligned" in str(e) or "unspecified" in str(e):
                raise  # the device is lost to this process
            timing.problem = f"{type(e).__name__}: {e}"[:200]
            return timing
        if compare and not self._expected:
            self._expected = {n: v.clone() for n, v in self._outputs.items()}
        timing.problem = self._difference()
        return timing

    def _difference(self) -> str:
        problems = (difference(name, expected, self._outputs[name]) for name, expected in self._expected.items())
        return next((p for p in problems if p), "")

    def time(
        self, timings: Sequence[Timing], *, until: float = float("inf"), told: Callable[[], None] = lambda: None
    ) -> None:
        """Sample the configurations that are right, in `ROUNDS` rounds or until the clock says `until`."""
        running = [t for t in timings if not t.problem]
        for number in range(ROUNDS):
            if number >= 2:
                running = not_behind(running)
            self._chance.shuffle(running)
            for first in range(0, len(running), BATCH):
                if time.monotonic() > until:
                    return
                pending = [(t, *self._sample(t)) for t in running[first : first + BATCH]]
                torch.cuda.synchronize()
                for timing, begin, end in pending:
                    timing.samples.append(begin.elapsed_time(end) * 1e-3)
                told()

    def _sample(self, timing: Timing) -> tuple[Any, Any]:
        config = self.launch.configs[timing.place]
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.launch.prepare(config)
        self._flush.fill_(timing.place & 127)
        begin.record()
        self.launch.run(config)
        end.record()
        return begin, end


def not_behind(timings: Sequence[Timing]) -> list[Timing]:
    """Return the configurations that are sampled on; one sample of hundreds waits for the host, and accuses none."""
    best = min((t.seconds for t in timings), default=float("inf"))
    return [t for t in timings if min(t.samples) <= BEHIND * best]


def differing_results(call: Callable[[], object], launch: TunedLaunch, places: Sequence[int]) -> dict[int, str]:
    """Do a whole call with each configuration, and return how its results differ from those with the first that runs.

    "" says that they do not. Long calls are done with the first `CHECKED` places only. Nothing can be compared where
    the call returns no tensors, or makes other inputs each time, so that even the first configuration differs from
    itself: then no place is told.
    """
    expected = _results(call, {})
    if not expected or _differ(expected, _results(call, {})):
        return {}
    found: dict[int, str] = {}
    until = time.monotonic() + CHECK_S
    for place in places:
        if len(found) >= CHECKED and time.monotonic() > until:
            break
        found[place] = _differ(expected, _results(call, {launch.kernel: launch.configs[place]}))
    return found


def _results(call: Callable[[], object], chosen: Mapping[str, Any]) -> list[torch.Tensor]:
    torch.manual_seed(0)
    with catching([], chosen=chosen):
        result = call()
    torch.cuda.synchronize()
    values = result if isinstance(result, tuple | list) else [result]
    return [v.detach().clone() for v in values if isinstance(v, torch.Tensor)]


def _differ(expected: Sequence[torch.Tensor], found: Sequence[torch.Tensor]) -> str:
    if len(expected) != len(found):
        return "the call gives another number of results"
    problems = (difference(f"result {i}", a, b) for i, (a, b) in enumerate(zip(expected, found, strict=True)))
    return next((p for p in problems if p), "")


def difference(name: str, expected: torch.Tensor, found: torch.Tensor) -> str:
    """Return how a tensor differs by more than its dtype's tolerance, relative to its norm; "" where it does not."""
    if not expected.is_floating_point():
        same = expected.dtype == torch.bool or torch.equal(expected, found)
        return "" if same else f"{name} differs from the first configuration's"
    a, b = expected.float(), found.float()
    here, there = torch.isfinite(a), torch.isfinite(b)
    if not torch.equal(here, there):
        return f"{name} is not finite where the first configuration's is, or the other way round"
    a, b = torch.where(here, a, 0), torch.where(there, b, 0)
    error = float((a - b).norm() / a.norm().clamp(min=1e-30))
    allowed = _TOLERANCE.get(expected.dtype, 5e-2)
    return (
        f"{name} differs by {error:.1e} from the first configuration's, {allowed:g} allowed" if error > allowed else ""
    )
