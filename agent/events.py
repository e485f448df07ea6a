"""Events of a conversation: one stream for the terminal, `-p`, JSON lines, transcripts and tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from forewarp.core import serde
from forewarp.tools.steps import CandidateForecast, CandidateMeasured

ApprovalReply = Literal["yes", "always", "no"]


@dataclass(frozen=True, slots=True)
class UserSaid:
    """The user's words. `steering` ones came while a turn was on, and reach the model before its next step."""

    text: str
    steering: bool = False


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the model's text, in order."""

    text: str


@dataclass(frozen=True, slots=True)
class ThoughtDelta:
    """A piece of the model's thinking, in order; it is shown, and never part of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Retrying:
    """The model is asked again, after `wait_s`: what it sent since the latest tool call or message does not count.

    `attempt` counts from 1 to `most`, since the latest answer that was good.
    """

    reason: str
    wait_s: float
    attempt: int
    most: int

    @property
    def words(self) -> str:
        wait = f" in {self.wait_s:.0f} s" if self.wait_s >= 0.5 else ""
        return f"{self.reason}; asking again{wait} ({self.attempt} of {self.most})"


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """The model, or the user by a slash command, calls a tool."""

    call: str
    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Progressed:
    """Progress of a running tool, as a short message."""

    call: str
    text: str


@dataclass(frozen=True, slots=True)
class ApprovalAsked:
    """A tool waits until the user allows it. `command` is what would run, `reason` what speaks for or against it.

    `text` is what would be written where the tool writes a file, as a unified diff, or many lines that would be run.
    """

    call: str
    tool: str
    command: str
    reason: str
    text: str = ""

    @property
    def once(self) -> bool:
        """True if the answer is for this call alone: each write of a file and each command is approved by itself."""
        return self.tool not in ("measure_kernel", "search", "tune", "run_verb")


@dataclass(frozen=True, slots=True)
class ApprovalGiven:
    """The answer to `ApprovalAsked`: `always` allows all measurements within the budget from now on."""

    call: str
    reply: ApprovalReply
    why: str = ""

    @property
    def refusal(self) -> str:
        """The user's no with its reason; "" for a yes."""
        return f"the user said no{self.why and f': {self.why}'}" if self.reply == "no" else ""


@dataclass(frozen=True, slots=True)
class ToolReturned:
    """A tool answered. `summary` is for people, `result` is what the model reads."""

    call: str
    tool: str
    summary: str
    result: Mapping[str, Any]
    seconds: float

    @classmethod
    def of(cls, call: str, tool: str, result: Mapping[str, Any], seconds: float) -> ToolReturned:
        """Return the event of a result, whose summary or error is what people read."""
        return cls(call, tool, str(result.get("summary") or result.get("error") or ""), result, seconds)


@dataclass(frozen=True, slots=True)
class Spent:
    """Totals of the whole conversation so far. `dollars` is None where a model's price is unknown."""

    measurements: int = 0
    device_s: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float | None = 0.0
    context_tokens: int = 0
    """Tokens of the latest request: how full the model's context is."""


@dataclass(frozen=True, slots=True)
class SettingChanged:
    """The user changed a setting by a slash command; `name` is a field of `Settings`."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Noted:
    """Markdown that forewarp itself says, such as the answer to a slash command."""

    text: str


@dataclass(frozen=True, slots=True)
class Compacted:
    """The model's memory of the conversation was replaced by this summary."""

    text: str


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The user ended the turn; what was done so far is kept. `during` names what was going on."""

    during: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The turn could not be finished: what is wrong, what to do next, and whether to try again."""

    code: str
    message: str
    hint: str = ""
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """The turn is over: its whole text and what it took. `dollars` is None where the model's price is unknown."""

    text: str
    input_tokens: int = 0
    output_tokens: int = 0
    dollars: float | None = 0.0
    seconds: float = 0.0


ConversationEvent = (
    UserSaid
    | TextDelta
    | ThoughtDelta
    | Retrying
    | ToolCalled
    | Progressed
    | CandidateForecast
    | CandidateMeasured
    | ApprovalAsked
    | ApprovalGiven
    | ToolReturned
    | Spent
    | SettingChanged
    | Noted
    | Compacted
    | Interrupted
    | Failed
    | Answered
)
"""Any event of a conversation. A turn begins with `UserSaid` and ends with `Answered`, `Interrupted` or `Failed`."""

KINDS: Mapping[str, type[ConversationEvent]] = {kind.__name__: kind for kind in get_args(ConversationEvent)}


def to_data(event: ConversationEvent) -> dict[str, Any]:
    return {"type": type(event).__name__, **serde.to_data(event)}


def from_data(data: Mapping[str, Any]) -> ConversationEvent | None:
    """Return the event that `to_data` made; None for a type that this version does not know."""
    kind = KINDS.get(str(data.get("type")))
    return serde.from_data(kind, data) if kind is not None else None
