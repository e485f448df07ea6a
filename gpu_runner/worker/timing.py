"""The order of samples of one workload: interleaved blocks, looks, the A/A control, and the second numbers.

A block is ABBA or BAAB, drawn at random. After each look the controller says how to go on; it alone judges the samples.
Where there is something to beat, a sighting of a few blocks comes before the first look. Control blocks time the anchor
in both roles between the real ones. Every candidate call gets inputs that it has not seen: changed ones, or, where the
output will be compared, freshly drawn ones.
"""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch

from forewarp.core.values import Tier, TimingMode
from forewarp.gpu_runner.statistics import Samples
from forewarp.gpu_runner.worker.channel import LookAnswer
from forewarp.gpu_runner.worker.requests import MeasureJob, TimingLook
from forewarp.gpu_runner.worker.stage import Stage, fresh_seed

Arm = Literal["candidate", "anchor"]
Condition = Literal["cold", "warm", "launched"]
VERIFIED_EARLY, VERIFIED_LATE, EARLY_BLOCKS = 0.13, 0.02, 25
"""Chance that the outputs of a candidate's timed call are compared, in the early blocks and later.

The first call and the last before each look always are, so that it comes to a fifth of the first twelve blocks.
"""
CHEAP_VERIFY_S = 0.5
"""Where a comparison takes longer than this, fewer of those drawn by chance are made, so that they take no longer in
all: the oracle of a large convolution takes seconds."""
CONTROL_BLOCKS = 20
EXTRA_BLOCKS = 8
WARM_UPS = 3
LEAST_BLOCKS = 6
SIGHTING = 8
"""Blocks after which a candidate that has something to beat is looked at for the first time."""
CHAIN_TIME = 2
"""Kernels that are repeated within a graph get so many times the time: most of it goes to what is between them."""
GRAPH_BLOCKS, SHORT_S = 4, 50e-6
"""Kernels shorter than this, replayed as graphs, are noisier and cheaper: each look takes so many times the blocks."""
NATIVE_BLOCKS, NATIVE_TIME = 8, 16
"""Native code on a CPU is timed for so many times the time where its verdict is still open, and each look takes so many
times the blocks: single calls differ by a tenth and more, kernels from session to session by next to nothing."""
Sample = tuple[float, float]
"""Seconds, and the SM clock in hertz just before (0 where it is not known)."""


class DeviceHung(Exception):
    """A kernel runs on; only the end of this process ends it."""


class Bench(ABC):
    """Base of the ways to run and time a candidate: in cells, or by the trusted launcher on the GPU.

    `anchor_outputs` is for an anchor that is a kernel, not the reference. `asks_before_timing` has the judge wait for
    the controller before the first workload is timed. `fetches` says that a call's result is fetched within its time.
    """

    tier: Tier
    protections: list[str]
    conditions: tuple[Condition, ...] = ()
    asks_before_timing: bool = False
    anchor_outputs: Sequence[torch.Tensor] | None = None
    fetches: bool = False

    def __init__(self, job: MeasureJob) -> None:
        self.job, self.workloads, self.signatures = job, job.workloads, job.signatures
        self.weight_seed = job.weight_seed or fresh_seed()

    @abstractmethod
    def stage(self, index: int) -> Stage:
        """Prepare a workload: fresh inputs in place, both arms loaded."""

    @abstractmethod
    def choose_mode(self, stage: Stage, longest_s: float) -> TimingMode:
        """Settle how calls of this workload are launched, given the longer arm's seconds per call."""

    @abstractmethod
    def sample(self, stage: Stage, arm: Arm, slot: int, condition: Condition = "cold") -> Callable[[], Sample]:
        """Run one arm on a slot; the returned function gives the sample, and may wait for the device."""

    def try_spoilt(self, stage: Stage, slot: int) -> None:
        """Run the candidate on a slot; where a call ends with fetching its result, its inputs go bad before that."""
        self.sample(stage, "candidate", slot)()

    @abstractmethod
    def deliver(self) -> None:
        """Bring the candidate's last result into the judged buffers, and wait for it."""

    @abstractmethod
    def state(self) -> dict[str, float]:
        """Return the device's clocks and temperature, as far as they are known."""

    @abstractmethod
    def close(self) -> None:
        """End all that this bench started."""

    def excuse(self) -> None:  # noqa: B027
        """Ask nothing more about the times of the workload on stage: it comes again, or they decide nothing."""

    def flags(self) -> list[str]:
        return []


def each_workload(count: int, visit: Callable[[int, bool], LookAnswer]) -> bool:
    """Time each workload, and those that were left once more; return whether the candidate was beaten.

    `visit` gets a workload's index and whether it comes again, and returns its last answer. A candidate that does not
    seem to win gets a sighting of every workload before more is spent on any; one that seems to is timed in full at
    once.
    """
    answers = [visit(index, False) for index in range(count)]
    for index in [i for i, answer in enumerate(answers) if answer == "leave"]:
        if "beaten" not in answers:
            answers.append(visit(index, True))
    return "beaten" in answers


class Schedule:
    """Timing of one workload. `verify(slot)` compares outputs and returns the error; `ask` asks the controller.

    `controls` are the blocks of the anchor in both roles. `sighting` asks for a look before those of `looks`. Without
    `verify_looks`, the last call before a look is compared by chance only. After `run`, `ended` is what the controller
    said last.
    """

    def __init__(
        self,
        bench: Bench,
        stage: Stage,
        *,
        index: int,
        looks: Sequence[int],
        time_s: float,
        verify: Callable[[int], float],
        ask: Callable[[TimingLook], LookAnswer],
        controls: int = CONTROL_BLOCKS,
        sighting: bool = False,
        verify_looks: bool = True,
    ) -> None:
        self.bench, self.stage, self.verify, self.ask = bench, stage, verify, ask
        self.index, self.of, self.workload = index, len(bench.workloads), bench.workloads[index].name
        self.looks, self.time_s, self.sighting = tuple(looks), time_s, sighting
        self.controls, self.verify_looks = controls, verify_looks
        self.ended: LookAnswer = "enough"
        self.chance = random.Random()
        self.worst = self.verify_s = 0.0
        self.seconds: dict[str, list[float]] = {}
        self.hertz: dict[str, list[float]] = {}

    def run(self) -> Samples:
        pair_s, longest_s = self._pilot()
        mode = self.bench.choose_mode(self.stage, longest_s)
        scale = GRAPH_BLOCKS if mode == "graph" and longest_s < SHORT_S else 1
        time_s, patience, apart = self.time_s, 1, scale
        if mode == "chain":
            time_s, (pair_s, _) = CHAIN_TIME * time_s, self._pilot()  # such samples cost something else
        if mode == "native":
            apart, patience = NATIVE_BLOCKS, NATIVE_TIME
        wanted = [look * apart for look in self.looks]
        usual = self._affordable(time_s, pair_s, wanted)[-1]
        looks = self._affordable(patience * time_s, pair_s, wanted)
        deadline = time.perf_counter() + patience * time_s
        if not self.sighting or self._goes_on(min(SIGHTING * scale, looks[0]), mode, len(looks)):
            self._take(looks, mode, deadline, usual=usual)
        self.stage.check_inputs()
        self.stage.check_guards()
        self.stage.check_reference()
        return self._samples(mode, len(looks), ("", "control_", "warm_", "launched_"))

    def _goes_on(self, blocks: int, mode: TimingMode, planned: int) -> bool:
        """Take a sighting of so many blocks, without controls; return whether the workload is to be timed in full."""
        for number in range(blocks):
            self._block(number, first=number == 0, last=number + 1 == blocks)
        self.ended = self.ask(self._look(mode, planned, sighting=True))
        return self.ended not in ("leave", "beaten")

    def _take(self, looks: Sequence[int], mode: TimingMode, deadline: float, *, usual: int) -> None:
        """Take blocks until the controller has had enough (after `usual`, of any verdict), then the rest."""
        controls, taken = 0, len(self.seconds.get("candidate", ())) // 2
        for number, look in enumerate(looks):
            while taken < look:
                self._block(taken, first=taken == 0, last=taken + 1 == look)
                taken += 1
                if controls < self.controls:
                    self._control()
                    controls += 1
            if number + 1 == len(looks):
                self.ended = "enough"
            else:
                self.ended = self.ask(self._look(mode, len(looks), late=look >= usual))
            if self.ended in ("leave", "beaten"):
                return
            if self.ended == "enough":
                break
        # A measurement that ends early still owes its control, unless the kernels are slow.
        while controls < self.controls and time.perf_counter() < deadline:
            self._control()
            controls += 1
        for condition in self.bench.conditions:
            self._second(condition, deadline)

    def _pilot(self) -> tuple[float, float]:
        """Warm both arms up; return the wall seconds of one pair, and the longer arm's own."""
        longest, pairs = 0.0, list[float]()
        for turn in range(WARM_UPS):
            start = time.perf_counter()
            for arm in ("candidate", "anchor"):
                self.stage.renew(turn % self.stage.slot_count, arm)
                seconds = self._prepared(arm, turn % self.stage.slot_count)()[0]
                longest = max(longest, seconds) if turn else 0.0
            pairs.append(time.perf_counter() - start)
        return min(pairs[1:]), longest

    def _affordable(self, time_s: float, pair_s: float, looks: Sequence[int]) -> tuple[int, ...]:
        """Keep the looks that fit into the time, a block costing two pairs; slow kernels get one look at few blocks."""
        most = time_s / max(2 * pair_s, 1e-9)
        within = tuple(look for look in looks if look <= most)
        return within or (min(looks[0], max(LEAST_BLOCKS, int(4 * most))),)

    def _prepared(self, arm: Arm, slot: int, condition: Condition = "cold") -> Callable[[], Sample]:
        # Both arms are prepared alike, the one that is to run last, so that neither finds the memory in another state:
        # an arm that alone followed a draw of inputs was 1 % off on GPU kernels of 10 µs, 5 % on a CPU.
        for other in ("anchor", "candidate") if arm == "candidate" else ("candidate", "anchor"):
            self.stage.prepare(slot, other)
        return self.bench.sample(self.stage, arm, slot, condition)

    def _order(self, first: Arm, second: Arm) -> tuple[Arm, Arm, Arm, Arm]:
        return self.chance.choice([(first, second, second, first), (second, first, first, second)])

    def _block(self, number: int, *, first: bool, last: bool) -> None:
        # One slot for the whole block: where a buffer lies in memory makes a difference of its own.
        slot = self.chance.randrange(self.stage.slot_count)
        share = VERIFIED_EARLY if number < EARLY_BLOCKS else VERIFIED_LATE
        share *= min(1.0, CHEAP_VERIFY_S / max(self.verify_s, 1e-9))
        last &= self.verify_looks
        verified = [first or self.chance.random() < share, last or self.chance.random() < share]
        pending: list[tuple[Arm, Callable[[], Sample]]] = []
        for arm in self._order("candidate", "anchor"):
            # Alike for all four: inputs must not tell a call that is compared, nor leave other caches behind.
            self.stage.renew(slot, arm)
            pending.append((arm, self._prepared(arm, slot)))
            if arm == "candidate" and verified.pop(0):
                start = time.perf_counter()
                self.worst = max(self.worst, self.verify(slot))
                self.verify_s = time.perf_counter() - start
        for arm, sample in pending:
            self._keep(arm, sample())
        if self.bench.fetches and self.chance.random() < share:
            self._spoilt(slot)

    def _spoilt(self, slot: int) -> None:
        """Compare a call that is like the timed ones, but loses its inputs before its result is fetched."""
        self.stage.renew(slot, "candidate")
        for arm in ("anchor", "candidate"):
            self.stage.prepare(slot, arm)
        self.bench.try_spoilt(self.stage, slot)
        self.worst = max(self.worst, self.verify(slot))

    def _control(self) -> None:
        slot = self.chance.randrange(self.stage.slot_count)
        pending = [(role, self._prepared("anchor", slot)) for role in self._order("candidate", "anchor")]
        for role, sample in pending:
            self._keep(f"control_{role}", sample())

    def _second(self, condition: Condition, deadline: float) -> None:
        """Time a few blocks under another condition; none where the time is up."""
        for _ in range(EXTRA_BLOCKS):
            if time.perf_counter() > deadline and f"{condition}_anchor" not in self.seconds:
                return
            slot = self.chance.randrange(self.stage.slot_count)
            pending = [(arm, self._prepared(arm, slot, condition)) for arm in self._order("candidate", "anchor")]
            for arm, sample in pending:
                self._keep(f"{condition}_{arm}", sample())

    def _keep(self, series: str, sample: Sample) -> None:
        self.seconds.setdefault(series, []).append(sample[0])
        if sample[1]:
            self.hertz.setdefault(series, []).append(sample[1])

    def _look(self, mode: TimingMode, planned: int, *, sighting: bool = False, late: bool = False) -> TimingLook:
        return TimingLook(self._samples(mode, planned, ("",)), self.index, self.of, sighting, late)

    def _samples(self, mode: TimingMode, planned: int, prefixes: Sequence[str]) -> Samples:
        arms = [f"{prefix}{arm}" for prefix in prefixes for arm in ("candidate", "anchor")]
        series: dict[str, Any] = {f"{arm}_s": tuple(self.seconds.get(arm, ())) for arm in arms}
        series |= {f"{arm}_hz": tuple(self.hertz.get(arm, ())) for arm in ("candidate", "anchor")}
        return Samples(self.workload, error_ratio=self.worst, looks=planned, mode=mode, **series)
