"""Texts that a model reads: the server's instructions, descriptions of the tools, and prompts."""

from __future__ import annotations

from forewarp import prompts
from forewarp.core.files import template


def text(name: str, **values: str) -> str:
    """Return the text of a tool, of a prompt with its `values` filled in, or the instructions, from `prompts/mcp`."""
    return template(prompts.__file__, f"mcp/{name}.md").substitute(values).rstrip("\n")
