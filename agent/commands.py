"""Commands that the user types: the slash commands, one table for all their uses, and lines for the shell."""

from __future__ import annotations

import asyncio
import re
import secrets
import shlex
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

from pydantic import BaseModel

from forewarp.agent import files, shell
from forewarp.agent.base import BaseConversation, Caller
from forewarp.agent.candidates import ListedCandidate
from forewarp.agent.edits import FileEdits, difference
from forewarp.agent.events import ToolCalled, ToolReturned
from forewarp.agent.files import inside, readable_file
from forewarp.agent.kernel_tools import MAX_SEARCH, KernelTools
from forewarp.agent.settings import Approval, Settings
from forewarp.agent.whole_tools import TOP, WholeTools
from forewarp.core.budget import DEFAULT_MEASUREMENTS, UNITS
from forewarp.core.errors import ForewarpError, UsageError, did_you_mean
from forewarp.core.untrusted_text import clip
from forewarp.prompts.render import fenced
from forewarp.tools.parts import Amounts, Kernel, Place, shown
from forewarp.tools.requests import LOCK_NAME
from forewarp.tools.wording import chance, counted, dollars, spread

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from forewarp.core.values import Language
    from forewarp.tools.inspect_kernel import InspectResult
    from forewarp.tools.tune import TuneResult

Returned = TypeVar("Returned")

SEARCH_BUDGET = 12
DEMO = "gelu_bias"
"""Operation of the bundled pool that `/demo` searches."""

REFERENCE_LINES = 40
SHELL_CHARACTERS = 8000
MOST_CANDIDATES, MOST_RUNS, MOST_CONVERSATIONS = 60, 20, 20
_CURRENCIES = {"gpu": "device_s", "usd": "dollars", "tokens": "tokens", "measurements": "measurements"}
_RUN = re.compile(r"r-[0-9a-f]+")
_TUNABLE = re.compile(r"([A-Za-z_]\w*)=(.*)")


@dataclass(frozen=True, slots=True)
class Arguments:
    """Parsed arguments: words in order, `NAME=VALUE` pairs, and options with their values; `usage` is the command's."""

    usage: str
    words: list[str] = field(default_factory=list[str])
    tunables: dict[str, int] = field(default_factory=dict[str, int])
    options: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    @property
    def first(self) -> str:
        """The first word; "" without one."""
        return self.words[0] if self.words else ""

    def last(self, option: str) -> str:
        """Return the last value of an option; "" without one."""
        return self.options.get(option, [""])[-1]

    def second(self, what: str, default: int) -> int:
        """Return the second word as an integer, which says `what`; `default` without one."""
        return _integer(self.words[1], what) if len(self.words) > 1 else default

    def name_and_count(self) -> tuple[str, int | None]:
        """Return the word that is no number, and the one that is; raises `UsageError` for two of a kind."""
        names, counts = [w for w in self.words if not w.isdigit()], [w for w in self.words if w.isdigit()]
        for extra in (*names[1:], *counts[1:]):
            raise self.too_many(extra)
        return "".join(names), int(counts[0]) if counts else None

    def too_many(self, word: str) -> UsageError:
        """Return the error for a word that has no meaning."""
        return UsageError(f"{word!r} is one word too many", hint=f"it is {self.usage}")


@dataclass(frozen=True, slots=True)
class Command:
    """One slash command.

    Attributes:
        name: Without the slash.
        arguments: Arguments that may follow, in words.
        help: Description in one sentence.
        run: Carries it out and returns what to say, as Markdown; raises `ForewarpError`. None where only the terminal
            can.
        words: Most words that may follow; None for any number.
        needs: Question to ask where no word follows; "" where none has to.
        option: Option that takes one word; it may be given several times.
        rest: Option that takes all words after it.
        tunables: Whether `NAME=VALUE` is a tunable.
    """

    name: str
    arguments: str
    help: str
    run: Method | None
    words: int | None = 0
    needs: str = ""
    option: str = ""
    rest: str = ""
    tunables: bool = False

    @property
    def usage(self) -> str:
        """Name and arguments as they are typed."""
        return f"/{self.name} {self.arguments}".rstrip()

    def parse(self, text: str) -> Arguments:
        """Sort the words after the name; raises `UsageError` where one is of no use, or a tunable is no integer."""
        try:
            left = shlex.split(text)
        except ValueError:  # an apostrophe without its partner is one of the text
            left = text.split()
        parsed = Arguments(self.usage)
        while left:
            word = left.pop(0)
            name, equals, value = word.partition("=")
            if word.startswith("--"):
                if name not in (self.option, self.rest):
                    known = self.option or self.rest
                    hint = f"there is {known}" if known else "leave it out"
                    raise UsageError(f"there is no option {name}", hint=hint)
                values = [value] if equals else []
                while left and (name == self.rest or not values):
                    values.append(left.pop(0))
                if not "".join(values).strip():
                    raise UsageError(f"{name} needs a value after it", hint=f"it is {self.usage}")
                parsed.options.setdefault(name, []).append(" ".join(values).strip())
            elif self.tunables and (pair := _TUNABLE.fullmatch(word)):
                parsed.tunables[pair[1]] = _integer(pair[2], f"the value of {pair[1]}")
            else:
                parsed.words.append(word)
        if self.needs and not parsed.words:
            raise UsageError(self.needs, hint=f"it is {self.usage}")
        if self.words is not None and len(parsed.words) > self.words:
            raise parsed.too_many(parsed.words[self.words])
        return parsed


COMMANDS: dict[str, Command] = {}
"""All commands by name, in the order in which they are listed."""

Method = Callable[["SlashCommands", Arguments], Awaitable[str]]


def command(arguments: str = "", **takes: Any) -> Callable[[Method], Method]:
    """Make a slash command of a method: its name is the command's, its docstring the help, `takes` fields of it."""

    def register(method: Method) -> Method:
        name, text = method.__name__, method.__doc__ or ""
        COMMANDS[name] = Command(name, arguments, text, method, **takes)
        return method

    return register


async def run_command(line: str, conversation: BaseConversation, tools: KernelTools, edits: FileEdits) -> str:
    """Carry out a line that begins with a slash, and return what to say; raises `ForewarpError`."""
    name, _, rest = " ".join(line.strip().split(maxsplit=1)).removeprefix("/").partition(" ")
    command = find_command(name)
    if command.run is None:
        raise UsageError(f"/{name} is for the terminal", hint="open it with `forewarp`")
    return await command.run(SlashCommands(conversation, tools, edits), command.parse(rest))


def _user() -> Caller:
    return Caller(f"user-{secrets.token_hex(4)}", "user")


def find_command(name: str) -> Command:
    """Return the command of this name; raises `UsageError` with the nearest one for a typo."""
    if name in COMMANDS:
        return COMMANDS[name]
    begins = [f"did you mean /{command}? " for command in COMMANDS if name and command.startswith(name)]
    meant = did_you_mean(f"/{name}", [f"/{command}" for command in COMMANDS]) or "".join(begins[:1])
    raise UsageError(f"there is no command /{name}", hint=f"{meant}/help lists all")


async def run_shell(line: str, settings: Settings) -> str:
    """Run a line in the working folder and return what it printed as Markdown; cancelling kills all that it started.

    Raises `UsageError` where lines for the shell are not allowed.
    """
    if not settings.shell:
        raise UsageError("lines for the shell are not allowed here", hint="start forewarp with --shell to allow them")
    done = await shell.run(line, settings.folder)
    ended = f"; {done.ended}" if done.ended else ""
    return f"{fenced(clip(done.output, SHELL_CHARACTERS))}\n\nexit status {done.status}{ended}"


class SlashCommands:
    """What the slash commands do in one conversation. Each returns what to say as Markdown."""

    def __init__(self, conversation: BaseConversation, tools: KernelTools, edits: FileEdits) -> None:
        self._conversation, self._tools, self._edits = conversation, tools, edits
        self._whole = WholeTools(conversation, tools, edits)

    @property
    def _settings(self) -> Settings:
        return self._conversation.settings

    @command("[COMMAND]", words=1)
    async def help(self, given: Arguments) -> str:
        """List the commands, or say what one does."""
        if given.first:
            command = find_command(given.first.removeprefix("/"))
            return f"`{command.usage}`\n\n{command.help}"
        return _table("command | what it does", [(f"`{c.usage}`", c.help) for c in COMMANDS.values()])

    # Kernels

    @command("[NAME|FILE]", words=1)
    async def task(self, given: Arguments) -> str:
        """List the known tasks, or set the task of the conversation and show it."""
        if not given.first:
            return await asyncio.to_thread(_listed_tasks, self._settings)
        text = await asyncio.to_thread(_described_task, self._settings, given.first)
        self._conversation.change(given.first, task=given.first)
        return text

    @command("[TASK] FILE… [NAME=VALUE…] [--target CARD]", words=None, option="--target", tunables=True)
    async def forecast(self, given: Arguments) -> str:
        """Forecast kernels without running them, and rank them, here or for a card that need not be here."""
        task, kernels = await asyncio.to_thread(self._kernels, given)
        await self._call(self._tools.forecast_kernel, task=task, kernels=kernels, target=given.last("--target"))
        return ""

    @command("[TASK] FILE [NAME=VALUE…] [--insist WHY]", words=None, rest="--insist", tunables=True)
    async def measure(self, given: Arguments) -> str:
        """Forecast a kernel, then measure it if that pays; --insist measures it anyway."""
        task, [kernel, *others] = await asyncio.to_thread(self._kernels, given)
        if others:
            hint = "/forecast ranks several; measure the best of them"
            raise UsageError("one kernel is measured at a time", hint=hint)
        await self._call(self._tools.measure_kernel, task=task, kernel=kernel, insist=given.last("--insist"))
        return ""

    @command("[TASK] FILE [NAME=VALUE…] [--target CARD]", words=2, option="--target", tunables=True)
    async def inspect(self, given: Arguments) -> str:
        """Show registers, spills, occupancy and problems of a kernel, for a card that need not be here."""
        return await self._inspected(given, check=False)

    @command("[TASK] FILE [NAME=VALUE…]", words=2, tunables=True)
    async def check(self, given: Arguments) -> str:
        """Run a kernel on the CPU at small shapes, to find wrong results, races and reads beside the inputs."""
        return await self._inspected(given, check=True)

    async def _inspected(self, given: Arguments, *, check: bool) -> str:
        task, [kernel, *_] = await asyncio.to_thread(self._kernels, given)
        about = {"task": task, "kernel": kernel, "target": given.last("--target"), "check": check}
        return _inspection(await self._call(self._tools.inspect_kernel, **about))

    @command("FILE [N] [--target CARD]", words=2, needs="which file?", option="--target")
    async def tune(self, given: Arguments) -> str:
        """Choose the configurations of a file's @triton.autotune kernels, measured on at most N (12), else forecast."""
        file, budget = self._file(given), given.second("how many to measure", SEARCH_BUDGET)
        return _tuning(await self._call(self._tools.tune, path=file, budget=budget, target=given.last("--target")))

    @command("[TASK] [N] [--seed-kernel FILE]", words=2, option="--seed-kernel")
    async def search(self, given: Arguments) -> str:
        """Try variants of the seed kernels, or configurations of an autotuned FILE, on at most N measurements (12)."""
        name, count = given.name_and_count()
        budget = SEARCH_BUDGET if count is None else count
        if not 1 <= budget <= MAX_SEARCH:
            said = f"a search takes 1 to {MAX_SEARCH} measurements, not {budget}"
            raise UsageError(said, hint="such as /search softmax 12")
        seeds = [_existing(self._settings.folder, seed) for seed in given.options.get("--seed-kernel", [])]
        await self._call(self._tools.search, task=self._task(name), budget=budget, seed_kernels=seeds)
        return ""

    @command()
    async def demo(self, given: Arguments) -> str:
        """Play a search on measurements recorded on an H200: no GPU, no key, some seconds."""
        here = self._settings.place
        place = Place(device="replay", archive=here.archive, python=here.python)
        await self._call(self._tools.search, task=DEMO, budget=SEARCH_BUDGET, place=place)
        return "These times were measured on an H200 and looked up. F3 shows all candidates, `/best` the fastest."

    # Whole models and locks

    @command("MODEL.py [LINE] [--call FUNCTION]", words=2, needs="which model?", option="--call")
    async def profile(self, given: Arguments) -> str:
        """Show where a model's time goes and what kernels for its lines could gain, or write a line as a task."""
        path, line = self._file(given), given.second("the line", 0)
        found = await self._call(self._whole.profile_model, path=path, line=line, function=given.last("--call"))
        rows = [
            (one["number"], one["operations"], one["places"], one["share"], one.get("headroom", "–"), one["gain"])
            for one in found.get("lines", [])
        ]
        return _table("line | operations | places | share | headroom [80 %] | gain [80 %]", rows) if rows else ""

    @command("MODEL.py [N] [--top LINES]", words=2, needs="which model?", option="--top")
    async def optimize(self, given: Arguments) -> str:
        """Search for kernels of a model's top lines (3) on N measurements (24) in all, and judge the whole."""
        budget = given.second("how many to measure", DEFAULT_MEASUREMENTS)
        top = _integer(given.last("--top") or str(TOP), "how many lines")
        found = await self._call(self._whole.optimize_model, path=self._file(given), budget=budget, top=top)
        judged = {k["line"]: k.get("why", "kept") for k in found.get("applied", {}).get("kernels", [])}
        rows = [
            (n := one["number"], one["operations"], one.get("best", "–"), one.get("why_none") or judged.get(n, "–"))
            for one in found["lines"]
        ]
        return f"{_table('line | operations | best kernel [95 %] | in the model', rows)}\n\nFiles: `{found['folder']}`"

    @command("MODEL.py FILE… [--call FUNCTION]", words=None, needs="which model?", option="--call")
    async def apply(self, given: Arguments) -> str:
        """Judge a model with exported modules, and write it with those that make the whole faster."""
        path, kernels = self._file(given), given.words[1:]
        if not kernels:
            raise UsageError("which modules?", hint=f"it is {given.usage}")
        found = await self._call(self._whole.apply_kernels, path=path, kernels=kernels, function=given.last("--call"))
        rows = [(k["line"], k["path"], k["verdict"], k.get("why", "kept")) for k in found["kernels"]]
        return _table("line | module | whole model | why not", rows)

    @command("FILE… [--task TASK]", words=None, needs="which kernels?", option="--task")
    async def lock(self, given: Arguments) -> str:
        """Lock kernels for /gate: what they compile to, forecasts and times."""
        found = await self._call(self._whole.gate_lock, kernels=given.words, task=given.last("--task"))
        return "\n".join(f"- {text}" for text in (*found.get("problems", []), *found.get("notes", [])))

    @command("[LOCK] [N] [--python OLD --python NEW]", words=2, option="--python")
    async def gate(self, given: Arguments) -> str:
        """Check the kernels of a lock against it, or in NEW against OLD, on at most N measurements (24)."""
        lock, count = given.name_and_count()
        budget, pythons = DEFAULT_MEASUREMENTS if count is None else count, given.options.get("--python", [])
        found = await self._call(self._whole.gate_check, lock=lock or LOCK_NAME, budget=budget, python=pythons)
        rows = [(r["path"], r["verdict"], "; ".join(r.get("reasons", []))) for r in found.get("rows", [])]
        return _table("kernel | verdict | why", rows)

    def _file(self, given: Arguments) -> str:
        return _existing(self._settings.folder, given.first)

    async def _call(self, tool: Callable[..., Awaitable[Returned]], **values: Any) -> Returned:
        """Call a tool for the user, with the events of a tool call, and return its result."""
        caller, name = _user(), tool.__name__
        told = {argument: _in_words(value) for argument, value in values.items() if value}
        self._conversation.emit(ToolCalled(caller.id, name, told))
        start = time.perf_counter()
        data: Any = {"error": "interrupted"}
        try:
            result = await tool(caller, **values)
            data = cast(
                "Mapping[str, Any]", result.model_dump(mode="json") if isinstance(result, BaseModel) else result
            )
        except ForewarpError as e:
            data = {"error": e.message}  # the turn ends with the hint
            raise
        finally:
            self._conversation.emit(ToolReturned.of(caller.id, name, data, time.perf_counter() - start))
        return result

    def _kernels(self, given: Arguments) -> tuple[str, list[Kernel]]:
        """Return the task and the kernels that are named, by files or by numbers of candidates."""
        names = list(given.words)
        if not names:
            raise UsageError("which kernel?", hint=f"it is {given.usage}; FILE may also be a candidate's number")
        first = names.pop(0) if _names_task(self._settings, names[0], alone=len(names) == 1) else ""
        if first and not names:
            raise UsageError(f"which kernel for {first}?", hint=f"it is {given.usage}")
        rows = {name: self._row(name) for name in names if name.isdigit()}
        kernels = [
            _same_kernel(rows[name], given.tunables)
            if name in rows
            else Kernel(path=_existing(self._settings.folder, name), tunables=given.tunables)
            for name in names
        ]
        tasks = {_task_of(self._settings, row) for row in rows.values()}
        if not first and len(rows) == len(names) and len(tasks) == 1:
            return tasks.pop(), kernels
        return self._task(first), kernels

    def _task(self, named: str) -> str:
        if not named and not self._settings.task:
            hint = "name it first, or set it with /task NAME; /task lists those that have names"
            raise UsageError("which task?", hint=hint)
        return named or self._settings.task

    def _row(self, number: str) -> ListedCandidate:
        candidates = self._conversation.candidates
        row = candidates.row(_integer(number, "a candidate's number"))
        if row is None:
            count = len(candidates)
            there = f"there are 1 to {count}" if count else "there is none yet; /forecast a kernel first"
            raise UsageError(f"there is no candidate {number}", hint=f"{there}; /candidates lists them")
        return row

    # Records

    @command()
    async def candidates(self, given: Arguments) -> str:
        """List the candidates so far, forecast and measured."""
        rows = list(self._conversation.candidates)
        if not rows:
            return "No candidates yet. `/forecast TASK FILE` forecasts a kernel."
        head = "# | kernel | task | forecast [80 %] | correct | advice | measured [95 %] | surprise"
        return _table(head, [_cells(r) for r in rows], MOST_CANDIDATES, from_end=True)

    @command("[TASK]", words=1)
    async def best(self, given: Arguments) -> str:
        """Show the fastest correct candidate with its text."""
        row = self._best(given.first)
        f, e = row.forecast, row.expected
        text = await asyncio.to_thread(lambda: row.text)
        language = "cpp" if f.language in ("cpp", "cuda") else "python"
        numbers = f"{_measured(row)}; forecast {spread(e.median, e.low, e.high)}"
        return f"**{row.number}** {_named(row)}, {f.task} on {f.device}: {numbers}.\n\n{fenced(text, language)}"

    @command("N [M]", words=2, needs="which candidate?")
    async def diff(self, given: Arguments) -> str:
        """Show what candidate N changes against its parent, or against M."""
        row, *others = [self._row(number) for number in given.words]
        other = others[0] if others else self._conversation.candidates.parent(row)
        if other is None:
            raise UsageError(f"nobody knows what candidate {row.number} was made from", hint=f"/diff {row.number} M")
        old, new = await asyncio.to_thread(lambda: (other.text, row.text))
        names = (f"candidate {other.number}", f"candidate {row.number}")
        text = difference(old, new, *names)
        return fenced(text, "diff") if text else f"{names[0]} and {names[1]} have the same text."

    @command("[NUMBER|RUN] [PATH|package|vllm-op]", words=2)
    async def export(self, given: Arguments) -> str:
        """Write a candidate's text (the best one's), a run's winner as a module, or a package into the run's folder."""
        left = list(given.words)
        which = left.pop(0) if left and (left[0].isdigit() or _RUN.fullmatch(left[0])) else ""
        path = left.pop(0) if left else ""
        if left:
            raise UsageError(f"{path!r} is no candidate and no run", hint="/candidates and /runs list them")
        if path in ("package", "vllm-op"):
            if not _RUN.fullmatch(which):
                raise UsageError(f"a {path} is made of a run's winner", hint=f"/export RUN {path}; /runs lists them")
            found = await self._call(self._whole.export_winner, run=which, form=path)
            return f"{found['summary']} Files: `{found['folder']}`"
        if _RUN.fullmatch(which):
            path, text, told = await asyncio.to_thread(_winner, self._settings, which, path)
        else:
            path, text, told = await asyncio.to_thread(_row_text, self._row(which) if which else self._best(""), path)
        edit = await self._edits.write(_user().id, "export", path, lambda _: text)
        return told.format(written=files.shown(self._settings.folder, edit.path))

    @command()
    async def undo(self, given: Arguments) -> str:
        """Take back the latest write to a file, by the model or by /export."""
        return await self._edits.undo()

    @command()
    async def runs(self, given: Arguments) -> str:
        """List the latest runs of the archive."""
        from forewarp.tools.describe import latest_runs

        found = await asyncio.to_thread(latest_runs, self._settings.place, MOST_RUNS)
        if not found:
            return "There are no runs in the archive yet. `/search TASK` starts one."
        rows = [(f"`{r.run_id}`", r.task, r.device, r.status, r.best or "–") for r in found]
        return _table("run | task | device | status | best [95 %]", rows)

    @command("[RUN]", words=1)
    async def report(self, given: Arguments) -> str:
        """Write a run, the latest if left out, as an HTML page with its charts."""
        from forewarp.report.artifacts import write_page

        settings, run = self._settings, given.first or None
        path, found = await asyncio.to_thread(write_page, settings.place, run, folder=settings.folder)
        return f"{found.summary}\n\nIts page is `{path}`."

    def _best(self, task: str) -> ListedCandidate:
        row = self._conversation.candidates.best(task)
        if row is None:
            where = f" of {task}" if task else ""
            raise UsageError(f"no candidate{where} was measured as correct yet", hint="/measure one, or /search a task")
        return row

    # Settings

    @command("[N | gpu SECONDS | usd X | tokens N | steps N]", words=2)
    async def budget(self, given: Arguments) -> str:
        """Show or set a cap; none takes it away."""
        if given.words:
            currency, text = given.words if len(given.words) == 2 else ("measurements", given.first)
            cap = _cap(_one_of(currency, (*_CURRENCIES, "steps"), "what a budget caps"), text)
            if currency == "steps":
                steps = None if cap is None else max(1, int(cap))
                self._conversation.change("no cap" if steps is None else f"{steps} a turn", steps=steps)
                return self._spending()
            caps = self._settings.budget.model_copy(update={_CURRENCIES[currency]: cap})
            if caps.dollars is not None and self._settings.model is not None:
                await asyncio.to_thread(_checked_model, self._settings.model, self._settings.base_url, caps)
            words = [f"{cap:,.12g} {UNITS[currency]}" for currency, cap in caps.budget().caps.items()]
            self._conversation.change(", ".join(words) or "no caps", budget=caps)
        return self._spending()

    @command()
    async def cost(self, given: Arguments) -> str:
        """Say what the conversation has spent, and of which cap."""
        return self._spending()

    def _spending(self) -> str:
        def shown_cap(cap: float | None, form: str) -> str:
            return "none" if cap is None else form.format(cap)

        s, caps = self._conversation.spent, self._settings.budget
        tokens = f"{s.input_tokens + s.output_tokens:,} ({s.input_tokens:,} + {s.output_tokens:,})"
        price = "unknown" if s.dollars is None else dollars(s.dollars)
        rows = [
            ("measurements", s.measurements, shown_cap(caps.measurements, "{:d}")),
            ("device", f"{s.device_s:.1f} s", shown_cap(caps.device_s, "{:g} s")),
            ("tokens", tokens, shown_cap(caps.tokens, "{:,}")),
            ("dollars", price, shown_cap(caps.dollars, "${:g}")),
            ("steps of a turn", "–", shown_cap(self._settings.steps, "{:,}")),
            ("tokens of a turn", "–", shown_cap(self._settings.turn_tokens, "{:,}")),
            ("context", f"{s.context_tokens:,} tokens", f"summarised at {self._conversation.room:,}"),
        ]
        return _table(" | spent | cap", rows)

    @command("[each|budget|never]", words=1)
    async def approve(self, given: Arguments) -> str:
        """Say when measuring needs your word."""
        if given.first:
            self._conversation.change(given.first, approval=_one_of(given.first, get_args(Approval), "approval"))
        meanings = {
            "each": "each measurement needs your word",
            "budget": "only what goes beyond the budget needs your word",
            "never": "nothing needs your word, and the budget ends it",
        }
        return f"Approval `{self._settings.approval}`: {meanings[self._settings.approval]}."

    @command("[NAME [--base-url URL]]", words=1, option="--base-url")
    async def model(self, given: Arguments) -> str:
        """Show or change the language model."""
        base_url = given.options.get("--base-url", [""])[-1] or None
        if not given.first and base_url:
            raise UsageError("a base URL needs a model", hint="such as /model openai:NAME --base-url URL")
        name, base_url = (given.first, base_url) if given.first else (self._settings.model, self._settings.base_url)
        label = await asyncio.to_thread(_checked_model, name, base_url, self._settings.budget if given.first else None)
        if not label:
            return "There is no model; `/model anthropic:NAME` or `/model openai:NAME --base-url URL` sets one."
        if given.first:
            self._conversation.change(given.first, model=name, base_url=base_url)
        return f"The model is `{given.first or label}`{f' at {base_url}' if base_url else ''}."

    @command("[NAME [POOL]]", words=2)
    async def device(self, given: Arguments) -> str:
        """Show or change the device: auto, cpu, cuda, cuda:N, or replay with a pool."""
        if not given.words:
            return await asyncio.to_thread(_described_device, self._settings.place)
        name, *pools = given.words
        pool = str((self._settings.folder / Path(pools[0]).expanduser()).resolve()) if pools else None
        place = Place(**self._settings.place.model_dump(exclude={"device", "pool"}), device=name, pool=pool)
        description = await asyncio.to_thread(_described_device, place)
        self._conversation.change(name, place=place)
        return description

    @command("[trust | NAME VALUE [--in user|project]]", words=2, option="--in")
    async def config(self, given: Arguments) -> str:
        """Show what the configuration files set, set a value in yours or the project's, or trust the project's."""
        from forewarp.agent.config import NAME, configured, trust, user_folder, write

        folder, later = self._settings.folder, "what it sets holds from the next start on"
        if len(given.words) == 2:
            project = _one_of(given.last("--in") or "user", ("user", "project"), "a value's file") == "project"
            written = await asyncio.to_thread(write, folder, *given.words, project=project)
            return f"`{given.first}` is {given.words[1]} in `{written}`; {later}."
        if given.first:
            _one_of(given.first, ("trust", "show"), "what /config does without a value")
        if given.first == "trust":
            project = await asyncio.to_thread(trust, folder)
            return f"`{project}` is trusted as it is now; {later}."
        found = await asyncio.to_thread(configured, folder)
        rows = [(name, value, found.origins[name]) for name, value in found.values.items()]
        rows += [(n, v, "the project's file, **held back**: `/config trust`") for n, v in found.held_back.items()]
        where = f"Files: `{user_folder() / NAME}` of yours, `{folder / NAME}` of the project. Flags and commands win."
        return f"{_table('setting | value | from', rows)}\n\n{where}" if rows else f"No file sets anything. {where}"

    # Memory

    @command()
    async def compact(self, given: Arguments) -> str:
        """Have the model summarise the conversation and go on from that."""
        await self._conversation.compact()
        return ""

    @command("[ID]", words=1)
    async def resume(self, given: Arguments) -> str:
        """List the conversations, or take one up."""
        if given.first:
            await self._conversation.resume(given.first)
            return ""
        return await asyncio.to_thread(_listed_conversations, self._settings.place)


for _name, _arguments, _help in (
    ("theme", "[NAME]", "Change the colours."),
    ("copy", "", "Copy the latest answer, or the chosen candidate's text."),
    ("clear", "", "Clear the screen; the conversation goes on."),
    ("quit", "", "Leave; the conversation can be resumed."),
):
    COMMANDS[_name] = Command(_name, _arguments, _help, None, words=1)


def _integer(text: str, what: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{what} is an integer, not {text!r}", hint="write it as NAME=INTEGER or INTEGER") from None


def _cap(currency: str, text: str) -> float | int | None:
    """Return a cap that was typed; raises `UsageError` where it is no number, or below 0."""
    if text == "none":
        return None
    try:
        digits = text.removeprefix("$").replace("_", "").replace(",", "")
        value = float(digits) if currency in ("gpu", "usd") else int(digits)
    except ValueError:
        value = -1
    if not 0 <= value < float("inf"):
        what = "a number" if currency in ("gpu", "usd") else "an integer"
        raise UsageError(
            f"a cap on {currency} is {what} from 0 on, not {text!r}",
            hint=f"it is {COMMANDS['budget'].usage}; none takes the cap away",
        )
    return value


def _one_of(word: str, choices: Sequence[str], what: str) -> str:
    if word not in choices:
        raise UsageError(
            f"{what} is {', '.join(choices[:-1])} or {choices[-1]}, not {word!r}", hint="choose one of them"
        )
    return word


def _table(head: str, rows: Sequence[Sequence[object]], most: int = 1000, *, from_end: bool = False) -> str:
    """Return rows as a Markdown table, at most so many of them; the head is `one | two`."""
    kept = rows[-most:] if from_end else rows[:most]
    lines = [f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in row)} |" for row in kept]
    more = [f"\nThe latest {most} of {len(rows)}."] if len(rows) > most else []
    return "\n".join([f"| {head} |", "|" + "---|" * (head.count("|") + 1), *lines, *more])


# Kernels and tasks that are named


def _task_of(settings: Settings, row: ListedCandidate) -> str:
    """Return how to name the task of a candidate so that it is found again."""
    named = settings.task
    return named if named and Path(named).stem == row.forecast.task else row.forecast.task


def _same_kernel(row: ListedCandidate, tunables: Mapping[str, int]) -> Kernel:
    f = row.forecast
    return Kernel(source=f.source, language=cast("Language", f.language), tunables={**f.tunables, **tunables})


def _names_task(settings: Settings, word: str, *, alone: bool) -> bool:
    """Return whether the first word is a task: a bundled name, a folder, a KernelBench problem, or no file at all."""
    from forewarp.tools import session

    if word.isdigit():
        return False
    if word in session.bundled_tasks():
        return True
    path = inside(settings.folder, word)
    if not path.is_file():
        return path.is_dir() or (not alone and not Path(word).suffix)
    if path.suffix != ".py":
        return path.name == "task.yml"
    return files.is_problem(path.read_text(encoding="utf-8", errors="replace"))


def _existing(folder: Path, name: str) -> str:
    """Return the name of a file that is there, below the folder; raises `UsageError`."""
    if not (path := inside(folder, name)).is_file():
        problem = f"{name} is no regular file" if path.exists() else f"there is no file {name} in {folder}"
        raise UsageError(problem, hint="name a kernel file below the working folder")
    return name


# What is said


def _in_words(value: Any) -> Any:
    """Return an argument as the event of a call has it: kernels and places in a word or two."""
    match value:
        case Kernel(path=path, tunables=tunables):
            return " ".join(filter(None, (path or "text", shown(tunables))))
        case Place(device=device):
            return device
        case list():
            return [_in_words(one) for one in cast("list[Any]", value)]
        case _:
            return value


def _listed_tasks(settings: Settings) -> str:
    from forewarp.tools.describe import tasks_at

    lines = [f"- `{name}`: {title}" for name, title in tasks_at(settings.place).items()]
    current = f"The task is `{settings.task}`." if settings.task else "No task is set; `/task NAME` sets one."
    whose = "Tasks of the pool:" if settings.place.device == "replay" else "Bundled tasks:"
    return "\n".join([current, "", whose, "", *lines])


def _described_task(settings: Settings, name: str) -> str:
    from forewarp.tools.describe import task_of

    there = (settings.folder / name).exists()
    facts = task_of(str(readable_file(settings.folder, name)) if there else name, settings.place)
    lines = facts.reference.strip().splitlines()
    more = [f"# … {len(lines) - REFERENCE_LINES} more lines"] if len(lines) > REFERENCE_LINES else []
    seeds = [f"{language} ({counted(len(text.splitlines()), 'line')})" for language, text in facts.seeds.items()]
    return "\n".join(
        [
            f"**{facts.name}**: {facts.title}",
            "",
            *(f"- {shape}: {constants}" for shape, constants in facts.shapes.items()),
            f"- tolerance: {facts.tolerance}",
            f"- seed kernels: {', '.join(seeds) or 'none for this device'}",
            "",
            fenced("\n".join([*lines[:REFERENCE_LINES], *more]), "python"),
        ]
    )


def _cells(row: ListedCandidate) -> Sequence[object]:
    f, e, m = row.forecast, row.expected, row.measured
    correct = "–" if e.p_valid is None else chance(e.p_valid)
    surprise = "–" if m is None or m.surprise is None else f"{m.surprise:+z.1f} σ"
    forecast = spread(e.median, e.low, e.high)
    return row.number, _named(row), f.task, forecast, correct, f.advice or "–", _measured(row), surprise


def _named(row: ListedCandidate) -> str:
    f = row.forecast
    return f"`{f.kernel[:10]}` {f.language}{f' {shown(f.tunables)}' if f.tunables else ''}"


def _measured(row: ListedCandidate) -> str:
    m = row.measured
    if m is None:
        return "–"
    text = f"{spread(m.speedup, m.low, m.high)} {m.verdict}" if m.speedup is not None else m.status
    return f"{text} (replay)" if m.provenance == "replay" else text


def _inspection(found: InspectResult) -> str:
    """Return one kernel's launches, problems and check as Markdown; its summary is told by the call."""
    from forewarp.report.inspect_tables import HEADS, check_lines, launch_rows

    [kernel] = found.kernels
    rows = [row[1:] for row in launch_rows(kernel.workloads)]
    parts = [_table(" | ".join(HEADS[1:]), list(dict.fromkeys(rows)))] if rows else []
    lines = [f"problem: {problem}" for problem in kernel.problems]
    if kernel.check is not None:
        first, shapes, findings = check_lines(kernel.check)
        lines += [first, *shapes, *findings]
    return "\n\n".join([*parts, *(["\n".join(f"- {line}" for line in lines)] if lines else [])])


def _tuning(result: TuneResult) -> str:
    """Return the configurations of each kernel and the change of the file as Markdown."""
    from forewarp.report.tune_tables import HEADS, MOST, figures

    parts = [
        _table(" | ".join(HEADS), [(c.configuration, *figures(c)) for c in kernel.configurations[:MOST]])
        for kernel in result.kernels
    ]
    return "\n\n".join([*parts, *([fenced(result.patch, "diff")] if result.patch else [])])


def _listed_conversations(place: Place) -> str:
    from forewarp.agent.transcript import conversations

    rows = [
        (f"`{h.id}`", time.strftime("%Y-%m-%d %H:%M", time.localtime(h.began)), h.title or "–", h.folder)
        for h in conversations(place)
    ]
    head = "id | began | first words | folder"
    return _table(head, rows, MOST_CONVERSATIONS) if rows else "No conversation was recorded yet."


def _row_text(row: ListedCandidate, path: str) -> tuple[str, str, str]:
    """Return where a candidate goes, its text, and what to say with `{written}` for the file."""
    from forewarp.core.languages import suffix_of

    f = row.forecast
    default = f"{f.task}_{row.number}{suffix_of(cast('Language', f.language))}"
    return path or default, row.text, f"Candidate {row.number} is in `{{written}}`."


def _winner(settings: Settings, run: str, path: str) -> tuple[str, str, str]:
    """Return where a run's winner goes, its module, and what to say with `{written}` for the file."""
    from forewarp.tools import session
    from forewarp.tools.export import MODULE, drop_in

    with session.existing_archive(settings.place, run) as archive:
        run = archive.run(run).id
        made = drop_in(archive, run)
    if made is None:
        raise UsageError(f"nothing worked in run {run}, so there is no winner", hint=f"/report {run} says what failed")
    if made.text is None:
        raise UsageError(f"no module can be made: {made.evidence.why_no_module}", hint="/export NUMBER writes the text")
    evidence = made.evidence.said.replace("{", "{{").replace("}", "}}")
    default = str(Path("forewarp-runs", run, MODULE))
    told = f"The winner of run `{run}` is a module, `{{written}}`: {evidence}."
    return path or default, made.text, f"{told} `/export {run} package` makes a package of it."


def _checked_model(name: str | Model | None, base_url: str | None, caps: Amounts | None) -> str:
    """Return a model's label, "" without one.

    Raises `ModelError` for one that cannot be asked, `UsageError` where its dollars are capped and cannot be counted.
    """
    from forewarp.tools import session

    made = session.make_model(name, base_url)
    if made is not None and caps is not None and caps.dollars is not None:
        session.check_price(made)
    return made.label if made is not None else ""


def _described_device(place: Place) -> str:
    """Say what a place measures on; raises `ForewarpError` where it cannot."""
    if place.device == "replay":
        if place.pool is not None and not Path(place.pool).exists():
            raise UsageError(f"there is no pool at {place.pool}", hint="name a Parquet file or a folder of them")
        return f"Measurements are looked up in the pool `{place.pool}`; every such number says replay."
    if place.pool is not None:
        raise UsageError(f"a pool is only for replay, not for device {place.device}", hint="/device replay POOL")
    from forewarp.tools.describe import device_of

    d = device_of(place)
    rates = [
        f"{d.processors} processors",
        *([f"{d.memory_bandwidth / 1e9:,.0f} GB/s"] if d.memory_bandwidth else []),
        *([f"{d.fp32_flops / 1e12:,.1f} TFLOP/s in float32"] if d.fp32_flops else []),
    ]
    named = f"**{d.device.name}** ({d.device.kind}, {d.device.arch})"
    return f"The device is {named}: {', '.join(rates)}. It runs {', '.join(d.languages)}."
