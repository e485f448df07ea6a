"""The language-model forecaster: reads code, compiled facts and measured trials, several candidates at once."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError
from pydantic_ai import CachePoint
from pydantic_ai.models import Model

from forewarp.core import serde
from forewarp.core.errors import ModelError
from forewarp.core.files import write_whole
from forewarp.core.protocols import Subject, Trial
from forewarp.core.values import Cost, Forecast, Target, Task
from forewarp.surrogate import models, replies
from forewarp.surrogate.alike import ExamplePool
from forewarp.surrogate.models import Answer, LanguageModel
from forewarp.surrogate.questions import Question, Shown, question, system_prompt
from forewarp.surrogate.replies import OneForecast, SpeedupForecasts

BATCH = 8
"""Candidates that one prompt asks about: a model orders what it sees side by side, and reads the task once."""


class LlmForecaster:
    """Asks a language model for the distributions of several subjects at a time.

    Probabilities are normalised, and their sum is kept as `raw_sum`. Without a well-formed answer after one retry a
    candidate gets a uniform forecast with `p_valid` 0.5 that says so. Answers are kept by the prompt's text, also in
    `cache`. Raises `ModelError` when the provider cannot be reached; what was answered by then is kept.
    """

    def __init__(
        self,
        model: str | Model | LanguageModel,
        *,
        batch: int = BATCH,
        shown: Shown | None = None,
        cache: Path | None = None,
        examples: Callable[[], ExamplePool] | None = None,
    ) -> None:
        """`examples` makes the pool that kernels of other tasks are shown from; it is read with the first question."""
        self.model = models.resolve(model)
        self.name = f"llm:{self.model.label}"
        self._batch, self._shown, self._cache = max(1, batch), shown or Shown(), cache
        self._examples = functools.cache(examples) if examples else None
        self._answers: dict[str, Forecast] = {}
        self._unpaid: dict[str, Cost] = {}

    def forecast(
        self, task: Task, target: Target, subjects: Sequence[Subject], history: Sequence[Trial]
    ) -> list[Forecast]:
        """Return one forecast per subject, in order; only the first delivery of an answer carries its cost."""
        known = self._known(task, target, history)
        keys = [_digest([known, s.candidate.sha256, serde.to_data(s.build.evidence)]) for s in subjects]
        new = {k: s for k, s in zip(keys, subjects, strict=True) if k not in self._answers and not self._recalled(k)}
        parts = _parts(tuple(new), self._batch) if new else []
        # The same for all parts, for they stand in what all prompts of a task share.
        alike = self._examples().nearest(task, target, list(new.values())) if self._examples and new else []
        self._ask(parts, [question(task, target, [new[k] for k in p], history, self._shown, alike) for p in parts])
        return [replace(self._answers[key], cost=self._unpaid.pop(key, Cost())) for key in keys]

    def _known(self, task: Task, target: Target, history: Sequence[Trial]) -> str:
        """Return the hash of what all answers of a call depend on: model, instructions, task, target and trials."""
        trials = [(t.subject.candidate.sha256, serde.to_data(t.measurement)) for t in history if self._shown.trials]
        shared = [self.model.label, system_prompt(), task.sha256, serde.to_data(target), trials, bool(self._examples)]
        return _digest([*shared, serde.to_data(self._shown)])

    def _ask(self, parts: Sequence[Sequence[str]], questions: Sequence[Question]) -> None:
        """Ask each question, and keep the answers by the keys of the candidates that it is about."""
        if not parts:
            return
        answers = self.model.ask(
            system_prompt(),
            # Some providers cache a prompt up to the mark: the part that all prompts of the task share.
            [[asked.shared, CachePoint(), asked.own] for asked in questions],
            SpeedupForecasts,
            check=lambda reply, place: replies.checked(reply, len(parts[place])),
            retries=1,
        )
        for keys, answer in zip(parts, answers, strict=True):
            if not isinstance(answer, ModelError):
                self._keep(keys, answer)
        error = next((a for a in answers if isinstance(a, ModelError)), None)
        if error is not None:
            raise error

    def _keep(self, keys: Sequence[str], answer: Answer[SpeedupForecasts]) -> None:
        problem = answer.problem or "it does not mention this candidate"
        for place, key in enumerate(keys):
            forecasts = replies.about(answer.value, place)[:1] if answer.value is not None else []
            self._answers[key] = replies.pooled(forecasts, self.name, problem)
            self._unpaid[key] = _share(answer.cost, place, len(keys))
            if forecasts and self._cache is not None:
                _write(self._cache / f"{key}.json", forecasts)

    def _recalled(self, key: str) -> bool:
        forecasts = _read(self._cache / f"{key}.json") if self._cache is not None else []
        if forecasts:
            self._answers[key] = replies.pooled(forecasts, self.name, "")
        return bool(forecasts)


def _digest(data: object) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def _parts(keys: Sequence[str], size: int) -> list[tuple[str, ...]]:
    """Split into as few parts as there must be, all of about the same length."""
    count = -(-len(keys) // size)
    return [tuple(keys[i * len(keys) // count : (i + 1) * len(keys) // count]) for i in range(count)]


def _share(cost: Cost, place: int, count: int) -> Cost:
    """Return one candidate's part of what a prompt cost; the parts sum to the whole."""
    read, written = (n * (place + 1) // count - n * place // count for n in (cost.input_tokens, cost.output_tokens))
    return Cost(cost.seconds / count, read, written, None if cost.dollars is None else cost.dollars / count)


def _read(path: Path) -> list[OneForecast]:
    try:
        return SpeedupForecasts.model_validate_json(path.read_bytes()).forecasts
    except (OSError, ValidationError):
        return []


def _write(path: Path, forecasts: Sequence[OneForecast]) -> None:
    """Store an answer in the cache; a cache that cannot be written is ignored."""
    with contextlib.suppress(OSError):
        write_whole(path, SpeedupForecasts(analysis="", forecasts=list(forecasts)).model_dump_json())
