"""Questions as a model's own tokens, rendered as a server renders a request of the forecaster.

The forecaster sends the instructions, the question, and one tool that has the reply's schema and must be called. A
chat template that knows of tools renders the call in the model's own way; for one that does not, the reply is JSON.
"""

from __future__ import annotations

from typing import Any

from forewarp.core.errors import ModelError
from forewarp.surrogate.replies import SpeedupForecasts

TOOL = "final_result"
"""Name of the tool, as the forecaster's client calls it."""


def messages(system: str, user: str) -> list[dict[str, Any]]:
    """Return the two messages of a question; the client takes space off the ends of instructions."""
    return [{"role": "system", "content": system.strip()}, {"role": "user", "content": user}]


def tool() -> dict[str, Any]:
    """Return the tool as it is sent: the reply's schema, without titles, closed to other fields."""
    schema = _bare(SpeedupForecasts.model_json_schema())
    description = schema.pop("description")
    function = {"name": TOOL, "description": description, "parameters": schema, "strict": True}
    return {"type": "function", "function": function}


def prompt(tokenizer: Any, system: str, user: str) -> str:
    """Return the text that the model goes on from. Raises `ModelError` for a tokenizer without a chat template."""
    template: str = tokenizer.get_chat_template() if tokenizer.chat_template else ""
    if not template:
        raise ModelError("the model's tokenizer has no chat template", hint="use a model that was made for chats")
    tools = [tool()] if "tools" in template else None
    asked = messages(system, user)
    return tokenizer.apply_chat_template(asked, tools=tools, tokenize=False, add_generation_prompt=True)


def _bare(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_bare(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    bare = {k: _bare(v) for k, v in schema.items() if k != "title"}
    return bare | {"additionalProperties": False} if bare.get("type") == "object" else bare
