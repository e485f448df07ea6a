"""Evaluations from the event logs of the paper's searches: the only published rows with failures and shapes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from forewarp.core.values import Status, WorkloadTiming
from published_sets import made, tables
from published_sets.made import ImportedOutcome
from published_sets.tables import Record

_STATUS: dict[str, Status] = {
    "compile_failed": "compile_error",
    "runtime_error": "runtime_error",
    "incorrect": "incorrect",
    "success": "ok",
}
_LOGS = ("compilation_error", "runtime_error_name", "runtime_error", "error_message")
_TIMES = ("speedup", "runtime_ns", "ref_runtime_ns")


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One evaluated program: its text, its parent's text ("" for the seed), the search's seed, and its outcome."""

    index: int
    code: str
    parent: str
    seed: str
    outcome: ImportedOutcome
    date: str


@dataclass(slots=True)
class _Requested:
    code: str
    parent: str
    child: str


def evaluations(events: Sequence[Record], left_out: Counter[str]) -> Iterator[Evaluation]:
    """Yield the programs that one search evaluated, in order, without those for which the harness gave no answer."""
    codes: dict[str, str] = {}
    mutations: dict[str, str] = {}
    requests: dict[str, _Requested] = {}
    seed = ""
    for event in events:
        payload, kind = tables.mapping(event["payload"]), event["event_kind"]
        request = str(payload.get("request_id") or "")
        if kind == "search_initialized":
            root = tables.mapping(payload.get("root"))
            seed = str(root.get("program_code") or "")
            codes[str(root.get("ulid"))] = seed
            yield from _one(event, _Requested(seed, "", ""), seed, root, left_out)
        elif kind == "mutation_completed":
            mutations[request] = str(payload.get("code") or "")
        elif kind == "evaluation_requested":
            code = payload.get("code") or mutations.get(str(payload.get("from_mutation_request_id")))
            code = str(code or mutations.get(request, ""))
            parent = codes.get(str(payload.get("parent_ulid")), "")
            requests[request] = _Requested(code, parent, str(payload.get("child_ulid")))
            codes[requests[request].child] = code
        elif kind == "evaluation_completed":
            found = requests.pop(request, None)
            if found is None or not found.code:
                left_out["evaluations of an unknown program"] += 1
            else:
                yield from _one(event, found, seed, payload, left_out)
        elif kind == "evaluation_failed":
            requests.pop(request, None)
            left_out["failures of the harness"] += 1
    left_out["evaluations without an answer"] += len(requests)


def _one(event: Record, request: _Requested, seed: str, holder: Record, left_out: Counter[str]) -> Iterator[Evaluation]:
    evaluation = tables.mapping(holder.get("evaluation"))
    observation = tables.mapping(evaluation.get("observation"))
    inner = tables.mapping(observation.get("inner")) or observation
    outcome = _outcome(tables.mapping(inner.get("feedback")))
    if outcome is None:
        left_out["evaluations without a verdict on the candidate"] += 1
        return
    date = str(holder.get("completed_at") or "")
    yield Evaluation(int(event["event_index"]), request.code, request.parent, seed, outcome, date)


def _outcome(feedback: Record) -> ImportedOutcome | None:
    """Return the outcome that the feedback describes; None if the harness failed or the kind of feedback is unknown."""
    status = _STATUS.get(str(feedback.get("kind")))
    if status is None:
        return None
    if status != "ok":
        said = [str(feedback[name]) for name in _LOGS if feedback.get(name)]
        return ImportedOutcome(status, log="\n".join(said))
    speedup = tables.positive(feedback.get("aggregated_speedup"))
    if speedup is None:
        return None
    cases = [tables.mapping(c) for c in tables.sequence(feedback.get("per_case_speedups"))]
    shapes = [s for case in cases if (s := _shape(case)) is not None]
    return ImportedOutcome("ok", speedup, shapes=tuple(shapes))


def _shape(case: Record) -> WorkloadTiming | None:
    ratio, own, reference = (tables.positive(case.get(name)) for name in _TIMES)
    if ratio is None or own is None or reference is None:
        return None
    name = " ".join(f"{k}={v}" for k, v in case.items() if k not in _TIMES and v is not None)
    return made.shape(name or "default", ratio, own / 1e9, reference / 1e9)
