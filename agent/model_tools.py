"""Tools that the model may call, and what it reads of their results."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field
from pydantic_ai import RunContext

from forewarp.agent.base import BaseConversation, Caller
from forewarp.agent.candidates import ListedCandidate
from forewarp.agent.edits import FileEdits
from forewarp.agent.file_tools import FileTools, ToolFunction, ToolOutput
from forewarp.agent.history import refuse_left_out
from forewarp.agent.kernel_tools import KernelTools
from forewarp.agent.whole_tools import WholeTools
from forewarp.core.errors import UsageError
from forewarp.core.untrusted_text import clip
from forewarp.tools.digest import digest, picked
from forewarp.tools.parts import Kernel
from forewarp.tools.run_report import SearchResult
from forewarp.tools.steps import CandidateMeasured
from forewarp.tools.wording import counted, noise, spread

if TYPE_CHECKING:
    from forewarp.tools.considered import Considered
    from forewarp.tools.forecast_kernel import ForecastResult
    from forewarp.tools.inspect_kernel import InspectResult
    from forewarp.tools.measured import WorkloadResult
    from forewarp.tools.tune import TuneResult

MAX_CANDIDATES = 40
MAX_LOG = 1200
MAX_SHAPES = 8
TaskArgument = Annotated[str, Field(description="Bundled task, or the path of a KernelBench file.")]
SourceArgument = Annotated[str | None, Field(description="The kernel's text; or pass path.")]
PathArgument = Annotated[str | None, Field(description="The kernel's file; or pass source.")]
TunablesArgument = Annotated[dict[str, int] | None, Field(description="Values of declared tunables.")]
CardArgument = Annotated[
    str, Field(description="Card that need not be here: a100, h100, h200, b200, l40s or rtx4090; else the one here.")
]
_LONG_FACTS = {"instructions", "loop_instructions", "widths", "code_bytes"}


class ModelTools:
    """The model's tools of one conversation. Each returns a dictionary, or raises an error with a hint."""

    def __init__(self, conversation: BaseConversation, tools: KernelTools, edits: FileEdits) -> None:
        """Make the tools; files are written by `edits`."""
        self._conversation, self._tools = conversation, tools
        self._files = FileTools(conversation, edits)
        self._whole = WholeTools(conversation, tools, edits)

    def all(self) -> list[ToolFunction]:
        """Return the functions."""
        whole = self._whole
        methods: list[ToolFunction] = [
            self.forecast_kernel,
            self.measure_kernel,
            self.inspect_kernel,
            self.search,
            self.tune,
            whole.profile_model,
            whole.optimize_model,
            whole.apply_kernels,
            whole.gate_lock,
            whole.gate_check,
            whole.export_winner,
            self.describe_task,
            self.list_candidates,
            self.read_candidate,
            *self._files.all(),
        ]
        return [_tool(method) for method in methods]

    async def forecast_kernel(
        self,
        caller: Caller,
        task: TaskArgument,
        source: SourceArgument = None,
        path: PathArgument = None,
        tunables: TunablesArgument = None,
        target: CardArgument = "",
    ) -> ToolOutput:
        """Compile a kernel and forecast its speed-up over the reference without running it: free, takes seconds.

        A module that builds a C++ or CUDA extension takes as long as that.
        """
        kernel = _kernel(source, path, tunables)
        found = await self._tools.forecast_kernel(caller, task=task, kernels=[kernel], target=target)
        return _short_forecast(found)

    async def measure_kernel(
        self,
        caller: Caller,
        task: TaskArgument,
        source: SourceArgument = None,
        path: PathArgument = None,
        tunables: TunablesArgument = None,
        insist: Annotated[str, Field(description="Why to measure it although the forecast speaks against it.")] = "",
    ) -> ToolOutput:
        """Check a kernel against the reference and time both on the device; spends one measurement of the budget.

        It is forecast first. One that will hardly pay is held back, unless you say in `insist` why it is needed.
        """
        kernel = _kernel(source, path, tunables)
        found = await self._tools.measure_kernel(caller, task=task, kernel=kernel, insist=insist)
        return _short_measurement(found) | {"budget": self._tools.budget()}

    async def inspect_kernel(
        self,
        caller: Caller,
        task: TaskArgument,
        source: SourceArgument = None,
        path: PathArgument = None,
        tunables: TunablesArgument = None,
        target: CardArgument = "",
        check: Annotated[
            bool,
            Field(
                description="Also run it on the CPU at small shapes, to find wrong results, races and reads beside the "
                "inputs."
            ),
        ] = False,
    ) -> ToolOutput:
        """Read what a kernel tells before it runs: registers, spills, occupancy, floor, problems. Free."""
        kernel = _kernel(source, path, tunables)
        found = await self._tools.inspect_kernel(caller, task=task, kernel=kernel, target=target, check=check)
        return _short_inspection(found)

    async def search(
        self,
        caller: Caller,
        task: TaskArgument,
        budget: int = 12,
        seed_kernels: list[str] | None = None,
        write_kernels: bool = False,
    ) -> ToolOutput:
        """Try many variants of the seed kernels' tunables; each measurement counts in the user's budget.

        Args:
            budget: Most measurements; the last one confirms the winner.
            seed_kernels: Files to start from, instead of the task's own.
            write_kernels: Have a language model write new kernels in it, which costs tokens.
        """
        kernels = seed_kernels or ()
        found = await self._tools.search(caller, task=task, budget=budget, seed_kernels=kernels, write=write_kernels)
        return _short_search(found) | {"budget": self._tools.budget()}

    async def tune(self, caller: Caller, path: str, budget: int = 12, target: CardArgument = "") -> ToolOutput:
        """Choose the configurations of a file's @triton.autotune kernels: measured on the GPU here, else forecast.

        For a lock file, with which all ranks take the same: `forewarp tune FILE --deterministic` in the shell.

        Args:
            path: Python file, seen from the working folder.
            budget: Most configurations to measure; none with a target.
        """
        found = await self._tools.tune(caller, path=path, budget=budget, target=target)
        return _short_search(found) | {"budget": self._tools.budget()}

    async def describe_task(self, task: TaskArgument) -> ToolOutput:
        """Read a task: reference program, what it passes to a kernel, tolerance, and a kernel to start from."""
        return digest(await self._tools.describe(task))

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
        return {"summary": f"{counted(len(rows), 'candidate')}; {self._tools.budget()}", "candidates": listed}

    async def read_candidate(self, number: int) -> ToolOutput:
        """Read the text of a candidate of this conversation.

        Args:
            number: Its number in list_candidates.
        """
        row = self._conversation.candidates.row(number)
        if row is None:
            raise UsageError(f"there is no candidate {number}", hint="list_candidates has the numbers")
        return _listed(row) | {"summary": f"candidate {number}", "source": row.forecast.source}


def _tool(method: ToolFunction) -> ToolFunction:
    """Return a method as the library calls it: with its own context in place of the caller, if that is taken."""
    signature = inspect.signature(method, eval_str=True)
    if "caller" not in signature.parameters:
        return method

    async def tool(context: RunContext[None], **given: Any) -> ToolOutput:
        return await method(Caller(context.tool_call_id or "", "agent"), **given)

    _, *taken = signature.parameters.values()
    first = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=RunContext[None])
    tool.__name__, tool.__doc__ = method.__name__, method.__doc__
    tool.__annotations__ = {p.name: p.annotation for p in (first, *taken)}
    tool.__dict__["__signature__"] = signature.replace(parameters=[first, *taken])
    return tool


def _kernel(source: str | None, path: str | None, tunables: dict[str, int] | None) -> Kernel:
    return Kernel(source=source and refuse_left_out(source), path=path, tunables=tunables or {})


# Results as the model reads them, without what another tool call returns.


def _short_forecast(result: ForecastResult) -> ToolOutput:
    """Return a forecast without its distribution; with the log only where there is none."""
    f = result.forecast
    return picked(
        *(result, "summary recommendation reason p_better best_so_far trials kernel already_measured"),
        forecast=f and picked(f, "p_valid p_faster median confidence rationale"),
        problems=result.evidence.problems,
        log="" if f else clip(result.log, MAX_LOG),
    )


def _short_measurement(done: Considered) -> ToolOutput:
    """Return the decision, the forecast, and the measurement if there is one."""
    short = picked(done, "summary decision", forecast=_short_forecast(done.forecast))
    if (m := done.measured) is not None:
        log = "" if m.status == "ok" else clip(m.log, MAX_LOG)
        short |= picked(m, "status verdict speedup flags source measurement_id", shapes=_shapes(m.workloads), log=log)
        short["forecast"].pop("summary", None)
    return short


def _short_search(result: SearchResult | TuneResult) -> ToolOutput:
    """Return what a search came to, without the winner's text, which `read_candidate` has; or what was tuned."""
    if not isinstance(result, SearchResult):
        return picked(result, "summary problems", tuned=result.chosen(), patch=clip(result.patch, MAX_LOG))
    best = result.best
    about = best and {"tunables": best.kernel.tunables, "shapes": _shapes(best.workloads)}
    winner = best and picked(best, "kernel speedup verdict confirmed flags", **about or {})
    return picked(result, "summary status run_id counts", best=winner)


def _short_inspection(result: InspectResult) -> ToolOutput:
    """Return one kernel's launches, problems and check."""
    [kernel] = result.kernels
    launches = [launch for shape in kernel.workloads[:MAX_SHAPES] for launch in shape.launches[:MAX_SHAPES]]
    return picked(
        *(kernel, "status problems"),
        summary=result.summary,
        launches=[launch.model_dump(exclude=_LONG_FACTS) for launch in launches[:MAX_SHAPES]],
        check=kernel.check and picked(kernel.check, "how status message findings"),
        log="" if kernel.status == "ok" else clip(kernel.log, MAX_LOG),
    )


def _listed(row: ListedCandidate) -> ToolOutput:
    """Return one candidate as a short entry of a list."""
    f, e, m = row.forecast, row.expected, row.measured
    entry = picked(f, "task language tunables note advice", number=row.number, kernel=f.kernel[:10])
    if e.median is not None:
        entry["forecast"] = spread(e.median, e.low, e.high)
    if m is not None:
        entry |= picked(m, "verdict", measured=_outcome(m), measured_before=list(map(_outcome, row.before)))
    return entry


def _outcome(measured: CandidateMeasured) -> str:
    return measured.status if measured.speedup is None else spread(measured.speedup, measured.low, measured.high)


def _shapes(workloads: Sequence[WorkloadResult]) -> list[ToolOutput]:
    names = "name verdict speedup candidate_us reference_us"
    return [picked(w, names, noise=noise(w.noise_percent)) for w in workloads[:MAX_SHAPES]]
