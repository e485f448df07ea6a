"""Definitions of the tools: short, in the words of arguments; answers without nulls."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from support.served_mcp import Served, call

import forewarp
from forewarp.mcp_server.answers import LIMIT_BYTES, MeasureAnswer, reply, size
from forewarp.mcp_server.options import ServerOptions
from forewarp.mcp_server.server import build_server
from forewarp.mcp_server.wording import in_arguments
from forewarp.tools.parts import Place

REFERENCE = """\
import torch

class Model(torch.nn.Module):
    \"\"\"{words}\"\"\"
    def __init__(self, {numbers}):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.linear(x)

def get_inputs():
    return [torch.rand(4, 8)]

def get_init_inputs():
    return list(range(10))
"""
MOST_TOKENS = 4_000
"""Of all definitions, at four characters a token."""


async def test_all_definitions_fit_into_4000_tokens(served: Served) -> None:
    async with served.in_memory() as client:
        tools = (await client.list_tools()).tools
    whole = [t.model_dump(mode="json", by_alias=True, exclude_none=True) for t in tools]
    assert all(t["outputSchema"]["properties"] for t in whole)
    text = json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
    assert len(text) / 4 <= MOST_TOKENS


async def test_definitions_offer_no_nulls_and_defaults_of_their_type(served: Served) -> None:
    async with served.in_memory() as client:
        tools = (await client.list_tools()).tools
    for tool in tools:
        text = json.dumps(tool.input_schema)
        assert "null" not in text
        assert "anyOf" not in text
        assert tool.input_schema["properties"].keys() >= set(tool.input_schema.get("required", []))


async def test_an_argument_may_be_null_all_the_same(served: Served) -> None:
    async with served.in_memory() as client:
        found = await call(client, "describe", task=None, language=None, about="tasks")
    assert "softmax" in found["tasks"]


@pytest.mark.parametrize(
    ("tool", "given", "words"),
    [
        ("inspect_kernel", {"task": "softmax", "source": "x" * 300_000}, "…; it should have at most 200000 characters"),
        (
            "inspect_kernel",
            {"task": "softmax", "source": "x", "check": "often"},
            "check is 'often'; it should be a valid boolean",
        ),
        ("make_task", {"path": "x.py"}, "function is missing"),
    ],
)
async def test_an_argument_that_does_not_fit_is_named(
    served: Served, tool: str, given: dict[str, object], words: str
) -> None:
    async with served.in_memory() as client:
        answer = await client.call_tool(tool, given)
    [text] = answer.content
    assert answer.is_error
    assert words in text.text  # pyright: ignore[reportAttributeAccessIssue]


def test_nothing_empty_is_told() -> None:
    answer = MeasureAnswer(summary="It goes on.", run_id="m-1", status="running", task="t", flags=[], log="")
    assert reply(answer).structured_content == {
        "summary": "It goes on.",
        "run_id": "m-1",
        "status": "running",
        "task": "t",
    }


@pytest.mark.parametrize("language", ["cpp", "cuda", "triton", "python"])
async def test_one_call_has_all_that_a_kernel_needs_in_800_tokens(tmp_path: Path, language: str) -> None:
    numbers = ", ".join(f"number_{i}={i}" for i in range(10))
    reference = REFERENCE.format(numbers=numbers, words="Many words. " * 500)
    (tmp_path / "many.py").write_text(reference)
    options = ServerOptions(place=Place(device="cpu"), workspace=tmp_path)
    async with Client(build_server(options)) as client:
        for task in ("softmax", "topk_gate", "many.py"):
            found = await call(client, "describe", task=task, language=language)
            assert size(found) <= LIMIT_BYTES
            assert "ModelNew" in found["format"] or "[[launch]]" in found["format"]
            assert "ModelNew" in found["start"]["source"] or "[tunables]" in found["start"]["source"]
            assert found["interface"]["inputs"]
            assert ("c_types" in found["interface"]) is (language in ("cpp", "cuda"))
            assert "class Model" in found["task"].get("reference", found["start"]["source"])
        formats = await call(client, "describe", language=language)
        assert "A complete example" in formats["format"]
        assert size(formats) <= LIMIT_BYTES


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("pass --seed-kernel FILE, or --model anthropic:NAME", "pass seed_kernels FILE, or model anthropic:NAME"),
        ("pass --python PATH of one that has torch", "pass python (the server's own) PATH of one that has torch"),
        ("`forewarp archive repair --archive x`", "`forewarp archive repair --archive x`"),
        ("nvcc --keep", "nvcc --keep"),
        ("pass this one as --backward", "pass this one as backward of `forewarp export`"),
    ],
)
def test_flags_are_told_as_arguments(text: str, told: str) -> None:
    assert in_arguments(text) == told


def hints(folder: str) -> list[str]:
    """Return the constant messages and hints of errors that a room raises."""
    found: list[str] = []
    for path in sorted((Path(forewarp.__file__).parent / folder).resolve().rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("Error"):
                parts: list[Any] = [*node.args, *(k.value for k in node.keywords)]
                texts = [n.value for part in parts for n in ast.walk(part) if isinstance(n, ast.Constant)]
                found += [text for text in texts if isinstance(text, str) and "--" in text]
    return found


@pytest.mark.parametrize("room", ["tools", "gpu_runner", "archive"])
async def test_no_error_names_the_flag_of_what_is_an_argument_here(served: Served, room: str) -> None:
    """Flags of other commands, such as those of `tune`, reach no client: no tool takes what they are about."""
    async with served.in_memory() as client:
        arguments = {name for t in (await client.list_tools()).tools for name in t.input_schema["properties"]}
    known = arguments | set(Place.model_fields) | set(ServerOptions.model_fields)
    assert hints(room)
    for text in hints(room):
        flags = [w for part in in_arguments(text).split("`")[::2] for w in re.findall(r"--([a-z0-9-]+)", part)]
        assert not known & {flag.replace("-", "_") for flag in flags}, text
