"""A training run from its file to an adapter: rows, warm start, reinforcement, and checkpoints to resume from."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forewarp.archive.forecasts import read_forecasts
from forewarp.archive.rows import RecordedRow
from forewarp.core.errors import UsageError
from forewarp.training import chat, config, grpo, model, progress, record, rows, warm
from forewarp.training.config import Config
from forewarp.training.packages import need, package
from forewarp.training.rows import PromptRow

_DRAWS = 1000
"""First seed of a warm start's draws, set apart so that reinforcement sees prompts with other trials."""


@dataclass(frozen=True, slots=True)
class Material:
    """Prompts that a run learns from and is watched on. `left_out` counts prompts that are too long."""

    learn: tuple[PromptRow, ...]
    draws: tuple[tuple[PromptRow, ...], ...]
    watch: tuple[PromptRow, ...]
    climatology: tuple[float, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class Done:
    """Result of a run: the path of the adapter (or model), how many rows were learned from, and the last look."""

    adapter: Path
    rows: int
    left_out: int
    resumed_from: int
    figures: dict[str, float]


def material(settings: Config, tokenizer: Any, recorded: dict[str, list[RecordedRow]] | None = None) -> Material:
    """Return every prompt of the run, of the pools' rows by split if they were read already. Raises `UsageError`."""
    data = settings.data
    recorded = recorded or rows.read(data.pools, (data.split, data.watch))

    def ask(split: str, seed: int) -> list[PromptRow]:
        return rows.ask(
            recorded[split],
            history=data.history,
            candidates=data.candidates,
            shown=data.shown,
            invalid=data.invalid and settings.reward.validity > 0,
            seed=seed,
        )

    def fitting(found: Sequence[PromptRow]) -> list[PromptRow]:
        texts = [chat.prompt(tokenizer, r.system, r.user) for r in found]
        ids = tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []
        return [r for r, i in zip(found, ids, strict=True) if len(i) <= settings.grpo.prompt_tokens]

    asked = ask(data.split, settings.seed)
    learn = fitting(asked)
    if not learn:
        raise UsageError(
            f"every prompt is longer than {settings.grpo.prompt_tokens} tokens",
            hint="raise grpo.prompt_tokens, or lower data.source, data.other_source, data.candidates",
        )
    draws = settings.warm.draws if settings.warm.epochs else 0
    more = [fitting(ask(data.split, settings.seed + _DRAWS + i)) for i in range(draws)]
    watch = rows.ordered(fitting(ask(data.watch, 0)), settings.watch.rows, 0)
    needed = settings.grpo.steps * settings.grpo.prompts
    return Material(
        tuple(rows.ordered(learn, needed, settings.seed)),
        tuple(map(tuple, more)),
        tuple(watch),
        rows.climatology(recorded[data.split]),
        len(asked) - len(learn),
    )


def train(settings: Config, out: Path, note: progress.Note = lambda _: None, found: Material | None = None) -> Done:
    """Train, or resume if `out` already holds a checkpoint of the same run. Raises `UsageError`, `DeviceError`.

    `found` is the run's material, where it was made already.
    """
    need()
    out.mkdir(parents=True, exist_ok=True)
    record.claim(settings, config.dump(settings), out)
    tokenizer = model.tokenizer(settings.base)
    found = found or material(settings, tokenizer)
    journal = progress.Journal(out / "progress.jsonl", note)
    last = _last_checkpoint(out / "checkpoints")
    built = _start(settings, out, tokenizer, found, journal, resumed=last is not None)
    if settings.grpo.steps:
        watching = progress.watcher(settings, journal, tokenizer, found.watch, found.climatology, "grpo")
        made = grpo.trainer(settings, out / "checkpoints", built, tokenizer, found.learn, [watching])
        made.train(resume_from_checkpoint=str(last) if last else None)
    figures = progress.look(settings, built, tokenizer, found.watch, found.climatology) if found.watch else {}
    journal.write("done", settings.grpo.steps, figures)
    model.save(built, tokenizer, out / "adapter")
    step = int(last.name.rpartition("-")[2]) if last else 0
    return Done(out / "adapter", len(found.learn), found.left_out, step, figures)


def _start(
    settings: Config, out: Path, tokenizer: Any, found: Material, journal: progress.Journal, *, resumed: bool
) -> Any:
    """Return the model that reinforcement starts from: fresh, or after the warm start, which is kept beside it."""
    package("transformers").set_seed(settings.seed)
    built = model.adapted(model.base_model(settings), settings)
    if resumed:
        return built
    if not settings.warm.epochs:
        if settings.watch.first:
            _first_look(settings, journal, built, tokenizer, found)
        return built
    folder = out / "warm"
    watching = progress.watcher(settings, journal, tokenizer, (), found.climatology, "warm")
    warm.trainer(
        settings, out / "warm-trainer", built, tokenizer, _labelled(settings, found, tokenizer), [watching]
    ).train()
    shutil.rmtree(out / "warm-trainer", ignore_errors=True)
    model.save(built, tokenizer, folder)
    _first_look(settings, journal, built, tokenizer, found)
    return built


def _first_look(settings: Config, journal: progress.Journal, built: Any, tokenizer: Any, found: Material) -> None:
    """Look at the watched split before reinforcement, without an effect on later random draws."""
    if found.watch:
        journal.write("watch", 0, progress.look(settings, built, tokenizer, found.watch, found.climatology))
        package("transformers").set_seed(settings.seed)


def _labelled(settings: Config, found: Material, tokenizer: Any) -> Any:
    recorded = {
        (f.task, f.kernel): f for path in settings.warm.recorded for f in read_forecasts(Path(path).expanduser())
    }
    asked = [warm.Asked(draw, tokenizer) for draw in found.draws]
    parts: list[Any] = []
    for epoch in range(settings.warm.epochs):
        pairs = warm.replies(asked[epoch % len(asked)], epoch, settings, found.climatology, recorded)
        if not pairs:
            raise UsageError(
                "no recorded forecast is about a row of the training split", hint="see docs/forecasting.md"
            )
        parts.append(warm.tokens(pairs, tokenizer, whole=epoch < settings.warm.whole))
    return package("datasets").concatenate_datasets(parts)


def _last_checkpoint(folder: Path) -> Path | None:
    found = [p for p in folder.glob("checkpoint-*") if (p / "trainer_state.json").is_file()]
    return max(found, key=lambda p: int(p.name.rpartition("-")[2]), default=None)
