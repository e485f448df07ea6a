"""Train a language model to forecast, by reinforcement learning on measured kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from forewarp.core.errors import UsageError
from forewarp.surrogate.rewards import RewardShape
from forewarp.tools.parts import Part
from forewarp.tools.requests import TrainRequest
from forewarp.training import config, model
from forewarp.training.config import Config

Note = Callable[[Mapping[str, Any]], None]
"""Callback for each line of the journal as it is written; its `phase` is grpo, watch or done."""


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


def train(request: TrainRequest, note: Note = lambda _: None) -> TrainResult:
    """Start a run, or resume one. Raises `UsageError`, `DeviceError`, `ModelError`, before anything costly begins."""
    settings, out = _settings(request), Path(request.out or "").expanduser().absolute()
    from forewarp.training import rows, run

    model.need()
    recorded = rows.read(settings.data.pools, (settings.data.split, settings.data.watch))
    found = run.training_prompts(settings, model.tokenizer(settings.base), recorded)
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


def _settings(request: TrainRequest) -> Config:
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
    _free(request.out)
    return config.load(Path(request.config).expanduser(), changes) if request.config else _made(changes)


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


def _summary(settings: Config, before: Mapping[str, float] | None, after: Mapping[str, float]) -> str:
    def said(name: str) -> str:
        now = after.get(name, math.nan)
        then = math.nan if before is None else before.get(name, math.nan)
        return f"{name} {now:.3f}" + (f" (before {then:.3f})" if math.isfinite(then) else "")

    figures = ", ".join(said(name) for name in ("accuracy", "brier", "crps", "ece", "skill"))
    return f"{settings.grpo.steps} steps for {settings.reward.shape}; on {settings.data.watch}: {figures}"
