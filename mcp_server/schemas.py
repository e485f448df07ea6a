"""Schemas of the tools as clients are shown them: as short as they can be and still say what is allowed."""

from __future__ import annotations

from typing import Any, cast

from forewarp.mcp_server.answers import ToolAnswer

_UNSAID = ("title", "maxLength", "maxItems", "maxProperties", "minimum", "exclusiveMinimum", "additionalProperties")
"""Keywords that cost more tokens than they are worth; what they ask for is checked, and named in errors."""


def arguments(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a tool's arguments; one that may be null is shown as one that may be left out."""
    found = {k: v for k, v in schema.items() if k != "title"}
    return found | {"properties": {name: _short(value) for name, value in schema.get("properties", {}).items()}}


def _short(schema: dict[str, Any]) -> dict[str, Any]:
    kinds = [kind for kind in schema.get("anyOf", ()) if kind.get("type") != "null"]
    merged = {k: v for k, v in schema.items() if k != "anyOf"} | (kinds[0] if len(kinds) == 1 else {})
    if len(kinds) > 1:
        merged["anyOf"] = [_short(kind) for kind in kinds]
    if not merged.get("default", True):
        del merged["default"]
    found = {k: v for k, v in merged.items() if k not in _UNSAID or (k == "additionalProperties" and v is not True)}
    for name in ("items", "additionalProperties"):
        if isinstance(found.get(name), dict):
            found[name] = _short(cast("dict[str, Any]", found[name]))
    return found


def answer(model: type[ToolAnswer]) -> dict[str, Any]:
    """Return the names and kinds of an answer's fields; all but the summary may be left out."""
    properties = model.model_json_schema()["properties"]
    return {
        "type": "object",
        "properties": {name: {"type": _kind(value)} for name, value in properties.items()},
        "required": ["summary"],
    }


def _kind(schema: dict[str, Any]) -> str:
    """Return the JSON type of a field; a nested model is an object."""
    kinds = [kind for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null"]
    return str(kinds[0].get("type", "object"))
