"""Forecast, measure and search for a conversation: forecast first, then approval, budget, one stream of events."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from forewarp.agent.events import ApprovalAsked, Progressed, Spent
from forewarp.agent.file_rules import readable_file, refuse_task_secrets
from forewarp.agent.talk import Host
from forewarp.core.errors import CandidateError, UsageError
from forewarp.tools.parts import Amounts, Kernel

if TYPE_CHECKING:
    from forewarp.tools.forecasted import ForecastResult
    from forewarp.tools.search import SearchRequest
    from forewarp.tools.session import Executors

T = TypeVar("T")

MAX_SEARCH = 200


class Kit:
    """Forecast, measure and search on one device, for model and user. `origin` is whose candidates they are."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._executors: Executors | None = None
        self._opening = threading.Lock()
        self._device = asyncio.Lock()
        self._stop: Callable[[], None] | None = None

    def interrupt(self) -> None:
        """End what is being measured; the next call opens the device anew. Returns at once."""
        with self._opening:
            kept, self._executors = self._executors, None
            stop, self._stop = self._stop, None
        if stop is not None:
            stop()
        if kept is not None:
            threading.Thread(target=kept.close, name="forewarp-close", daemon=True).start()

    def close(self) -> None:
        """End the measuring processes, and wait for their end."""
        with self._opening:
            kept, self._executors = self._executors, None
        if kept is not None:
            kept.close()

    async def forecast(
        self, call: str, *, task: str, kernels: Sequence[Kernel], origin: str = "user"
    ) -> dict[str, Any]:
        """Forecast one kernel, or rank several; returns the `ForecastResult` as data."""
        from forewarp.tools.forecast_kernel import ForecastRequest, forecast_kernel
        from forewarp.tools.steps import forecast_steps

        chosen = [self._inside(k) for k in kernels]
        request = ForecastRequest(
            task=self._task(task),
            place=self._host.settings.place,
            kernel=chosen[0] if len(chosen) == 1 else None,
            kernels=chosen if len(chosen) > 1 else [],
        )
        self._host.emit(Progressed(call, "forecasting"))
        found = await self._aside(lambda executors: forecast_kernel(request, executors=executors))
        parent = self._parent(found) if len(chosen) == 1 else ""
        for step in forecast_steps(found, [_text(k) for k in chosen], origin, parent=parent):
            self._host.emit(step)
        return found.model_dump(mode="json")

    async def measure(
        self, call: str, *, task: str, kernel: Kernel, insist: str = "", origin: str = "user"
    ) -> dict[str, Any]:
        """Forecast a kernel and, unless that speaks against it, measure it; returns a `Considered` as data.

        `insist` says why to measure what the forecast advises to skip.
        """
        from forewarp.tools.considered import consider
        from forewarp.tools.measure_kernel import MeasureRequest
        from forewarp.tools.steps import CandidateForecast, forecast_steps, measure_step

        kernel = self._inside(kernel)
        request = MeasureRequest(task=self._task(task), kernel=kernel, place=self._host.settings.place)
        expected, begun = list[CandidateForecast](), list[str]()
        loop, left = asyncio.get_running_loop(), asyncio.Event()

        def forecast(found: ForecastResult) -> None:
            expected.extend(forecast_steps(found, [_text(kernel)], origin, parent=self._parent(found)))
            self._host.emit(expected[0])

        def allow(found: ForecastResult) -> str:
            name = kernel.path or f"kernel {found.kernel.short}"
            return _waiting(loop, asked(f"measure {name} for {task}", found.reason))

        async def asked(command: str, reason: str) -> str:
            # The thread may outlive the wait for it; a question that it asks then would never be answered.
            if left.is_set():
                return "it was interrupted"
            return await self._allowed(call, "measure_kernel", command, reason, 1)

        def stage(name: str) -> None:
            begun.append(name)
            self._host.emit(Progressed(call, name))

        if self._device.locked():
            stage("waiting for the device")
        async with self._device:
            try:
                done = await self._aside(
                    lambda executors: consider(
                        request, insist=insist, forecast=forecast, allow=allow, stage=stage, executors=executors
                    )
                )
            except BaseException:
                left.set()
                if "measuring" in begun:
                    self._host.spend(measurements=1)  # announced in the archive, and the device was held
                raise
        if done.measured is not None and done.measured.measurement_id is not None:
            self._host.spend(measurements=1, device_s=done.measured.cost.device_s)
            self._host.emit(measure_step(done.measured, expected[0] if expected else None))
        return done.model_dump(mode="json")

    async def search(
        self, call: str, *, task: str, budget: int, seed_kernels: Sequence[str] = (), write: bool = False
    ) -> dict[str, Any]:
        """Search under a budget of measurements; with `write`, the conversation's model writes kernels in it, too.

        Returns the `SearchResult` as data.
        """
        from forewarp.tools.search import SearchRequest

        settings = self._host.settings
        budget = min(max(1, budget), MAX_SEARCH)
        request = SearchRequest(
            task=self._task(task),
            place=settings.place,
            budget=self._left(budget),
            seed_kernels=[str(self.inside(p)) for p in seed_kernels],
            model=settings.model if write and isinstance(settings.model, str) else None,
            base_url=settings.base_url if write else None,
        )
        refused = await self._allowed(call, "search", f"search {task} with up to {budget} measurements", "", budget)
        if refused:
            raise UsageError(f"the search was not started: {refused}")
        async with self._device:
            return await self._aside(lambda executors: self._searched(call, request, budget, executors))

    def _searched(self, call: str, request: SearchRequest, budget: int, executors: Executors) -> dict[str, Any]:
        """Run a search in this thread; each measurement is counted as it comes, so that an interrupt loses none."""
        from forewarp.tools.search import Own, open_search
        from forewarp.tools.steps import CandidateMeasured, RunSteps

        with open_search(request, Own(executors=executors)) as job:
            self._stop = job.stop
            steps, booked = RunSteps(job.archive), job.spend()

            def book() -> int:
                nonlocal booked
                before, booked = booked, job.spend()
                self._host.spend(
                    measurements=booked.measurements - before.measurements,
                    device_s=booked.device_s - before.device_s,
                    tokens=booked.tokens - before.tokens,
                    dollars=booked.dollars - before.dollars,
                )
                return booked.measurements

            try:
                for event in job.events():
                    step = steps.of(event)
                    if step is not None:
                        self._host.emit(step)
                    if isinstance(step, CandidateMeasured):
                        self._host.emit(Progressed(call, f"run {job.run_id}: {book()} of {budget} measured"))
            finally:
                self._stop = None
                book()
            return job.result().model_dump(mode="json")

    async def describe(self, task: str) -> dict[str, Any]:
        """Return a task's `TaskFacts` as data: reference, shapes, tolerance, and seed kernels by language."""
        from forewarp.tools.describe import task_of

        found = await asyncio.to_thread(task_of, self._task(task), self._host.settings.place)
        return {"summary": f"{found.name}: {found.title}", **found.model_dump(mode="json")}

    def inside(self, path: str) -> Path:
        """Return a path of the working folder; raises `UsageError` for one outside of it and for one with secrets."""
        return readable_file(self._host.settings.folder, path)

    async def _aside(self, what: Callable[[Executors], T]) -> T:
        """Run `what` in a thread with the open devices; cancelling ends the wait, `interrupt` ends the work."""
        return await asyncio.to_thread(lambda: what(self._opened()))

    def _opened(self) -> Executors:
        from forewarp.tools.session import Executors

        with self._opening:
            self._executors = self._executors or Executors()
            return self._executors

    async def _allowed(self, call: str, tool: str, command: str, reason: str, measurements: int) -> str:
        """Return why something may not be measured, "" if it may; asks the user where the settings say so."""
        settings, spent = self._host.settings, self._host.spent
        over = over_budget(settings.budget, spent, measurements)
        if over and settings.approval == "never":
            return f"{over}; `/budget` raises it"
        if settings.approval == "never" or (settings.approval == "budget" and not over):
            return ""
        said = " ".join(part for part in (reason, f"({over})" if over else "") if part)
        given = await self._host.ask(ApprovalAsked(call, tool, command, said))
        return "" if given.reply != "no" else f"the user said no{f': {given.why}' if given.why else ''}"

    def _left(self, measurements: int) -> Amounts:
        """Return the part of the conversation's budget that a run may spend."""
        cap, spent = self._host.settings.budget, self._host.spent
        return Amounts(
            measurements=measurements,
            device_s=None if cap.device_s is None else max(0.1, cap.device_s - spent.device_s),
        )

    def _parent(self, found: ForecastResult) -> str:
        """Return the kernel that a new one was probably made from: the best of its task so far."""
        best = self._host.board.best(found.task)
        return best.forecast.kernel if best and best.forecast.kernel != found.kernel.sha256 else ""

    def _task(self, name_or_path: str) -> str:
        if not (self._host.settings.folder / name_or_path).exists():
            return name_or_path
        path = self.inside(name_or_path)
        refuse_task_secrets(self._host.settings.folder, path)
        return str(path)

    def _inside(self, kernel: Kernel) -> Kernel:
        return kernel.model_copy(update={"path": str(self.inside(kernel.path))}) if kernel.path else kernel


def over_budget(cap: Amounts, spent: Spent, measurements: int = 0) -> str:
    """Return in words the cap that so many more measurements would exceed; "" if none."""
    if cap.measurements is not None and spent.measurements + measurements > cap.measurements:
        return (
            f"the budget of {cap.measurements} measurements is {'spent' if measurements <= 1 else 'too small for it'}"
        )
    if cap.device_s is not None and spent.device_s >= cap.device_s:
        return f"the budget of {cap.device_s:g} device seconds is spent"
    if cap.dollars is not None and (spent.dollars or 0.0) >= cap.dollars:
        return f"the budget of ${cap.dollars:g} is spent"
    if cap.tokens is not None and spent.input_tokens + spent.output_tokens >= cap.tokens:
        return f"the budget of {cap.tokens} tokens is spent"
    return ""


def _waiting(loop: asyncio.AbstractEventLoop, what: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the event loop from another thread, and wait for its result."""
    return asyncio.run_coroutine_threadsafe(what, loop).result()


def _text(kernel: Kernel) -> str:
    if kernel.source is not None:
        return kernel.source
    try:
        return Path(kernel.path or "").read_text(errors="replace")
    except OSError as e:
        raise CandidateError(f"{kernel.path} cannot be read: {e.strerror}") from None
