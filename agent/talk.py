"""Interfaces of a conversation: for the terminal, and for the tools it runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from forewarp.agent.board import Board
from forewarp.agent.events import ApprovalAsked, ApprovalGiven, Event, Reply, Spent
from forewarp.agent.settings import Settings


class Standing(Protocol):
    """State of a conversation: settings, candidates, amounts spent, and id."""

    @property
    def settings(self) -> Settings:
        """Current settings."""
        ...

    @property
    def board(self) -> Board:
        """All candidates so far."""
        ...

    @property
    def spent(self) -> Spent:
        """Amounts spent so far."""
        ...

    @property
    def id(self) -> str:
        """Its id; "" where it is not recorded."""
        ...


class Talk(Standing, Protocol):
    """Interface of what the terminal shows: a `Conversation`, or the `Replay` of one."""

    @property
    def busy(self) -> bool:
        """True while a turn is running."""
        ...

    def say(self, text: str) -> AsyncGenerator[Event]:
        """Run one turn; ends with `Answered`, `Interrupted` or `Failed`."""
        ...

    def steer(self, text: str) -> bool:
        """Give the model a message before its next step; return False if that cannot be."""
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
    """Interface of the conversation for its tools."""

    def emit(self, event: Event) -> None:
        """Put an event on the stream of the turn; may be called from any thread."""
        ...

    def spend(
        self, *, measurements: int = 0, device_s: float = 0.0, tokens: int = 0, dollars: float | None = 0.0
    ) -> None:
        """Add to the amounts spent, and emit the totals."""
        ...

    async def ask(self, question: ApprovalAsked) -> ApprovalGiven:
        """Ask the user for approval and wait for the answer."""
        ...
