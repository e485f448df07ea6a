"""Forecaster over a model in this process: it asks the prompts that the usual forecaster would send to a server."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from forewarp.core.protocols import Subject, Trial
from forewarp.core.values import Cost, Forecast, Target, Task
from forewarp.surrogate import replies
from forewarp.surrogate.questions import Shown, question, system_prompt
from forewarp.training import chat


class Answerer:
    """Generates replies with a model of transformers, several prompts at a time; prompts keep their end when too long.

    `temperature` 0 takes the likeliest token each time.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        prompt_tokens: int,
        reply_tokens: int,
        sequences: int = 8,
        temperature: float = 1.0,
    ) -> None:
        self.model, self.tokenizer = model, tokenizer
        self._limits, self._sequences, self._temperature = (prompt_tokens, reply_tokens), sequences, temperature

    def texts(self, prompts: Sequence[str]) -> list[str]:
        """Return the model's continuation of each prompt, in order."""
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
        found = [""] * len(prompts)
        for start in range(0, len(order), self._sequences):
            places = order[start : start + self._sequences]
            for place, text in zip(places, self._some([prompts[i] for i in places]), strict=True):
                found[place] = text
        return found

    def _some(self, prompts: list[str]) -> list[str]:
        import torch

        longest, new = self._limits
        told = self.tokenizer(
            prompts,
            return_tensors="pt",
            padding=True,
            padding_side="left",
            truncation=True,
            max_length=longest,
            add_special_tokens=False,
        ).to(self.model.device)
        sampling: dict[str, Any] = {"do_sample": self._temperature > 0}
        if self._temperature > 0:
            sampling |= {"temperature": self._temperature, "top_k": 0, "top_p": 1.0}
        was = self.model.training
        self.model.eval()
        with torch.no_grad():
            out = self.model.generate(
                input_ids=told["input_ids"],
                attention_mask=told["attention_mask"],
                max_new_tokens=new,
                pad_token_id=self.tokenizer.pad_token_id,
                use_cache=True,
                **sampling,
            )
        self.model.train(was)
        return self.tokenizer.batch_decode(out[:, told["input_ids"].shape[1] :], skip_special_tokens=True)


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
