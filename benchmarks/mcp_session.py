"""A language model makes a kernel faster with nothing but the tools of `forewarp mcp`.

    OPENAI_API_KEY=any FOREWARP_MODEL_TIMEOUT_S=3300 python benchmarks/mcp_session.py cross_entropy \
        --model openai:NAME --base-url http://127.0.0.1:8089/v1 --out benchmarks/results/mcp_session_cross_entropy.json

A chat client: it puts a slow, correct kernel of `naive_kernels/` into an empty folder, starts the server on it over
stdio, and hands the model what clients hand on: the server's instructions and the definitions of its tools, cut at 2 KB
each, and of each answer the structured content alone, or the text where the call failed. Its own are tools to read and
write files of the folder and to read the server's resources. The record holds each turn and call, what an answer takes
of the model's context (a token is taken to be four characters), and in the end three measurements apart from the
server: the kernel that was given, the one that the model left in `kernel.cpp`, and the second against the first.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pydantic_ai
from mcp import Client, MCPError, StdioServerParameters
from pydantic_ai.direct import model_request
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

import forewarp

KERNEL = "kernel.cpp"
NAIVE = Path(__file__).with_name("naive_kernels")
PROMPT = "Make the kernel in {kernel} for task {task} faster on this machine, use the forewarp tools."
SYSTEM = "You are a coding assistant. The user's files are in your working folder."
CLIENT_CUTS_AT = 2048
"""Bytes of a description, or of the instructions, that Claude Code hands on."""

KEPT = {
    "summary",
    "status",
    "verdict",
    "trusted",
    "speedup",
    "device",
    "workloads",
    "tier",
    "protections",
    "flags",
    "log",
}

_PATH = {"path": {"type": "string", "description": "Relative to the working folder."}}
_TEXT = {"content": {"type": "string"}}
OWN_TOOLS = {
    "read_file": ("Read a file of the working folder.", _PATH),
    "write_file": ("Write a file of the working folder; replaces what it holds.", _PATH | _TEXT),
    "read_mcp_resource": ("Read a resource of an MCP server by its URI.", {"uri": {"type": "string"}}),
}


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call; `result` is what the model is shown, `text_tokens` what the answer's text would have taken."""

    tool: str
    arguments: dict[str, Any]
    result: str
    failed: bool
    seconds: float
    tokens: int
    text_tokens: int | None = None
    progress: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """What the model said and called."""

    said: str
    seconds: float
    calls: list[Call] = field(default_factory=list[Call])


@dataclass(frozen=True, slots=True)
class Session:
    """A whole conversation; `ended` says whether the model stopped of itself."""

    system: str
    prompt: str
    tools: list[dict[str, Any]]
    turns: list[Turn]
    ended: bool


def main() -> None:
    """Let the model work on one task, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=sorted(p.stem for p in NAIVE.glob("*.cpp")))
    parser.add_argument("--model", required=True)
    parser.add_argument("--base-url", default="")
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--max-measurements", type=int, default=12)
    parser.add_argument("--threads", type=int, default=1, help="of kernel and reference alike")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    from provenance import write

    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    # The server's measuring process lives on for a while, and writes beside the archive.
    with tempfile.TemporaryDirectory(prefix="mcp-session-", ignore_cleanup_errors=True) as folder:
        record = trimmed(asyncio.run(recorded(args, Path(folder))), (folder, str(Path(sys.executable).parent)))
        write(args.out, record)
    print(json.dumps({"totals": record["totals"], "kernels": record["kernels"]}, indent=1))


async def recorded(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Serve a workspace in `folder`, play the session there, and measure what came of it."""
    from forewarp.surrogate.models import resolve

    given = (NAIVE / f"{args.task}.cpp").read_text()
    workspace, archive = folder / "workspace", folder / "archive.db"
    workspace.mkdir()
    (workspace / KERNEL).write_text(given)
    flags = [f"--workspace={workspace}", f"--device={args.device}", f"--max-measurements={args.max_measurements}"]
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "forewarp.cli.main", "mcp", *flags, f"--archive={archive}"],
        env={k: os.environ[k] for k in ("PATH", "HOME", "OMP_NUM_THREADS", "FOREWARP_CACHE") if k in os.environ},
    )
    language_model = resolve(args.model, args.base_url)
    started = time.perf_counter()
    async with Client(server) as client, language_model.model:
        prompt = PROMPT.format(kernel=KERNEL, task=args.task)
        played = await play(client, language_model.model, prompt, workspace, args.turns, language_model.timeout_s)
        spent = (await client.call_tool("describe", {"about": "budget"})).structured_content
    seconds = time.perf_counter() - started
    left = (workspace / KERNEL).read_text()
    return {
        "task": args.task,
        "threads": args.threads,
        "totals": totals(played, seconds) | {"budget": (spent or {}).get("budget")},
        "kernels": outside(args, given, left, folder),
        "kernel_left": left,
    } | asdict(played)


async def play(
    client: Client, model: Model, prompt: str, workspace: Path, turns: int = 30, timeout_s: float = 600.0
) -> Session:
    """Run the conversation until the model calls no more tools, or `turns` are over."""
    pydantic_ai.BANNER_ENABLED = False
    tools = await offered(client)
    system = f"{SYSTEM}\n\n# MCP server forewarp\n\n{cut(client.instructions or '')}"
    parameters = ModelRequestParameters(function_tools=tools)
    messages: list[ModelMessage] = [ModelRequest([SystemPromptPart(system), UserPromptPart(prompt)])]
    done: list[Turn] = []
    ended = False
    while not ended and len(done) < turns:
        begun = time.perf_counter()
        settings = ModelSettings(timeout=timeout_s)
        response = await model_request(model, messages, model_settings=settings, model_request_parameters=parameters)
        seconds = round(time.perf_counter() - begun, 1)
        asked = [p for p in response.parts if isinstance(p, ToolCallPart)]
        said = "\n".join(p.content for p in response.parts if isinstance(p, TextPart))
        calls = [await called(client, part.tool_name, part.args_as_dict(), workspace) for part in asked]
        parts = [ToolReturnPart(p.tool_name, c.result, p.tool_call_id) for p, c in zip(asked, calls, strict=True)]
        messages += [response, ModelRequest(parts)]
        done.append(Turn(said, seconds, calls))
        ended = not asked
        print(f"turn {len(done)}: {', '.join(c.tool for c in calls) or 'end'}", file=sys.stderr, flush=True)
    shown = [{"name": t.name, "description": t.description, "parameters": t.parameters_json_schema} for t in tools]
    return Session(system, prompt, shown, done, ended)


async def offered(client: Client) -> list[ToolDefinition]:
    """Return the client's own tools and the server's."""
    own = [
        ToolDefinition(
            name=name,
            description=description,
            parameters_json_schema={"type": "object", "properties": properties, "required": list(properties)},
        )
        for name, (description, properties) in OWN_TOOLS.items()
    ]
    found = (await client.list_tools()).tools
    return own + [
        ToolDefinition(name=t.name, description=cut(t.description or ""), parameters_json_schema=t.input_schema)
        for t in found
    ]


async def called(client: Client, tool: str, arguments: dict[str, Any], workspace: Path) -> Call:
    """Carry out one call; a failure is a result, too."""
    begun = time.perf_counter()
    text_tokens: int | None = None
    heard: list[str] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append(message or "")

    try:
        if tool in OWN_TOOLS:
            result, failed = await by_client(client, tool, arguments, workspace), False
        else:
            answer = await client.call_tool(tool, arguments, progress_callback=hear)
            text = "\n".join(c.text for c in answer.content if c.type == "text")
            failed, text_tokens = bool(answer.is_error), tokens(text)
            structured = json.dumps(answer.structured_content, ensure_ascii=False, separators=(",", ":"))
            result = text if failed or answer.structured_content is None else structured
    except (MCPError, OSError, KeyError, ValueError) as e:
        result, failed = f"Error: {e}", True
    seconds = round(time.perf_counter() - begun, 2)
    return Call(tool, arguments, result, failed, seconds, tokens(result), text_tokens, len(heard))


async def by_client(client: Client, tool: str, arguments: dict[str, Any], workspace: Path) -> str:
    """Carry out one of the client's own tools."""
    if tool == "read_mcp_resource":
        contents = (await client.read_resource(arguments["uri"])).contents
        return "\n".join(getattr(c, "text", "(not text)") for c in contents)
    path = (workspace / arguments["path"]).resolve()
    if not path.is_relative_to(workspace.resolve()):
        raise ValueError(f"{arguments['path']} is outside the working folder")
    if tool == "read_file":
        return path.read_text()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(arguments["content"])
    return f"wrote {arguments['path']}"


def totals(played: Session, seconds: float) -> dict[str, Any]:
    """Return counts of calls and sizes of answers."""
    calls = [c for t in played.turns for c in t.calls]
    server = [c for c in calls if c.tool not in OWN_TOOLS]
    return {
        "turns": len(played.turns),
        "ended": played.ended,
        "seconds": round(seconds, 1),
        "seconds_in_tools": round(sum(c.seconds for c in server), 1),
        "calls": dict(Counter(c.tool for c in calls)),
        "device_s": round(sum(device_seconds(server).values()), 1),
        "failed_calls": sum(c.failed for c in calls),
        "tokens_of_tools": tokens(json.dumps([t for t in played.tools if t["name"] not in OWN_TOOLS])),
        "tokens_of_system": tokens(played.system),
        "tokens_per_answer": spread([c.tokens for c in server]),
        "text_tokens_per_answer": spread([c.text_tokens for c in server if c.text_tokens is not None]),
    }


def device_seconds(calls: Iterable[Call]) -> dict[str, float]:
    """Return how long each measurement and each run held the device, by handle, as the last answer about it says."""
    found: dict[str, float] = {}
    for call in calls:
        if call.failed or not call.result.startswith("{"):
            continue
        answer = json.loads(call.result)
        held = answer.get("device_s", (answer.get("spent") or {}).get("device_s"))
        if "run_id" in answer and held is not None:
            found[answer["run_id"]] = held
    return found


def spread(sizes: list[int]) -> dict[str, float] | None:
    return {"median": statistics.median(sizes), "max": max(sizes), "sum": sum(sizes)} if sizes else None


def outside(args: argparse.Namespace, given: str, left: str, folder: Path) -> dict[str, Any]:
    """Measure the kernels anew, in an archive of their own."""
    first, last = folder / "given.cpp", folder / "left.cpp"
    first.write_text(given)
    last.write_text(left)
    found: dict[str, Any] = {}
    for name, kernel, against in (("given", first, None), ("left", last, None), ("left over given", last, first)):
        result = forewarp.measure(args.task, kernel, against=against, device=args.device, archive=folder / "outside.db")
        found[name] = result.model_dump(mode="json", include=KEPT)
    return found


def cut(text: str) -> str:
    """Return what the client hands on of a text of the server."""
    return text.encode()[:CLIENT_CUTS_AT].decode(errors="ignore")


def tokens(text: str) -> int:
    return -(-len(text) // 4)


def trimmed(record: dict[str, Any], folders: Iterable[str]) -> dict[str, Any]:
    """Return the record without the machine's folders in it."""
    text = json.dumps(record)
    for folder in folders:
        text = text.replace(json.dumps(folder)[1:-1], "FOLDER")
    return json.loads(text)


if __name__ == "__main__":
    main()
