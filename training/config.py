"""Configuration of a training run, as a TOML file: the one in a run's folder is enough to repeat the run."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal

import tomlkit
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from forewarp.core.errors import UsageError
from forewarp.surrogate.questions import Shown
from forewarp.surrogate.rewards import RewardShape


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Data(_Part):
    """Choice of the measured candidates to ask about, and of what the prompts show."""

    pools: list[str] = Field(description="Parquet files of measured candidates, or folders of them.")
    split: str = Field(default="train", description="The split that is learned from; never one that is judged by.")
    watch: str = Field(default="validation", description="The split that progress is watched on.")
    history: int = Field(default=6, ge=0, description="Most measured trials of the task that a prompt knows of.")
    candidates: int = Field(default=8, ge=1, description="Candidates of a task that one prompt asks about, at most.")
    source: int = Field(default=Shown().source, ge=0, description="Most characters of a candidate's program.")
    other_source: int = Field(
        default=Shown().other_source, ge=0, description="Most characters of a trial's program; 0 shows none."
    )
    invalid: bool = Field(default=True, description="Ask about candidates that turned out invalid, too.")

    @property
    def shown(self) -> Shown:
        return Shown(source=self.source, other_source=self.other_source)


class Lora(_Part):
    """The adapter. Names of modules are those of the model; `experts` are fused weights of mixtures of experts."""

    rank: int = Field(default=32, ge=1)
    alpha: int = Field(default=32, ge=1)
    modules: list[str] | Literal["all-linear"] = Field(default=["q_proj", "k_proj", "v_proj", "o_proj"])
    experts: list[str] = Field(default=[], description="Fused expert weights, such as mlp.experts.gate_up_proj.")


class Grpo(_Part):
    """Group-relative policy optimisation (arXiv 2402.03300), without its biases by length and spread (2503.20783)."""

    steps: int = Field(default=20, ge=0)
    prompts: int = Field(default=8, ge=1, description="Prompts a step.")
    group: int = Field(default=8, ge=2, description="Replies a prompt.")
    learning_rate: float = Field(default=4e-5, gt=0)
    warmup: int = Field(default=0, ge=0, description="Steps until the learning rate is reached.")
    temperature: float = Field(default=1.0, gt=0)
    reply_tokens: int = Field(default=8192, ge=1)
    prompt_tokens: int = Field(default=16_384, ge=1, description="Rows with a longer prompt are left out, and counted.")
    sequences: int = Field(default=1, ge=1, description="Sequences that go through the model at once when it learns.")
    at_once: int = Field(default=0, ge=0, description="Replies that are generated at once; 0 is all of a step.")
    scale: Literal["none", "group"] = Field(
        default="none", description="group divides by the spread in the group, and drives probabilities to 0 and 1."
    )
    vllm: bool = Field(default=False, description="Generate with vLLM in the same process.")
    vllm_memory: float = Field(default=0.4, gt=0, le=1, description="Share of the card's memory for vLLM.")


class ProgressSettings(_Part):
    """Intervals at which checkpoints are kept and progress is looked at."""

    save_every: int = Field(default=5, ge=1)
    first: bool = Field(default=True, description="Look once before the first step.")
    every: int = Field(default=5, ge=0, description="Steps between two looks at the watched split; 0 never looks.")
    rows: int = Field(default=64, ge=1, description="Prompts of a look, the same ones each time.")
    sequences: int = Field(default=8, ge=1, description="Prompts that are answered at once.")


class Reward(_Part):
    """Reward of a reply. `validity` weighs the score of `p_valid`, beside bins and probabilities."""

    shape: RewardShape = "brier"
    validity: float = Field(default=0.5, ge=0)


class Config(_Part):
    """Configuration of a whole run."""

    base: str = Field(description="Folder or hub name of the model, in the format of transformers.")
    seed: int = 0
    dtype: Literal["bfloat16", "float32"] = Field(
        default="bfloat16", description="How weights are held; a GPU computes in bfloat16 either way."
    )
    attention: str = Field(default="", description="Kind of attention in transformers; the model's own if left out.")
    data: Data
    reward: Reward = Reward()
    lora: Lora | Literal[False] = Field(default=Lora(), description="false trains every weight.")
    grpo: Grpo = Grpo()
    watch: ProgressSettings = ProgressSettings()

    @model_validator(mode="after")
    def _apart(self) -> Config:
        if "test" in (self.data.split, self.data.watch):
            raise ValueError("the test split is what a trained forecaster is judged by; nothing may look at it before")
        if self.data.split == self.data.watch:
            raise ValueError(f"both learning and watching are on the split {self.data.split!r}")
        return self


def load(path: Path, changes: dict[str, Any] | None = None) -> Config:
    """Read a run's file with `changes` (nested as the file is) on top; raises `UsageError`."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as e:
        raise UsageError(
            f"{path} cannot be read: {e.strerror}", hint="pass a file like docs/forecasting.md shows"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
        raise UsageError(f"{path} is not valid TOML: {e}") from None
    return make(_merged(values, changes or {}), str(path))


def make(values: dict[str, Any], name: str = "the request") -> Config:
    """Return the run that nested values describe; raises `UsageError`."""
    try:
        return Config.model_validate(values)
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"{name} describes no run: {where}: {first['msg']}", hint="see docs/forecasting.md") from None


def dump(config: Config) -> str:
    """Return a run as TOML, every value written out; `load` makes the same run of it."""
    return tomlkit.dumps(config.model_dump(mode="json"))


def _merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = _merged(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged
