"""Entry of the `forewarp` command: verbs are registered by name and imported when they run."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

import forewarp
from forewarp.cli import exits, streams
from forewarp.tools import signals

ABOUT = (
    "Faster GPU kernels on fewer measurements: forecast a candidate first, measure it only if it pays.\n\n"
    "Without a verb, forewarp opens the terminal agent; forewarp -p TEXT does one turn of it and prints the answer."
)
EPILOGUE = (
    "Exit codes: 0 done; 1 internal error; 2 the request is wrong; 3 no correct kernel, a degenerate task, or a "
    "locked kernel that got worse; "
    "69 no device, provider or protection; 73 the archive cannot be written; 75 try again later; "
    "130 interrupted, with the best so far.\n\n"
    "With --json, stdout holds exactly one JSON document, also on failure; all else goes to stderr."
)

VERBS = {
    "optimize": ("searches", "Find a faster kernel for a task, on as few measurements as possible."),
    "profile": ("models", "Say where a model's device time goes, and what kernels for its parts could gain."),
    "apply": ("models", "Put exported kernels into a model, judge the whole, and keep what helps it."),
    "measure": ("kernels", "Check and time kernels against the task's reference, or against another kernel."),
    "suite": ("kernels", "Measure a folder of kernels on a folder of problems, KernelBench's or GPU MODE's."),
    "inspect": ("kernels", "Say what kernels tell before they run, for any GPU, without one."),
    "tune": ("kernels", "Choose configurations of kernels by forecasts, measuring few or none."),
    "forecast": ("kernels", "Forecast kernels' speed-ups, rank them, and say whether to measure them."),
    "evaluate": ("forecasters", "Judge forecasters by candidates that were measured, and compare two of them."),
    "train": ("forecasters", "Train a language model to forecast, on measured kernels and one's own GPU."),
    "validate": ("kernels", "Try answers on a task that must be turned down, before anything is measured on it."),
    "tasks": ("kernels", "List the bundled tasks."),
    "runs": ("searches", "List the latest runs of the archive."),
    "show": ("searches", "Show what a run came to."),
    "report": ("searches", "Write a run as one HTML page with its charts, changes and decisions."),
    "export": ("searches", "Write a winner or a measured kernel as a torch package, a module, or a file for vLLM."),
    "resume": ("searches", "Go on with a run that was interrupted or killed."),
    "doctor": ("doctor", "Say what was found on this machine, and what each missing part costs."),
    "chat": ("chat", "The same as forewarp without a verb: open the terminal agent, or do one turn with -p."),
    "mcp": ("mcp", "Serve forecasts, measurements and searches over MCP, or put that into a client's configuration."),
}
"""Modules and first lines of help by verb."""

GROUPS = {
    "data": (
        "Pools of measurements: write one.",
        {"export": ("data:export", "Write the archive's measurements, or those of other pools, as one pool.")},
    ),
    "gate": (
        "Keep kernels from getting worse: lock them, and check them again. Alone, it checks.",
        {
            "lock": ("gate:lock", "Write what kernels compile to, their forecasts and times into a file to commit."),
            "check": (
                "gate:check",
                "Say which locked kernels are wrong, do not compile or are slower, here or in a new environment.",
            ),
        },
    ),
    "archive": (
        "Look for damage in the archive, and repair it.",
        {
            "check": ("data:check_archive", "Read every row of the archive and say what is damaged."),
            "repair": (
                "data:repair_archive",
                "Keep what can be read of a damaged archive; the damaged file stays beside it.",
            ),
        },
    ),
}
"""Modules with functions, and first lines of help, by verb, of verbs with two words."""

_ABOUT = ("-h", "--help", "--version")


def build_app(given: Sequence[str] = ()) -> App:
    """Return the command line with every verb, none of them imported yet.

    The verb that is given is described by its docstring, which says more than its line in the list of all. Where help
    is asked for without a verb, the options of what runs without one are part of it.
    """
    app = App(
        name="forewarp",
        help=ABOUT,
        help_epilogue=EPILOGUE,
        help_format="markdown",
        version=forewarp.__version__,
        suppress_keyboard_interrupt=False,
    )
    for place, (verb, (module, text)) in enumerate(VERBS.items()):
        shown = None if [verb] == [*given[:1]] else text
        app.command(f"forewarp.cli.{module}:{verb}", name=verb, help=shown, sort_key=place)
    for place, (group, (about_group, verbs)) in enumerate(GROUPS.items(), len(VERBS)):
        both = App(name=group, help=about_group, sort_key=place)
        for second, (verb, (function, text)) in enumerate(verbs.items()):
            shown = None if [group, verb] == [*given[:2]] else text
            both.command(f"forewarp.cli.{function}", name=verb, help=shown, sort_key=second)
        app.command(both)
    if given and given[0] in _ABOUT:
        from forewarp.cli.chat import chat

        app.default(chat)
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; never shows a traceback unless asked to by -v."""
    streams.use_utf8(arguments)
    given = _with_verb(sys.argv[1:] if arguments is None else arguments)
    streams.survive_any_text(given)
    try:
        with signals.ends_as_interrupts():
            return _run(given)
    except KeyboardInterrupt:
        return exits.interrupted(given)


def _run(given: list[str]) -> int:
    app = build_app(given)
    try:
        # Help and version return nothing.
        return app(given, exit_on_error=False, print_error=False, result_action="return_value") or exits.OK
    except CycloptsError as e:
        return exits.misused(e, given)
    except BrokenPipeError:
        return exits.reader_gone()
    except Exception as e:
        return exits.failed(e, given)


def _with_verb(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with the verbs that may be left out, a value for --resume without one, and `-p -` as one."""
    given = list(arguments)
    if not given or (given[0].startswith("-") and given[0] not in _ABOUT):
        given.insert(0, "chat")
    if given[0] == "chat" and "--resume" in given:
        after = given.index("--resume") + 1
        if after == len(given) or given[after].startswith("-"):
            given.insert(after, "")
    if given[0] == "gate" and given[1:2] not in ([verb] for verb in (*GROUPS["gate"][1], *_ABOUT)):
        given.insert(1, "check")
    for flag in ("-p", "--prompt") if given[0] == "chat" else ():
        if flag in given[:-1] and given[(at := given.index(flag)) + 1] == "-":
            given[at : at + 2] = ["--prompt=-"]
    return given


if __name__ == "__main__":
    sys.exit(main())
