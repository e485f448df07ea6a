"""Tools on whole models, locks and winners, for model and user; files are written by the conversation's edits."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forewarp.agent.base import BaseConversation, Caller
from forewarp.agent.edits import FileEdits
from forewarp.agent.events import ApprovalAsked
from forewarp.agent.files import shown
from forewarp.agent.kernel_tools import KernelTools
from forewarp.core.budget import DEFAULT_MEASUREMENTS
from forewarp.core.scratch import temporary_folder
from forewarp.tools.parts import Amounts, Kernel
from forewarp.tools.requests import (
    LOCK_NAME,
    ApplyRequest,
    ExportFormat,
    ExportKernelRequest,
    GateCheckRequest,
    GateLockRequest,
    OptimizeModelRequest,
    ProfileRequest,
    SearchRequest,
    checked,
)

if TYPE_CHECKING:
    from forewarp.tools.long_verbs import LongRequest

TOP = 3


class WholeTools:
    """Tools that take minutes; each returns its verb's result in short. Files lie in the working folder.

    Arguments and docstrings are what the model reads, without who calls.
    """

    def __init__(self, conversation: BaseConversation, tools: KernelTools, edits: FileEdits) -> None:
        self._conversation, self._tools, self._edits = conversation, tools, edits

    async def profile_model(self, caller: Caller, path: str, function: str = "", line: int = 0) -> dict[str, Any]:
        """Say where a model's device time goes and what kernels for its parts could gain; with `line`, make it a task.

        Args:
            path: Python file with Model, get_inputs and get_init_inputs.
            function: Function of the file that returns a module and its inputs, where it has no Model.
            line: Line of the profile to write as a task beside the file.
        """
        file = self._tools.inside(path)
        request = ProfileRequest(model=str(file), call=function, place=self._conversation.settings.place)
        if not line:
            return await self._tools.run_verb(caller, request)
        name = str(file.with_name(f"{file.stem}_line{line}.py"))
        found, written = await self._written(caller, request, "out", name, task=line)
        return {"summary": found["summary"], "task": written}

    async def apply_kernels(self, caller: Caller, path: str, kernels: list[str], function: str = "") -> dict[str, Any]:
        """Put exported modules into a model, judge the whole, and write it with those that make it faster.

        Args:
            path: Python file, as for profile_model.
            kernels: Files of modules with ModelNew for lines of the profile, FILE or FILE:LINE.
            function: As for profile_model.
        """
        file, modules = self._tools.inside(path), [str(self._tools.inside(k)) for k in kernels]
        request = ApplyRequest(model=str(file), winners=modules, call=function, place=self._conversation.settings.place)
        name, spends = str(file.with_name(f"{file.stem}_new.py")), len(modules) + 2
        found, written = await self._written(caller, request, "write", name, spends=spends)
        return found | {"module": written}

    async def optimize_model(
        self, caller: Caller, path: str, budget: int = DEFAULT_MEASUREMENTS, top: int = TOP, function: str = ""
    ) -> dict[str, Any]:
        """Search for kernels of a model's most promising lines within one budget, and judge the whole model with them.

        Args:
            path: Python file, as for profile_model.
            budget: Most measurements, those that judge the whole among them.
            top: Lines to search for.
            function: As for profile_model.
        """
        file, settings = self._tools.inside(path), self._conversation.settings
        search = SearchRequest(task=str(file), budget=Amounts(measurements=budget), place=settings.place)
        request = OptimizeModelRequest(search=search, top=top, call=function)
        own = settings.folder / "forewarp-runs" / f"w-{secrets.token_hex(3)}"
        return await self._tools.run_verb(caller, request, spends=budget, folder=own)

    async def gate_lock(
        self, caller: Caller, kernels: list[str], task: str = "", lock: str = LOCK_NAME
    ) -> dict[str, Any]:
        """Write what kernels compile to, forecasts and times into a lock, from which `gate_check` tells what got worse.

        Args:
            kernels: Their files; each that the device runs is measured once.
            task: Bundled task, or the path of a KernelBench file.
            lock: The lock's file; what it holds of other kernels stays.
        """
        file, files = self._tools.inside(lock), [Kernel(path=str(self._tools.inside(k))) for k in kernels]
        task = str(self._tools.inside(task)) if (self._conversation.settings.folder / task).is_file() else task
        about = {"task": task or None, "place": self._conversation.settings.place}
        draft = file.with_name(f".{secrets.token_hex(4)}.{file.name}")  # beside it: a lock's paths begin there
        request = checked(GateLockRequest, kernels=files, out=str(draft), **about)
        try:
            if file.exists():
                shutil.copyfile(file, draft)
            found = await self._tools.run_verb(caller, request, spends=len(files))
            text = draft.read_text(encoding="utf-8")
        finally:
            draft.unlink(missing_ok=True)
        edit = await self._edits.write(caller.id, "gate_lock", str(file), lambda _: text)
        written = shown(self._conversation.settings.folder, edit.path)
        return found | {"summary": found["summary"].replace(draft.name, written), "lock": written}

    async def gate_check(
        self, caller: Caller, lock: str = LOCK_NAME, budget: int = DEFAULT_MEASUREMENTS, python: list[str] | None = None
    ) -> dict[str, Any]:
        """Say which kernels of a lock are wrong, do not compile or got slower.

        Args:
            lock: The lock's file.
            budget: Most measurements.
            python: Python to check in instead of forewarp's own; or two, the second against the first.
        """
        from forewarp.tools.gate_lock import files_of, read_lock

        file, settings = self._tools.inside(lock), self._conversation.settings
        for name in await asyncio.to_thread(lambda: files_of(read_lock(file))):
            self._tools.inside(str(file.parent / name))
        if (cap := settings.budget.measurements) is not None:  # the same check goes on later
            budget = max(1, min(budget, cap - self._conversation.spent.measurements))
        place, pythons = settings.place, [str(settings.folder / p) for p in python or ()]
        about = {"lock": str(file), "budget": budget, "device": place.device, "archive": place.archive}
        request = checked(GateCheckRequest, python=pythons, **about)
        if pythons and caller.by == "agent":
            what = f"start {' and '.join(pythons)}"
            question = ApprovalAsked(caller.id, "gate_check", what, "It runs unconfined.")
            hint = "leave python out, to check against the lock"
            await self._conversation.allow(question, "nothing was started", hint)
        return await self._tools.run_verb(caller, request, spends=budget)

    async def export_winner(self, caller: Caller, run: str, form: ExportFormat = "package") -> dict[str, Any]:
        """Write the winner of a search in a form that others can use: files in the run's folder.

        Args:
            run: The run_id of a search.
            form: package is an installable op of torch with its tests; file a module; vllm-op a file for vLLM.
        """
        settings = self._conversation.settings
        out = settings.folder / "forewarp-runs" / Path(run).name / "exported"
        about = {"subject": run, "format": form, "out": str(out), "archive": settings.place.archive}
        return await self._tools.run_verb(caller, checked(ExportKernelRequest, **about))

    async def _written(
        self, caller: Caller, request: LongRequest, field: str, name: str, *, spends: int = 0, **fields: object
    ) -> tuple[dict[str, Any], str]:
        """Do a verb that writes a file; return its result and that file, which the edits write."""
        with temporary_folder() as folder:
            made = folder / "made.py"
            request = request.model_copy(update={**fields, field: str(made)})
            found = await self._tools.run_verb(caller, request, spends=spends)
            if not made.exists():
                return found, ""
            text = made.read_text(encoding="utf-8")
        edit = await self._edits.write(caller.id, "export", name, lambda _: text)
        written = shown(self._conversation.settings.folder, edit.path)
        return found | {"summary": f"{found['summary'].removeprefix(f'{made}: ')} {written} is written."}, written
