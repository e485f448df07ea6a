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


def answers_to(lines: list[str]) -> list[dict[str, Any]]:
    """Return the server's answers to lines on its standard input, in the order in which they come."""
    done = subprocess.run(
        [sys.executable, "-m", "forewarp.cli.main", "mcp"],
        input="\n".join(lines) + "\n",
        env=os.environ | {"PYTHONPATH": str(Path(forewarp.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def asked(key: int, method: str, params: object) -> str:
    """Return a request as a line."""
    return json.dumps({"jsonrpc": "2.0", "id": key, "method": method, "params": params})


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
    answers = answers_to(lines)
    found = [(a["id"], a["error"]["code"] if "error" in a else "result") for a in answers]
    assert sorted(found, key=str) == sorted(
        [(None, -32700), (1, "result"), (None, -32600), (7, -32600), (2, "result")], key=str
    )


def test_malformed_requests_are_told_what_is_wrong() -> None:
    answers = answers_to(
        [
            asked(1, "tools/list", {}),
            asked(2, "initialize", HELLO),
            json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            asked(3, "tools/call", {"name": "describe", "arguments": [1, 2]}),
            asked(4, "tools/call", []),
            asked(5, "tools/call", {"name": "describes", "arguments": {}}),
        ]
    )
    errors = {a["id"]: (a["error"]["code"], a["error"]["message"]) for a in answers if "error" in a}
    assert errors == {
        1: (-32602, "tools/list: the session has not begun; send initialize first"),
        3: (-32602, "tools/call: params.arguments is [1, 2]; it should be an object"),
        4: (-32600, "Invalid request: params: Input should be an object"),
    }
    unknown = next(a for a in answers if a["id"] == 5)["result"]
    assert unknown["isError"]
    assert unknown["content"][0]["text"].startswith("there is no tool 'describes'; there are ")
