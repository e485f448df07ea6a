"""A conversation that says given events, for tests of what shows them; the interface is that of `Conversation`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from pathlib import Path

from forewarp.agent.base import BaseConversation
from forewarp.agent.candidates import Candidates
from forewarp.agent.events import (
    Answered,
    ApprovalAsked,
    ApprovalGiven,
    ApprovalReply,
    ConversationEvent,
    Interrupted,
    Spent,
    TextDelta,
    ToolCalled,
    ToolReturned,
    UserSaid,
)
from forewarp.agent.settings import Settings
from forewarp.tools.steps import CandidateForecast, CandidateMeasured

Step = ConversationEvent | float | asyncio.Event
"""An event, a wait in seconds, or something to wait for."""


class Scripted:
    """Each `say` plays the next script, or answers with the text itself where none is left.

    `UserSaid` comes first by itself. A script that does not end its turn ends with `Answered`. An `ApprovalAsked` waits
    for its answer. What it was asked to do is in `said`, `steered`, `answers`, `interrupts` and `closed`.
    """

    goes_on = BaseConversation.goes_on

    def __init__(self, *scripts: Iterable[Step], settings: Settings | None = None, steerable: bool = False) -> None:
        self.settings = settings or Settings(folder=Path.cwd(), model="openai:scripted")
        self.candidates = Candidates()
        self.spent = Spent()
        self.busy = self.summarising = False
        self.id = "scripted"
        self.said: list[str] = []
        self.steered: list[str] = []
        self.answers: list[tuple[str, ApprovalReply, str]] = []
        self.interrupts = 0
        self.closed = False
        self._scripts = [list(s) for s in scripts]
        self._steerable = steerable
        self._interrupted = asyncio.Event()
        self._replied: dict[str, asyncio.Future[ApprovalGiven]] = {}

    async def say(self, text: str) -> AsyncGenerator[ConversationEvent]:
        self.busy = True
        self._interrupted.clear()
        self.said.append(text)
        steps = self._scripts.pop(0) if self._scripts else [TextDelta(f"You said: {text}")]
        try:
            async for event in self._played([UserSaid(text), *steps]):
                yield self._noted(event)
        finally:
            self.busy = False

    async def _played(self, steps: Sequence[Step]) -> AsyncGenerator[ConversationEvent]:
        last: ConversationEvent | None = None
        text = ""
        for step in steps:
            if isinstance(step, int | float):
                await self._until(asyncio.sleep(step))
            elif isinstance(step, asyncio.Event):
                await self._until(step.wait())
            else:
                await asyncio.sleep(0)
            if self._interrupted.is_set():
                yield Interrupted("the script")
                return
            while self.steered:
                yield UserSaid(self.steered.pop(0), steering=True)
            if isinstance(step, int | float | asyncio.Event):
                continue
            text += step.text if isinstance(step, TextDelta) else ""
            yield (last := step)
            if isinstance(step, ApprovalAsked):
                self._replied[step.call] = asyncio.get_running_loop().create_future()
                await self._until(self._replied[step.call])
                if self._interrupted.is_set():
                    yield Interrupted("the script")
                    return
                yield self._replied[step.call].result()
        if type(last).__name__ not in ("Answered", "Interrupted", "Failed"):
            yield Answered(text)

    async def _until(self, other: object) -> None:
        """Wait for something or the interrupt."""
        ends = asyncio.ensure_future(self._interrupted.wait())
        task = asyncio.ensure_future(other)  # type: ignore[arg-type]
        await asyncio.wait({task, ends}, return_when=asyncio.FIRST_COMPLETED)
        for each in (task, ends):
            if not each.done():
                each.cancel()

    def _noted(self, event: ConversationEvent) -> ConversationEvent:
        self.candidates.apply(event)
        if isinstance(event, Spent):
            self.spent = event
        return event

    @property
    def room(self) -> int:
        return self.settings.room()

    def steer(self, text: str) -> bool:
        if self._steerable:
            self.steered.append(text)
        return self._steerable

    def interrupt(self) -> None:
        self.interrupts += 1
        self._interrupted.set()

    def answer(self, call: str, reply: ApprovalReply, why: str = "") -> None:
        self.answers.append((call, reply, why))
        self._replied[call].set_result(ApprovalGiven(call, reply, why))

    def close(self) -> None:
        self.closed = True
        self._interrupted.set()


def forecast(kernel: str, *, task: str = "softmax", median: float | None = 1.8, parent: str = "") -> CandidateForecast:
    low, high = (None, None) if median is None else (median * 0.67, median * 1.44)
    return CandidateForecast(
        kernel=kernel * 8,
        task=task,
        device="NVIDIA H200",
        language="cuda",
        tunables={"BLOCK": 256},
        source=f"// kernel {kernel}\n__global__ void k(float* x) {{ x[threadIdx.x] *= 2; }}\n",
        origin="agent",
        parent=parent,
        forecaster="gbdt",
        median=median,
        low=low,
        high=high,
        p_valid=0.93,
        p_faster=0.81,
        p_better=0.4,
        confidence=0.55,
        advice="measure",
        reason="likely faster than the best so far",
    )


def measured(kernel: str, speedup: float | None = 1.9, *, task: str = "softmax") -> CandidateMeasured:
    known = speedup is not None
    return CandidateMeasured(
        kernel=kernel * 8,
        task=task,
        status="ok" if known else "incorrect",
        verdict=("faster" if speedup > 1 else "slower") if speedup is not None else "incorrect",
        speedup=speedup,
        low=speedup * 0.98 if speedup is not None else None,
        high=speedup * 1.02 if speedup is not None else None,
        trusted=True,
        provenance="measured",
        measurement=7,
        device_s=2.5,
        surprise=0.1 if known else None,
    )


def long_past(turns: int, candidates: int = 0) -> list[ConversationEvent]:
    """The events of a long conversation, with the candidates spread over its turns."""
    past: list[ConversationEvent] = []
    for n in range(turns):
        past.append(UserSaid(f"Question {n}: make softmax faster still."))
        past.append(ToolCalled(f"c{n}", "search", {"task": "softmax", "budget": 4}))
        for c in range(n * candidates // turns, (n + 1) * candidates // turns):
            past += [forecast(f"{c:08x}"), measured(f"{c:08x}", 0.8 + (c % 17) / 10)]
        past.append(ToolReturned(f"c{n}", "search", f"best of {n}: 1.9×", {"status": "finished"}, 12.0))
        past.append(
            TextDelta(f"Answer {n}\n\nThe *tiled* kernel wins:\n\n```cpp\nfor (int i = 0; i < {n}; ++i) f(i);\n```\n")
        )
        past += [Spent(n, 2.5 * n, 100 * n, 10 * n, 0.01 * n), Answered("", 100, 10, 0.01, 12.0)]
    return past
