"""A run of any size, written straight into an archive: lineage, crosses, forecasts, decisions, failures, audits."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from support import synthetic_executor as synthetic

from forewarp.archive.store import Archive
from forewarp.core import bins, serde
from forewarp.core.budget import Budget
from forewarp.core.protocols import Proposal
from forewarp.core.values import (
    Build,
    Candidate,
    Cost,
    Decision,
    Forecast,
    Measurement,
    Signature,
    Target,
    TensorSpec,
    WorkloadTiming,
)
from forewarp.search.settings import SearchSettings

CARD = Target("NVIDIA H200", "cuda", "sm_90", 132, 4.8e12, 67e12, 989e12, 60 << 20, source="a data sheet")
SHAPES = ("square", "wide")
OPERATORS = ("tiling", "memory path", "pipelining", "repair", "cross")
ROUND, AGAIN, LINES = 8, 16, 60


@dataclass
class Made:
    """A candidate with its true log2 speed-up; `row` is its proposal."""

    candidate: Candidate
    truth: float
    row: int = 0


class Writer:
    """Writes one run, `ROUND` candidates and `measured` measurements a round."""

    def __init__(self, archive: Archive, count: int, *, forecaster: str = "knowing", correct: bool = True) -> None:
        self.archive, self.count, self.forecaster, self.correct = archive, count, forecaster, correct
        self.rng, self.task = random.Random(count), synthetic.task()
        caps = Budget(measurements=count // ROUND + 1, tokens=count * 3000)
        settings = SearchSettings(budget=caps, proposer="llm:paid", forecaster=forecaster)
        self.run = archive.create_run(self.task, CARD, serde.to_data(settings), {})
        archive.add_signatures(self.task, CARD, [_signature(name) for name in SHAPES])
        self.passed: list[Made] = []
        self.skipped: list[Made] = []
        self.best = 0.0

    def write(self) -> str:
        """Write all rounds and return the run's id."""
        with self.archive.transaction():
            for number in range(0, self.count, ROUND):
                self._round(number // ROUND, range(number, min(number + ROUND, self.count)))
            self.archive.set_status(self.run, "finished", "the budget of measurements is spent")
        return self.run

    def _round(self, round: int, numbers: Sequence[int]) -> None:
        proposals = [self._proposal(n) for n in numbers]
        rows = self.archive.add_proposals(self.run, round, [p for p, _ in proposals])
        fresh: list[Made] = []
        for number, row, (_, made) in zip(numbers, rows, proposals, strict=True):
            made.row = row
            if number % 9 == 8:
                self.archive.set_outcome(row, "compile_error", f"error: identifier v{number} is undefined")
            else:
                build = Build("ok", 1.5, artefact="memory", binary_sha256=made.candidate.sha256)
                self.archive.set_outcome(row, "passed", build=build)
                fresh.append(made)
        self.passed += fresh
        if self.forecaster:
            self._decide(round, fresh)
        else:
            for made in fresh:
                self.archive.add_decisions(self.run, round, {made.row: Decision("measure", "there is no forecaster")})
                self._measure(made)

    def _proposal(self, number: int) -> tuple[Proposal, Made]:
        rng = self.rng
        if not self.passed:
            made = Made(_program(rng, None, number), -0.5 - 0.1 * number)
            return Proposal(made.candidate, "llm:paid", operator="seed"), made
        parent = rng.choice(sorted(self.passed, key=lambda m: -m.truth)[:12])
        mate = rng.choice(self.passed).candidate.sha256 if number % 5 == 4 else ""
        made = Made(_program(rng, parent.candidate, number), parent.truth + rng.gauss(-0.05, 0.15))
        note = "a wider tile hides the latency of the loads"
        cost, operator = Cost(2.0, 2000, 500, 0.01), OPERATORS[number % 5]
        return Proposal(made.candidate, "llm:paid", parent.candidate.sha256, note, cost, mate, operator), made

    def _decide(self, round: int, fresh: Sequence[Made]) -> None:
        options = [*self.skipped[-AGAIN:], *fresh]
        said = {m.row: self._forecast(m) for m in options}
        self.archive.add_forecasts(self.run, round, said)
        chosen = max(options, key=lambda m: said[m.row].median, default=None)
        audit = next((m for m in fresh if m is not chosen and self.rng.random() < 0.05), None)
        decisions: dict[int, Decision] = {}
        for m in options:
            f = said[m.row]
            numbers = {"incumbent": 2**self.best, "gain": self.rng.random() / 7, "unsure": 0.3, "room": 1.0}
            if m is audit:
                numbers |= {"audit": 1.0, "discard": 1.0}
            elif m is not chosen:
                numbers |= {"discard": float(m in fresh)}
            reason = "audit: drawn from the discards" if m is audit else "promising: high expected improvement"
            action = "measure" if m in (chosen, audit) else "skip"
            told = reason if action == "measure" else "others promise more"
            decisions[m.row] = Decision(action, told, f.p_valid * numbers["gain"], numbers)  # type: ignore[arg-type]
        self.archive.add_decisions(self.run, round, decisions)
        self.skipped = [m for m in [*self.skipped, *fresh] if m not in (chosen, audit)]
        for m in filter(None, (chosen, audit)):
            self._measure(m)

    def _forecast(self, made: Made) -> Forecast:
        mean = made.truth + self.rng.gauss(0.0, 0.3)
        return Forecast(bins.from_normal(mean, 0.3), 0.9, self.forecaster, mean_log2=mean, sd_log2=0.3)

    def _measure(self, made: Made) -> None:
        build = Build("ok", 1.5, artefact="memory", binary_sha256=made.candidate.sha256)
        where: dict[str, Any] = {"run": self.run, "proposal": made.row, "purpose": "candidate"}
        number = self.archive.begin_measurement(self.task, CARD, made.candidate, **where)
        if not self.correct or made.row % 5 == 3:
            log = f"output 0: {made.row} elements differ\nfirst at [0, 1]"
            failed = Measurement("incorrect", "incorrect", CARD.name, "T0", device_s=0.4, log=log)
            self.archive.finish_measurement(number, failed, build)
            return
        s = 2.0 ** (made.truth + self.rng.gauss(0.0, 0.01))
        timings = tuple(
            WorkloadTiming(name, s, s * 0.98, s * 1.02, k * 4e-4 / s, k * 4e-4, 0.1, verdict="faster")
            for k, name in enumerate(SHAPES, 1)
        )
        verdict = "faster" if s * 0.98 > 1 else "slower" if s * 1.02 < 1 else "tie"
        m = Measurement("ok", verdict, CARD.name, "T0", "reference", s, s * 0.98, s * 1.02, timings, device_s=1.2)
        self.archive.finish_measurement(number, m, build)
        self.best = max(self.best, made.truth)


def _program(rng: random.Random, parent: Candidate | None, number: int) -> Candidate:
    """Return a program of its own text, or its parent with one to three lines or a tunable changed."""
    if parent is None:
        lines = [f"  const float v{k} = x[{k}] * {rng.random():.6f}f;" for k in range(LINES)]
        return Candidate("\n".join(['extern "C" void go() {', *lines, "}"]), "cuda", {"TILE": 64, "seed": number})
    if number % 3 == 0:
        return Candidate(parent.source, "cuda", {**parent.tunables, "TILE": rng.choice((32, 128, 256)), "seed": number})
    lines = parent.source.splitlines()
    for _ in range(rng.randint(1, 3)):
        lines[rng.randrange(1, len(lines) - 1)] = f"  const float w{number} = __ldg(x + {rng.randrange(999)}) < 3 && y;"
    return Candidate("\n".join(lines), "cuda", {**parent.tunables, "seed": number})


def _signature(workload: str) -> Signature:
    x, y = TensorSpec("x", (4096, 4096), "float32"), TensorSpec("y", (4096, 4096), "float32")
    scale = 1 + SHAPES.index(workload)
    return Signature(workload, (x,), {}, {}, (), (y,), scale * 4.0e9, scale * 2 * x.shape[0] * x.shape[1] * 4)
