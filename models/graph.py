"""A model as a straight line of Python statements, by torch.export, each of them tried."""

from __future__ import annotations

import io
import logging
import math
import operator
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch._ops import HigherOrderOperator
from torch.utils import _pytree as pytree

from forewarp.core.values import Operation
from forewarp.gpu_runner.worker.nest import storage_of
from forewarp.gpu_runner.worker.operations import Seen
from forewarp.gpu_runner.worker.problem import ReferenceFailed
from forewarp.gpu_runner.worker.tracebacks import first_line
from forewarp.models.jobs import ModelGraph, Statement


class NoGraph(ReferenceFailed):
    """The model runs, but its graph cannot be written out."""


MOST_CONSTANT = 1024
"""Elements of a tensor that a model makes of literals."""
_INFIX = {"add.Tensor": "+", "sub.Tensor": "-", "mul.Tensor": "*", "div.Tensor": "/", "matmul.default": "@"}
GLOBALS: dict[str, Any] = {"torch": torch, "F": F}
"""Names that statements may use beside those of values."""


@dataclass(frozen=True, slots=True)
class ValueFacts:
    """A value's memory by its owner, bytes, shape, stride and dtype, and the operations that make it."""

    base: str
    size: int
    spec: tuple[Any, ...]
    operation: str = ""
    operations: tuple[Operation, ...] = ()
    random: bool = False


@dataclass(slots=True)
class RecordedGraph:
    """A model's graph with facts by name, and the values of weights and constants by name."""

    graph: ModelGraph
    facts: dict[str, ValueFacts]
    held: dict[str, torch.Tensor]


def record(model: torch.nn.Module, args: Sequence[Any]) -> RecordedGraph:
    """Export a model called with `args` and run its graph once; raises `NoGraph` where that cannot be done."""
    program, asks = _exported(model, tuple(args))
    signature = program.graph_signature
    state = {**program.state_dict, **program.constants}
    inputs: list[str] = []
    weights: dict[str, str] = {}
    constants: dict[str, str] = {}
    held: dict[str, torch.Tensor] = {}
    for spec in signature.input_specs:
        name, kind = spec.arg.name, spec.kind.name
        if kind == "USER_INPUT":
            inputs.append(name)
        elif kind in ("PARAMETER", "BUFFER"):
            weights[name], held[name] = str(spec.target), cast("torch.Tensor", state[str(spec.target)]).detach()
        elif kind == "CONSTANT_TENSOR":
            held[name] = cast("torch.Tensor", state[str(spec.target)])
            if held[name].numel() > MOST_CONSTANT and _is_attribute(model, str(spec.target)):
                weights[name] = str(spec.target)  # such as a table of positions
            else:
                constants[name] = _constant(held[name])
        else:
            raise NoGraph(f"the model holds a {kind.lower().replace('_', ' ')}, which cannot be written out")
    order = {node: place for place, node in enumerate(program.graph.nodes)}
    recorder = _Recorder({**held, **dict(zip(inputs, pytree.tree_leaves(tuple(args)), strict=True))}, order)
    for node in program.graph.nodes:
        if node.op not in ("placeholder", "output") and "._assert" not in str(node.target):
            recorder.add(node)
    returned = next(n for n in reversed(program.graph.nodes) if n.op == "output").args[0]
    result: list[str] = []
    for spec, value in zip(signature.output_specs, returned, strict=True):
        if spec.kind.name == "USER_OUTPUT":
            result.append(_form(value))
        elif spec.kind.name == "BUFFER_MUTATION":
            name = next(n for n, path in weights.items() if path == spec.target)
            recorder.statements.append(Statement("", f"{name}.copy_({value.name})", (name, str(value.name)), "change"))
        else:
            raise NoGraph("the model writes to its inputs, so its graph is no function of them")
    out = program.call_spec.out_spec
    nest = "" if out is None or out.is_leaf() else pytree.treespec_dumps(out)
    described = tuple(
        [tuple(v.shape), str(v.dtype)] if isinstance(v, torch.Tensor) else v for v in pytree.tree_leaves(tuple(args))
    )
    graph = ModelGraph(
        *(tuple(recorder.statements), tuple(inputs), weights, constants, tuple(result), nest, described),
        training=model.training if asks and not _is_same_in_other_mode(program, model, tuple(args)) else None,
    )
    return RecordedGraph(graph, recorder.facts, held)


def _is_same_in_other_mode(
    program: torch.export.ExportedProgram, model: torch.nn.Module, args: tuple[Any, ...]
) -> bool:
    modes = {module: module.training for module in model.modules()}
    try:
        other, _ = _exported(model.train(not model.training), args)
    except NoGraph:
        return False
    finally:
        for module, training in modes.items():
            module.training = training
    return (str(other.graph), other.graph_signature) == (str(program.graph), program.graph_signature)


def _exported(model: torch.nn.Module, args: tuple[Any, ...]) -> tuple[torch.export.ExportedProgram, bool]:
    """Return a model's graph, and whether its modules may have looked in which mode they are: most never do."""
    problems: list[str] = []
    for strict in (False, True):
        try:
            with _silence(), nullcontext([True]) if strict else _looks_at_mode(model) as looks:
                # With no decompositions it stays as the model wrote it, but writes to no value.
                return torch.export.export(model, args, strict=strict).run_decompositions({}), bool(looks)
        except Exception as e:  # export raises whatever the model makes of values that are not there
            problems.append(f"{type(e).__name__}: {first_line(e)}")
    raise NoGraph(
        "torch.export makes no graph of the model, such as where the elements of tensors decide what is computed: "
        + "; ".join(dict.fromkeys(problems))
    )


@contextmanager
def _looks_at_mode(model: torch.nn.Module) -> Generator[list[bool]]:
    """Give a list that is not empty once code may have looked at the `training` of one of the model's modules."""
    modules = {id(m) for m in model.modules()}
    looks = [True for m in model.modules() if type(m).train is not torch.nn.Module.train]  # where it may keep its own

    def read(module: torch.nn.Module) -> bool:
        looks.extend([True] * (id(module) in modules))
        return module.__dict__["training"]

    def write(module: torch.nn.Module, mode: bool) -> None:
        module.__dict__["training"] = mode

    torch.nn.Module.training = property(read, write)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield looks
    finally:
        del torch.nn.Module.training


@contextmanager
def _silence() -> Generator[None]:
    """Keep torch from logging and printing whole graphs; what it raises says what was wrong."""
    logging.disable(logging.WARNING)
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.disable(logging.NOTSET)


def _is_attribute(model: torch.nn.Module, path: str) -> bool:
    """Return whether a module of the model holds a tensor by this path, buffer or not."""
    owner, _, name = path.rpartition(".")
    try:
        return isinstance(getattr(model.get_submodule(owner), name, None), torch.Tensor)
    except AttributeError:
        return False


def _constant(tensor: torch.Tensor) -> str:
    if tensor.numel() > MOST_CONSTANT:
        return ""
    return f"torch.tensor({_form(tensor.tolist())}, dtype={tensor.dtype})"


class GraphProgram:
    """The statements of a graph, compiled to be run."""

    def __init__(self, graph: ModelGraph) -> None:
        self._statements = [
            (s, compile(s.text, "<graph>", "exec" if s.kind == "change" else "eval")) for s in graph.statements
        ]
        last: dict[str, int] = {}
        for index, (s, _) in enumerate(self._statements):
            last |= dict.fromkeys((*s.uses, s.name), index)
        self._dying: list[list[str]] = [[] for _ in self._statements]
        for name, index in last.items():
            if name and name not in graph.result:
                self._dying[index].append(name)

    def run(
        self,
        values: Mapping[str, Any],
        around: Callable[[int], AbstractContextManager[Any]] = lambda _: nullcontext(),
        made: Callable[[str, Any], None] | None = None,
    ) -> None:
        """Run all statements but changes of buffers, each within `around`; `made` gets what it makes."""
        env = dict(values)
        for index, (statement, code) in enumerate(self._statements):
            if statement.kind == "change":
                continue
            with around(index):
                env[statement.name] = eval(code, GLOBALS, env)
            if made is not None:
                made(statement.name, env[statement.name])
            for name in self._dying[index]:
                env.pop(name, None)


class _Recorder:
    """Runs nodes one by one, in the most readable form that gives what the operation gives."""

    def __init__(self, values: Mapping[str, Any], order: Mapping[torch.fx.Node, int]) -> None:
        self._env, self._order = dict(values), order
        self.statements: list[Statement] = []
        self.facts = {name: _facts(name, value) for name, value in values.items()}

    def add(self, node: torch.fx.Node) -> None:
        if node.op != "call_function" or isinstance(node.target, HigherOrderOperator):
            raise NoGraph(
                f"the model has {node.target}, an operation that holds a graph of its own, which cannot be written out"
            )
        uses = tuple(dict.fromkeys(str(n.name) for n in node.all_input_nodes))
        seen = Seen(sizes=True)
        attention = "scaled_dot_product" in str(node.target)
        given = pytree.tree_map_only(torch.fx.Node, lambda n: self._env[n.name], (node.args, node.kwargs))
        run = cast("Callable[..., Any]", node.target)
        with seen:
            if attention:
                with seen.as_one("scaled_dot_product_attention", "attention", given) as results:
                    results.append(run(*given[0], **given[1]))
                value = results[0]
            else:
                value = run(*given[0], **given[1])
        text = self._text(node, value, fixed=bool(seen.random))
        name = str(node.name)
        self._env[name] = value
        base = self._base(value, uses)
        if base is None or (node.target is operator.getitem and self.facts[uses[0]].base == uses[0]):
            base = name  # of an operation with several results, each is a value of its own
        operation = "" if node.target is operator.getitem else str(node.target).split(".")[-2]
        self.facts[name] = _facts(base, value, operation, seen.operations, random=bool(seen.random))
        self.statements.append(Statement(name, text, uses, "value" if base == name else "view"))
        for used in node.all_input_nodes:
            if used.op == "call_function" and max(used.users, key=self._order.__getitem__) is node:
                del self._env[used.name]

    def _base(self, value: Any, uses: Sequence[str]) -> str | None:
        """Return the owner of the memory that a value shares with what it was made of; None if it shares none."""
        made = {storage_of(t) for t in pytree.tree_leaves(value) if isinstance(t, torch.Tensor)}
        for name in uses:
            if made & {storage_of(t) for t in pytree.tree_leaves(self._env[name]) if isinstance(t, torch.Tensor)}:
                return self.facts[name].base
        return None

    def _text(self, node: torch.fx.Node, value: Any, *, fixed: bool) -> str:
        *readable, exact = _texts(node)
        for text in [] if fixed else readable:
            try:
                if _same(eval(text, GLOBALS, self._env), value):
                    return text
            except Exception:  # another order of arguments, or no such function
                continue
        return exact


def _texts(node: torch.fx.Node) -> Iterator[str]:
    """Yield ways to write a node's operation, the most readable first, the exact one last."""
    args = [_form(a) for a in node.args]
    if node.target is operator.getitem:
        yield f"{args[0]}[{args[1]}]"
        return
    named = [f"{k}={_form(v)}" for k, v in node.kwargs.items() if v is not None]
    target = str(node.target).removeprefix("aten.")  # such as add.Tensor
    name = target.partition(".")[0]
    if (sign := _INFIX.get(target)) and len(args) == 2 and not named:
        yield f"{args[0]} {sign} {args[1]}"
    called = ", ".join([*args, *named])
    if hasattr(F, name):
        yield f"F.{name}({called})"
    if hasattr(torch.Tensor, name) and node.args and isinstance(node.args[0], torch.fx.Node):
        yield f"{args[0]}.{name}({', '.join([*args[1:], *named])})"
    if hasattr(torch, name):
        yield f"torch.{name}({called})"
    yield f"torch.ops.{node.target}({called})"


def _form(value: Any) -> str:
    """Return an argument as an expression; raises `ReferenceFailed`."""
    if isinstance(value, torch.fx.Node):
        return str(value.name)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_form, cast('list[Any]', value)))}]"
    if isinstance(value, torch.device):
        return f'torch.device("{value.type}")'
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if value is None or isinstance(value, bool | int | float | str | torch.dtype | torch.layout | torch.memory_format):
        return repr(value)
    kind = type(value).__name__
    raise NoGraph(f"an operation of the model takes a {kind}, which cannot be written out")


def _same(one: Any, other: Any) -> bool:
    ones, others = pytree.tree_leaves(one), pytree.tree_leaves(other)
    if len(ones) != len(others):
        return False
    for a, b in zip(ones, others, strict=True):
        if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
            return bool(a == b)
        if (a.shape, a.stride(), a.dtype, a.device) != (b.shape, b.stride(), b.dtype, b.device):
            return False
        if not torch.equal(a.nan_to_num(), b.nan_to_num()) if a.is_floating_point() else not torch.equal(a, b):
            return False
    return True


def _facts(
    base: str, value: Any, operation: str = "", operations: tuple[Operation, ...] = (), *, random: bool = False
) -> ValueFacts:
    tensors = [t for t in pytree.tree_leaves(value) if isinstance(t, torch.Tensor)]
    size = value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 0
    spec = tuple((tuple(t.shape), t.stride(), str(t.dtype)) for t in tensors)
    return ValueFacts(base, size, spec, operation, operations, random)
