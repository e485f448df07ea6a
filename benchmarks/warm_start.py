"""Supervised training of a model that knows nothing yet: it learns prompts, and replies around what was measured."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from forewarp.core import bins
from forewarp.surrogate.questions import name_of
from forewarp.surrogate.replies import OneForecast, SpeedupForecasts
from forewarp.training import chat
from forewarp.training.model import computed_again, without_printing
from forewarp.training.rows import PromptRow

VALID, INVALID = 0.95, 0.10
"""Probabilities of validity in a label, for valid and invalid: an outcome is one draw, and no reason to be sure."""

NO_LABEL = -100
"""Label that torch's cross-entropy leaves out."""


@dataclass(frozen=True)
class Warm:
    """Settings. The label of a candidate is a normal distribution over log2 S around what was measured.

    Its `spread` in octaves is drawn anew for each epoch between the two numbers, so that reinforcement finds forecasts
    of every sharpness to choose from. The first `whole` epochs learn the prompts, too.
    """

    epochs: int
    whole: int
    learning_rate: float
    batch: int
    seed: int
    spread: tuple[float, float] = (0.1, 2.0)


def reply(forecasts: Sequence[tuple[float, Sequence[float], float]]) -> SpeedupForecasts:
    """Return the reply, without words, that says (median, eight probabilities, p_valid) of each candidate in turn."""
    return SpeedupForecasts(
        analysis="",
        forecasts=[
            OneForecast(candidate=name_of(i), rationale="", median=max(0.01, m), p=list(p), p_valid=v)
            for i, (m, p, v) in enumerate(forecasts)
        ],
    )


def arguments(given: SpeedupForecasts) -> str:
    """Return a reply as JSON without spaces, its numbers in two places: few tokens, and no false digits."""
    each = [
        f'{{"candidate":{json.dumps(f.candidate)},"rationale":{json.dumps(f.rationale)},"median":{f.median:.2f},'
        f'"p":[{",".join(f"{p:.2f}" for p in f.p)}],"p_valid":{f.p_valid:.2f}}}'
        for f in given.forecasts
    ]
    return f'{{"analysis":{json.dumps(given.analysis)},"forecasts":[{",".join(each)}]}}'


def label(row: PromptRow, warm: Warm, climatology: Sequence[float], rng: random.Random) -> str:
    """Return the reply to learn: probabilities around the measured speed-up, of a width drawn between two limits."""
    low, high = map(math.log, warm.spread)
    forecasts: list[tuple[float, Sequence[float], float]] = []
    for outcome in row.outcomes:
        spread = math.exp(rng.uniform(low, high))
        if outcome.speedup is None:
            forecasts.append((1.0, climatology, INVALID))
        else:
            forecasts.append((outcome.speedup, bins.from_normal(math.log2(outcome.speedup), spread), VALID))
    return arguments(reply(forecasts))


def dataset(warm: Warm, draws: Sequence[Sequence[PromptRow]], climatology: Sequence[float], tokenizer: Any) -> Any:
    """Return the tokens of all epochs, each of the next draw of prompts in a new order."""
    epochs: list[Any] = []
    for epoch in range(warm.epochs):
        rng = random.Random(f"{warm.seed} warm {epoch}")
        rows = list(draws[epoch % len(draws)])
        rng.shuffle(rows)
        asked = [chat.prompt(tokenizer, r.system, r.user) for r in rows]
        examples: list[dict[str, list[int]]] = []
        for row, text in zip(rows, asked, strict=True):
            answer = {"role": "assistant", "content": label(row, warm, climatology, rng)}
            whole = tokenizer.apply_chat_template([*chat.messages(row.system, row.user), answer], tokenize=False)
            before, after = tokenizer([text, whole.removeprefix(text)], add_special_tokens=False)["input_ids"]
            unlearned = before if epoch < warm.whole else [NO_LABEL] * len(before)
            examples.append({"input_ids": before + after, "labels": unlearned + after})
        epochs.append(import_module("datasets").Dataset.from_list(examples))
    return import_module("datasets").concatenate_datasets(epochs)


def train(warm: Warm, folder: Path, model: Any, tokenizer: Any, data: Any) -> None:
    """Train for one pass over tokens that are in their order already."""
    import torch

    cuda = torch.cuda.is_available()
    args = import_module("trl").SFTConfig(
        output_dir=str(folder),
        num_train_epochs=1,
        per_device_train_batch_size=warm.batch,
        learning_rate=warm.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=min(50, len(data) // warm.batch // 10),
        dataset_kwargs={"skip_prepare_dataset": True},
        max_length=None,
        bf16=cuda,
        use_cpu=not cuda,
        **computed_again(False),
        train_sampling_strategy="sequential",
        save_strategy="no",
        logging_steps=10,
        report_to="none",
        disable_tqdm=True,
        seed=warm.seed,
    )
    made = import_module("trl").SFTTrainer(model=model, args=args, train_dataset=data, processing_class=tokenizer)
    without_printing(made).train()
