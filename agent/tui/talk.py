"""A conversation as the terminal sees it, whoever holds it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from forewarp.agent.board import Board
from forewarp.agent.events import Event, Reply, Spent
from forewarp.agent.settings import Settings


class Talk(Protocol):
    """What `Conversation` and `Replay` have in common."""

    @property
    def settings(self) -> Settings:
        """What the conversation runs with now."""
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
    def busy(self) -> bool:
        """Whether a turn is on."""
        ...

    @property
    def id(self) -> str:
        """The conversation's id."""
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
