"""Jobs of `tuner.py` in confined children of the worker: observe calls, compile configurations, time them.

The file's own code runs here. Observing and compiling need no device: `inspection.tracing` has stand-ins for one.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import os
import shutil
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from forewarp.core.errors import UsageError
from forewarp.core.untrusted_text import one_line
from forewarp.core.values import Target
from forewarp.gpu_runner.compilers.cubin import codes, digest
from forewarp.gpu_runner.worker.channel import Channel
from forewarp.gpu_runner.worker.jobs import watched
from forewarp.gpu_runner.worker.task_confinement import confine_task, job_folder
from forewarp.gpu_runner.worker.tracebacks import format_error
from forewarp.inspection.tracing import masquerade
from forewarp.inspection.tracing.files import arguments, calls, kernels, loading
from forewarp.inspection.tracing.program import differentiate, pretend, run_bounded, use_no_device
from forewarp.inspection.tracing.recorder import Recorder
from forewarp.tuning.catching import Enough, TunedLaunch, catching, key_of, space_of, tuners_of
from forewarp.tuning.jobs import (
    CALLS,
    MISSING,
    CompileShareJob,
    DevicelessJob,
    FileJob,
    KeepTimingsJob,
    NamedLaunch,
    ObserveCallsJob,
    Observed,
    TimeJob,
)
from forewarp.tuning.measuring import Timer, differing_results

MOST_SAID = 400
"""Characters of a problem: an error may print whole tensors."""
CALL_S = 30.0
"""Most seconds of processor time for one call, its inputs included."""
GUESS_S = 10.0
"""The same for a call that nobody named: there are more of them."""
IMPORT, MAIN = "import", "__main__"
"""Calls that are statements of the file: those at its top level, and those under `if __name__ == "__main__"`."""


class NoCall(Exception):
    """The file has no call that launches an autotuned kernel, or none of the name that was given."""


@dataclass(frozen=True, slots=True)
class FileCall:
    """Something that a file can be made to do; `attempt` numbers the guess that its arguments are, if they are one.

    `values` is false where its tensors have shapes only.
    """

    name: str
    do: Callable[[], object]
    attempt: int | None = None
    values: bool = True


def observe(job: ObserveCallsJob, answer: Channel) -> None:
    """Answer with the configuration spaces of the autotuned kernels that the job's calls launch."""
    watched(job.folder, answer, lambda: _observe(job), "file")


def compile_share(job: CompileShareJob, answer: Channel) -> None:
    """Compile configurations of one kernel into the job's folder; answer with what the compiler says of each."""
    watched(job.folder, answer, lambda: _compile(job), "file")


def keep_timings(job: KeepTimingsJob, answer: Channel) -> None:
    """Have Triton keep timings of a launch in the job's folder; answer with why it does not, if so."""
    watched(job.folder, answer, lambda: _keep_timings(job), "file")


def measure(job: TimeJob, answer: Channel) -> None:
    """Time configurations on the GPU; answer with the samples of each, and which change the call's results."""
    guards = confine_task(job_folder(job), "cuda", keep={answer.descriptor}, reads=[*job.reads, *job.compiled])
    for folder in job.compiled:
        with contextlib.suppress(OSError):
            shutil.copytree(folder, os.environ["TRITON_CACHE_DIR"], dirs_exist_ok=True)
    answer.send({"started": True})
    try:
        answer.send(_measured(job) | {"protections": guards})
    except Exception as e:
        answer.send({"status": "failed", "log": format_error(e, 6)[-4000:], "protections": guards})


def _observe(job: ObserveCallsJob) -> dict[str, Any]:
    found: list[Observed] = []
    with contextlib.ExitStack() as stack:
        try:
            file = _File(job, stack, _without_device(job, stack))
            for call, launches in file.launches(job.calls):
                found += [_observed(call, one, more=job.space) for one in launches]
        except NoCall as e:
            return {"status": "failed", "log": str(e), "hint": MISSING if "ModuleNotFoundError" in str(e) else CALLS}
    return {"status": "ok", "log": "", "observed": found, "tuners": file.tuners, "problems": file.problems()}


def _compile(job: CompileShareJob) -> dict[str, Any]:
    until = time.monotonic() + job.compile_s
    facts: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        try:
            launch = _File(job, stack, _without_device(job, stack)).launch(job.launch)[1]
        except NoCall as e:
            return {"status": "ok", "log": "", "facts": {str(place): {"problem": str(e)} for place in job.places}}
        for place in job.places:
            if facts and time.monotonic() > until:
                break
            facts[str(place)] = _compiled(launch, place, job.target)
    return {"status": "ok", "log": "", "facts": facts}


def _keep_timings(job: KeepTimingsJob) -> dict[str, Any]:
    with contextlib.ExitStack() as stack:
        try:
            launch = _File(job, stack, _without_device(job, stack)).launch(job.launch)[1]
        except NoCall as e:
            return {"status": "ok", "log": "", "problem": str(e)}
        problem = launch.keep_timings({launch.configs[place]: ms for place, ms in job.timings})
    return {"status": "ok", "log": "", "problem": problem}


def _compiled(launch: TunedLaunch, place: int, target: Target) -> dict[str, Any]:
    """Compile a configuration into Triton's cache, and return its registers, spilled registers and shared memory."""
    keywords = {k: v for k, v in launch.keywords.items() if k != "warmup"}
    config = launch.configs[place]
    try:
        if config.pre_hook:  # it may set the block shapes of tensor descriptors
            config.pre_hook({**launch.arguments, **keywords, **config.all_kwargs()})
        kernel = launch.tuner.fn.warmup(*launch.positional, **keywords, **config.all_kwargs())
        image = kernel.asm["cubin"]
        code = next(iter(codes(image, target.arch).values()))
    except Exception as e:
        return {"problem": f"{type(e).__name__}: {e}"[:300]}
    facts = {"registers": code.registers, "spills": code.stack_bytes / 4, "shared": int(kernel.metadata.shared)}
    return facts | {"code": digest(image).hex()}


def _measured(job: TimeJob) -> dict[str, Any]:
    call, launch = _File(job, contextlib.ExitStack()).launch(job.launch)
    start = time.monotonic()
    timer = Timer(launch, seed=job.seed)
    timings = [timer.check(place, compare=False) for place in job.places]
    timer.time(timings)
    best = sorted((t for t in timings if not t.problem), key=lambda t: t.seconds)
    compared = differing_results(call.do, launch, [t.place for t in best]) if best else {}
    return {
        "status": "ok",
        "log": "",
        "timings": [
            {"place": t.place, "samples": t.samples, "problem": compared.get(t.place, "") or t.problem} for t in timings
        ],
        "checked": list(compared),
        "seconds": time.monotonic() - start,
    }


def _without_device(job: DevicelessJob, stack: contextlib.ExitStack) -> masquerade.Masquerade:
    """Put stand-ins in the place of a device for as long as the stack is open."""
    folder = Path(job.folder.path)
    use_no_device(folder)
    loading.pretend_programs(folder / "cache" / "bin")
    loading.pretend_locks()
    return pretend(stack, job.target, Recorder(folder), 1)


class _File:
    """The job's file, imported, and the autotuned launches in its calls."""

    def __init__(self, job: FileJob, stack: contextlib.ExitStack, mode: masquerade.Masquerade | None = None) -> None:
        """`mode` stands in for a device while the stack is open; without it kernels are launched on this machine's."""
        self._file, self._space, self._stack, self._mode = job.file, job.space, stack, mode
        self._launching = self._mode is None
        self._until = time.monotonic() + job.seconds
        self._at_import: list[TunedLaunch] = []
        self._in_vain: dict[str, str] = {}
        self._named = False
        self._seen: set[str] = set()
        with catching(self._at_import, launch=self._launching):
            self._loaded = loading.load(self._file, lambda doing, work: self._bounded(doing, work, CALL_S))
        self._text = kernels.read(self._loaded.tree)
        self._wrappers = calls.Wrappers(self._loaded.module, self._loaded.tree, self._text)
        self.tuners = {name: len(tuner.configs) for name, tuner in tuners_of(self._loaded.module).items()}
        self._missing = {name for name, count in self.tuners.items() if count > 1}

    def launches(self, texts: Sequence[str]) -> Generator[tuple[FileCall, list[TunedLaunch]]]:
        """Give the calls that launch autotuned kernels, with the launches: the named ones, or the file's own.

        Of the file's own, so many are done that each of its autotuned kernels is launched; what it does not launch by
        itself is called with guessed arguments. Raises `NoCall` for a name that the file does not have.
        """
        self._named = bool(texts)
        for call in (c for text in texts for c in self._called(text)) if texts else self._own_calls():
            for done, launches in self._observed(call):
                new = [one for one in launches if self._named or one.kernel not in self._seen]
                self._seen |= {one.kernel for one in launches}
                self._missing -= self._seen
                yield done, new
            if self._seen and not self._missing and not self._named:
                return

    def launch(self, named: NamedLaunch) -> tuple[FileCall, TunedLaunch]:
        """Do the call of a launch, and return both."""
        call = next(iter(self._called(named.call, named.attempt)))
        if self._mode is not None and not named.values:
            self._stack.enter_context(masquerade.shapes_only(self._mode))
        launches, problem = self._caught(call, named.kernel)
        found = next((one for one in launches if one.kernel == named.kernel), None)
        if found is None:
            why = problem or "in another process it did, so what it launches depends on what memory held or a clock"
            raise NoCall(f"{call.name} does not launch {named.kernel}: {why}")
        return call, found.widened() if self._space else found

    def problems(self) -> list[str]:
        """Return what hid kernels of the file: nothing, where all of them were launched."""
        if self._seen and not self._missing and not self._named:
            return []
        missing = [f"{name} has several configurations, but was not launched" for name in sorted(self._missing)]
        said = [*self._loaded.problems, *self._in_vain.values()]
        return [*([] if self._named else missing), *(one_line(text)[:MOST_SAID] for text in said)]

    def _observed(self, call: FileCall) -> Generator[tuple[FileCall, list[TunedLaunch]]]:
        """Do a call where no device is: with shapes only, which takes no time, then with values if that misses any."""
        assert self._mode is not None
        seen: set[str] = set()
        problem = ""
        for values in (False, True):
            if values and not (problem and (self._named or self._missing or not seen)):
                return
            with contextlib.nullcontext() if values else masquerade.shapes_only(self._mode):
                launches, problem = self._caught(call)
            launches = [one for one in launches if one.kernel not in seen]
            seen |= {one.kernel for one in launches}
            if launches:
                yield replace(call, values=values), launches
        if problem and not seen:
            self._in_vain.setdefault(_function(call.name), problem)

    def _caught(self, call: FileCall, kernel: str = "") -> tuple[list[TunedLaunch], str]:
        """Do a call; return the autotuned launches until that of `kernel` or the last missing, and the problem."""
        found: list[TunedLaunch] = list(self._at_import) if call.name == IMPORT else []

        def enough(one: TunedLaunch) -> bool:
            wanted = {kernel} if kernel else self._missing
            return not self._launching and bool(wanted) and wanted <= {x.kernel for x in found}

        with catching(found, launch=self._launching, enough=enough):
            problem = self._bounded(call.name, call.do, CALL_S if self._named or kernel else GUESS_S)
        return [one for one in found if len(one.configs) > 1], problem

    def _bounded(self, doing: str, work: Callable[[], object], limit: float) -> str:
        """Run `work` within its time; return what went wrong."""
        limit = min(limit, self._until - time.monotonic())
        if limit <= 0:
            return f"{doing} was left out: the time is over"
        return run_bounded(doing, work, limit, enough=Enough)

    def _own_calls(self) -> Generator[FileCall]:
        """Give what the file does by itself, then its functions with guessed arguments."""
        loaded = self._loaded
        yield FileCall(IMPORT, lambda: None)
        own = calls.of_model(loaded.module)
        if own is not None:
            yield FileCall("ModelNew" if hasattr(loaded.module, "ModelNew") else "Model", own)
        found = calls.own_calls(loaded.module, loaded.tree)
        for name in ("run", "main"):
            function = getattr(loaded.module, name, None)
            if callable(function) and f"{name}()" not in found and not _required(function):
                yield FileCall(f"{name}()", function)
        yield from (FileCall(name, call) for name, call in found.items())
        if loading.has_main(loaded):
            yield from self._called(MAIN)
        tried: set[str] = set()
        while names := [n for n in self._text.reaching(self._missing) if n not in tried]:
            tried.add(names[0])
            yield from self._guessed(names[0])

    def _guessed(self, name: str) -> Generator[FileCall]:
        """Give calls of a function with guessed arguments, until one launches an autotuned kernel."""
        seen = len(self._seen)
        for attempt in range(len(arguments.CALL_ATTEMPTS)):
            call = self._guess(name, attempt)
            if call is None or len(self._seen) > seen:
                return
            yield call

    def _guess(self, name: str, attempt: int) -> FileCall | None:
        made: list[calls.Guess | None] = []
        guess = arguments.CALL_ATTEMPTS[attempt]
        problem = self._bounded(
            f"arguments for {name}", lambda: made.append(self._wrappers.guess(name, guess)), GUESS_S
        )
        if problem:
            self._in_vain.setdefault(name, problem)
        one = made[0] if made else None
        if one is None:
            return None
        with_gradient = "autograd" in self._file.source
        return FileCall(one.name, lambda: _with_gradient(one) if with_gradient else one.call(), attempt)

    def _called(self, text: str, attempt: int | None = None) -> Iterable[FileCall]:
        """Return the calls that a text means: statements of the file, a model, or a function, perhaps with arguments.

        Tensors are named as `float16[1024, 1024]`. A function without arguments that needs some gets guessed ones.
        """
        module = self._loaded.module
        if text == IMPORT:
            return [FileCall(IMPORT, lambda: None)]
        if text == MAIN:
            return [FileCall(MAIN, lambda: loading.run_main(self._loaded, _plainly))]
        if text in ("Model", "ModelNew") and (own := calls.of_model(module)) is not None:
            return [FileCall(text, own)]
        name = _function(text)
        if attempt is not None:
            call = self._guess(name, attempt)
            return [] if call is None else [call]
        function = getattr(module, name, None)
        if not callable(function):
            own = [n.name for n in self._loaded.tree.body if isinstance(n, ast.FunctionDef) and not n.decorator_list]
            known = f"the file has no function {name}; it has {', '.join(own) or 'none'}"
            raise NoCall("; ".join([known, *self._loaded.problems]))
        if "(" not in text and _required(function):
            return self._guessed(name)
        if isinstance(function, type) and issubclass(function, torch.autograd.Function):
            function = function.apply
        try:
            node = ast.parse(text, mode="eval").body
            given = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
            positional = [arguments.value(name, a) for a in given.args]
            named = {str(k.arg): arguments.value(str(k.arg), k.value) for k in given.keywords}
        except (SyntaxError, UsageError) as e:
            raise NoCall(f"{text} cannot be read: {e}") from e

        def do() -> object:
            return function(*map(_made, positional), **{n: _made(v) for n, v in named.items()})

        return [FileCall(text, do)]


def _function(call: str) -> str:
    """Return the name of the function or class that is called."""
    return call.partition("(")[0].removesuffix(".apply")


def _required(function: Callable[..., object]) -> bool:
    """Return whether a function cannot be called without arguments."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters)


def _made(value: Any) -> Any:
    return arguments.make(value) if isinstance(value, arguments.Tensor) else value


def _plainly(doing: str, work: Callable[[], object]) -> str:
    del doing
    work()
    return ""


def _with_gradient(guess: calls.Guess) -> list[Any]:
    """Call with the gradient of what it returns; return the gradients."""
    differentiate(guess.call, guess.values)
    return [v.grad for v in guess.values if isinstance(v, torch.Tensor) and v.grad is not None]


def _observed(call: FileCall, launch: TunedLaunch, *, more: bool) -> Observed:
    """Return a launch with its space, `more` than the author's configurations in it, and what tells its calls apart."""
    listed = len(launch.configs)
    launch = launch.widened() if more else launch
    space = space_of(launch.tuner, launch.arguments, launch.keywords, launch.configs)
    return Observed(call.name, space, key_of(launch.tuner, space), call.attempt, call.values, listed)
