"""`forewarp` itself, and `forewarp chat`: the terminal agent, or one turn of it with `-p`."""

from __future__ import annotations

import gc
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from forewarp.cli import printing
from forewarp.cli.options import HERE, NO_MODEL, PLAIN, Model, Output, Where, positive

if TYPE_CHECKING:
    from forewarp.agent.settings import Settings
    from forewarp.agent.transcript import Past, Transcript

Format = Literal["text", "json", "stream-json"]
Approval = Literal["each", "budget", "never"]
NotNegative = Number(gte=0)
LIST = ""
"""Value of --resume that stands for none: the conversations are listed."""


def chat(
    *,
    prompt: Annotated[str | None, Parameter(name=["--prompt", "-p"])] = None,
    output_format: Format | None = None,
    continue_: Annotated[bool, Parameter(name=["--continue", "-c"], negative="", show_default=False)] = False,
    resume: str | None = None,
    replay: Path | None = None,
    budget: Annotated[int | None, Parameter(validator=NotNegative)] = None,
    max_gpu_seconds: Annotated[float | None, Parameter(validator=positive)] = None,
    max_usd: Annotated[float | None, Parameter(validator=positive)] = None,
    max_tokens: Annotated[int | None, Parameter(validator=positive)] = None,
    approve: Approval | None = None,
    shell: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    no_mouse: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    theme: str | None = None,
    model: Model = NO_MODEL,
    where: Where = HERE,
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
        approve: When measuring needs your word: each time, only beyond the budget, or never. [default: each; never
            with -p, where the budget ends it]
        shell: Let lines that begin with ! be run by your shell.
        no_mouse: Leave the mouse to the terminal, so that it selects text as usual.
        theme: Name of the colours.
        model: The language model; without one there are the slash commands.
        where: Device and archive.
        output: How results are shown.
    """
    from forewarp.core.errors import UsageError

    shape = _shape(output_format, output)
    alone = prompt is not None or shape != "text" or not _on_terminal()
    if resume == LIST and alone:
        return _listed(where, shape)
    if alone and prompt is None and replay is None:
        raise UsageError(
            "the terminal agent needs a terminal" if shape == "text" else f"{shape} is for a single turn",
            hint='pass -p "…" for a single turn without one',
        )
    chosen = _settings(
        where, model, _caps(budget, max_gpu_seconds, max_usd, max_tokens), _approval(approve, alone=alone), shell=shell
    )
    if replay is not None:
        return _replayed(replay, prompt, shape, output, alone=alone, theme=theme, mouse=not no_mouse)
    if prompt is None:
        return _opened(chosen, resume, latest=continue_, theme=theme, mouse=not no_mouse)
    return _turn(chosen, prompt, resume, shape, output, latest=continue_)


def _opened(settings: Settings, resume: str | None, *, latest: bool, theme: str | None, mouse: bool) -> int:
    """Open the terminal; --resume without an id lists the conversations in it."""
    gc.disable()  # what is loaded here stays to the end, so that to look through it again and again finds nothing
    try:
        from forewarp.agent.conversation import Conversation
        from forewarp.agent.tui.app import run

        past, transcript = _recorded(settings, resume, latest=latest)
        conversation = Conversation(settings, transcript=transcript, past=past)
        gc.freeze()
    finally:
        gc.enable()
    first = "/resume" if resume == LIST else ""
    return run(conversation, earlier=past.events if past else (), first=first, theme=theme, mouse=mouse)


def _turn(settings: Settings, prompt: str, resume: str | None, shape: Format, output: Output, *, latest: bool) -> int:
    """Do one turn without the terminal."""
    from forewarp.agent.conversation import Conversation
    from forewarp.cli import headless
    from forewarp.core.errors import UsageError

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


def _shape(asked: Format | None, output: Output) -> Format:
    from forewarp.core.errors import UsageError

    if output.json and asked not in (None, "json"):
        raise UsageError(f"--json and --output-format {asked} ask for two things", hint="leave one of them out")
    return "json" if output.json else asked or "text"


def _on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _approval(asked: Approval | None, *, alone: bool) -> Approval:
    from forewarp.core.errors import UsageError

    if alone and asked == "each":
        raise UsageError(
            "nobody can be asked in a single turn",
            hint="pass --approve never, where the budget is the cap, or open the terminal: forewarp without -p",
        )
    return asked or ("never" if alone else "each")


def _caps(budget: int | None, device_s: float | None, dollars: float | None, tokens: int | None) -> dict[str, object]:
    from forewarp.core.budget import DEFAULT_MEASUREMENTS

    count = DEFAULT_MEASUREMENTS if budget is None else budget
    return {"measurements": count, "device_s": device_s, "dollars": dollars, "tokens": tokens}


def _settings(where: Where, model: Model, caps: dict[str, object], approval: Approval, *, shell: bool) -> Settings:
    from forewarp.agent.settings import Settings
    from forewarp.core.errors import UsageError
    from forewarp.tools.parts import Amounts

    if model.base_url and model.model is None:
        raise UsageError("a base URL needs a model", hint="pass --model openai:NAME with --base-url")
    return Settings(
        place=where.place(),
        folder=Path.cwd(),
        model=model.model,
        base_url=model.base_url,
        budget=Amounts.model_validate(caps),
        approval=approval,
        shell=shell,
    )


def _recorded(settings: Settings, resume: str | None, *, latest: bool) -> tuple[Past | None, Transcript]:
    """Return the conversation to go on with, if any, and where this one is recorded."""
    from forewarp.agent import transcript
    from forewarp.core.errors import UsageError

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


def _replayed(
    path: Path, prompt: str | None, shape: Format, output: Output, *, alone: bool, theme: str | None, mouse: bool
) -> int:
    from forewarp.agent.replay import Replay
    from forewarp.agent.transcript import read
    from forewarp.core.errors import UsageError

    if prompt is not None:
        raise UsageError("a replay answers nothing", hint="leave -p or --replay out")
    past = read(path.expanduser())
    if not alone:
        from forewarp.agent.tui.app import run

        return run(Replay(past.events, id=past.header.id), theme=theme, mouse=mouse)
    from forewarp.cli import headless

    played = Replay(past.events, speed=float("inf"), id=past.header.id)
    return headless.run(played, played.prompts, shape, output, replay=True)


def _listed(where: Where, shape: Format) -> int:
    from forewarp.agent.transcript import conversations
    from forewarp.cli import exits
    from forewarp.report import display
    from forewarp.report.documents import ConversationLine, ConversationsDocument

    found = conversations(where.place())
    if shape != "text":
        lines = [ConversationLine(id=h.id, title=h.title, folder=h.folder, began=h.began) for h in found]
        summary = f"{len(lines)} conversations."
        made = ConversationsDocument(command="chat", status="ok", summary=summary, conversations=lines)
        printing.document(made)
        return exits.OK
    console = display.stdout()
    if not found:
        console.print("No conversation was recorded yet.", style="dim")
        return exits.OK
    from rich.table import Table

    table = Table("id", "began", "first words", "folder", box=None)
    for h in found:
        table.add_row(h.id, time.strftime("%Y-%m-%d %H:%M", time.localtime(h.began)), h.title, h.folder)
    console.print(table)
    return exits.OK
