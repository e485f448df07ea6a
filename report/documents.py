"""Documents that `--json` prints: one versioned envelope, with each verb's own fields beside the common ones.

The schemas under `docs/schemas/` are generated from these models (`python -m forewarp.report.documents FOLDER`).
"""

# A result's own `status` is narrower than the envelope's.
# pyright: reportIncompatibleVariableOverride=false

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from forewarp.core.errors import ForewarpError
from forewarp.tools.apply_model import ApplyResult
from forewarp.tools.archive_repair import ArchiveState
from forewarp.tools.data import DataResult
from forewarp.tools.evaluate import EvaluateResult
from forewarp.tools.export import ExportResult
from forewarp.tools.forecast_kernel import ForecastResult
from forewarp.tools.gate_check import GateResult
from forewarp.tools.gate_lock import LockResult
from forewarp.tools.inspect_kernel import InspectResult
from forewarp.tools.measure_kernel import MeasureManyResult
from forewarp.tools.measured import MeasureResult
from forewarp.tools.optimize_model import OptimizeModelResult
from forewarp.tools.parts import SCHEMA_VERSION, Device, Interval
from forewarp.tools.profile_model import ProfileResult
from forewarp.tools.run_report import BudgetUse, SearchResult, Winner
from forewarp.tools.suite_results import SuiteResult
from forewarp.tools.train import TrainResult
from forewarp.tools.tune import TuneResult
from forewarp.tools.validate_task import ValidateResult


class Failure(BaseModel):
    """Error of a command that could not do its work. The same call may succeed later where `retryable` is true."""

    code: str = Field(description="usage, task, candidate, model, device, worker, archive, interrupted or internal.")
    message: str
    hint: str = ""
    retryable: bool = False


class Artifact(BaseModel):
    """A file that the command wrote."""

    kind: Literal[
        "kernel", "module", "evidence", "result", "candidates", "report", "forecasts", "image", "adapter", "task"
    ]
    path: str


class Envelope(BaseModel):
    """Fields that every document has; by itself it is the document of a command that failed."""

    model_config = ConfigDict(frozen=True)

    schema_version: int = SCHEMA_VERSION
    type: Literal["result"] = "result"
    command: str
    status: str = Field(description='"error" where the command could not do its work; else see the verb.')
    reason: str = ""
    run_id: str | None = None
    summary: str
    artifacts: list[Artifact] = []
    error: Failure | None = None


class OptimizeModelDocument(OptimizeModelResult, Envelope, title="forewarp optimize --top --json"):
    """Document of `optimize --top` and its `resume`; `status` is finished or interrupted."""


class SearchDocument(SearchResult, Envelope, title="forewarp optimize --json"):
    """Document of `optimize`, `resume` and `show`; `status` is finished, interrupted, failed or running."""


class TaskLine(BaseModel):
    """One bundled task."""

    name: str
    title: str
    languages: list[str] = Field(description="Languages in which it has a seed kernel.")
    workloads: dict[str, list[str]]


class TasksDocument(Envelope, title="forewarp tasks --json"):
    """Document of `tasks`."""

    tasks: list[TaskLine]


class RunLine(BaseModel):
    """One run."""

    run_id: str
    task: str
    device: Device
    status: str
    reason: str
    created: str
    finished: str
    best: Winner | None = Field(default=None, description="The winner so far; null while nothing worked.")


class RunsDocument(Envelope, title="forewarp runs --json"):
    """Document of `runs`; the newest run comes first."""

    runs: list[RunLine]


class ReportDocument(Envelope, title="forewarp report --json"):
    """Document of `report`; `status` and `summary` are those of the run."""

    path: str = Field(description="The page.")
    bytes: int = Field(description="Its size.")


class DoctorCheck(BaseModel):
    """One thing that doctor looked at. `costs` says what is lost where it is missing."""

    name: str
    found: bool
    detail: str
    costs: str = ""


class DoctorDocument(Envelope, title="forewarp doctor --json"):
    """Document of `doctor`; `status` is ok if something can be measured here, else degraded."""

    checks: list[DoctorCheck]


class EvaluateDocument(EvaluateResult, Envelope, title="forewarp evaluate --json"):
    """Document of `evaluate`."""


class ChatBest(BaseModel):
    """The fastest correct candidate of a conversation."""

    number: int = Field(description="Its number in the conversation.")
    task: str
    device: str
    kernel: str = Field(description="Its sha256.")
    language: str
    tunables: dict[str, int]
    speedup: Interval = Field(description="Over the task's reference, with the 95 % interval.")
    verdict: str
    provenance: str = Field(description="measured, or replay of a recorded measurement.")
    text: str = Field(description="The kernel, with its tunables as the launch plan's defaults.")


class ChatDocument(Envelope, title="forewarp -p --json"):
    """Document of `forewarp -p` and `chat -p`; `summary` is the answer, `status` is ok, interrupted or error."""

    conversation: str = Field(description="Id to --resume; empty where it is not recorded.")
    replay: bool = Field(description="Whether a record was played: no model was asked, nothing was measured.")
    input_tokens: int
    output_tokens: int
    dollars: float | None = Field(description="Null where the model's price is unknown.")
    seconds: float
    budget: BudgetUse = Field(description="Of the whole conversation.")
    best: ChatBest | None
    events: list[dict[str, Any]] = Field(description="What happened, in order; empty with stream-json.")


class ConversationLine(BaseModel):
    """One conversation. `began` is in seconds since 1970."""

    id: str
    title: str
    folder: str
    began: float


class ConversationsDocument(Envelope, title="forewarp --resume --json"):
    """Document of `--resume` without an id; the latest conversation comes first."""

    conversations: list[ConversationLine]


def _document_of(kind: type[BaseModel], command: str, about: str) -> type[Envelope]:
    """Return the document that has the fields of a verb's result, too."""
    title, text = {"title": f"forewarp {command} --json"}, f"Document of `{command}`; {about}"
    made: Any = create_model(f"{kind.__name__}Document", __base__=(kind, Envelope), __doc__=text, __cls_kwargs__=title)
    return made


DOCUMENTS: dict[str, type[Envelope]] = {
    "error": Envelope,
    "measure": _document_of(MeasureResult, "measure", "`status` is the kernel's."),
    "measure_many": _document_of(
        MeasureManyResult,
        "measure",
        "with several kernels; `status` is ok if one of them has a trusted time, else failed.",
    ),
    "suite": _document_of(SuiteResult, "suite", "`status` is finished, or interrupted if measurements are left."),
    "inspect": _document_of(
        InspectResult, "inspect", "`status` is ok if every kernel compiles and none was found wrong, else failed."
    ),
    "tune": _document_of(TuneResult, "tune", "`status` is ok if a kernel was tuned, else failed."),
    "profile": _document_of(ProfileResult, "profile", "`status` is ok."),
    "apply": _document_of(ApplyResult, "apply", "`status` is ok if a kernel was kept, else failed."),
    "forecast": _document_of(
        ForecastResult, "forecast", "`status` is ok or compile_error; with several kernels, the most promising one's."
    ),
    "optimize": SearchDocument,
    "optimize_model": OptimizeModelDocument,
    "gate_lock": _document_of(LockResult, "gate lock", "`status` is ok, or failed if a kernel was not locked."),
    "gate_check": _document_of(GateResult, "gate check", "`status` is passed, worse, open or interrupted."),
    "evaluate": EvaluateDocument,
    "train": _document_of(TrainResult, "train", "`status` is ok."),
    "validate": _document_of(ValidateResult, "validate", "`status` is the verdict: sound, random or degenerate."),
    "tasks": TasksDocument,
    "runs": RunsDocument,
    "report": ReportDocument,
    "export": _document_of(ExportResult, "export", "`artifacts` are the files."),
    "doctor": DoctorDocument,
    "chat": ChatDocument,
    "conversations": ConversationsDocument,
    "data": _document_of(DataResult, "data export", "`status` is ok."),
    "archive": _document_of(
        ArchiveState, "archive check, archive repair", "`status` is error if a damaged archive was only checked."
    ),
}


_BY_RESULT = {document.__bases__[0]: document for document in DOCUMENTS.values()}


def document(result: BaseModel, command: str, **fields: Any) -> Envelope:
    """Return the document of a verb's result; `fields` are those of the envelope that the result does not have."""
    said: dict[str, Any] = {"status": "ok"} | fields | dict(result)
    return _BY_RESULT[type(result)](command=command, **said)


def failure(error: BaseException | None) -> Failure | None:
    """Return what ended a run before its time as documents tell it; None where it was asked to end."""
    if isinstance(error, ForewarpError):
        return Failure(code=error.code, message=error.message, hint=error.hint, retryable=error.retryable)
    if isinstance(error, Exception):
        return Failure(code="internal", message=f"{type(error).__name__}: {error}", hint="run it with -v")
    return None


def schema(name: str) -> dict[str, Any]:
    return DOCUMENTS[name].model_json_schema(mode="serialization")


def write_schemas(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in DOCUMENTS:
        (folder / f"{name}.schema.json").write_text(json.dumps(schema(name), indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1]))
