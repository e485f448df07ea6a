"""`forewarp optimize`: the main job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from forewarp.cli.options import (
    DEFAULT_CAPS,
    DEFAULT_POLICY,
    HERE,
    NO_MODELS,
    PLAIN,
    Caps,
    Language,
    Models,
    Output,
    Policy,
    Where,
)

if TYPE_CHECKING:
    from forewarp.tools.search import SearchRequest


def optimize(
    task: str,
    /,
    *,
    caps: Caps = DEFAULT_CAPS,
    forecaster: Literal["learned", "llm", "cascade", "none"] = "learned",
    model: Models = NO_MODELS,
    forecast_model: str | None = None,
    seed_kernel: Annotated[tuple[Path, ...], Parameter(negative="", show_default=False)] = (),
    language: Language | None = None,
    allow_tf32: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    inputs: Path | None = None,
    seed: int = 0,
    policy: Policy = DEFAULT_POLICY,
    out: Path | None = None,
    events: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    dry_run: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    target: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    where: Where = HERE,
    output: Output = PLAIN,
) -> int:
    """Find a faster kernel for a task, on as few measurements as possible.

    Args:
        task: Bundled task (see `forewarp tasks`), task folder or KernelBench file.
        forecaster: learned is embedded and free; llm asks --model; cascade asks --model only where that could change
            what is measured; none measures everything.
        forecast_model: Language model that forecasts, for llm and cascade; the first --model if left out.
        seed_kernel: Kernel file to start from; may be given several times.
        language: Keep to one language; all languages of the device if left out.
        allow_tf32: Accept products in TF32 where the reference computes them in fp32; results are kept apart.
        inputs: File of captured calls (torch.save), which become the task's shapes, weighted by how often they occur.
        seed: Two runs with the same seed make the same choices.
        out: Folder for the best kernel, result.json, candidates.csv and report.html; ./forewarp-runs/RUN if left out.
        events: File that receives each event as one JSON line; - is stdout, with the result as the last line.
        dry_run: Say what the run will probably take, and do nothing.
        target: Card to search for, such as h200; several, as in h200,a100, are searched together, each with the whole
            budget, for a winner on each and the best compromise. h200@ssh:HOST is a card of another machine.
        policy: What is measured of what is proposed.
        caps: What the run may spend.
        model: The language models, if any.
        where: Device and archive.
        output: How results are shown.
    """
    from forewarp.cli import running, stream
    from forewarp.tools.parts import Amounts
    from forewarp.tools.search import SearchRequest, estimate_search, open_search
    from forewarp.tools.session import with_inputs
    from forewarp.tools.targets import places_of

    stream.check(events)
    places = places_of(where.place(), target) if target else [where.place()]
    request = SearchRequest(
        task=with_inputs(task, inputs and str(inputs), where.place()),
        place=places[0] if len(places) == 1 else where.place(),
        budget=Amounts(
            measurements=caps.budget,
            device_s=caps.max_gpu_seconds,
            dollars=caps.max_usd,
            tokens=caps.max_tokens,
            wall_s=caps.deadline,
        ),
        seed=seed,
        forecaster=forecaster,
        model=list(model.model),
        base_url=model.base_url,
        forecast_model=forecast_model,
        seed_kernels=[str(p) for p in seed_kernel],
        language=language,
        allow_tf32=allow_tf32,
        confirm=policy.confirm,
        holdout=policy.holdout,
        audit=policy.audit,
        explore=policy.explore,
        proposals=policy.proposals,
        measure_per_round=policy.measure_per_round,
        patience=policy.patience,
        learn_across_runs=policy.learn_across_runs,
    )
    if len(places) > 1:
        return _together(request, target, out, output, events, dry_run=dry_run)
    if dry_run:
        return running.foresee(estimate_search(request), output)
    with open_search(request) as job:
        return running.drive(job, "optimize", out=out, output=output, events=events)


def _together(
    request: SearchRequest,
    targets: tuple[str, ...],
    out: Path | None,
    output: Output,
    events: str | None,
    *,
    dry_run: bool,
) -> int:
    """Search for several targets at once."""
    from forewarp.cli import joint
    from forewarp.tools.joint_search import estimate_joint, open_joint

    if dry_run:
        return joint.foresee(estimate_joint(request, targets), output)
    with open_joint(request, targets) as job:
        return joint.drive(job, "optimize", out=out, output=output, events=events)
