"""The conversation as others see it: those who show it, the tools it runs, and slash commands."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, Protocol

from forewarp.agent.board import Board
from forewarp.agent.events import ApprovalAsked, ApprovalGiven, Event, Reply, Spent
from forewarp.agent.settings import Settings

if TYPE_CHECKING:
    from forewarp.agent.byhand import ByHand


class Standing(Protocol):
    """How a conversation stands."""

    @property
    def settings(self) -> Settings:
        """What it runs with now."""
        ...

    @property
    def board(self) -> Board:
        """All candidates so far."""
        ...

    @property
    def spent(self) -> Spent:
        """What was spent so far."""
        ...

    @property
    def id(self) -> str:
        """Its id; "" where it is not recorded."""
        ...


class Talk(Standing, Protocol):
    """What is shown: a `Conversation`, or the `Replay` of one."""

    @property
    def busy(self) -> bool:
        """Whether a turn is on."""
        ...

    def say(self, text: str) -> AsyncGenerator[Event]:
        """Run one turn; ends with `Answered`, `Interrupted` or `Failed`."""
        ...

    def steer(self, text: str) -> bool:
        """Tell the model something before its next step; False where that cannot be."""
        ...

    def interrupt(self) -> None:
        """End the turn at once."""
        ...

    def answer(self, call: str, reply: Reply, why: str = "") -> None:
        """Answer an `ApprovalAsked`."""
        ...

    def close(self) -> None:
        """End whatever still runs."""
        ...


class Host(Standing, Protocol):
    """The conversation, as its tools see it."""

    def emit(self, event: Event) -> None:
        """Put an event on the stream of the turn; may be called from any thread."""
        ...

    def spend(
        self, *, measurements: int = 0, device_s: float = 0.0, tokens: int = 0, dollars: float | None = 0.0
    ) -> None:
        """Book what was spent, and say so on the stream."""
        ...

    async def ask(self, question: ApprovalAsked) -> ApprovalGiven:
        """Wait for the user's word."""
        ...


class Commanded(Host, Protocol):
    """The conversation, as slash commands see it."""

    @property
    def tools(self) -> ByHand:
        """The verbs."""
        ...

    @property
    def message_count(self) -> int:
        """How many messages the model remembers."""
        ...

    def change(self, shown: str, **values: Any) -> None:
        """Replace settings and say so, by the first one's name with `shown` as its value."""
        ...

    async def compact(self) -> None:
        """Have the model sum up the conversation and go on from that; emits `Compacted`."""
        ...

    async def resume(self, conversation: str) -> None:
        """Take up another conversation in place of this one, by its id or a unique beginning of it."""
        ...
