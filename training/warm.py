"""Supervised warm start: replies that a forecaster should have given, by measured outcomes or recorded forecasts."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forewarp.archive.forecasts import RecordedForecast, read_forecasts
from forewarp.core import bins
from forewarp.core.errors import UsageError
from forewarp.surrogate.replies import SpeedupForecasts
from forewarp.training import chat
from forewarp.training.config import Config, Warm
from forewarp.training.model import computed_again, package, without_printing
from forewarp.training.rows import PromptRow

_VALID, _INVALID = 0.95, 0.10
"""Probabilities of validity in a label, for valid and invalid: an outcome is one draw, and no reason to be sure."""

_NO_LABEL = -100
"""Label that torch's cross-entropy leaves out."""

Recorded = Mapping[tuple[str, str], RecordedForecast]


def label(row: PromptRow, warm: Warm, climatology: Sequence[float], rng: random.Random) -> SpeedupForecasts:
    """Return the reply to learn: probabilities around the measured speed-up, of a width drawn between two limits."""
    low, high = map(math.log, warm.spread)
    forecasts: list[tuple[float, Sequence[float], float]] = []
    for outcome in row.outcomes:
        spread = math.exp(rng.uniform(low, high))
        if outcome.speedup is None:
            forecasts.append((1.0, climatology, _INVALID))
        else:
            forecasts.append((outcome.speedup, bins.from_normal(math.log2(outcome.speedup), spread), _VALID))
    return chat.reply(forecasts)


def distilled(row: PromptRow, recorded: Recorded) -> SpeedupForecasts | None:
    """Return the recorded forecasts of a row's candidates as the reply to learn, or None where one has no record."""
    records = [recorded.get((row.task, o.kernel)) for o in row.outcomes]
    forecasts: list[tuple[float, Sequence[float], float]] = []
    for record in records:
        if record is None or record.probabilities is None:
            return None
        centre = bins.mean_log2(record.probabilities) if record.mean_log2 is None else record.mean_log2
        forecasts.append((2.0**centre, record.probabilities, _VALID if record.p_valid is None else record.p_valid))
    reply = chat.reply(forecasts)
    words = [record.rationale for record in records if record is not None]
    worded = [f.model_copy(update={"rationale": w}) for f, w in zip(reply.forecasts, words, strict=True)]
    return reply.model_copy(update={"forecasts": worded})


def dataset(config: Config, draws: Sequence[Sequence[PromptRow]], climatology: Sequence[float], tokenizer: Any) -> Any:
    """Return the tokens of all epochs, each of the next draw of prompts in a new order; raises `UsageError`."""
    recorded = {(f.task, f.kernel): f for path in config.warm.recorded for f in read_forecasts(Path(path).expanduser())}
    asked = [_tokens(tokenizer, [chat.prompt(tokenizer, r.system, r.user) for r in draw]) for draw in draws]
    epochs: list[Any] = []
    for epoch in range(config.warm.epochs):
        rng = random.Random(f"{config.seed} warm {epoch}")
        rows, prompts = draws[epoch % len(draws)], asked[epoch % len(draws)]
        places = list(range(len(rows)))
        rng.shuffle(places)
        replies = {
            i: distilled(rows[i], recorded) if recorded else label(rows[i], config.warm, climatology, rng)
            for i in places
        }
        labels = {i: reply for i, reply in replies.items() if reply is not None}
        if not labels:
            raise UsageError(
                "no recorded forecast is about a row of the training split", hint="see docs/forecasting.md"
            )
        examples: list[dict[str, list[int]]] = []
        texts = [chat.completion(tokenizer, rows[i].system, rows[i].user, reply) for i, reply in labels.items()]
        for i, after in zip(labels, _tokens(tokenizer, texts), strict=True):
            before = prompts[i]
            unlearned = before if epoch < config.warm.whole else [_NO_LABEL] * len(before)
            examples.append({"input_ids": before + after, "labels": unlearned + after})
        epochs.append(package("datasets").Dataset.from_list(examples))
    return package("datasets").concatenate_datasets(epochs)


def _tokens(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    return tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []


def trainer(config: Config, folder: Path, model: Any, tokenizer: Any, data: Any, callbacks: list[Any]) -> Any:
    """Return TRL's supervised trainer for one pass over tokens that are in their order already."""
    import torch

    cuda = torch.cuda.is_available()
    args = package("trl").SFTConfig(
        output_dir=str(folder),
        num_train_epochs=1,
        per_device_train_batch_size=config.warm.batch,
        learning_rate=config.warm.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=min(50, len(data) // config.warm.batch // 10),
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
        seed=config.seed,
    )
    made = package("trl").SFTTrainer(
        model=model, args=args, train_dataset=data, processing_class=tokenizer, callbacks=callbacks
    )
    return without_printing(made)
