"""The job that traces a file without a task: in a confined child, find calls of its kernels and record them."""

from __future__ import annotations

import ast
import contextlib
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from forewarp.gpu_runner.worker.channel import Channel
from forewarp.gpu_runner.worker.jobs import watched
from forewarp.gpu_runner.worker.requests import JobEnding
from forewarp.inspection.jobs import TraceFileJob
from forewarp.inspection.tracing.files import arguments, calls, kernels, loading
from forewarp.inspection.tracing.files.arguments import ArgumentGuess, Tensor
from forewarp.inspection.tracing.files.kernels import FileText, KernelText
from forewarp.inspection.tracing.operators import Operators
from forewarp.inspection.tracing.program import PATIENCE, differentiate, pretend, run_bounded, use_no_device
from forewarp.inspection.tracing.recorder import Recorder
from forewarp.inspection.tracing.triton_driver import Refusals, refusing
from forewarp.inspection.tracing.values import IMPORT, NOT_LAUNCHED, FileKernel, Trace, WorkloadTrace

CALL_S = 10.0
"""Most seconds of processor time for one call."""
GUESSED = "guessed arguments"
_MOST_CALLS = 12
_CONFIGURATIONS = 3
"""Tried configurations of an autotuned kernel; a file may have many, and only a run tells the fastest."""


def run(job: TraceFileJob, answer: Channel) -> None:
    watched(job.folder, answer, lambda: _trace(job), "module")


def _trace(job: TraceFileJob) -> JobEnding:
    folder = Path(job.folder.path)
    use_no_device(folder)
    loading.pretend_programs(folder / "cache" / "bin")
    loading.pretend_locks()
    tracer = _Tracer(job, folder)
    with contextlib.ExitStack() as stack:
        pretend(stack, job.target, tracer.recorder, _CONFIGURATIONS)
        tracer.refusals = stack.enter_context(refusing(tracer.recorder, passing=True))
        stack.enter_context(Operators(tracer.recorder, values=True))
        tracer.run()
    tracer.save()
    return JobEnding("ok")


class _Tracer:
    """Traces what the file does by itself, then guessed calls, until every kernel is there."""

    refusals: Refusals

    def __init__(self, job: TraceFileJob, folder: Path) -> None:
        self.file = job.file
        self.given = arguments.parse(self.file.arguments)
        self.recorder, self.folder = Recorder(folder), folder
        self.found: dict[str, WorkloadTrace] = {}
        self.text = FileText({}, ())
        self._until, self._deadline = (now() + job.limit_s for now in (time.process_time, time.monotonic))
        self._deadline += (PATIENCE - 1) * job.limit_s
        self._origins: dict[str, str] = {}
        self._tried: dict[str, str] = {}
        self._in_vain: list[str] = []

    def run(self) -> None:
        try:
            self.text = kernels.read(ast.parse(self.file.source))
            loaded = loading.load(self.file, self._bounded)
        except SyntaxError as e:
            self.recorder.problem(f"SyntaxError (line {e.lineno}): {e.msg}")
            self._keep(IMPORT, always=True)
            return
        for problem in loaded.problems:
            self.recorder.problem(problem)
        self._keep(IMPORT, always=bool(loaded.problems))
        if self.file.call:
            self._guess(loaded, self.file.call)
        else:
            self._own_calls(loaded)
            self._guessed_calls(loaded)
        self._compile_alone(loaded.module)
        if not self._origins:  # what was tried in vain is of interest only where nothing else came of the file
            first = self.found.get(IMPORT, WorkloadTrace("cpu"))
            said = dict.fromkeys((*first.problems, *self._in_vain))
            self.found[IMPORT] = replace(first, problems=tuple(said))

    def kernels(self) -> tuple[FileKernel, ...]:
        """Return the state of each kernel of the file, and of those of others that it launched."""
        lines = {name: self.text.jitted[name].line for name in self.text.kernels}
        reasons = self._tried | self.refusals.reasons
        return tuple(
            FileKernel(name, lines.get(name, 0), self._origins[name])
            if name in self._origins
            else FileKernel(name, lines.get(name, 0), reason=reasons.get(name, NOT_LAUNCHED))
            for name in dict.fromkeys((*lines, *self._origins, *reasons))
        )

    def _bounded(self, doing: str, work: Callable[[], object]) -> str:
        """Run `work` within its time; return what went wrong."""
        left = min(self._until - time.process_time(), (self._deadline - time.monotonic()) / PATIENCE)
        seconds = min(CALL_S, left)
        if seconds <= 0.1:
            return f"{doing} was left out: the time is over"
        return run_bounded(doing, work, seconds)

    def _missing(self) -> list[str]:
        return [name for name in self.text.kernels if name not in self._origins]

    def _keep(self, name: str, *, always: bool = False) -> None:
        """Keep the recorded events under a name if there is a launch among them."""
        taken = self.recorder.take("cpu")
        if always or _compiled(taken):
            self._add(name, taken)

    def _add(self, name: str, taken: WorkloadTrace) -> None:
        self.found[name] = taken
        self._origins |= {k: name for k in _compiled(taken) if k not in self._origins}
        self.save()

    def save(self) -> None:
        """Write the trace so far: a compiler that does not let itself be stopped may cost this process its life."""
        Trace(self.found, kernels=self.kernels()).save(self.folder)

    def _own_calls(self, loaded: loading.LoadedFile) -> None:
        model = calls.of_model(loaded.module)
        if model is not None:
            self._call("ModelNew" if hasattr(loaded.module, "ModelNew") else "Model", model)
        if self._wanting() and loading.has_main(loaded):
            problem = loading.run_main(loaded, self._bounded)
            if problem:
                self.recorder.problem(problem)
            self._keep("__main__")
        for name, call in list(calls.own_calls(loaded.module, loaded.tree).items())[:_MOST_CALLS]:
            if self._wanting():
                self._call(name, call)

    def _wanting(self) -> bool:
        return bool(self._missing()) or not self._origins

    def _call(self, name: str, call: Callable[[], object]) -> None:
        problem = self._bounded(name, lambda: self._with_gradient(call, ()))
        if problem:
            self.recorder.problem(problem)
        self._keep(name)

    def _with_gradient(self, call: Callable[[], object], values: Sequence[Any]) -> None:
        wanted = self.file.backward
        if wanted is False or (wanted is None and "autograd" not in self.file.source):
            call()
        else:
            differentiate(call, values, self.recorder, every=bool(wanted), keep=True)

    def _guessed_calls(self, loaded: loading.LoadedFile) -> None:
        tried: set[str] = set()
        while self._wanting():
            wanted = self._missing() or list(self.text.jitted)
            names = [n for n in self.text.reaching(wanted) if n not in tried]
            if not names or len(tried) >= 2 * _MOST_CALLS:
                return
            tried.add(names[0])
            self._guess(loaded, names[0])

    def _guess(self, loaded: loading.LoadedFile, name: str) -> None:
        """Call a function with guessed arguments, another guess at a time until it goes through."""
        wrappers = calls.Wrappers(loaded.module, loaded.tree, self.text, self.given)
        best: tuple[int, WorkloadTrace, str] | None = None
        for attempt in arguments.CALL_ATTEMPTS:
            made: list[calls.Guess | None] = []
            making = self._bounded(f"arguments for {name}", lambda m=made, a=attempt: m.append(wrappers.guess(name, a)))
            guess = made[0] if made else None
            if guess is None:
                if making:
                    self._tried[name] = making
                if name == self.file.call:
                    self.recorder.problem(making or f"{name} is no function or class of the file")
                    self._keep(name, always=True)
                return
            self.recorder.take("cpu")
            problem = self._bounded(guess.name, lambda g=guess: self._with_gradient(g.call, g.values))
            if problem:
                self.recorder.problem(problem)
            taken = self.recorder.take("cpu")
            if best is None or len(_compiled(taken)) > best[0]:
                best = len(_compiled(taken)), taken, guess.name
            if not problem:
                break
        if best is not None and (best[0] or name == self.file.call):
            self._add(best[2], best[1])
        elif best is not None:
            self._in_vain += best[1].problems

    def _compile_alone(self, module: Any) -> None:
        """Compile the kernels that no call reached, for guessed arguments; their grids stay unknown."""
        for name in self._missing():
            kernel = _jitted(getattr(module, name, None))
            if kernel is None:
                self._tried.setdefault(name, f"{NOT_LAUNCHED}: the file has no such kernel at its top level")
                continue
            reasons: list[str] = []
            for attempt in arguments.KERNEL_ATTEMPTS:
                problem = self._bounded(
                    name, lambda k=kernel, n=name, a=attempt: self._alone(*k, self.text.jitted[n], a)
                )
                if name in self.refusals.reasons:
                    problem = self.refusals.reasons.pop(name)
                if not problem or "time is over" in problem:
                    break
                reasons.append(problem)
                self.recorder.problems.clear()
            if reasons:
                self._tried[name] = f"with guessed arguments: {reasons[0]}"
        taken = self.recorder.take("cpu")
        launches = tuple(replace(e, grid=None, bytes=0) for e in taken.launches if e.cubin)
        if launches:
            self._add(GUESSED, replace(taken, launches=launches, problems=(), calls=()))

    def _alone(
        self, function: Any, options: dict[str, Any], rules: Mapping[str, Any], text: KernelText, attempt: ArgumentGuess
    ) -> None:
        import triton.language as tl

        sizes = [p for p in text.parameters if p.constexpr and "BLOCK" in p.name.upper()]
        options = dict(options)
        values: dict[str, Any] = {}
        for p in text.parameters:
            if p.name in self.given:
                value = self.given[p.name]
                values[p.name] = arguments.make(value, p.name) if isinstance(value, Tensor) else value
            elif p.name in options:
                values[p.name] = options.pop(p.name)
            elif p.name in rules:
                continue
            elif p.default:
                values[p.name] = inspect.signature(function.fn).parameters[p.name].default
            elif p.constexpr:
                value = arguments.constant(p.name, attempt, tiles=text.tiles, blocks=len(sizes))
                is_type = isinstance(value, str) and value.startswith("dtype:")
                values[p.name] = getattr(tl, value.removeprefix("dtype:")) if is_type else value
            elif p.name in text.pointers:
                dtype = arguments.pointer(p.name, attempt, index=p.name in text.indices)
                values[p.name] = torch.empty(4096, dtype=getattr(torch, dtype))
            else:
                values[p.name] = arguments.scalar(p.name, p.annotation, attempt)
        for name, rule in rules.items():
            values[name] = rule({**values, **options})
        values |= {n: v for n, v in options.items() if v is not None}
        function.run(grid=(1,), warmup=False, **values)


def _compiled(trace: WorkloadTrace) -> list[str]:
    """Return the kernels that were launched and compiled, each once."""
    return list(dict.fromkeys(e.kernel for e in (*trace.launches, *trace.backward) if e.cubin))


def _jitted(value: Any) -> tuple[Any, dict[str, Any], dict[str, Any]] | None:
    """Return the JITFunction under a kernel's decorators, an autotuner's first configuration, and heuristics."""
    from triton.runtime.autotuner import Autotuner, Heuristics
    from triton.runtime.jit import JITFunction

    options: dict[str, Any] = {}
    rules: dict[str, Any] = {}
    for _ in range(8):
        if isinstance(value, JITFunction):
            return value, options, rules
        if isinstance(value, Autotuner) and value.configs:
            options |= value.configs[0].all_kwargs()
        if isinstance(value, Heuristics):
            rules |= value.values
        value = getattr(value, "fn", None)
    return None
