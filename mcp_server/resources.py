"""Resources: runs, their reports and best kernels, kernels by identity, whole logs, and kernels to start from."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import anyio.to_thread
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError

from forewarp.core.errors import ForewarpError, UsageError
from forewarp.mcp_server.options import ServerOptions
from forewarp.mcp_server.verbs import Verbs, text_of


def register(server: MCPServer[None], verbs: Verbs, options: ServerOptions) -> None:
    """Offer the resources."""
    place = options.place

    @server.resource("forewarp://runs", title="Latest runs", mime_type="application/json")
    async def latest_runs() -> str:
        """The latest 50 runs of the archive, the newest first."""
        from forewarp.tools import describe

        return await _read(lambda: json.dumps([r.model_dump() for r in describe.latest_runs(place, limit=50)]))

    @server.resource("forewarp://runs/{run}", title="Run", mime_type="application/json")
    async def one_run(run: str) -> str:
        """All that a run came to, with each candidate's forecast and measurement."""
        from forewarp.tools import runs

        return await _read(lambda: runs.look(place, run).result.model_dump_json())

    @server.resource("forewarp://runs/{run}/best", title="Best kernel of a run", mime_type="text/plain")
    async def best_kernel(run: str) -> str:
        """The text of a run's best kernel, with the chosen tunables as its defaults."""
        return await _read(partial(_best, options, run))

    @server.resource("forewarp://runs/{run}/report", title="Report of a run", mime_type="text/html")
    async def run_report(run: str) -> str:
        """A run as one HTML page: charts, lineage, changes, decisions."""
        return await _read(partial(_report, options, run))

    @server.resource("forewarp://kernels/{kernel}", title="Kernel", mime_type="text/plain")
    async def kernel_text(kernel: str) -> str:
        """A recorded kernel by identity; a unique beginning will do."""
        from forewarp.tools import describe

        return await _read(lambda: describe.kernel_text(place, kernel))

    @server.resource("forewarp://jobs/{job}/log", title="Whole log", mime_type="text/plain")
    async def job_log(job: str) -> str:
        """The log of a measurement, nothing left out that was kept."""
        work = await verbs.work()
        return await _read(lambda: work.jobs.spool.read(work.jobs.spool.job(job).id, "log.txt") or "")

    @server.resource("forewarp://tasks/{task}/seeds/{language}", title="Kernel to start from", mime_type="text/plain")
    async def seed(task: str, language: str) -> str:
        """A bundled task's kernel in one language, which works and declares tunables."""
        return await _read(partial(_seed, options, task, language))


def _best(options: ServerOptions, run: str) -> str:
    from forewarp.tools import runs

    best = runs.look(options.place, run).result.best
    if best is None:
        raise UsageError(f"run {run} has no correct kernel so far")
    return best.source


def _report(options: ServerOptions, run: str) -> str:
    from forewarp.report.artifacts import write_page

    with tempfile.TemporaryDirectory() as folder:
        return write_page(options.place, run, Path(folder) / "report.html").path.read_text(encoding="utf-8")


def _seed(options: ServerOptions, task: str, language: str) -> str:
    from forewarp.tools import describe

    if task not in describe.bundled_tasks():
        raise UsageError(f"there is no bundled task {task!r}")
    seeds = describe.task_of(task, options.place).seeds
    if language not in seeds:
        raise UsageError(f"{task} has no kernel in {language!r} for this device; there are {', '.join(seeds)}")
    return seeds[language]


async def _read(what: Callable[[], str]) -> str:
    with _told():
        return await anyio.to_thread.run_sync(what)


@contextmanager
def _told() -> Generator[None]:
    try:
        yield
    except UsageError as e:
        raise ResourceNotFoundError(text_of(e)) from e
    except ForewarpError as e:
        raise ResourceError(text_of(e)) from e
