"""Settings of a conversation, and its budget."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from forewarp.agent.events import Spent
from forewarp.core.budget import DEFAULT_MEASUREMENTS, Spend
from forewarp.tools.parts import Amounts, Place

if TYPE_CHECKING:
    from pydantic_ai.models import Model

Approval = Literal["each", "budget", "never"]
"""Rule for when measuring needs approval: each time, only beyond the budget, or never (the budget is the end)."""

COMPACT_AT = 120_000


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
        compact_at: Tokens of context from which on the conversation is summarised before the next turn.
    """

    place: Place = field(default_factory=Place)
    folder: Path = field(default_factory=Path.cwd)
    model: str | Model | None = None
    base_url: str | None = None
    task: str = ""
    budget: Amounts = field(default_factory=lambda: Amounts(measurements=DEFAULT_MEASUREMENTS))
    approval: Approval = "each"
    shell: bool = False
    compact_at: int = COMPACT_AT


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
        return f"the budget of {budget.measurements} measurements is {what}"
    over = replace(budget, measurements=None).exhausted(amounts)
    return budget.spent_words(over) if over else ""
