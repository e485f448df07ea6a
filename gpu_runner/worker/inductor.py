"""Modules that torch's Inductor makes of a reference, one of which was run; else the reason why it makes none."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast
from unittest import mock

import torch
from torch.utils.flop_counter import FlopCounterMode

from forewarp.core.values import Candidate, DeviceKind
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import inductor
from forewarp.gpu_runner.formats.inductor import Generated, Unfit
from forewarp.gpu_runner.worker.check import same_bytes, stretches
from forewarp.gpu_runner.worker.loading import load_problem
from forewarp.gpu_runner.worker.problem import (
    ReferenceFailed,
    copies,
    import_text,
    outputs_of,
    running_reference,
    tensors_of,
)
from forewarp.gpu_runner.worker.requests import SeedsJob, TaskFailure
from forewarp.gpu_runner.worker.rewriting import (
    TUNABLES,
    blocks_per_row,
    product_constraints,
    shared_rows,
    split_products,
    written_out,
)
from forewarp.gpu_runner.worker.tracebacks import first_line, format_error

_SEED = 0
_PRODUCTS, _CONVOLUTIONS = {"mm", "addmm", "bmm", "baddbmm"}, {"convolution", "_convolution"}
_CLOSE = 2e-2
"""rtol and atol of generated code: whether it is the reference's at all; how precise it is, the judge says."""


class _Stop(Exception):
    """Inductor has generated its code: compiling it would only be done again."""


def make_seeds(job: SeedsJob) -> dict[str, list[Candidate]] | TaskFailure:
    """Return modules that Inductor makes of a job's reference, of generated code first, or the reason why not."""
    try:
        with running_reference("the reference"):
            trial = _Trial(job)
    except ReferenceFailed as e:
        return TaskFailure(str(e), status="reference_failed")
    except RuntimeError as e:  # an error of the device, of which only the reference can be the cause here
        return TaskFailure(f"running the reference for it failed: {first_line(e)}", format_error(e, 6)[-4000:])
    reference, kind = job.task.reference, job.device
    try:
        usual = trial.generate(Rewriting())
        found = [trial.checked(usual)]
        for rewriting in trial.rewritings(usual.code):
            with suppress(Exception):  # Inductor raises what it likes
                found.append(trial.checked(trial.generate(rewriting)))
        return {"candidates": [*found, inductor.compiled(reference, kind)]}
    except Exception as e:
        why = _reason(e)
    torch.compiler.reset()
    try:
        made = inductor.compiled(reference, kind, why, gradients=trial.asks_for_gradients)
        trial.check(made, generated=False)
    except Exception as e:
        return TaskFailure(_reason(e), format_error(e, 6)[-4000:])
    return {"candidates": [made]}


@dataclass(frozen=True, slots=True)
class Rewriting:
    """A way to other code: products of fp32 matrices from parts, several `blocks` to a row, or Inductor's options."""

    note: str = ""
    products: bool = False
    blocks: int = 1
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


class _Trial:
    def __init__(self, job: SeedsJob) -> None:
        self._kind: DeviceKind = job.device
        self._reference = job.task.reference
        self._several = len(job.workloads) > 1
        self._problem = load_problem(job, job.workloads[0], _SEED)
        self.asks_for_gradients = bool(self._problem.gradients)
        self._values = self._problem.inputs(_SEED, self._kind)
        values = copies(self._values)
        with FlopCounterMode(display=False) as counted:
            self._result = self._call(self._problem.model(self._kind), values)
        self._channels_last = False
        """True if Inductor put the channels last in the latest code."""
        self._operations = {op.__name__ for op in counted.get_flop_counts().get("Global", {})}
        before_and_after = zip(tensors_of(self._values), tensors_of(values), strict=True)
        self._writes = any(not same_bytes(a, b) for a, b in before_and_after)

    def _call(self, model: Callable[..., Any], values: Sequence[Any]) -> Any:
        torch.manual_seed(_SEED)
        with torch.no_grad():
            return model(*values)

    def rewritings(self, code: str) -> list[Rewriting]:
        """Return the rewritings that may pay on the device, where Inductor's usual code is this."""
        if self._kind == "cpu":
            return []
        found: list[Rewriting] = []
        if self._operations & _PRODUCTS:
            found.append(Rewriting("with products of fp32 matrices from parts in bf16", products=True))
        if self._operations & _CONVOLUTIONS:
            # cuDNN has other algorithms for either layout, which round to TF32 or do not.
            found.append(
                Rewriting("in the reference's own layout", options={"layout_optimization": False})
                if self._channels_last
                else Rewriting("with channels last", options={"force_layout_optimization": True})
            )
        device = torch.cuda.get_device_properties(0)
        if (blocks := blocks_per_row(code, device.L2_cache_size, device.multi_processor_count)) > 1:
            found.append(Rewriting("with rows shared by several blocks", blocks=blocks))
        return found

    def checked(self, generated: Generated) -> Candidate:
        made = inductor.generated(self._reference, self._kind, generated)
        self.check(made, generated=True)
        return made

    def generate(self, rewriting: Rewriting) -> Generated:
        """Have Inductor generate code for the inputs; raises `Unfit` for what that code alone cannot do."""
        if self.asks_for_gradients:
            raise Unfit("the task asks for gradients, and the code is for forward")
        if self._several:
            raise Unfit("the task has several workloads, and the code is for one")
        if self._writes:
            raise Unfit("the reference writes to its inputs")
        model = self._problem.model(self._kind)
        if model._forward_pre_hooks:  # pyright: ignore[reportPrivateUsage]
            raise Unfit("the inputs are nested")
        code, sources, configurations = self._code(model, rewriting)
        names = list(inspect.signature(model.forward).parameters)[: len(self._values)]
        constraints: tuple[str, ...] = ()
        if rewriting.products:
            constraints = product_constraints(torch.cuda.get_device_properties(0).shared_memory_per_block_optin)
        return Generated(
            written_out(code) if rewriting.products else code,
            torch.__version__,
            torch.backends.cpu.get_cpu_capability() if self._kind == "cpu" else str(torch.cuda.get_device_capability()),
            self._problem.constants,
            tuple(names),
            tuple(_expression(s, names) for s in sources),
            tuple(_described(v) for v in self._values),
            _result(self._result),
            model.training,
            torch.get_num_threads(),
            configurations,
            rewriting.note,
            TUNABLES if rewriting.products else {},
            constraints,
        )

    def _code(self, model: torch.nn.Module, rewriting: Rewriting) -> tuple[str, list[str], dict[str, dict[str, int]]]:
        """Return Inductor's code, the sources of its arguments, and its kernels' configurations, run on a GPU."""
        from torch._inductor import config
        from torch._inductor.codecache import PyCodeCache
        from torch._inductor.compile_fx import compile_fx
        from torch._inductor.graph import GraphLowering

        codes: list[str] = []
        sources: list[str] = []
        modules: list[Any] = []
        usual: Callable[..., Any] = PyCodeCache.load_by_key_path
        decide: Callable[..., bool] = GraphLowering.decide_layout_opt

        def load(*args: Any, **more: Any) -> Any:
            modules.append(usual(*args, **more))  # of its own list of modules, Inductor may leave nothing
            return modules[-1]

        def decided(*args: Any, **more: Any) -> bool:
            chosen = decide(*args, **more)
            self._channels_last |= chosen
            return chosen

        def keep(code: str) -> None:
            codes.append(code)
            if self._kind == "cpu":
                raise _Stop

        def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
            sources.extend(_source(n) for n in graph.graph.nodes if n.op == "placeholder")
            return compile_fx(cast("Any", graph), inputs)

        # Caches would not see which decompositions are in force.
        options = {"fallback_random": True, "force_disable_caches": True, "coordinate_descent_tuning": True}
        options |= {"cpp.threads": torch.get_num_threads(), **rewriting.options}
        torch.compiler.reset()
        self._channels_last = False
        call = torch.compile(type(model).forward, backend=backend, dynamic=False, fullgraph=True)
        with ExitStack() as stack:
            stack.enter_context(mock.patch.object(GraphLowering, "save_output_code", keep))
            stack.enter_context(mock.patch.object(GraphLowering, "decide_layout_opt", staticmethod(decided)))
            stack.enter_context(mock.patch.object(PyCodeCache, "load_by_key_path", load))
            stack.enter_context(config.patch(options))
            if rewriting.products:
                stack.enter_context(split_products())
            if rewriting.blocks > 1:
                stack.enter_context(shared_rows(rewriting.blocks))
            try:
                self._call(partial(call, model), copies(self._values))
            except Exception:  # of `_Stop`, Dynamo makes an error of its own
                if self._kind != "cpu" or not codes:
                    raise
        if len(codes) != 1:
            raise Unfit(f"Inductor made {len(codes)} graphs of the reference")
        return codes[0], sources, _configurations(modules) if self._kind == "cuda" else {}

    def check(self, made: Candidate, *, generated: bool) -> None:
        """Run a module, and if `generated` its generated code; raises what it raises, and `Unfit` for other results."""
        module = import_text(candidates.with_chosen(made).source)
        model = self._problem.bind(module, self._kind, self._problem.model(self._kind).state_dict())
        with ExitStack() as stack:
            if generated:
                aside = Unfit("the module does not take its inputs for those that the code was generated for")
                stack.enter_context(mock.patch.object(vars(module)["Model"], "forward", side_effect=aside))
            result = self._call(model, copies(self._values))
        try:
            _assert_close(result, self._result)
        except AssertionError as e:
            raise Unfit(f"the code gives other results than the reference: {first_line(e)}") from None


def _assert_close(result: Any, expected: Any) -> None:
    """Raise AssertionError where results differ; it takes little memory beside them, which may be gigabytes."""
    made, right = outputs_of(result), outputs_of(expected)
    close = partial(torch.testing.assert_close, rtol=_CLOSE, atol=_CLOSE, equal_nan=True)
    close([m.to("meta") for m in made], [r.to("meta") for r in right])  # number, shapes and dtypes
    for one, other in zip(made, right, strict=True):
        for (_, a), (_, b) in zip(stretches(one)(), stretches(other)(), strict=True):
            close(a, b)


def _source(node: torch.fx.Node) -> str:
    argument = node.meta.get("grapharg")
    source: Any = getattr(argument, "source", None)
    if source is None:
        raise Unfit(f"where the code's argument {node.name} comes from is not known")
    return str(source.name() if callable(source.name) else source.name)


def _expression(source: str, names: Sequence[str]) -> str:
    """Return a source as an expression over `self` and the names of forward's parameters.

    Dynamo of torch 2.11 calls a function that is in no file by a wrapper, whose parameters are `*args`.
    """
    called = ["self", *names]

    def name(match: re.Match[str]) -> str:
        if match[1] not in called:
            raise Unfit(f"the code takes {source}, which is no input of forward")
        return match[1]

    def positional(match: re.Match[str]) -> str:
        return f"L['{called[int(match[1])]}']"

    if "args" not in names:
        source = re.sub(r"\bL\['args'\]\[(\d+)\]", positional, source)
    expression = re.sub(r"\bL\['(\w+)'\]", name, source)
    if re.search(r"\bG\[|\b___", expression):
        raise Unfit(f"the code takes {source}, which is neither an input nor a weight")
    return expression


def _described(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    return repr((tuple(value.shape), value.stride(), str(value.dtype), value.device.type, True))


def _result(result: Any) -> str:
    if isinstance(result, torch.Tensor):
        return "outputs[0]"
    if type(result) in (tuple, list) and all(isinstance(r, torch.Tensor) for r in result):
        return f"{type(result).__name__}(outputs[:{len(result)}])"
    raise Unfit(f"forward returns a {type(result).__name__} of more than tensors")


def _configurations(modules: Sequence[Any]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for module in modules:
        for name, kernel in vars(module).items():
            launchers = getattr(kernel, "launchers", None)
            if not launchers or len(launchers) != 1:
                continue
            config = launchers[0].config
            numbers = {k: v for k, v in config.kwargs.items() if type(v) is int}
            found[name] = numbers | {"num_warps": config.num_warps, "num_stages": config.num_stages}
    return found


def _reason(error: BaseException) -> str:
    """Return what stopped Inductor: of wrapped errors the cause that says most."""
    if isinstance(error, Unfit):
        return str(error)
    inner = getattr(error, "inner_exception", None)
    error = inner if isinstance(inner, BaseException) else error
    return f"{type(error).__name__}: {first_line(error)}"
