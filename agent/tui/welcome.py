"""Welcome text of a new conversation."""

from __future__ import annotations

import forewarp
from forewarp.agent.settings import Settings
from forewarp.agent.tui.status import model_name

KEYS = """`/` lists commands, `@` files. Enter sends, ctrl+j begins a new line, Esc interrupts.
F2 chat, F3 candidates, F4 source, F5 plots; ctrl+o unfolds tool calls, ctrl+y copies, ctrl+p has the rest."""

NO_MODEL = """**No language model is set.** What works without one: `/forecast` and `/measure` a kernel file,
`/search` over a plan's tunables, and looking at what the archive holds (`/runs`, `/candidates`, `/report`).

To add one, set `ANTHROPIC_API_KEY` or `OPENAI_API_KEY` and start with `--model anthropic:NAME` or
`--model openai:NAME`, or type `/model NAME`. A model of your own:
`--model openai:NAME --base-url http://127.0.0.1:8000/v1`."""

REPLAYED = """**A recorded conversation, played again**: no model is asked, nothing is measured. Esc stops it, Enter
goes on with the prompts that come back."""


def welcome(settings: Settings) -> str:
    """Return the welcome text of a new conversation, as Markdown."""
    model = "" if settings.model is None else f" · {model_name(settings)}"
    head = f"**forewarp {forewarp.__version__}** · `{settings.folder}` · device {settings.place.device}{model}"
    parts = [head, KEYS] if settings.model is not None else [head, NO_MODEL, KEYS]
    return "\n\n".join(parts)
