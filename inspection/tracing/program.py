"""The job that traces a module in a confined child: run it on every workload, and record what it does."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from forewarp.core.values import Signature, Target, TensorSpec, Workload
from forewarp.gpu_runner.worker.channel import Channel
from forewarp.gpu_runner.worker.jobs import watched
from forewarp.gpu_runner.worker.loading import load_problem
from forewarp.gpu_runner.worker.problem import dtype_name, import_text, outputs_of
from forewarp.gpu_runner.worker.requests import JobEnding
from forewarp.inspection.jobs import TraceJob
from forewarp.inspection.tracing import masquerade, triton_driver
from forewarp.inspection.tracing.operators import Operators
from forewarp.inspection.tracing.recorder import Recorder, TooMuch, merge, words
from forewarp.inspection.tracing.values import Strategy, Trace, TracedLaunch, WorkloadTrace

if TYPE_CHECKING:
    from forewarp.inspection.tracing.extensions import Extensions

MOST_BYTES = 1 << 28
"""Inputs, parameters and outputs beyond this are traced by their shapes first: making the values would take seconds."""
_MOST_BYTES_AT_ALL = 2 << 30
PATIENCE = 3
"""Wall-clock limit of a workload as a multiple of its processor-time limit: the machine may be busy."""
_AGAIN_S = 10.0
"""Processor seconds of a first call beyond which there is no second one."""
_CUSTOM = "BackwardCFunction"


class OutOfTime(BaseException):
    """The time for a workload is over. No Exception, so that a module's own `except` does not catch it."""


@dataclass(frozen=True, slots=True)
class TracedRun:
    """A workload traced in one way; `complete` says that the module came to its end."""

    trace: WorkloadTrace
    complete: bool
    repeatable: bool
    """True if the other way to make tensors might go further."""
    refused: bool = False
    """True if it ended at a kernel that could not be launched."""


def trace(job: TraceJob, answer: Channel) -> None:
    """Trace every workload into the job's folder, with its cubins; the module and the reference run here, confined."""

    def save() -> JobEnding:
        folder = Path(job.folder.path)
        use_no_device(folder)
        pairs = zip(job.workloads, job.signatures, strict=True)
        Trace({w.name: trace_workload(job, w, s) for w, s in pairs}).save(folder)
        return JobEnding("ok")

    watched(job.folder, answer, save, "module")


def trace_workload(job: TraceJob, workload: Workload, signature: Signature) -> WorkloadTrace:
    """Trace one workload, with values where they fit, else by shapes; the other way if that does not get through."""
    specs = (*signature.inputs, *signature.params, *signature.outputs)
    size = sum(math.prod(s.shape) * getattr(torch, s.dtype).itemsize for s in specs)
    order: list[Strategy] = ["cpu", "fake"] if size <= MOST_BYTES else ["fake", "cpu"]
    started = time.process_time()
    first = run(job, workload, signature, order[0])
    if first.refused:  # the module does not do without it: go on, to see its other kernels
        first = run(job, workload, signature, order[0], passing=True)
    left = job.workload_s - (time.process_time() - started)
    if first.complete or not first.repeatable or left < 1 or size > _MOST_BYTES_AT_ALL:
        return first.trace
    second = run(replace(job, workload_s=left), workload, signature, order[1], passing=True)
    reach = [len(one.trace.launches) + len(one.trace.calls) for one in (first, second)]
    return second.trace if second.complete or reach[1] > reach[0] else first.trace


def use_no_device(folder: Path) -> None:
    """Keep this process from devices, where somebody may be measuring; temporary files go into the folder's cache."""
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ.pop("TRITON_INTERPRET", None)
    tempfile.tempdir = str(folder / "cache")


def run(
    job: TraceJob, workload: Workload, signature: Signature, strategy: Strategy, *, passing: bool = False
) -> TracedRun:
    """Trace one workload in one way; `passing` over kernels that cannot be launched."""
    recorder = Recorder(Path(job.folder.path))
    complete, repeatable, extensions, refusals = False, False, None, None
    with contextlib.ExitStack() as stack:
        stack.enter_context(within(job.workload_s))
        try:
            extensions = _enter(stack, job, signature.outputs, recorder, strategy)
            with contextlib.suppress(ImportError):
                refusals = stack.enter_context(triton_driver.refusing(recorder, passing=passing))
            _call_twice(job, workload, signature, recorder)
            complete = True
        except OutOfTime:
            recorder.problem(f"{recorder.doing} did not finish within {job.workload_s:.0f} s of processor time")
        except MemoryError:
            recorder.problem(f"{recorder.doing} needs more memory than the trace may take")
            repeatable = True
        except Exception as e:
            recorder.problem(f"{recorder.doing} failed: {words(e)}")
            if refusals is not None and refusals.caused(e):
                return TracedRun(recorder.result(strategy), complete=False, repeatable=False, refused=not passing)
            repeatable = not isinstance(e, TooMuch)
    if extensions is not None and extensions.codes and not any(isinstance(e, TracedLaunch) for e in recorder.events):
        if complete:
            recorder.note("the module builds an extension, and launches none of its kernels")
        else:
            extensions.survey()
            strategy = "source"
    return TracedRun(recorder.result(strategy), complete, repeatable)


def _enter(
    stack: contextlib.ExitStack,
    job: TraceJob,
    outputs: Sequence[TensorSpec],
    recorder: Recorder,
    strategy: Strategy,
) -> Extensions | None:
    """Put everything in place that stands in for a device; return the extensions, if the module may have any."""
    mode = pretend(stack, job.target, recorder)
    extensions = None
    if "cpp_extension" in job.candidate.source:
        try:
            from forewarp.inspection.tracing.extensions import Extensions
        except ModuleNotFoundError as e:
            raise ModuleNotFoundError(
                f"a CUDA extension is read with {e.name}, which {sys.executable} lacks: install tree-sitter and "
                "tree-sitter-cuda there"
            ) from e

        extensions = Extensions(job.target.arch, outputs, recorder)
        stack.enter_context(extensions.installed())
    if strategy == "fake":
        stack.enter_context(masquerade.shapes_only(mode))
    stack.enter_context(Operators(recorder, values=strategy == "cpu"))
    return extensions


def pretend(
    stack: contextlib.ExitStack,
    target: Target,
    recorder: Recorder,
    configurations: int = triton_driver.MOST_CONFIGURATIONS,
) -> masquerade.Masquerade:
    """Put the target in the place of this machine's devices; autotuners try so many configurations."""
    mode = stack.enter_context(masquerade.masquerading(target, recorder))
    with contextlib.suppress(ImportError):
        import triton.runtime

        stand_in: Any = triton_driver.Driver(target, recorder)
        triton.runtime.driver.set_active(stand_in)
        stack.enter_context(triton_driver.trying_all(recorder, configurations))
    return mode


def _call_twice(job: TraceJob, workload: Workload, signature: Signature, recorder: Recorder) -> None:
    """Load the module and call it; what counts is the second call, because the first may prepare things."""
    started = time.process_time()
    with recorder.aside([]):
        problem = load_problem(job, workload, 0)
        call: Callable[..., Any] = problem.bind(import_text(job.candidate.source), "cpu", {})
        values = problem.inputs(1, "cpu")
    recorder.doing = "the module's first call"
    with torch.no_grad():
        result = call(*values)
    _compare(result, signature.outputs, recorder)
    first = list(recorder.events)
    if time.process_time() - started > _AGAIN_S:
        recorder.note("the module was called once only, because that took long; what it prepares is counted in")
        return
    del result, values
    with recorder.aside([]):
        values = problem.inputs(2, "cpu")
    recorder.events.clear()
    recorder.doing = "the module's second call"
    with torch.no_grad():
        call(*values)
    _prepared(first, recorder)


def differentiate(call: Callable[[], Any], values: Sequence[Any]) -> None:
    """Call, with the gradient of the outputs' sum, where a torch.autograd.Function had a part in them."""
    for value in values:
        if isinstance(value, torch.Tensor) and value.is_leaf and value.is_floating_point():
            value.requires_grad_()
    with torch.enable_grad():
        outputs = [t for t in _tensors(call()) if t.requires_grad and _is_custom(t)]
        if outputs:
            loss = sum((t.float().sum() for t in outputs), torch.zeros(()))
            loss.backward()  # pyright: ignore[reportUnknownMemberType]


def _tensors(result: Any) -> list[torch.Tensor]:
    values: list[Any] = list(result) if isinstance(result, tuple | list) else [result]
    return [v for v in values if isinstance(v, torch.Tensor)]


def _is_custom(tensor: torch.Tensor) -> bool:
    """Return whether a torch.autograd.Function had a part in a tensor."""
    waiting, seen = [tensor.grad_fn], set[int]()
    while waiting:
        node: Any = waiting.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if any(k.__name__ == _CUSTOM for k in type(node).__mro__):
            return True
        waiting += [following for following, _ in node.next_functions]
    return False


def _prepared(first: Sequence[Any], recorder: Recorder) -> None:
    """Note which kernels only the first call launched."""
    later = {e.kernel for e in recorder.events if isinstance(e, TracedLaunch)}
    once = [e for e in merge(first) if isinstance(e, TracedLaunch) and e.kernel not in later]
    if once:
        names = ", ".join(dict.fromkeys(e.kernel for e in once))
        recorder.note(f"launched by the first call only: {names}")


def _compare(result: Any, wanted: Sequence[TensorSpec], recorder: Recorder) -> None:
    try:
        found = [(tuple(t.shape), dtype_name(t)) for t in _plain(result)]
    except TypeError as e:
        recorder.problem(str(e))
        return
    if found != [(w.shape, w.dtype) for w in wanted]:
        expected = ", ".join(f"{list(w.shape)} {w.dtype}" for w in wanted)
        returned = ", ".join(f"{list(shape)} {dtype}" for shape, dtype in found)
        recorder.problem(f"forward returned {returned}; the task returns {expected}")


def _plain(result: Any) -> list[torch.Tensor]:
    """Return the outputs; without values, tensors are of a class of their own, which `outputs_of` does not know."""
    values: list[Any] = list(result) if isinstance(result, tuple | list) else [result]
    return values if values and len(_tensors(values)) == len(values) else outputs_of(result)


@contextlib.contextmanager
def within(seconds: float) -> Generator[None]:
    """Raise `OutOfTime`, again and again, after so many seconds of processor time, or three times that by the clock."""

    def over(number: int, frame: Any) -> None:
        del number, frame
        raise OutOfTime

    timers = ((signal.ITIMER_PROF, signal.SIGPROF, 1), (signal.ITIMER_REAL, signal.SIGALRM, PATIENCE))
    before = [signal.signal(number, over) for _, number, _ in timers]
    for timer, _, factor in timers:
        signal.setitimer(timer, max(0.1, factor * seconds), 5.0)
    try:
        yield
    finally:
        for timer, _, _ in timers:
            signal.setitimer(timer, 0)
        for (_, number, _), handler in zip(timers, before, strict=True):
            signal.signal(number, handler)


def run_bounded(
    doing: str, work: Callable[[], object], seconds: float, *, enough: type[BaseException] | tuple[()] = ()
) -> str:
    """Do a named action in so many seconds of processor time; return what went wrong, "" if `enough` ended it."""
    try:
        with within(seconds), torch.enable_grad():
            work()
    except enough:
        return ""
    except OutOfTime:
        return f"{doing} did not finish within {seconds:.0f} s of processor time"
    except MemoryError:
        return f"{doing} needs more memory than it may take"
    except TooMuch as e:
        return f"{doing} makes {e}"
    except (Exception, SystemExit) as e:
        return f"{doing}: {words(e)}"
    return ""
