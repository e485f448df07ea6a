"""Resources: runs, their reports and best kernels, kernels by identity, whole logs, and kernels to start from."""

from __future__ import annotations

import json
from collections.abc import Callable

import anyio.to_thread
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError

from forewarp.core.errors import ForewarpError, UsageError
from forewarp.core.languages import LANGUAGES
from forewarp.core.scratch import temporary_folder
from forewarp.core.values import Language
from forewarp.mcp_server.options import ServerOptions
from forewarp.mcp_server.verbs import Verbs, text_of
from forewarp.mcp_server.wording import in_arguments
from forewarp.tools.parts import Place


class _Resources:
    """The resources by what they read; nothing of the engine is loaded before the first is."""

    def __init__(self, verbs: Verbs, place: Place) -> None:
        self._verbs, self._place = verbs, place

    async def latest_runs(self) -> str:
        """The latest 50 runs of the archive, the newest first."""
        from forewarp.tools import describe

        return await _read(lambda: json.dumps([r.model_dump() for r in describe.latest_runs(self._place, limit=50)]))

    async def one_run(self, run: str) -> str:
        """All that a run came to, with each candidate's forecast and measurement."""
        from forewarp.tools import runs

        return await _read(lambda: runs.look(self._place, run)[0].model_dump_json())

    async def best_kernel(self, run: str) -> str:
        """The text of a run's best kernel, with the chosen tunables as its defaults."""
        from forewarp.tools import runs

        def best() -> str:
            found = runs.look(self._place, run)[0].best
            if found is None:
                raise UsageError(f"run {run} has no correct kernel so far")
            return found.source

        return await _read(best)

    async def run_report(self, run: str) -> str:
        """A run as one HTML page: charts, lineage, changes, decisions."""
        from forewarp.report.artifacts import write_page

        def page() -> str:
            with temporary_folder() as folder:
                return write_page(self._place, run, folder / "report.html")[0].read_text(encoding="utf-8")

        return await _read(page)

    async def kernel_text(self, kernel: str) -> str:
        """A recorded kernel by identity; a unique beginning will do."""
        from forewarp.tools import describe

        return await _read(lambda: describe.kernel_text(self._place, kernel))

    async def job_log(self, job: str) -> str:
        """The log of a measurement, nothing left out that was kept."""
        spool = (await self._verbs.work()).jobs.spool
        return await _read(lambda: spool.read(spool.job(job).id, "log.txt") or "")

    async def seed(self, task: str, language: str) -> str:
        """A bundled task's kernel in one language, which works and declares tunables."""
        from forewarp.tools import describe

        def text() -> str:
            if task not in describe.bundled_tasks():
                raise UsageError(f"there is no bundled task {task!r}")
            seeds = describe.task_of(task, self._place).seeds
            if language not in seeds:
                known = ", ".join(seeds)
                raise UsageError(f"{task} has no kernel in {language!r} for this device; there are {known}")
            return seeds[language]

        return await _read(text)

    async def task_facts(self, task: str) -> str:
        """A task, bundled or of the workspace: reference, shapes, what a kernel is passed, a kernel to begin with."""
        work = await self._verbs.work()
        return await _read(lambda: work.interface(task).model_dump_json())

    async def kernel_format(self, language: str) -> str:
        """The rules of kernels in cpp, cuda, triton or python, with a complete example."""
        from forewarp.tools.interface import format_of

        def text() -> str:
            languages: dict[str, Language] = {name: name for name in LANGUAGES}
            if (known := languages.get(language)) is None:
                raise UsageError(f"{language!r} is no language", hint=f"it is one of {', '.join(LANGUAGES)}")
            return format_of(known)

        return await _read(text)


def register(server: MCPServer[None], verbs: Verbs, options: ServerOptions) -> None:
    """Offer the resources."""
    own = _Resources(verbs, options.place)
    for uri, title, kind, read in (
        ("runs", "Latest runs", "application/json", own.latest_runs),
        ("runs/{run}", "Run", "application/json", own.one_run),
        ("runs/{run}/best", "Best kernel of a run", "text/plain", own.best_kernel),
        ("runs/{run}/report", "Report of a run", "text/html", own.run_report),
        ("kernels/{kernel}", "Kernel", "text/plain", own.kernel_text),
        ("jobs/{job}/log", "Whole log", "text/plain", own.job_log),
        ("tasks/{task}/seeds/{language}", "Kernel to start from", "text/plain", own.seed),
        ("tasks/{+task}", "Task", "application/json", own.task_facts),
        ("formats/{language}", "Format of kernels", "text/markdown", own.kernel_format),
    ):
        server.resource(f"forewarp://{uri}", title=title, mime_type=kind)(read)


async def _read(what: Callable[[], str]) -> str:
    try:
        return await anyio.to_thread.run_sync(what)
    except UsageError as e:
        raise ResourceNotFoundError(in_arguments(text_of(e))) from e
    except ForewarpError as e:
        raise ResourceError(in_arguments(text_of(e))) from e
