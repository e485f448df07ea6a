"""Verbs that run as jobs: requests of a client's arguments, and answers; a tuned file's is one of `search`."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forewarp.core.errors import UsageError
from forewarp.mcp_server.answers import ToolAnswer, VerbAnswer, tuned_answer
from forewarp.mcp_server.arguments import Requests
from forewarp.mcp_server.spool import SpooledJob
from forewarp.tools import runs
from forewarp.tools.export import MODULE
from forewarp.tools.gate_lock import files_of, read_lock
from forewarp.tools.long_verbs import LongRequest
from forewarp.tools.parts import Amounts, Kernel
from forewarp.tools.requests import (
    ApplyRequest,
    ExportKernelRequest,
    GateCheckRequest,
    GateLockRequest,
    OptimizeModelRequest,
    ProfileRequest,
    SearchRequest,
    TuneRequest,
    checked,
)
from forewarp.tools.tune import TuneResult

REQUESTS: Mapping[str, type[LongRequest]] = {
    "profile": ProfileRequest,
    "optimize": OptimizeModelRequest,
    "apply": ApplyRequest,
    "gate_lock": GateLockRequest,
    "gate_check": GateCheckRequest,
    "export": ExportKernelRequest,
    "tune": TuneRequest,
}
_FOLDER = "forewarp-runs"


def verb_request(given: Mapping[str, Any], requests: Requests, home: Path, budget: Amounts) -> LongRequest:
    """Return the request that arguments make; it reads files of the workspace, and of runs below `home`, no others.

    Raises `UsageError`.
    """
    verb, subject, place = given["verb"], given["subject"], requests.place(given["device"])
    place = place.model_copy(update={"archive": str(runs.archive_path(place))})
    if verb == "export":
        if not subject.startswith("r-"):
            raise UsageError(f"{subject!r} is no run", hint="pass the run_id of a search as subject")
        out, form = home / _FOLDER / Path(subject).name / "exported", given["format"] or "package"
        return checked(ExportKernelRequest, subject=subject, format=form, out=str(out), archive=place.archive)
    file = requests.files.locate(subject, "subject", new=verb == "gate_lock")
    fields: dict[str, Any] = {"place": place}
    if verb == "gate_check":
        for name in files_of(read_lock(file)):
            requests.files.locate(str(Path(subject).parent / name), "the lock's file")
        caps = {"budget": budget.measurements, "max_gpu_seconds": budget.device_s}
        caps |= {"python": requests.pythons(given["python"] or ())}
        return checked(GateCheckRequest, lock=str(file), device=place.device, archive=place.archive, **caps)
    if verb in ("apply", "gate_lock") and not given["kernels"]:
        raise UsageError("no kernel is given", hint="pass kernels: files, or run_ids of searches that have ended")
    if verb == "gate_lock":
        kernels = [Kernel(path=str(requests.files.locate(name, "kernels"))) for name in given["kernels"]]
        task = given["task"] and requests.task(given["task"])
        return checked(GateLockRequest, kernels=kernels, task=task, out=str(file), **fields)
    fields |= {"call": given["call"] or "", "compile": given["compile"]}
    if verb == "optimize":
        search = SearchRequest(task=str(file), place=fields.pop("place"), budget=budget)
        return checked(OptimizeModelRequest, search=search, top=given["top"], **fields)
    fields["deadline"] = given["deadline_s"]
    if verb == "apply":
        winners = [str(_module(name, requests, home)) for name in given["kernels"]]
        return checked(ApplyRequest, model=str(file), winners=winners, **fields)
    out = home / "mcp-jobs" / f"{secrets.token_hex(4)}.py" if given["line"] else None
    return checked(ProfileRequest, model=str(file), task=given["line"], out=out, **fields)


def finished_verb(job: SpooledJob, result: dict[str, Any], requests: Requests) -> ToolAnswer:
    """Return the answer of a verb that is done; a profile's line becomes a task of the workspace."""
    if job.task == "tune":
        return tuned_answer(TuneResult.model_validate(result), job.id, Path(job.request["file"]))
    summary = str(result.pop("summary", ""))
    if written := result.get("task"):
        model = Path(job.request["model"])
        task = requests.written_task(str(model), f"{model.stem}_line{job.request['task']}", Path(written).read_text())
        result, summary = {"task": task}, f"Line {job.request['task']} is the task {task}."
    return VerbAnswer(summary=summary, run_id=job.id, status="finished", task=job.task, result=result)


def _module(name: str, requests: Requests, home: Path) -> Path:
    """Return the module of a run's winner, or a file of the workspace."""
    return (
        home / _FOLDER / Path(name).name / MODULE if name.startswith("r-") else requests.files.locate(name, "kernels")
    )
