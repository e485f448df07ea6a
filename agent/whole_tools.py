"""Whole models, locks and winners for a conversation: profile, apply, search, check, export; files by its edits."""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forewarp.agent.edits import FileEdits
from forewarp.agent.files import shown
from forewarp.agent.kernel_tools import KernelTools
from forewarp.agent.settings import Settings
from forewarp.tools.parts import Amounts
from forewarp.tools.requests import (
    LOCK_NAME,
    ApplyRequest,
    ExportFormat,
    ExportKernelRequest,
    GateCheckRequest,
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

    def __init__(self, settings: Settings, tools: KernelTools, edits: FileEdits) -> None:
        self._settings, self._tools, self._edits = settings, tools, edits

    async def profile(
        self, call: str, *, model: str, function: str = "", line: int = 0, origin: str = "user"
    ) -> dict[str, Any]:
        """Profile a model; with `line`, write that line as a task beside it."""
        file = self._tools.inside(model)
        request = ProfileRequest(model=str(file), call=function, place=self._settings.place)
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
        request = ApplyRequest(model=str(file), winners=modules, call=function, place=self._settings.place)
        name, spends = str(file.with_name(f"{file.stem}_new.py")), len(modules) + 2
        found, path = await self._written(call, request, "write", name, origin=origin, spends=spends)
        return found | {"module": path}

    async def optimize(
        self, call: str, *, model: str, budget: int, top: int = TOP, function: str = "", origin: str = "user"
    ) -> dict[str, Any]:
        """Search for kernels of a model's top lines within one budget, and judge the whole with them."""
        file, folder = self._tools.inside(model), self._settings.folder / "forewarp-runs"
        search = SearchRequest(task=str(file), budget=Amounts(measurements=budget), place=self._settings.place)
        request = OptimizeModelRequest(search=search, top=top, call=function)
        own = folder / f"w-{secrets.token_hex(3)}"
        return await self._tools.run_verb(call, request, spends=budget, origin=origin, folder=own)

    async def gate_check(
        self, call: str, *, lock: str = LOCK_NAME, budget: int, origin: str = "user"
    ) -> dict[str, Any]:
        """Check the kernels of a lock, which must be files of the working folder, too."""
        from forewarp.tools.gate_lock import files_of, read_lock

        file, place = self._tools.inside(lock), self._settings.place
        for name in await asyncio.to_thread(lambda: files_of(read_lock(file))):
            self._tools.inside(str(file.parent / name))
        request = GateCheckRequest(lock=str(file), budget=budget, device=place.device, archive=place.archive)
        return await self._tools.run_verb(call, request, spends=budget, origin=origin)

    async def export(
        self, call: str, *, run: str, form: ExportFormat = "package", origin: str = "user"
    ) -> dict[str, Any]:
        """Write a run's winner in a form for others, into the folder of the run's files."""
        out, archive = (
            self._settings.folder / "forewarp-runs" / Path(run).name / "exported",
            self._settings.place.archive,
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
        written = shown(self._settings.folder, edit.path)
        return found | {"summary": f"{found['summary'].removeprefix(f'{made}: ')} {written} is written."}, written
