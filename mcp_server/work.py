"""The bodies of the tools; imported when the first one is called, because the engine takes a second to load."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from forewarp.core.budget import DEFAULT_MEASUREMENTS, OPEN, Budget, Spend
from forewarp.core.errors import DeviceError, UsageError, WorkerError
from forewarp.core.values import AskedGradients, Language
from forewarp.mcp_server.answers import (
    LIMIT_BYTES,
    POLL_S,
    CallProgress,
    Described,
    Detail,
    ForecastAnswer,
    InspectAnswer,
    MeasureAnswer,
    SearchAnswer,
    TaskAnswer,
    ToolAnswer,
    ValidateAnswer,
    VerbAnswer,
    filled,
    forecast_answer,
    inspect_answer,
    measure_answer,
    search_answer,
    size,
    validate_answer,
)
from forewarp.mcp_server.arguments import Requests
from forewarp.mcp_server.budget import PUBLIC, ClientBudget
from forewarp.mcp_server.jobs import Jobs
from forewarp.mcp_server.options import ServerOptions
from forewarp.mcp_server.spool import SpooledJob
from forewarp.mcp_server.verb_jobs import finished_verb, verb_request
from forewarp.tools import describe, runs
from forewarp.tools.forecast_kernel import forecast_kernel
from forewarp.tools.inspect_kernel import inspect_kernels, short_name
from forewarp.tools.interface import TaskInterface, example_of, format_of, rules_of, task_interface
from forewarp.tools.make_task import make_task
from forewarp.tools.parts import Amounts
from forewarp.tools.plan_proposal import proposing_plan
from forewarp.tools.requests import (
    ForecastRequest,
    InspectRequest,
    MeasureRequest,
    ResumeRequest,
    SearchRequest,
    TaskCall,
    TuneRequest,
    ValidateRequest,
)
from forewarp.tools.session import Executors, check_price, make_model
from forewarp.tools.tune import is_autotuned
from forewarp.tools.validate_task import ValidateResult, validate_task
from forewarp.tools.wording import counted

MEASURE_LIMIT_S = 120.0
START_S = 30.0
TUNE_S, TUNE_WAIT_S = 25.0, 12.0
"""Seconds after which a file's configurations are no longer compiled, and after which a client gets a handle."""
VALIDATE_S = 40.0
"""Longest wait for a validation before the client is asked to call again."""
FORECAST_COMPILE_S = 20.0
"""Most seconds that compiling a kernel may take for a forecast; a measurement waits longer."""


class Work:
    """State that the server keeps between calls."""

    def __init__(self, options: ServerOptions) -> None:
        self.options = options
        self.jobs = Jobs(options)
        self.budget = ClientBudget(options, self.jobs.spool)
        self.requests = Requests(options)
        self._executors = Executors(compile_s=FORECAST_COMPILE_S)
        self._compiling = threading.BoundedSemaphore(2)
        self._idle: list[Executors] = []
        self._calls: dict[CallProgress, Executors | None] = {}
        """Calls that compile, or wait to, with what they compile by."""
        self._lending = threading.Lock()
        self._starting = threading.Lock()
        self._validating = ThreadPoolExecutor(1, "validation")
        self._validations: dict[str, Future[ValidateResult]] = {}
        self.jobs.spool.prune()

    def close(self) -> None:
        """End what only this server uses; measurements and runs go on."""
        with self._lending:
            lent = [found for found in self._calls.values() if found is not None]
        for executors in (self._executors, *self._idle, *lent):
            executors.close()
        self.jobs.close()

    @contextmanager
    def _compiler_of(self, call: CallProgress) -> Generator[Executors]:
        """Yield executors that no other call uses, so that `abandon` may end what they do."""
        with self._lending:
            self._calls[call] = None
        with self._compiling:
            with self._lending:
                if call not in self._calls:
                    raise WorkerError("the call was cancelled")
                executors = self._calls[call] = self._idle.pop() if self._idle else Executors(FORECAST_COMPILE_S)
            try:
                yield executors
            finally:
                with self._lending:
                    if self._calls.pop(call, None) is not None:
                        self._idle.append(executors)

    def abandon(self, call: CallProgress) -> None:
        """End what a call compiles, whose client has cancelled it."""
        with self._lending:
            executors = self._calls.pop(call, None)
        if executors is not None:
            executors.close()

    def forecast_kernel(self, session: str, given: Mapping[str, Any], say: CallProgress) -> ForecastAnswer:
        paths: list[str] = given["paths"] or []
        if paths and (given["source"] is not None or given["path"] is not None):
            raise UsageError(
                "source or path together with paths", hint="pass either one kernel, by source or path, or paths"
            )
        kernels = [self.requests.file(p, "paths") for p in paths] or [self.requests.kernel(given)]
        request = self.requests.make(ForecastRequest, given, kernels=kernels)
        if request.target is not None:
            place = request.place.model_copy(update={"device": given["device"] or "auto", "pool": None})
            request = request.model_copy(update={"place": place})
        if request.model is not None:
            self._may_ask(session, request.model)
        with self._compiler_of(say) as executors:
            found = forecast_kernel(request, executors=executors)
        if request.model is not None:
            self._book(session, given["task"], found.cost.dollars, found.cost.input_tokens + found.cost.output_tokens)
        return forecast_answer(found, given["detail"])

    def _may_ask(self, session: str, model: str) -> None:
        for currency in ("dollars", "tokens"):
            if self.budget.left(session, currency) is not None:
                self.budget.grant(session, currency, None)
        if self.budget.left(session, "dollars") is not None and (made := make_model(model, self.options.base_url)):
            check_price(made)

    def _book(self, session: str, task: str, usd: float | None, tokens: int) -> None:
        job = self.jobs.spool.add("forecast", session, task, {})
        self.jobs.spool.write(job.id, "result.json", f'{{"usd": {usd or 0.0}, "tokens": {tokens}}}')

    def inspect_kernel(self, session: str, given: Mapping[str, Any], say: CallProgress) -> InspectAnswer:
        del session
        request = InspectRequest(
            task=self.requests.task(given["task"]),
            kernels=[self.requests.kernel(given)],
            target=given["target"] or "auto",
            check=given["check"],
            python=self.options.place.python,
        )
        with self._compiler_of(say) as executors:
            found = inspect_kernels(request, stage=say, executors=executors)
        return inspect_answer(found, short_name(found.target.name))

    def validate_task(self, session: str, given: Mapping[str, Any], say: CallProgress) -> ValidateAnswer:
        """Validate a task, for as long as a client waits; called again, it goes on waiting for the same validation."""
        del session
        request = self.requests.make(ValidateRequest, given)
        key = request.model_dump_json()
        with self._starting:
            running = self._validations.get(key)
            if running is None:
                executors = self._executors
                running = self._validating.submit(
                    lambda: validate_task(request, stage=lambda text: say(text), executors=executors)
                )
                self._validations[key] = running
        done, _ = wait([running], timeout=VALIDATE_S)
        if not done:
            said = "The task is still being validated; call validate_task with the same arguments again."
            return ValidateAnswer(summary=said, status="running", task=given["task"])
        with self._starting:
            self._validations.pop(key, None)
        return validate_answer(running.result())

    def make_task(self, session: str, given: Mapping[str, Any], say: CallProgress) -> TaskAnswer:
        """Make a task of a function of a file, and write it beside that once its reference has run."""
        del session, say
        call = TaskCall(function=given["function"], args=given["args"], init=given["init"])
        source, name = self.requests.files.read(given["path"], "file")[0], f"{Path(given['path']).stem}_{call.function}"
        made = make_task(source, name, call, self.options.place, self._executors)
        path = self.requests.written_task(given["path"], name, made.text)
        return TaskAnswer(
            summary=f"Task {path} calls {call.function} on new random inputs; look at get_inputs() there, then "
            "pass it as task to the other tools.",
            task=path,
            interface=made.interface.model_dump(),
        )

    def begin_measurement(self, session: str, given: Mapping[str, Any]) -> SpooledJob:
        """Put a measurement into the queue; raises `UsageError` where the budget does not allow it."""
        request = self.requests.make(MeasureRequest, given, kernel=self.requests.kernel(given))
        with self.budget.deciding():
            self.budget.grant(session, "measurements", 1.0)
            left = self.budget.grant(session, "device_s", None)
            reserved = Budget(1, None if left is None else min(left, MEASURE_LIMIT_S))
            return self.jobs.submit(session, given["task"], request.model_dump(mode="json"), reserved)

    def measurement(self, job: SpooledJob, detail: Detail, wait_s: float, say: CallProgress) -> MeasureAnswer:
        """Return a measurement's result, or its state after `wait_s` seconds."""
        self.jobs.await_measurement(job, wait_s, say)
        found = self.jobs.measured(job)
        if found is not None:
            log = self.jobs.spool.read(job.id, "log.txt") or ""
            return measure_answer(job.id, found, detail, log, self.budget.left(job.session, "measurements"))
        state = self.jobs.spool.state(job.id)
        again = f"call search_status with run_id {job.id} for the result"
        ahead = self.jobs.spool.ahead(job) if state == "queued" else None
        stage = self.jobs.spool.read(job.id, "stage") or "starting the device"
        said = {
            "queued": f"Waiting for the device, {ahead} ahead; {again}.",
            "running": f"Not done after {time.time() - job.created:.0f} s ({stage}); it goes on: {again}.",
            "cancelled": "Cancelled; nothing was kept.",
            "lost": "The measuring process was lost before there was a result; call measure_kernel again.",
        }.get(state, f"It ended just now; {again}.")
        waiting = state not in ("cancelled", "lost")
        return MeasureAnswer(
            summary=said,
            run_id=job.id,
            status=state,
            poll_after_s=POLL_S if waiting else None,
            ahead=ahead,
            task=job.task,
        )

    def search(self, session: str, given: Mapping[str, Any], say: CallProgress) -> ToolAnswer:
        """Start a run and return its first state; of an autotuned file, its configurations if they come in time."""
        file = Path(self.requests.task(given["task"]))
        if file.suffix == ".py" and is_autotuned(file):
            seconds = given["deadline_s"] or TUNE_S
            tuning = TuneRequest(file=str(file), measure=0, deadline_s=seconds, target=given["target"] or "auto")
            job = self.jobs.start("verb", session, "tune", tuning, OPEN)
            return self.verb(job, min(TUNE_WAIT_S, seconds), say)
        if given["target"] is not None:
            raise UsageError(
                f"{given['task']} is no autotuned file, and a search measures on the device that is here",
                hint="leave target out; forecast_kernel and inspect_kernel take one",
            )
        with proposing_plan(str(file), self.options.place, self._executors):
            seeds = [str(self.requests.seed(p)) for p in given["seed_kernels"] or ()]
        request = self.requests.make(SearchRequest, given, seed_kernels=seeds, budget=Amounts())
        with self.budget.deciding():
            self._check_room()
            caps = self._caps(session, given, asks=request.model is not None)
            place = request.place
            pool = place.pool if place.device == "replay" else None
            place = place.model_copy(update={"archive": str(runs.archive_path(place)), "pool": pool})
            budget = Amounts.of(replace(caps, wall_s=given["deadline_s"]))
            request = request.model_copy(update={"place": place, "budget": budget})
            job = self.jobs.start("search", session, given["task"], request, caps)
        say("starting the run")
        return self.run_of(job, given["detail"], START_S, 0.0, say)

    def _check_room(self) -> None:
        """Raise `UsageError` where as many runs go on as may at a time."""
        live = self.jobs.searching()
        if len(live) >= self.options.max_searches:
            ids = ", ".join(self.jobs.spool.run(j.id) or j.id for j in live)
            raise UsageError(
                f"{len(live)} runs go on already ({ids}); at most {self.options.max_searches} may at a time",
                hint="wait for one with search_status, or end one with search_cancel",
            )

    def search_resume(self, session: str, given: Mapping[str, Any], say: CallProgress) -> ToolAnswer:
        """Take up a run, or a verb's job, and return its state."""
        run_id = given["run_id"]
        if run_id.startswith("v-"):
            return self._verb_again(session, self.jobs.spool.job(run_id), say)
        if run_id.startswith("s-"):
            job = self.jobs.spool.job(run_id)
            became = self.jobs.spool.run(run_id) or job.request.get("run_id")
            if became is None:
                return self._search_again(session, job, given["model"], say)
            run_id = became
        seen = runs.glance(self.options.place, run_id)
        if seen.run_id != run_id or not seen.ended or seen.status == "finished":
            why = {"finished": "is finished", "running": "goes on"}.get(seen.status, "is meant")
            raise UsageError(
                f"run {seen.run_id} {why}",
                hint="pass the whole run_id of one that was cancelled, interrupted or lost; search starts another",
            )
        model = self.requests.model(given["model"])
        request = ResumeRequest(
            run_id=seen.run_id,
            place=self.options.place.model_copy(update={"archive": str(runs.archive_path(self.options.place))}),
            model=model,
            base_url=self.options.base_url if model else None,
        )
        return self._taken_up(session, seen.task, request, seen.budget, seen.spent, say)

    def _search_again(self, session: str, job: SpooledJob, model: str | None, say: CallProgress) -> SearchAnswer:
        """Start a search anew that ended before it had a run."""
        if self.jobs.spool.state(job.id) == "running":
            raise UsageError(f"{job.id} still starts", hint=f"call search_status with run_id {job.id}")
        request = SearchRequest.model_validate(job.request)
        if model is not None:
            update = {"model": self.requests.model(model), "base_url": self.options.base_url}
            request = request.model_copy(update=update)
        return self._taken_up(session, job.task, request, job.reserved, Spend(), say)

    def _taken_up(
        self,
        session: str,
        task: str,
        request: SearchRequest | ResumeRequest,
        budget: Budget,
        spent: Spend,
        say: CallProgress,
    ) -> SearchAnswer:
        """Start a search, or go on with one, if what is left of its budget is left of the session's."""
        with self.budget.deciding():
            self._check_room()
            for currency in budget.caps:
                if currency in PUBLIC and self.budget.left(session, currency) is not None:
                    self.budget.grant(session, currency, budget.left(currency, spent))
            job = self.jobs.start("search", session, task, request, budget)
        say("starting the run")
        return self.run_of(job, "concise", START_S, 0.0, say)

    def run_verb(self, session: str, given: Mapping[str, Any], say: CallProgress) -> ToolAnswer:
        verb, measures = given["verb"], given["verb"] in ("optimize", "apply", "gate_lock", "gate_check")
        with self.budget.deciding():
            self._check_room()
            each = len(given["kernels"] or ())
            wanted = {"apply": each + 2, "gate_lock": each or None}.get(verb, given["budget"])
            open_caps = dict.fromkeys(("max_gpu_seconds", "max_usd", "max_tokens"))
            caps = self._caps(session, open_caps | {"budget": wanted}, asks=False) if measures else OPEN
            budget = Amounts.of(replace(caps, wall_s=given["deadline_s"]))
            request = verb_request(given, self.requests, self.jobs.home, budget)
            job = self.jobs.start("verb", session, verb, request, caps)
        return self.verb(job, VALIDATE_S if given["wait_s"] is None else given["wait_s"], say)

    def verb(self, job: SpooledJob, wait_s: float, say: CallProgress) -> ToolAnswer:
        """Return the state of a verb's job, after up to `wait_s` seconds if it goes on."""
        state = self.jobs.await_verb(job, wait_s, say)
        stage = self.jobs.spool.read(job.id, "stage") or "starting"
        if state == "finished":
            result = (self.jobs.spool.document(job.id, "result.json") or {})["result"]
            return finished_verb(job, result, self.requests)
        said = {
            "running": f"Not done yet ({stage}); call search_status with run_id {job.id}.",
            "cancelled": f"Cancelled; search_resume with run_id {job.id} takes it up.",
        }.get(state, f"Its process is gone; search_resume with run_id {job.id} takes it up.")
        poll_s = POLL_S if state == "running" else None
        return VerbAnswer(summary=said, run_id=job.id, status=state, poll_after_s=poll_s, task=job.task)

    def _verb_again(self, session: str, job: SpooledJob, say: CallProgress) -> ToolAnswer:
        with self.budget.deciding():
            self._check_room()
            state = self.jobs.spool.state(job.id)
            if state not in ("cancelled", "lost") or job.session != session:
                raise UsageError(f"{job.id} is {state}, or another session's", hint="call run_verb for a new one")
            self.jobs.restart(job)
        return self.verb(job, START_S, say)

    def _caps(self, session: str, given: Mapping[str, Any], *, asks: bool) -> Budget:
        """Return what a run may spend of each currency; raises `UsageError` where that is not left."""
        measurements = self.budget.grant(session, "measurements", given["budget"], DEFAULT_MEASUREMENTS)
        device_s = self.budget.grant(session, "device_s", given["max_gpu_seconds"])
        dollars, tokens = given["max_usd"], given["max_tokens"]
        if asks:
            dollars = self.budget.grant(session, "dollars", dollars)
            tokens = self.budget.grant(session, "tokens", tokens)
        tokens = None if tokens is None else int(tokens)
        return Budget(round(measurements or DEFAULT_MEASUREMENTS), device_s, dollars, tokens)

    def run_of(self, job: SpooledJob, detail: Detail, start_s: float, wait_s: float, say: CallProgress) -> SearchAnswer:
        began = time.monotonic()
        run_id = self.jobs.await_id(job, start_s)
        if run_id is not None:
            return self.run(run_id, detail, max(0.0, wait_s - (time.monotonic() - began)), say)
        if self.jobs.spool.state(job.id) == "cancelled":
            said = f"Cancelled before it began; search_resume with run_id {job.id} starts it."
            return SearchAnswer(summary=said, run_id=job.id, status="cancelled", task=job.task)
        return SearchAnswer(
            summary=f"The run still starts; call search_status with run_id {job.id} again.",
            run_id=job.id,
            status="starting",
            poll_after_s=POLL_S,
            task=job.task,
        )

    def run(
        self, run_id: str, detail: Detail, wait_s: float, say: CallProgress, *, written: bool = True
    ) -> SearchAnswer:
        """Return the state of a run, after up to `wait_s` seconds if it goes on."""
        if wait_s > 0:
            self.jobs.await_run(run_id, wait_s, say)
        found, lost = runs.look(self.options.place, run_id)
        run_id = found.run_id
        if found.status != "running" and written:
            self.jobs.written(run_id)
        others = [j for j in self.jobs.searching() if self.jobs.spool.run(j.id) != run_id]
        # Where `forewarp optimize` writes by itself, seen from the folder that it is started in.
        folder = self.jobs.home / "forewarp-runs" / run_id
        return search_answer(found, detail, lost=lost, folder=str(folder), others=len(others))

    def search_status(self, session: str, given: Mapping[str, Any], say: CallProgress) -> ToolAnswer:
        """Return the state behind a handle."""
        del session
        run_id, detail, wait_s = given["run_id"], given["detail"], given["wait_s"]
        if run_id.startswith("m-"):
            return self.measurement(self.jobs.spool.job(run_id), detail, wait_s, say)
        if run_id.startswith("v-"):
            return self.verb(self.jobs.spool.job(run_id), wait_s, say)
        if run_id.startswith("s-"):
            return self.run_of(self.jobs.spool.job(run_id), detail, wait_s, wait_s, say)
        return self.run(run_id, detail, wait_s, say)

    def cancel(self, session: str, run_id: str, say: CallProgress, *, alone: bool) -> ToolAnswer:
        """End the work behind a handle; raises `UsageError` for a part of one, and for another session's.

        `alone` says that there is one session, which may end all work of this archive.
        """
        if run_id.startswith(("m-", "v-", "s-")):
            job = self.jobs.spool.job(run_id)
            self._check_owner(job, session, run_id, alone=alone)
            if job.kind == "measure":
                ended = self.jobs.cancel_measurement(job)
                return _noted(self.measurement(job, "concise", 0.0, say), over=not ended)
            if job.kind == "verb":
                ended = self.jobs.spool.cancel(run_id)
                return _noted(self.verb(job, 0.0, say), over=not ended)
            known = self.jobs.await_id(job, 0.0)
            ended = known is None and self.jobs.spool.cancel(run_id)
            known = self.jobs.spool.run(run_id)  # it may have begun meanwhile
            if known is None:
                return _noted(self.run_of(job, "concise", 0.0, 0.0, say), over=not ended)
            run_id = known
        seen = runs.glance(self.options.place, run_id)
        if seen.run_id != run_id:
            raise UsageError(
                f"{run_id!r} is only the beginning of run {seen.run_id}; nothing was cancelled",
                hint="pass the whole run_id",
            )
        works = (j for j in reversed(self.jobs.spool.jobs()) if self.jobs.spool.run(j.id) == run_id)
        self._check_owner(next(works, None), session, run_id, alone=alone)  # that of the session that took it up last
        over = seen.ended
        if not over:
            runs.cancel(self.options.place, seen.run_id)
        return _noted(self.run(seen.run_id, "concise", 0.0, say, written=False), over=over)

    def _check_owner(self, job: SpooledJob | None, session: str, run_id: str, *, alone: bool) -> None:
        """Raise `UsageError` for work that a session may not end."""
        if not alone and (job is None or job.session != session):
            raise UsageError(
                f"{run_id} was not started by this session, which can only cancel what it started itself",
                hint="search_status shows where it stands; the operator can end it from a server on stdio",
            )

    def describe(self, session: str, given: Mapping[str, Any], say: CallProgress) -> Described:
        """Return the description of a task, or of device, tasks, budget and recent work."""
        del say
        language: Language = given["language"] or describe.languages_at(self.options.place)[0]
        if given["task"] is not None:
            return self._task(given["task"], language, given["gradients"], given["about"])
        if given["about"] == "format" or given["language"]:
            answer = Described(
                summary=f"Candidates in {language}; describe with task and language shows what a task passes.",
                links={"format": f"forewarp://formats/{language}"},
            )
            rules = (format_of(language), example_of(language, rules_of(language)))
            return _fitting(answer.model_copy(update={"format": text}) for text in rules)
        every = {
            "device": self._device,
            "tasks": self._tasks,
            "budget": partial(self._budget, session),
            "recent": self._recent,
        }
        parts = {name: part() for name, part in every.items() if given["about"] in ("all", name)}
        fields: dict[str, Any] = {name: data for name, (data, _) in parts.items()}
        links = {"runs": "forewarp://runs"} if "recent" in parts else {}
        return Described(summary=" ".join(text for _, text in parts.values()), links=links, **fields)

    def interface(self, task: str) -> TaskInterface:
        """Return what a task passes to a kernel, and a kernel to begin with."""
        return task_interface(self.requests.task(task), self.options.place, None, self._executors)

    def _task(self, name: str, language: Language, gradients: AskedGradients | None, about: str) -> Described:
        given = self.requests.task(name)
        found = task_interface(given, self.options.place, language, self._executors, gradients, own=False)
        facts, start, advice = found.facts, found.start, found.advice
        if about == "advice":
            return Described(summary=f"Advice for {facts.name} in {language}.", format=advice or "None is known.")
        tuned = facts.seeds if name in describe.bundled_tasks() else ()
        more = f" Tuned kernels in {', '.join(tuned)}: see links." if tuned else ""
        more += ' about "advice" says what is known to help.' if advice else ""
        links = {f"{kind} kernel": f"forewarp://tasks/{facts.name}/seeds/{kind}" for kind in tuned}
        links |= {"format": f"forewarp://formats/{language}", "task": f"forewarp://tasks/{name}"}

        def told(source: str | None, reference: str | None, rules: str) -> Described:
            missing = found.problem or "a kernel to begin with is too long for an answer, see links"
            said = start.note if start and source else f"{missing[:1].upper()}{missing[1:]}."
            said += "" if reference or language == "python" else " The long reference is in its file and in links."
            return Described(
                summary=f"Task {facts.name}: {facts.title}. {counted(len(facts.shapes), 'shape')}. {said}{more}",
                task={"reference": reference, **facts.model_dump(include={"shapes", "tolerance", "gradients"})},
                interface=found.interface and found.interface.model_dump(),
                start={"language": language, "source": source} if source else None,
                format=rules,
                links=links,
            )

        code, rules, source = describe.without_comments(facts.reference), rules_of(language), start and start.source
        computes = describe.without_comments(facts.reference, inputs=False)
        if source and language == "python":  # the module is the reference
            code, source = None, describe.without_comments(source)
        forms = [(source, code, example_of(language, rules)), (source, code, rules), (source, computes, rules)]
        forms += [(source, None, rules), (None, computes, rules), (None, None, rules)]
        return _fitting(told(*form) for form in forms)

    def _tasks(self) -> tuple[dict[str, Any], str]:
        found = describe.bundled_tasks()
        return {**found}, f"{len(found)} bundled tasks; describe with task shows one."

    def _device(self) -> tuple[dict[str, Any], str]:
        place = self.options.place
        try:
            found = describe.device_of(place)
        except DeviceError as e:
            return {"problem": e.message}, f"No device: {e.message}."
        data = found.model_dump(exclude_none=True)
        return data, f"Device {found.device.name} ({found.device.kind}), kernels in {', '.join(found.languages)}."

    def _budget(self, session: str) -> tuple[dict[str, Any], str]:
        lines = self.budget.lines(session)
        if not lines:
            return {"capped": False}, "The operator has set no budget."
        data: dict[str, Any] = {"window_hours": self.options.window}
        for line in lines:
            entry = {"cap": line.cap, "used_or_set_aside": round(line.spent, 3), "left": round(line.left, 3)}
            data.setdefault(line.scope, {})[PUBLIC[line.currency]] = entry
        tight = min(lines, key=lambda line: line.left / line.cap if line.cap else 0.0)
        name = PUBLIC[tight.currency].replace("_", " ")
        return data, f"Left of the {tight.scope}'s {tight.cap:g} {name}: {tight.left:g}."

    def _recent(self) -> tuple[dict[str, Any], str]:
        found = describe.latest_runs(self.options.place, limit=5)
        listed = [
            {"run_id": r.run_id, "task": r.task, "status": r.status, "best": str(r.best) if r.best else None}
            for r in found
        ]
        jobs = [j for j in self.jobs.spool.jobs() if j.kind == "measure"][-5:]
        measured = [{"run_id": j.id, "task": j.task, "status": self.jobs.spool.state(j.id)} for j in reversed(jobs)]
        waiting = sum(m["status"] == "queued" for m in measured)
        text = f"{len(listed)} recent runs, {len(measured)} recent measurements, {waiting} of them waiting."
        return {"runs": listed, "measurements": measured}, text


def _fitting(answers: Iterator[Described]) -> Described:
    """Return the first answer that is no longer than answers may be, else the last; there must be one."""
    answer = next(answers)
    while size(filled(answer)) > LIMIT_BYTES and (shorter := next(answers, None)) is not None:
        answer = shorter
    return answer


def _noted(answer: ToolAnswer, *, over: bool) -> ToolAnswer:
    """Note in the summary that the work had ended before it could be cancelled."""
    return answer.model_copy(update={"summary": f"It was over before. {answer.summary}"}) if over else answer
