"""The wire stays clean whatever a child prints, and nothing heavy is loaded before the first call."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.served_mcp import Served

import forewarp
from forewarp.mcp_server.server import TOOLS

NOISY = """\
import os, subprocess, sys
from forewarp.mcp_server import verbs
load = verbs._load
def noisy(options):
    heavy = {"numpy", "torch", "pydantic_ai", "pyarrow", "sklearn", "scipy"} & set(sys.modules)
    if heavy:
        raise ValueError(f"loaded before the first call: {heavy}")
    print("garbage from print")
    os.write(1, b"garbage from write\\n")
    subprocess.run([sys.executable, "-c", "print('garbage from a child')"], check=True)
    return load(options)
verbs._load = noisy
from forewarp.cli.main import main
raise SystemExit(main(sys.argv[1:]))
"""


def test_what_is_printed_does_not_reach_the_client(served: Served) -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "describe", "arguments": {}}},
    ]
    flags = ["mcp", *served.recorded.flags, f"--workspace={served.workspace}"]
    process = subprocess.Popen(
        [sys.executable, "-c", NOISY, *flags],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(Path(forewarp.__file__).parents[1])},
        text=True,
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        answers: list[dict[str, Any]] = []
        for line in lines:
            process.stdin.write(json.dumps(line) + "\n")
            process.stdin.flush()
            if "id" in line:
                answers.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        rest = process.stdout.read()
    assert [a["id"] for a in answers] == [1, 2, 3]
    assert len(answers[1]["result"]["tools"]) == len(TOOLS)
    assert not answers[2]["result"].get("isError"), answers[2]
    assert all(json.loads(line) for line in rest.splitlines())
