"""Progress of a run as JSON lines: TRL's own figures step by step, and looks at the watched split."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from forewarp.training import chat, scoring
from forewarp.training.config import Config
from forewarp.training.model import Answerer
from forewarp.training.rows import PromptRow

Note = Callable[[Mapping[str, Any]], None]
"""Callback that gets each line as it is written."""

KEPT = (
    *("loss", "grad_norm", "learning_rate", "reward", "reward_std", "frac_reward_zero_std", "entropy", "num_tokens"),
    *("parsed", "correctness", "score", "validity", "completions/mean_length", "completions/clipped_ratio"),
    "step_time",
)
"""Names of the trainer's figures that are kept."""


class Journal:
    """Appends lines to `progress.jsonl`; each has the phase, the step, and the seconds since this process began."""

    def __init__(self, path: Path, note: Note = lambda _: None) -> None:
        self._path, self._note, self._start = path, note, time.monotonic()

    def write(self, phase: str, step: int, figures: Mapping[str, float]) -> None:
        """Write one line; figures that are not finite are left out."""
        rounded = {k: round(v, 6) for k, v in figures.items() if math.isfinite(v)}
        line = {"phase": phase, "step": step, "seconds": round(time.monotonic() - self._start, 1), **rounded}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self._note(line)


def watcher(
    config: Config,
    journal: Journal,
    tokenizer: Any,
    rows: Sequence[PromptRow],
    climatology: Sequence[float],
) -> Any:
    """Return the callback that writes the journal and, every few steps, has the model answer the watched rows."""
    callback = import_module("transformers").TrainerCallback

    class Watcher(callback):
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            kept = {k: float(v) for k, v in (logs or {}).items() if k in KEPT}
            if kept:
                journal.write("grpo", int(state.global_step), kept)

        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            if without_bad_gradients(model):
                journal.write("grpo", int(state.global_step) + 1, {"skipped": 1.0})

        def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
            step = int(state.global_step)
            if rows and config.watch.every and (step % config.watch.every == 0 or step == state.max_steps):
                journal.write("watch", step, look(config, model, tokenizer, rows, climatology))

    return Watcher()


def without_bad_gradients(model: Any) -> bool:
    """Clear all gradients if one is not finite, and return whether; one such step would spoil every weight."""
    import torch

    each = [p for p in model.parameters() if p.grad is not None]
    if not each or bool(torch.stack([torch.isfinite(p.grad).all() for p in each]).all()):
        return False
    for p in each:
        p.grad = None
    return True


def look(
    config: Config, model: Any, tokenizer: Any, rows: Sequence[PromptRow], climatology: Sequence[float]
) -> dict[str, float]:
    """Return the figures of one answer to each row, sampled as in training."""
    answerer = Answerer(
        model,
        tokenizer,
        prompt_tokens=config.grpo.prompt_tokens,
        reply_tokens=config.grpo.reply_tokens,
        sequences=config.watch.sequences,
        temperature=config.grpo.temperature,
    )
    texts = answerer.texts([chat.prompt(tokenizer, r.system, r.user) for r in rows])
    asked = [[o.speedup for o in r.outcomes] for r in rows]
    scored = [scoring.score(t, s, config.reward) for t, s in zip(texts, asked, strict=True)]
    return scoring.figures(scored, asked, config.reward.shape, climatology)
