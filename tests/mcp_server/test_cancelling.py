"""Cancelling: whole handles only, and over HTTP only by the session that started the work."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp import Client
from support.served_mcp import Served, begun, call, ended, happens, refused

from forewarp.archive.store import default_path
from forewarp.mcp_server.spool import Spool


def spool() -> Spool:
    return Spool(default_path().parent)


async def started(client: Client, **arguments: Any) -> dict[str, Any]:
    return await begun(client, await call(client, "search", task="toy.py", forecaster="none", **arguments))


async def test_the_beginning_of_a_handle_cancels_nothing(served: Served) -> None:
    async with served.in_memory() as client:
        run = await started(client, budget=3)
        for cut in (1, 4):
            text = await refused(client, "search_cancel", run_id=run["run_id"][:-cut])
            assert f"beginning of run {run['run_id']}" in text
            assert "whole run_id" in text
        assert (await ended(client, run))["status"] == "finished"


@pytest.mark.slow
async def test_an_http_session_cancels_only_what_it_started(served: Served) -> None:
    with served.over_http() as url:
        async with Client(url, mode="legacy") as one, Client(url, mode="legacy") as two:
            with spool().alone("worker"):
                queued = await call(one, "measure_kernel", task="toy.py", path="toy.cpp", wait_s=0)
                text = await refused(two, "search_cancel", run_id=queued["run_id"])
                assert "not started by this session" in text
                assert (await call(two, "search_status", run_id=queued["run_id"]))["status"] == "queued"
                gone = await call(one, "search_cancel", run_id=queued["run_id"])
                assert gone["status"] == "cancelled"
            run = await started(one, budget=200)
            assert "not started by this session" in await refused(two, "search_cancel", run_id=run["run_id"])
            handle = next(j.id for j in spool().jobs() if (spool().read(j.id, "run") or "").strip() == run["run_id"])
            assert "not started by this session" in await refused(two, "search_cancel", run_id=handle)
            assert (await call(one, "search_cancel", run_id=handle))["status"] == "interrupted"
            await call(two, "search_resume", run_id=run["run_id"])
            assert "not started by this session" in await refused(one, "search_cancel", run_id=run["run_id"])
            await call(two, "search_cancel", run_id=run["run_id"])


async def test_on_stdio_another_server_may_cancel_what_the_first_one_started(served: Served) -> None:
    with spool().alone("worker"):
        async with served.as_process() as client:
            queued = await call(client, "measure_kernel", task="toy.py", path="toy.cpp", wait_s=0)
        async with served.as_process() as client:
            assert (await call(client, "search_cancel", run_id=queued["run_id"]))["status"] == "cancelled"


async def test_a_run_that_no_client_started_is_not_cancelled_over_http(served: Served) -> None:
    async with served.in_memory() as client:
        run = await started(client, budget=2)
    for job in spool().jobs():
        if (spool().read(job.id, "run") or "").strip() == run["run_id"]:
            (spool().at(job.id) / "run").unlink()
    with served.over_http() as url:
        async with Client(url, mode="auto") as client:
            assert "not started by this session" in await refused(client, "search_cancel", run_id=run["run_id"])


async def test_a_search_that_is_cancelled_while_it_starts_says_so_and_can_be_taken_up(served: Served) -> None:
    async with served.in_memory() as client:
        before = {j.id for j in spool().jobs()}
        search = asyncio.ensure_future(call(client, "search", task="toy.py", forecaster="none", budget=2))
        started: list[str] = []

        def starts() -> list[str]:
            started[:] = [j.id for j in spool().jobs() if j.id not in before and spool().worker(j.id) is not None]
            return started

        await happens(starts)
        handle = started[0]
        assert "still starts" in await refused(client, "search_resume", run_id=handle)
        answers = [await call(client, "search_cancel", run_id=handle), await search]
        answers.append(await call(client, "search_status", run_id=handle))
        for answer in answers:
            assert (answer["status"], answer["run_id"]) == ("cancelled", handle)
            assert answer["summary"].startswith("Cancelled before it began")
        assert "It was over before" in (await call(client, "search_cancel", run_id=handle))["summary"]
        run = await begun(client, await call(client, "search_resume", run_id=handle))
        assert (await ended(client, run))["status"] == "finished"
