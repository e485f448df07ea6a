"""The language-model forecaster: reads code, compiled facts and measured trials, several candidates at once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError
from pydantic_ai import CachePoint, ModelRetry
from pydantic_ai.messages import UserContent
from pydantic_ai.models import Model

from forewarp.core import serde
from forewarp.core.errors import ModelError
from forewarp.core.protocols import Subject, Trial
from forewarp.core.values import Cost, Forecast, Target, Task
from forewarp.surrogate import models, replies
from forewarp.surrogate.models import LanguageModel
from forewarp.surrogate.questions import Question, Shown, question, system_prompt
from forewarp.surrogate.replies import OneForecast, SpeedupForecasts

BATCH = 8
"""Candidates that one prompt asks about: a model orders what it sees side by side, and reads the task once."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A prompt that goes out, and the keys of the candidates that it asks about."""

    question: Question
    keys: tuple[str, ...]


class LlmForecaster:
    """Asks a language model for the distributions of several subjects at a time.

    `model` is a model string, a pydantic-ai model or a `LanguageModel`. Of `samples` answers to one prompt the mean is
    taken (a linear pool). Probabilities are normalised whatever they sum to, and the sum is kept as `raw_sum`. A
    candidate without a well-formed answer after one retry gets a uniform forecast with `p_valid` 0.5 that says so.
    Answers are kept by the text of the prompt, in memory and, with `cache`, in that folder; a repeated question costs
    nothing. Raises `ModelError` when the provider cannot be reached or refuses; what was answered by then is kept.
    """

    def __init__(
        self,
        model: str | Model | LanguageModel,
        *,
        base_url: str = "",
        concurrency: int = models.CONCURRENCY,
        batch: int = BATCH,
        samples: int = 1,
        shown: Shown | None = None,
        cache: Path | None = None,
    ) -> None:
        self.model = models.resolve(model, base_url)
        self.name = f"llm:{self.model.label}"
        self._concurrency, self._batch, self._samples = concurrency, max(1, batch), max(1, samples)
        self._shown, self._cache = shown or Shown(), cache
        self._answers: dict[str, Forecast] = {}
        self._unpaid: dict[str, Cost] = {}

    def forecast(
        self, task: Task, target: Target, subjects: Sequence[Subject], history: Sequence[Trial]
    ) -> list[Forecast]:
        """Return one forecast per subject, in order; only the first delivery of an answer carries its cost."""
        known = self._known(task, target, history)
        keys = [self._key(known, s) for s in subjects]
        new = {k: s for k, s in zip(keys, subjects, strict=True) if k not in self._answers and not self._recalled(k)}
        if new:
            self._ask(
                [
                    _Asked(question(task, target, [new[k] for k in part], history, self._shown), part)
                    for part in _parts(tuple(new), self._batch)
                ]
            )
        return [replace(self._answers[key], cost=self._unpaid.pop(key, Cost())) for key in keys]

    def _known(self, task: Task, target: Target, history: Sequence[Trial]) -> str:
        """Return the hash of what all answers of a call depend on: model, instructions, task, target and trials."""
        trials = [(t.subject.candidate.sha256, serde.to_data(t.measurement)) for t in history if self._shown.trials]
        told = [self.model.label, self._samples, system_prompt(), task.sha256, serde.to_data(target), trials]
        return _digest([*told, serde.to_data(self._shown)])

    def _key(self, known: str, subject: Subject) -> str:
        return _digest([known, subject.candidate.sha256, serde.to_data(subject.build.evidence)])

    def _ask(self, asked: Sequence[_Asked]) -> None:
        prompts = [_content(a.question) for a in asked for _ in range(self._samples)]
        sizes = [len(a.keys) for a in asked for _ in range(self._samples)]
        answers = self.model.ask(
            system_prompt(),
            prompts,
            SpeedupForecasts,
            check=lambda reply, place: _check(reply, sizes[place]),
            retries=1,
            concurrency=self._concurrency,
        )
        error: ModelError | None = None
        for i, one in enumerate(asked):
            mine = answers[i * self._samples : (i + 1) * self._samples]
            refused = next((a for a in mine if isinstance(a, ModelError)), None)
            if refused is not None:
                error = error or refused
                continue
            self._keep(one, [a for a in mine if not isinstance(a, ModelError)])
        if error is not None:
            raise error

    def _keep(self, asked: _Asked, answers: Sequence[models.Answer[SpeedupForecasts]]) -> None:
        cost = sum((a.cost for a in answers), Cost())
        problem = next((a.problem for a in answers if a.problem), "it does not mention this candidate")
        for place, key in enumerate(asked.keys):
            said = [f for a in answers if a.value is not None for f in replies.about(a.value, place)][: len(answers)]
            self._answers[key] = replies.pooled(said, self.name, problem)
            self._unpaid[key] = _share(cost, place, len(asked.keys))
            if said and self._cache is not None:
                _write(self._cache / f"{key}.json", said)

    def _recalled(self, key: str) -> bool:
        if self._cache is None:
            return False
        said = _read(self._cache / f"{key}.json")
        if said:
            self._answers[key] = replies.pooled(said, self.name, "")
        return bool(said)


def _digest(told: object) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _parts(keys: Sequence[str], size: int) -> list[tuple[str, ...]]:
    """Split into as few parts as there must be, all of about the same length."""
    count = -(-len(keys) // size)
    return [tuple(keys[i * len(keys) // count : (i + 1) * len(keys) // count]) for i in range(count)]


def _content(asked: Question) -> list[UserContent]:
    """Return the prompt with a mark behind what all prompts of the task share: some providers cache up to there."""
    return [asked.shared, CachePoint(), asked.own]


def _check(reply: SpeedupForecasts, count: int) -> SpeedupForecasts:
    problem = replies.complaint(reply, count)
    if problem:
        raise ModelRetry(problem)
    return reply


def _share(cost: Cost, place: int, count: int) -> Cost:
    """Return one candidate's part of what a prompt cost; the parts sum to the whole."""
    read, written = (n * (place + 1) // count - n * place // count for n in (cost.input_tokens, cost.output_tokens))
    return Cost(cost.seconds / count, read, written, None if cost.dollars is None else cost.dollars / count)


def _read(path: Path) -> list[OneForecast]:
    try:
        return SpeedupForecasts.model_validate_json(path.read_bytes()).forecasts
    except (OSError, ValidationError):
        return []


def _write(path: Path, said: Sequence[OneForecast]) -> None:
    """Store an answer in the cache; a cache that cannot be written is ignored."""
    scratch = path.with_suffix(".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_text(SpeedupForecasts(analysis="", forecasts=list(said)).model_dump_json(), encoding="utf-8")
        scratch.replace(path)
    except OSError:
        scratch.unlink(missing_ok=True)
