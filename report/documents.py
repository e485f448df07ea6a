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

from pydantic import BaseModel, ConfigDict, Field

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


class MeasureDocument(MeasureResult, Envelope, title="forewarp measure --json"):
    """Document of `measure`; `status` is the kernel's."""


class MeasureManyDocument(MeasureManyResult, Envelope, title="forewarp measure --json, several kernels"):
    """Document of `measure` with several kernels; `status` is ok if one of them has a trusted time, else failed."""


class SuiteDocument(SuiteResult, Envelope, title="forewarp suite --json"):
    """Document of `suite`; `status` is finished, or interrupted if measurements are left."""


class InspectDocument(InspectResult, Envelope, title="forewarp inspect --json"):
    """Document of `inspect`; `status` is ok if every kernel compiles and none was found wrong, else failed."""


class TuneDocument(TuneResult, Envelope, title="forewarp tune --json"):
    """Document of `tune`; `status` is ok if a kernel was tuned, else failed."""


class ProfileDocument(ProfileResult, Envelope, title="forewarp profile --json"):
    """Document of `profile`; `status` is ok."""


class ApplyDocument(ApplyResult, Envelope, title="forewarp apply --json"):
    """Document of `apply`; `status` is ok if a kernel was kept, else failed."""


class OptimizeModelDocument(OptimizeModelResult, Envelope, title="forewarp optimize --top --json"):
    """Document of `optimize --top` and its `resume`; `status` is finished or interrupted."""


class ForecastDocument(ForecastResult, Envelope, title="forewarp forecast --json"):
    """Document of `forecast`; `status` is ok or compile_error; with several kernels, the most promising one's."""


class SearchDocument(SearchResult, Envelope, title="forewarp optimize --json"):
    """Document of `optimize`, `resume` and `show`; `status` is finished, interrupted, failed or running."""


class GateLockDocument(LockResult, Envelope, title="forewarp gate lock --json"):
    """Document of `gate lock`; `status` is ok, or failed if a kernel was not locked."""


class GateDocument(GateResult, Envelope, title="forewarp gate check --json"):
    """Document of `gate check`; `status` is passed, worse, open or interrupted."""


class ValidateDocument(ValidateResult, Envelope, title="forewarp validate --json"):
    """Document of `validate`; `status` is the verdict: sound, random or degenerate."""


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


class ExportDocument(ExportResult, Envelope, title="forewarp export --json"):
    """Document of `export`; `artifacts` are the files."""


class DoctorCheck(BaseModel):
    """One thing that doctor looked at. `costs` says what is lost where it is missing."""

    name: str
    found: bool
    detail: str
    costs: str = ""


class DoctorDocument(Envelope, title="forewarp doctor --json"):
    """Document of `doctor`; `status` is ok if something can be measured here, else degraded."""

    checks: list[DoctorCheck]


class DataDocument(DataResult, Envelope, title="forewarp data --json"):
    """Document of `data export`."""


class EvaluateDocument(EvaluateResult, Envelope, title="forewarp evaluate --json"):
    """Document of `evaluate`."""


class TrainDocument(TrainResult, Envelope, title="forewarp train --json"):
    """Document of `train`."""


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


class ArchiveDocument(ArchiveState, Envelope, title="forewarp archive check, archive repair --json"):
    """Document of `archive check` and `archive repair`; `status` is error if a damaged archive was only checked."""


DOCUMENTS: dict[str, type[Envelope]] = {
    "error": Envelope,
    "measure": MeasureDocument,
    "measure_many": MeasureManyDocument,
    "suite": SuiteDocument,
    "inspect": InspectDocument,
    "tune": TuneDocument,
    "profile": ProfileDocument,
    "apply": ApplyDocument,
    "forecast": ForecastDocument,
    "optimize": SearchDocument,
    "optimize_model": OptimizeModelDocument,
    "gate_lock": GateLockDocument,
    "gate_check": GateDocument,
    "evaluate": EvaluateDocument,
    "train": TrainDocument,
    "validate": ValidateDocument,
    "tasks": TasksDocument,
    "runs": RunsDocument,
    "report": ReportDocument,
    "export": ExportDocument,
    "doctor": DoctorDocument,
    "chat": ChatDocument,
    "conversations": ConversationsDocument,
    "data": DataDocument,
    "archive": ArchiveDocument,
}


def failure(error: BaseException | None) -> Failure | None:
    """Return what ended a run before its time as documents tell it; None where it was asked to end."""
    if isinstance(error, ForewarpError):
        return Failure(code=error.code, message=error.message, hint=error.hint, retryable=error.retryable)
    if isinstance(error, Exception):
        return Failure(code="internal", message=f"{type(error).__name__}: {error}", hint="run it with -v")
    return None


def schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of one document."""
    return DOCUMENTS[name].model_json_schema(mode="serialization")


def write_schemas(folder: Path) -> None:
    """Write every schema as a file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in DOCUMENTS:
        (folder / f"{name}.schema.json").write_text(json.dumps(schema(name), indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    write_schemas(Path(sys.argv[1]))
