"""Answers of the tools: small models whose first field is `summary`, and the same as compact text."""

from __future__ import annotations

import json
from typing import Any, Literal

from mcp.types import CallToolResult, ContentBlock, ResourceLink, TextContent
from pydantic import ConfigDict, Field

from forewarp.tools.parts import Part, trim

LIMIT_BYTES = 6_000
"""Most bytes of an answer: well under 2,000 tokens, also of text that takes a token for every three bytes."""
DETAILED_BYTES = 24_000
_LOGS = (800, 400, 200, 80)

Detail = Literal["concise", "detailed"]


class ToolAnswer(Part):
    """Base of all answers; `links` names resources that hold more."""

    summary: str


class Shape(Part):
    """One shape of the task."""

    name: str
    verdict: str
    speedup: str = Field(description="Ratio with its 95 % interval.")
    candidate_us: float
    reference_us: float = Field(description="Of the reference, or of the kernel of against.")
    noise_percent: float | None = Field(default=None, description="What equal kernels come out apart.")
    warm: str | None = Field(default=None, description="With a warm L2 cache.")
    launched: str | None = Field(default=None, description="With the launch included.")


class Ranked(Part):
    """One of several kernels, the best first."""

    position: int = Field(description="Its place in paths, from 1.")
    path: str
    recommendation: str | None
    median: str | None = Field(default=None, description="Forecast speed-up with its 80 % interval.")
    p_faster: float | None = None
    p_best: float | None = None
    problem: str = ""


class ForecastAnswer(ToolAnswer):
    """Forecast of a kernel, and advice whether to measure it."""

    recommendation: str = Field(description="measure, skip or accept.")
    reason: str
    status: str = Field(description="ok, or compile_error with a log.")
    task: str
    device: str
    kernel: str = Field(description="Identity; resource forewarp://kernels/{kernel} once it was measured.")
    median: str | None = Field(description="Forecast speed-up with its 80 % interval; null if it does not compile.")
    p_valid: float | None
    p_faster: float | None
    best_so_far: str | None
    already_measured: str | None
    trials: int = Field(description="Measurements that the forecast rests on; with 0 it is a broad prior.")
    ranking: list[Ranked] = Field(default_factory=list[Ranked])
    distribution: dict[str, float] | None = Field(default=None, description="Probability by range; detailed only.")
    evidence: dict[str, float] | None = Field(default=None, description="Facts read off the code; detailed only.")
    evidence_used: list[str] | None = None
    usd: float | None = Field(default=0.0, description="Null where the model's price is unknown.")
    log: str = ""
    links: dict[str, str] = Field(default_factory=dict[str, str])


class MeasureAnswer(ToolAnswer):
    """Result of a measurement, or a handle while there is none yet."""

    run_id: str = Field(description="Handle for search_status and search_cancel.")
    status: str = Field(
        description="queued, running, cancelled, lost; or the kernel's: ok, compile_error, incorrect, runtime_error, "
        "timeout, crashed, out_of_memory."
    )
    poll_after_s: float | None = Field(default=None, description="When to call search_status; null once it is over.")
    ahead: int | None = Field(default=None, description="Measurements that end before this one begins.")
    verdict: str | None = None
    trusted: bool | None = Field(default=None, description="Correct, and its time is to be believed.")
    speedup: str | None = Field(default=None, description="Ratio with its 95 % interval.")
    source: str | None = Field(default=None, description="measured, or replay of a recorded measurement.")
    task: str
    device: str | None = None
    kernel: str | None = None
    anchor: str | None = None
    shapes: list[Shape] = Field(default_factory=list[Shape])
    flags: list[str] = Field(default_factory=list[str], description="What speaks against the time.")
    checks: list[str] | None = Field(default=None, description="What the outputs passed; detailed only.")
    device_state: dict[str, Any] | None = Field(default=None, description="Detailed only.")
    phases: dict[str, float] | None = Field(default=None, description="Seconds by phase; detailed only.")
    measurement_id: int | None = None
    device_s: float | None = None
    measurements_left: int | None = Field(default=None, description="Of the budget; null where nothing caps it.")
    log: str = ""
    links: dict[str, str] = Field(default_factory=dict[str, str])


class Best(Part):
    """The best kernel so far."""

    kernel: str
    language: str
    tunables: dict[str, int]
    speedup: str
    verdict: str
    confirmed: bool
    flags: list[str]
    source: str | None = Field(description="Its text if it is short and the run is over; else see links.")


class RunCandidate(Part):
    """One candidate of a run."""

    kernel: str
    tunables: dict[str, int]
    note: str
    action: str | None
    forecast: str | None
    measured: str | None


class SearchAnswer(ToolAnswer):
    """State of a run."""

    run_id: str
    status: str = Field(description="starting, running, finished, interrupted, failed or lost.")
    reason: str = ""
    poll_after_s: float | None = Field(default=None, description="When to call search_status; null once it is over.")
    task: str
    device: str | None = None
    source: str | None = None
    best: Best | None = None
    near_shapes: str | None = Field(default=None, description="How best does on shapes that nobody tuned for.")
    counts: dict[str, Any] = Field(default_factory=dict[str, Any])
    alarms: int = Field(default=0, description="How often outcomes did not fit the forecasts.")
    spent: dict[str, float] = Field(default_factory=dict[str, float])
    limit: dict[str, float] = Field(default_factory=dict[str, float])
    candidates: list[RunCandidate] | None = Field(
        default=None, description="Measured ones first, the last ones first; detailed."
    )
    folder: str | None = Field(default=None, description="Its files: best kernel, result.json, report.html.")
    links: dict[str, str] = Field(default_factory=dict[str, str])


class StatusAnswer(ToolAnswer):
    """State behind a handle; beside these fields, those of search for a run, of measure_kernel for a measurement."""

    model_config = ConfigDict(frozen=True, extra="allow")

    run_id: str
    status: str
    poll_after_s: float | None = Field(description="When to call again; null once it is over.")
    task: str


class Described(ToolAnswer):
    """Description of device, tasks, budget and recent work: each part only where it was asked for."""

    device: dict[str, Any] | None = None
    tasks: dict[str, str] | None = None
    task: dict[str, Any] | None = None
    budget: dict[str, Any] | None = None
    recent: dict[str, Any] | None = None
    links: dict[str, str] = Field(default_factory=dict[str, str])


def reply(answer: ToolAnswer, detail: Detail = "concise") -> CallToolResult:
    """Return an answer as structured content, as text that says the same, and as links to what is not in it."""
    limit = LIMIT_BYTES if detail == "concise" else DETAILED_BYTES
    data = fitted(answer.model_dump(mode="json"), limit)
    content: list[ContentBlock] = [TextContent(type="text", text=as_text(data))]
    links: dict[str, str] = getattr(answer, "links", {})
    content += [ResourceLink(type="resource_link", name=name, uri=uri) for name, uri in links.items()]
    return CallToolResult(content=content, structured_content=data)


def as_text(data: dict[str, Any]) -> str:
    """Return the summary, then a line for each field that says something."""
    lines = [str(data["summary"])]
    for name, value in data.items():
        if name != "summary" and value not in (None, "", [], {}):
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
    # The summary has to stay whole: it holds the recommendation.
    return trim(value, longest) if isinstance(value, str) and key not in ("summary", "folder") else value
