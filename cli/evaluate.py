"""`forewarp evaluate`: how good forecasters are, by candidates that were measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from forewarp.cli import printing
from forewarp.cli.options import PLAIN, Output, positive

if TYPE_CHECKING:
    from forewarp.report.documents import EvaluateDocument

Names = Annotated[tuple[str, ...], Parameter(negative="", show_default=False)]


def evaluate(
    *pool: Path,
    forecasters: Annotated[str, Parameter(negative="")] = "",
    recorded: Annotated[tuple[Path, ...], Parameter(negative="", show_default=False)] = (),
    split: Literal["train", "validation", "test", "all"] = "test",
    task: Names = (),
    train: Path | None = None,
    history: Annotated[int, Parameter(validator=Number(gte=0))] = 0,
    anchors: Annotated[bool, Parameter(negative="")] = False,
    margin: Annotated[float, Parameter(validator=positive)] = 5.0,
    resamples: Annotated[int, Parameter(validator=Number(gte=2))] = 1000,
    seed: int = 0,
    out: Path | None = None,
    model: Names = (),
    base_url: str | None = None,
    output: Output = PLAIN,
) -> int:
    """Judge forecasters by the measured candidates of pools, or score recorded forecasts again.

    All are judged by the same candidates; each one after the first is compared with the first.

    Args:
        pool: Parquet files of measured candidates, or folders of them.
        forecasters: Comma-separated: learned, llm, cascade, and what looks at no candidate: climatology, uniform. Left
            out, it is learned where there is a pool and nothing recorded.
        recorded: File of recorded forecasts, as --out writes it; may be given several times.
        split: Only this split of the pools; all takes every row.
        task: Only this task, by name; may be given several times.
        train: Pool whose frequencies climatology forecasts; the train split of the pools if left out.
        history: Rows of each task, drawn by --seed, that are shown as measured and not scored.
        anchors: Tell the learned forecaster how long each task's reference takes.
        margin: How many percent from the best still count as a kernel that one should not have missed.
        resamples: Draws of the tasks that the intervals rest on.
        seed: Draws the rows that are shown, and the resamples.
        out: Folder for evaluation.html, .md and .json, and for forecasts.parquet, to be scored again.
        model: Language model of llm and cascade, as anthropic:NAME or openai:NAME. Given several times, llm is each of
            them in turn, and all are compared with the first.
        base_url: URL of an OpenAI-compatible server (vLLM, Ollama, llama.cpp, …) that serves the models.
        output: How results are shown.
    """
    from forewarp.cli import exits
    from forewarp.report import display
    from forewarp.report.documents import EvaluateDocument
    from forewarp.tools.evaluate import EvaluateRequest
    from forewarp.tools.evaluate import evaluate as run

    named = tuple(name.strip() for name in forecasters.split(",") if name.strip())
    request = EvaluateRequest(
        pools=[str(p) for p in pool],
        forecasters=list(named or (("learned",) if pool and not recorded else ())),
        recorded=[str(p) for p in recorded],
        split=split,
        tasks=list(task),
        train=str(train) if train else None,
        history=history,
        anchors=anchors,
        seed=seed,
        resamples=resamples,
        margin=margin / 100,
        model=list(model),
        base_url=base_url,
        keep=str(_folder(out) / "forecasts.parquet") if out else None,
    )
    console = display.stderr()
    console.quiet = output.quiet or not console.is_terminal
    with display.waiting(console, "reading …") as tell:
        result = run(request, lambda name, done, of: tell(f"{name}: task {done + 1} of {of} …"))
    document = EvaluateDocument(command="evaluate", status="ok", **dict(result))
    if out:
        document = _write(document, out)
    if output.json:
        printing.document(document)
    else:
        from forewarp.report.evaluate_tables import render

        render(document, display.stdout(), full=output.verbose)
    return exits.OK


def _folder(out: Path) -> Path:
    from forewarp.core.errors import UsageError

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise UsageError(f"{out} cannot be written: {e.strerror}", hint="pass --out DIR") from None
    return out.absolute()


def _write(document: EvaluateDocument, out: Path) -> EvaluateDocument:
    """Write the reports and return the document with their paths in it; raises `UsageError`."""
    from forewarp.core.errors import UsageError
    from forewarp.report.documents import Artifact
    from forewarp.report.evaluate_tables import markdown
    from forewarp.report.html.evaluation import page

    folder = _folder(out)
    html, text, result = (folder / f"evaluation.{end}" for end in ("html", "md", "json"))
    made = [
        Artifact(kind="report", path=str(html)),
        Artifact(kind="report", path=str(text)),
        Artifact(kind="forecasts", path=str(folder / "forecasts.parquet")),
        # The result names itself, so that one file leads to all others.
        Artifact(kind="result", path=str(result)),
    ]
    document = document.model_copy(update={"artifacts": made})
    try:
        html.write_text(page(document), encoding="utf-8")
        text.write_text(markdown(document), encoding="utf-8")
        result.write_text(document.model_dump_json(indent=2) + "\n", encoding="utf-8")
    except OSError as e:
        raise UsageError(f"{folder} cannot be written: {e.strerror}", hint="pass --out DIR") from None
    return document
