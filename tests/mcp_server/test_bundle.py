"""The bundle for Claude Desktop: its manifest says what the server says, and what it holds runs by itself."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.types import TextContent
from support.served_mcp import Served, call

from forewarp.cli.main import main
from forewarp.mcp_server import bundle
from forewarp.mcp_server.server import build_server

VALIDATOR = "@anthropic-ai/mcpb@2.1.2"


def unpack(tmp_path: Path, *flags: str) -> dict[str, Any]:
    file = tmp_path / "forewarp.mcpb"
    assert main(["mcp", "bundle", str(file), *flags]) == 0
    zipfile.ZipFile(file).extractall(tmp_path / "unpacked")
    return json.loads((tmp_path / "unpacked" / "manifest.json").read_text())


def filled_in(manifest: dict[str, Any], folder: Path, values: dict[str, str]) -> list[str]:
    """Return the arguments as an application makes them of what the user filled in; the rest stays as it is."""
    arguments: list[str] = manifest["server"]["mcp_config"]["args"]
    places = {"__dirname": str(folder)} | {f"user_config.{k}": v for k, v in values.items()}
    for name, value in places.items():
        arguments = [a.replace(f"${{{name}}}", value) for a in arguments]
    return arguments


async def test_the_manifest_says_what_the_server_says() -> None:
    server = build_server()
    found = await bundle.manifest(server, {"max-usd": "2.5"}, ["--model", "openai:m"])
    async with Client(server) as client:
        tools = (await client.list_tools()).tools
        prompts = (await client.list_prompts()).prompts
        given = {"task": "softmax", "kernel": "k.cu"}
        shown = (await client.get_prompt("optimize_this_kernel", given)).messages[0].content
    assert (found["name"], found["version"]) == (server.name, server.version)
    assert [(t["name"], t["description"]) for t in found["tools"]] == [(t.name, t.description) for t in tools]
    assert {p["name"]: p["arguments"] for p in found["prompts"]} == {
        p.name: [a.name for a in p.arguments or ()] for p in prompts
    }
    text = next(p["text"] for p in found["prompts"] if p["name"] == "optimize_this_kernel")
    assert isinstance(shown, TextContent)
    assert text.replace("${arguments.task}", "softmax").replace("${arguments.kernel}", "k.cu") == shown.text
    asked, arguments = found["user_config"], found["server"]["mcp_config"]["args"]
    assert [k for k, field in asked.items() if field.get("required")] == ["workspace"]
    assert all(f"--{k.replace('_', '-')}=${{user_config.{k}}}" in arguments for k in asked)
    assert (asked["max_usd"]["default"], asked["device"]["default"]) == (2.5, "auto")
    assert "default" not in asked["max_tokens"]
    assert arguments[-2:] == ["--model", "openai:m"]


def test_the_project_file_names_what_the_package_needs() -> None:
    ours = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    made = tomllib.loads(bundle.project())["project"]
    assert (made["name"], made["version"]) == (ours["name"], ours["version"])
    assert made["requires-python"] == ours["requires-python"]
    needed = {_name(r) for r in made["dependencies"]}
    # What an installation says of itself may be older than the file.
    extra = {_name(r) for name in ("gpu", "train") for r in ours["optional-dependencies"][name]}
    assert {"mcp", "numpy", "pydantic"} <= needed
    assert not needed & extra


def _name(requirement: str) -> str:
    """Return a requirement's name: what an installation says of extras and versions is in another order."""
    return re.split(r"[\[<>]", requirement)[0]


@pytest.mark.slow
async def test_what_the_bundle_holds_serves_by_itself(tmp_path: Path, served: Served) -> None:
    manifest = await asyncio.to_thread(unpack, tmp_path)
    values = {"workspace": str(served.workspace), "device": "cpu", "archive": "", "max_measurements": "7"}
    arguments = filled_in(manifest, tmp_path / "unpacked", values)
    assert arguments[:3] == ["run", "--directory", str(tmp_path / "unpacked")]
    server = StdioServerParameters(
        command=sys.executable,
        args=arguments[3:],
        cwd=tmp_path / "unpacked",
        env={"PATH": os.environ["PATH"], "FOREWARP_ARCHIVE": os.environ["FOREWARP_ARCHIVE"]},
    )
    async with Client(server) as client:
        budget = (await call(client, "describe", about="budget"))["budget"]
        assert budget["server"]["measurements"]["left"] == 7
        found = await call(client, "describe", task="softmax")
        assert "class Model" in found["task"]["reference"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("npx") is None, reason="needs node")
def test_the_specifications_own_tool_accepts_it(tmp_path: Path) -> None:
    unpack(tmp_path, "--device", "cpu", "--max-measurements", "50")
    command = ["npx", "--yes", VALIDATOR, "validate", str(tmp_path / "unpacked")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    if "ENOTFOUND" in done.stderr or "EAI_AGAIN" in done.stderr or "ENOTCACHED" in done.stderr:
        pytest.skip("the npm registry is not reached")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passes" in done.stdout


def test_a_bundle_has_its_own_ending(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "bundle", str(tmp_path / "forewarp.zip")]) == 2
    assert ".mcpb" in capsys.readouterr().err
    assert main(["mcp", "bundle", str(tmp_path / "none" / "forewarp.mcpb")]) == 2
    assert list(tmp_path.iterdir()) == []
