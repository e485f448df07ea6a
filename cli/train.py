"""`forewarp train`: reinforcement learning of the language-model forecaster on one's own GPU."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from forewarp.cli import printing
from forewarp.cli.options import PLAIN, Output

if TYPE_CHECKING:
    from rich.console import Console

    from forewarp.tools.train import PlanLine, TrainPlan, TrainResult


def train(
    *,
    data: Annotated[tuple[Path, ...], Parameter(negative="", show_default=False)] = (),
    base: str | None = None,
    reward: Literal["correctness", "brier", "crps", "decision"] | None = None,
    out: Path | None = None,
    config: Path | None = None,
    steps: Annotated[int | None, Parameter(validator=Number(gte=0))] = None,
    seed: int | None = None,
    resume: Annotated[bool, Parameter(negative="")] = False,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    target: str | None = None,
    output: Output = PLAIN,
) -> int:
    """Train a language model to forecast, with rewards that pay for honest probabilities.

    Needs the extra `train` and, for models of over 1.5 billion weights, a CUDA GPU. The result is a LoRA adapter.

    Args:
        data: Parquet file of measured candidates, or a folder of them; may be given several times.
        base: Model to start from: a folder, or a hub name, in the format of transformers.
        reward: What a reply is rewarded for; the last three add their score to correctness. [default: brier]
        out: Folder for the adapter, the run's file, its journal and its checkpoints.
        config: TOML file of the run; flags go before it.
        steps: Steps of reinforcement. [default: 20]
        seed: Two runs with the same seed and file draw the same prompts. [default: 0]
        resume: Go on with the run in --out from its last checkpoint.
        dry_run: Say what memory and time the run takes, and do nothing: no download, no GPU.
        target: Card that --dry-run plans for, such as h100; the one here, else h200, if left out.
        output: How results are shown.
    """
    from forewarp.cli import exits
    from forewarp.report import display
    from forewarp.report.documents import Artifact, TrainDocument, TrainPlanDocument
    from forewarp.tools import train as tool

    request = tool.TrainRequest(
        data=[str(p) for p in data],
        base=base,
        reward=reward,
        out=str(out) if out else None,
        config=str(config) if config else None,
        resume=resume,
        steps=steps,
        seed=seed,
        target=target,
    )
    if dry_run:
        planned = tool.plan_training(request)
        if output.json:
            printing.document(TrainPlanDocument(command="train", status="planned", **dict(planned)))
        else:
            _show_plan(planned, display.stdout(), full=output.verbose)
        return exits.OK
    console = display.stderr()
    console.quiet = output.quiet
    done = tool.train(request, lambda line: _tell(line, console))
    if output.json:
        made = [Artifact(kind="adapter", path=done.adapter)]
        printing.document(TrainDocument(command="train", status="ok", artifacts=made, **dict(done)))
    else:
        _show(done, display.stdout())
    return exits.OK


def _tell(line: Mapping[str, Any], console: Console) -> None:
    """Print one line of the journal."""
    phase, step = line["phase"], line["step"]
    if phase == "plan":
        console.print(line["said"], soft_wrap=True)
        for advice in line["advice"]:
            console.print(f"  {advice}", style="yellow", soft_wrap=True)
    elif "skipped" in line:
        console.print(f"step {step}: left out, its gradient is not finite", style="yellow")
    elif phase == "grpo" and "reward" in line:
        terms = ", ".join(f"{n} {line[n]:.2f}" for n in ("correctness", "score", "validity") if n in line)
        took = f"  {line['step_time']:.1f} s" if "step_time" in line else ""
        console.print(f"step {step}: reward {line['reward']:.3f} ({terms}), read {line.get('parsed', 0.0):.0%}{took}")
    elif phase == "warm" and "loss" in line:
        console.print(f"warm start, step {step}: loss {line['loss']:.3f}", style="dim")
    elif phase in ("watch", "done"):
        names = ("accuracy", "brier", "crps", "ece", "confidence", "entropy", "skill")
        figures = ", ".join(f"{n} {line[n]:.3f}" for n in names if n in line)
        console.print(
            f"{'after' if step else 'before'} {step or 'the first'} step{'s' * (step > 1)}: {figures}", style="cyan"
        )


def _show(done: TrainResult, console: Console) -> None:
    console.print(done.summary, style="bold", soft_wrap=True)
    if done.left_out:
        console.print(f"{done.left_out} prompts were too long and were left out", style="dim")
    console.print(f"adapter in {done.adapter}", style="dim", soft_wrap=True)


def _show_plan(found: TrainPlan, console: Console, *, full: bool) -> None:
    from rich.table import Table

    table = Table("what", "", "held in", "from", "", box=None)
    for line in [*found.memory, *found.time]:
        table.add_row(line.name, _amount(line), line.phase, line.origin, line.note)
    if found.memory:
        console.print(table)
    console.print(found.summary, style="bold", soft_wrap=True)
    for advice in found.advice:
        console.print(advice, style="yellow", soft_wrap=True)
    where = "is here" if found.card_is_here else "is not here"
    console.print(f"{found.card} {where}; rates are those of its data sheet. Nothing was begun.", style="dim")
    if full:
        console.print(found.config, style="dim")


def _amount(line: PlanLine) -> str:
    if line.unit == "s":
        return f"{line.value / 3600:.1f} h" if line.value >= 7200 else f"{line.value:.1f} s"
    return f"{line.value:.2f} GiB" if line.unit == "GiB" else f"{line.value:,.0f} {line.unit}"
