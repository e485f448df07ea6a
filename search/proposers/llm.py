"""Candidates that a language model writes, in the device-only format of the task's seeds."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from pydantic import BaseModel, Field
from pydantic_ai import ModelRetry
from pydantic_ai.models import Model

from forewarp.core.errors import CandidateError, ModelError
from forewarp.core.protocols import Known, Proposal, Subject, Trial
from forewarp.core.values import DEVICE_ONLY, Candidate, Cost, DeviceKind, Language, Measurement, Target, Task
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.prompts.render import render
from forewarp.surrogate import models
from forewarp.surrogate.features import program_of
from forewarp.surrogate.learned import is_valid
from forewarp.surrogate.listing import FENCES, clip
from forewarp.surrogate.models import LanguageModel

MAX_CALLS = 4
"""Candidates that one `propose` asks for at most."""

BEST_SHOWN = 3
FAILURES_SHOWN = 3
_RETRIES = 2
_SOURCE_LIMIT = 16_000
_FAILED_SOURCE_LIMIT = 5_000
_LOG_LIMIT = 1_500
_RUNS_ON: dict[DeviceKind, tuple[Language, ...]] = {"cpu": ("cpp",), "cuda": ("triton", "cuda")}

_FIRST = (
    "Write the best kernel you can from first principles for the slowest part of the reference.",
    "Fuse as much of the reference as possible, so that every byte moves once.",
    "Choose another decomposition of the work than the example's: another parallel axis, another tile, another order.",
    "Aim at the hardware's widest path: vector or matrix instructions, wide loads, and enough work in flight.",
)
_LATER = (
    "Improve the best program: find what bounds it now and remove that.",
    "Combine the strengths of the programs above into one.",
    "Write a program that works quite differently from all of those above.",
    "Take the best program on its weakest workload, and speed that one up without losing the others.",
    "Cut memory traffic or the number of passes of the best program further.",
    "Raise the work in flight of the best program: unrolling, prefetching or pipelining, better use of registers.",
)


class NewKernel(BaseModel):
    """The reply that is asked for; the idea first, so that it is thought of before the code is written."""

    idea: str = Field(description="one or two sentences: what this candidate does differently, and why it is faster")
    language: str = Field(description="the candidate's language")
    source: str = Field(description="the complete file, launch plan included")


class LlmProposer:
    """Asks a language model for complete new programs, up to four at a time, each with another direction to go in.

    A reply whose launch plan is malformed goes back to the model with the message, twice at most; what is malformed
    then is dropped. Raises `ModelError` only if no call at all gave a reply because the provider could not be reached.
    """

    def __init__(self, model: str | Model | LanguageModel, *, base_url: str = "") -> None:
        self.model = models.resolve(model, base_url)
        self.name = f"llm:{self.model.label}"
        self.owed = Cost()
        """Cost of calls that gave no proposal; it is added to the next proposal that is made."""

    def propose(self, task: Task, target: Target, known: Known, count: int, rng: random.Random) -> list[Proposal]:
        """Return up to `count`, and at most four, new candidates."""
        calls = min(count, MAX_CALLS)
        if calls < 1:
            return []
        history = [*known.trials, *failed_builds(known, target)]
        seen = frozenset(known.seen)
        languages = languages_for(task, target)
        best = _best(history)
        directions = rng.sample(_LATER if best else _FIRST, calls)
        shown = _shown(task, languages, history, best)
        prompts = [
            render("propose_user.j2", task=task, target=target, direction=direction, **shown)
            for direction in directions
        ]
        system = render("propose_system.j2", languages=languages)
        answers = self.model.ask(system, prompts, NewKernel, check=_checker(languages, seen), retries=_RETRIES)
        return self._proposals(answers, seen, best[0].subject.candidate.sha256 if best else "")

    def _proposals(
        self, answers: Sequence[models.Answer[NewKernel] | ModelError], seen: frozenset[str], parent: str
    ) -> list[Proposal]:
        found: dict[str, Proposal] = {}
        errors = [a for a in answers if isinstance(a, ModelError)]
        for answer in answers:
            if isinstance(answer, ModelError):
                continue
            self.owed += answer.cost
            if answer.value is None:
                continue
            candidate = candidates.from_source(answer.value.source, answer.value.language)
            if candidate.sha256 not in seen and candidate.sha256 not in found:
                found[candidate.sha256] = Proposal(candidate, self.name, parent, answer.value.idea, self.owed)
                self.owed = Cost()
        if errors and len(errors) == len(answers):
            raise errors[0]
        return list(found.values())


def languages_for(task: Task, target: Target) -> tuple[Language, ...]:
    """Return the device-only languages to write in: those of the seeds that run on the target, else all that do."""
    able = _RUNS_ON[target.kind]
    used = {s.language for s in task.seeds if s.language in DEVICE_ONLY}
    return tuple(language for language in able if language in used) or able


def failed_builds(known: Known, target: Target) -> list[Trial]:
    """Return the attempts that did not compile as trials, so that there is something to learn from them."""
    return [
        Trial(
            Subject(a.proposal.candidate, a.build),
            Measurement(
                a.build.status,
                "failed",
                target.name,
                "T0" if a.proposal.candidate.language in DEVICE_ONLY else "T1",
                log=a.build.log,
            ),
        )
        for a in known.attempts
        if a.outcome == "compile_error" and a.build is not None
    ]


def _checker(languages: Sequence[Language], seen: frozenset[str]) -> Callable[[NewKernel, int], NewKernel]:
    def check(reply: NewKernel, _: int) -> NewKernel:
        if reply.language not in languages:
            raise ModelRetry(f"language must be one of {', '.join(languages)}, not {reply.language!r}")
        # Some models fence code even inside a field.
        reply = reply.model_copy(update={"source": _unfenced(reply.source)})
        try:
            candidate = candidates.from_source(reply.source, reply.language)
        except CandidateError as e:
            raise ModelRetry(f"The candidate cannot be read: {e}\nSend the complete corrected file.") from None
        if candidate.sha256 in seen:
            raise ModelRetry("This very candidate was tried already. Write another one.")
        return reply

    return check


def _unfenced(source: str) -> str:
    lines = source.strip("\n").splitlines()
    fenced = len(lines) > 2 and lines[0].startswith("```") and lines[-1].strip() == "```"
    return "\n".join(lines[1:-1]) + "\n" if fenced else source


def _best(history: Sequence[Trial]) -> list[Trial]:
    """Return the fastest trial of each of the best programs."""
    working = [t for t in history if is_valid(t.measurement) and t.measurement.speedup is not None]
    working.sort(key=lambda t: -(t.measurement.speedup or 0.0))
    by_program: dict[str, Trial] = {}
    for trial in working:
        by_program.setdefault(program_of(trial.subject.candidate), trial)
    return list(by_program.values())[:BEST_SHOWN]


def _failures(history: Sequence[Trial]) -> list[Trial]:
    """Return the latest failed trials of programs that never worked."""
    worked = {program_of(t.subject.candidate) for t in history if is_valid(t.measurement)}
    by_program = {program_of(t.subject.candidate): t for t in history}
    failed = [t for program, t in by_program.items() if program not in worked]
    return failed[-FAILURES_SHOWN:]


def _shown(
    task: Task, languages: Sequence[Language], history: Sequence[Trial], best: Sequence[Trial]
) -> dict[str, Any]:
    seed = next((s for language in languages for s in task.seeds if s.language == language), None)
    example = seed.source if seed else render(f"_example_{languages[0]}.j2")
    return {
        "languages": languages,
        "fences": FENCES,
        "example": example,
        "example_language": seed.language if seed else languages[0],
        "example_is_seed": seed is not None,
        "best": [_best_entry(t, history, seed) for t in best],
        "failures": [
            {
                "status": t.measurement.status if t.measurement.status != "ok" else t.measurement.verdict,
                "language": t.subject.candidate.language,
                "log": clip(t.measurement.log.strip(), _LOG_LIMIT) or "(no log)",
                "source": clip(t.subject.candidate.source, _FAILED_SOURCE_LIMIT),
            }
            for t in _failures(history)
        ],
    }


def _best_entry(trial: Trial, history: Sequence[Trial], seed: Candidate | None) -> dict[str, Any]:
    candidate, evidence = trial.subject.candidate, trial.subject.build.evidence
    program = program_of(candidate)
    return {
        "speedup": trial.measurement.speedup,
        "workloads": trial.measurement.workloads,
        "language": candidate.language,
        "tunables": dict(candidate.tunables),
        "settings": sum(program_of(t.subject.candidate) == program for t in history),
        "facts": dict(sorted(evidence.facts.items())),
        "problems": evidence.problems,
        "is_example": seed is not None and program == program_of(seed),
        "source": clip(candidate.source, _SOURCE_LIMIT),
    }
