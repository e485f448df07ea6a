"""Whole models, locks and winners for a conversation: profile, apply, search, check, export; files by its edits."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forewarp.agent.base import BaseConversation
from forewarp.agent.edits import FileEdits
from forewarp.agent.events import ApprovalAsked
from forewarp.agent.files import shown
from forewarp.agent.kernel_tools import KernelTools
from forewarp.core.errors import UsageError
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
    """Verbs on whole models, locks and winners, for model and user; what they return is a result in short.

    Arguments are as in `KernelTools`; models, modules and locks are files of the working folder.
    """

    def __init__(self, conversation: BaseConversation, tools: KernelTools, edits: FileEdits) -> None:
        self._conversation, self._tools, self._edits = conversation, tools, edits

    async def profile(
        self, call: str, *, model: str, function: str = "", line: int = 0, origin: str = "user"
    ) -> dict[str, Any]:
        """Profile a model; with `line`, write that line as a task beside it."""
        file = self._tools.inside(model)
        request = ProfileRequest(model=str(file), call=function, place=self._conversation.settings.place)
        if not line:
            return await self._tools.run_verb(call, request, origin=origin)
        name = str(file.with_name(f"{file.stem}_line{line}.py"))
        found, path = await self._written(call, request, "out", name, origin=origin, task=line)
        return {"summary": found["summary"], "task": path}

    async def apply(
        self, call: str, *, model: str, kernels: Sequence[str], function: str = "", origin: str = "user"
    ) -> dict[str, Any]:
        """Judge a model with kernels, and write it with those that help beside it."""
        file, modules = self._tools.inside(model), [str(self._tools.inside(k)) for k in kernels]
        request = ApplyRequest(model=str(file), winners=modules, call=function, place=self._conversation.settings.place)
        name, spends = str(file.with_name(f"{file.stem}_new.py")), len(modules) + 2
        found, path = await self._written(call, request, "write", name, origin=origin, spends=spends)
        return found | {"module": path}

    async def optimize(
        self, call: str, *, model: str, budget: int, top: int = TOP, function: str = "", origin: str = "user"
    ) -> dict[str, Any]:
        """Search for kernels of a model's top lines within one budget, and judge the whole with them."""
        file, settings = self._tools.inside(model), self._conversation.settings
        search = SearchRequest(task=str(file), budget=Amounts(measurements=budget), place=settings.place)
        request = OptimizeModelRequest(search=search, top=top, call=function)
        own = settings.folder / "forewarp-runs" / f"w-{secrets.token_hex(3)}"
        return await self._tools.run_verb(call, request, spends=budget, origin=origin, folder=own)

    async def gate_lock(
        self,
        call: str,
        *,
        kernels: Sequence[str],
        task: str = "",
        function_call: str = "",
        lock: str = LOCK_NAME,
        origin: str = "user",
    ) -> dict[str, Any]:
        """Lock kernels of the working folder beside what the lock holds of others."""
        file, files = self._tools.inside(lock), [Kernel(path=str(self._tools.inside(k))) for k in kernels]
        task = str(self._tools.inside(task)) if (self._conversation.settings.folder / task).is_file() else task
        about = {"task": task or None, "call": function_call, "place": self._conversation.settings.place}
        draft = file.with_name(f".{secrets.token_hex(4)}.{file.name}")  # beside it: a lock's paths begin there
        request = checked(GateLockRequest, kernels=files, out=str(draft), **about)
        try:
            if file.exists():
                shutil.copyfile(file, draft)
            found = await self._tools.run_verb(call, request, spends=len(files), origin=origin)
            text = draft.read_text(encoding="utf-8")
        finally:
            draft.unlink(missing_ok=True)
        edit = await self._edits.write(call, "gate_lock", str(file), lambda _: text)
        written = shown(self._conversation.settings.folder, edit.path)
        return found | {"summary": found["summary"].replace(draft.name, written), "lock": written}

    async def gate_check(
        self, call: str, *, lock: str = LOCK_NAME, budget: int, python: Sequence[str] = (), origin: str = "user"
    ) -> dict[str, Any]:
        """Check the kernels of a lock, which must be files of the working folder, too.

        Pythons that the model names are started with the user's word only.
        """
        from forewarp.tools.gate_lock import files_of, read_lock

        file, settings = self._tools.inside(lock), self._conversation.settings
        for name in await asyncio.to_thread(lambda: files_of(read_lock(file))):
            self._tools.inside(str(file.parent / name))
        if (cap := settings.budget.measurements) is not None:  # the same check goes on later
            budget = max(1, min(budget, cap - self._conversation.spent.measurements))
        place, pythons = settings.place, [str(settings.folder / p) for p in python]
        about = {"lock": str(file), "budget": budget, "device": place.device, "archive": place.archive}
        request = checked(GateCheckRequest, python=pythons, **about)
        if python and origin == "agent":
            question = f"start {' and '.join(pythons)}"
            given = await self._conversation.ask(ApprovalAsked(call, "gate_check", question, "It runs unconfined."))
            if given.reply == "no":
                raise UsageError(
                    f"nothing was started: the user said no{given.why and f': {given.why}'}",
                    hint="leave python out, to check against the lock",
                )
        return await self._tools.run_verb(call, request, spends=budget, origin=origin)

    async def export(
        self, call: str, *, run: str, form: ExportFormat = "package", origin: str = "user"
    ) -> dict[str, Any]:
        """Write a run's winner in a form for others, into the folder of the run's files."""
        out, archive = (
            self._conversation.settings.folder / "forewarp-runs" / Path(run).name / "exported",
            self._conversation.settings.place.archive,
        )
        request = checked(ExportKernelRequest, subject=run, format=form, out=str(out), archive=archive)
        return await self._tools.run_verb(call, request, origin=origin)

    async def _written(
        self, call: str, request: LongRequest, field: str, name: str, *, origin: str, spends: int = 0, **fields: object
    ) -> tuple[dict[str, Any], str]:
        """Do a verb that writes a file; return its result and that file, which the edits write."""
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder) / "made.py"
            request = request.model_copy(update={**fields, field: str(made)})
            found = await self._tools.run_verb(call, request, spends=spends, origin=origin)
            if not made.exists():
                return found, ""
            text = made.read_text(encoding="utf-8")
        edit = await self._edits.write(call, "export", name, lambda _: text)
        written = shown(self._conversation.settings.folder, edit.path)
        return found | {"summary": f"{found['summary'].removeprefix(f'{made}: ')} {written} is written."}, written
