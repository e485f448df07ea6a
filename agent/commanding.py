"""What a slash command works on, and what one is: the contract between the commands and the conversation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from forewarp.agent.board import Board
from forewarp.agent.events import Event, Spent
from forewarp.agent.settings import Settings
from forewarp.tools.parts import Kernel


class Tools(Protocol):
    """The verbs, for the user instead of the model.

    Each emits `ToolCalled`, its steps and `ToolReturned` itself, under the id `call`. Paths are seen from the working
    folder. A request that cannot be carried out raises `ForewarpError`, after `ToolReturned` with the error.
    """

    async def forecast(self, call: str, *, task: str, kernels: Sequence[Kernel]) -> Mapping[str, Any]:
        """Forecast one kernel, or rank several; returns the `ForecastResult` as data."""
        ...

    async def measure(self, call: str, *, task: str, kernel: Kernel, insist: str = "") -> Mapping[str, Any]:
        """Forecast a kernel, measure it unless that speaks against it, and return the `Considered` as data.

        `insist` says why to measure what the forecast advises to skip.
        """
        ...

    async def search(self, call: str, *, task: str, budget: int, seed_kernels: Sequence[str] = ()) -> Mapping[str, Any]:
        """Search under a budget of measurements; returns the `SearchResult` as data."""
        ...


class Commanding(Protocol):
    """The conversation, as slash commands see it."""

    @property
    def settings(self) -> Settings:
        """What the conversation runs with."""
        ...

    @property
    def board(self) -> Board:
        """The candidates so far."""
        ...

    @property
    def spent(self) -> Spent:
        """What was spent so far."""
        ...

    @property
    def tools(self) -> Tools:
        """The verbs."""
        ...

    @property
    def id(self) -> str:
        """The conversation's id."""
        ...

    @property
    def message_count(self) -> int:
        """How many messages the model remembers."""
        ...

    def emit(self, event: Event) -> None:
        """Put an event on the stream of the turn."""
        ...

    def change(self, shown: str, **values: Any) -> None:
        """Replace fields of the settings and emit `SettingChanged` with the first one's name and `shown` as its value.

        What depends on the settings, such as an open device, is opened anew when it is needed next.
        """
        ...

    async def compact(self) -> None:
        """Have the model summarise the conversation and go on from that; emits `Compacted`."""
        ...

    async def resume(self, conversation: str) -> None:
        """Take up another conversation in place of this one, by its id or a unique beginning of it.

        Its events are emitted again, so that the terminal shows them. Raises `UsageError` for an unknown one.
        """
        ...


Run = Callable[[Commanding, Sequence[str]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Command:
    """One slash command.

    Attributes:
        name: Without the slash.
        arguments: What may follow, in words.
        help: One sentence.
        run: Does it; raises `ForewarpError`, says what it did by events.
        ui: Whether the terminal does it by itself, so that `run` only says that there is none.
    """

    name: str
    arguments: str
    help: str
    run: Run
    ui: bool = False

    @property
    def usage(self) -> str:
        """The command as it is typed."""
        return f"/{self.name} {self.arguments}".rstrip()
