"""Interface of a conversation for slash commands."""

from __future__ import annotations

from typing import Any, Protocol

from forewarp.agent.byhand import ByHand
from forewarp.agent.talk import Host


class Commanded(Host, Protocol):
    """Interface of the conversation for slash commands."""

    @property
    def tools(self) -> ByHand:
        """Forecast, measure and search for the user."""
        ...

    @property
    def message_count(self) -> int:
        """Number of messages that the model remembers."""
        ...

    def change(self, shown: str, **values: Any) -> None:
        """Replace settings, and emit the change with the first one's name and `shown` as its value."""
        ...

    async def compact(self) -> None:
        """Replace the model's memory by its own summary of the conversation; emits `Compacted`."""
        ...

    async def resume(self, conversation: str) -> None:
        """Continue another conversation in place of this one, by its id or a unique beginning of it."""
        ...
