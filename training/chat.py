"""Questions and replies as a model's own tokens, rendered as a server renders a request of the forecaster.

The forecaster sends the instructions, the question, and one tool that has the reply's schema and must be called. A
chat template that knows of tools renders the call in the model's own way; for one that does not, the reply is JSON.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from forewarp.core.errors import ModelError
from forewarp.surrogate.questions import name_of
from forewarp.surrogate.replies import OneForecast, SpeedupForecasts

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
    return _rendered(tokenizer, messages(system, user), generate=True)


def completion(tokenizer: Any, system: str, user: str, reply: SpeedupForecasts) -> str:
    """Return the text that the model should go on with to give this reply, its end mark included."""
    asked, text = messages(system, user), arguments(reply)
    before = _rendered(tokenizer, asked, generate=True)
    call = {"type": "function", "function": {"name": TOOL, "arguments": json.loads(text)}}
    for reply_message in (
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "assistant", "content": text},
    ):
        whole = _rendered(tokenizer, [*asked, reply_message], generate=False)
        if whole.startswith(before) and '"forecasts"' in whole[len(before) :]:
            return whole[len(before) :]
    raise ModelError(
        "the model's chat template does not go on from its own prompt, so that no reply can be shown to it",
        hint="train without a warm start, or give the tokenizer a template whose answers begin where its prompts end",
    )


def arguments(reply: SpeedupForecasts) -> str:
    """Return a reply as JSON without spaces, its numbers in two places: few tokens, and no false digits."""
    each = [
        f'{{"candidate":{json.dumps(f.candidate)},"rationale":{json.dumps(f.rationale)},"median":{f.median:.2f},'
        f'"p":[{",".join(f"{p:.2f}" for p in f.p)}],"p_valid":{f.p_valid:.2f}}}'
        for f in reply.forecasts
    ]
    return f'{{"analysis":{json.dumps(reply.analysis)},"forecasts":[{",".join(each)}]}}'


def reply(forecasts: Sequence[tuple[float, Sequence[float], float]]) -> SpeedupForecasts:
    """Return the reply, without words, that says (median, eight probabilities, p_valid) of each candidate in turn."""
    return SpeedupForecasts(
        analysis="",
        forecasts=[
            OneForecast(candidate=name_of(i), rationale="", median=max(0.01, m), p=list(p), p_valid=v)
            for i, (m, p, v) in enumerate(forecasts)
        ],
    )


def _rendered(tokenizer: Any, messages: list[dict[str, Any]], *, generate: bool) -> str:
    template: str = tokenizer.get_chat_template() if tokenizer.chat_template else ""
    if not template:
        raise ModelError("the model's tokenizer has no chat template", hint="use a model that was made for chats")
    tools = [tool()] if "tools" in template else None
    return tokenizer.apply_chat_template(messages, tools=tools, tokenize=False, add_generation_prompt=generate)


def _bare(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_bare(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    bare = {k: _bare(v) for k, v in schema.items() if k != "title"}
    return bare | {"additionalProperties": False} if bare.get("type") == "object" else bare
