"""The job that traces a file without a task: in a confined child, find calls of its kernels and record them."""

from __future__ import annotations

import ast
import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from forewarp.core.errors import UsageError
from forewarp.gpu_runner.worker.channel import Channel
from forewarp.gpu_runner.worker.jobs import watched
from forewarp.gpu_runner.worker.requests import JobEnding
from forewarp.inspection.jobs import TraceFileJob
from forewarp.inspection.tracing.files import calls, kernels, loading
from forewarp.inspection.tracing.files.kernels import FileText
from forewarp.inspection.tracing.operators import Operators
from forewarp.inspection.tracing.program import PATIENCE, differentiate, pretend, run_bounded, use_no_device
from forewarp.inspection.tracing.recorder import Recorder
from forewarp.inspection.tracing.triton_driver import Refusals, refusing
from forewarp.inspection.tracing.values import IMPORT, NOT_LAUNCHED, FileKernel, Trace, WorkloadTrace

CALL_S = 10.0
"""Most seconds of processor time for one call."""
_MOST_CALLS = 12
_CONFIGURATIONS = 3
"""Tried configurations of an autotuned kernel; a file may have many, and only a run tells the fastest."""


def run(job: TraceFileJob, answer: Channel) -> None:
    """Trace the kernels of a file, confined: the file runs here."""
    watched(job.folder, answer, lambda: _trace(job), "module")


def _trace(job: TraceFileJob) -> JobEnding:
    """Write the trace of the file and its cubins into the job's folder."""
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
    """Traces what the file does by itself, until every kernel is there, or the call that is named."""

    refusals: Refusals

    def __init__(self, job: TraceFileJob, folder: Path) -> None:
        self.file = job.file
        self.recorder, self.folder = Recorder(folder), folder
        self.found: dict[str, WorkloadTrace] = {}
        self.text = FileText({}, ())
        self._until, self._deadline = (now() + job.limit_s for now in (time.process_time, time.monotonic))
        self._deadline += (PATIENCE - 1) * job.limit_s
        self._origins: dict[str, str] = {}

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
            self._named_call(loaded.module, self.file.call)
        else:
            self._own_calls(loaded)

    def kernels(self) -> tuple[FileKernel, ...]:
        """Return the state of each kernel of the file, and of those of others that it launched."""
        lines = {name: self.text.jitted[name].line for name in self.text.kernels}
        reasons = self.refusals.reasons
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
        """Do a call, with its gradient where one is asked for."""
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

    def _named_call(self, module: Any, text: str) -> None:
        """Do the call that the user named."""
        problem = ""
        try:
            call = calls.NamedCall(module, text)
        except UsageError as e:
            problem = e.message
        else:
            made: list[tuple[Callable[[], object], list[torch.Tensor]]] = []
            problem = self._bounded(f"arguments for {text}", lambda: made.append(call.make()))
            for do, tensors in made:
                self.recorder.take("cpu")
                problem = self._bounded(text, lambda d=do, t=tensors: self._with_gradient(d, t))
        if problem:
            self.recorder.problem(problem)
        self._keep(text, always=True)


def _compiled(trace: WorkloadTrace) -> list[str]:
    """Return the kernels that were launched and compiled, each once."""
    return list(dict.fromkeys(e.kernel for e in (*trace.launches, *trace.backward) if e.cubin))
