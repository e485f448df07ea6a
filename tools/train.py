"""Train a language model to forecast, by reinforcement learning on measured kernels: plan a run, then run it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from forewarp.core.errors import UsageError
from forewarp.core.values import Target
from forewarp.gpu_runner import devices
from forewarp.surrogate.rewards import RewardShape
from forewarp.tools.parts import Part
from forewarp.tools.requests import TrainRequest
from forewarp.training import config, model, plan
from forewarp.training.config import Config
from forewarp.training.plan import PlanLine

if TYPE_CHECKING:
    from forewarp.training.run import TrainingPrompts

Note = Callable[[Mapping[str, Any]], None]
"""Callback for each line of the journal as it is written; its `phase` is plan, warm, grpo, watch or done."""

CARD = "h200"
"""Card to plan for on a machine that has none."""


class TrainPlan(Part):
    """Plan of a run: its memory and time. `fits` is null where the card or the kind of model is not known."""

    summary: str
    base: str
    reward: RewardShape
    card: str = Field(description="The card that it is planned for.")
    card_is_here: bool
    memory: list[PlanLine]
    time: list[PlanLine]
    peak_gib: float | None
    card_gib: float | None
    fits: bool | None
    advice: list[str]
    config: str = Field(description="The whole run as TOML.")


class TrainResult(Part):
    """Result of a run. Figures are of the watched split, by name; `before` is null for a run that was resumed."""

    summary: str
    base: str
    reward: RewardShape
    adapter: str
    rows: int = Field(description="Prompts that were learned from, repeats counted.")
    left_out: int = Field(description="Prompts that are too long.")
    resumed_from: int = Field(description="The step that it went on from; 0 for a run from its beginning.")
    before: dict[str, float] | None
    after: dict[str, float]


def plan_training(request: TrainRequest) -> TrainPlan:
    """Plan a run's memory and time; nothing is downloaded, written or started. Raises `UsageError`."""
    settings = _settings(request, planned=True)
    tokens: list[int] = []
    if settings.data.pools and Path(settings.base).expanduser().is_dir():
        tokens = _lengths(settings)
    return _plan(settings, request, tokens)


def train(request: TrainRequest, note: Note = lambda _: None) -> TrainResult:
    """Start a run, or resume one. Raises `UsageError`, `DeviceError`, `ModelError`, before anything costly begins."""
    settings, out = _settings(request), Path(request.out or "").expanduser().absolute()
    from forewarp.training import rows, run

    model.need()
    here = _card()
    plan.check(settings.base, plan.of_base(settings.base)[0], here)
    recorded = rows.read(settings.data.pools, (settings.data.split, settings.data.watch))
    tokens = model.tokenizer(settings.base)
    # The model may just have been downloaded, so that its sizes are known now.
    plan.check(settings.base, plan.of_base(settings.base)[0], here)
    found = run.training_prompts(settings, tokens, recorded)
    if here is not None:
        planned = _plan(settings, request, _counted(found, tokens))
        note({"phase": "plan", "step": 0, "said": planned.summary, "advice": planned.advice})
    seen: list[Mapping[str, Any]] = []

    def told(line: Mapping[str, Any]) -> None:
        seen.append(line)
        note(line)

    done = run.train(settings, out, told, found)
    before = next((line for line in seen if line["phase"] == "watch" and line["step"] == 0), None)
    first = None if before is None else {k: v for k, v in before.items() if k not in ("phase", "step", "seconds")}
    return TrainResult(
        summary=_summary(settings, first, done.figures),
        base=settings.base,
        reward=settings.reward.shape,
        adapter=str(done.adapter),
        rows=done.rows,
        left_out=done.left_out,
        resumed_from=done.resumed_from,
        before=first,
        after={k: v for k, v in done.figures.items() if math.isfinite(v)},
    )


def _settings(request: TrainRequest, *, planned: bool = False) -> Config:
    if request.target is not None and not planned:
        raise UsageError("--target is only for a plan", hint="add --dry-run, or leave it out")
    changes: dict[str, Any] = {}
    if request.base:
        folder = Path(request.base).expanduser()
        changes["base"] = str(folder.absolute()) if folder.is_dir() else request.base
    if request.data:
        changes["data"] = {"pools": [str(Path(p).expanduser().absolute()) for p in request.data]}
    if request.reward:
        changes["reward"] = {"shape": request.reward}
    if request.steps is not None:
        changes["grpo"] = {"steps": request.steps}
    if request.seed is not None:
        changes["seed"] = request.seed
    if request.resume:
        return _going_on(request, changes)
    if not planned:
        _free(request.out)
    if planned and not request.config:
        changes = {"data": {"pools": []}} | changes
    found = config.load(Path(request.config).expanduser(), changes) if request.config else _made(changes)
    kind = plan.of_base(found.base)[0]
    if kind is not None and kind.kind == "gpt_oss" and (planned or _card() is not None):
        return _for_long_prompts(found)
    return found


def _for_long_prompts(found: Config) -> Config:
    """Fill in the defaults that a large model of gpt-oss's kind needs, where the run's file leaves them open.

    Its own attention keeps all scores, tens of GiB a layer; so do all prompts of a step that go through it together.
    """
    grpo = found.grpo
    if not grpo.at_once and not grpo.vllm:
        grpo = grpo.model_copy(update={"at_once": grpo.group})
    return found.model_copy(update={"attention": found.attention or "flex_attention", "grpo": grpo})


def _made(changes: dict[str, Any]) -> Config:
    for name, flag, hint in (("base", "--base MODEL", "such as openai/gpt-oss-20b"), ("data", "--data POOL", "")):
        if name not in changes:
            raise UsageError(f"a run needs {flag}", hint=hint or "a Parquet file of measured candidates, or --config")
    return config.make(changes)


def _going_on(request: TrainRequest, changes: dict[str, Any]) -> Config:
    path = Path(request.out or "").expanduser() / "config.toml"
    if not request.out or not path.is_file():
        raise UsageError("there is no run to go on with", hint="pass the folder of one with --out")
    found = config.load(path)
    if request.config or config.load(path, changes) != found:
        raise UsageError(
            f"{request.out} holds another run than the flags describe",
            hint="with --resume leave out all other flags but --out: the run's own file counts",
        )
    return found


def _free(out: str | None) -> None:
    if not out:
        raise UsageError("a run needs --out DIR", hint="a folder that is not there yet")
    folder = Path(out).expanduser()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        begun = (folder / "config.toml").is_file()
        hint = "go on with its run with --resume, or pass another folder" if begun else "pass a folder that is empty"
        raise UsageError(f"{out} exists already", hint=hint)


def _plan(settings: Config, request: TrainRequest, tokens: list[int]) -> TrainPlan:
    found, where = plan.of_base(settings.base)
    here = None if request.target else _card()
    card = here or _target(request.target or CARD)
    about: dict[str, Any] = {
        "base": settings.base,
        "reward": settings.reward.shape,
        "card": card.name,
        "card_is_here": here is not None,
        "config": config.dump(settings),
    }
    if found is None:
        why = f"how large {settings.base} is cannot be told before it is here" if not where else "unknown kind of model"
        nothing: dict[str, Any] = dict.fromkeys(("peak_gib", "card_gib", "fits"))
        return TrainPlan(summary=f"{settings.base}: no plan, {why}", memory=[], time=[], advice=[], **nothing, **about)
    made = plan.plan(settings, found, card, tokens=tokens)
    time = [*made.time]
    seconds = plan.measured_step(Path(request.out).expanduser() / "progress.jsonl") if request.out else None
    if seconds is not None:
        whole = seconds * settings.grpo.steps
        note = f"a step took {seconds:.1f} s, the median of this run's latest"
        time.append(PlanLine(f"{settings.grpo.steps} steps", whole, "s", "measured", note))
    room = made.card_gib
    fits = "" if room is None else f": {'fits' if made.fits else 'does not fit'} on {card.name} with {room:.0f} GiB"
    return TrainPlan(
        summary=f"{settings.base}, {found.weights / 1e9:.2f} billion weights ({where}), takes {made.peak_gib:.1f} GiB "
        f"at its peak{fits}",
        memory=[*made.memory],
        time=time,
        peak_gib=made.peak_gib,
        card_gib=room,
        fits=made.fits,
        advice=list(made.advice),
        **about,
    )


def _lengths(settings: Config) -> list[int]:
    from forewarp.training import run

    model.need()
    tokens = model.tokenizer(settings.base)
    return _counted(run.training_prompts(settings, tokens), tokens)


def _counted(found: TrainingPrompts, tokenizer: Any) -> list[int]:
    from forewarp.training import chat

    texts = sorted({chat.prompt(tokenizer, r.system, r.user) for r in found.learn})
    return [len(ids) for ids in tokenizer(texts, add_special_tokens=False)["input_ids"]]


def _card() -> Target | None:
    """Return the first GPU, or None where torch could not use one anyway."""
    try:
        import torch
    except ImportError:
        return None
    return devices.detect_cuda() if torch.cuda.is_available() else None


def _target(name: str) -> Target:
    known = devices.known_targets()
    if name not in known:
        raise UsageError(f"there is no card called {name!r}", hint=f"one of {', '.join(known)}")
    return known[name]


def _summary(settings: Config, before: Mapping[str, float] | None, after: Mapping[str, float]) -> str:
    def said(name: str) -> str:
        now = after.get(name, math.nan)
        then = math.nan if before is None else before.get(name, math.nan)
        return f"{name} {now:.3f}" + (f" (before {then:.3f})" if math.isfinite(then) else "")

    figures = ", ".join(said(name) for name in ("accuracy", "brier", "crps", "ece", "skill"))
    return f"{settings.grpo.steps} steps for {settings.reward.shape}; on {settings.data.watch}: {figures}"
