"""Streamable HTTP by a real server process: both eras, tokens, Host headers, and addresses that are refused."""

from __future__ import annotations

import re

import httpx2
import pytest
from mcp import Client
from support.served_mcp import WAIT_S, Mode, Served, call

from forewarp.core.errors import UsageError
from forewarp.mcp_server import http
from forewarp.mcp_server.server import TOOLS, build_server

TOKEN = "a-token-that-is-long-enough"
CALL = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


async def test_serves_both_eras_and_each_client_its_session(served: Served) -> None:
    eras: tuple[Mode, ...] = ("auto", "legacy")
    with served.over_http() as url:
        for era in eras:
            async with Client(url, mode=era) as client:
                assert len((await client.list_tools()).tools) == len(TOOLS)
                found = await call(client, "describe", about="tasks")
                assert "softmax" in found["tasks"]
        strange = httpx2.post(
            url, json=CALL, headers={"host": "evil.example", "accept": "application/json"}, timeout=WAIT_S
        )
        assert strange.status_code in (400, 403, 421)


async def test_a_token_is_asked_for(served: Served) -> None:
    server = build_server(served.options)
    inside = httpx2.ASGITransport(app=http.app(server, "127.0.0.1", TOKEN))
    accept = {"accept": "application/json, text/event-stream"}
    async with (
        server.session_manager.run(),
        httpx2.AsyncClient(transport=inside, base_url="http://127.0.0.1:8000", headers=accept) as client,
    ):
        for given in ({}, {"authorization": "Bearer no"}, {"authorization": TOKEN}):
            assert (await client.post("/mcp", json=CALL, headers=given)).status_code == 401
        right = await client.post("/mcp", json=CALL, headers={"authorization": f"Bearer {TOKEN}"})
    assert right.status_code not in (401, 404, 500)


@pytest.mark.parametrize(
    ("text", "found"),
    [("127.0.0.1:9", ("127.0.0.1", 9)), ("9000", ("127.0.0.1", 9000)), ("[::1]:80", ("::1", 80)), ("h", ("h", 8000))],
)
def test_reads_addresses(text: str, found: tuple[str, int]) -> None:
    assert http.address(text) == found


@pytest.mark.parametrize("text", ["h:port", ":80", "h:70000"])
def test_refuses_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError, match=re.escape(text)):
        http.address(text)


def test_serving_others_needs_a_long_token() -> None:
    with pytest.raises(UsageError, match="needs a token"):
        http.check("0.0.0.0", "")
    with pytest.raises(UsageError, match="at least 16"):
        http.check("0.0.0.0", "short")
    http.check("0.0.0.0", TOKEN)
    http.check("127.0.0.1", "")
