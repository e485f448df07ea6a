"""Take up a run that was interrupted, failed or killed, where it was and under the same budget."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from forewarp.archive.pools.parquet import tasks_of
from forewarp.archive.rows import RunRow
from forewarp.core.errors import UsageError
from forewarp.core.protocols import Forecaster, Proposer
from forewarp.gpu_runner.formats.task import BUNDLED_POOL
from forewarp.search.islands import Islands
from forewarp.search.loop import Search
from forewarp.tools import session as sessions
from forewarp.tools.parts import Place
from forewarp.tools.proposer import from_label, make_proposer, own_name, reads_archive, several
from forewarp.tools.requests import ResumeRequest
from forewarp.tools.search import NOTHING, Own, SearchJob, island_of, models_of, names_of


@contextmanager
def resume_search(request: ResumeRequest, own: Own = NOTHING, islands: Islands | None = None) -> Generator[SearchJob]:
    """Take up a run that was interrupted, failed or killed; `islands` ties it to those of other targets.

    Raises `UsageError` also where it was given a proposer or a forecaster that is not given again.
    """
    with sessions.existing_archive(request.place, request.run_id) as archive:
        row = archive.run(request.run_id)
    settings: Mapping[str, Any] = row.settings
    if settings.get("group") and islands is None:
        raise UsageError(
            f"run {row.id} belongs to {settings['group']}, a search for several targets",
            hint=f"take them up together: forewarp resume {settings['group']}, or forewarp.resume_together() in Python",
        )
    proposes, forecasts = str(settings.get("proposer", "")), str(settings.get("forecaster") or "none")
    _check_own(row.id, "proposer", proposes, own.proposer)
    _check_own(row.id, "forecaster", forecasts, own.forecaster)
    recorded, recorded_url, replayed = (None, None, False) if own.proposer else from_label(proposes)
    kind, _, forecast_model = ("none", "", "") if own.forecaster else forecasts.partition(" ")
    models = models_of(
        names_of(request.model) or several(recorded), request.base_url or recorded_url, forecast_model or None
    )
    forecaster = own.forecaster or sessions.make_forecaster(kind, models.forecaster)
    with sessions.open_session(_place_of(row, request.place, replayed=replayed), row.task, own.executors) as opened:
        earlier = opened.archive if reads_archive(proposes) else None
        proposer = own.proposer or make_proposer(
            opened.executor, row.task, models.writers, archive=earlier, resumed=row
        )
        island = island_of(opened, islands)
        search = Search.resume(opened.archive, row.id, opened.executor, proposer, forecaster, island)
        yield SearchJob(opened.archive, search)


def _check_own(run: str, part: str, recorded: str, given: Proposer | Forecaster | None) -> None:
    """Raise `UsageError` where a part that the caller made is missing, or is given to a run that began with another."""
    name = own_name(recorded)
    if name is None and given is not None:
        raise UsageError(
            f"run {run} began with {part} {recorded}, not with {given.name}", hint="resume it without one of your own"
        )
    if name is not None and given is None:
        raise UsageError(
            f"run {run} began with {part} {name}, which its caller made",
            hint=f"resume it from Python with the same: forewarp.resume({run!r}, {part}=…)",
        )
    if given is not None and name != given.name:
        raise UsageError(f"run {run} began with {part} {name}, not with {given.name}", hint="resume it with the same")


def _place_of(row: RunRow, given: Place, *, replayed: bool) -> Place:
    """Return where a run goes on: where it was, unless the request says otherwise."""
    device = "replay" if replayed else row.target.kind if given.device == "auto" else given.device
    pool = given.pool
    if replayed and not pool:
        if row.task.sha256 not in tasks_of(BUNDLED_POOL):
            raise UsageError(f"run {row.id} replayed a pool", hint="pass --pool PATH of that pool again")
        pool = str(BUNDLED_POOL)
    return given.model_copy(update={"device": device, "pool": pool})
