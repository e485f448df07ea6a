"""Forecast, measure and search for a conversation: forecast first, then approval and budget, all of it as events."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from forewarp.agent.base import BaseConversation, Caller
from forewarp.agent.events import ApprovalAsked, Progressed
from forewarp.agent.files import readable_file, refuse_task_secrets, shown
from forewarp.agent.settings import over_budget
from forewarp.core.errors import CandidateError, UsageError
from forewarp.tools.parts import Amounts, Kernel, Place
from forewarp.tools.wording import counted

if TYPE_CHECKING:
    from forewarp.tools.considered import Considered
    from forewarp.tools.forecast_kernel import ForecastResult
    from forewarp.tools.inspect_kernel import InspectResult
    from forewarp.tools.long_verbs import LongRequest
    from forewarp.tools.run_report import SearchResult
    from forewarp.tools.search import SearchRequest
    from forewarp.tools.session import Executors
    from forewarp.tools.signals import Stoppable
    from forewarp.tools.tune import TuneResult

T = TypeVar("T")

MAX_SEARCH = 200


class KernelTools:
    """Forecast, measure and search on one device, for model and user."""

    def __init__(self, conversation: BaseConversation) -> None:
        self._conversation = conversation
        self._executors: Executors | None = None
        self._opening = threading.Lock()
        self._device = asyncio.Lock()
        self._stop: Callable[[], None] | None = None

    def interrupt(self) -> None:
        """End what is being measured; the next call opens the device anew. Returns at once."""
        with self._opening:
            executors, self._executors = self._executors, None
            stop, self._stop = self._stop, None
        if stop is not None:
            stop()
        if executors is not None:
            threading.Thread(target=executors.close, name="forewarp-close", daemon=True).start()

    def close(self) -> None:
        with self._opening:
            executors, self._executors = self._executors, None
        if executors is not None:
            executors.close()

    async def forecast_kernel(
        self, caller: Caller, *, task: str, kernels: Sequence[Kernel], target: str = ""
    ) -> ForecastResult:
        """Forecast one kernel, or rank several; `target` names a card that need not be here."""
        from forewarp.tools.forecast_kernel import ForecastRequest, forecast_kernel
        from forewarp.tools.steps import forecast_steps

        kernels = [self._inside(k) for k in kernels]
        place = self._conversation.settings.place
        request = ForecastRequest(
            task=self._task(task),
            place=place.model_copy(update={"device": "auto", "pool": None}) if target else place,
            target=target or None,
            kernels=kernels,
        )
        self._conversation.emit(Progressed(caller.id, "forecasting"))
        result = await self._in_thread(lambda executors: forecast_kernel(request, executors=executors))
        parent = self._parent(result) if len(kernels) == 1 else ""
        for step in forecast_steps(result, [(_text(k), _title(k)) for k in kernels], caller.by, parent=parent):
            self._conversation.emit(step)
        return result

    async def measure_kernel(self, caller: Caller, *, task: str, kernel: Kernel, insist: str = "") -> Considered:
        """Forecast a kernel and, unless that speaks against it, measure it.

        `insist` says why to measure what the forecast advises to skip.
        """
        from forewarp.tools.considered import consider
        from forewarp.tools.measure_kernel import MeasureRequest
        from forewarp.tools.steps import CandidateForecast, forecast_steps, measure_step

        host = self._conversation
        kernel = self._inside(kernel)
        name = shown(host.settings.folder, Path(kernel.path)) if kernel.path else ""
        request = MeasureRequest(task=self._task(task), kernel=kernel, place=host.settings.place)
        steps, began = list[CandidateForecast](), list[float]()
        loop, left = asyncio.get_running_loop(), asyncio.Event()

        def forecast(result: ForecastResult) -> None:
            texts = [(_text(kernel), _title(kernel))]
            steps.extend(forecast_steps(result, texts, caller.by, parent=self._parent(result)))
            host.emit(steps[0])

        def allow(result: ForecastResult) -> str:
            return asyncio.run_coroutine_threadsafe(ask(result), loop).result()

        async def ask(result: ForecastResult) -> str:
            # The thread may outlive the wait for it; a question that it asks then would never be answered.
            if left.is_set():
                return "it was interrupted"
            row = host.candidates.of(steps[0])
            command = f"measure {name or (f'#{row.number}' if row else f'kernel {result.kernel.short}')} for {task}"
            return await self._refusal(caller, "measure_kernel", command, result.reason, 1)

        def stage(name: str) -> None:
            if name == "measuring" and request.place.device != "replay":
                began.append(time.monotonic())
            host.emit(Progressed(caller.id, name))

        if self._device.locked():
            stage("waiting for the device")
        async with self._device:
            try:
                done = await self._in_thread(
                    lambda executors: consider(
                        request, insist=insist, forecast=forecast, allow=allow, stage=stage, executors=executors
                    )
                )
            except BaseException:
                left.set()
                if began:  # it told nothing, so that it counts as none; but it held the device
                    host.spend(device_s=time.monotonic() - began[0])
                raise
        if done.measured is not None and done.measured.measurement_id is not None:
            host.spend(measurements=1, device_s=done.measured.cost.device_s)
            host.emit(measure_step(done.measured, steps[0] if steps else None))
        return done

    async def inspect_kernel(
        self, caller: Caller, *, task: str, kernel: Kernel, target: str = "", check: bool = False
    ) -> InspectResult:
        """Compile a kernel for a card that need not be here, and return its facts.

        With `check` it also runs on the CPU at small shapes, and is compared with the reference.
        """
        from forewarp.tools.inspect_kernel import inspect_kernels
        from forewarp.tools.requests import InspectRequest

        host = self._conversation
        request = InspectRequest(
            task=self._task(task),
            kernels=[self._inside(kernel)],
            target=target or "auto",
            check=check,
            python=host.settings.place.python,
        )
        return await asyncio.to_thread(inspect_kernels, request, stage=self._stage(caller))

    async def search(
        self,
        caller: Caller,
        *,
        task: str,
        budget: int,
        seed_kernels: Sequence[str] = (),
        write: bool = False,
        place: Place | None = None,
    ) -> SearchResult | TuneResult:
        """Search under a budget of measurements, or tune a file with autotuned kernels.

        With `write`, the conversation's model writes kernels in it, too. `place` is another one than the
        conversation's; what is measured there does not count in its budget.
        """
        from forewarp.tools.search import SearchRequest
        from forewarp.tools.tune import is_autotuned

        if await asyncio.to_thread(is_autotuned, Path(self._task(task))):
            return await self.tune(caller, path=task, budget=budget)
        settings, spent = self._conversation.settings, self._conversation.spent
        budget = min(max(1, budget), MAX_SEARCH)
        device_s = settings.budget.device_s
        left = None if device_s is None else max(0.1, device_s - spent.device_s)
        request = SearchRequest(
            task=self._task(task),
            place=place or settings.place,
            budget=Amounts(measurements=budget, device_s=left if place is None else None),
            seed_kernels=[str(self.inside(p)) for p in seed_kernels],
            model=settings.model if write and isinstance(settings.model, str) else None,
            base_url=settings.base_url if write else None,
        )
        command = f"search {task} with up to {counted(budget, 'measurement')}"
        if place is None and (refusal := await self._refusal(caller, "search", command, "", budget)):
            raise UsageError(f"the search was not started: {refusal}")
        async with self._device:
            return await self._in_thread(
                lambda executors: self._search(caller, request, budget, executors, counts=place is None)
            )

    async def tune(self, caller: Caller, *, path: str, budget: int, target: str = "") -> TuneResult:
        """Choose configurations of a file's autotuned kernels: measured where the card is here, else forecast."""
        from forewarp.tools.requests import TuneRequest
        from forewarp.tools.tune import TuneJob, can_measure

        host = self._conversation
        here = not target and host.settings.place.device in ("auto", "cuda") and await asyncio.to_thread(can_measure)
        request = TuneRequest(
            file=str(self.inside(path)),
            target=target or "auto",
            budget=budget if here else 0,
            python=host.settings.place.python,
        )
        if here:
            command = f"tune {path} with up to {counted(budget, 'configuration')} measured"
            if refusal := await self._refusal(caller, "tune", command, "", budget):
                raise UsageError(f"nothing was measured: {refusal}")
        else:
            request = request.model_copy(update={"measure": 0})
        job = await asyncio.to_thread(TuneJob, request, stage=self._stage(caller))

        def tune() -> TuneResult:
            try:
                return job.run()
            finally:
                self._stop = None
                host.spend(measurements=job.measured, device_s=job.device_s)

        async with self._device:
            self._stop = job.stop
            return await asyncio.to_thread(tune)

    async def run_verb(
        self, caller: Caller, verb: LongRequest, *, spends: int = 0, folder: Path | None = None
    ) -> dict[str, Any]:
        """Do a verb on a whole model or a lock, which may take `spends` measurements; returns its result in short.

        `folder` is that of a model's search.
        """
        from forewarp.tools.long_verbs import run_verb, spent_by, told

        host, name = self._conversation, type(verb).__name__.removesuffix("Request")
        command = f"{name} with up to {counted(spends, 'measurement')}"
        if spends and (refusal := await self._refusal(caller, "run_verb", command, "", spends)):
            raise UsageError(f"nothing was begun: {refusal}")

        def began(work: Stoppable) -> None:
            self._stop = work.stop

        stage = self._stage(caller)
        async with self._device:
            try:
                found = await self._in_thread(
                    lambda executors: run_verb(verb, folder=folder, stage=stage, began=began, executors=executors)
                )
            finally:
                self._stop = None
        spent = spent_by(found)
        host.spend(measurements=spent.measurements or 0, device_s=spent.device_s or 0.0)
        return told(found) | ({"budget": self.budget()} if spends else {})

    def budget(self) -> str:
        """Say how much of the user's budget is spent."""
        cap, spent = self._conversation.settings.budget.measurements, self._conversation.spent.measurements
        said = counted(spent, "measurement") if cap is None else f"{spent} of {counted(cap, 'measurement')}"
        return f"{said} spent"

    def _search(
        self, caller: Caller, request: SearchRequest, budget: int, executors: Executors, *, counts: bool
    ) -> SearchResult:
        """Run a search in this thread; each measurement is counted as it comes, so that an interrupt loses none."""
        from forewarp.tools.search import Own, open_search
        from forewarp.tools.steps import CandidateMeasured, RunSteps

        with open_search(request, Own(executors=executors)) as job:
            self._stop = job.stop
            steps, booked = RunSteps(job.archive), job.spend()

            def book() -> int:
                nonlocal booked
                before, booked = booked, job.spend()
                if counts:
                    self._conversation.spend(
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
                        self._conversation.emit(step)
                    if isinstance(step, CandidateMeasured):
                        progress = f"run {job.run_id}: {book()} of {budget} measured"
                        self._conversation.emit(Progressed(caller.id, progress))
            finally:
                self._stop = None
                book()
            return job.result()

    async def describe(self, task: str) -> dict[str, Any]:
        """Return a task's `TaskFacts` as data, with what it passes to a kernel, and a kernel to begin with.

        Its reference runs, confined.
        """
        from forewarp.tools.interface import task_interface

        name, place = self._task(task), self._conversation.settings.place
        found = await self._in_thread(lambda executors: task_interface(name, place, None, executors))
        facts = found.facts
        title = f": {facts.title}" if facts.title != facts.name else ""
        problem = f"; what it passes to a kernel is not known: {found.problem}" if found.problem else ""
        data = facts.model_dump(mode="json") | found.model_dump(mode="json", include={"interface"})
        start = found.start.model_dump() if found.start and not facts.seeds else None
        shapes = {shape: text for shape, text in facts.shapes.items() if text}
        return data | {"summary": f"{facts.name}{title}{problem}", "shapes": shapes, "start": start}

    def inside(self, path: str) -> Path:
        """Return a path of the working folder; raises `UsageError` for one outside of it and for one with secrets."""
        return readable_file(self._conversation.settings.folder, path)

    async def _in_thread(self, work: Callable[[Executors], T]) -> T:
        """Run `work` in a thread with the open devices; cancelling ends the wait, `interrupt` ends the work."""

        def run() -> T:
            from forewarp.tools.session import Executors

            with self._opening:
                executors = self._executors = self._executors or Executors()
            return work(executors)

        return await asyncio.to_thread(run)

    def _stage(self, caller: Caller) -> Callable[[str], None]:
        return lambda said: self._conversation.emit(Progressed(caller.id, said))

    async def _refusal(self, caller: Caller, tool: str, command: str, reason: str, measurements: int) -> str:
        """Return why something may not be measured, "" if it may; asks the user where the settings say so."""
        settings = self._conversation.settings
        over = over_budget(settings.budget, self._conversation.spent, measurements)
        if settings.approval == "never":
            return f"{over}; `/budget` raises it" if over else ""
        if not over and (settings.approval == "budget" or caller.by == "user"):
            return ""
        reasons = " ".join(part for part in (reason, f"({over})" if over else "") if part)
        return (await self._conversation.ask(ApprovalAsked(caller.id, tool, command, reasons))).refusal

    def _parent(self, result: ForecastResult) -> str:
        """Return the kernel that a new one was probably made from: the best of its task so far."""
        best = self._conversation.candidates.best(result.task)
        return best.forecast.kernel if best and best.forecast.kernel != result.kernel.sha256 else ""

    def _task(self, name_or_path: str) -> str:
        folder = self._conversation.settings.folder
        if not (folder / name_or_path).exists():
            return name_or_path
        path = self.inside(name_or_path)
        refuse_task_secrets(folder, path)
        return str(path)

    def _inside(self, kernel: Kernel) -> Kernel:
        return kernel.model_copy(update={"path": str(self.inside(kernel.path))}) if kernel.path else kernel


def _text(kernel: Kernel) -> str:
    if kernel.source is not None:
        return kernel.source
    try:
        return Path(kernel.path or "").read_text(errors="replace")
    except OSError as e:
        raise CandidateError(f"{kernel.path} cannot be read: {e.strerror}") from None


def _title(kernel: Kernel) -> str:
    """Return what to call a kernel in a table: its file, else the first line of its text where that is a comment."""
    if kernel.path:
        return Path(kernel.path).name
    comment = re.match(r'\s*(?:"""|//|#\s)\s*(?!forewarp)(.*?)\.?\s*(?:"""|$)', kernel.source or "", re.MULTILINE)
    return comment[1] if comment else ""
