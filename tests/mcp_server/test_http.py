"""Streamable HTTP by a real server process: both eras, tokens, Host headers, and addresses that are refused."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from support.served_mcp import Mode, Served, call

import forewarp
from forewarp.core.errors import UsageError
from forewarp.mcp_server import http

TOKEN = "a-token-that-is-long-enough"
CALL = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@contextmanager
def serving(served: Served, token: str = "") -> Generator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {"PYTHONPATH": str(Path(forewarp.__file__).parents[1]), "FOREWARP_MCP_TOKEN": token}
    flags = [*served.recorded.flags, f"--workspace={served.workspace}", "--keep-warm=2", f"--http=127.0.0.1:{port}"]
    command = [sys.executable, "-m", "forewarp.cli.main", "mcp", *flags]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and process.poll() is None:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()
            out, _ = process.communicate(timeout=20)
    assert out == b""


async def test_serves_both_eras_and_each_client_its_session(served: Served) -> None:
    eras: tuple[Mode, ...] = ("auto", "legacy")
    with serving(served) as url:
        for era in eras:
            async with Client(url, mode=era) as client:
                assert len((await client.list_tools()).tools) == 6
                found = await call(client, "describe", about="tasks")
                assert "softmax" in found["tasks"]
        strange = httpx2.post(url, json=CALL, headers={"host": "evil.example", "accept": "application/json"})
        assert strange.status_code in (400, 403, 421)


def test_a_token_is_asked_for(served: Served) -> None:
    accept = {"accept": "application/json, text/event-stream"}
    with serving(served, TOKEN) as url:
        assert httpx2.post(url, json=CALL, headers=accept).status_code == 401
        wrong = httpx2.post(url, json=CALL, headers=accept | {"authorization": "Bearer no"})
        assert wrong.status_code == 401
        right = httpx2.post(url, json=CALL, headers=accept | {"authorization": f"Bearer {TOKEN}"})
        assert right.status_code != 401


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
