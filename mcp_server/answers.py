"""Answers of the tools, and progress until then: short results, the rest behind links, as data and compact text."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from mcp.types import CallToolResult, ContentBlock, ResourceLink, TextContent
from pydantic import BeforeValidator, ConfigDict, Field

from forewarp.core.untrusted_text import clip
from forewarp.mcp_server.wording import in_arguments
from forewarp.tools.digest import digest, picked
from forewarp.tools.parts import ChosenConfiguration, Part
from forewarp.tools.wording import counted

if TYPE_CHECKING:
    from forewarp.tools.forecast_kernel import ForecastResult
    from forewarp.tools.inspect_kernel import InspectResult, LaunchFacts
    from forewarp.tools.measured import MeasureResult
    from forewarp.tools.run_report import CandidateLine, SearchResult
    from forewarp.tools.tune import TuneResult
    from forewarp.tools.validate_task import ValidateResult

LIMIT_BYTES = 3_200
"""Most bytes of an answer: 800 tokens of four bytes."""
DETAILED_BYTES = 24_000
LOG = {"concise": 1_000, "detailed": 4_000}
"""Most characters of a log."""
SOURCE = 1_800
SHAPES = 4
LINES = 20
TUNED = 8
"""Most kernels of a tuned file that are listed."""
MEASURED = "name verdict speedup candidate_us reference_us noise_percent warm launched"
"""Fields of a measured shape in an answer."""
POLL_S = 5.0
_SAID = ("summary", "reason", "log", "flags", "problems", "problem")
"""Fields with sentences of forewarp, which may name a flag."""
_WHOLE = ("summary", "folder", "format", "source")
"""Fields that are of no use in part."""
_LOGS = (800, 400, 200, 80, 40)

Detail = Literal["concise", "detailed"]


def _digits(value: Any) -> Any:
    """Round a number, or the median of a spread, to four digits."""
    number = getattr(value, "median", value)
    return number if number is None else float(f"{number:.4g}")


def _cut(characters: int, items: int) -> BeforeValidator:
    return BeforeValidator(lambda texts: [clip(text, characters) for text in texts[:items]])


Text = Annotated[str | None, BeforeValidator(lambda v: None if v is None else str(v))]
Name = Annotated[str, BeforeValidator(lambda v: getattr(v, "name", v))]
Identity = Annotated[str, BeforeValidator(lambda v: getattr(v, "short", v))]
Digits = Annotated[float, BeforeValidator(_digits)]
AnyDigits = Annotated[float | None, BeforeValidator(_digits)]
Chance = Annotated[float | None, BeforeValidator(lambda v: None if v is None else round(v, 3))]
Reason = Annotated[str, BeforeValidator(lambda v: clip(v, 300))]
Speedup = Annotated[Text, Field(description="Ratio with its 95 % interval.")]
Median = Annotated[Text, Field(description="Forecast speed-up with its 80 % interval.")]
PollAfter = Annotated[float | None, Field(description="When to call search_status, if at all.")]


class CallProgress:
    """Progress of one call: the latest message, and what is done of what there is to do, where that is known."""

    def __init__(self, message: str) -> None:
        self.message, self.done = message, 0.0
        self.total: float | None = None

    def __call__(self, message: str, done: float = 0.0, total: float | None = None) -> None:
        self.message, self.done, self.total = message, done, total


class ToolAnswer(Part):
    """Base of all answers; `links` names resources that hold more."""

    summary: str


class ForecastAnswer(ToolAnswer):
    """Forecast of a kernel, and advice whether to measure it."""

    recommendation: str = Field(description="measure, skip or accept.")
    reason: Reason
    status: str = Field(description="ok, or compile_error with a log.")
    task: str
    device: Name
    kernel: Identity = Field(description="Identity; resource forewarp://kernels/{kernel} once it was measured.")
    median: Median
    p_valid: Chance
    p_faster: Chance
    best_so_far: Text
    already_measured: Text
    trials: int = Field(description="Measurements that the forecast rests on; with 0 it is a broad prior.")
    ranking: list[dict[str, Any]] = Field(
        default_factory=list[dict[str, Any]], description="Several kernels, the best first; position is that in paths."
    )
    distribution: dict[str, float] | None = Field(default=None, description="Probability by range; detailed only.")
    evidence: dict[str, Digits] | None = Field(default=None, description="Facts read off the code; detailed only.")
    evidence_used: list[str] | None = None
    usd: float | None = None
    log: str = ""
    links: dict[str, str] = Field(default_factory=dict[str, str])


def forecast_answer(found: ForecastResult, detail: Detail) -> ForecastAnswer:
    f, more = found.forecast, detail == "detailed"
    ranking = [
        picked(
            *(r, "position path recommendation p_best"),
            median=r.forecast and r.forecast.median,
            p_faster=r.forecast and r.forecast.p_faster,
            problem=clip(r.problem, 300),
        )
        for r in found.ranking
    ]
    return ForecastAnswer.of(
        found,
        summary=clip(found.summary, 900),
        median=f and f.median,
        p_valid=f and f.p_valid,
        p_faster=f and f.p_faster,
        ranking=ranking,
        distribution={b.range: round(b.probability, 4) for b in f.distribution} if f and more else None,
        evidence=found.evidence.facts if more else None,
        evidence_used=found.evidence_used if more else None,
        usd=found.cost.dollars or None,
        log=clip(found.log, LOG[detail]),
    )


class MeasureAnswer(ToolAnswer):
    """Result of a measurement, or a handle while there is none yet."""

    run_id: str = Field(description="Handle for search_status and search_cancel.")
    status: str = Field(
        description="queued, running, cancelled, lost; or the kernel's: ok, compile_error, incorrect, runtime_error, "
        "timeout, crashed, out_of_memory."
    )
    poll_after_s: PollAfter = None
    ahead: int | None = Field(default=None, description="Measurements that end before this one begins.")
    verdict: str | None = None
    trusted: bool | None = Field(default=None, description="Correct, and its time is to be believed.")
    speedup: Speedup = None
    source: str | None = Field(default=None, description="measured, or replay of a recorded measurement.")
    task: str
    device: Name | None = None
    kernel: Identity | None = None
    anchor: str | None = None
    shapes: list[dict[str, Any]] = Field(
        default_factory=list[dict[str, Any]], description="Speed-ups with 95 % intervals, median times of both."
    )
    flags: Annotated[list[str], _cut(300, 8)] = Field(
        default_factory=list[str], description="What speaks against the time."
    )
    checks: list[str] | None = Field(default=None, description="What the outputs passed; detailed only.")
    device_state: dict[str, Any] | None = Field(default=None, description="Detailed only.")
    phases: dict[str, Digits] | None = Field(default=None, description="Seconds by phase; detailed only.")
    measurement_id: int | None = None
    device_s: AnyDigits = None
    measurements_left: int | None = Field(default=None, description="Of the budget; null where nothing caps it.")
    log: str = ""
    links: dict[str, str] = Field(default_factory=dict[str, str])


def measure_answer(
    run_id: str, found: MeasureResult, detail: Detail, log: str, measurements_left: float | None
) -> MeasureAnswer:
    """Convert a measurement; `log` is its whole log, which is linked where it is not all here."""
    from forewarp.tools.describe import CPU_COMPILER_FLAGS

    more, state = detail == "detailed", found.device_state
    cores = f", {counted(state.processors, 'processor')}" if state and state.processors else ""
    built = {"compiler_flags": CPU_COMPILER_FLAGS} if found.kernel.language == "cpp" else {}
    links: dict[str, str] = {}
    if len(log) > LOG[detail]:
        links["log"] = f"forewarp://jobs/{run_id}/log"
    if found.measurement_id is not None:
        links["kernel"] = f"forewarp://kernels/{found.kernel.sha256}"
    return MeasureAnswer.of(
        found,
        summary=clip(found.summary, 700),
        run_id=run_id,
        device=found.device.name + cores,
        anchor=found.anchor if found.anchor == "reference" else found.anchor[:10],
        shapes=[picked(w, MEASURED) for w in found.workloads[: None if more else SHAPES]],
        checks=found.checks if more else None,
        device_state=digest(state.model_dump()) | built if state and more else None,
        phases=found.phases if more else None,
        device_s=found.cost.device_s,
        measurements_left=None if measurements_left is None else int(measurements_left),
        log=clip(log if len(log) > LOG[detail] else found.log, LOG[detail]),
        links=links,
    )


class SearchAnswer(ToolAnswer):
    """State of a run."""

    run_id: str = Field(description="Handle for search_status and search_cancel.")
    status: str = Field(description="starting, running, finished, interrupted, cancelled, failed or lost.")
    reason: Reason = ""
    poll_after_s: PollAfter = None
    task: str
    device: Name | None = None
    source: str | None = None
    best: dict[str, Any] | None = Field(
        default=None, description="The best kernel so far; with its source if that is short and the run is over."
    )
    near_shapes: str | None = Field(default=None, description="How best does on shapes that nobody tuned for.")
    measurements: str = Field(default="", description="Of the budget, as progress counts them.")
    counts: dict[str, Any] = Field(default_factory=dict[str, Any], description="Candidates by how far they came.")
    alarms: int | None = Field(default=None, description="How often outcomes did not fit the forecasts.")
    spent: dict[str, Digits] = Field(default_factory=dict[str, float])
    limit: dict[str, Digits] = Field(default_factory=dict[str, float])
    candidates: list[dict[str, Any]] | None = Field(
        default=None, description="The latest measured ones first; detailed."
    )
    folder: str | None = Field(default=None, description="Its files: best kernel, result.json, report.html.")
    tuned: list[ChosenConfiguration] | None = Field(default=None, description="Configurations of an autotuned file.")
    patch: str | None = Field(default=None, description="Change of the file that leaves it those only.")
    links: dict[str, str] = Field(default_factory=dict[str, str])


def tuned_answer(found: TuneResult, handle: str, file: Path) -> SearchAnswer:
    """Convert the configurations of an autotuned file into an answer."""
    command = f"forewarp tune {shlex.quote(str(file))}"
    patch = found.patch if len(found.patch) <= SOURCE else None
    said = "" if patch or not found.patch else " The change of the file is too long for an answer."
    return SearchAnswer(
        summary=f"{found.summary}{said} To measure them: {command} on the machine with the GPU. To lock them, "
        f"so that all ranks take the same: {command} --deterministic",
        run_id=handle,
        status="finished",
        reason="; ".join(found.problems),
        task=file.name,
        device=found.target.name,
        tuned=found.chosen()[:TUNED],
        patch=patch,
    )


def search_answer(found: SearchResult, detail: Detail, *, lost: bool, folder: str, others: int) -> SearchAnswer:
    """Convert a run into an answer; `others` is how many other runs share its device."""
    running = found.status == "running" and not lost
    run, best = found.run_id, found.best
    summary = found.summary
    if running and not found.counts.considered:
        summary = f"The run on {found.task} has begun; nothing is measured yet."
    if lost or found.status == "interrupted":
        summary += f" search_resume with run_id {run} goes on with it."
    elif running:
        summary += f" Call search_status with run_id {run} again."
        summary += f" It shares the device with {others} other run{'s' * (others != 1)}." if others else ""
    links = {"run": f"forewarp://runs/{run}", "report": f"forewarp://runs/{run}/report"}
    winner: dict[str, Any] | None = None
    if best is not None:
        links["best"] = f"forewarp://runs/{run}/best"
        text = best.source if not running and len(best.source) <= SOURCE else None
        about = {"language": best.kernel.language, "tunables": best.kernel.tunables, "source": text}
        flags = [clip(flag, 200) for flag in best.flags[:4]]
        winner = picked(best, "kernel speedup verdict confirmed", flags=flags, **about)
    latest = found.candidates[::-1]
    ordered = [c for c in latest if c.measured] + [c for c in latest if not c.measured]
    return SearchAnswer.of(
        found,
        summary=clip(summary, 1200),
        status="lost" if lost else found.status,
        poll_after_s=POLL_S if running else None,
        best=winner,
        near_shapes=found.holdout.said if found.holdout else None,
        alarms=found.alarms or None,
        counts=found.counts.model_dump(exclude_defaults=True),
        measurements=measurements_of(found.budget.spent.measurements or 0, found.budget.limit.measurements),
        spent={name: amount for name, amount in found.budget.spent.model_dump(exclude_none=True).items() if amount},
        limit=found.budget.limit.model_dump(exclude_none=True),
        candidates=[_candidate(c) for c in ordered[:LINES]] if detail == "detailed" else None,
        folder=folder if not running and not lost else None,
        links=links,
    )


def measurements_of(spent: int, most: int | None) -> str:
    """Return how many measurements of how many are spent, a second one of the winner counted."""
    return f"{spent} of {most}" if most else str(spent)


def _candidate(line: CandidateLine) -> dict[str, Any]:
    m = line.measured
    return picked(
        *(line, "kernel action"),
        tunables=line.kernel.tunables,
        note=clip(line.note, 100),
        forecast=line.forecast and line.forecast.median,
        measured=m and f"{m.verdict} {m.speedup or m.status}",
    )


class StatusAnswer(ToolAnswer):
    """State behind a handle; beside these fields, those of search for a run, of measure_kernel for a measurement."""

    model_config = ConfigDict(frozen=True, extra="allow")

    run_id: str
    status: str
    poll_after_s: PollAfter = None
    task: str


class VerbAnswer(ToolAnswer):
    """Result of a verb, or a handle while there is none yet."""

    run_id: str
    status: str
    poll_after_s: PollAfter = None
    task: str
    result: dict[str, Any] | None = None


class Described(ToolAnswer):
    """Description of device, tasks, budget and recent work, of a task, or of a format: each part where asked for."""

    device: dict[str, Any] | None = None
    tasks: dict[str, str] | None = None
    budget: dict[str, Any] | None = None
    recent: dict[str, Any] | None = None
    task: dict[str, Any] | None = None
    interface: dict[str, Any] | None = Field(default=None, description="What a kernel is passed, with C types.")
    start: dict[str, Any] | None = Field(default=None, description="A kernel to start from.")
    format: str | None = Field(default=None, description="Rules of candidates, with an example.")
    links: dict[str, str] = Field(default_factory=dict[str, str])


class TaskAnswer(ToolAnswer):
    """A task made of a function: the file to pass as `task`."""

    task: str
    interface: dict[str, Any]


class ValidateAnswer(ToolAnswer):
    """Verdict of a validation: sound where wrong answers are turned down."""

    status: str = Field(description="running or finished.")
    verdict: str | None = Field(default=None, description="sound, random or degenerate.")
    task: str
    device: Name | None = None
    shapes: list[dict[str, Any]] = Field(
        default_factory=list[dict[str, Any]], description="With the wrong answers that passed, problems and notes."
    )


def validate_answer(found: ValidateResult) -> ValidateAnswer:
    shapes = [
        picked(w, "name sound problems notes", passed=[str(n) for n in w.nulls if n.passed]) for w in found.workloads
    ]
    return ValidateAnswer.of(found, summary=clip(found.summary, 900), status="finished", shapes=shapes)


class InspectAnswer(ToolAnswer):
    """Machine code of a kernel for a target, by shape, and its check on the CPU."""

    status: str
    task: str = ""
    target: Name
    shapes: list[dict[str, Any]] = Field(
        default_factory=list[dict[str, Any]], description="With launches; floor_us is the least time by the roofline."
    )
    problems: Annotated[list[str], _cut(300, 6)] = Field(default_factory=list[str])
    check: dict[str, Any] | None = Field(default=None, description="Outcome of the run on the CPU.")
    log: str = ""


def inspect_answer(found: InspectResult, target: str) -> InspectAnswer:
    """Convert the inspection of one kernel; `target` is the short name of the device."""
    kernel = found.kernels[0]
    check = kernel.check
    return InspectAnswer.of(
        found,
        summary=clip(found.summary, 600),
        status=kernel.status or "unreadable",
        shapes=[
            picked(
                *(w, "bound"),
                name=w.workload,
                floor_us=w.floors_us.get(target),
                launches=[_launch(e) for e in w.launches[:SHAPES]],
                library_calls=w.calls[:LINES],
            )
            for w in kernel.workloads[:SHAPES]
        ],
        problems=kernel.problems,
        check=check
        and {
            "status": check.status,
            "how": check.how,
            "message": clip(check.message, 300),
            "faults": [f"{f.kind} at {f.where}: {clip(f.message, 200)}" for f in check.findings[:6]],
        },
        log=clip(kernel.log, LOG["concise"]),
    )


def _launch(launch: LaunchFacts) -> dict[str, Any]:
    shared = launch.static_shared_bytes + launch.dynamic_shared_bytes
    names = "kernel grid block registers occupancy limiter waves"
    return picked(launch, names, spills_bytes=launch.local_bytes, shared_bytes=shared)


def reply(answer: ToolAnswer, detail: Detail = "concise") -> CallToolResult:
    """Return an answer as structured content, as text that says the same, and as links to what is not in it."""
    limit = LIMIT_BYTES if detail == "concise" else DETAILED_BYTES
    data = fitted(filled(answer), limit)
    content: list[ContentBlock] = [TextContent(type="text", text=as_text(data))]
    links: dict[str, str] = getattr(answer, "links", {})
    content += [ResourceLink(type="resource_link", name=name, uri=uri) for name, uri in links.items()]
    return CallToolResult(content=content, structured_content=data)


def filled(answer: ToolAnswer) -> dict[str, Any]:
    return _filled(answer.model_dump(mode="json"))


def _filled(data: dict[str, Any]) -> dict[str, Any]:
    """Return what says something: nothing that is null or empty."""
    found = {key: _filled_value(value, key) for key, value in data.items()}
    return {key: value for key, value in found.items() if value is not None and value not in ("", [], {})}


def _filled_value(value: Any, key: str) -> Any:
    if isinstance(value, dict):
        return _filled(cast("dict[str, Any]", value))
    if isinstance(value, list):
        return [_filled_value(v, key) for v in cast("list[Any]", value)]
    return in_arguments(value) if isinstance(value, str) and key in _SAID else value


def as_text(data: dict[str, Any]) -> str:
    """Return the summary, then a line for each field that says something."""
    lines = [str(data["summary"])]
    for name, value in data.items():
        if name != "summary":
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            lines.append(f"{name}: {shown}")
    return "\n".join(lines)


def fitted(data: dict[str, Any], limit: int) -> dict[str, Any]:
    """Shorten long texts, then long lists, until all fits into `limit` bytes; what is left out is said."""
    for longest in _LOGS:
        if size(data) <= limit:
            return data
        data = _shortened(data, longest, items=max(4, longest // 40))
    return data


def size(data: Any) -> int:
    """Return the bytes of the larger of the two forms in which a model may see an answer."""
    return len(json.dumps(data, ensure_ascii=False).encode())


def _shortened(value: Any, longest: int, items: int, key: str = "") -> Any:
    if isinstance(value, dict):
        return {k: _shortened(v, longest, items, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_shortened(v, longest, items) for v in value[:items]]
    return clip(value, longest) if isinstance(value, str) and key not in _WHOLE else value
