"""`forewarp` itself, and `forewarp chat`: the terminal agent, or one turn of it with `-p`."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.console import Console

from forewarp.cli import exits
from forewarp.cli.options import HERE, PLAIN, Output, OutputFormat, PlaceOptions, Switch, positive
from forewarp.core.errors import UsageError

if TYPE_CHECKING:
    from forewarp.agent.settings import Settings
    from forewarp.agent.transcript import RecordedConversation, Transcript

LIST = ""
"""Value of --resume that stands for none: the conversations are listed."""


def chat(
    *,
    prompt: Annotated[str | None, Parameter(name=["--prompt", "-p"])] = None,
    output_format: OutputFormat | None = None,
    continue_: Annotated[Switch, Parameter(name=["--continue", "-c"])] = False,
    resume: str | None = None,
    replay: Path | None = None,
    budget: Annotated[int | None, Parameter(validator=Number(gte=0))] = None,
    max_gpu_seconds: Annotated[float | None, Parameter(validator=positive)] = None,
    max_usd: Annotated[float | None, Parameter(validator=positive)] = None,
    max_tokens: Annotated[int | None, Parameter(validator=positive)] = None,
    max_steps: Annotated[int | None, Parameter(validator=positive)] = None,
    context: Annotated[int | None, Parameter(validator=Number(gte=4000))] = None,
    approve: Literal["each", "budget", "never"] | None = None,
    shell: Switch = False,
    no_mouse: Switch = False,
    theme: str | None = None,
    model: str | None = None,
    base_url: str | None = None,
    where: PlaceOptions = HERE,
    output: Output = PLAIN,
) -> int:
    """Open the terminal agent, or with -p do one turn and print what came of it; docs/terminal.md says more.

    Args:
        prompt: Do this one turn without the terminal: a request for the model, or a slash command; - reads stdin.
        output_format: What -p prints on stdout: text, json (one document), or stream-json (one event per line, the
            document last).
        continue_: Go on with the latest conversation of this folder.
        resume: Go on with the conversation of this id, or list the conversations where none is given.
        replay: Play a recorded conversation again, from its file: no model is asked, nothing is measured.
        budget: Most measurements of the conversation. [default: 24]
        max_gpu_seconds: Most seconds for which the device is held.
        max_usd: Most dollars for the language model.
        max_tokens: Most tokens of the language model.
        max_steps: Most steps that one turn of the language model may take. [default: 80]
        context: Tokens that the language model can read, such as 32768; the conversation is summarised before.
            [default: what is known of the model]
        approve: When measuring needs your word: each time, only beyond the budget, or never. [default: each; never
            with -p, where the budget ends it]
        shell: Let lines that begin with ! be run by your shell.
        no_mouse: Leave the mouse to the terminal, so that it selects text as usual.
        theme: Colours: dark, light, ansi (those of the terminal), or a theme of Textual.
        model: Language model, as anthropic:NAME or openai:NAME, its key from the environment; none for slash commands.
        base_url: URL of an OpenAI-compatible server (vLLM, Ollama, llama.cpp, …) that serves the model.
        where: Device and archive.
        output: How results are shown.
    """
    shape = _shape(output, output_format)
    alone = prompt is not None or shape != "text" or not (sys.stdin.isatty() and sys.stdout.isatty())
    if resume == LIST and alone:
        return _listed(where, Output(json=shape != "text"))
    _check(shape, prompt, replay, approve, alone=alone, served=bool(base_url), asks=model is not None)
    given = {"model": model, "base_url": base_url, "approve": approve, "context": context, "theme": theme}
    given |= {"budget.measurements": budget, "budget.gpu_seconds": max_gpu_seconds, "budget.usd": max_usd}
    given |= {"budget.tokens": max_tokens, "budget.steps": max_steps, "shell": shell or None}
    settings, theme = _settings(given, where, alone=alone, configures=replay is None)
    if not alone:
        return _opened(settings, replay, resume, latest=continue_, theme=theme, mouse=not no_mouse)
    return _one_turn(settings, prompt or "", replay, resume, shape, output, latest=continue_)


def _shape(output: Output, given: OutputFormat | None) -> OutputFormat:
    if output.json and given not in (None, "json"):
        raise UsageError(f"--json and --output-format {given} ask for two things", hint="leave one of them out")
    return "json" if output.json else given or "text"


def _check(
    shape: OutputFormat,
    prompt: str | None,
    replay: Path | None,
    approve: str | None,
    *,
    alone: bool,
    served: bool,
    asks: bool,
) -> None:
    """Raise `UsageError` for flags that do not go together, or not with being `alone`, without a terminal."""
    if alone and prompt is None and replay is None:
        raise UsageError(
            "the terminal agent needs a terminal" if shape == "text" else f"{shape} is for a single turn",
            hint='pass -p "…" for a single turn without one',
        )
    if alone and approve == "each":
        raise UsageError(
            "nobody can be asked in a single turn",
            hint="pass --approve never, where the budget is the cap, or open the terminal: forewarp without -p",
        )
    if served and not asks:
        raise UsageError("a base URL needs a model", hint="pass --model openai:NAME with --base-url")
    if replay is not None and prompt is not None:
        raise UsageError("a replay answers nothing", hint="leave -p or --replay out")


def _settings(
    given: Mapping[str, Any], where: PlaceOptions, *, alone: bool, configures: bool
) -> tuple[Settings, str | None]:
    """Return the conversation's settings and its theme: what is `given`, else what the configuration files say."""
    from forewarp.agent.config import Configured, configured
    from forewarp.agent.settings import STEPS, Settings
    from forewarp.core.budget import DEFAULT_MEASUREMENTS
    from forewarp.tools.parts import Amounts

    files = configured(Path.cwd()) if configures else Configured()

    def chosen(name: str, default: Any = None) -> Any:
        return files.get(name, given.get(name), default)

    place = where.place()
    if place.device == "auto":
        place = place.model_copy(update={"device": chosen("device", "auto")})
    settings = Settings(
        place=place,
        folder=Path.cwd(),
        model=chosen("model"),
        base_url=given["base_url"] if given["model"] is not None else chosen("base_url"),
        budget=Amounts(
            measurements=chosen("budget.measurements", DEFAULT_MEASUREMENTS),
            device_s=chosen("budget.gpu_seconds"),
            dollars=chosen("budget.usd"),
            tokens=chosen("budget.tokens"),
        ),
        approval="never" if alone else chosen("approve", "each"),
        shell=chosen("shell", default=False),
        context=chosen("context"),
        steps=chosen("budget.steps", STEPS),
    )
    if settings.model is not None and settings.budget.dollars is not None:
        from forewarp.tools import session

        if (made := session.make_model(settings.model, settings.base_url)) is not None:
            session.check_price(made)
    return settings, chosen("theme")


def _one_turn(
    settings: Settings,
    prompt: str,
    replay: Path | None,
    resume: str | None,
    shape: OutputFormat,
    output: Output,
    *,
    latest: bool,
) -> int:
    """Do one turn, or play a record, without a terminal."""
    from forewarp.cli import headless

    if replay is not None:
        from forewarp.agent.replay import Replay
        from forewarp.agent.transcript import read

        past = read(replay.expanduser())
        played = Replay(past.events, speed=float("inf"), id=past.header.id)
        return headless.run(played, played.prompts, shape, output, replay=True)
    from forewarp.agent.conversation import Conversation

    text = headless.with_input(prompt)
    if not text:
        raise UsageError("there is nothing to do: the prompt is empty", hint='pass -p "…", or -p - and text on stdin')
    if settings.model is None and not text.startswith(("/", "!")):
        raise UsageError(
            "no language model is set, so nobody answers",
            hint="pass --model anthropic:NAME or openai:NAME; slash commands need none: forewarp -p /help",
        )
    past, transcript = _recorded(settings, resume, latest=latest)
    return headless.run(Conversation(settings, transcript=transcript, past=past), [text], shape, output)


def _opened(
    settings: Settings, replay: Path | None, resume: str | None, *, latest: bool, theme: str | None, mouse: bool
) -> int:
    """Open the terminal; --resume without an id lists the conversations in it."""
    gc.disable()  # what is loaded here stays to the end, so that to look through it again and again finds nothing
    try:
        from forewarp.agent.conversation import Conversation
        from forewarp.agent.replay import Replay
        from forewarp.agent.transcript import read
        from forewarp.agent.tui.app import run

        if replay is not None:
            past = read(replay.expanduser())
            return run(Replay(past.events, id=past.header.id), theme=theme, mouse=mouse)
        past, transcript = _recorded(settings, resume, latest=latest)
        conversation = Conversation(settings, transcript=transcript, past=past)
        gc.freeze()
    finally:
        gc.enable()
    first = "/resume" if resume == LIST else ""
    return run(conversation, earlier=past.events if past else (), first=first, theme=theme, mouse=mouse)


def _recorded(
    settings: Settings, resume: str | None, *, latest: bool
) -> tuple[RecordedConversation | None, Transcript]:
    """Return the conversation to go on with, if any, and where this one is recorded."""
    from forewarp.agent import transcript

    if resume and latest:
        raise UsageError("--continue and --resume ask for two conversations", hint="leave one of them out")
    if not resume and not latest:
        return None, transcript.Transcript.begin(settings.place, settings.folder)
    found = transcript.find(resume, settings.place) if resume else transcript.latest(settings.folder, settings.place)
    if found is None:
        raise UsageError(
            f"there is no conversation of {settings.folder} to go on with", hint="forewarp --resume lists all of them"
        )
    past = transcript.read(Path(found.path))
    return past, transcript.Transcript(Path(found.path), past.header)


def _listed(where: PlaceOptions, output: Output) -> int:
    from forewarp.agent.transcript import conversations
    from forewarp.report import display
    from forewarp.report.documents import ConversationLine, ConversationsDocument

    found = conversations(where.place())

    def render(console: Console) -> None:
        if not found:
            console.print("No conversation was recorded yet.", style="dim")
            return
        rows = [(h.id, time.strftime("%Y-%m-%d %H:%M", time.localtime(h.began)), h.title, h.folder) for h in found]
        console.print(display.table(("id", "began", "first words", "folder"), rows))

    lines = [ConversationLine(id=h.id, title=h.title, folder=h.folder, began=h.began) for h in found]
    summary = f"{len(lines)} conversations."
    output.show(ConversationsDocument(command="chat", status="ok", summary=summary, conversations=lines), render)
    return exits.OK
