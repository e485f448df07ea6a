"""The server as an MCP bundle (.mcpb): one file that Claude Desktop installs, with a manifest made from the server.

The bundle holds this package's source and a project file that names its dependencies; the application fetches those
with uv. It holds no torch: a GPU is measured with by the Python that the user names.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from io import BytesIO
from pathlib import Path
from typing import Any

from mcp import Client
from mcp.server import MCPServer
from mcp.types import Prompt, TextContent

import forewarp
from forewarp.mcp_server.options import ServerOptions

MANIFEST_VERSION = "0.4"
"""First version of the specification that has servers of type uv."""
ENTRY = "src/serve.py"
_EPOCH = (1980, 1, 1, 0, 0, 0)

FIELDS: dict[str, dict[str, Any]] = {
    "workspace": {
        "type": "directory",
        "title": "Workspace",
        "description": "The only folder whose files clients may name.",
        "required": True,
    },
    "device": {
        "type": "string",
        "title": "Device",
        "description": "auto (cuda, else cpu), cuda, cuda:N or cpu.",
        "default": "auto",
    },
    "python": {
        "type": "file",
        "title": "Python for the GPU",
        "description": "Python that has the torch to measure with; needed for cuda.",
    },
    "archive": {
        "type": "string",
        "title": "Archive",
        "description": "File that keeps the record; one in your data folder if left empty.",
    },
    "max-measurements": {"type": "number", "title": "Most measurements a day", "min": 1},
    "max-gpu-seconds": {"type": "number", "title": "Most device seconds a day", "min": 1},
    "max-usd": {"type": "number", "title": "Most dollars a day", "min": 0.01},
    "max-tokens": {"type": "number", "title": "Most tokens a day", "min": 1},
}
"""Fields that the user fills in, by flag of `forewarp mcp`; where none is given, the text is that of the flag."""

SERVE = '''\
"""Start the server with what the user filled in."""

import sys

from forewarp.cli.main import main

# A field that was left empty comes as an empty value, or as its own name that nothing was put in for.
given = [a for a in sys.argv[1:] if not a.endswith("=") and "${user_config." not in a]
sys.exit(main(["mcp", *given]))
'''


async def manifest(server: MCPServer[None], given: Mapping[str, str], fixed: list[str]) -> dict[str, Any]:
    """Return the manifest; `given` are values that the fields begin with, `fixed` flags that the user cannot change."""
    async with Client(server) as client:
        tools = (await client.list_tools()).tools
        prompts = (await client.list_prompts()).prompts
        texts = {p.name: await _text(client, p) for p in prompts}
    about = metadata.metadata("forewarp")
    flags = [f"--{name}=${{user_config.{_key(name)}}}" for name in FIELDS]
    return {
        "manifest_version": MANIFEST_VERSION,
        "name": server.name,
        "display_name": server.name,
        "version": server.version,
        "description": about["Summary"],
        "author": {"name": f"the authors of {server.name}"},
        "license": about["License-Expression"],
        "server": {
            "type": "uv",
            "entry_point": ENTRY,
            "mcp_config": {"command": "uv", "args": ["run", "--directory", "${__dirname}", ENTRY, *flags, *fixed]},
        },
        "tools": [{"name": t.name, "description": t.description} for t in tools],
        "prompts": [
            {
                "name": p.name,
                "description": p.description,
                "arguments": [a.name for a in p.arguments or ()],
                "text": texts[p.name],
            }
            for p in prompts
        ],
        "compatibility": {"platforms": ["linux"], "runtimes": {"python": about["Requires-Python"]}},
        "user_config": {_key(name): _field(name, field, given) for name, field in FIELDS.items()},
    }


def _field(name: str, field: dict[str, Any], given: Mapping[str, str]) -> dict[str, Any]:
    """Return a field of the form; `window` is a flag of its own, so that the form means its default, a day."""
    flag = ServerOptions.model_fields.get(_key(name))
    text = (flag.description or "" if flag else "").replace("`window` hours", "24 hours")
    described = {"type": field["type"], "title": field["title"], "description": text} | field
    if name not in given:
        return described
    return described | {"default": json.loads(given[name]) if field["type"] == "number" else given[name]}


async def _text(client: Client, prompt: Prompt) -> str:
    """Return a prompt's text with the places of its arguments as a manifest writes them."""
    places = {a.name: f"${{arguments.{a.name}}}" for a in prompt.arguments or ()}
    content = (await client.get_prompt(prompt.name, places)).messages[0].content
    return content.text if isinstance(content, TextContent) else ""


def _key(flag: str) -> str:
    return flag.replace("-", "_")


def project() -> str:
    """Return the project file that names what the server needs."""
    needs = [r for r in metadata.requires("forewarp") or () if "extra ==" not in r]
    python = metadata.metadata("forewarp")["Requires-Python"]
    lines = ["[project]", 'name = "forewarp"', f'version = "{forewarp.__version__}"', f"requires-python = '{python}'"]
    # The application runs the entry beside the package; nothing has to be built.
    return "\n".join([*lines, f"dependencies = {json.dumps(needs, indent=2)}", "", "[tool.uv]", "package = false", ""])


def sources() -> Iterator[tuple[str, bytes]]:
    """Yield the files of this package, by their names in the bundle."""
    root = Path(forewarp.__file__).parent
    for room in sorted(p for p in root.iterdir() if p.name != "__pycache__"):
        for path in [room] if room.is_file() else sorted(room.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield f"src/forewarp/{path.relative_to(root)}", path.read_bytes()


def packed(manifest: Mapping[str, Any]) -> bytes:
    stream = BytesIO()
    files = [
        ("manifest.json", (json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode()),
        ("pyproject.toml", project().encode()),
        (ENTRY, SERVE.encode()),
        *sources(),
    ]
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, data in files:
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o100644 << 16
            bundle.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return stream.getvalue()
