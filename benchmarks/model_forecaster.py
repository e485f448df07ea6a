"""Forecaster over a model in this process: it asks the prompts that the usual forecaster would send to a server."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from forewarp.core.protocols import Subject, Trial
from forewarp.core.values import Cost, Forecast, Target, Task
from forewarp.surrogate import replies
from forewarp.surrogate.questions import Shown, question, system_prompt
from forewarp.training import chat
from forewarp.training.config import Config
from forewarp.training.model import Answerer, base_model


def with_adapter(config: Config, adapter: Path) -> Any:
    """Return the base model with a saved adapter, or the saved model itself where all weights were trained."""
    if not config.lora:
        return base_model(config.model_copy(update={"base": str(adapter)}))
    return import_module("peft").PeftModel.from_pretrained(base_model(config), str(adapter))


class ModelForecaster:
    """A `Forecaster` over an `Answerer`: the mean of `samples` answers, uniform where none can be read."""

    def __init__(
        self, name: str, answerer: Answerer, *, shown: Shown | None = None, candidates: int = 1, samples: int = 1
    ) -> None:
        self.name, self._answerer = name, answerer
        self._shown, self._candidates, self._samples = shown or Shown(), candidates, samples
        self.unread, self.replies = 0, 0

    def forecast(
        self, task: Task, target: Target, subjects: Sequence[Subject], history: Sequence[Trial]
    ) -> list[Forecast]:
        """Return one forecast per subject, in order."""
        parts = [subjects[i : i + self._candidates] for i in range(0, len(subjects), self._candidates)]
        prompts = [
            chat.prompt(self._answerer.tokenizer, system_prompt(), question(task, target, p, history, self._shown).text)
            for p in parts
        ]
        start = time.perf_counter()
        texts = self._answerer.texts([p for p in prompts for _ in range(self._samples)])
        cost = Cost((time.perf_counter() - start) / max(1, len(subjects)), 0, 0, 0.0)
        found: list[Forecast] = []
        for i, part in enumerate(parts):
            read = [replies.read(t, len(part)) for t in texts[i * self._samples : (i + 1) * self._samples]]
            self.replies, self.unread = self.replies + len(read), self.unread + read.count(None)
            for place in range(len(part)):
                said = [f for r in read if r is not None for f in replies.about(r, place)][: self._samples]
                found.append(replies.pooled(said, self.name, "no reply that fits the schema"))
        return [replace(f, cost=cost) for f in found]
