"""Verbs on forecasters: `evaluate`, and `train`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.console import Console

from forewarp.cli import exits
from forewarp.cli.flags import commas, takes
from forewarp.cli.options import PLAIN, Output, positive
from forewarp.core.files import writing
from forewarp.tools.requests import EvaluateRequest, TrainRequest

if TYPE_CHECKING:
    from forewarp.report.documents import EvaluateDocument
    from forewarp.tools.train import TrainResult


@takes(
    EvaluateRequest,
    "pools",
    without="margin keep",
    forecasters=Parameter(converter=commas),
    tasks=Parameter(name="--task"),
)
def evaluate(
    request: EvaluateRequest,
    *,
    margin: Annotated[
        float,
        Parameter(
            validator=positive,
            help="How many percent from the best still count as a kernel that one should not have missed.",
        ),
    ] = 5.0,
    out: Annotated[
        Path | None,
        Parameter(help="Folder for evaluation.md and .json, and for forecasts.parquet, which --recorded scores again."),
    ] = None,
    output: Output = PLAIN,
) -> int:
    """Judge forecasters by the measured candidates of pools, or score recorded forecasts again.

    All are judged by the same candidates; each one after the first is compared with the first. Where none is named, it
    is learned, if there is a pool and nothing recorded.
    """
    from forewarp.report.documents import EvaluateDocument
    from forewarp.report.evaluate_tables import render
    from forewarp.tools.evaluate import evaluate as run

    names = request.forecasters or (["learned"] if request.pools and not request.recorded else [])
    keep = str(_folder(out) / "forecasts.parquet") if out else None
    request = request.model_copy(update={"forecasters": names, "margin": margin / 100, "keep": keep})
    with output.waiting("reading") as tell:
        result = run(request, lambda name, done, of: tell(f"{name}: task {done + 1} of {of}"))
    document = EvaluateDocument(command="evaluate", status="ok", **dict(result))
    if out:
        document = _write(document, _folder(out))
    output.show(document, lambda console: render(document, console, full=output.verbose))
    return exits.OK


def _folder(out: Path) -> Path:
    with writing(out, "pass --out DIR"):
        out.mkdir(parents=True, exist_ok=True)
    return out.absolute()


def _write(document: EvaluateDocument, folder: Path) -> EvaluateDocument:
    """Write the reports and return the document with their paths in it; raises `UsageError`."""
    from forewarp.report.documents import Artifact
    from forewarp.report.evaluate_tables import markdown
    from forewarp.tools.suite_tables import keep

    text, result = (folder / f"evaluation.{end}" for end in ("md", "json"))
    made = [
        Artifact(kind="report", path=str(text)),
        Artifact(kind="forecasts", path=str(folder / "forecasts.parquet")),
        # The result names itself, so that one file leads to all others.
        Artifact(kind="result", path=str(result)),
    ]
    document = document.model_copy(update={"artifacts": made})
    keep(text, markdown(document))
    keep(result, document.model_dump_json(indent=2) + "\n")
    return document


@takes(TrainRequest, "")
def train(request: TrainRequest, *, output: Output = PLAIN) -> int:
    """Train a language model to forecast, with rewards that pay for honest probabilities.

    Needs the extra `train` and, for models of over 1.5 billion weights, a CUDA GPU. The result is a LoRA adapter.
    """
    from forewarp.report import display
    from forewarp.tools import train as tool

    console = display.stderr()
    console.quiet = output.quiet
    done = tool.train(request, lambda line: _tell(line, console))
    output.tell(done, "train", _show, files=[("adapter", done.adapter)])
    return exits.OK


def _tell(line: Mapping[str, Any], console: Console) -> None:
    """Print one line of the journal."""
    phase, step = line["phase"], line["step"]
    if "skipped" in line:
        console.print(f"step {step}: left out, its gradient is not finite", style="yellow")
    elif phase == "grpo" and "reward" in line:
        terms = ", ".join(f"{n} {line[n]:.2f}" for n in ("correctness", "score", "validity") if n in line)
        took = f"  {line['step_time']:.1f} s" if "step_time" in line else ""
        console.print(f"step {step}: reward {line['reward']:.3f} ({terms}), read {line.get('parsed', 0.0):.0%}{took}")
    elif phase in ("watch", "done"):
        names = ("accuracy", "brier", "crps", "ece", "confidence", "entropy", "skill")
        figures = ", ".join(f"{n} {line[n]:.3f}" for n in names if n in line)
        console.print(
            f"{'after' if step else 'before'} {step or 'the first'} step{'s' * (step > 1)}: {figures}", style="cyan"
        )


def _show(done: TrainResult, console: Console, *, full: bool) -> None:
    console.print(done.summary, style="bold", soft_wrap=True)
    if done.left_out:
        console.print(f"{done.left_out} prompts were too long and were left out", style="dim")
    console.print(f"adapter in {done.adapter}", style="dim", soft_wrap=True)
