"""Lines on stdio that are no messages: each is answered with an error of the protocol, and the server goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import forewarp

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def test_unreadable_lines_are_answered() -> None:
    lines = [
        "{broken",
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}),
        json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        "",
        "[1, 2]",
        json.dumps({"id": 7, "method": 3}),
        json.dumps({"id": "nine", "jsonrpc": "2.0", "result": 3}),
        json.dumps({"jsonrpc": "2.0", "id": 2, "method": "ping"}),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "forewarp.cli.main", "mcp"],
        input="\n".join(lines) + "\n",
        env=os.environ | {"PYTHONPATH": str(Path(forewarp.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    answers: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    found = [(a["id"], a["error"]["code"] if "error" in a else "result") for a in answers]
    assert sorted(found, key=str) == sorted(
        [(None, -32700), (1, "result"), (None, -32600), (7, -32600), (2, "result")], key=str
    )
