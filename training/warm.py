"""Supervised warm start: replies that a forecaster should have given, by measured outcomes or recorded forecasts."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from forewarp.archive.forecasts import RecordedForecast
from forewarp.core import bins
from forewarp.surrogate.replies import SpeedupForecasts
from forewarp.training import chat
from forewarp.training.config import Config, Warm
from forewarp.training.packages import computed_again, package, without_printing
from forewarp.training.rows import PromptRow

_VALID, _INVALID = 0.95, 0.10
"""Probabilities of validity in a label, for valid and invalid: an outcome is one draw, and no reason to be sure."""

_NO_LABEL = -100
"""Label that torch's cross-entropy leaves out."""

Recorded = Mapping[tuple[str, str], RecordedForecast]


def label(row: PromptRow, warm: Warm, climatology: Sequence[float], rng: random.Random) -> SpeedupForecasts:
    """Return the reply to learn: probabilities around the measured speed-up, of a width drawn between two limits."""
    low, high = map(math.log, warm.spread)
    said: list[tuple[float, Sequence[float], float]] = []
    for outcome in row.outcomes:
        spread = math.exp(rng.uniform(low, high))
        if outcome.speedup is None:
            said.append((1.0, climatology, _INVALID))
        else:
            said.append((outcome.speedup, bins.from_normal(math.log2(outcome.speedup), spread), _VALID))
    return chat.reply(said)


def distilled(row: PromptRow, recorded: Recorded) -> SpeedupForecasts | None:
    """Return the recorded forecasts of a row's candidates as the reply to learn, or None where one has no record."""
    found = [recorded.get((row.task, o.kernel)) for o in row.outcomes]
    said: list[tuple[float, Sequence[float], float]] = []
    for one in found:
        if one is None or one.probabilities is None:
            return None
        centre = bins.mean_log2(one.probabilities) if one.mean_log2 is None else one.mean_log2
        said.append((2.0**centre, one.probabilities, _VALID if one.p_valid is None else one.p_valid))
    reply = chat.reply(said)
    words = [one.rationale for one in found if one is not None]
    told = [f.model_copy(update={"rationale": w}) for f, w in zip(reply.forecasts, words, strict=True)]
    return reply.model_copy(update={"forecasts": told})


class Asked:
    """Rows with their prompts as tokens, made once for all epochs that go over them."""

    def __init__(self, rows: Sequence[PromptRow], tokenizer: Any) -> None:
        texts = [chat.prompt(tokenizer, r.system, r.user) for r in rows]
        self.rows = tuple(rows)
        self.tokens: list[list[int]] = tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []


Pair = tuple[PromptRow, list[int], SpeedupForecasts]


def replies(asked: Asked, epoch: int, config: Config, climatology: Sequence[float], recorded: Recorded) -> list[Pair]:
    """Return the rows of one epoch, their prompts' tokens, and the replies to learn, in a new order."""
    rng = random.Random(f"{config.seed} warm {epoch}")
    places = list(range(len(asked.rows)))
    rng.shuffle(places)
    found: list[Pair] = []
    for place in places:
        row = asked.rows[place]
        said = distilled(row, recorded) if recorded else label(row, config.warm, climatology, rng)
        if said is not None:
            found.append((row, asked.tokens[place], said))
    return found


def tokens(pairs: Sequence[Pair], tokenizer: Any, *, whole: bool) -> Any:
    """Return pairs as a data set of tokens, of which the reply's or all are learned."""
    after = tokenizer([chat.completion(tokenizer, r.system, r.user, s) for r, _, s in pairs], add_special_tokens=False)
    rows: list[dict[str, list[int]]] = []
    for (_, before, _), said in zip(pairs, after["input_ids"], strict=True):
        rows.append({"input_ids": before + said, "labels": (before if whole else [_NO_LABEL] * len(before)) + said})
    return package("datasets").Dataset.from_list(rows)


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
