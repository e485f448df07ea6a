"""Conversations without a terminal interface (`forewarp -p`): output in each format, and the exit code."""

from __future__ import annotations

import asyncio
import io
import os
import select
import signal
import stat
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from forewarp.agent import events
from forewarp.agent.candidates import Candidates
from forewarp.cli import exits, printing
from forewarp.core.untrusted_text import UNREADABLE, one_line
from forewarp.tools import signals
from forewarp.tools.steps import CandidateMeasured
from forewarp.tools.wording import dollars, spread

if TYPE_CHECKING:
    from forewarp.agent.base import BaseConversation
    from forewarp.cli.options import Output, OutputFormat
    from forewarp.report.documents import ChatDocument


INPUT_WAIT_S = 3.0
"""Seconds to wait for text on a piped stdin before the turn begins without it."""

NOBODY = "nobody can be asked in a single turn"
REPLAY = "This is a replay of a recorded conversation: no model was asked, nothing was measured."

_FLAGS = {
    "`/budget` raises": "`--budget`, `--max-tokens`, `--max-usd` or `--max-gpu-seconds` raises",
    "`/budget steps N`": "`--max-steps N`",
    "/model chooses": "`--model` chooses",
}
"""Advice of the conversation, in the words of a single turn, which has no slash commands after it."""


def run(
    talk: BaseConversation, texts: Sequence[str], shape: OutputFormat, output: Output, *, replay: bool = False
) -> int:
    """Send each text as a turn, print output, and return the exit code; stop when a turn fails, except in a replay."""
    if replay and not output.quiet:
        printing.err(f"forewarp: {REPLAY}")
    began = time.perf_counter()
    try:
        seen = asyncio.run(_said(talk, texts, _view(talk, shape, quiet=output.quiet, replay=replay)))
    finally:
        talk.close()
    if shape != "text":
        printing.document(document(talk, seen, time.perf_counter() - began, replay=replay, full=shape == "json"))
    return _told(seen[-1]) if seen else exits.OK


def _told(end: events.ConversationEvent) -> int:
    match end:
        case events.Failed() as failed:
            exits.tell(failed.message, _in_flags(failed.hint))
            return exits.of_code(failed.code, retryable=failed.retryable)
        case events.Interrupted(during=during):
            exits.tell(f"interrupted during {during}", "")
            return exits.INTERRUPTED
        case _:
            return exits.OK


async def _said(
    talk: BaseConversation, texts: Sequence[str], show: Callable[[events.ConversationEvent], None]
) -> list[events.ConversationEvent]:
    seen: list[events.ConversationEvent] = []
    loop, stopped = asyncio.get_running_loop(), False

    def interrupt() -> None:
        nonlocal stopped
        stopped = True
        # A second signal gets the default handling and ends the process at once.
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        talk.interrupt()

    def hang_up() -> None:
        nonlocal stopped
        stopped = True
        signals.leave_terminal()
        talk.interrupt()

    with suppress(NotImplementedError, ValueError, RuntimeError):  # only in the main thread, and not on all platforms
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, interrupt)
        if signals.heeds_hangup():
            loop.add_signal_handler(signal.SIGHUP, hang_up)
    for number, text in enumerate(texts):
        if number:  # only in a replay, which shows whose turn ended how
            _told(seen[-1])
        async for event in talk.say(text):
            seen.append(event)
            show(event)
            if isinstance(event, events.ApprovalAsked):
                talk.answer(event.call, "no", NOBODY)
        if stopped or (seen and not talk.goes_on(seen[-1])):
            break
    return seen


def _in_flags(hint: str) -> str:
    for commands, flags in _FLAGS.items():
        hint = hint.replace(commands, flags)
    return hint


def _view(
    talk: BaseConversation, shape: OutputFormat, *, quiet: bool, replay: bool
) -> Callable[[events.ConversationEvent], None]:
    """Return what prints the events of a turn while it runs; for one document, nothing does."""
    if shape == "text":
        return TextView(talk.candidates, quiet=quiet, replay=replay).show
    more: dict[str, Any] = {"replay": True} if replay else {}
    return (
        (lambda event: printing.json_line(events.to_data(event) | more)) if shape == "stream-json" else lambda _: None
    )


class TextView:
    """View that prints the model's words on stdout once they are whole; tool calls and other events on stderr."""

    def __init__(self, candidates: Candidates, *, quiet: bool, replay: bool = False) -> None:
        self._candidates, self._quiet, self._replay = candidates, quiet, replay
        self._words = ""
        self._by_hand = False

    def show(self, event: events.ConversationEvent) -> None:
        match event:
            case events.UserSaid(text=text, steering=False):
                self._by_hand = text.startswith("/")
                self._aside(f"> {text}" if self._replay else "")
            case events.TextDelta(text=text):
                self._words += text
            case events.Retrying():
                self._words = ""
                self._aside(event.words)
            case events.Noted(text=text):
                printing.out(text)
            case events.ToolReturned(summary=summary) if self._by_hand:
                if "error" not in event.result:  # an error is said once, at the end of the turn
                    printing.out(summary)
            case events.Failed():
                self._aside(self._words.strip())  # they are no answer
                self._words = ""
            case events.ToolCalled() | events.Answered() | events.Interrupted():
                if self._words.strip():
                    printing.out(self._words.rstrip("\n"))
                self._words = ""
                self._aside(_in_words(event, self._candidates))
            case _:
                self._aside(_in_words(event, self._candidates))

    def _aside(self, text: str) -> None:
        if text and not self._quiet:
            printing.err(text.replace("\n", "\n  "))  # indented, so that no foreign line looks like one of ours


def document(
    talk: BaseConversation, seen: Sequence[events.ConversationEvent], seconds: float, *, replay: bool, full: bool
) -> ChatDocument:
    """Return the JSON document of the turns; with `full`, it holds all their events."""
    from forewarp.report.documents import ChatDocument, Failure
    from forewarp.tools.parts import Amounts
    from forewarp.tools.run_report import BudgetUse

    last = seen[-1] if seen else events.Answered("")
    answers = [e for e in seen if isinstance(e, events.Answered)]
    prices = [a.dollars for a in answers]
    failure, ending = None, "Nothing was said."
    if isinstance(last, events.Failed):
        failure = Failure(code=last.code, message=last.message, hint=_in_flags(last.hint), retryable=last.retryable)
        ending = last.message
    elif isinstance(last, events.Interrupted):
        ending = f"Interrupted during {last.during}."
    said = _summary(seen) or ending
    spent = talk.spent
    return ChatDocument(
        command="chat",
        status="error" if failure else "interrupted" if isinstance(last, events.Interrupted) else "ok",
        reason=failure.message if failure else last.during if isinstance(last, events.Interrupted) else "",
        summary=f"{REPLAY}\n\n{said}" if replay else said,
        error=failure,
        conversation=talk.id,
        replay=replay,
        input_tokens=sum(a.input_tokens for a in answers),
        output_tokens=sum(a.output_tokens for a in answers),
        dollars=None if None in prices else sum(p for p in prices if p is not None),
        seconds=seconds,
        budget=BudgetUse(
            spent=Amounts(
                measurements=spent.measurements,
                device_s=spent.device_s,
                dollars=spent.dollars,
                tokens=spent.input_tokens + spent.output_tokens,
            ),
            limit=talk.settings.budget,
        ),
        best=_best(talk.candidates),
        events=[events.to_data(e) for e in seen] if full else [],
    )


def with_input(prompt: str) -> str:
    """Return the prompt, followed by text piped into stdin; `-` is stdin alone. A slash or `!` command stays as is."""
    if prompt == "-":
        return sys.stdin.read().strip()
    if prompt.startswith(("/", "!")) or not _is_piped():
        return prompt
    piped = sys.stdin.read().strip()
    return f"{prompt}\n\n{piped}" if piped else prompt


def _is_piped() -> bool:
    """Return whether stdin has something to read: a file, or a pipe with data within `INPUT_WAIT_S` seconds."""
    try:
        number = sys.stdin.fileno()
        mode = os.fstat(number).st_mode
    except (OSError, ValueError, AttributeError, io.UnsupportedOperation):
        return False
    if stat.S_ISREG(mode):
        return True
    if not stat.S_ISFIFO(mode):
        return False
    ready, _, _ = select.select([number], [], [], INPUT_WAIT_S)
    return bool(ready)


def _in_words(event: events.ConversationEvent, candidates: Candidates) -> str:
    """Return an event as a line for stderr; "" where nobody needs to see it."""
    match event:
        case events.UserSaid(text=text, steering=True):
            return f"> {text}"
        case events.ToolCalled(tool=tool, arguments=arguments):
            return f"→ {tool}({_shortly(arguments)})"
        case events.ToolReturned(summary=summary, seconds=seconds):
            return f"← {summary} ({seconds:.1f} s)"
        case CandidateMeasured():
            return _candidate(event, candidates)
        case events.SettingChanged(name=name, value=value):
            return f"{name}: {value}"
        case events.ApprovalAsked(command=command, reason=reason):
            return one_line(f"? {command}{f'; {reason}' if reason else ''}", UNREADABLE)
        case events.ApprovalGiven(reply=reply, why=why):
            return one_line("allowed" if reply != "no" else f"not allowed{f': {why}' if why else ''}", UNREADABLE)
        case events.Compacted():
            return "the conversation was shortened"
        case events.Answered() if event.input_tokens:
            return _paid(event)
        case _:
            return ""


def _candidate(event: CandidateMeasured, candidates: Candidates) -> str:
    row = candidates.of(event)
    number = row.number if row is not None else "?"
    said = event.status
    if event.speedup is not None:
        said = f"{spread(event.speedup, event.low, event.high)} {event.verdict}"
    came = "" if event.surprise is None else f", {event.surprise:+z.1f} σ from its forecast"
    return f"  candidate {number}: {said}{came}{' (replay)' if event.provenance == 'replay' else ''}"


def _shortly(arguments: Mapping[str, Any]) -> str:
    told = {n: ", ".join(map(str, v)) if isinstance(v, list) else str(v) for n, v in arguments.items()}
    return ", ".join(f"{name}={value[:60]!r}" for name, value in told.items())


def _paid(answered: events.Answered) -> str:
    price = "price unknown" if answered.dollars is None else dollars(answered.dollars)
    return f"{answered.input_tokens} + {answered.output_tokens} tokens, {price}"


def _summary(seen: Sequence[events.ConversationEvent]) -> str:
    parts: list[str] = []
    begun, by_hand = "", False
    for event in seen:
        match event:
            case events.UserSaid(text=text, steering=False):
                begun, by_hand = "", text.startswith("/")
            case events.TextDelta(text=text):
                begun += text
            case events.Retrying():
                begun = ""
            case events.Interrupted():
                parts.append(begun.strip())
            case events.Noted(text=text) | events.Answered(text=text):
                parts.append(text.strip())
            case events.ToolReturned(summary=summary) if by_hand and "error" not in event.result:
                parts.append(summary)
            case _:
                pass
    return "\n\n".join(part for part in parts if part)


def _best(candidates: Candidates) -> Any:
    from forewarp.report.documents import ChatBest
    from forewarp.tools.parts import Interval

    row = candidates.best()
    m = row.measured if row else None
    if row is None or m is None or m.speedup is None or m.low is None or m.high is None:
        return None
    return ChatBest(
        number=row.number,
        task=row.forecast.task,
        device=row.forecast.device,
        kernel=row.forecast.kernel,
        language=row.forecast.language,
        tunables=row.forecast.tunables,
        speedup=Interval(ratio=m.speedup, low=m.low, high=m.high),
        verdict=m.verdict,
        provenance=m.provenance,
        text=row.text,
    )
