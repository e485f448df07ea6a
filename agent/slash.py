"""The slash commands: one table for running, completion, /help and the documentation."""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from forewarp.agent import slash_kernels, slash_records, slash_settings
from forewarp.agent.arguments import at_most, words
from forewarp.agent.commanded import Commanded
from forewarp.agent.events import Noted
from forewarp.core.errors import UsageError


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
    run: Callable[[Commanded, Sequence[str]], Awaitable[None]]
    ui: bool = False

    @property
    def usage(self) -> str:
        """Name and arguments as they are typed."""
        return f"/{self.name} {self.arguments}".rstrip()


async def run(line: str, on: Commanded) -> None:
    """Carry out a line that begins with a slash; raises `ForewarpError`, with the nearest name for a typo."""
    name, _, rest = " ".join(line.strip().split(maxsplit=1)).removeprefix("/").partition(" ")
    await _named(name).run(on, words(rest))


async def show_help(on: Commanded, given: Sequence[str]) -> None:
    """`/help`: list the commands, or say what one does."""
    at_most(given, 1, "/help [COMMAND]")
    if given:
        command = _named(given[0].removeprefix("/"))
        on.emit(Noted(f"`{command.usage}`\n\n{command.help}"))
        return
    lines = [f"| `{c.usage.replace('|', chr(92) + '|')}` | {c.help} |" for c in COMMANDS.values()]
    on.emit(Noted("\n".join(["| command | what it does |", "|---|---|", *lines])))


def _named(name: str) -> Command:
    if name in COMMANDS:
        return COMMANDS[name]
    near = difflib.get_close_matches(name, COMMANDS, 1) or [c for c in COMMANDS if name and c.startswith(name)]
    meant = f"did you mean /{near[0]}? " if near else ""
    raise UsageError(f"there is no command /{name}", hint=f"{meant}/help lists all")


def _of_the_terminal(name: str, arguments: str, text: str) -> Command:
    """Return a command that only the terminal can carry out."""

    async def refuse(on: Commanded, given: Sequence[str]) -> None:
        raise UsageError(f"/{name} is for the terminal", hint="open it with `forewarp`")

    return Command(name, arguments, text, refuse, ui=True)


_ALL = (
    Command("help", "[COMMAND]", "List the commands, or say what one does.", show_help),
    Command(
        "task",
        "[NAME|FILE]",
        "List the known tasks, or set the task of the conversation and show it.",
        slash_kernels.task,
    ),
    Command(
        "forecast",
        "[TASK] FILE… [NAME=VALUE…]",
        "Forecast kernels without running them, and rank them; FILE may be a candidate's number.",
        slash_kernels.forecast,
    ),
    Command(
        "measure",
        "[TASK] FILE [NAME=VALUE…] [--insist WHY]",
        "Forecast a kernel, then measure it if that pays; --insist measures it anyway.",
        slash_kernels.measure,
    ),
    Command(
        "search",
        "[TASK] [N] [--seed-kernel FILE]",
        "Try variants of the seed kernels, on at most N measurements (12).",
        slash_kernels.search,
    ),
    Command("candidates", "", "List the candidates so far, forecast and measured.", slash_records.candidates),
    Command("best", "[TASK]", "Show the fastest correct candidate with its text.", slash_records.best),
    Command("diff", "N [M]", "Show what candidate N changes against its parent, or against M.", slash_records.diff),
    Command(
        "export",
        "[NUMBER|RUN] [PATH]",
        "Write a candidate's text, the best one's if left out, or the drop-in module of a run's winner.",
        slash_records.export,
    ),
    Command("runs", "", "List the latest runs of the archive.", slash_records.runs),
    Command(
        "report", "[RUN]", "Write a run, the latest if left out, as an HTML page with its charts.", slash_records.report
    ),
    Command(
        "budget",
        "[N | gpu SECONDS | usd X | tokens N]",
        "Show or set a cap; none takes it away.",
        slash_settings.budget,
    ),
    Command("cost", "", "Say what the conversation has spent, and of which cap.", slash_settings.cost),
    Command("approve", "[each|budget|never]", "Say when measuring needs your word.", slash_settings.approve),
    Command("model", "[NAME [--base-url URL]]", "Show or change the language model.", slash_settings.model),
    Command(
        "device",
        "[NAME [POOL]]",
        "Show or change the device: auto, cpu, cuda, cuda:N, or replay with a pool.",
        slash_settings.device,
    ),
    Command("compact", "", "Have the model summarise the conversation and go on from that.", slash_records.compact),
    Command("resume", "[ID]", "List the conversations, or take one up.", slash_records.resume),
    _of_the_terminal("theme", "[NAME]", "Change the colours."),
    _of_the_terminal("copy", "", "Copy the latest answer, or the chosen candidate's text."),
    _of_the_terminal("clear", "", "Clear the screen; the conversation goes on."),
    _of_the_terminal("quit", "", "Leave; the conversation can be resumed."),
)

COMMANDS: Mapping[str, Command] = {command.name: command for command in _ALL}
"""All commands by name, in the order in which they are listed."""
