"""A training run from its file to an adapter: prompts, reinforcement, and checkpoints to resume from."""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from forewarp.archive.pools import parquet
from forewarp.archive.rows import RecordedRow
from forewarp.core.errors import UsageError
from forewarp.training import chat, config, grpo, model, progress, rows
from forewarp.training.config import Config
from forewarp.training.model import need
from forewarp.training.rows import PromptRow

_PACKAGES = ("forewarp", "torch", "transformers", "trl", "peft", "datasets", "accelerate", "vllm")


@dataclass(frozen=True, slots=True)
class TrainingPrompts:
    """Prompts that a run learns from and is watched on. `left_out` counts prompts that are too long."""

    learn: tuple[PromptRow, ...]
    watch: tuple[PromptRow, ...]
    climatology: tuple[float, ...]
    left_out: int


@dataclass(frozen=True, slots=True)
class FinishedTraining:
    """Result of a run: the path of the adapter (or model), how many rows were learned from, and the last look."""

    adapter: Path
    rows: int
    left_out: int
    resumed_from: int
    figures: dict[str, float]


def training_prompts(
    settings: Config, tokenizer: Any, recorded: dict[str, list[RecordedRow]] | None = None
) -> TrainingPrompts:
    """Return every prompt of the run, of the pools' rows by split if they were read already. Raises `UsageError`."""
    data = settings.data
    recorded = recorded or rows.read(data.pools, (data.split, data.watch))

    asked = ask(settings, recorded[data.split], settings.seed)
    learn = fitting(settings, tokenizer, asked)
    if not learn:
        raise UsageError(
            f"every prompt is longer than {settings.grpo.prompt_tokens} tokens",
            hint="raise grpo.prompt_tokens, or lower data.source, data.other_source, data.candidates",
        )
    watch = rows.ordered(fitting(settings, tokenizer, ask(settings, recorded[data.watch], 0)), settings.watch.rows, 0)
    needed = settings.grpo.steps * settings.grpo.prompts
    return TrainingPrompts(
        tuple(rows.ordered(learn, needed, settings.seed)),
        tuple(watch),
        rows.climatology(recorded[data.split]),
        len(asked) - len(learn),
    )


def ask(settings: Config, recorded: Sequence[RecordedRow], seed: int) -> list[PromptRow]:
    """Return the prompts about these rows, of any length, with trials that are drawn by `seed`."""
    data = settings.data
    return rows.ask(
        recorded,
        history=data.history,
        candidates=data.candidates,
        shown=data.shown,
        invalid=data.invalid and settings.reward.validity > 0,
        seed=seed,
    )


def fitting(settings: Config, tokenizer: Any, prompts: Sequence[PromptRow]) -> list[PromptRow]:
    texts = [chat.prompt(tokenizer, r.system, r.user) for r in prompts]
    ids = tokenizer(texts, add_special_tokens=False)["input_ids"] if texts else []
    return [r for r, i in zip(prompts, ids, strict=True) if len(i) <= settings.grpo.prompt_tokens]


def train(
    settings: Config, out: Path, note: progress.Note = lambda _: None, prompts: TrainingPrompts | None = None
) -> FinishedTraining:
    """Train, or resume `out`'s checkpoint, with `prompts` if made already; raises `UsageError`, `DeviceError`."""
    need()
    out.mkdir(parents=True, exist_ok=True)
    claim_folder(settings, out)
    tokenizer = model.tokenizer(settings.base)
    prompts = prompts or training_prompts(settings, tokenizer)
    journal = progress.Journal(out / "progress.jsonl", note)
    last = _last_checkpoint(out / "checkpoints")
    import_module("transformers").set_seed(settings.seed)
    trained = model.adapted(model.base_model(settings), settings)
    if last is None and prompts.watch and settings.watch.first:
        journal.write("watch", 0, progress.look(settings, trained, tokenizer, prompts.watch, prompts.climatology))
        import_module("transformers").set_seed(settings.seed)  # a look has no effect on later random draws
    if settings.grpo.steps:
        watcher = progress.watcher(settings, journal, tokenizer, prompts.watch, prompts.climatology)
        trainer = grpo.trainer(settings, out / "checkpoints", trained, tokenizer, prompts.learn, [watcher])
        trainer.train(resume_from_checkpoint=str(last) if last else None)
    figures = progress.look(settings, trained, tokenizer, prompts.watch, prompts.climatology) if prompts.watch else {}
    journal.write("done", settings.grpo.steps, figures)
    model.save(trained, tokenizer, out / "adapter")
    step = int(last.name.rpartition("-")[2]) if last else 0
    return FinishedTraining(out / "adapter", len(prompts.learn), prompts.left_out, step, figures)


def claim_folder(settings: Config, out: Path) -> None:
    """Write the run's file and what it is made with; raises `UsageError` for a folder of another run."""
    path, beside = out / "config.toml", out / "made_with.json"
    if path.exists() and config.load(path) != settings:
        raise UsageError(f"{out} holds another run", hint="pass an empty folder, or go on with that run's config.toml")
    record = _made_with(settings)
    if beside.exists() and json.loads(beside.read_text(encoding="utf-8"))["pools"] != record["pools"]:
        raise UsageError(
            f"the pools are not what {out} was begun with",
            hint="bring them back, or begin a new run in another folder; made_with.json has their digests",
        )
    path.write_text(config.dump(settings), encoding="utf-8")
    beside.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _made_with(config: Config) -> dict[str, Any]:
    """Return versions, the device, and the sha256 of each file of the pools."""
    import torch

    versions: dict[str, str] = {}
    for name in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    files = [f for path in config.data.pools for f in parquet.files_of(Path(path).expanduser())]
    here = platform.processor() or platform.machine()
    return {
        "versions": versions,
        "python": platform.python_version(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else here,
        "pools": {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in files},
    }


def _last_checkpoint(folder: Path) -> Path | None:
    checkpoints = [p for p in folder.glob("checkpoint-*") if (p / "trainer_state.json").is_file()]
    return max(checkpoints, key=lambda p: int(p.name.rpartition("-")[2]), default=None)
