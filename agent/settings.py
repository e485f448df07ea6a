"""Settings of a conversation, and its budget."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from forewarp.agent.events import Spent
from forewarp.core.budget import DEFAULT_MEASUREMENTS, Spend
from forewarp.tools.parts import Amounts, Place
from forewarp.tools.wording import counted

if TYPE_CHECKING:
    from pydantic_ai.models import Model

Approval = Literal["each", "budget", "never"]
"""Rule for when measuring needs approval: each time, only beyond the budget, or never (the budget is the end)."""

COMPACT_AT = 120_000
"""Tokens from which on a conversation is summarised at the latest, however long the model's context is."""

CONTEXT = 200_000
"""Tokens that a model is taken to read where neither the user nor the library knows."""

ROOM = 0.7
"""Part of the model's context that a request may fill; the rest is for the answer."""

STEPS, TURN_TOKENS = 80, 2_000_000
"""Steps that a turn may take, and tokens that it may use, unless the user says otherwise."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a conversation; slash commands change some of them.

    Attributes:
        place: Device, pool, archive and Python to measure with.
        folder: Working folder; files are read and written below it only.
        model: anthropic:NAME, openai:NAME, or a model that is built already; None for a conversation without one.
        base_url: URL of an OpenAI-compatible server that serves the model.
        task: Task that a slash command means where it names none.
        budget: Caps of the conversation: measurements, device seconds, dollars, tokens.
        approval: When measuring needs the user's word.
        shell: Whether lines that begin with `!` are run by the user's shell.
        context: Tokens that the model can read; None for what is known of the model.
        steps: Steps that a turn of the model may take; None for any number.
        turn_tokens: Tokens that a turn of the model may use; None for any number.
    """

    place: Place = field(default_factory=Place)
    folder: Path = field(default_factory=Path.cwd)
    model: str | Model | None = None
    base_url: str | None = None
    task: str = ""
    budget: Amounts = field(default_factory=lambda: Amounts(measurements=DEFAULT_MEASUREMENTS))
    approval: Approval = "each"
    shell: bool = False
    context: int | None = None
    steps: int | None = STEPS
    turn_tokens: int | None = TURN_TOKENS

    def room(self, known: int | None = None) -> int:
        """Return the tokens from which on the conversation is summarised; `known` is the model's context if known."""
        return min(COMPACT_AT, int((self.context or known or CONTEXT) * ROOM))


def over_budget(cap: Amounts, spent: Spent, measurements: int = 0) -> str:
    """Return in words the cap that so many more measurements would exceed; "" if none.

    With 0 measurements only the model's part is checked: dollars and tokens.
    """
    budget, tokens = cap.budget(), spent.input_tokens + spent.output_tokens
    amounts = Spend(0, spent.device_s, spent.dollars or 0.0, tokens)
    if not measurements:
        budget = replace(budget, device_s=None)
    elif budget.measurements is not None and spent.measurements + measurements > budget.measurements:
        what = "spent" if measurements == 1 else "too small for it"
        return f"the budget of {counted(budget.measurements, 'measurement')} is {what}"
    over = replace(budget, measurements=None).exhausted(amounts)
    return budget.spent_words(over) if over else ""
