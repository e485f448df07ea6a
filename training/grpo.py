"""Reinforcement learning with TRL's GRPO trainer: the settings that keep probabilities honest, and the reward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from forewarp.core.errors import UsageError
from forewarp.training import chat, scoring
from forewarp.training.config import Config
from forewarp.training.model import computed_again, without_printing
from forewarp.training.rows import PromptRow

Logged = Callable[[str, float], None]


def settings(config: Config, folder: Path) -> Any:
    """Return TRL's settings; raises `UsageError` where a step does not divide into the sequences at once.

    Two of its defaults are wrong here: divided by the group's spread, advantages drive every probability to 0 or 1, and
    the load-balancing loss of a mixture of experts would drown the policy's.
    """
    import torch

    g, cuda = config.grpo, torch.cuda.is_available()
    replies = g.prompts * g.group
    if replies % g.sequences:
        raise UsageError(
            f"{replies} replies a step cannot be learned from {g.sequences} at once",
            hint="let grpo.sequences divide grpo.prompts × grpo.group",
        )
    at_once = g.at_once or replies
    if at_once % g.group or at_once % g.sequences or replies % at_once:
        raise UsageError(
            f"{replies} replies a step cannot be generated {at_once} at once",
            hint="let grpo.at_once be a multiple of grpo.group and grpo.sequences that divides all replies of a step",
        )
    vllm: dict[str, Any] = {}
    if g.vllm:
        vllm = {"use_vllm": True, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": g.vllm_memory}
        vllm |= {"vllm_enable_sleep_mode": True, "vllm_max_model_length": g.prompt_tokens + g.reply_tokens}
    return import_module("trl").GRPOConfig(
        output_dir=str(folder),
        max_steps=g.steps,
        num_generations=g.group,
        per_device_train_batch_size=g.sequences,
        gradient_accumulation_steps=replies // g.sequences,
        steps_per_generation=at_once // g.sequences,
        learning_rate=g.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=g.warmup,
        temperature=g.temperature,
        max_completion_length=g.reply_tokens,
        mask_truncated_completions=True,
        scale_rewards=g.scale,
        loss_type="dr_grpo",
        beta=0.0,
        router_aux_loss_coef=0.0,
        shuffle_dataset=False,
        bf16=cuda,
        use_cpu=not cuda,
        save_steps=config.watch.save_every,
        save_total_limit=2,
        logging_steps=1,
        report_to="none",
        disable_tqdm=True,
        seed=config.seed,
        **computed_again(cuda and g.sequences == 1),
        **vllm,
    )


def reward_function(config: Config) -> Callable[..., list[float | None]]:
    """Return the reward as TRL calls it, with a list of replies and the columns of the data set."""

    def forecast(
        completions: Sequence[str],
        speedups: Sequence[scoring.Speedups],
        log_metric: Logged | None = None,
        **_: Any,
    ) -> list[float | None]:
        scores = [scoring.score(c, s, config.reward) for c, s in zip(completions, speedups, strict=True)]
        for name in ("parsed", "correctness", "score", "validity"):
            each = [s.terms[name] for s in scores if name in s.terms]
            if log_metric is not None and each:
                log_metric(name, sum(each) / len(each))
        return [s.reward for s in scores]

    return forecast


def dataset(rows: Sequence[PromptRow], tokenizer: Any) -> Any:
    """Return prompts with measured outcomes, in the order in which they are learned from."""
    return import_module("datasets").Dataset.from_list(
        [
            {
                "prompt": chat.prompt(tokenizer, r.system, r.user),
                "speedups": [o.speedup for o in r.outcomes],
            }
            for r in rows
        ]
    )


def trainer(
    config: Config, folder: Path, model: Any, tokenizer: Any, rows: Sequence[PromptRow], callbacks: list[Any]
) -> Any:
    """Return TRL's trainer over these rows, which must be as many as all steps together ask about."""
    made = import_module("trl").GRPOTrainer(
        model=model,
        reward_funcs=[reward_function(config)],
        args=settings(config, folder),
        train_dataset=dataset(rows, tokenizer),
        processing_class=tokenizer,
        callbacks=callbacks,
    )
    return without_printing(made)
