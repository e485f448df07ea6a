"""Tools that the model may call, and what it reads of their results."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from pydantic_ai import RunContext

from forewarp.agent.base import BaseConversation
from forewarp.agent.candidates import ListedCandidate
from forewarp.agent.edits import FileEdits
from forewarp.agent.file_tools import FileTools
from forewarp.agent.history import refuse_left_out
from forewarp.agent.kernel_tools import KernelTools
from forewarp.agent.whole_tools import TOP, WholeTools
from forewarp.core.errors import UsageError
from forewarp.tools.measured import Micros
from forewarp.tools.parts import Kernel, trim
from forewarp.tools.requests import LOCK_NAME, ExportFormat
from forewarp.tools.steps import CandidateMeasured
from forewarp.tools.wording import counted, microseconds, spread

MAX_CANDIDATES = 40
MAX_LOG = 1200
MAX_SHAPES = 8
_LONG_FACTS = ("instructions", "loop_instructions", "widths", "code_bytes")

ToolOutput = dict[str, Any]
Context = RunContext[None]


class ModelTools:
    """The model's tools of one conversation. Each returns a dictionary, or raises an error with a hint."""

    def __init__(self, conversation: BaseConversation, tools: KernelTools, edits: FileEdits) -> None:
        """Make the tools; files are written by `edits`."""
        self._conversation, self._tools = conversation, tools
        self._files = FileTools(conversation, edits)
        self._whole = WholeTools(conversation, tools, edits)

    def all(self) -> list[Callable[..., Coroutine[Any, Any, ToolOutput]]]:
        """Return the functions."""
        return [
            self.forecast_kernel,
            self.measure_kernel,
            self.inspect_kernel,
            self.search,
            self.tune,
            self.profile_model,
            self.optimize_model,
            self.apply_kernels,
            self.gate_lock,
            self.gate_check,
            self.export_winner,
            self.describe_task,
            self.list_candidates,
            self.read_candidate,
            *self._files.all(),
        ]

    async def forecast_kernel(
        self,
        context: Context,
        task: str,
        source: str | None = None,
        path: str | None = None,
        tunables: dict[str, int] | None = None,
        target: str = "",
    ) -> ToolOutput:
        """Compile a kernel and forecast its speed-up over the reference without running it: free, takes seconds.

        A module that builds a C++ or CUDA extension takes as long as that.

        Args:
            context: This call.
            task: Bundled task, or the path of a KernelBench file.
            source: The kernel's text; or pass path.
            path: The kernel's file; or pass source.
            tunables: Values of declared tunables.
            target: Card that need not be here: a100, h100, h200, b200, l40s or rtx4090; else the user's device.
        """
        kernel = _kernel(source, path, tunables)
        found = await self._tools.forecast(_call(context), task=task, kernels=[kernel], target=target, origin="agent")
        return _short_forecast(found)

    async def measure_kernel(
        self,
        context: Context,
        task: str,
        source: str | None = None,
        path: str | None = None,
        tunables: dict[str, int] | None = None,
        insist: str = "",
    ) -> ToolOutput:
        """Check a kernel against the reference and time both on the device; spends one measurement of the budget.

        It is forecast first. One that will hardly pay is held back, unless you say in `insist` why it is needed.

        Args:
            context: This call.
            task: Bundled task, or the path of a KernelBench file.
            source: The kernel's text; or pass path.
            path: The kernel's file; or pass source.
            tunables: Values of declared tunables.
            insist: Why to measure it although the forecast speaks against it.
        """
        kernel = _kernel(source, path, tunables)
        found = await self._tools.measure(_call(context), task=task, kernel=kernel, insist=insist, origin="agent")
        return _short_measurement(found) | {"budget": self._budget()}

    async def inspect_kernel(
        self,
        context: Context,
        task: str = "",
        source: str | None = None,
        path: str | None = None,
        tunables: dict[str, int] | None = None,
        target: str = "",
        check: bool = False,
    ) -> ToolOutput:
        """Read what a kernel tells before it runs: registers, spills, shared memory, occupancy, floor, problems. Free.

        Args:
            context: This call.
            task: Bundled task, or the path of a KernelBench file; may be left out for a file of Triton kernels.
            source: The kernel's text; or pass path.
            path: The kernel's file; or pass source.
            tunables: Values of declared tunables.
            target: Card that need not be here: a100, h100, h200, b200, l40s or rtx4090; else this machine's GPU.
            check: Also run it on the CPU at small shapes, to find wrong results, races and reads beside the inputs.
        """
        kernel = _kernel(source, path, tunables)
        return _short_inspection(
            await self._tools.inspect(_call(context), task=task, kernel=kernel, target=target, check=check)
        )

    async def search(
        self,
        context: Context,
        task: str,
        budget: int = 12,
        seed_kernels: list[str] | None = None,
        write_kernels: bool = False,
    ) -> ToolOutput:
        """Try many variants of the seed kernels' tunables; each measurement counts in the user's budget.

        Args:
            context: This call.
            task: Bundled task, or the path of a KernelBench file.
            budget: Most measurements; the last one confirms the winner.
            seed_kernels: Files to start from, instead of the task's own.
            write_kernels: Have a language model write new kernels in it, which costs tokens.
        """
        found = await self._tools.search(
            _call(context),
            task=task,
            budget=budget,
            seed_kernels=seed_kernels or (),
            write=write_kernels,
            origin="agent",
        )
        return _short_search(found) | {"budget": self._budget()}

    async def tune(self, context: Context, path: str, budget: int = 12, target: str = "") -> ToolOutput:
        """Choose the configurations of a file's @triton.autotune kernels: measured on the GPU here, else forecast.

        Args:
            context: This call.
            path: Python file, seen from the working folder.
            budget: Most configurations to measure.
            target: Card that need not be here, to choose by forecasts alone.
        """
        found = await self._tools.tune(_call(context), file=path, budget=budget, target=target, origin="agent")
        return _short_search(found) | {"budget": self._budget()}

    async def profile_model(self, context: Context, path: str, function: str = "", line: int = 0) -> ToolOutput:
        """Say where a model's device time goes and what kernels for its parts could gain; with `line`, make it a task.

        Args:
            context: This call.
            path: Python file with Model, get_inputs and get_init_inputs.
            function: Function of the file that returns a module and its inputs, where it has no Model.
            line: Line of the profile to write as a task beside the file.
        """
        return await self._whole.profile(_call(context), model=path, function=function, line=line, origin="agent")

    async def optimize_model(
        self, context: Context, path: str, budget: int = 24, top: int = TOP, function: str = ""
    ) -> ToolOutput:
        """Search for kernels of a model's most promising lines within one budget, and judge the whole model with them.

        Args:
            context: This call.
            path: Python file, as for profile_model.
            budget: Most measurements, those that judge the whole among them.
            top: Lines to search for.
            function: As for profile_model.
        """
        found = await self._whole.optimize(
            _call(context), model=path, budget=budget, top=top, function=function, origin="agent"
        )
        return found | {"budget": self._budget()}

    async def apply_kernels(self, context: Context, path: str, kernels: list[str], function: str = "") -> ToolOutput:
        """Put exported modules into a model, judge the whole, and write it with those that make it faster.

        Args:
            context: This call.
            path: Python file, as for profile_model.
            kernels: Files of modules with ModelNew for lines of the profile, FILE or FILE:LINE.
            function: As for profile_model.
        """
        found = await self._whole.apply(_call(context), model=path, kernels=kernels, function=function, origin="agent")
        return found | {"budget": self._budget()}

    async def gate_lock(
        self, context: Context, kernels: list[str], task: str = "", call: str = "", lock: str = LOCK_NAME
    ) -> ToolOutput:
        """Write what kernels compile to, forecasts and times into a lock, from which `gate_check` tells what got worse.

        Args:
            context: This call.
            kernels: Their files; each that the device runs is measured once.
            task: Bundled task, or the path of a KernelBench file.
            call: Without a task, the call of a Triton kernel, such as scaled(float32[4096, 4096], n=4096).
            lock: The lock's file; what it holds of other kernels stays.
        """
        return await self._whole.gate_lock(
            _call(context), kernels=kernels, task=task, function_call=call, lock=lock, origin="agent"
        )

    async def gate_check(
        self, context: Context, lock: str = LOCK_NAME, budget: int = 24, python: list[str] | None = None
    ) -> ToolOutput:
        """Say which kernels of a lock are wrong, do not compile or got slower.

        Args:
            context: This call.
            lock: The lock's file.
            budget: Most measurements.
            python: Python to check in instead of forewarp's own; or two, the second against the first.
        """
        return await self._whole.gate_check(
            _call(context), lock=lock, budget=budget, python=python or (), origin="agent"
        )

    async def export_winner(self, context: Context, run: str, form: ExportFormat = "package") -> ToolOutput:
        """Write the winner of a search in a form that others can use: files in the run's folder.

        Args:
            context: This call.
            run: The run_id of a search.
            form: package is an installable op of torch with its tests; file a module; vllm-op a file for vLLM.
        """
        return await self._whole.export(_call(context), run=run, form=form, origin="agent")

    async def describe_task(self, task: str) -> ToolOutput:
        """Read a task: reference program, what it passes to a kernel, tolerance, and a kernel to start from.

        Args:
            task: Bundled task, or the path of a KernelBench file.
        """
        return _brief(await self._tools.describe(task))

    async def list_candidates(self, task: str = "") -> ToolOutput:
        """List the candidates so far with forecast, measurement and verdict: those measured first, the fastest on top.

        Args:
            task: Only those of this task.
        """

        def standing(row: ListedCandidate) -> tuple[bool, float]:
            return row.measured is not None, (row.speedup if row.measured else row.expected.median) or 0.0

        rows = [r for r in self._conversation.candidates if not task or r.forecast.task == task]
        rows.sort(key=standing, reverse=True)
        listed = [_listed(r) for r in rows[:MAX_CANDIDATES]]
        return {"summary": f"{counted(len(rows), 'candidate')}; {self._budget()}", "candidates": listed}

    async def read_candidate(self, number: int) -> ToolOutput:
        """Read the text of a candidate of this conversation.

        Args:
            number: Its number in list_candidates.
        """
        row = self._conversation.candidates.row(number)
        if row is None:
            raise UsageError(f"there is no candidate {number}", hint="list_candidates has the numbers")
        return _listed(row) | {"summary": f"candidate {number}", "source": row.forecast.source}

    def _budget(self) -> str:
        """Say how much of the user's budget is spent."""
        cap, spent = self._conversation.settings.budget.measurements, self._conversation.spent.measurements
        return (
            f"{spent} of {counted(cap, 'measurement')} spent"
            if cap is not None
            else f"{counted(spent, 'measurement')} spent"
        )


def _call(context: Context) -> str:
    return context.tool_call_id or ""


def _kernel(source: str | None, path: str | None, tunables: dict[str, int] | None) -> Kernel:
    return Kernel(source=source and refuse_left_out(source), path=path, tunables=tunables or {})


# What the model reads of a result: rounded numbers, and nothing that another tool call can return.


def _short_forecast(found: ToolOutput) -> ToolOutput:
    """Return the part of a `ForecastResult` that the model reads: no distribution; the log only without a forecast."""
    f = found["forecast"]
    short = _picked(found, "summary", "recommendation", "reason", "p_better", "best_so_far", "trials")
    if f is not None:
        short["forecast"] = _picked(f, "p_valid", "p_faster", "median", "confidence", "rationale")
    short |= {"kernel": found["kernel"]["short"], "already_measured": found["already_measured"]}
    return _brief(short | {"problems": found["evidence"]["problems"], "log": "" if f else trim(found["log"], MAX_LOG)})


def _short_measurement(found: ToolOutput) -> ToolOutput:
    """Return the part of a `Considered` that the model reads: the decision, the forecast, the measurement if any."""
    m = found["measured"]
    short = _picked(found, "summary", "decision") | {"forecast": _short_forecast(found["forecast"])}
    if m is not None:
        short |= _picked(m, "status", "verdict", "speedup", "flags", "source", "measurement_id")
        short |= {"shapes": _shapes(m), "log": "" if m["status"] == "ok" else trim(m["log"], MAX_LOG)}
        short["forecast"].pop("summary", None)
    return _brief(short)


def _short_search(found: ToolOutput) -> ToolOutput:
    """Return the part of a `SearchResult` that the model reads; `read_candidate` has the winner's text."""
    if "tuned" in found:
        return _brief(_picked(found, "summary", "tuned", "problems") | {"patch": trim(found["patch"], MAX_LOG)})
    short, best = _picked(found, "summary", "status", "run_id", "counts"), found["best"]
    if best is not None:
        kernel = {"kernel": best["kernel"]["short"], "tunables": best["kernel"]["tunables"]}
        numbers = _picked(best, "speedup", "verdict", "confirmed", "flags")
        short["best"] = _brief(kernel | numbers | {"shapes": _shapes(best)})
    return short


def _short_inspection(found: ToolOutput) -> ToolOutput:
    """Return the part of an `InspectResult` that the model reads: one kernel's launches, problems and check."""
    [kernel] = found["kernels"]
    short = _picked(found, "summary") | _picked(kernel, "status", "problems")
    launches = [launch for shape in kernel["workloads"][:MAX_SHAPES] for launch in shape["launches"][:MAX_SHAPES]]
    short["launches"] = [{k: v for k, v in launch.items() if k not in _LONG_FACTS} for launch in launches[:MAX_SHAPES]]
    if kernel["check"] is not None:
        short["check"] = _picked(kernel["check"], "how", "status", "message", "findings")
    short["log"] = "" if kernel["status"] == "ok" else trim(kernel["log"], MAX_LOG)
    return _brief(short)


def _listed(row: ListedCandidate) -> ToolOutput:
    """Return one candidate as a short entry of a list."""
    f, e, m = row.forecast, row.expected, row.measured
    entry: ToolOutput = {"number": row.number, "kernel": f.kernel[:10], "task": f.task, "language": f.language}
    entry |= {"tunables": f.tunables, "note": f.note, "advice": f.advice}
    if e.median is not None:
        entry["forecast"] = spread(e.median, e.low, e.high)
    if m is not None:
        entry |= {"measured": _outcome(m), "verdict": m.verdict, "measured_before": list(map(_outcome, row.before))}
    return _brief(entry)


def _outcome(measured: CandidateMeasured) -> str:
    return measured.status if measured.speedup is None else spread(measured.speedup, measured.low, measured.high)


def _shapes(measured: ToolOutput) -> list[ToolOutput]:
    return [
        _picked(w, "name", "verdict", "speedup", "candidate_us", "reference_us")
        | {"noise": None if w["noise_percent"] is None else f"{w['noise_percent']:.1f} %"}
        for w in measured["workloads"][:MAX_SHAPES]
    ]


def _picked(values: ToolOutput, *names: str) -> ToolOutput:
    return {name: values[name] for name in names}


def _brief(value: Any) -> Any:
    """Round intervals and fractions to significant digits, and drop empty values."""
    match value:
        case {"ratio": ratio, "low": low, "high": high}:
            return spread(ratio, low, high)
        case {"median": float(), "low": _, "high": _}:
            return microseconds(Micros.model_validate(value))
        case dict():
            return {k: _brief(v) for k, v in value.items() if v not in (None, "", [], {})}
        case list():
            return [_brief(v) for v in value]
        case float():
            return float(f"{value:.3g}")
        case _:
            return value
